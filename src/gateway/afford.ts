/**
 * Whether an account can pay for anything of what it sends, asked before the gateway works on it (decisions §13.10). Amounts in
 * micro-rupiah.
 */
import type { HoldReply } from "../../actors/account.ts"
import type { Soon } from "../../actors/kernel/actor.ts"
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
  /** The account holds much already, or has used much of the thread. */
  readonly much: boolean
}

interface InputPrice {
  readonly tokens: number
  readonly rates: Rates
}

/** How it is found out what an account can pay for. */
export interface Means {
  body(size: BodySize): Soon<Failure | undefined>
  input(of: InputPrice): Promise<boolean>
}

/**
 * Of a call: what it would take is held, and given back. Asked of a large body, or of many small ones at once or one after the
 * other, before it is read: nobody without money makes the gateway work on megabytes, or hold them.
 */
export const meansOfCall = (ports: Ports, caller: Pick<Caller, "record">, requestId: string): Means => ({
  body: (size) => (isForAnybody(size) ? undefined : affordsBytes(ports, caller, requestId, size.bytes)),
  input: async (of) => isHeld(await holdAndRelease(ports, caller, requestId, inputMicro(of))),
})

/** Of whoever only asks: by what is available. */
export const meansOf = (ports: Pick<Ports, "catalogue" | "clock">, available: Micro): Means => ({
  body: (size) =>
    isForAnybody(size) || leastOf(ports, size.bytes) <= available
      ? undefined
      : new Failure("billing.insufficient_balance"),
  input: async (of) => inputMicro(of) <= available,
})

const isForAnybody = ({ bytes, much }: BodySize): boolean => bytes <= LARGE_BODY_BYTES && !much

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

/** A purse that is short asks for more of the balance before it says no. */
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
