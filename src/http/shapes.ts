/** The words that schemas of bodies and answers are made of. A schema with an `$id` is a shape of its own in the OpenAPI document. */
import { type TSchema, Type } from "@sinclair/typebox"
import type { Endpoint } from "../language/request.ts"

export const text = Type.String()
export const integer = Type.Integer()
export const flag = Type.Boolean()
export const time = Type.String({ format: "date-time" })
export const micro = Type.Integer({ description: "Micro-rupiah." })
export const anyObject = Type.Object({}, { additionalProperties: true })

/** One of these words. Without a description, that is what a refusal says. */
export const oneOf = <const Word extends string>(words: readonly Word[], description?: string) =>
  Type.Unsafe<Word>(
    Type.Union(
      words.map((word) => Type.Literal(word)),
      { description: description ?? `one of ${words.join(", ")}` },
    ),
  )

export const orNull = <T extends TSchema>(schema: T, description?: string) =>
  Type.Union([schema, Type.Null()], description === undefined ? {} : { description })

/** Under another description. */
export const described = <T extends TSchema>(schema: T, description: string): T => ({ ...schema, description })

export const listOf = <T extends TSchema>(item: T) => Type.Object({ data: Type.Array(item) })
export const pageOf = <T extends TSchema>(item: T) => Type.Object({ data: Type.Array(item), next_cursor: orNull(text) })

const rate = Type.Integer({ description: "Micro-rupiah for one token." })
export const rates = { input_micro: rate, output_micro: rate, cache_read_micro: rate, cache_write_micro: rate }

/** What clients speak. */
export const endpoints = ["chat", "messages", "responses"] as const satisfies readonly Endpoint[]
