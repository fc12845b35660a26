/**
 * The spans of one sampled call: the call itself, each admission, each try at a backend with what is relayed of it, the settlement, and the
 * two commits of the ledger that the client waits for. Attributes follow OpenTelemetry's conventions for generative AI and HTTP, of what is
 * the catalogue's, a code of the table of failures, or a number: never a prompt, an answer, a key, or a backend's words.
 */
import { SpanKind } from "@opentelemetry/api"
import type { Tokens } from "../../actors/money/price.ts"
import type { Offer } from "../catalogue/model.ts"
import { Failure } from "../failure/failure.ts"
import type { Trace, TraceSpan, Tracing } from "../traces/tracing.ts"
import type { Member } from "../upstream/providers.ts"
import type { ModelRequest } from "../language/request.ts"
import { formats } from "../wire/protocol.ts"
import type { ClientSide } from "../wire/format.ts"
import type { TracedAdmission } from "./admit.ts"
import type { End, TracedAttempts, Turn } from "./attempt.ts"
import type { TracedBooking } from "./booking.ts"
import type { FinishedCall } from "./ports.ts"
import type { CallEvent, State } from "./states.ts"
import type { CallPlan } from "./parse-request.ts"

/** Undefined for a call that is not sampled. `startedAt` in milliseconds since the epoch. */
export function traceCall(
  tracing: Tracing | undefined,
  { path }: Pick<ClientSide, "path">,
  { headers }: Request,
  { requestId, startedAt }: { readonly requestId: string; readonly startedAt: number },
): CallTrace | undefined {
  const trace = tracing?.begin(`POST ${path}`, headers, startedAt)
  if (trace === undefined) return undefined
  trace.call.set({ "http.request.method": "POST", "http.route": path, "url.path": path, "loket.request_id": requestId })
  return new CallTrace(trace)
}

const operationOf = ({ endpoint }: Pick<ModelRequest, "endpoint">) => formats[endpoint].client.operation

export class CallTrace implements TracedAdmission, TracedAttempts, TracedBooking {
  readonly #trace: Trace
  #admission: TraceSpan | undefined
  #attempt: TraceSpan | undefined
  #attempts = 0
  #attemptedAt = 0
  #relay: TraceSpan | undefined
  #opening: TraceSpan | undefined
  #settle: TraceSpan | undefined
  #commit: TraceSpan | undefined
  #failure: string | undefined
  #isForwarded = false
  #answer: Failure | object | undefined
  #isOver = false

  constructor(trace: Trace) {
    this.#trace = trace
  }

  /** What is asked, once it is understood. */
  onPlan({ offer: { model }, request }: Pick<CallPlan, "offer" | "request">): void {
    this.#isForwarded = true
    const stream = request.stream && { "gen_ai.request.stream": true }
    this.#trace.call.set({ "gen_ai.operation.name": operationOf(request), "gen_ai.request.model": model.id, ...stream })
  }

  admitting({ model }: Offer): void {
    this.#admission = this.#trace.start("admit", this.#trace.call, { "gen_ai.request.model": model.id })
  }
  admitted(refusal?: Failure): void {
    if (refusal !== undefined) this.#admission?.fail(refusal.code, refusal.status >= SERVER_ERROR)
    this.#admission?.end()
  }

