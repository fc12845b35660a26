/** Measures one PDF at a time, or draws one paper, in a thread of its own, which is ended when one takes too long. */
import { measurePdf, type PdfMeasure } from "./measure.ts"
import { drawPaper, type Paper } from "./paper.ts"

/** Base64. */
export type MeasuredFile = string | Blob
export type ToWorker = { readonly file: MeasuredFile; readonly owner: string } | { readonly paper: Paper }
export type FromWorker = PdfMeasure | undefined
/** The file, or why there is none. */
export interface Drawn {
  readonly drawn: Uint8Array | string
}

declare const self: Worker

/**
 * Conversations send their files again with every turn. Owners do not share theirs, or else the time that a call takes would tell whether
 * somebody else has sent a file.
 */
const KEPT = 1_000
const known = new Map<string, PdfMeasure | undefined>()

async function measure(file: MeasuredFile, owner: string): Promise<void> {
  const base64 = typeof file === "string" ? file : await file.text()
  const name = new Bun.CryptoHasher("sha256").update(`${owner} `).update(base64).digest("base64")
  if (!known.has(name)) known.set(name, await measurePdf(Buffer.from(base64, "base64")))
  const [oldest] = known.keys()
  if (known.size > KEPT && oldest !== undefined) known.delete(oldest)
  self.postMessage(known.get(name), [])
}

async function draw(paper: Paper): Promise<void> {
  const drawn = await drawPaper(paper).catch(String)
  self.postMessage({ drawn } satisfies Drawn, [])
}

self.addEventListener("message", ({ data }: MessageEvent<ToWorker>) => {
  if ("paper" in data) void draw(data.paper)
  else void measure(data.file, data.owner)
})
