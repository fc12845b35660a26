/** The body of a backend's response, and what unpacks any body. Its size is not trusted, neither compressed nor decompressed. */
import { pipeline, Readable, type Transform } from "node:stream"
import { constants, createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from "node:zlib"
import { MAX_VALUES } from "../wire/body.ts"

/** Nothing of this encoding looks further back than 8 MiB (RFC 9659). A frame that wants to would take its memory at once. */
const ZSTD = { [constants.ZSTD_d_windowLogMax]: 23 }

interface UnpackOptions {
  /** Bytes that come of it at once. */
  readonly chunkSize?: number
}

type Unpack = (body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>) => ReadableStream<Uint8Array>

const unpackers: Readonly<Record<string, (options: UnpackOptions) => Transform>> = {
  gzip: createGunzip,
  "x-gzip": createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: (options) => createZstdDecompress({ ...options, params: ZSTD }),
}

/**
 * The response with a body that is decompressed while it is read. Some backends compress although they are asked not to. Undefined
 * for an unknown encoding.
 */
export function decompressed(response: Response): Response | undefined {
  const { headers, status } = response
  const encoding = contentEncodingOf(headers)
  // Reading `body` creates a stream, which costs more than text.
  if (encoding === undefined || response.body === null) return response
  const unpack = unpackerOf(encoding)
  if (unpack === undefined) return undefined
  const plain = new Headers(headers)
  plain.delete("content-encoding")
  plain.delete("content-length")
  return new Response(unpack(response.body), { status: Math.min(status, HIGHEST_STATUS), headers: plain })
}

/** In lower case. Undefined for a body that is as it is. */
export function contentEncodingOf(headers: Headers): string | undefined {
  const encoding = headers.get("content-encoding")?.trim().toLowerCase() ?? ""
  return encoding === "" || encoding === "identity" ? undefined : encoding
}

/** Undefined for an unknown encoding. A body that breaks off or is corrupt breaks the stream that comes of it. */
export function unpackerOf(encoding: string, options: UnpackOptions = {}): Unpack | undefined {
  const make = Object.hasOwn(unpackers, encoding) ? unpackers[encoding] : undefined
  return (
    make &&
    ((body) => {
      const unpacker = make(options)
      pipeline(Readable.from(body), unpacker, () => {})
      return streamOf(unpacker)
    })
  )
}

/** Backends also send higher ones, with which no response can be made. */
const HIGHEST_STATUS = 599

/** Each chunk is read when the consumer asks for it. */
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

/**
 * Whether a body that is said to be JSON begins as an object does, and the response with its body from the beginning. Some backends tell a failure so where
 * a stream was asked for, and some call a stream of events JSON. Rejects if the body breaks off.
 */
export async function beginning(
  response: Response,
): Promise<{ readonly isObject: boolean; readonly response: Response }> {
  if (response.body === null) return { isObject: false, response }
  const { status, headers } = response
  const reader = response.body.getReader()
  const decoder = new TextDecoder()
  const pieces: Uint8Array[] = []
  let start = ""
  // Some send blank lines until they know their answer.
  for (let length = 0; start === "" && length < MAX_BLANK_BYTES; length += pieces.at(-1)?.length ?? 0) {
    const { done, value } = await reader.read()
    if (done) break
    pieces.push(value)
    start = decoder.decode(value, { stream: true }).trimStart()
  }
  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        for (const piece of pieces) controller.enqueue(piece)
      },
      async pull(controller) {
        const { done, value } = await reader.read()
        if (done) controller.close()
        else controller.enqueue(value)
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  )
  const isObject = start.startsWith("{")
  return { isObject, response: new Response(body, { status, headers }) }
}

/** What is blank for longer is read on as a stream of events, within its bounds. */
const MAX_BLANK_BYTES = 65_536

