/**
 * A whole chat completion: read, with only its model changed for a chat client; in the neutral language, its first choice, the
 * only one that is asked for there; and written for a chat client.
 */
import { Failure } from "../../failure/failure.ts"
import type { ModelReply } from "../../language/event.ts"
import { isObject, type JsonObject, present } from "../../language/json.ts"
import type { AssistantPart, Prompt, ToolCallPart } from "../../language/prompt.ts"
import { classifyErrorObject } from "../backend-error.ts"
import type { AnswerView, ClientView, Reply } from "../format.ts"
import { CallReader } from "../shared/tool-calls.ts"
import { NARROW, toolNames } from "../shared/tool-names.ts"
import { filled } from "../steps.ts"
import { ofAnswer } from "../tokens.ts"
import { isContent, readSaid } from "./events-in.ts"
import { answerHead, writeCallHead } from "./events-out.ts"
import { chatFinish, readFinish } from "./finish.ts"
import { usesFunctions } from "./prompt-in.ts"
import { chatUsage, readUsage, usageTokens } from "./usage.ts"

export const readReply = (body: JsonObject, view: ClientView): Reply | Failure => {
  if (present(body.error)) return classifyErrorObject(body)
  // Every client reads choices[0]: a completion without one is not an answer.
  if (!filled(body.choices) || !Array.isArray(body.choices)) return new Failure("dependency.upstream_unavailable")
  const hasContent = body.choices.some(
    (choice) => isObject(choice) && isObject(choice.message) && isContent(choice.message),
  )
  return { body: { ...body, model: view.model }, tokens: ofAnswer(usageTokens(body.usage), hasContent) }
}

// A chat backend's whole answer in the neutral language: its first choice, the only one that is asked for here.

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
  const reader = new CallReader(toolNames(prompt, NARROW))
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

// A whole answer for a chat client.

export function encodeReply(reply: ModelReply, view: AnswerView): JsonObject {
  const calls = reply.parts.filter((part) => part.type === "tool-call")
  const finish = chatFinish(reply.finish, calls.length > 0)
  const older = usesFunctions(view.request.body)
  return {
    ...answerHead("chat.completion", reply.id, view),
    choices: [
      {
        index: 0,
        message: writeMessage(reply.parts, calls, older),
        logprobs: null,
        finish_reason: older && finish === "tool_calls" ? "function_call" : finish,
      },
    ],
    ...(reply.usage === undefined ? {} : { usage: chatUsage(reply.usage) }),
  }
}

function writeMessage(parts: readonly AssistantPart[], calls: readonly ToolCallPart[], older: boolean): JsonObject {
  const text = textOf(parts, "text")
  const refusal = textOf(parts, "refusal")
  const thinking = textOf(parts, "thinking")
  const message: JsonObject = {
    role: "assistant",
    content: text === "" && (calls.length > 0 || refusal !== "") ? null : text,
    refusal: refusal === "" ? null : refusal,
  }
  if (thinking !== "") message.reasoning_content = thinking
  const [first] = calls
  if (first === undefined) return message
  if (older) message.function_call = { name: first.name, arguments: first.arguments }
  else message.tool_calls = calls.map((call) => writeCallHead(call.id, call.name, call.arguments, call.custom))
  return message
}

/** Pieces of text meet without a gap, as they do in a stream: another format may cut one sentence into several parts. */
const textOf = (parts: readonly AssistantPart[], type: "text" | "refusal" | "thinking"): string =>
  parts.map((part) => (part.type === type ? part.text : "")).join("")
