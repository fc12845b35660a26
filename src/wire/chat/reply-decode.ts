/** A chat backend's whole answer in the neutral language: its first choice, the only one that is asked for here. */
import type { ModelReply } from "../../language/event.ts"
import { isObject, type JsonObject } from "../../language/json.ts"
import type { AssistantPart, Prompt, ToolCallPart } from "../../language/prompt.ts"
import { Failure } from "../../failure/failure.ts"
import type { Reply } from "../format.ts"
import { CallReader } from "./calls-decode.ts"
import { readFinish } from "./finish.ts"
import { readSaid } from "./events-in.ts"
import { toolNames } from "./tool-names.ts"
import { readUsage } from "./usage.ts"

export function decodeReply({ body }: Reply, prompt: Prompt): ModelReply | Failure {
  const choice = Array.isArray(body.choices) ? body.choices[0] : undefined
  if (!isObject(choice) || !isObject(choice.message)) return new Failure("dependency.upstream_unavailable")
  const id = typeof body.id === "string" && body.id !== "" ? body.id : undefined
  const said = readSaid(choice.message)
  const parts: AssistantPart[] = []
  if (said.thinking !== "") parts.push({ type: "thinking", text: said.thinking, seal: undefined })
  if (said.text !== "") parts.push({ type: "text", text: said.text })
  if (said.refusal !== "") parts.push({ type: "refusal", text: said.refusal })
  const calls = readCalls(choice.message, prompt, id ?? "")
  parts.push(...calls)
  const { reason, stopSequence } = readFinish(choice, calls.length > 0, prompt.stopSequences)
  return { id, parts, finish: reason, stopSequence, usage: readUsage(body.usage) }
}

/** Calls that came whole are read as a stream of one piece each, so that both ways to them agree. */
function readCalls(message: JsonObject, prompt: Prompt, answerId: string): ToolCallPart[] {
  const reader = new CallReader(toolNames(prompt))
  const pieces = Array.isArray(message.tool_calls) ? message.tool_calls.filter(isObject) : []
  const calls: ToolCallPart[] = []
  const events = [
    ...pieces.flatMap((piece) => reader.take({ ...piece, index: undefined }, answerId)),
    ...reader.close(),
  ]
  for (const event of events) {
    if (event.type === "tool-call-start")
      calls.push({ type: "tool-call", id: event.id, name: event.name, arguments: "", custom: event.custom })
    const call = event.type === "tool-call-delta" ? calls[event.index] : undefined
    if (call !== undefined && event.type === "tool-call-delta")
      calls[event.index] = { ...call, arguments: call.arguments + event.arguments }
  }
  return calls
}
