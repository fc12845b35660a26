/** A large request, worked on elsewhere, is asked and answered as if it had been worked on here, and little is told of it. */
import { describe, expect, test } from "bun:test"
import { InlineBodyExecutor, LargeBodies } from "../../src/bodies/bodies.ts"
import { type BodyReply, decode, type BodyCommand } from "../../src/bodies/body-processor.ts"
import type { Json, JsonObject } from "../../src/language/json.ts"
import type { ModelRequest, Translated } from "../../src/language/request.ts"
import { Failure } from "../../src/failure/failure.ts"
import type { AnswerView } from "../../src/wire/format.ts"
import { conversationOf } from "../../src/wire/conversation.ts"
import { type BackendModel, formats } from "../../src/wire/protocol.ts"
import { type DirectExchange, exchange, type EncodedBody } from "../../src/wire/exchange.ts"

/** What goes in and what comes out could have gone from thread to thread. */
class CloningClerk extends InlineBodyExecutor {
  override async ask(question: BodyCommand): Promise<BodyReply> {
    this.asked.push(question.type)
    const answer = await super.ask(structuredClone(question))
    if (answer.type === "write") return answer
    this.largest = Math.max(this.largest, JSON.stringify(answer).length)
    return structuredClone(answer)
  }

  asked: BodyCommand["type"][] = []
  /** In characters of JSON, of what was told of any body. */
  largest = 0
}

const LONG = `${"long_".repeat(20)}name`
const schema = { type: "object", properties: { a: { type: "string", description: "A thing. ".repeat(20) } } }
const requests: Readonly<Record<Translated, JsonObject>> = {
  chat: {
    model: "m",
    stop: ["END"],
    temperature: 0.5,
    tools: [LONG, "plain"].map((name) => ({ type: "function", function: { name, parameters: schema } })),
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "Hello" },
      {
        role: "assistant",
        tool_calls: [{ id: "1", type: "function", function: { name: "for.gotten", arguments: "{}" } }],
      },
      { role: "tool", tool_call_id: "1", content: "done" },
    ],
  },
  messages: {
    model: "m",
    max_tokens: 4_000,
    system: "Be brief.",
    thinking: { type: "enabled", budget_tokens: 2_000 },
    stop_sequences: ["END"],
    tools: [LONG, "plain"].map((name) => ({ name, input_schema: schema })),
    messages: [
      { role: "user", content: [{ type: "text", text: "Hello" }] },
      { role: "assistant", content: [{ type: "tool_use", id: "1", name: "plain", input: {} }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "1", content: "done" }] },
    ],
  },
  responses: {
    model: "m",
    instructions: "Be brief.",
    metadata: { a: "b" },
    reasoning: { effort: "low" },
    tools: [
      { type: "function", name: LONG, parameters: schema },
      { type: "namespace", name: "space", tools: [{ type: "function", name: "inner", parameters: schema }] },
      { type: "custom", name: "free" },
    ],
    input: [
      { role: "user", content: "Hello" },
      { type: "function_call", call_id: "1", name: LONG, arguments: "{}" },
      { type: "function_call_output", call_id: "1", output: "done" },
    ],
  },
}
const backends: readonly BackendModel[] = [
  { format: "chat", model: "m" },
  { format: "messages", model: "claude-sonnet-4-5" },
  { format: "responses", model: "m" },
  { format: "bedrock", model: "us.amazon.nova-pro-v1:0" },
  { format: "bedrock", model: "global.anthropic.claude-sonnet-4-5-20250929-v1:0" },
]
const rows = (["chat", "messages", "responses"] as const).flatMap((client) =>
  backends.map((backend) => [client, `${backend.format} ${backend.model}`, backend] as const),
)

const clerk = new CloningClerk()
const bodies = new LargeBodies(clerk)
const bytesOf = (body: JsonObject) => new TextEncoder().encode(JSON.stringify(body))
const must = <T>(value: T | Failure): T => {
  if (value instanceof Failure) throw new Error(`${value.code}: ${value.message}`)
  return value
}
async function read(endpoint: Translated, body: JsonObject) {
  const large = must(await bodies.read(bytesOf(body), "acc_1", endpoint))
  const request = must(await large.decode({}))
  return {
    request,
    exchange: (backend: BackendModel, strip: readonly string[] = []) => large.exchange(request, backend, { strip }),
    [Symbol.dispose]: () => large[Symbol.dispose](),
  }
}
const view = (request: ModelRequest): AnswerView => ({
  model: "m",
  includeUsage: false,
  requestId: "req_1",
  nowMs: 0,
  inputTokens: 1,
  request,
})
const isWritten = (body: JsonObject | EncodedBody): body is EncodedBody => body["blob"] instanceof Blob
async function textOf(body: ReturnType<DirectExchange["encodeRequest"]> | Promise<EncodedBody | Failure>) {
  const written = must(await body)
  return isWritten(written) ? await written.blob.text() : JSON.stringify(written)
}

