/**
 * Whether an account can pay for anything of a large body, or of many small ones at once, asked before it is read: nobody
 * without money makes the gateway work on megabytes, or hold them (decisions §13.10).
 */
import type { HoldReply } from "../../actors/account.ts"
import { type Micro, micro } from "../../actors/money/micro.ts"
import type { Rates } from "../../actors/money/price.ts"
import { Failure } from "../failure/failure.ts"
import { LARGE_BODY_BYTES } from "../wire/body.ts"
import type { Actors } from "./actors.ts"
import type { Caller } from "./authenticate.ts"
import type { GatewayPorts } from "./ports.ts"

/** Fewer tokens than any body of so many bytes has, unless it is all images. */
const BYTES_PER_TOKEN = 64n

export async function affords(
  { actors, catalogue, clock }: Pick<GatewayPorts, "actors" | "catalogue" | "clock">,
  caller: Pick<Caller, "record">,
  requestId: string,
  { bytes, much }: { readonly bytes: number; readonly much: boolean },
): Promise<Failure | undefined> {
  if (bytes <= LARGE_BODY_BYTES && !much) return undefined
  const rates = catalogue.offers(clock.now()).map(({ price }) => price.rates.input)
  const cheapest = rates.reduce((least, rate) => (rate < least ? rate : least), rates[0] ?? micro(0n))
  const least = micro((BigInt(bytes) * cheapest + BYTES_PER_TOKEN - 1n) / BYTES_PER_TOKEN)
  const held = await holdAndRelease(actors, caller, requestId, least)
  if (held instanceof Failure) return held
  if (held.kind === "held") return undefined
  return new Failure(held.kind === "insufficient" ? "billing.insufficient_balance" : "dependency.database_unavailable")
}

/** Whether so much input could be paid for now. */
export async function paysForInput(
  { actors }: Pick<GatewayPorts, "actors">,
  caller: Pick<Caller, "record">,
  requestId: string,
  { tokens, rates }: { readonly tokens: number; readonly rates: Rates },
): Promise<boolean> {
  const held = await holdAndRelease(actors, caller, requestId, micro(BigInt(tokens) * rates.input))
  return !(held instanceof Failure) && held.kind === "held"
}

async function holdAndRelease(
  actors: Actors,
  { record: { accountId } }: Pick<Caller, "record">,
  requestId: string,
  least: Micro,
): Promise<HoldReply | Failure> {
  // Held and given back at once: a purse that is short asks for more of the balance before it says no.
  const terms = { requestId: `${requestId}-body`, least, target: least }
  const held = await actors.accounts.hold(accountId, terms)
  actors.accounts.release(accountId, terms.requestId)
  return held
}
