/**
 * Plans a call that may never be made, as a dry run is not: reads and parses its body, estimates its input, and finds the models
 * that may answer. On the way it is checked whether the account can pay for what it sends.
 */
import { andThen, type MaybePromise } from "../../actors/kernel/actor.ts"
import type { LedgerView } from "../../actors/ledger.ts"
import { type Micro, micro } from "../../actors/money/micro.ts"
import type { Rates } from "../../actors/money/price.ts"
import type { RunRequest } from "../../actors/run.ts"
import type { Offer } from "../catalogue/model.ts"
import { Failure } from "../failure/failure.ts"
import { idempotencyKeyOf } from "../store/idempotency-keys.ts"
import { LARGE_BODY_BYTES } from "../wire/body.ts"
import type { ClientSide } from "../wire/format.ts"
import { probeAccount } from "./purses.ts"
import type { Caller } from "./authenticate.ts"
import { candidates, type FallbackChain, fallbackOf } from "./candidates.ts"
import { endpointRefused } from "./eligibility.ts"
import { estimateInput, type InputEstimate } from "./input-estimate.ts"
import type { Answer } from "./outbox.ts"
import {
  type CallPlan,
  type ParsedRequest,
  parseRequest,
  usesMuchThreadTime,
  withDroppedFields,
} from "./parse-request.ts"
import type { GatewayPorts } from "./ports.ts"
import { type BodyReservation, readPackedBody } from "./read-body.ts"
import { runRequestOf } from "./runs.ts"

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

/** The resources of a call. They are released when the call is over, or at once where it is never forwarded. */
export class CallResources implements Disposable {
  readonly reservation: BodyReservation
  parsedRequest: ParsedRequest | undefined
  isHandedOver = false

  constructor(reservation: BodyReservation) {
    this.reservation = reservation
  }

  release(): void {
    this.parsedRequest?.release()
    this.reservation[Symbol.dispose]()
  }

  [Symbol.dispose](): void {
    if (!this.isHandedOver) this.release()
  }
}

export const newCallResources = ({ ports, caller }: CallContext) =>
  new CallResources(ports.bodies.reservationFor(caller.record.accountId))

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

/** `isRepeat`: whether a body of this size duplicates a call that was paid for. */
export function readCallBody(
  { ports, format, request, caller, affordability }: CallContext,
  { reservation }: CallResources,
  isRepeat: (size: number) => boolean = () => false,
): MaybePromise<Uint8Array<ArrayBuffer> | Failure> {
  const refused = endpointRefused(caller.record, format.endpoint)
  if (refused !== undefined) return refused
  const { limits, clock } = ports
  return readPackedBody(request, {
    maxBytes: limits.maxBodyBytes,
    idleMs: limits.bodyIdleMs,
    clock,
    reservation,
    admit: (size, holdsMuch) => {
      const isHeavy = holdsMuch || usesMuchThreadTime(ports, caller.record.accountId)
      return !isHeavy && isRepeat(size) ? undefined : affordability.body({ bytes: size, isHeavy })
    },
  })
}

export async function planCall<T extends Pick<Answer, "headers">>(
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
  if (run instanceof Failure) return withDroppedFields<T>(run, plan.request)
  context.run = run
  const pendingChain = chainOf(context, plan)
  const chain = pendingChain instanceof Promise ? await pendingChain : pendingChain
  if (chain instanceof Failure) return withDroppedFields<T>(chain, plan.request)
  return withDroppedFields(await proceed(plan, chain), plan.request)
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

/** How long the ledger may fail before nothing more is forwarded (decisions §3). */
const LEDGER_LAG_MS = 2_000

// What an account can pay for, checked before the gateway works on what it sends (decisions §13.10). Amounts in micro-rupiah.

type Ports = Pick<GatewayPorts, "actors" | "catalogue" | "clock">

interface BodySize {
  readonly bytes: number
  /** The account holds much memory already, or has used much of the thread. */
  readonly isHeavy: boolean
}

interface InputPrice {
  readonly tokens: number
  readonly rates: Rates
}

/** Checks what an account can pay for. */
export interface Affordability {
  body(size: BodySize): MaybePromise<Failure | undefined>
  input(of: InputPrice): Promise<boolean>
}

/**
 * For a call: holds the amount and gives it back. A large body is checked before it is read, and so are many small ones at once or in
 * a row: nobody without money makes the gateway work on megabytes, or hold them.
 */
export function affordabilityByHold(
  ports: Ports,
  { record: { accountId } }: Pick<Caller, "record">,
  requestId: string,
): Affordability {
  const probe = (least: Micro) =>
    probeAccount(ports.actors, accountId, { requestId: `${requestId}-body`, least, target: least })
  return {
    body: (size) => (isUnchecked(size) ? undefined : probe(leastOf(ports, size.bytes))),
    input: async (of) => (await probe(inputMicro(of))) === undefined,
  }
}

/** For a dry run: by what is available, without a hold. */
export const affordabilityByBalance = (ports: Pick<Ports, "catalogue" | "clock">, available: Micro): Affordability => ({
  body: (size) =>
    isUnchecked(size) || leastOf(ports, size.bytes) <= available
      ? undefined
      : new Failure("billing.insufficient_balance"),
  input: async (of) => inputMicro(of) <= available,
})

const isUnchecked = ({ bytes, isHeavy }: BodySize): boolean => bytes <= LARGE_BODY_BYTES && !isHeavy

/** Fewer tokens than any body of so many bytes has, unless it is all images. */
const BYTES_PER_TOKEN = 64n

function leastOf({ catalogue, clock }: Pick<Ports, "catalogue" | "clock">, bytes: number): Micro {
  const rates = catalogue.offers(clock.now()).map(({ price }) => price.rates.input)
  const cheapest = rates.reduce((least, rate) => (rate < least ? rate : least), rates[0] ?? micro(0n))
  return micro((BigInt(bytes) * cheapest + BYTES_PER_TOKEN - 1n) / BYTES_PER_TOKEN)
}

const inputMicro = ({ tokens, rates }: InputPrice): Micro => micro(BigInt(tokens) * rates.input)
