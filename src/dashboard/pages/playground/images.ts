/**
 * Images that a person attaches, as `data:` addresses. A large one is made smaller here, in the browser: models look at no more
 * pixels than `EDGE`, and each would be sent again with every further question.
 */

/** Of one message, and of a conversation: what is asked later brings all images along. */
export const MOST_IMAGES = 4
export const MOST_IN_CONVERSATION = 12

/** Pixels of the longer side. */
const EDGE = 1_568
/** Bytes of a file that is read at all, and of one that is sent as it is. */
const MOST_BYTES = 20 * 1024 * 1024
const SMALL_BYTES = 400 * 1024
const JPEG_QUALITY = 0.85

export const IMAGE_TYPES = ["image/png", "image/jpeg", "image/webp", "image/gif"] as const

/** Undefined where it is no such image, or too large to be read. */
export async function imageOf(file: File): Promise<string | undefined> {
  if (!(IMAGE_TYPES as readonly string[]).includes(file.type) || file.size > MOST_BYTES) return undefined
  let bitmap: ImageBitmap
  try {
    bitmap = await createImageBitmap(file)
  } catch {
    return undefined
  }
  try {
    const { width, height } = bitmap
    const scale = Math.min(1, EDGE / Math.max(width, height))
    if (scale === 1 && file.size <= SMALL_BYTES) return await addressOf(file)
    const canvas = new OffscreenCanvas(Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale)))
    const context = canvas.getContext("2d")
    if (context === null) return undefined
    // JPEG has no transparency, and would show it black.
    context.fillStyle = "#fff"
    context.fillRect(0, 0, canvas.width, canvas.height)
    context.drawImage(bitmap, 0, 0, canvas.width, canvas.height)
    return await addressOf(await canvas.convertToBlob({ type: "image/jpeg", quality: JPEG_QUALITY }))
  } finally {
    bitmap.close()
  }
}

const addressOf = (blob: Blob): Promise<string> =>
  new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.addEventListener("load", () => resolve(reader.result as string))
    reader.addEventListener("error", () => reject(reader.error ?? new Error("unreadable")))
    reader.readAsDataURL(blob)
  })
