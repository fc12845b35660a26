/** The body of a backend's answer, which is not trusted with its size: neither as it is sent nor as it is unpacked. */
import { pipeline, Readable, type Transform } from "node:stream"
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from "node:zlib"

const unpackers: Readonly<Record<string, () => Transform>> = {
  gzip: createGunzip,
  "x-gzip": createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
}

/**
 * The same answer with its body unpacked as it is read. Backends are asked to send it as it is, and some pack it all the same.
 * Undefined where it is packed in a way that nobody knows.
 */
export function decoded(response: Response): Response | undefined {
  const { headers, status } = response
  const encoding = headers.get("content-encoding")?.trim().toLowerCase() ?? ""
  // Whoever looks at `body` makes a stream of it, which costs more to read than text.
  if (encoding === "" || encoding === "identity" || response.body === null) return response
  const { body } = response
  const unpacker = unpackers[encoding]?.()
  if (unpacker === undefined) return undefined
  // A body that breaks off, or that is not packed as it says, breaks the unpacker's own stream.
  pipeline(Readable.from(body), unpacker, () => {})
  const plain = new Headers(headers)
  plain.delete("content-encoding")
  plain.delete("content-length")
  return new Response(streamOf(unpacker), { status, headers: plain })
}

/** Read piece by piece, as it is wanted. */
function streamOf(unpacker: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  const pieces = unpacker[Symbol.asyncIterator]()
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await pieces.next()
        if (done === true) controller.close()
        else controller.enqueue(value)
      },
      cancel: async () => void (await pieces.return?.()),
    },
    { highWaterMark: 0 },
  )
}

/** The whole body as text; undefined when it is over so many bytes, and then nothing more of it is read. Rejects when it breaks off. */
export function readText(response: Response, maxBytes: number, onPiece: () => void): Promise<string | undefined> {
  const length = response.headers.get("content-length")
  // HTTP itself bounds it, and a reader costs more than all the rest of a short answer.
  if (length !== null && Number(length) <= Math.min(SHORT, maxBytes)) return response.text()
  return readPieces(response, maxBytes, onPiece)
}

async function readPieces(response: Response, maxBytes: number, onPiece: () => void): Promise<string | undefined> {
  if (Number(response.headers.get("content-length") ?? 0) > maxBytes) {
    await response.body?.cancel()
    return undefined
  }
  if (response.body === null) return ""
  const decoder = new TextDecoder()
  const reader = response.body.getReader()
  let text = ""
  let size = 0
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return text + decoder.decode()
    onPiece()
    size += value.length
    if (size > maxBytes) {
      await reader.cancel()
      return undefined
    }
    text += decoder.decode(value, { stream: true })
  }
}

const SHORT = 65_536
