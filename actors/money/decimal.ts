/**
 * Exact decimals as whole numbers of their smallest part: no float carries money. "2.5" with nine digits is 2,500,000,000n.
 * A JSON number is read by the shortest text that means it, which is what was written up to its fifteenth digit.
 */

/** Undefined for what is no decimal from 0 on, or has more digits behind the point than `digits`. */
export function parseDecimal(value: string | number, digits: number): bigint | undefined {
  const found = /^(\d{1,30})(?:\.(\d{1,30}))?(?:e([+-]?\d{1,2}))?$/.exec(String(value))
  if (found === null) return undefined
  const [, whole = "", fraction = "", exponent = "0"] = found
  // The point moves to the right by so many places.
  const places = digits - fraction.length + Number(exponent)
  const number = BigInt(whole + fraction)
  if (places >= 0) return number * 10n ** BigInt(places)
  const cut = 10n ** BigInt(-places)
  return number % cut === 0n ? number / cut : undefined
}