/** Names of tools as the backend was told them. */
const namesIn = (body: JsonObject): string[] =>
  [...JSON.stringify(body).matchAll(/"name":"([^"]+)"/g)].flatMap(([, name]) => name ?? [])

/** An answer of each backend that calls a tool. */
function answerOf({ format, model }: BackendModel, name: string): JsonObject {
  if (format === "chat")
    return {
      id: "x",
      choices: [
        {
          index: 0,
          finish_reason: "tool_calls",
          message: { tool_calls: [{ id: "1", type: "function", function: { name, arguments: "{}" } }] },
        },
      ],
    }
  if (format === "responses")
    return {
      id: "resp_1",
      status: "completed",
      output: [{ type: "function_call", call_id: "1", name, arguments: "{}" }],
    }
  if (format === "messages" || model.includes("claude"))
    return { id: "msg_1", content: [{ type: "tool_use", id: "1", name, input: {} }], stop_reason: "tool_use" }
  return {
    output: { message: { role: "assistant", content: [{ toolUse: { toolUseId: "1", name, input: {} } }] } },
    stopReason: "tool_use",
  }
}

test.each(rows)(
  "a %s request to %s is asked about once for each thing to be known of it",
  async (client, _, backend) => {
    clerk.asked = []
    using large = await read(client, requests[client])
    const found = await large.exchange(backend)
    if (!(found instanceof Failure)) await textOf(found.encodeRequest(100, null))
    const translated = client === backend.format ? [] : (["translate"] as const)
    // What a format cannot say is refused by its translation.
    const written = found instanceof Failure ? [] : (["write"] as const)
    expect(clerk.asked).toEqual(["read", "decode", ...translated, ...written])
    expect(translated.length + written.length).toBeGreaterThan(0)
  },
)

test.each(["chat", "messages", "responses"] as const)(
  "a %s request belongs to the same conversation as from here, by its name and by its opening",
  async (client) => {
    const call = { secret: new Uint8Array(32), accountId: "acc_1", backends: [], strip: [], dropped: [] }
    for (const conversationName of [undefined, "a session"]) {
      const terms = { call: { ...call, conversationName } }
      const here = must(decode(client, requests[client], terms))
      using large = must(await bodies.read(bytesOf(requests[client]), "acc_1", client))
      const { conversation } = must(await large.decode(terms))
      expect(conversation).toEqual(conversationOf(requests[client], conversationName))
      expect(here.conversation).toEqual(conversation)
    }
  },
)

describe.each(rows)("a %s client on %s", (client, _, backend) => {
  test("asks and is answered as from here", async () => {
    const request = must(formats[client].client.decodeRequest(requests[client]))
    const here = exchange(request, backend, { strip: ["top_p"] })
    using large = await read(client, requests[client])
    const there = await large.exchange(backend, ["top_p"])
    if (here instanceof Failure || there instanceof Failure) {
      expect(there).toEqual(here)
      return
    }
    const asked = here.encodeRequest(1_000)
    const { backend: manner, path, minAnswerTokens } = here
    expect(there).toMatchObject({ backend: manner, path, minAnswerTokens })
    // The envelope is put around it there already.
    if (manner !== "bedrock-invoke") {
      expect(await textOf(there.encodeRequest(1_000, null))).toBe(JSON.stringify(asked))
      expect(await textOf(there.asStream().encodeRequest(1_000, null))).toBe(
        JSON.stringify(here.asStream().encodeRequest(1_000)),
      )
    }
    expect(there.asStream().path).toBe(here.asStream().path)
    for (const name of [...namesIn(asked), "invented"]) {
      const answer = answerOf(backend, name)
      expect(there.readReply(answer, view(large.request))).toEqual(here.readReply(answer, view(request)))
    }
  })
})