/** The whole body as text. Undefined if it is over `maxBytes`; the rest is not read. Rejects if it breaks off. */
export function readText(response: Response, maxBytes: number, onPiece: () => void): Promise<string | undefined> {
  const { headers } = response
  const length = headers.get("content-length")
  // HTTP itself bounds a body with a length, and a reader costs more than the rest of a short response. One in chunks may be of any length,
  // whatever it says beside them (RFC 9112, 6.3).
  const isOfLength = length !== null && !headers.has("transfer-encoding")
  if (isOfLength && Number(length) <= Math.min(SMALL_BODY_BYTES, maxBytes)) return response.text()
  return readBounded(response, maxBytes, onPiece)
}

async function readBounded(response: Response, maxBytes: number, onPiece: () => void): Promise<string | undefined> {
  if (Number(response.headers.get("content-length") ?? 0) > maxBytes) {
    await response.body?.cancel().catch(() => {})
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
      await reader.cancel().catch(() => {})
      return undefined
    }
    text += decoder.decode(value, { stream: true })
  }
}

const SMALL_BODY_BYTES = 65_536

/**
 * The largest plausible response of a backend; anything larger is broken or hostile. A backend may repeat the request (the responses
 * format repeats instructions and tools in its first and last events), so the bounds grow with the request.
 */
export interface AnswerBounds {
  /** One event of a stream, in UTF-16 units. */
  readonly eventLength: number
  /** A whole stream, in bytes. */
  readonly streamBytes: number
  /** A response in one piece, in bytes. */
  readonly replyBytes: number
  /** Values of JSON of an event or a response. Infinity where likelihoods of tokens are asked for, which are many for their bytes. */
  readonly values: number
}

interface AnswerBoundsOptions {
  /** Bytes of the client's request. */
  readonly requestBytes: number
  /** The answer limit that is forwarded, in tokens. */
  readonly answerLimit: number
  readonly choices: number
  /** The client asked for log probabilities. */
  readonly logprobs: boolean
  /** Tokens of the prompt, where the responses echo it with log probabilities. */
  readonly echoedTokens?: number
  /** How many vectors the client asked for. */
  readonly vectors?: number
}

/** No event of any format comes near this size by itself. */
const BASE_BYTES = 8 * 1024 * 1024
/** How many bytes one byte of the request can become when it is repeated: careful encoders write `<` as `\u003c`. */
const ESCAPE_FACTOR = 6
/** The first events and the last one repeat the request. */
const REPETITIONS = 3
/** The upper bound of what must be in memory as a whole. */
const MAX_REPLY_BYTES = 256 * 1024 * 1024
/** Bytes of one token: several times the usual. In a stream each token has an event of its own. */
const TOKEN = { reply: 64, stream: 2_048 }
/** The same with twenty candidates and their log probabilities. */
const TOKEN_WITH_LOGPROBS = { reply: 4_096, stream: 16_384 }

/** Bytes of a vector of 4,096 numbers in digits, or of a larger one in base64. */
const VECTOR = 98_304
/** Of vectors: as many texts as are taken for vectors in numbers (src/wire/embeddings.ts), of 4,096 dimensions each. */
const VECTOR_NUMBERS = 409_600
/** The shortest value with its comma. */
const VALUE_BYTES = 2

export function answerBounds(terms: AnswerBoundsOptions): AnswerBounds {
  const { requestBytes, answerLimit, choices, logprobs, echoedTokens = 0, vectors = 0 } = terms
  const tokens = answerLimit * choices + echoedTokens
  const token = logprobs ? TOKEN_WITH_LOGPROBS : TOKEN
  const repeated = BASE_BYTES + ESCAPE_FACTOR * requestBytes
  const repeatedValues = Math.min(MAX_VALUES, Math.ceil(requestBytes / VALUE_BYTES))
  return {
    eventLength: Math.min(MAX_REPLY_BYTES, repeated + token.reply * tokens),
    streamBytes: REPETITIONS * repeated + token.stream * tokens,
    replyBytes: Math.min(MAX_REPLY_BYTES, repeated + token.reply * tokens + VECTOR * vectors),
    values: logprobs ? Infinity : MAX_VALUES + repeatedValues + (vectors > 0 ? VECTOR_NUMBERS : 0),
  }
}
