/** How a client's format meets a backend's: what is held for, what is refused, and whose words an answer is in. */
import { describe, expect, test } from "bun:test"
import type { JsonObject } from "../../src/language/json.ts"
import type { Prompt } from "../../src/language/prompt.ts"
import type { Endpoint, Translated } from "../../src/language/request.ts"
import { Failure } from "../../src/failure/failure.ts"
import {
  type EncodingOptions,
  exchange,
  isPassedThrough,
  minAnswerTokens,
  remoteExchange,
} from "../../src/wire/exchange.ts"
import { type BackendModel, formats } from "../../src/wire/protocol.ts"
import { must } from "./chat/ask.ts"

const messages = [{ role: "user", content: "Hi" }]
const asked: Readonly<Record<Translated, JsonObject>> = {
  chat: { model: "m", messages },
  messages: { model: "m", max_tokens: 90, messages },
  responses: { model: "m", input: "Hi" },
}
const request = (client: Translated, fields: JsonObject = {}) =>
  must(formats[client].client.decodeRequest({ ...asked[client], ...fields }))
const met = (client: Translated, backend: BackendModel, fields: JsonObject = {}) =>
  must(exchange(request(client, fields), backend))
const view = (client: Translated) => ({
  model: "catalogue/model",
  includeUsage: true,
  requestId: "req_1",
  nowMs: 0,
  inputTokens: 77,
  request: request(client),
})

const chat: BackendModel = { format: "chat", model: "v" }
const vendor: BackendModel = { format: "messages", model: "v" }
const responses: BackendModel = { format: "responses", model: "v" }
const invoke: BackendModel = { format: "bedrock", model: "anthropic.claude-opus-4-8" }
const converse: BackendModel = { format: "bedrock", model: "meta.llama" }

const leastOf = (endpoint: Endpoint, ...backends: BackendModel[]) => minAnswerTokens(endpoint, backends)

describe("the smallest answer that a backend accepts", () => {
  test.each<[Translated, BackendModel, number]>([
    ["chat", responses, 16],
    ["messages", responses, 16],
    ["responses", responses, 1],
    ["chat", chat, 1],
    ["responses", chat, 1],
    ["chat", vendor, 1],
    ["messages", invoke, 1],
    ["messages", converse, 1],
  ])("is told where a %s client cannot know it: of %j %d", (client, backend, least) => {
    expect(met(client, backend).minAnswerTokens).toBe(least)
    expect(minAnswerTokens(client, [backend])).toBe(least)
  })
  test("is the largest of a pool", () => {
    expect([
      leastOf("chat", chat, responses),
      leastOf("chat", responses, chat),
      leastOf("chat", chat, vendor),
      leastOf("chat"),
    ]).toEqual([16, 16, 1, 1])
  })
})

const passedThrough = (client: Translated) =>
  [chat, vendor, responses, invoke, converse].map((backend) => isPassedThrough(client, backend))

test("a request passes through where the backend speaks its format and can refuse nothing", () => {
  expect(passedThrough("chat")).toEqual([true, false, false, false, false])
  expect(passedThrough("messages")).toEqual([false, true, false, false, false])
  expect(passedThrough("responses")).toEqual([false, false, true, false, false])
})

describe("a request", () => {
  const image = { type: "image", source: { type: "url", url: "https://example.com/a.png" } }
  const part = { type: "image_url", image_url: { url: "https://example.com/a.png" } }
  test.each<[Translated, JsonObject]>([
    ["messages", { messages: [{ role: "user", content: [image] }] }],
    ["chat", { messages: [{ role: "user", content: [part] }] }],
  ])("of a %s client is refused what its backend would have to fetch, and nowhere else", (client, fields) => {
    expect(exchange(request(client, fields), invoke)).toMatchObject({ code: "request.unsupported_feature" })
    expect(exchange(request(client, fields), vendor)).not.toBeInstanceOf(Failure)
  })
  test("that no backend of another format can be asked is refused", () => {
    expect(exchange(request("chat", { n: 2 }), vendor)).toMatchObject({ code: "request.unsupported_feature" })
    expect(exchange(request("chat", { n: 2 }), chat)).not.toBeInstanceOf(Failure)
  })
  test.each<[Translated, BackendModel]>([
    ["chat", chat],
    ["messages", vendor],
    ["chat", vendor],
    ["messages", chat],
  ])("of a %s client for %j has the backend's model and limit, and nothing that is stripped", (client, backend) => {
    const asking = request(client, { temperature: 0.5, top_p: 0.9 })
    const body = must(exchange(asking, backend, { strip: ["temperature"] })).encodeRequest(50)
    expect(body).toMatchObject({ model: "v", top_p: 0.9 })
    expect(body).not.toHaveProperty("temperature")
    expect(body["max_tokens"]).toBe(50)
  })
  test("goes on after an answer in the client's own format alone", () => {
    const said = { role: "assistant", content: "Hello" }
    const later = met("messages", vendor).continued(said)
    for (const body of [later.encodeRequest(50), later.asStream().encodeRequest(50)])
      expect(body["messages"]).toEqual([...messages, said])
    expect(() => met("messages", chat).continued(said)).toThrow()
  })
})

