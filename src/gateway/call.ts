/**
 * One call, top to bottom: who calls, what is asked, which models may answer; then it is under way (under-way.ts). Whatever
 * comes of it, the key's limits go out with it.
 */
import { soon, type Soon } from "../../actors/kernel/actor.ts"
import type { KeyRecord, Origin } from "../../actors/key-record.ts"
import type { LedgerView } from "../../actors/ledger.ts"
import type { RunAsked } from "../../actors/run.ts"
import type { Offer } from "../catalogue/live.ts"
import { Failure } from "../failure/failure.ts"
import { idempotencyKeyOf } from "../idempotency-key.ts"
import { DROPPED_FIELDS, droppedHeader } from "../wire/fields.ts"
import type { ClientSide } from "../wire/format.ts"
import { type Means, meansOfCall } from "./afford.ts"
import { authenticate, type Caller, KeyRefused, rateHeaders } from "./authenticate.ts"
import { endpointRefused } from "./binding.ts"
import { type CallTrace, traceCall } from "./call-trace.ts"
import { candidates, type Chain, fallbackOf } from "./candidates.ts"
import { handedOut, roomOf } from "./large-answers.ts"
import type { Answer, StreamConnection } from "./outbox.ts"
import { runAsked, runLimitHeaders } from "./runs.ts"
import type { GatewayPorts } from "./ports.ts"
import { type BodyShare, readBody } from "./read-body.ts"
import type { FirstCall } from "./repeatable.ts"
import { retriesOf } from "./sdk-retries.ts"
import { Call, type CallParts } from "./under-way.ts"
import { type Understood, understand, usesMuchTime } from "./understand.ts"
import { type InputWeight, type Weighed, weigh } from "./weigh.ts"

/** How long the ledger may fail before nothing more is forwarded (decisions §3). */
const LEDGER_LAG_MS = 2_000

/** What its way in knows of a request. */
export interface Arrival extends Origin {
  readonly requestId: string
  readonly connection: StreamConnection | undefined
}

export async function call(
  ports: GatewayPorts,
  format: ClientSide,
  request: Request,
  arrival: Arrival,
): Promise<Response | Failure> {
  const { requestId, connection } = arrival
  if (ports.draining.aborted) return new Failure("gateway.capacity", { retryAfterS: 1 })
  const startedAt = ports.clock.now()
  const calling = authenticate(ports.actors, request.headers, arrival)
  const caller = calling instanceof Promise ? await calling : calling
  if (caller instanceof Failure) {
    if (!(caller instanceof KeyRefused)) return caller
    noteRefused({ ports, format, requestId, model: undefined }, caller, caller.record)
    ports.repeats.refused(caller.record.keyId, retriesOf(request.headers), caller)
    return caller
  }
  const trace = traceCall(ports.tracing, format, request, { requestId, startedAt })
  const received: Received = {
    ports,
    format,
    request,
    requestId,
    caller,
    means: meansOfCall(ports, caller, requestId),
    connection,
    trace,
    retries: caller.record.replaysRetries === false ? undefined : retriesOf(request.headers),
    model: undefined,
    isBooked: false,
  }
  const answer = await answered(received)
  const body = handedOut(answer instanceof Failure ? "" : answer.body, received)
  if (answer instanceof Failure) ports.repeats.refused(caller.record.keyId, received.retries, answer)
  if (answer instanceof Failure && !received.isBooked) noteRefused(received, answer, caller.record)
  trace?.answered(answer)
  const viewing = ports.actors.keys.view(caller.keyHash)
  const view = viewing instanceof Promise ? await viewing : viewing
  const rates = view instanceof Failure ? {} : rateHeaders(view)
  if (received.run !== undefined) Object.assign(rates, await runLimitHeaders(ports.actors, received.run.runId))
  if (answer instanceof Failure) return answer.withHeaders(rates)
  return new Response(body, { headers: Object.assign(rates, answer.headers) })
}

/** What a call is taken in by, and what is learnt of it on the way. */
export interface TakenIn {
  readonly ports: GatewayPorts
  readonly format: ClientSide
  readonly request: Request
  readonly caller: Caller
  readonly means: Means
  /** The one that the body names. */
  model: string | undefined
  /** The run that it says it is one of. */
  run?: RunAsked | undefined
  /** Once it is weighed. */
  asked?: Weighed
}

