/**
 * A thinking budget beneath a lowered answer limit (decisions §3). The backend takes a budget only from 1,024 tokens up
 * and only under the limit, so the budget shrinks with the limit, in proportion, that room for the answer stays; where
 * no budget fits any more, the answer comes without thinking.
 */
import { isObject, type Json, type JsonObject } from "../../language/json.ts"
import { beginsWith } from "../../language/shape.ts"

const LEAST_BUDGET = 1024

/** Changes `body`, which is the copy that is to be forwarded; what lies within it is replaced, never changed. */
export function lowerThinking(body: JsonObject, asked: number, limit: number): JsonObject {
  const { thinking } = body
  if (limit >= asked || !isObject(thinking) || thinking["type"] !== "enabled") return body
  const budget = thinking["budget_tokens"]
  if (typeof budget !== "number") return body
  if (limit <= LEAST_BUDGET) return withoutThinking(body)
  const inProportion = Math.floor((budget / asked) * limit)
  const lowered = Math.min(Math.max(inProportion, LEAST_BUDGET), limit - 1)
  body["thinking"] = { ...thinking, budget_tokens: lowered }
  return body
}

/** An edit that clears earlier thinking is refused by the backend where thinking is off, so it goes too. */
function withoutThinking(body: JsonObject): JsonObject {
  body["thinking"] = { type: "disabled" }
  const management = body["context_management"]
  if (isObject(management) && Array.isArray(management["edits"])) {
    const edits = management["edits"].filter((edit) => !clearsThinking(edit))
    body["context_management"] = { ...management, edits }
  }
  return body
}

const clearsThinking = (edit: Json): boolean => isObject(edit) && beginsWith(edit["type"], "clear_thinking")
