/**
 * Turns as messages: neighbours of one role become one, the first is the user's, none is empty. System text in
 * mid-conversation is folded into the user's turn, marked as what it is: `role: "system"` is refused by older models and
 * on some clouds, and where it is taken, only at some places.
 */
import type { JsonObject } from "../../language/json.ts"
import type { Prompt, TextPart, Turn } from "../../language/prompt.ts"
import { Failure } from "../../failure/failure.ts"
import { assistantBlocks, textBlocks, userBlocks } from "./blocks-encode.ts"
import type { ModelTraits } from "./model-traits.ts"

/** Before a conversation that the assistant opened, or that has only instructions. */
const OPENING = "."
/** After a last turn of the assistant, for models that do not go on with it. */
const GOING_ON = "Continue."

interface Message {
  readonly role: "user" | "assistant"
  readonly content: JsonObject[]
}

export function encodeTurns(
  { turns }: Pick<Prompt, "turns">,
  { prefill }: Pick<ModelTraits, "prefill">,
): JsonObject[] | Failure {
  const messages: Message[] = []
  for (const turn of turns) {
    const { role, content } = encodeTurn(turn)
    if (content instanceof Failure) return content
    const before = messages.at(-1)
    if (before?.role === role) before.content.push(...content)
    else if (content.length > 0) messages.push({ role, content })
  }
  if (messages[0]?.role !== "user") messages.unshift({ role: "user", content: [{ type: "text", text: OPENING }] })
  if (messages.at(-1)?.role === "assistant") endWith(messages, prefill)
  return messages.map(({ role, content }) => ({ role, content: resultsFirst(content) }))
}

function encodeTurn(turn: Turn): { role: Message["role"]; content: JsonObject[] | Failure } {
  if (turn.role === "assistant") return { role: "assistant", content: assistantBlocks(turn.parts) }
  return { role: "user", content: turn.role === "user" ? userBlocks(turn.parts) : textBlocks(turn.parts.map(asNote)) }
}

const asNote = (part: TextPart): TextPart =>
  part.text.trim() === "" ? part : { ...part, text: `<system>\n${part.text}\n</system>` }

/** The backend takes the results of tools nowhere else. */
const resultsFirst = (content: readonly JsonObject[]): JsonObject[] => [
  ...content.filter(({ type }) => type === "tool_result"),
  ...content.filter(({ type }) => type !== "tool_result"),
]

/** A turn to go on with may not end in white space; a model that does not go on with one is asked to. */
function endWith(messages: Message[], prefill: boolean): void {
  if (!prefill) {
    messages.push({ role: "user", content: [{ type: "text", text: GOING_ON }] })
    return
  }
  const content = messages.at(-1)?.content ?? []
  const last = content.at(-1)
  if (typeof last?.["text"] === "string") content[content.length - 1] = { ...last, text: last["text"].trimEnd() }
}
