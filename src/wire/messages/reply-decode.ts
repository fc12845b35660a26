/** A messages backend's whole answer as one of the neutral language. */
import type { ModelReply } from "../../language/event.ts"
import { isObject, type JsonObject } from "../../language/json.ts"
import type { AssistantPart, Prompt } from "../../language/prompt.ts"
import type { Reply } from "../format.ts"
import { decodeAnswered, readText } from "./blocks-decode.ts"
import { freeText } from "./custom-input.ts"
import { finishReason } from "./stop-reason.ts"
import { decodeUsage } from "./told-usage.ts"
import { ToolsAsked } from "./tool-names.ts"

export function decodeReply({ body }: Reply, prompt: Prompt): ModelReply {
  const asked = new ToolsAsked(prompt)
  const { id, content, stop_reason: reason, stop_sequence: sequence, usage } = body
  const blocks: JsonObject[] = Array.isArray(content) ? content.filter((block) => isObject(block)) : []
  return {
    id: readText(id) === "" ? undefined : readText(id),
    parts: decodeAnswered(blocks).map((part) => asMeant(part, asked)),
    finish: finishReason(reason),
    stopSequence: typeof sequence === "string" ? sequence : undefined,
    usage: decodeUsage(usage),
  }
}

function asMeant(part: AssistantPart, asked: ToolsAsked): AssistantPart {
  if (part.type !== "tool-call") return part
  const { name, custom } = asked.called(part.name)
  return { ...part, name, custom, arguments: custom ? freeText(part.arguments) : part.arguments }
}
