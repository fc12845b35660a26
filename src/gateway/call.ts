/**
 * One call, top to bottom: authenticates the caller, reads and plans the request, and hands it to `Call` (call-actor.ts). Every
 * response carries the rate headers of its key.
 */
import { andThen, type MaybePromise } from "../../actors/kernel/actor.ts"
import type { KeyRecord, Origin } from "../../actors/key-record.ts"
import type { LedgerView } from "../../actors/ledger.ts"
import type { RunRequest } from "../../actors/run.ts"
import type { Offer } from "../catalogue/live.ts"
import { Failure } from "../failure/failure.ts"
import { idempotencyKeyOf } from "../idempotency-key.ts"
import { DROPPED_FIELDS, droppedHeader } from "../wire/fields.ts"
import type { ClientSide } from "../wire/format.ts"
import { type Affordability, affordabilityByHold } from "./afford.ts"
import { authenticate, type Caller, KeyRefused, rateHeaders } from "./authenticate.ts"
import { endpointRefused } from "./binding.ts"
import { type CallTrace, traceCall } from "./call-trace.ts"
import { candidates, type FallbackChain, fallbackOf } from "./candidates.ts"
import { deliverBody, answerRoomOf } from "./large-answers.ts"
import type { Answer, StreamConnection } from "./outbox.ts"
import { runRequestOf, runLimitHeaders } from "./runs.ts"
import type { GatewayPorts } from "./ports.ts"
import { type BodyShare, readBody } from "./read-body.ts"
import type { FirstCall } from "./repeatable.ts"
import { retriesOf } from "./sdk-retries.ts"
import { Call, type CallParts } from "./call-actor.ts"
import { type ParsedRequest, parseRequest, usesMuchThreadTime } from "./parse-request.ts"
import { type InputEstimate, type CallPlan, estimateInput } from "./input-estimate.ts"

/** How long the ledger may fail before nothing more is forwarded (decisions §3). */
const LEDGER_LAG_MS = 2_000

/** What the HTTP edge knows of a request. */
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
  const pendingCaller = authenticate(ports.actors, request.headers, arrival)
  const caller = pendingCaller instanceof Promise ? await pendingCaller : pendingCaller
  if (caller instanceof Failure) {
    if (!(caller instanceof KeyRefused)) return caller
    reportRefusal({ ports, format, requestId, model: undefined }, caller, caller.record)
    ports.repeats.refused(caller.record.keyId, retriesOf(request.headers), caller)
    return caller
  }
  const trace = traceCall(ports.tracing, format, request, { requestId, startedAt })
  const context: LiveCallContext = {
    ports,
    format,
    request,
    requestId,
    caller,
    affordability: affordabilityByHold(ports, caller, requestId),
    connection,
    trace,
    retries: caller.record.replaysRetries === false ? undefined : retriesOf(request.headers),
    model: undefined,
    isBooked: false,
  }
  const answer = await answerCall(context)
  const body = deliverBody(answer instanceof Failure ? "" : answer.body, context)
  if (answer instanceof Failure) ports.repeats.refused(caller.record.keyId, context.retries, answer)
  if (answer instanceof Failure && !context.isBooked) reportRefusal(context, answer, caller.record)
  trace?.onAnswer(answer)
  const pendingView = ports.actors.keys.view(caller.keyHash)
  const view = pendingView instanceof Promise ? await pendingView : pendingView
  const rates = view instanceof Failure ? {} : rateHeaders(view)
  if (context.run !== undefined) Object.assign(rates, await runLimitHeaders(ports.actors, context.run.runId))
  if (answer instanceof Failure) return answer.withHeaders(rates)
  return new Response(body, { headers: Object.assign(rates, answer.headers) })
}

/** What planning a call needs, and what it finds out on the way. */
export interface CallContext {
  readonly ports: GatewayPorts
  readonly format: ClientSide
  readonly request: Request
  readonly caller: Caller
  readonly affordability: Affordability
  /** The model that the body names. */
  model: string | undefined
  /** The run that the call names. */
  run?: RunRequest | undefined
  /** Once the input is estimated. */
  plan?: CallPlan
}

interface LiveCallContext extends CallContext {
  readonly requestId: string
  readonly connection: StreamConnection | undefined
  readonly trace: CallTrace | undefined
  /** The client's own count of its retries of this call; undefined where it sends none, or the key does not replay retries. */
  readonly retries: number | undefined
  /** Whether the call has a usage record. */
  isBooked: boolean
  /** The memory that is held for an answer that may be large. */
  room?: BodyShare
}

