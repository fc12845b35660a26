/** What every chat answer carries, whole or in chunks: one id and one time for all of it, and the catalogue's model. */
import type { JsonObject } from "../../language/json.ts"
import type { AnswerView } from "../codec.ts"

type AnswerObject = "chat.completion" | "chat.completion.chunk"

export const answerHead = (object: AnswerObject, id: string | undefined, view: AnswerView): JsonObject => ({
  id: id ?? `chatcmpl-${view.requestId}`,
  object,
  created: Math.floor(view.nowMs / 1000),
  model: view.model,
})

export const writeCallHead = (id: string, name: string, text: string, custom: boolean): JsonObject =>
  custom
    ? { id, type: "custom", custom: { name, input: text } }
    : { id, type: "function", function: { name, arguments: text } }
