/** Reads a whole message. Only its model changes on the way to the client. */
import { isObject, type JsonObject, present } from "../../language/json.ts"
import { Failure } from "../../failure/failure.ts"
import { classifyErrorObject } from "../backend-error.ts"
import type { ClientView, Reply } from "../format.ts"
import { ofAnswer } from "../tokens.ts"
import { isContentBlock } from "./events-in.ts"
import { usageTokens } from "./usage.ts"

export const readReply = (body: JsonObject, view: ClientView): Reply | Failure => {
  if (body.type === "error" || present(body.error)) return classifyErrorObject(body)
  if (!Array.isArray(body.content)) return new Failure("dependency.upstream_unavailable")
  const hasContent = body.content.some((block) => isObject(block) && isContentBlock(block))
  return { body: { ...body, model: view.model }, tokens: ofAnswer(usageTokens(body.usage), hasContent) }
}
