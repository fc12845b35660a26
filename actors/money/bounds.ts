/**
 * What of a backend's counts is charged: up to the answer limit that was forwarded, for each of the answers asked for, and
 * up to the context window (decisions §13.2). What is over is borne by the house, whatever made the backend count it:
 * a bug, or thinking that it counts beside the limit. The bounds are those of one turn of a backend.
 */
import { larger, largestMicro, type Micro, micro, smaller } from "./micro.ts"
import { price, type Rates } from "./price.ts"
import type { Tokens } from "./tokens.ts"

export interface CountBounds {
  /** Tokens that the three buckets of input have together; null where no limit is known. */
  readonly contextWindow: number | null
  /** Tokens of one answer, as forwarded. */
  readonly answerLimit: number
  /** How many answers are asked for. */
  readonly choices: number
}

export interface Counted {
  /** What is charged. */
  readonly tokens: Tokens
  /** The price of what was counted beyond that; zero of believable counts. */
  readonly excess: Micro
}

/** A part of an amount that JSON can still say, so that a few of them added up can be said too. */
const LARGEST_PART: Micro = micro(largestMicro / 8n)

/** Input is cut where that costs the customer least to keep: writes to a cache go first, reads from it last. */
export function bounded(counted: Tokens, bounds: CountBounds, rates: Rates): Counted {
  let room = Math.min(bounds.contextWindow ?? Number.MAX_SAFE_INTEGER, mostPriced(rates))
  const fitting = (count: number): number => {
    const kept = Math.min(count, room)
    room -= kept
    return kept
  }
  const cacheRead = fitting(counted.cacheRead)
  const input = fitting(counted.input)
  const cacheWrite = fitting(counted.cacheWrite)
  const output = Math.min(counted.output, bounds.answerLimit * bounds.choices)
  const excess = {
    input: counted.input - input,
    cacheRead: counted.cacheRead - cacheRead,
    cacheWrite: counted.cacheWrite - cacheWrite,
    output: counted.output - output,
  }
  return { tokens: { input, cacheRead, cacheWrite, output }, excess: smaller(price(excess, rates), LARGEST_PART) }
}

/** Without a window a count may be any safe integer, but its price has to be one that can be said. */
function mostPriced({ input, cacheRead, cacheWrite }: Rates): number {
  const dearest = larger(input, larger(cacheRead, cacheWrite))
  return dearest === 0n ? Number.MAX_SAFE_INTEGER : Number(LARGEST_PART / dearest)
}
