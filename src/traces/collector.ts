/**
 * Sends spans to a collector by OTLP over HTTP, in batches, one request at a time. Nobody waits for it: what waits is bounded
 * in number and bytes, a request in time, its answer in bytes, and what does not fit is left out and counted. The SDK's own
 * exporter is not used, because it bounds only the silences of an answer, gives up within one time limit and counts
 * nothing (docs/decisions/2026-11-22-traces.md). Times in milliseconds.
 */
import { JsonTraceSerializer, ProtobufTraceSerializer } from "@opentelemetry/otlp-transformer"
import type { ReadableSpan, SpanProcessor } from "@opentelemetry/sdk-trace"
import { parseRetryAfter } from "../wire/backend-error.ts"

export interface CollectorOptions {
  /** Without `/v1/traces`. */
  readonly endpoint: string
  readonly headers: Readonly<Record<string, string>>
  readonly protocol: "http/protobuf" | "http/json"
  readonly gzip: boolean
  /** Of one request, to the last byte of its answer. */
  readonly timeoutMs: number
  /** How long the first span of a batch waits for others. */
  readonly delayMs: number
  /** A request failed, the first time after one that did not. Nothing of what the collector said. */
  readonly failed: (problem: Problem) => void
  /** Shorter, for tests. */
  readonly firstBackOffMs?: number
  readonly giveUpMs?: number
}

export interface Problem {
  /** HTTP status, where one came. */
  readonly status: number | undefined
  /** A word of the network's: `ConnectionRefused`, `TimeoutError`. */
  readonly error: string | undefined
}

/** What became of spans. */
export interface SpanCounts {
  sent: number
  /** There was no room for them. */
  full: number
  /** The collector does not take them. */
  refused: number
  /** The collector was away for too long, or when the process ended. */
  unreachable: number
}

const BATCH = 512
export const MAX_SPANS = 4_096
const MAX_BYTES = 4 * 1024 * 1024
const FIRST_BACK_OFF_MS = 1_000
const LONGEST_BACK_OFF_MS = 30_000
const GIVE_UP_MS = 300_000
/** Of an answer, which says how many spans were refused. */
const ANSWER_BYTES = 64 * 1024

/** The statuses after which the same request may be sent again (OTLP, "Retryable Response Codes"). */
const RETRYABLE = [429, 502, 503, 504]

type Answer =
  | { readonly kind: "taken"; readonly rejected: number }
  | ({ readonly kind: "refused" } & Problem)
  | ({ readonly kind: "again"; readonly afterMs: number | undefined } & Problem)

export class Collector implements SpanProcessor {
  readonly counts: SpanCounts = { sent: 0, full: 0, refused: 0, unreachable: 0 }
  readonly #options: CollectorOptions
  readonly #serializer: typeof ProtobufTraceSerializer
  readonly #headers: Readonly<Record<string, string>>
  readonly #stopping = new AbortController()
  /** When what is left is not sent any more. */
  readonly #end = new AbortController()
  #waiting: ReadableSpan[] = []
  /** Spans and bytes, with those that are being sent. */
  #spans = 0
  #bytes = 0
  #timer: ReturnType<typeof setTimeout> | undefined
  #sending: Promise<void> | undefined
  #isFailing = false