/** The shape of a model's id. Anything else in its place is not recorded: it may be private text. */
const MODEL_ID = /^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,99}$/

function reportRefusal(
  { ports, format, requestId, model }: Pick<LiveCallContext, "ports" | "format" | "requestId" | "model">,
  { code }: Failure,
  { accountId, keyId }: KeyRecord,
): void {
  const { endpoint } = format
  const safeModel = model !== undefined && MODEL_ID.test(model) ? model : undefined
  ports.refused({ requestId, accountId, keyId, at: ports.clock.now(), endpoint, model: safeModel, code })
}

/** The resources of a call. They are released when the call is over, or at once where it is never forwarded. */
class CallResources implements Disposable {
  readonly share: BodyShare
  parsedRequest: ParsedRequest | undefined
  isHandedOver = false

  constructor(share: BodyShare) {
    this.share = share
  }

  release(): void {
    this.parsedRequest?.release()
    this.share[Symbol.dispose]()
  }

  [Symbol.dispose](): void {
    if (!this.isHandedOver) this.release()
  }
}

const newCallResources = ({ ports, caller }: CallContext) =>
  new CallResources(ports.bodies.share(caller.record.accountId))

/**
 * Reads and plans a call that is not made (a dry run), up to admission, and takes it for no repeat. The resources are released when
 * the call is refused on the way; else `proceed` has to call `release`.
 */
export async function readAndPlan<T extends Pick<Answer, "headers">>(
  context: CallContext,
  proceed: (plan: CallPlan, chain: FallbackChain, release: () => void) => Promise<T | Failure>,
): Promise<T | Failure> {
  const key = idempotencyKeyOf(context.request.headers)
  if (key instanceof Failure) return key
  using resources = newCallResources(context)
  const bytes = await readCallBody(context, resources)
  if (bytes instanceof Failure) return bytes
  return await planCall(context, bytes, resources, (plan, chain) => {
    resources.isHandedOver = true
    return proceed(plan, chain, () => resources.release())
  })
}

/** The answer of the call, or of an earlier call that it repeats. */
async function answerCall(context: LiveCallContext): Promise<Answer | Failure> {
  const { ports, format, request, requestId, caller, connection, retries } = context
  const { repeats } = ports
  const { endpoint } = format
  const key = idempotencyKeyOf(request.headers)
  if (key instanceof Failure) return key
  using resources = newCallResources(context)
  const bytes = await readCallBody(context, resources, (size) =>
    repeats.isKnown({ caller, endpoint, key, retries }, size),
  )
  if (bytes instanceof Failure) return bytes
  const makeCall = (first?: FirstCall) =>
    planCall(context, bytes, resources, async (plan, chain) => {
      const openedAt = ports.clock.now()
      if (first !== undefined) {
        const refused = await first.claim()
        if (refused !== undefined) return refused
      }
      resources.isHandedOver = true
      return await startCall(context, plan, chain, { resources, first, openedAt })
    })
  const repeatable = { endpoint, body: bytes, caller, requestId, signal: request.signal, connection }
  if (key !== undefined) return await repeats.once({ ...repeatable, key }, makeCall)
  return retries === undefined ? await makeCall() : await repeats.retried(repeatable, retries, makeCall)
}

/** `isRepeat`: whether a body of so many bytes repeats a call that was paid for. */
function readCallBody(
  { ports, format, request, caller, affordability }: CallContext,
  { share }: CallResources,
  isRepeat: (size: number) => boolean = () => false,
): MaybePromise<Uint8Array<ArrayBuffer> | Failure> {
  const refused = endpointRefused(caller.record, format.endpoint)
  if (refused !== undefined) return refused
  const { limits, clock } = ports
  return readBody(request, {
    maxBytes: limits.maxBodyBytes,
    idleMs: limits.bodyIdleMs,
    clock,
    share,
    admit: (size, holdsMuch) => {
      const isHeavy = holdsMuch || usesMuchThreadTime(ports, caller.record.accountId)
      return !isHeavy && isRepeat(size) ? undefined : affordability.body({ bytes: size, isHeavy })
    },
  })
}

