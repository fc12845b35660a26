/**
 * What an answer says in text and in thinking: of a whole message and of a stream's delta alike. `reasoning_content` is
 * most vendors' field, `reasoning` that of some routers; Mistral sends a list of parts where the others send a text.
 */
import { isObject, type Json, type JsonObject } from "../../language/json.ts"
import { filled } from "../steps.ts"

export interface Said {
  readonly thinking: string
  readonly text: string
  readonly refusal: string
}

export function readSaid(message: JsonObject): Said {
  const { content } = message
  const parts = Array.isArray(content) ? content.filter(isObject) : []
  return {
    thinking: text([message.reasoning_content, message.reasoning].find(filled)) || textOf(parts, "thinking"),
    text: text(content) || textOf(parts, "text"),
    refusal: text(message.refusal),
  }
}

const text = (value: Json | undefined): string => (typeof value === "string" ? value : "")

/** The text of all parts of a type, each in a field of the type's own name, as a text or as further parts. */
const textOf = (parts: readonly JsonObject[], type: string): string =>
  parts
    .filter((part) => part.type === type)
    .map((part) => {
      const said = part[type]
      return Array.isArray(said) ? textOf(said.filter(isObject), "text") : text(said)
    })
    .join("")