interface Received extends TakenIn {
  readonly requestId: string
  readonly connection: StreamConnection | undefined
  readonly trace: CallTrace | undefined
  /** How often the client says that it has sent the call before; undefined where that is not asked. */
  readonly retries: number | undefined
  /** Whether it has come so far as to have a usage record. */
  isBooked: boolean
  /** What is held for its answer, where that may be large. */
  room?: BodyShare
}

/** What a model's id may look like: whatever else stands in its place is nobody's to read. */
const MODEL_ID = /^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,99}$/

function noteRefused(
  { ports, format, requestId, model }: Pick<Received, "ports" | "format" | "requestId" | "model">,
  { code }: Failure,
  { accountId, keyId }: KeyRecord,
): void {
  const { endpoint } = format
  const named = model !== undefined && MODEL_ID.test(model) ? model : undefined
  ports.refused({ requestId, accountId, keyId, at: ports.clock.now(), endpoint, model: named, code })
}

/** What was taken for a call, given back when it is over, or at once where it does not get under way. */
class Taken implements Disposable {
  readonly share: BodyShare
  understood: Understood | undefined
  isUnderWay = false

  constructor(share: BodyShare) {
    this.share = share
  }

  release(): void {
    this.understood?.release()
    this.share[Symbol.dispose]()
  }

  [Symbol.dispose](): void {
    if (!this.isUnderWay) this.release()
  }
}

const nothingTaken = ({ ports, caller }: TakenIn) => new Taken(ports.bodies.share(caller.record.accountId))

/**
 * Of a call that is only asked about: reads and judges what comes before admission, as if it repeated none. What was taken is given
 * back when that refuses it; else `go` gives it back.
 */
export async function takenIn<T extends Pick<Answer, "headers">>(
  received: TakenIn,
  go: (asked: Weighed, chain: Chain, release: () => void) => Promise<T | Failure>,
): Promise<T | Failure> {
  const key = idempotencyKeyOf(received.request.headers)
  if (key instanceof Failure) return key
  using taken = nothingTaken(received)
  const bytes = await read(received, taken)
  if (bytes instanceof Failure) return bytes
  return await judged(received, bytes, taken, (asked, chain) => {
    taken.isUnderWay = true
    return go(asked, chain, () => taken.release())
  })
}

/** The answer of a call that is made, or of one that it repeats. */
async function answered(received: Received): Promise<Answer | Failure> {
  const { ports, format, request, requestId, caller, connection, retries } = received
  const { repeats } = ports
  const { endpoint } = format
  const key = idempotencyKeyOf(request.headers)
  if (key instanceof Failure) return key
  using taken = nothingTaken(received)
  const bytes = await read(received, taken, (size) => repeats.isKnown({ caller, endpoint, key, retries }, size))
  if (bytes instanceof Failure) return bytes
  const made = (first?: FirstCall) =>
    judged(received, bytes, taken, async (asked, chain) => {
      const openedAt = ports.clock.now()
      if (first !== undefined) {
        const refused = await first.claim()
        if (refused !== undefined) return refused
      }
      taken.isUnderWay = true
      return await underWay(received, asked, chain, { taken, first, openedAt })
    })
  const asking = { endpoint, body: bytes, caller, requestId, signal: request.signal, connection }
  if (key !== undefined) return await repeats.once({ ...asking, key }, made)
  return retries === undefined ? await made() : await repeats.retried(asking, retries, made)
}

/** `isRepeat`: a body of so many bytes repeats one that was paid for. */
function read(
  { ports, format, request, caller, means }: TakenIn,
  { share }: Taken,
  isRepeat: (size: number) => boolean = () => false,
): Soon<Uint8Array<ArrayBuffer> | Failure> {
  const refused = endpointRefused(caller.record, format.endpoint)
  if (refused !== undefined) return refused
  const { limits, clock } = ports
  return readBody(request, {
    maxBytes: limits.maxBodyBytes,
    idleMs: limits.bodyIdleMs,
    clock,
    share,
    admit: (size, holdsMuch) => {
      const much = holdsMuch || usesMuchTime(ports, caller.record.accountId)
      return !much && isRepeat(size) ? undefined : means.body({ bytes: size, much })
    },
  })
}

