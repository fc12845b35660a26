/**
 * Checks whether an account can pay for what it sends, before the gateway works on it (decisions §13.10). Amounts in micro-rupiah.
 */
import type { HoldReply } from "../../actors/account.ts"
import type { MaybePromise } from "../../actors/kernel/actor.ts"
import { type Micro, micro } from "../../actors/money/micro.ts"
import type { Rates } from "../../actors/money/price.ts"
import { Failure } from "../failure/failure.ts"
import { LARGE_BODY_BYTES } from "../wire/body.ts"
import { isHeld, shortageOf } from "./admit.ts"
import type { Caller } from "./authenticate.ts"
import type { GatewayPorts } from "./ports.ts"

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
export const affordabilityByHold = (
  ports: Ports,
  caller: Pick<Caller, "record">,
  requestId: string,
): Affordability => ({
  body: (size) => (isUnchecked(size) ? undefined : affordsBytes(ports, caller, requestId, size.bytes)),
  input: async (of) => isHeld(await holdAndRelease(ports, caller, requestId, inputMicro(of))),
})

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

async function affordsBytes(
  ports: Ports,
  caller: Pick<Caller, "record">,
  requestId: string,
  bytes: number,
): Promise<Failure | undefined> {
  const held = await holdAndRelease(ports, caller, requestId, leastOf(ports, bytes))
  return isHeld(held) ? undefined : shortageOf(held)
}

function leastOf({ catalogue, clock }: Pick<Ports, "catalogue" | "clock">, bytes: number): Micro {
  const rates = catalogue.offers(clock.now()).map(({ price }) => price.rates.input)
  const cheapest = rates.reduce((least, rate) => (rate < least ? rate : least), rates[0] ?? micro(0n))
  return micro((BigInt(bytes) * cheapest + BYTES_PER_TOKEN - 1n) / BYTES_PER_TOKEN)
}

const inputMicro = ({ tokens, rates }: InputPrice): Micro => micro(BigInt(tokens) * rates.input)

/** A hold, because a purse that is short leases more of the balance before it refuses. */
async function holdAndRelease(
  { actors }: Pick<Ports, "actors">,
  { record: { accountId } }: Pick<Caller, "record">,
  requestId: string,
  least: Micro,
): Promise<HoldReply | Failure> {
  const terms = { requestId: `${requestId}-body`, least, target: least }
  const held = await actors.accounts.hold(accountId, terms)
  actors.accounts.release(accountId, terms.requestId)
  return held
}
