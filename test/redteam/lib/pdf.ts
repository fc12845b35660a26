/** PDF files: one as a scanner writes them, and ones that lie about their length. */

/** So many pages, each an image of so many bytes, with a cross-reference table that is right. */
export function scan(pages: number, bytesPerPage: number): Buffer {
  const parts: Buffer[] = []
  const offsets: number[] = []
  let size = 0
  const put = (part: Buffer) => {
    parts.push(part)
    size += part.length
  }
  const object = (id: number, text: string, stream?: Buffer) => {
    offsets[id] = size
    put(Buffer.from(`${id} 0 obj\n${text}\n`))
    if (stream !== undefined) {
      put(Buffer.from("stream\n"))
      put(stream)
      put(Buffer.from("\nendstream\n"))
    }
    put(Buffer.from("endobj\n"))
  }
  put(Buffer.from("%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", "latin1"))
  const kids = Array.from({ length: pages }, (_, page) => `${3 + page * 3} 0 R`).join(" ")
  object(1, "<< /Type /Catalog /Pages 2 0 R >>")
  object(2, `<< /Type /Pages /Kids [${kids}] /Count ${pages} >>`)
  for (let page = 0; page < pages; page++) {
    const id = 3 + page * 3
    object(
      id,
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents ${id + 1} 0 R /Resources << /XObject << /Im ${id + 2} 0 R >> >> >>`,
    )
    const draw = Buffer.from("q 595 0 0 842 0 0 cm /Im Do Q")
    object(id + 1, `<< /Length ${draw.length} >>`, draw)
    const image = noise(bytesPerPage)
    object(
      id + 2,
      `<< /Type /XObject /Subtype /Image /Width 1654 /Height 2339 /ColorSpace /DeviceGray /BitsPerComponent 8 /Filter /DCTDecode /Length ${image.length} >>`,
      image,
    )
  }
  const table = size
  const count = 3 + pages * 3
  const entries = Array.from(
    { length: count - 1 },
    (_, at) => `${String(offsets[at + 1]).padStart(10, "0")} 00000 n \n`,
  )
  put(Buffer.from(`xref\n0 ${count}\n0000000000 65535 f \n${entries.join("")}`))
  put(Buffer.from(`trailer\n<< /Size ${count} /Root 1 0 R >>\nstartxref\n${table}\n%%EOF\n`))
  return Buffer.concat(parts)
}

/** Megabytes that begin as a PDF of one page, and are none that can be read. */
export function onePageInName(bytes: number): Buffer {
  return Buffer.concat([Buffer.from("%PDF-1.7\n/Type /Page\n"), noise(bytes)])
}

/** A file that is right in all but its page tree, which says one page where there are many. */
export function understated(pages: number): Buffer {
  const text = scan(pages, 2_000).toString("latin1")
  const kids = /\/Kids \[[^\]]*\] \/Count \d+/.exec(text)?.[0] ?? ""
  return Buffer.from(text.replace(kids, `/Kids [3 0 R] /Count 1${" ".repeat(Math.max(0, kids.length - 24))}`), "latin1")
}

function noise(bytes: number): Buffer {
  const block = Buffer.alloc(bytes)
  let state = 0x9e3779b9
  for (let at = 0; at < bytes; at++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    block[at] = state >>> 24
  }
  return block
}
