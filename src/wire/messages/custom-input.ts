/**
 * The way back of a tool that takes free text (tools-encode.ts made it a function with one text `input`): the text that
 * the model put there, or all that it wrote where it kept to no such form.
 */
import { isObject, type Json } from "../../chat/json.ts"

const textWithin = (input: Json | undefined): string => {
  if (isObject(input) && typeof input["input"] === "string") return input["input"]
  return typeof input === "string" ? input : JSON.stringify(input ?? {})
}

export const freeText = (json: string): string => {
  try {
    const parsed: Json = JSON.parse(json)
    return textWithin(parsed)
  } catch {
    return json
  }
}
