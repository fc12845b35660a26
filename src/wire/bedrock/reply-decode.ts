/** A whole Converse answer in the neutral language. */
import type { ModelReply } from "../../language/event.ts"
import { isObject, type Json, type JsonObject } from "../../language/json.ts"
import type { AssistantPart, Prompt } from "../../language/prompt.ts"
import { type ToolNames, toolNames } from "../chat/tool-names.ts"
import { customInput } from "../chat/tools-encode.ts"
import type { Reply } from "../format.ts"
import { contentOf } from "./reply.ts"
import { readFinish } from "./stop-reason.ts"
import { readUsage } from "./usage.ts"

export function decodeReply({ body }: Reply, prompt: Prompt): ModelReply {
  const names = toolNames(prompt)
  const parts = (contentOf(body) ?? []).flatMap((block) => readBlock(block, names))
  const called = parts.some(({ type }) => type === "tool-call")
  const { reason, stopSequence } = readFinish(body["stopReason"], called, prompt.stopSequences)
  return { id: undefined, parts, finish: reason, stopSequence, usage: readUsage(body["usage"]) }
}

function readBlock({ text, toolUse, reasoningContent }: JsonObject, names: ToolNames): AssistantPart[] {
  if (isText(text)) return [{ type: "text", text }]
  if (isObject(reasoningContent)) return readThinking(reasoningContent)
  return isObject(toolUse) ? [readCall(toolUse, names)] : []
}

function readCall({ toolUseId, name: written, input }: JsonObject, names: ToolNames): AssistantPart {
  const name = names.original(isText(written) ? written : "")
  const custom = names.isCustom(name)
  const json = JSON.stringify(input ?? {})
  return {
    type: "tool-call",
    id: isText(toolUseId) ? toolUseId : "",
    name,
    arguments: custom ? customInput(json) : json,
    custom,
  }
}

function readThinking({ reasoningText, redactedContent }: JsonObject): AssistantPart[] {
  if (isText(redactedContent))
    return [{ type: "thinking", text: "", seal: { by: "messages-redacted", data: redactedContent } }]
  if (!isObject(reasoningText) || !isText(reasoningText["text"])) return []
  const { text, signature } = reasoningText
  return [{ type: "thinking", text, seal: isText(signature) ? { by: "messages", data: signature } : undefined }]
}

const isText = (value: Json | undefined): value is string => typeof value === "string" && value !== ""
