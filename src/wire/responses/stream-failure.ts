/**
 * A failure in an answer of the responses format, streamed or not. In a stream `response.created` must have come before
 * `response.failed`: clients take a bare error for nothing (decisions §6). A stream that has begun keeps its identity
 * and its numbers.
 */
import type { Json, JsonObject } from "../../language/json.ts"
import type { Failure } from "../../failure/failure.ts"
import type { FailureContext } from "../format.ts"
import { encodeSse } from "../sse.ts"
import { openErrorType, streamCode, toldMessage } from "../stream-error.ts"

export const streamFailure = (failure: Failure, context: FailureContext & { readonly started: boolean }): string => {
  const first = context.started ? (context.position?.sequence ?? 1) : 0
  const created = context.started ? "" : event("response.created", first, response("in_progress", null, context))
  return created + event("response.failed", context.started ? first : first + 1, failedReply(failure, context))
}

/** The body under HTTP 200 when keepalives had been sent before the failure was known. */
export const failedReply = (failure: Failure, context: FailureContext): JsonObject => {
  const error = { code: streamCode(failure), message: toldMessage(failure), type: openErrorType(failure), param: null }
  return response("failed", error, context)
}

const event = (type: string, sequence: number, body: JsonObject): string =>
  encodeSse(type, JSON.stringify({ type, sequence_number: sequence, response: body }))

/** All that strict clients require of a response; what the request asked for is not known here and told as its default. */
const response = (
  status: string,
  error: Json,
  { requestId, model, position, nowMs = 0 }: FailureContext,
): JsonObject => ({
  id: position?.id ?? `resp_${requestId.replace(/^req_/, "")}`,
  object: "response",
  created_at: position?.createdAt ?? Math.floor(nowMs / 1000),
  status,
  error,
  incomplete_details: null,
  instructions: null,
  max_output_tokens: null,
  model,
  output: [],
  parallel_tool_calls: true,
  previous_response_id: null,
  reasoning: { effort: null, summary: null },
  store: false,
  temperature: null,
  text: { format: { type: "text" } },
  tool_choice: "auto",
  tools: [],
  top_p: null,
  truncation: "disabled",
  usage: null,
  user: null,
  metadata: {},
})
