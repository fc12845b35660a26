/** Reads a whole Converse answer. */
import { isObject, type JsonObject } from "../../language/json.ts"
import { Failure } from "../../failure/failure.ts"
import type { Reply } from "../format.ts"
import { filled } from "../steps.ts"
import { ofAnswer } from "../tokens.ts"
import { usageTokens } from "./usage.ts"

export const readReply = (body: JsonObject): Reply | Failure => {
  const blocks = contentOf(body)
  if (blocks === undefined) return new Failure("dependency.upstream_unavailable")
  return { body, tokens: ofAnswer(usageTokens(body["usage"]), blocks.some(hasContent)) }
}

const hasContent = ({ text, toolUse, reasoningContent: thinking }: JsonObject): boolean =>
  filled(text) ||
  isObject(toolUse) ||
  (isObject(thinking) && (isObject(thinking["reasoningText"]) || filled(thinking["redactedContent"])))

/** The blocks of the answer; undefined where the body is no answer. */
export function contentOf({ output }: JsonObject): JsonObject[] | undefined {
  const message = isObject(output) ? output["message"] : undefined
  const content = isObject(message) ? message["content"] : undefined
  return Array.isArray(content) ? content.filter((block) => isObject(block)) : undefined
}
