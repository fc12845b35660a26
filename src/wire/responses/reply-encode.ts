/** A whole answer for a client of the responses format. */
import type { ModelReply } from "../../language/event.ts"
import type { JsonObject } from "../../language/json.ts"
import type { AssistantPart } from "../../language/prompt.ts"
import type { AnswerView } from "../codec.ts"
import {
  callItem,
  callReader,
  callText,
  contentPart,
  endOf,
  identityOf,
  itemId,
  messageItem,
  reasoningItem,
  responseObject,
} from "./output-items.ts"

export function encodeReply({ id, parts, finish, usage }: ModelReply, view: AnswerView): JsonObject {
  const identity = identityOf(view, id)
  const readCall = callReader(view)
  const status = endOf(finish)
  const groups = grouped(parts)
  const output = groups.map((group, index): JsonObject => {
    if (group.kind === "message") {
      // As in a stream, only what came last can have been cut off.
      const itemStatus = index === groups.length - 1 ? status : "completed"
      return messageItem(itemId("msg", identity, index), itemStatus, group.content)
    }
    const { part } = group
    if (part.type === "thinking") return reasoningItem(itemId("rs", identity, index), part.text, part.seal)
    const call = readCall(part)
    return callItem(
      itemId(call.custom ? "ctc" : "fc", identity, index),
      "completed",
      call,
      callText(call.custom, part.arguments),
    )
  })
  return responseObject(view, identity, { status, finish, usage, output })
}

type Group =
  | { readonly kind: "message"; readonly content: JsonObject[] }
  | { readonly kind: "other"; readonly part: Exclude<AssistantPart, { type: "text" | "refusal" }> }

/** Neighbouring texts and refusals are the content of one message. */
function grouped(parts: readonly AssistantPart[]): Group[] {
  const groups: Group[] = []
  for (const part of parts) {
    if (part.type !== "text" && part.type !== "refusal") {
      groups.push({ kind: "other", part })
      continue
    }
    if (part.text === "") continue
    const last = groups.at(-1)
    const content = contentPart(part.type === "text" ? "output_text" : "refusal", part.text)
    if (last?.kind === "message") last.content.push(content)
    else groups.push({ kind: "message", content: [content] })
  }
  return groups
}
