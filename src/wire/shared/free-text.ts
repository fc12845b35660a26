/**
 * Tools that take free text, towards backends that know functions alone: a function with one string, whose description says
 * what the tool's grammar asks for. The way back takes the text out of the arguments again.
 */
import type { ToolCallPart } from "../../language/prompt.ts"
import { isObject, type JsonObject } from "../../language/json.ts"

export function freeTextSchema(grammar: JsonObject | undefined): JsonObject {
  const input: JsonObject = { type: "string" }
  if (typeof grammar?.["definition"] === "string") {
    const syntax = typeof grammar["syntax"] === "string" ? `${grammar["syntax"]} ` : ""
    input["description"] = `Text that follows this ${syntax}grammar:\n${grammar["definition"]}`
  }
  return { type: "object", properties: { input }, required: ["input"], additionalProperties: false }
}

/** The text that the arguments hold; a model that wrote something else is taken at its word. */
export function freeText(written: string): string {
  try {
    const parsed: unknown = JSON.parse(written)
    return isObject(parsed) && typeof parsed["input"] === "string" ? parsed["input"] : written
  } catch {
    return written
  }
}

/**
 * A call's input, where a format has it as an object. Arguments that are none, such as those that an answer limit cut
 * off, are kept as they are under `raw`: a conversation must not end for good because one call in it went wrong.
 */
export function toolInput({ arguments: text, custom }: Pick<ToolCallPart, "arguments" | "custom">): JsonObject {
  if (custom) return { input: text }
  if (text.trim() === "") return {}
  try {
    const parsed: unknown = JSON.parse(text)
    return isObject(parsed) ? parsed : { raw: text }
  } catch {
    return { raw: text }
  }
}
