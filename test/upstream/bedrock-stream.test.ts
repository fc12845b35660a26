import { describe, expect, test } from "bun:test"
import { bedrockError, EVENT_STREAM_TYPE, decodeEventStream } from "../../src/upstream/bedrock.ts"
import type { JsonObject } from "../../src/language/json.ts"
import { chunk, event, exception, frame } from "./frames.ts"

const answered = (pieces: readonly Uint8Array[], type = EVENT_STREAM_TYPE): Promise<string> => {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece)
      controller.close()
    },
  })
  return decodeEventStream(new Response(body, { headers: { "Content-Type": type } })).text()
}
const joined = (frames: readonly Uint8Array[]) => new Uint8Array(Buffer.concat(frames))

const invoked = [
  chunk({ type: "message_start", message: {} }),
  chunk({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "☀️" } }),
  chunk({ type: "message_stop", "amazon-bedrock-invocationMetrics": { inputTokenCount: 1 } }),
]
const conversed = [
  event("messageStart", { role: "assistant" }),
  event("contentBlockDelta", { contentBlockIndex: 0, delta: { text: "☀️" } }),
  event("messageStop", { stopReason: "end_turn" }),
  event("metadata", { usage: { inputTokens: 1, outputTokens: 2 } }),
]
const invokedText = [
  'data: {"type":"message_start","message":{}}\n\n',
  'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"☀️"}}\n\n',
  'data: {"type":"message_stop"}\n\n',
].join("")
const conversedText = [
  'event: messageStart\ndata: {"role":"assistant"}\n\n',
  'event: contentBlockDelta\ndata: {"contentBlockIndex":0,"delta":{"text":"☀️"}}\n\n',
  'event: messageStop\ndata: {"stopReason":"end_turn"}\n\n',
  'event: metadata\ndata: {"usage":{"inputTokens":1,"outputTokens":2}}\n\n',
].join("")
const failed = (type: string, message: string) =>
  `event: error\ndata: ${JSON.stringify({ type: "error", error: { type, message } })}\n\n`

describe("a Bedrock stream as server-sent events", () => {
  test.each([
    ["InvokeModelWithResponseStream", invoked, invokedText],
    ["ConverseStream", conversed, conversedText],
  ] as const)("is the same however the frames of %s are cut", async (_, frames, expected) => {
    const bytes = joined(frames)
    expect(await answered([...bytes].map((byte) => Uint8Array.of(byte)))).toBe(expected)
    for (let at = 0; at <= bytes.length; at++)
      expect(await answered([bytes.subarray(0, at), bytes.subarray(at)])).toBe(expected)
  })

  test("tells an exception as an error, after what came before it", async () => {
    const frames = [...invoked.slice(0, 2), exception("throttlingException", "Too many tokens")]
    expect(await answered([joined(frames)])).toEndWith(`\n\n${failed("throttlingException", "Too many tokens")}`)
  })

  test("tells an error frame, whose words are in its headers", async () => {
    const error = frame({ ":message-type": "error", ":error-code": "InternalFailure", ":error-message": "Sorry" }, "")
    expect(await answered([error])).toBe(failed("InternalFailure", "Sorry"))
  })

  test("tells a damaged frame, and reads nothing after it", async () => {
    const [first, second, third] = invoked.map((bytes, at) => (at === 1 ? bytes.map((byte) => byte ^ 1) : bytes))
    const text = await answered([
      joined([first ?? [], second ?? [], third ?? []].map((bytes) => Uint8Array.from(bytes))),
    ])
    expect(text).toStartWith('data: {"type":"message_start"')
    expect(text).toEndWith(failed("damaged", ""))
    expect(text).not.toContain("message_stop")
  })

  test("that ended without its counts has an end without counts", async () => {
    expect(await answered(conversed.slice(0, -1))).toEndWith("event: metadata\ndata: {}\n\n")
  })

  test("that was cut off before its end has none", async () => {
    expect(await answered(conversed.slice(0, 2))).not.toContain("metadata")
    expect(await answered(invoked.slice(0, 2))).not.toContain("metadata")
  })

  test("of another type is left as it is", async () => {
    expect(await answered([new TextEncoder().encode("{}")], "application/json")).toBe("{}")
  })
})

const errorOf = (status: number, body: JsonObject, header?: string) => {
  const headers = new Headers(header === undefined ? {} : { "x-amzn-errortype": header })
  return bedrockError(status, body, headers)
}

describe("a Bedrock error", () => {
  // Bedrock User Guide, "Troubleshooting Amazon Bedrock API Error Codes", and what the service says.
  test.each([
    "The provided model identifier is invalid.",
    "Invocation of model ID x with on-demand throughput isn't supported.",
    "Retry your request with the ID or ARN of an inference profile that contains this model.",
    "User: arn:aws:iam::1:user/x is not authorized to perform: bedrock:InvokeModel",
    "You don't have access to the model with the specified model ID.",
    "Access to this model is not available for your account.",
    "This model version has reached the end of its life.",
    "Access denied. This Model is marked by provider as Legacy.",
  ])("that the catalogue causes is no fault of the request: %s", (message) => {
    const error = { status: 404, body: { error: { type: "model_not_found", message } } }
    expect(errorOf(400, { message }, "ValidationException")).toEqual(error)
  })

  test.each([
    ["AccessDeniedException:http://internal.amazon.com/coral/x/", undefined, 403, "permission_error"],
    [undefined, "com.amazon.coral.service#ExpiredTokenException", 403, "authentication_error"],
    [undefined, "UnrecognizedClientException", 403, "authentication_error"],
    ["TooManyRequestsException", "com.amazon#AccessDeniedException", 429, "rate_limit_error"],
  ])("is of the kind that its header %p or its body %p names", (header, type, status, name) => {
    const body = type === undefined ? { Message: "m" } : { __type: type, Message: "m" }
    expect(errorOf(400, body, header)).toEqual({ status, body: { error: { type: name, message: "m" } } })
  })
})
