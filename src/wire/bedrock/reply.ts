/** Reads a whole Converse answer. */
import { isObject, type JsonObject } from "../../chat/json.ts"
import { Failure } from "../../failure/failure.ts"
import type { ClientView, Reply } from "../format.ts"
import { usageTokens } from "./usage.ts"

export const readReply = (body: JsonObject, view: ClientView): Reply | Failure => {
  if (contentOf(body) === undefined) return new Failure("dependency.upstream_unavailable")
  return { body, tokens: usageTokens(body["usage"], view) }
}

/** The blocks of the answer; undefined where the body is no answer. */
export function contentOf({ output }: JsonObject): JsonObject[] | undefined {
  const message = isObject(output) ? output["message"] : undefined
  const content = isObject(message) ? message["content"] : undefined
  return Array.isArray(content) ? content.filter((block) => isObject(block)) : undefined
}
