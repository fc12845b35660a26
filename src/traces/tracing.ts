/**
 * OpenTelemetry traces of calls. The coin that decides whether a call is sampled is the gateway's own: a client can take its
 * call out of the traces, and never put it in (docs/decisions/2026-11-22-traces.md). A call that is not sampled costs the coin.
 */
import {
  type Attributes,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
} from "@opentelemetry/api"
import { defaultResource, resourceFromAttributes } from "@opentelemetry/resources"
import { AlwaysOnSampler, TracerProvider } from "@opentelemetry/sdk-trace"
import { type Config, pairsOf } from "../config.ts"
import { Collector, type CollectorOptions, type SpanCounts } from "./collector.ts"

const TRACE_PARENT = "traceparent"
/** How long the end of the process waits for a collector, in milliseconds. */
const FLUSH_MS = 2_000

export interface TracingOptions {
  /** This process among others on the same database. */
  readonly processId: string
  readonly random: () => number
  readonly failed: CollectorOptions["failed"]
}

/** Undefined without a collector. */
export function openTracing(config: Config, options: TracingOptions): Tracing | undefined {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_SDK_DISABLED: isDisabled } = config
  return endpoint === undefined || isDisabled ? undefined : new Tracing(config, endpoint, options)
}

export const collectorHeaders = ({ OTEL_EXPORTER_OTLP_HEADERS: headers }: Config): Readonly<Record<string, string>> =>
  pairsOf(headers ?? "", true) ?? {}

export class Tracing {
  readonly #collector: Collector
  readonly #tracer: Tracer
  readonly #random: () => number
  readonly #ratio: number
  /** A client that says that its trace is not sampled is obeyed. */
  readonly #followsParent: boolean
  readonly #propagates: boolean

