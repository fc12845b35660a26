/** The words that schemas of bodies and answers are made of. A schema with an `$id` is a shape of its own in the OpenAPI document. */
import { type TSchema, Type } from "@sinclair/typebox"
import { field } from "./said.ts"

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

export const listOf = <T extends TSchema>(item: T) => Type.Object({ data: Type.Array(item) })
export const pageOf = <T extends TSchema>(item: T) => Type.Object({ data: Type.Array(item), next_cursor: orNull(text) })

const rate = Type.Integer({ description: field("Micro-rupiah for one token.", "Mikro-rupiah untuk satu token.") })
export const rates = { input_micro: rate, output_micro: rate, cache_read_micro: rate, cache_write_micro: rate }
