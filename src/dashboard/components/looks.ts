/** The looks of a chart's series. */

/**
 * How a series is told from the others: by a colour, and from the fourth on by a pattern too, so that no two of `TOLD_APART` look alike to
 * who does not see red from green. The last colour is that of all the others together.
 */
export interface Look {
  readonly colour: number
  /** 0 is none. */
  readonly pattern: number
}
const COLOURS = 7
const PATTERNS = 3
export const TOLD_APART = 12
export const othersLook: Look = { colour: COLOURS, pattern: 0 }
export const lookOf = (index: number): Look => ({
  colour: index % COLOURS,
  pattern: index < 3 ? 0 : 1 + (index % PATTERNS),
})
