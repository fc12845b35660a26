/**
 * The way back of a tool that takes free text (tools-encode.ts made it a function with one text `input`): the text that
 * the model put there, or all that it wrote where it kept to no such form.
 */
import { isObject } from "../../language/json.ts"

export function freeText(json: string): string {
  try {
    const input: unknown = JSON.parse(json)
    return isObject(input) && typeof input["input"] === "string" ? input["input"] : json
  } catch {
    return json
  }
}
