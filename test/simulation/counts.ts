/**
 * What backends counted, held against what is recorded and charged of it (decisions §13.2), reckoned anew here: a readable
 * count is charged up to what was asked for, the house bears the rest, and only an unreadable one is missing. Micro-rupiah.
 */
import { price, type Rates } from "../../actors/money/price.ts"
import { unreachable } from "../../actors/unreachable.ts"
import type { Dump, UsageRow } from "./dump.ts"
import { models } from "./shop.ts"
import type { Said, SaidCounts } from "./stage.ts"

/** What backends of this world count of a prompt; estimates are never below it. */
const USUAL_INPUT = 5
/** Amounts over this are no longer told apart by the product. */
const LARGEST = 1_000_000_000_000_000n

type Counts = Required<SaidCounts> & { readonly input: number; readonly output: number }

/** Whether something was counted that can be: every answer of this world has content. */
function isReadable(counts: SaidCounts | undefined): counts is Counts {
  const { input = -1, output = -1 } = counts ?? {}
  return isCount(input) && isCount(output) && input + output > 0
}

const isCount = (count: number): boolean => Number.isSafeInteger(count) && count >= 0

/** No more than was asked for. */
export const isWithin = ({ counts, mostTokens, choices }: Said): boolean =>
  !isReadable(counts) || (counts.input <= USUAL_INPUT && counts.output <= mostTokens * choices)

/** `drainsSince`: when its process was told to end, which breaks off the backends of clients that left. */
export function miscounted(
  row: UsageRow,
  said: readonly Said[],
  prices: Dump["prices"],
  drainsSince: number,
): string | undefined {
  // Of a search each turn is an answer of its own.
  const turns = said.filter(({ whole }) => whole).slice(-row.turns)
  const readable = turns.map(({ counts }) => counts).filter(isReadable)
  const isWhole = said.at(-1)?.whole === true && turns.length === row.turns
  const isUnread = readable.length < turns.length
  switch (row.status) {
    case "ok":
      if (isUnread) return "what no backend has counted is charged"
      return isWhole ? mischarged(row, turns, prices) : undefined
    case "usage_missing":
      if (isUnread || (!isWhole && (said.at(-1)?.brokenOffAt ?? 0) >= drainsSince)) return undefined
      return isWhole ? "an answer that was counted is taken for uncounted" : "a backend was not read to its end"
    case "billing_error":
      return undefined
    case "upstream_error":
    case "aborted_stream":
    case "fallback_429":
    case "fallback_oversize":
      return isWhole && !isUnread ? "an answer that came whole is not charged" : undefined
    default:
      return unreachable(row.status)
  }
}

function mischarged(
  { model: id, priceId, charge, absorbed }: UsageRow,
  turns: readonly Said[],
  prices: Dump["prices"],
): string | undefined {
  const rates = prices.find((version) => version.priceId === priceId)?.rates
  const window = models.find((model) => model.id === id)?.contextWindow ?? Number.MAX_SAFE_INTEGER
  if (rates === undefined) return "it has no price"
  let counted = 0n
  let most = 0n
  for (const { counts, mostTokens, choices } of turns) {
    if (!isReadable(counts)) continue
    counted += priceOf(counts, rates)
    const { input, output } = counts
    most += priceOf({ input: Math.min(input, window), output: Math.min(output, mostTokens * choices) }, rates)
  }
  if (charge > most) return `more is charged than was asked for, which is ${most}`
  if (counted > LARGEST) return undefined
  return charge + absorbed === counted
    ? undefined
    : `what was counted comes to ${counted}, and that is not what is recorded`
}

const priceOf = ({ input, output }: Counts, rates: Rates): bigint =>
  price({ input, output, cacheRead: 0, cacheWrite: 0 }, rates)