  constructor(options: CollectorOptions) {
    this.#options = options
    const isJson = options.protocol === "http/json"
    this.#serializer = isJson ? JsonTraceSerializer : ProtobufTraceSerializer
    this.#headers = {
      ...options.headers,
      "Content-Type": isJson ? "application/json" : "application/x-protobuf",
      "Accept-Encoding": "identity",
      ...(options.gzip && { "Content-Encoding": "gzip" }),
    }
  }

  /** Spans that are held. */
  get waiting(): number {
    return this.#spans
  }

  onStart(): void {}

  onEnd(span: ReadableSpan): void {
    const bytes = sizeOf(span)
    if (this.#stopping.signal.aborted || this.#spans >= MAX_SPANS || this.#bytes + bytes > MAX_BYTES) {
      this.counts.full++
      return
    }
    this.#waiting.push(span)
    this.#spans++
    this.#bytes += bytes
    if (this.#waiting.length >= BATCH) this.#send()
    else this.#timer ??= setTimeout(() => this.#send(), this.#options.delayMs).unref()
  }

  async forceFlush(): Promise<void> {
    this.#send()
    await this.#sending
  }

  async shutdown(): Promise<void> {
    await this.stop(0)
  }

  /** Takes no more, and tries once to send what is left. Resolves within so many milliseconds. */
  async stop(withinMs: number): Promise<void> {
    this.#stopping.abort()
    const timer = setTimeout(() => this.#end.abort(), withinMs)
    await this.forceFlush()
    clearTimeout(timer)
  }

  #send(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#sending ??= this.#sendAll()
      .catch((error: unknown) => this.#options.failed({ status: undefined, error: nameOf(error) }))
      .finally(() => {
        this.#sending = undefined
      })
  }

  async #sendAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, BATCH)
      try {
        await this.#deliver(batch)
      } finally {
        this.#spans -= batch.length
        this.#bytes -= batch.reduce((sum, span) => sum + sizeOf(span), 0)
      }
    }
  }

  async #deliver(batch: ReadableSpan[]): Promise<void> {
    const { giveUpMs = GIVE_UP_MS } = this.#options
    const until = performance.now() + giveUpMs
    const written = this.#serializer.serializeRequest(batch) ?? new Uint8Array()
    const body = this.#options.gzip ? Bun.gzipSync(new Uint8Array(written)) : new Uint8Array(written)
    for (let tries = 0; ; tries++) {
      const answer = await this.#post(body)
      if (answer.kind === "taken") {
        const rejected = Math.min(answer.rejected, batch.length)
        this.counts.sent += batch.length - rejected
        this.counts.refused += rejected
        this.#isFailing = false
        return
      }
      const { status, error } = answer
      if (!this.#isFailing) this.#options.failed({ status, error })
      this.#isFailing = true
      if (answer.kind === "refused") {
        this.counts.refused += batch.length
        return
      }
      if (this.#stopping.signal.aborted || performance.now() > until) {
        this.counts.unreachable += batch.length
        return
      }
      await pause(answer.afterMs ?? this.#backOffMs(tries), this.#stopping.signal)
    }
  }

  /** From half of the exponential step to the whole of it. */
  #backOffMs(tries: number): number {
    const { firstBackOffMs = FIRST_BACK_OFF_MS } = this.#options
    return Math.min(LONGEST_BACK_OFF_MS, firstBackOffMs * 2 ** tries) * (0.5 + Math.random() / 2)
  }

  /** Never throws. */
  async #post(body: Uint8Array<ArrayBuffer>): Promise<Answer> {
    const { endpoint, timeoutMs } = this.#options
    try {
      const response = await fetch(tracesAt(endpoint), {
        method: "POST",
        headers: this.#headers,
        body,
        redirect: "manual",
        decompress: false,
        signal: AbortSignal.any([AbortSignal.timeout(timeoutMs), this.#end.signal]),
      })
      const { status } = response
      const said = await firstBytes(response)
      if (response.ok) return { kind: "taken", rejected: this.#rejected(said) }
      if (!RETRYABLE.includes(status)) return { kind: "refused", status, error: undefined }
      const afterS = parseRetryAfter(response.headers.get("retry-after"), Date.now())
      return { kind: "again", afterMs: afterS === undefined ? undefined : afterS * 1_000, status, error: undefined }
    } catch (error) {
      return { kind: "again", afterMs: undefined, status: undefined, error: nameOf(error) }
    }
  }

  /** How many spans of a request were refused, when it was taken. */
  #rejected(said: Uint8Array): number {
    try {
      // In JSON it may be a text.
      const rejected: unknown = this.#serializer.deserializeResponse(said).partialSuccess?.rejectedSpans
      return Math.max(0, Number(rejected ?? 0)) || 0
    } catch {
      return 0
    }
  }
}

export const tracesAt = (endpoint: string): string => `${endpoint.replace(/\/+$/, "")}/v1/traces`

/** What was read of a body that breaks off, or is too slow or too long, is enough: the status says the rest. */
async function firstBytes(response: Response): Promise<Uint8Array> {
  const parts: Uint8Array[] = []
  let size = 0
  try {
    for await (const part of response.body ?? []) {
      parts.push(part)
      if ((size += part.length) > ANSWER_BYTES) break
    }
  } catch {
    // Said above.
  }
  return size > ANSWER_BYTES ? new Uint8Array() : Buffer.concat(parts)
}

const nameOf = (error: unknown): string => {
  if (!(error instanceof Error)) return "unknown"
  return "code" in error && typeof error.code === "string" ? error.code : error.name
}

/** What a span without attributes takes, and an attribute beside its own characters. */
const SPAN_BYTES = 256
const ATTRIBUTE_BYTES = 16

/** About what a span takes on its way. */
function sizeOf({ name, attributes, events }: ReadableSpan): number {
  let bytes = SPAN_BYTES + name.length + events.length * SPAN_BYTES
  for (const [key, value] of Object.entries(attributes))
    bytes += ATTRIBUTE_BYTES + key.length + (typeof value === "string" ? value.length : 8)
  return bytes
}

/** Ends early when the signal says so. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms).unref()
    signal.addEventListener("abort", done)
    function done() {
      clearTimeout(timer)
      signal.removeEventListener("abort", done)
      resolve()
    }
  })
}
