/**
 * The words that schemas of bodies and answers are made of, in both languages. A schema with an `$id` is a shape of its own in the
 * OpenAPI document.
 */
import { type TProperties, type TSchema, Type } from "@sinclair/typebox"

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

export const text = Type.String()
export const integer = Type.Integer()
export const flag = Type.Boolean()
export const time = Type.String({ format: "date-time" })
export const micro = Type.Integer({ description: field("Micro-rupiah.", "Mikro-rupiah.") })
/** Of an act of a log: what was, or what is. */
export const ofAct = Type.Unknown({
  description: field(
    "JSON of the action's own; null where there was or is nothing.",
    "JSON menurut tindakannya; null jika sebelum atau sesudahnya tidak ada apa-apa.",
  ),
})
export const anyObject = Type.Object({}, { additionalProperties: true })

/** One of these words. Without a description, that is what a refusal says. */
export const oneOf = <const Word extends string>(words: readonly Word[], description?: string) =>
  Type.Unsafe<Word>(
    Type.Union(
      words.map((word) => Type.Literal(word)),
      { description: description ?? field(`one of ${words.join(", ")}`, `salah satu dari ${words.join(", ")}`) },
    ),
  )

export const orNull = <T extends TSchema>(schema: T, description?: string) =>
  Type.Union([schema, Type.Null()], description === undefined ? {} : { description })

/** Under another description. */
export const described = <T extends TSchema>(schema: T, description: string): T => ({ ...schema, description })

/** A body that sets a limit or moves money. Other fields are refused: a misspelt limit would be no limit. */
export const exactly = <T extends TProperties>(fields: T) => Type.Object(fields, { additionalProperties: false })

export const listOf = <T extends TSchema>(item: T) => Type.Object({ data: Type.Array(item) })
export const pageOf = <T extends TSchema>(item: T) => Type.Object({ data: Type.Array(item), next_cursor: orNull(text) })

const rate = Type.Integer({ description: field("Micro-rupiah for one token.", "Mikro-rupiah untuk satu token.") })
export const rates = { input_micro: rate, output_micro: rate, cache_read_micro: rate, cache_write_micro: rate }