async function judged<T extends Pick<Answer, "headers">>(
  received: TakenIn,
  bytes: Uint8Array<ArrayBuffer>,
  taken: Taken,
  go: (asked: Weighed, chain: Chain) => Promise<T | Failure>,
): Promise<T | Failure> {
  const { ports, format, request, caller, means } = received
  const { accountId, keyId, binding } = caller.record
  const named = (model: string) => void (received.model = model)
  const sender = { accountId, keyId, binding, headers: request.headers, asked: named }
  const understood = await understand(bytes, format, sender, ports)
  if (understood instanceof Failure) return understood
  taken.understood = understood
  const { model, price } = understood.offer
  const paysFor = (tokens: number) => means.input({ tokens, rates: price.rates })
  const weighing = weigh({ request: understood.request, model, accountId, paysFor }, ports)
  const weight = weighing instanceof Promise ? await weighing : weighing
  const asked = weighed(understood, weight)
  received.asked = asked
  const run = runAsked(caller, request.headers)
  if (run instanceof Failure) return withDropped<T>(run, asked)
  received.run = run
  const choosing = chainOf(received, asked)
  const chain = choosing instanceof Promise ? await choosing : choosing
  if (chain instanceof Failure) return withDropped<T>(chain, asked)
  return withDropped(await go(asked, chain), asked)
}

/** From here on the request's input tokens are what it likely comes to. */
function weighed(understood: Understood, weight: InputWeight): Weighed {
  const { offer, exchange, conversation, large, requestBytes, release } = understood
  const isAsEstimated = understood.request.inputTokens === weight.likely
  const request = isAsEstimated ? understood.request : { ...understood.request, inputTokens: weight.likely }
  return { request, offer, exchange, conversation, large, requestBytes, release, weight }
}

/** The models that may answer; a Failure also where the ledger is too far behind for any (decisions §3). */
function chainOf({ ports, request, caller, means }: TakenIn, asked: Weighed): Soon<Chain | Failure> {
  const fallback = fallbackOf(caller.record.fallback, request.headers)
  if (fallback instanceof Failure) return fallback
  const tokens = asked.request.inputTokens
  const affords = ({ price: { rates } }: Offer) => means.input({ tokens, rates })
  return soon(candidates(asked, { fallback, binding: caller.record.binding, affords }, ports), (chain) => {
    if (chain instanceof Failure) return chain
    return soon(ports.actors.ledger.view(caller.record.accountId), (ledger) => ifInTime(ledger, chain))
  })
}

function ifInTime(ledger: LedgerView | Failure, chain: Chain): Chain | Failure {
  if (ledger instanceof Failure) return ledger
  return ledger.lagMs > LEDGER_LAG_MS ? new Failure("dependency.database_unavailable") : chain
}

interface UnderWay extends Pick<CallParts, "openedAt"> {
  readonly taken: Taken
  readonly first: FirstCall | undefined
}

async function underWay(
  received: Received,
  asked: Weighed,
  chain: Chain,
  { taken, first, openedAt }: UnderWay,
): Promise<Answer | Failure> {
  const { ports, format, request, requestId, caller, connection, trace, run } = received
  const clientHeaders = request.headers
  const shared = first?.shared
  trace?.asked(asked)
  const room = roomOf(asked.request, ports.bodies)
  if (room > 0) received.room = ports.bodies.share(caller.record.accountId)
  const takesRoom = () => received.room?.hold(room) ?? true
  const release: CallParts["release"] = (record) => {
    taken.release()
    first?.over(record, call.isBooked)
  }
  const of = {
    ports,
    format,
    requestId,
    caller,
    run,
    asked,
    chain,
    clientHeaders,
    connection,
    trace,
    shared,
    takesRoom,
  }
  const call = new Call({ ...of, openedAt, release })
  if (request.signal.aborted) call.leave()
  request.signal.addEventListener("abort", () => call.leave())
  call.begin()
  const answer = await call.answer
  received.isBooked = call.isBooked
  return answer
}

/** Whoever wrote a field that did not travel is told so, however the call ends. */
function withDropped<T extends Pick<Answer, "headers">>(
  answer: T | Failure,
  { request: { dropped } }: Weighed,
): T | Failure {
  const names = droppedHeader(dropped)
  if (names === undefined) return answer
  const header = { [DROPPED_FIELDS]: names }
  if (answer instanceof Failure) return answer.withHeaders(header)
  return Object.assign({}, answer, { headers: { ...answer.headers, ...header } })
}
