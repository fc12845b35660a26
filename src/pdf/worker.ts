/** Measures one PDF at a time, in a thread of its own, which is ended when one takes too long. */
import { measurePdf, type PdfMeasure } from "./measure.ts"

/** Base64. */
export type ToWorker = string | Blob
export type FromWorker = PdfMeasure | undefined

declare const self: Worker

/** Conversations send their files again with every turn. */
const KEPT = 1_000
const known = new Map<string, PdfMeasure | undefined>()

async function measure(sent: ToWorker): Promise<void> {
  const base64 = typeof sent === "string" ? sent : await sent.text()
  const name = new Bun.CryptoHasher("sha256").update(base64).digest("base64")
  if (!known.has(name)) known.set(name, await measurePdf(Buffer.from(base64, "base64")))
  const [oldest] = known.keys()
  if (known.size > KEPT && oldest !== undefined) known.delete(oldest)
  self.postMessage(known.get(name), [])
}

self.addEventListener("message", ({ data }: MessageEvent<ToWorker>) => void measure(data))
