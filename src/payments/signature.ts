/**
 * Comparing signatures in constant time, so that the time of a refusal does not tell how many leading characters were
 * right.
 */
import { timingSafeEqual } from "node:crypto"

export function sameSignature(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)]
  return a.length === b.length && timingSafeEqual(a, b)
}