test("what the assistant said since is written after it, and nothing is forced any more", async () => {
  const body = { ...requests.messages, tool_choice: { type: "any" } }
  const here = must(exchange(must(formats.messages.client.decodeRequest(body)), { format: "messages", model: "m" }))
  using large = await read("messages", body)
  const there = must(await large.exchange({ format: "messages", model: "m" }))
  const said = { role: "assistant", content: "Let me see." }
  const written = JSON.parse(await textOf(there.continued(said).encodeRequest(500, null))) as JsonObject
  expect(written).toEqual(JSON.parse(JSON.stringify(here.continued(said).encodeRequest(500))))
  expect(written["tool_choice"]).toEqual({ type: "auto" })
})

const many = <T>(count: number, make: (at: number) => T): T[] => Array.from({ length: count }, (_, at) => make(at))

describe("little is told of it", () => {
  const shapes: readonly (readonly [shape: string, endpoint: Translated, more: JsonObject])[] = [
    [
      "long texts",
      "chat",
      { user: "x".repeat(1_000_000), messages: [{ role: "user", content: "x".repeat(1_000_000) }] },
    ],
    [
      "many calls",
      "chat",
      {
        messages: many(2_000, (at) => ({
          role: "assistant",
          tool_calls: [{ id: `${at}`.padEnd(128, "i"), type: "function", function: { name: "f", arguments: "{}" } }],
        })),
      },
    ],
    ["many messages", "chat", { messages: many(50_000, () => ({ role: "user", content: "x" })) }],
    ["many fields", "chat", Object.fromEntries(many(90_000, (at) => [`field${at}`, [at]]))],
    ["long fields", "chat", Object.fromEntries(many(300, (at) => [`field${at}`, many(300, () => 0)]))],
    ["many stop sequences", "messages", { stop_sequences: many(100_000, (at) => `stop${at}`) }],
    ["long descriptions", "messages", { tools: many(1_000, (at) => ({ name: `t${at}`, input_schema: schema })) }],
    ["much metadata", "responses", { metadata: Object.fromEntries(many(50_000, (at) => [`k${at}`, "v"])) }],
    [
      "many tools of spaces",
      "responses",
      {
        tools: many(100, (at) => ({
          type: "namespace",
          name: `s${at}`,
          tools: many(19, (i) => ({ type: "function", name: `t${i}` })),
        })),
      },
    ],
  ]
  test.each(shapes)("%s", async (_, endpoint, more) => {
    using large = await read(endpoint, { ...requests[endpoint], ...more })
    for (const backend of backends) await large.exchange(backend)
    expect(clerk.largest).toBeLessThan(300_000)
  })

  const refused: readonly (readonly [shape: string, endpoint: Translated, more: JsonObject, backend: BackendModel])[] =
    [
      [
        "too many tools",
        "messages",
        { tools: many(2_001, (at) => ({ name: `t${at}`, input_schema: { type: "object" } })) },
        { format: "chat", model: "m" },
      ],
      [
        "a tool of a name that is too long",
        "messages",
        { tools: [{ name: "t".repeat(513), input_schema: { type: "object" } }] },
        { format: "chat", model: "m" },
      ],
    ]
  test.each(refused)("%s are refused where they would have to be told", async (_, endpoint, more, backend) => {
    using large = await read(endpoint, { ...requests[endpoint], ...more })
    expect(await large.exchange(backend)).toMatchObject({ code: "request.invalid_request" })
    expect(await large.exchange({ format: endpoint, model: "m" })).not.toBeInstanceOf(Failure)
  })
})

const told = async (endpoint: Translated, more: JsonObject): Promise<ModelRequest> => {
  using large = await read(endpoint, { model: "m", max_tokens: 9, messages: requests.chat["messages"]!, ...more })
  return large.request
}
/** Counts for nine more: its brackets, its place or name, and the quotes. */
const list = (length: number): Json => ["x".repeat(length - 9)]

const document = (source: JsonObject) => ({ type: "document", source })

