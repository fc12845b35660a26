/**
 * One call, top to bottom: authenticates the caller, has the request read and planned (plan-call.ts), and hands it to `Call`
 * (call-actor.ts). Every response carries the rate headers of its key.
 */
import type { KeyRecord, Origin } from "../../actors/key-record.ts"
import { Failure, noCapacity } from "../failure/failure.ts"
import { idempotencyKeyOf } from "../store/idempotency-keys.ts"
import type { ClientSide } from "../wire/format.ts"
import { authenticate, currentRateHeaders, KeyRefused } from "./authenticate.ts"
import { Call, type CallParts } from "./call-actor.ts"
import { type CallTrace, traceCall } from "./call-trace.ts"
import type { FallbackChain } from "./candidates.ts"
import type { CallPlan } from "./parse-request.ts"
import { answerBytesOf, deliverBody } from "./relay.ts"
import type { Answer, StreamConnection } from "./outbox.ts"
import {
  affordabilityByHold,
  type CallContext,
  type CallResources,
  newCallResources,
  planCall,
  readCallBody,
} from "./plan-call.ts"
import type { GatewayPorts } from "./ports.ts"
import type { BodyReservation } from "./read-body.ts"
import type { OriginalCall } from "./replayable-call.ts"
import { runLimitHeaders } from "./runs.ts"
import { retryCountOf } from "./sdk-retries.ts"

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
  if (ports.draining.aborted) return noCapacity()
  const startedAt = ports.clock.now()
  const pendingCaller = authenticate(ports.actors, request.headers, arrival)
  const caller = pendingCaller instanceof Promise ? await pendingCaller : pendingCaller
  if (caller instanceof Failure) {
    if (!(caller instanceof KeyRefused)) return caller
    reportRefusal({ ports, format, requestId, model: undefined }, caller, caller.record)
    ports.deduplication.noteRefusal(caller.record.keyId, retryCountOf(request.headers), caller)
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
    retries: caller.record.replaysRetries === false ? undefined : retryCountOf(request.headers),
    model: undefined,
    isBooked: false,
  }
  const answer = await answerCall(context)
  const body = deliverBody(answer instanceof Failure ? "" : answer.body, context)
  if (answer instanceof Failure) ports.deduplication.noteRefusal(caller.record.keyId, context.retries, answer)
  if (answer instanceof Failure && !context.isBooked) reportRefusal(context, answer, caller.record)
  trace?.onAnswer(answer)
  const pendingRates = currentRateHeaders(ports.actors, caller.keyHash)
  const rates = pendingRates instanceof Promise ? await pendingRates : pendingRates
  if (context.run !== undefined) Object.assign(rates, await runLimitHeaders(ports.actors, context.run.runId))
  if (answer instanceof Failure) return answer.withHeaders(rates)
  return new Response(body, { headers: Object.assign(rates, answer.headers) })
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
  reservation?: BodyReservation
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

/** The response of the call, or of the original that it duplicates. */
async function answerCall(context: LiveCallContext): Promise<Answer | Failure> {
  const { ports, format, request, requestId, caller, connection, retries } = context
  const { deduplication } = ports
  const { endpoint } = format
  const key = idempotencyKeyOf(request.headers)
  if (key instanceof Failure) return key
  using resources = newCallResources(context)
  const bytes = await readCallBody(context, resources, (size) =>
    deduplication.isKnown({ caller, endpoint, key, retries }, size),
  )
  if (bytes instanceof Failure) return bytes
  const makeCall = (first?: OriginalCall) =>
    planCall(context, bytes, resources, async (plan, chain) => {
      const openedAt = ports.clock.now()
      if (first !== undefined) {
        const refused = await first.claim()
        if (refused !== undefined) return refused
      }
      resources.isHandedOver = true
      return await startCall(context, plan, chain, { resources, first, openedAt })
    })
  const incoming = { endpoint, body: bytes, caller, requestId, signal: request.signal, connection }
  if (key !== undefined) return await deduplication.runOnce({ ...incoming, key }, makeCall)
  return retries === undefined ? await makeCall() : await deduplication.runOrReplay(incoming, retries, makeCall)
}

interface CallStart extends Pick<CallParts, "openedAt"> {
  readonly resources: CallResources
  readonly first: OriginalCall | undefined
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
  const bytes = answerBytesOf(plan.request, ports.bodies)
  if (bytes > 0) context.reservation = ports.bodies.reservationFor(caller.record.accountId)
  const takesRoom = () => context.reservation?.reserve(bytes) ?? true
  const release: CallParts["release"] = (record) => {
    resources.release()
    first?.ended(record, call.isBooked)
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
