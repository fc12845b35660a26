/** A responses backend's whole answer in the neutral language. Its own searches and the like are no part of it. */
import { isObject, type Json, type JsonObject, present } from "../../language/json.ts"
import type { ModelReply, FinishReason, Usage } from "../../language/event.ts"
import type { AssistantPart, Prompt } from "../../language/prompt.ts"
import { Failure } from "../../failure/failure.ts"
import type { Reply } from "../format.ts"
import { answerParts, backendSide } from "./items-decode.ts"
import { usageTokens } from "./usage.ts"

const SAID: readonly unknown[] = ["message", "reasoning", "function_call", "custom_tool_call"]

export function decodeReply({ body }: Reply, prompt: Prompt): ModelReply | Failure {
  const output = Array.isArray(body["output"]) ? body["output"].filter(isObject) : []
  const parts: AssistantPart[] = []
  const side = backendSide(prompt)
  for (const [index, item] of output.entries()) {
    if (!SAID.includes(item["type"])) continue
    const said = answerParts(item, `output[${index}]`, side)
    // What is wrong with it is the backend's fault, not the client's.
    if (said instanceof Failure) return new Failure("dependency.upstream_unavailable")
    parts.push(...said)
  }
  return {
    id: typeof body["id"] === "string" ? body["id"] : undefined,
    parts,
    finish: finishOf(
      body,
      parts.some(({ type }) => type === "tool-call"),
    ),
    stopSequence: undefined,
    usage: replyUsage(body["usage"]),
  }
}

/** An answer that was cut off for a reason that is not known was cut off all the same. */
export function finishOf({ status, incomplete_details: details }: JsonObject, hasCalls: boolean): FinishReason {
  const reason = isObject(details) ? details["reason"] : undefined
  if (reason === "content_filter") return "content-filter"
  if (status === "incomplete" || present(reason)) return "length"
  return hasCalls ? "tool-calls" : "stop"
}

/** For the client to see; what is charged is judged by the format's own reader. */
export function replyUsage(usage: Json | undefined): Usage | undefined {
  const tokens = usageTokens(usage)
  if (tokens === undefined || !isObject(usage)) return undefined
  const details = usage["output_tokens_details"]
  const reasoning = isObject(details) ? details["reasoning_tokens"] : undefined
  return { tokens, reasoning: typeof reasoning === "number" ? reasoning : undefined }
}
