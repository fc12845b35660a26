/** What a request costs grows with its bytes, whatever it holds: eight times as many take less than three times as long as
 * the few taken eight times. */
import { heapStats } from "bun:jsc"
import { expect, test } from "bun:test"
import { BodyProcessor, type DecodeOptions } from "../../src/bodies/body-processor.ts"
import { Failure } from "../../src/failure/failure.ts"
import type { JsonObject } from "../../src/language/json.ts"
import type { Endpoint } from "../../src/language/request.ts"
import type { BackendModel } from "../../src/wire/protocol.ts"
import { medianWork } from "../wire/work.ts"

const chat: BackendModel = { format: "chat", model: "m" }
const messages: BackendModel = { format: "messages", model: "claude-sonnet-4-5" }
const responses: BackendModel = { format: "responses", model: "m" }
const converse: BackendModel = { format: "bedrock", model: "amazon.nova-pro-v1:0" }

const times = <T>(count: number, make: (place: number) => T): T[] => Array.from({ length: count }, (_, at) => make(at))

const said = [{ role: "user", content: "x" }]
const LONG = "n".repeat(50)
const named = (name: string) => ({ type: "function", function: { name } })
const calls = (count: number, name: (place: number) => string, args = "{}") => ({
  role: "assistant",
  tool_calls: times(count, (at) => ({ id: `c${at}`, type: "function", function: { name: name(at), arguments: args } })),
})

interface Shape {
  readonly endpoint: Endpoint
  readonly backend: BackendModel
  readonly body: (count: number) => JsonObject
}

/** Of each the smaller count, which makes a body of 20 to 100 KB. */
const SHAPES: readonly (readonly [name: string, count: number, shape: Shape])[] = [
  [
    "messages of one role",
    1_500,
    { endpoint: "messages", backend: chat, body: (count) => ({ messages: times(count, () => said[0]!) }) },
  ],
  [
    "tools that were called and are not offered, beside others that are",
    800,
    {
      endpoint: "chat",
      backend: converse,
      body: (count) => ({
        messages: [...said, calls(count, (at) => `${LONG}_called_${at}`)],
        tools: times(count, (at) => named(`${LONG}_offers_${at}`)),
      }),
    },
  ],
  [
    "a choice among tools by their types",
    1_000,
    {
      endpoint: "responses",
      backend: responses,
      body: (count) => ({
        input: "x",
        tools: [...times(count, () => ({ type: "function", name: "a" })), { type: "shell" }],
        tool_choice: { type: "allowed_tools", tools: times(count, () => ({ type: "shell" })) },
      }),
    },
  ],
  [
    "a choice among tools by their names",
    800,
    {
      endpoint: "chat",
      backend: messages,
      body: (count) => ({
        messages: said,
        tools: times(count, (at) => named(`${LONG}_offers_${at}`)),
        tool_choice: {
          type: "allowed_tools",
          allowed_tools: { tools: times(count, (at) => named(`${LONG}_others_${at}`)) },
        },
      }),
    },
  ],
  [
    "blocks of types that the backend has not",
    1_500,
    {
      endpoint: "messages",
      backend: chat,
      body: (count) => ({
        messages: [...said, { role: "assistant", content: times(count, (at) => ({ type: `t${at}_tool_result` })) }],
      }),
    },
  ],
  [
    "fields that do not travel, under a long name",
    1_000,
    {
      endpoint: "chat",
      backend: chat,
      body: (count) => ({
        messages: said,
        thinking: { ["n".repeat(25 * count)]: Object.fromEntries(times(count, (at) => [`guided${at}`, 0])) },
      }),
    },
  ],
]

const terms = (backend: BackendModel): DecodeOptions => ({
  allowance: { pass: ["thinking"], betas: [] },
  call: {
    secret: new Uint8Array(32),
    accountId: "a",
    backends: [backend],
    strip: [],
    dropped: [],
    conversationName: undefined,
  },
})

/** What a backend gets, or why it gets nothing. */
function sent(bytes: Uint8Array, { endpoint, backend }: Shape): string | Blob {
  const bodies = new BodyProcessor()
  const read = bodies.read(1, bytes, endpoint)
  if (read instanceof Failure) return read.message
  const request = bodies.decode(1, terms(backend))
  if (request instanceof Failure) return request.message
  const encoding = { maxOutputTokens: 9, anthropicBeta: null, stream: false, assistantTurn: undefined }
  const written = bodies.write(1, { backend, takes: { strip: [] }, ...encoding })
  return written instanceof Failure ? written.message : written.blob
}

const bytesOf = ({ body }: Shape, count: number) =>
  new TextEncoder().encode(JSON.stringify({ model: "m", max_tokens: 9, ...body(count) }))

/** Of so many runs one after another. */
function workOf(shape: Shape, count: number, runs: number): number {
  const bytes = bytesOf(shape, count)
  return medianWork(() => {
    for (let run = 0; run < runs; run++) sent(bytes, shape)
  })
}

test.each(SHAPES)("%s take time with their bytes", (_, count, shape) => {
  expect(workOf(shape, 8 * count, 1)).toBeLessThan(3 * workOf(shape, count, 8))
})

test.each([
  ["numbers", "0", 49_998],
  // Of each the parser makes room for a thousand places.
  ["objects with a place that lies far back", '{"999":0}', Math.floor(49_998 / (2 + 999 / 8))],
])(
  "inputs of one request's tool calls have as many values as a body together, %s too; the others are told as texts",
  async (_, value, most) => {
    const args = `{"a":[${`${value},`.repeat(most - 1)}${value}]}`
    for (const backend of [messages, converse]) {
      const shape: Shape = {
        endpoint: "chat",
        backend,
        body: (count) => ({ messages: [...said, calls(count, () => "f", args)] }),
      }
      const text = await new Response(sent(bytesOf(shape, 5), shape)).text()
      expect([text.split('"input":{"a":[').length - 1, text.split('"input":{"raw":').length - 1]).toEqual([4, 1])
    }
  },
)

test("a data URL's parameters are not parted, of which there may be millions", () => {
  const part = { type: "input_file", file_data: `data:${";".repeat(4_000_000)},` }
  const shape: Shape = {
    endpoint: "responses",
    backend: chat,
    body: () => ({ input: [{ role: "user", content: [part] }] }),
  }
  const bytes = bytesOf(shape, 1)
  Bun.gc(true)
  const before = heapStats().heapSize
  sent(bytes, shape)
  expect(heapStats().heapSize - before).toBeLessThan(bytes.length)
})
