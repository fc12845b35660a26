/** Reads a whole chat completion. Only its model changes on the way to the client. */
import { isObject, type JsonObject, present } from "../../language/json.ts"
import { Failure } from "../../failure/failure.ts"
import { classifyErrorObject } from "../backend-error.ts"
import type { ClientView, Reply } from "../format.ts"
import { filled } from "../steps.ts"
import { ofAnswer } from "../tokens.ts"
import { isContent } from "./events-in.ts"
import { usageTokens } from "./usage.ts"

export const readReply = (body: JsonObject, view: ClientView): Reply | Failure => {
  if (present(body.error)) return classifyErrorObject(body)
  // Every client reads choices[0]: a completion without one is not an answer.
  if (!filled(body.choices) || !Array.isArray(body.choices)) return new Failure("dependency.upstream_unavailable")
  const hasContent = body.choices.some(
    (choice) => isObject(choice) && isObject(choice.message) && isContent(choice.message),
  )
  return { body: { ...body, model: view.model }, tokens: ofAnswer(usageTokens(body.usage), hasContent) }
}
