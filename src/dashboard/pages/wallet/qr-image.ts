/** The QR code as a picture that other apps can read: white around it, and large enough to be scanned from a gallery. */

const SIDE_PX = 1_024

export const svgAddress = (svg: string): string =>
  // Without a size of its own it cannot be drawn everywhere.
  `data:image/svg+xml,${encodeURIComponent(svg.replace("<svg ", `<svg width="${SIDE_PX}" height="${SIDE_PX}" `))}`

export async function qrPng(svg: string): Promise<Blob> {
  const image = new Image()
  image.src = svgAddress(svg)
  await image.decode()
  const canvas = document.createElement("canvas")
  canvas.width = SIDE_PX
  canvas.height = SIDE_PX
  const context = canvas.getContext("2d")
  if (context === null) throw new Error("no canvas")
  context.fillStyle = "#ffffff"
  context.fillRect(0, 0, SIDE_PX, SIDE_PX)
  context.drawImage(image, 0, 0, SIDE_PX, SIDE_PX)
  return await new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob === null ? reject(new Error("no picture")) : resolve(blob)), "image/png")
  })
}

export function save(file: Blob, name: string): void {
  const link = document.createElement("a")
  link.href = URL.createObjectURL(file)
  link.download = name
  link.click()
  // The download has taken it by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}
