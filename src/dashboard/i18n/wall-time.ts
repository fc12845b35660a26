/** What a clock on the wall shows in a time zone, as a `datetime-local` field has it, and the moment when it shows that. */

/** 2026-11-21T10:15:30. */
export const wallTimeIn = (timeZone: string, ms: number): string =>
  // The locale whose times are written as ISO 8601 has them.
  new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "medium" }).format(ms).replace(" ", "T")

/**
 * Milliseconds since 1970; undefined when it is no time. Of a time that a change of clocks leaves out, the moment as far after
 * the change; of one that comes twice, one of both.
 */
export function instantOf(wall: string, timeZone: string): number | undefined {
  const asUtc = Date.parse(`${wall}Z`)
  if (Number.isNaN(asUtc)) return undefined
  const aheadAt = (ms: number) => Date.parse(`${wallTimeIn(timeZone, ms)}Z`) - Math.floor(ms / 1_000) * 1_000
  // The offset there is not known before the moment is: looked up twice, which settles it on either side of a change.
  return asUtc - aheadAt(asUtc - aheadAt(asUtc))
}
