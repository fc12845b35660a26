/**
 * One count of a minute window for all processes, kept elsewhere; what an actor needs of it. Nothing is promised to be answered by
 * it: who asks has a share to go by instead. Times are this process's monotonic milliseconds, but for `second`, which is the counter's.
 */

/** What a window says to so much more. */
export interface Counted {
  /** The set of data that it is of. */
  readonly epoch: string
  /** When it was asked, and counted where it fits. */
  readonly atMs: number
  readonly fits: boolean
  /** Of all processes, with what was just counted. */
  readonly used: number
  /** When nothing of it will be left. */
  readonly emptyAtMs: number
  /** When so much would fit; undefined where it never will. */
  readonly fitsAtMs: number | undefined
}

/** What was counted elsewhere in one second of the counter's clock; negative where too much was. */
export interface ToldBucket {
  readonly second: number
  /** Into the second, when the last of it came. */
  readonly ms: number
  readonly by: number
}

export interface Amount {
  readonly amount: number
  readonly limit: number
}

/** Undefined where nobody says in time; then nothing was counted as far as anybody knows. */
export type CountAnswered = (counted: Counted | undefined) => void

/**
 * `away`: nobody counts. `telling`: those who were away say what they have admitted, and shares are what counts. `exact`: what
 * it says is what counts.
 */
export type CountState = "away" | "telling" | "exact"

export interface WindowCounts {
  readonly state: CountState
  /** Names the set of data: under another one nothing is known of what was told. */
  readonly epoch: string
  /** Counts so much where it fits. */
  take(window: string, asked: Amount, answered: CountAnswered): void
  /** The same, and counts nothing. */
  look(window: string, asked: Amount, answered: CountAnswered): void
  /** Corrects the count, whatever the limit is. */
  add(window: string, told: readonly ToldBucket[], answered: CountAnswered): void
  /** In the counter's clock, milliseconds. */
  timeOf(atMs: number): number
}
