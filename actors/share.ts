/**
 * One process's part of a limit that all processes on a database keep together. What they take adds up to the limit,
 * each a whole number: the rest of the division goes to the first ones.
 */

/** Which of how many: `index` from 0, under `count`. */
export interface Share {
  readonly index: number
  readonly count: number
}

/** Of a process that is alone. */
export const whole: Share = { index: 0, count: 1 }

/** Never under 1 of a limit that admits anything: a process that could admit nothing would refuse every call it gets. */
export function shareOf(limit: number, { index, count }: Share): number {
  if (limit < 1) return limit
  return Math.max(1, Math.floor(limit / count) + (index < limit % count ? 1 : 0))
}