describe("an answer", () => {
  const usage = { input_tokens: 5, cache_read_input_tokens: 2, output_tokens: 3 }
  const content = [{ type: "text", text: "Hello" }]
  const answer = { type: "message", id: "msg_1", content, stop_reason: "end_turn" }
  const tokens = { input: 5, cacheRead: 2, cacheWrite: 0, output: 3 }
  test("is counted as its backend counts, and written as its client reads", () => {
    expect(met("chat", vendor).readReply({ ...answer, usage }, view("chat"))).toMatchObject({
      tokens,
      body: {
        object: "chat.completion",
        model: "catalogue/model",
        choices: [{ message: { content: "Hello" } }],
        usage: { prompt_tokens: 7, completion_tokens: 3 },
      },
    })
    expect(met("messages", vendor).readReply({ ...answer, usage }, view("messages"))).toMatchObject({
      tokens,
      body: { ...answer, model: "catalogue/model", usage },
    })
  })
  test("that was not counted has an estimate where its client cannot do without", () => {
    const uncounted = met("chat", vendor).readReply(answer, view("chat"))
    expect(uncounted).toMatchObject({ tokens: undefined, body: { object: "chat.completion" } })
    expect(uncounted).not.toHaveProperty("body.usage")
    const estimated = { tokens: undefined, body: { usage: { input_tokens: 77, output_tokens: 0 } } }
    expect(met("messages", vendor).readReply(answer, view("messages"))).toMatchObject(estimated)
    const plain = { id: "c", choices: [{ message: { content: "Hello" }, finish_reason: "stop" }] }
    expect(met("messages", chat).readReply(plain, view("messages"))).toMatchObject(estimated)
  })
  test("that is none is the backend's failure, whoever reads it", () => {
    const down = { code: "dependency.upstream_unavailable" }
    expect(met("chat", vendor).readReply({}, view("chat"))).toMatchObject(down)
    expect(met("messages", chat).readReply({ choices: [{}] }, view("messages"))).toMatchObject(down)
  })
})

const distant = (backend: BackendModel, prompt: Prompt | undefined, stream = true) => {
  const terms: EncodingOptions[] = []
  const found = remoteExchange(request("messages", { stream }), backend, prompt, (asked) => {
    terms.push(asked)
    return Promise.resolve(new Failure("internal.error"))
  })
  return { found, terms }
}

describe("a request that another thread encodes", () => {
  test("is encoded with its limit, its betas, and what it goes on from", async () => {
    const { found, terms } = distant(vendor, undefined)
    const said = { role: "assistant", content: "Hello" }
    await found.encodeRequest(50, "beta")
    await found.continued(said).encodeRequest(60, null)
    expect(terms).toEqual([
      { maxOutputTokens: 50, anthropicBeta: "beta", stream: true, assistantTurn: undefined },
      { maxOutputTokens: 60, anthropicBeta: null, stream: true, assistantTurn: said },
    ])
  })
  test("is asked for as a stream where its answer is to be gathered", async () => {
    const { found, terms } = distant(vendor, undefined, false)
    await found.encodeRequest(50, null)
    await found.asStream().encodeRequest(50, null)
    expect(terms.map(({ stream }) => stream)).toEqual([false, true])
  })
  test("for a backend of another format has its prompt, and does not go on", () => {
    const { prompt } = met("messages", responses)
    expect(() => distant(responses, undefined)).toThrow()
    expect(() => distant(responses, prompt).found.continued({ role: "assistant", content: "Hello" })).toThrow()
    expect(distant(responses, prompt).found.minAnswerTokens).toBe(16)
  })
})
