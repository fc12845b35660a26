/**
 * Reads a whole response. `incomplete` is an answer that ended at its limit; any other status but `completed` is none,
 * whatever the HTTP status said.
 */
import { type JsonObject, present } from "../../language/json.ts"
import { Failure } from "../../failure/failure.ts"
import { classifyErrorObject } from "../backend-error.ts"
import type { ClientView, Reply } from "../format.ts"
import { ofAnswer } from "../tokens.ts"
import { isContentItem } from "./events-in.ts"
import { usageTokens } from "./usage.ts"

export const readReply = (body: JsonObject, view: ClientView): Reply | Failure => {
  if (present(body.error) || body.status === "failed") return classifyErrorObject({ error: body.error })
  if (!Array.isArray(body.output) || !ended(body)) return new Failure("dependency.upstream_unavailable")
  return {
    body: { ...body, model: view.model },
    tokens: ofAnswer(usageTokens(body.usage), body.output.some(isContentItem)),
  }
}

/** Compatible backends leave the status out. */
const ended = ({ status }: JsonObject): boolean => !present(status) || status === "completed" || status === "incomplete"
