/** The API's prose in both languages. The OpenAPI document is in English, the page of it in the visitor's language. */
export interface Said {
  readonly en: string
  readonly id: string
}

/** One after the other, without those that are not there. */
export const together = (...parts: readonly (Said | undefined)[]): Said => {
  const there = parts.filter((part) => part !== undefined)
  return { en: there.map(({ en }) => en).join(" "), id: there.map(({ id }) => id).join(" ") }
}

const inIndonesian = new Map<string, string>()

/**
 * Of a field or a parameter: its schema has the English, as refusals do, and the Indonesian is kept beside it. Throws where the same English
 * was given another Indonesian, which would be shown in its place.
 */
export function field(en: string, id: string): string {
  const known = inIndonesian.get(en)
  if (known !== undefined && known !== id) throw new Error(`${en}: ${known}, or ${id}?`)
  inIndonesian.set(en, id)
  return en
}

/** Of a field: the words of another, and more after them; in English alone where the other's are. */
export function fieldAnd(words: string | undefined, { en, id }: Said): string {
  const indonesian = indonesianOf(words ?? "")
  return indonesian === undefined ? `${words}${en}` : field(`${words}${en}`, `${indonesian}${id}`)
}

/** What `field` was given; undefined for a text that came without. */
export const indonesianOf = (en: string): string | undefined => inIndonesian.get(en)