  /** One request to a backend. Its name is the one that the conventions give it. */
  attempting({ request, exchange, answerLimit }: Turn, member: Member): void {
    const { backend, upstream } = member
    const { hostname, port, protocol } = new URL(backend.provider.baseUrl)
    const kind = SpanKind.CLIENT
    const attributes = {
      "gen_ai.operation.name": operationOf(request),
      "gen_ai.provider.name": exchange.backend.startsWith("bedrock") ? "aws.bedrock" : backend.provider.id,
      "gen_ai.request.model": upstream.model,
      "gen_ai.request.max_tokens": answerLimit,
      ...(request.stream && { "gen_ai.request.stream": true }),
      "server.address": hostname,
      "server.port": port === "" ? (protocol === "https:" ? 443 : 80) : Number(port),
      "http.request.method": "POST",
      "loket.member": member.id,
      ...(this.#attempts > 0 && { "http.request.resend_count": this.#attempts }),
    }
    this.#attempts++
    this.#attemptedAt = this.#trace.now()
    this.#attempt = this.#trace.start(`chat ${upstream.model}`, this.#trace.call, attributes, kind)
  }
  /** HTTP status of the head of an answer. */
  responded(status: number): void {
    this.#attempt?.set({ "http.response.status_code": status })
  }
  attempted(end: End): void {
    this.#relay?.end()
    this.#relay = undefined
    if (end.kind === "answered") this.#attempt?.set({ ...usage(end.tokens) })
    else {
      const { failure, status } = end.fault
      this.#attempt?.fail(failure.code)
      if (status !== undefined) this.responded(status)
    }
    this.#attempt?.end()
  }
  /** `traceparent` of the request to a backend that is under way. */
  header(): string | undefined {
    return this.#trace.header(this.#attempt ?? this.#trace.call)
  }

  /** An event of the call, after it was taken. */
  onEvent(event: CallEvent, state: State): void {
    const { call } = this.#trace
    switch (event.type) {
      case "admitted":
        this.#opening = this.#trace.start("commit", call, { "loket.commit": "opening" })
        break
      case "opened":
        this.#opening?.end()
        break
      case "content":
        this.#attempt?.set({ "gen_ai.response.time_to_first_chunk": (this.#trace.now() - this.#attemptedAt) / 1_000 })
        break
      case "committed":
        this.#relay ??= this.#trace.start("relay", this.#attempt ?? call)
        break
      case "ended":
        this.#settle ??= this.#trace.start("settle", call)
        if (event.end.kind === "failed") this.#failure ??= event.end.fault.failure.code
        break
      case "client-left":
      case "timed-out":
        call.event(event.type)
        break
      case "not-opened":
        this.#opening?.fail("dependency.database_unavailable")
        this.#opening?.end()
        this.#failure ??= "dependency.database_unavailable"
        break
      case "settled":
        this.#commit?.end()
        break
      case "not-settled":
        this.#commit?.fail("dependency.database_unavailable")
        this.#commit?.end()
        break
      case "crashed":
        this.#failure = "internal.panic"
        break
      case "refused":
      case "heartbeat":
      case "withdrawn":
    }
    if (state !== "done" || this.#isOver) return
    this.#settle?.end()
    this.#isOver = true
    this.#end()
  }

  /** The settlement goes to the ledger. */
  committing(): void {
    // What was charged at once is committed before the event that began it has been heard.
    this.#settle ??= this.#trace.start("settle", this.#trace.call)
    this.#commit = this.#trace.start("commit", this.#settle, { "loket.commit": "settlement" })
  }

  /** The call's record, as it was booked. */
  finished({ record, tokens }: FinishedCall): void {
    this.#trace.call.set({
      ...usage(tokens),
      "gen_ai.response.model": record.model,
      "loket.status": record.status,
      "loket.attempts": record.attempts,
      "loket.turns": record.turns,
    })
  }

  /** What the client was told first: an answer or its head, or why there is none. */
  onAnswer(answer: Failure | object): void {
    this.#answer = answer
    this.#end()
  }

  /** Once for both: the answer has begun, and the call is over. */
  #end(): void {
    const { call } = this.#trace
    const answer = this.#answer
    if (answer === undefined || (this.#isForwarded && !this.#isOver)) return
    call.set({ "http.response.status_code": answer instanceof Failure ? answer.status : 200 })
    if (answer instanceof Failure) call.fail(answer.code, answer.status >= SERVER_ERROR)
    else if (this.#failure !== undefined) call.fail(this.#failure)
    call.end()
  }
}

/** A client's mistake is none of the server's (HTTP conventions). */
const SERVER_ERROR = 500

/** Input with what was read from a cache and written to one. */
const usage = (tokens: Tokens | undefined) =>
  tokens !== undefined && {
    "gen_ai.usage.input_tokens": tokens.input + tokens.cacheRead + tokens.cacheWrite,
    "gen_ai.usage.cache_read.input_tokens": tokens.cacheRead,
    "gen_ai.usage.cache_creation.input_tokens": tokens.cacheWrite,
    "gen_ai.usage.output_tokens": tokens.output,
  }
