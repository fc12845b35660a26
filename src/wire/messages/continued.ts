/** A conversation gone on with by the gateway: what the assistant said comes after it, and no tool is forced any more. */
import type { JsonObject } from "../../language/json.ts"
import { freeChoice } from "./server-tools.ts"

export function continuedBody(body: JsonObject, said: JsonObject): JsonObject {
  const { messages: asked, tool_choice: choice } = body
  return {
    ...body,
    messages: [...(Array.isArray(asked) ? asked : []), said],
    ...(choice !== undefined && { tool_choice: freeChoice(choice) }),
  }
}
