/**
 * What tokens cost, and how much a call must hold for them.
 *
 * What they cost: the customer, by `price`, and the house, by `costOf`. Rates are micro-rupiah for one token, so a charge is a sum of
 * products and exact: no division, and so no rounding (gateway-api.md, "Billing rules"; decisions §2). Hold and charge go through
 * `price` alone.
 */
import { larger, largestMicro, type Micro, micro, minus, smaller } from "./micro.ts"

/** Micro-rupiah for one token of each bucket. */
export interface Rates {
  readonly input: Micro
  readonly output: Micro
  readonly cacheRead: Micro
  readonly cacheWrite: Micro
}

export const price = (tokens: Tokens, rates: Rates): Micro =>
  micro(
    BigInt(tokens.input) * rates.input +
      BigInt(tokens.cacheRead) * rates.cacheRead +
      BigInt(tokens.cacheWrite) * rates.cacheWrite +
      BigInt(tokens.output) * rates.output,
  )

/**
 * The rates to hold by. A backend may write input to its cache unasked, and a write can cost more than plain input; to
 * keep hold ≥ charge, input is held at the dearest of its three rates.
 */
const holdingRates = (rates: Rates): Rates => ({
  ...rates,
  input: larger(rates.input, larger(rates.cacheRead, rates.cacheWrite)),
})

/** Of price versions with an effective time (milliseconds), the one in force at `at`; none before the first. */
export function inForce<V extends { readonly effectiveAt: number }>(versions: readonly V[], at: number): V | undefined {
  let found: V | undefined
  for (const version of versions) {
    if (version.effectiveAt <= at && (found === undefined || version.effectiveAt >= found.effectiveAt)) found = version
  }
  return found
}

/**
 * Token counts in the four disjoint buckets that are priced (decisions §2): `input` is neither read from nor written to
 * a cache, `output` includes reasoning. Safe integers, never negative: whoever builds one has checked the counts.
 */
export interface Tokens {
  readonly input: number
  readonly cacheRead: number
  readonly cacheWrite: number
  readonly output: number
}

export const noTokens: Tokens = { input: 0, cacheRead: 0, cacheWrite: 0, output: 0 }

export const totalTokens = (tokens: Tokens): number =>
  tokens.input + tokens.cacheRead + tokens.cacheWrite + tokens.output

/** Decimals of a rate, a fee, and the step of a rounding. */
export const COST_DIGITS = 9
const MILLION = 1_000_000n
const NANO = 10n ** BigInt(COST_DIGITS)
/**
 * The most that one call may cost the house, be priced at for its input alone, or be counted beyond its bounds: what comes to
 * more was counted without sense. A few of them added up can still be said in JSON.
 */
export const largestCost: Micro = micro(largestMicro / 8n)

/**
 * How the backend rounds what it bills, always upwards to a multiple of `step`: not at all, each bucket and fee by itself, or
 * the whole call.
 */
export const roundings = ["none", "per_bucket", "per_call"] as const
export type Rounding = (typeof roundings)[number]

/** Nano-units of the currency. */
export interface Cost {
  /** ISO 4217. */
  readonly currency: string
  /** For 1,000,000 tokens of each bucket. */
  readonly rates: { readonly [Bucket in keyof Rates]: bigint }
  /** Each time that the backend is called. */
  readonly perCall: bigint
  /** Each search that the backend runs. */
  readonly perSearch: bigint
  readonly rounding: Rounding
  /** What amounts are rounded to; 1 without a rounding. */
  readonly step: bigint
}

/** What one call of a backend came to. */
interface Consumed {
  readonly tokens: Tokens
  readonly searches: number
}

/**
 * What a backend charges the house for one call of it, in micro-rupiah. Rates are exact decimals of the currency that the
 * backend bills in, as whole nano-units (10⁻⁹ of a unit), and so is what it rounds to. One product is exact: nano-units for a
 * million tokens × tokens × micro-rupiah for a unit, over 10¹⁵. It is rounded once, upwards: a cost is never told too small.
 * `microPerUnit` is the exchange rate: micro-rupiah for one unit of the currency.
 */
export function costOf({ tokens, searches }: Consumed, cost: Cost, microPerUnit: Micro): Micro {
  const { rates, rounding } = cost
  // Of the millionth part of a nano-unit, in which all of it is whole.
  const parts = [
    BigInt(tokens.input) * rates.input,
    BigInt(tokens.cacheRead) * rates.cacheRead,
    BigInt(tokens.cacheWrite) * rates.cacheWrite,
    BigInt(tokens.output) * rates.output,
    cost.perCall * MILLION,
    BigInt(searches) * cost.perSearch * MILLION,
  ]
  const step = cost.step * MILLION
  const billed = rounding === "per_bucket" ? sum(parts.map((part) => upTo(part, step))) : sum(parts)
  const amount = rounding === "per_call" ? upTo(billed, step) : billed
  const exact = divided(amount * microPerUnit, MILLION * NANO)
  return exact < largestCost ? micro(exact) : largestCost
}

const sum = (parts: readonly bigint[]): bigint => parts.reduce((total, part) => total + part, 0n)
const upTo = (amount: bigint, step: bigint): bigint => divided(amount, step) * step
/** Upwards; neither is negative. */
const divided = (amount: bigint, by: bigint): bigint => (amount + by - 1n) / by