  constructor(config: Config, endpoint: string, { processId, random, failed }: TracingOptions) {
    const { OTEL_TRACES_SAMPLER: sampler, OTEL_TRACES_SAMPLER_ARG: ratio } = config
    this.#random = random
    this.#followsParent = sampler.startsWith("parentbased_")
    this.#ratio = sampler.endsWith("always_on") ? 1 : sampler.endsWith("always_off") ? 0 : ratio
    this.#propagates = config.OTEL_PROPAGATORS === "tracecontext"
    this.#collector = new Collector({
      endpoint,
      headers: collectorHeaders(config),
      protocol: config.OTEL_EXPORTER_OTLP_PROTOCOL,
      gzip: config.OTEL_EXPORTER_OTLP_COMPRESSION === "gzip",
      timeoutMs: config.OTEL_EXPORTER_OTLP_TIMEOUT,
      delayMs: config.OTEL_BSP_SCHEDULE_DELAY,
      failed,
    })
    const attributes = pairsOf(config.OTEL_RESOURCE_ATTRIBUTES ?? "", false)
    const provider = new TracerProvider({
      sampler: new AlwaysOnSampler(),
      resource: defaultResource().merge(
        resourceFromAttributes({
          "service.name": "loket",
          "service.instance.id": processId,
          ...attributes,
          ...(config.OTEL_SERVICE_NAME !== undefined && { "service.name": config.OTEL_SERVICE_NAME }),
        }),
      ),
      spanProcessors: [this.#collector],
    })
    this.#tracer = provider.getTracer("loket")
  }

  /** What became of spans so far, and how many are held. */
  get counts(): Readonly<SpanCounts> {
    return this.#collector.counts
  }
  get waiting(): number {
    return this.#collector.waiting
  }

  /** The trace of a call; undefined when it is not sampled. `startedAt` in milliseconds since the epoch. */
  begin(name: string, headers: Headers, startedAt: number): Trace | undefined {
    if (this.#random() >= this.#ratio) return undefined
    const parent = this.#propagates ? readTraceParent(headers.get(TRACE_PARENT)) : undefined
    if (this.#followsParent && parent?.sampled === false) return undefined
    return new Trace(this.#tracer, { name, parent, propagates: this.#propagates, startedAt })
  }

  /** `traceparent` for a backend. Of a call that is not sampled, one that says so, so that the backend does not sample it either. */
  header(trace: { header(): string | undefined } | undefined, headers: Headers): string | undefined {
    if (trace !== undefined || !this.#propagates) return trace?.header()
    const traceId = readTraceParent(headers.get(TRACE_PARENT))?.traceId ?? randomId(16)
    return writeTraceParent({ traceId, spanId: randomId(8), sampled: false })
  }

  /** Takes no more spans. Resolves within two seconds, whatever the collector does. */
  stop(): Promise<void> {
    return this.#collector.stop(FLUSH_MS)
  }
}

interface TraceTerms {
  readonly name: string
  readonly parent: TraceParent | undefined
  readonly propagates: boolean
  readonly startedAt: number
}

/** One sampled call. Its spans are by one clock, which does not go back. */
export class Trace {
  readonly call: TraceSpan
  readonly #tracer: Tracer
  readonly #propagates: boolean
  readonly #epoch = Date.now() - performance.now()

  constructor(tracer: Tracer, { name, parent, propagates, startedAt }: TraceTerms) {
    this.#tracer = tracer
    this.#propagates = propagates
    const context =
      parent === undefined
        ? ROOT_CONTEXT
        : trace.setSpanContext(ROOT_CONTEXT, { ...parent, traceFlags: parent.sampled ? 1 : 0, isRemote: true })
    this.call = new TraceSpan(tracer.startSpan(name, { kind: SpanKind.SERVER, startTime: startedAt }, context), this)
  }

  /** Milliseconds since the epoch. */
  now(): number {
    return this.#epoch + performance.now()
  }

  /** A part of the call, or a request to a backend. */
  start(name: string, parent: TraceSpan, attributes: Attributes = {}, kind = SpanKind.INTERNAL): TraceSpan {
    const options = { kind, attributes, startTime: this.now() }
    return new TraceSpan(this.#tracer.startSpan(name, options, trace.setSpan(ROOT_CONTEXT, parent.span)), this)
  }

  /** `traceparent` for a request that this span is of. */
  header({ span }: TraceSpan): string | undefined {
    return this.#propagates ? writeTraceParent({ ...span.spanContext(), sampled: true }) : undefined
  }
}

export class TraceSpan {
  readonly span: Span
  readonly #trace: Pick<Trace, "now">

  constructor(span: Span, of: Pick<Trace, "now">) {
    this.span = span
    this.#trace = of
  }

  /** Names, numbers and flags of our own. Nothing of a request's or an answer's text, nor of a failure's. */
  set(attributes: Attributes): void {
    this.span.setAttributes(attributes)
  }
  event(name: string): void {
    this.span.addEvent(name, undefined, this.#trace.now())
  }
  /** `type` is a code of the table of failures. */
  fail(type: string, isError = true): void {
    this.span.setAttribute("error.type", type)
    if (isError) this.span.setStatus({ code: SpanStatusCode.ERROR })
  }
  end(): void {
    this.span.end(this.#trace.now())
  }
}

interface TraceParent {
  /** 32 and 16 hexadecimal digits, not all of them 0. */
  readonly traceId: string
  readonly spanId: string
  readonly sampled: boolean
}

const FORM = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-|$)/
const LENGTH = 55
/** Of a later version, which may say more. */
const LONGEST = 512
const NOTHING = /^0+$/
const SAMPLED = 1

/**
 * The header `traceparent` (W3C Trace Context, level 1): which trace a caller is in. `tracestate` is never read: it
 * is other vendors' data, which nobody here needs. Undefined where there is none, and where it is malformed, which
 * counts as none.
 */
export function readTraceParent(header: string | null): TraceParent | undefined {
  if (header === null || header.length > LONGEST) return undefined
  const [, version, traceId = "", spanId = "", flags = ""] = FORM.exec(header) ?? []
  if (version === undefined || version === "ff" || (version === "00" && header.length > LENGTH)) return undefined
  if (NOTHING.test(traceId) || NOTHING.test(spanId)) return undefined
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & SAMPLED) !== 0 }
}

export const writeTraceParent = ({ traceId, spanId, sampled }: TraceParent): string =>
  `00-${traceId}-${spanId}-${sampled ? "01" : "00"}`

/** So many random bytes as hexadecimal digits, for an id. */
export const randomId = (bytes: 8 | 16): string =>
  Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString("hex")
