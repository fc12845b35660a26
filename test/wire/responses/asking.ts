/** What the tests of the responses codec share: requests, prompts and views. */
import { decode } from "../../../src/bodies/body-processor.ts"
import type { JsonObject } from "../../../src/language/json.ts"
import type { Prompt } from "../../../src/language/prompt.ts"
import type { BackendFormat, Endpoint, Forwarding, ModelRequest } from "../../../src/language/request.ts"
import { Failure } from "../../../src/failure/failure.ts"
import type { AnswerView } from "../../../src/wire/format.ts"
import { decodeRequest, responsesFormat } from "../../../src/wire/responses/format.ts"
import { view } from "../replay.ts"

/** Fails the test where a Failure comes instead. */
export function must<T>(value: T | Failure): T {
  if (value instanceof Failure) throw new Error(`${value.code}: ${value.message}`)
  return value
}

/** The names of what a request leaves out on its way to a backend of this format. */
export function droppedNames(body: JsonObject, client: Endpoint, format: BackendFormat): readonly string[] {
  const call = {
    secret: new Uint8Array(32),
    accountId: "acc_1",
    backends: [{ format, model: "vendor-m" }],
    strip: [],
    dropped: [],
    conversationName: undefined,
  }
  return must(decode(client, body, { call })).dropped.names
}

export const request = (fields: JsonObject = {}): ModelRequest =>
  must(decodeRequest({ model: "m", input: "Hi", ...fields }))

export const decoded = (fields: JsonObject): Prompt => must(responsesFormat.client.decodePrompt(request(fields)))

export const emptyPrompt: Prompt = {
  instructions: [],
  turns: [{ role: "user", parts: [{ type: "text", text: "Hi" }] }],
  tools: [],
  toolChoice: undefined,
  parallelTools: undefined,
  stopSequences: [],
  sampling: { temperature: undefined, topP: undefined, topK: undefined },
  output: undefined,
  reasoning: undefined,
}

export const forwarding: Forwarding = { model: "vendor-m", maxOutputTokens: 4_000, stream: false, strip: [] }

export const answerView = (fields: JsonObject = {}): AnswerView => ({
  ...view,
  requestId: "req_1",
  nowMs: 1_763_600_001_999,
  inputTokens: 7,
  request: request(fields),
})