// How much a call must hold before it is forwarded (decisions §3, §12.2–3). Amounts in micro-rupiah, counts in tokens.
// `worst` pays for the largest answer, `least` for a minimal one; a hold between them pays for a lowered answer limit,
// which is what lets many parallel calls share a small balance. `worst` goes by the most that the input may come to, all else
// by what it likely does: what it costs beyond the hold is taken from what is still available (decisions §13.4).

/** Tokens of a minimal answer (decisions §3). */
const MINIMAL_ANSWER_TOKENS = 16

export interface QuoteInput {
  /** Estimated input tokens. */
  readonly inputTokens: number
  /** The most that the input may come to, where that is more. */
  readonly mostInputTokens?: number
  /** The client's own limit on answer tokens, where it set one. */
  readonly clientLimit: number | undefined
  /** The model's limit on answer tokens. */
  readonly modelLimit: number
  /** How many answers are asked for (`n`). */
  readonly choices: number
  readonly rates: Rates
  /** Where one answer may take several turns of a backend; left out, it takes one. */
  readonly loop?: Loop | undefined
}

/** Each turn reads again what came before it: the prompt, what was answered so far, and what each turn added. */
export interface Loop {
  readonly turns: number
  /** Tokens that each turn but the last adds beside its answer. */
  readonly addedTokens: number
}

export interface Quote {
  readonly input: Micro
  readonly least: Micro
  readonly worst: Micro
  /** What one more token costs in each of the answers asked for. */
  readonly perAnswerToken: Micro
  /** The limit to forward when the hold is `worst`, per answer. */
  readonly answerLimit: number
  /** Tokens of the minimal answer, all choices together. */
  readonly minimalTokens: number
}

export function quote(terms: QuoteInput): Quote {
  const answerLimit = Math.min(terms.clientLimit ?? terms.modelLimit, terms.modelLimit)
  const minimal = Math.min(MINIMAL_ANSWER_TOKENS, answerLimit)
  const { input: perInput, output: perOutput } = holdingRates(terms.rates)
  const most = inputOfAll(Math.max(terms.inputTokens, terms.mostInputTokens ?? 0), terms.loop, answerLimit)
  const input = BigInt(terms.inputTokens) * perInput
  const perAnswerToken = BigInt(terms.choices) * perOutput
  return {
    input: micro(input),
    least: micro(input + BigInt(minimal) * perAnswerToken),
    worst: micro(BigInt(most) * perInput + BigInt(answerLimit) * perAnswerToken),
    perAnswerToken: micro(perAnswerToken),
    answerLimit,
    minimalTokens: minimal * terms.choices,
  }
}

/** The answer limit is for all turns together, so no turn reads more of it than that. */
function inputOfAll(inputTokens: number, loop: Loop | undefined, answerLimit: number): number {
  if (loop === undefined) return inputTokens
  const { turns, addedTokens } = loop
  return turns * inputTokens + (turns - 1) * answerLimit + ((turns * (turns - 1)) / 2) * addedTokens
}

/**
 * The answer limit of a further turn: what is left of the hold after `spent`. Undefined when that does not pay for a
 * minimal answer.
 */
export function furtherLimit(hold: Micro, spent: Tokens, terms: QuoteInput): number | undefined {
  const left = minus(hold, price(spent, terms.rates))
  const quoted = quote(terms)
  return left < quoted.least ? undefined : affordableLimit(left, quoted)
}

/**
 * What to hold of what is available: `target` if that is at most half of it, else half, but never under `least`.
 * Undefined when not even `least` is there. Applied first to the key's budget and then, with its result as the target,
 * to the balance, it equals one hold against the smaller of the two.
 */
export function holdFrom(available: Micro, target: Micro, least: Micro): Micro | undefined {
  if (available < least) return undefined
  const half = micro(available / 2n)
  return target <= half ? target : larger(half, least)
}

/** The answer limit that a hold pays for, per answer; never over what was asked for. */
export function affordableLimit(hold: Micro, quoted: Quote): number {
  if (quoted.perAnswerToken === 0n) return quoted.answerLimit
  const tokens = minus(hold, quoted.input) / quoted.perAnswerToken
  return tokens >= BigInt(quoted.answerLimit) ? quoted.answerLimit : Number(tokens)
}

export interface CountBounds {
  /** Tokens that the three buckets of input have together; null where no limit is known. */
  readonly contextWindow: number | null
  /** Tokens of one answer, as forwarded. */
  readonly answerLimit: number
  /** How many answers are asked for. */
  readonly choices: number
}

interface Counted {
  /** What is charged. */
  readonly tokens: Tokens
  /** The price of what was counted beyond that; zero of believable counts. */
  readonly excess: Micro
}

/**
 * What of a backend's counts is charged: up to the answer limit that was forwarded, for each of the answers asked
 * for, and up to the context window (decisions §13.2). What is over is borne by the house, whatever made the backend
 * count it: a bug, or thinking that it counts beside the limit. The bounds are those of one turn of a backend. Input
 * is cut where that costs the customer least to keep: writes to a cache go first, reads from it last.
 */
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
  return { tokens: { input, cacheRead, cacheWrite, output }, excess: smaller(price(excess, rates), largestCost) }
}

/** Without a window a count may be any safe integer, but its price has to be one that can be said. */
function mostPriced({ input, cacheRead, cacheWrite }: Rates): number {
  const dearest = larger(input, larger(cacheRead, cacheWrite))
  return dearest === 0n ? Number.MAX_SAFE_INTEGER : Number(largestCost / dearest)
}