describe("what is told of it ends", () => {
  test("with 1,024 characters of a text, and 16,384 of any other field", async () => {
    const { body } = await told("chat", { user: "u".repeat(1_025), seed: list(16_384), store: list(16_385) })
    expect(body).toMatchObject({ user: "u".repeat(1_024), seed: list(16_384), store: [{}] })
  })

  test("with the first sixteen values of a field that is too long, by their names of at most 512 characters and 64 of each", async () => {
    expect((await told("chat", { metadata: { a: "x".repeat(16_375) } })).body["metadata"]).toEqual({
      a: "x".repeat(16_375),
    })
    const names = many(17, (at) => `${at}`.padStart(512, "n"))
    const metadata = {
      inner: {},
      ["n".repeat(513)]: "v",
      ...Object.fromEntries(names.map((name) => [name, "x".repeat(500)])),
    }
    expect((await told("chat", { metadata: { ...metadata, a: "x".repeat(9_000) } })).body["metadata"]).toEqual(
      Object.fromEntries(names.slice(0, 16).map((name) => [name, "x".repeat(64)])),
    )
  })

  test("with 65,536 characters of all fields, those that answers repeat first", async () => {
    const whole = { verbosity: list(16_384), seed: list(16_384), metadata: list(16_384) }
    // Three wholly, and the limit of tokens, which counts for eight.
    const left = 65_536 - "max_tokensverbosityseedmetadata".length - 8 - 3 * 16_384
    const toldOf = async (length: number) => {
      const { verbosity, seed, metadata } = whole
      return (await told("chat", { verbosity, seed, store: list(length), metadata })).body
    }
    expect(await toldOf(left)).toMatchObject({ ...whole, store: list(left) })
    expect(await toldOf(left + 1)).toMatchObject({ ...whole, store: [{}] })
  })

  test("with the last thousand ids of calls, of 128 characters, where they are to be translated", async () => {
    const ids = many(1_001, (at) => `${at}`.padEnd(128, "i"))
    const messages = [...ids, "i".repeat(129)].map((id) => ({
      role: "assistant",
      tool_calls: [{ id, type: "function", function: { name: "f", arguments: "{}" } }],
    }))
    using large = await read("chat", { ...requests.chat, messages })
    const { prompt } = must(await large.exchange({ format: "messages", model: "m" })) as DirectExchange
    const parts = prompt?.turns.flatMap((turn) => (turn.role === "assistant" ? turn.parts : [])) ?? []
    expect(parts.flatMap((part) => (part.type === "tool-call" && part.id !== "" ? part.id : []))).toEqual(ids.slice(1))
  })

  test("with 64 stop sequences of 1,024 characters, where they are to be translated", async () => {
    const stops = many(65, (at) => `${at}`.padEnd(1_024, "s"))
    using large = await read("messages", {
      ...requests.messages,
      stop_sequences: ["s".repeat(1_025), ...stops],
    })
    const asked = must(await large.exchange({ format: "chat", model: "m" }))
    expect(asked).toMatchObject({ prompt: { stopSequences: stops.slice(0, 64) } })
  })

  test("with a thousand sources of 1,024 characters, where the web is searched", async () => {
    const sources = many(1_001, (at) => `${at}`.padEnd(1_024, "s"))
    const content = ["s".repeat(1_025), ...sources].map((source) => ({
      type: "search_result",
      source,
      title: "T",
      content: [{ type: "text", text: "x" }],
    }))
    const tools = [{ type: "web_search_20250305", name: "web_search" }]
    const { webSearch } = await told("messages", { messages: [{ role: "user", content }], tools })
    expect([...(webSearch?.clientSources ?? [])]).toEqual(sources.slice(0, 1_000))
  })

  test("with twenty documents; the others are counted together, by what is known of them", async () => {
    const file = Buffer.from("%PDF-1.7").toString("base64")
    const pdf = document({ type: "base64", media_type: "application/pdf", data: file })
    const text = document({ type: "base64", media_type: "text/plain", data: Buffer.from("Hello").toString("base64") })
    const remote = document({ type: "url", url: "https://example.test/a.pdf" })
    const content = [...many(21, () => pdf), text, remote, text, remote, pdf]
    const body = { model: "m", max_tokens: 9, messages: [{ role: "user", content }] }
    const here = must(formats.messages.client.decodeRequest(body)).media?.documents ?? []
    const documents = (await told("messages", body)).media?.documents ?? []
    expect(here).toHaveLength(26)
    expect(documents.slice(0, 20)).toEqual(here.slice(0, 20).map((one) => ({ ...one, pdf: expect.any(Blob) })))
    const files = documents.flatMap(({ pdf: blob }) => (blob instanceof Blob ? [blob.text()] : []))
    expect(await Promise.all(files)).toEqual(many(20, () => file))
    const twice = (at: number) => ({ likely: 2 * here[at]!.likely, most: 2 * here[at]!.most, known: here[at]!.known })
    expect(documents.slice(20)).toEqual([
      { ...twice(21), remote: false },
      { ...twice(20), remote: false },
      { ...twice(22), remote: true },
    ])
  })
})