async function planCall<T extends Pick<Answer, "headers">>(
  context: CallContext,
  bytes: Uint8Array<ArrayBuffer>,
  resources: CallResources,
  proceed: (plan: CallPlan, chain: FallbackChain) => Promise<T | Failure>,
): Promise<T | Failure> {
  const { ports, format, request, caller, affordability } = context
  const { accountId, keyId, binding } = caller.record
  const onModel = (model: string) => void (context.model = model)
  const sender = { accountId, keyId, binding, headers: request.headers, onModel }
  const parsedRequest = await parseRequest(bytes, format, sender, ports)
  if (parsedRequest instanceof Failure) return parsedRequest
  resources.parsedRequest = parsedRequest
  const { model, price } = parsedRequest.offer
  const canAfford = (tokens: number) => affordability.input({ tokens, rates: price.rates })
  const pendingEstimate = estimateInput({ request: parsedRequest.request, model, accountId, canAfford }, ports)
  const inputEstimate = pendingEstimate instanceof Promise ? await pendingEstimate : pendingEstimate
  const plan = withInputEstimate(parsedRequest, inputEstimate)
  context.plan = plan
  const run = runRequestOf(caller, request.headers)
  if (run instanceof Failure) return withDroppedFields<T>(run, plan)
  context.run = run
  const pendingChain = chainOf(context, plan)
  const chain = pendingChain instanceof Promise ? await pendingChain : pendingChain
  if (chain instanceof Failure) return withDroppedFields<T>(chain, plan)
  return withDroppedFields(await proceed(plan, chain), plan)
}

/** From here on `request.inputTokens` is the likely number. */
function withInputEstimate(parsedRequest: ParsedRequest, inputEstimate: InputEstimate): CallPlan {
  const { offer, exchange, conversation, large, requestBytes, release } = parsedRequest
  const isAsEstimated = parsedRequest.request.inputTokens === inputEstimate.likely
  const request = isAsEstimated
    ? parsedRequest.request
    : { ...parsedRequest.request, inputTokens: inputEstimate.likely }
  return { request, offer, exchange, conversation, large, requestBytes, release, inputEstimate }
}

/** The models that may answer. A Failure also where the ledger is too far behind to forward anything (decisions §3). */
function chainOf(
  { ports, request, caller, affordability }: CallContext,
  plan: CallPlan,
): MaybePromise<FallbackChain | Failure> {
  const fallback = fallbackOf(caller.record.fallback, request.headers)
  if (fallback instanceof Failure) return fallback
  const tokens = plan.request.inputTokens
  const canAfford = ({ price: { rates } }: Offer) => affordability.input({ tokens, rates })
  return andThen(candidates(plan, { fallback, binding: caller.record.binding, canAfford }, ports), (chain) => {
    if (chain instanceof Failure) return chain
    return andThen(ports.actors.ledger.view(caller.record.accountId), (ledger) => unlessLagging(ledger, chain))
  })
}

function unlessLagging(ledger: LedgerView | Failure, chain: FallbackChain): FallbackChain | Failure {
  if (ledger instanceof Failure) return ledger
  return ledger.lagMs > LEDGER_LAG_MS ? new Failure("dependency.database_unavailable") : chain
}

interface CallStart extends Pick<CallParts, "openedAt"> {
  readonly resources: CallResources
  readonly first: FirstCall | undefined
}

async function startCall(
  context: LiveCallContext,
  plan: CallPlan,
  chain: FallbackChain,
  { resources, first, openedAt }: CallStart,
): Promise<Answer | Failure> {
  const { ports, format, request, requestId, caller, connection, trace, run } = context
  const clientHeaders = request.headers
  const shared = first?.shared
  trace?.onPlan(plan)
  const room = answerRoomOf(plan.request, ports.bodies)
  if (room > 0) context.room = ports.bodies.share(caller.record.accountId)
  const takesRoom = () => context.room?.hold(room) ?? true
  const release: CallParts["release"] = (record) => {
    resources.release()
    first?.over(record, call.isBooked)
  }
  const parts = {
    ports,
    format,
    requestId,
    caller,
    run,
    plan,
    chain,
    clientHeaders,
    connection,
    trace,
    shared,
    takesRoom,
  }
  const call = new Call({ ...parts, openedAt, release })
  if (request.signal.aborted) call.leave()
  request.signal.addEventListener("abort", () => call.leave())
  call.begin()
  const answer = await call.answer
  context.isBooked = call.isBooked
  return answer
}

/** A header names the client's fields that were not forwarded, however the call ends. */
function withDroppedFields<T extends Pick<Answer, "headers">>(
  answer: T | Failure,
  { request: { dropped } }: CallPlan,
): T | Failure {
  const names = droppedHeader(dropped)
  if (names === undefined) return answer
  const header = { [DROPPED_FIELDS]: names }
  if (answer instanceof Failure) return answer.withHeaders(header)
  return Object.assign({}, answer, { headers: { ...answer.headers, ...header } })
}
