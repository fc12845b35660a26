/** One test for each row of the error catalogue (gateway-api.md, "Errors"), each provoked for real. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { createApiKey } from "../../src/accounts/bearer-tokens.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { callsOf, eventually } from "./calling.ts"
import { bugs, expectFailure } from "./expect-failure.ts"
import { covers } from "./rows.ts"

const MAX_BODY_BYTES = 100_000
const paths = { chat: "/v1/chat/completions", messages: "/v1/messages", responses: "/v1/responses" }
const hello = [{ role: "user", content: "Hello" }]

let gateway: TestGateway
let person: Person
let key: string

beforeAll(async () => {
  gateway = await startTestGateway({ env: { MAX_BODY_BYTES: String(MAX_BODY_BYTES), CAPACITY_WAIT_MS: "50" } })
  person = await gateway.person(1_000_000)
  key = (await gateway.key(person)).key
})
afterAll(() => gateway[Symbol.asyncDispose]())

const chat = (model: string, more: object = {}, by = key) =>
  gateway.post(paths.chat, by, { model, messages: hello, ...more })
const messages = (model: string, more: object = {}, by = key) =>
  gateway.post(paths.messages, by, { model, max_tokens: 100, messages: hello, ...more })
const responses = (model: string, more: object = {}, by = key) =>
  gateway.post(paths.responses, by, { model, input: "Hello", ...more })
const get = (path: string, headers: Record<string, string> = {}) => fetch(gateway.url + path, { headers })
/** Whole ones, rounded up. */
const secondsSince = (began: number) => Math.ceil((performance.now() - began) / 1_000)

describe(covers("error.request.invalid", "errors.body", "4.6", "4.7"), () => {
  const unreadable: Record<string, string | Uint8Array<ArrayBuffer>> = {
    nothing: "",
    "white space": "  \n",
    "half an object": '{"model":',
    "two objects": "{}{}",
    "a comma at the end": '{"model":"plain",}',
    NaN: '{"model":NaN}',
    "invalid UTF-8": new Uint8Array([...Buffer.from('{"model":"'), 0xc3, 0x28, ...Buffer.from('"}')]),
    "UTF-16": new Uint8Array(Buffer.from('{"model":"plain"}', "utf16le")),
  }
  test.each(Object.keys(unreadable))("a body of %s is not valid", async (name) => {
    for (const path of [...Object.values(paths), "/v1/messages/count_tokens", "/v1/responses/input_tokens"]) {
      const response = await gateway.post(path, key, "", { body: unreadable[name] ?? "" })
      await expectFailure(response, 400, "request.invalid")
    }
  })
  test("a model that is missing or no string is not valid", async () => {
    for (const path of [...Object.values(paths), "/v1/messages/count_tokens", "/v1/responses/input_tokens"]) {
      for (const model of [undefined, null, 1, "", ["plain"], { id: "plain" }]) {
        await expectFailure(await gateway.post(path, key, { model, messages: hello }), 400, "request.invalid")
      }
    }
  })
  test("an input that is missing or empty is not valid on responses", async () => {
    const model = await gateway.model({ format: "responses" })
    for (const input of [undefined, null, "", []]) {
      await expectFailure(await responses(model, { input }), 400, "request.invalid")
    }
  })
  test("a model that is not served on this endpoint is not valid", async () => {
    const model = await gateway.model({ format: "chat" })
    await expectFailure(await messages(model), 400, "request.invalid")
    await expectFailure(await responses(model), 400, "request.invalid")
    await expectFailure(
      await gateway.post("/v1/messages/count_tokens", key, { model, messages: hello }),
      400,
      "request.invalid",
    )
  })
  test("an image for a model without vision is not valid, on each endpoint", async () => {
    const url = "data:image/png;base64,iVBORw0KGgo="
    const [onChat, onMessages, onResponses] = await Promise.all([
      gateway.model({ format: "chat" }),
      gateway.model({ format: "messages" }),
      gateway.model({ format: "responses" }),
    ])
    const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" } }
    const calls = [
      chat(onChat, { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url } }] }] }),
      messages(onMessages, { messages: [{ role: "user", content: [image] }] }),
      responses(onResponses, { input: [{ role: "user", content: [{ type: "input_image", image_url: url }] }] }),
    ]
    for (const call of calls) await expectFailure(await call, 400, "request.invalid")
  })
  test("nor is one that is sent as a file, while a file of another kind is served", async () => {
    const data = Buffer.from("Hello").toString("base64")
    const sent = {
      chat: (type: string) => ({ type: "file", file: { filename: "a", file_data: `data:${type};base64,${data}` } }),
      messages: (type: string) => ({ type: "document", source: { type: "base64", media_type: type, data } }),
      responses: (type: string) => ({ type: "input_file", filename: "a", file_data: `data:${type};base64,${data}` }),
    }
    const ask = { chat, messages, responses }
    for (const format of ["chat", "messages", "responses"] as const) {
      const blind = await gateway.model({ format })
      const seeing = await gateway.model({ format, supports_vision: true })
      const as = (model: string, type: string) => {
        const said = [{ role: "user", content: [sent[format](type)] }]
        return ask[format](model, format === "responses" ? { input: said } : { messages: said })
      }
      for (const type of ["image/png", "IMAGE/JPEG"]) await expectFailure(await as(blind, type), 400, "request.invalid")
      expect((await as(blind, "text/plain")).status).toBe(200)
      expect((await as(blind, "image/svg+xml")).status).toBe(200)
      expect((await as(seeing, "image/png")).status).toBe(200)
    }
  })
})

describe(covers("error.request.invalid_request", "12.14"), () => {
  test.each(["[]", "null", "1", '"text"', "true"])("a body of %s is no object", async (body) => {
    for (const path of [...Object.values(paths), "/v1/messages/count_tokens", "/v1/responses/input_tokens"]) {
      await expectFailure(await gateway.post(path, key, body), 400, "request.invalid_request")
    }
  })
  test("a user message must say something", async () => {
    const model = await gateway.model({ format: "chat" })
    const other = await gateway.model({ format: "messages" })
    for (const content of ["", null, [], [{ type: "text", text: "" }]]) {
      const empty = { messages: [{ role: "user", content }] }
      await expectFailure(await chat(model, empty), 400, "request.invalid_request")
      await expectFailure(await messages(other, empty), 400, "request.invalid_request")
    }
  })
  test("tools are an array of objects, each with an input_schema that has a root type", async () => {
    const model = await gateway.model({ format: "messages" })
    const noSchema = [{ name: "a" }, { name: "a", input_schema: {} }, { name: "a", input_schema: [] }]
    for (const tools of [{}, "search", [1], [null], ...noSchema.map((tool) => [tool])]) {
      await expectFailure(await messages(model, { tools }), 400, "request.invalid_request")
    }
  })
  test("a tool of type custom needs its input_schema too", async () => {
    const model = await gateway.model({ format: "messages" })
    const tools = [{ type: "custom", name: "a" }]
    await expectFailure(await messages(model, { tools }), 400, "request.invalid_request")
  })
  test("a tool as chat completions write it is no tool of messages", async () => {
    const model = await gateway.model({ format: "messages" })
    const tools = [{ type: "function", function: { name: "a", parameters: { type: "object" } } }]
    const { message } = await expectFailure(await messages(model, { tools }), 400, "request.invalid_request")
    expect(message).toContain("'tools[0]' is a tool of chat completions")
  })
  test.each([undefined, "many", 1.5, 0, -1])("max_tokens of %p on messages has not the right shape", async (limit) => {
    const model = await gateway.model({ format: "messages" })
    await expectFailure(await messages(model, { max_tokens: limit }), 400, "request.invalid_request")
  })
})

describe(covers("error.request.unsupported_feature", "8.web-search", "8.state"), () => {
  const schema = { type: "json_schema", json_schema: { name: "a", schema: { type: "object" } } }
  const tool = { type: "function", function: { name: "a", parameters: { type: "object" } } }
  test("structured outputs of the vendor family are not served outside of messages", async () => {
    const model = await gateway.model({
      format: "messages",
      endpoints: ["chat", "messages"],
      features: ["structured_outputs"],
    })
    const refused = await chat(model, { response_format: schema })
    const { message } = await expectFailure(refused, 400, "request.unsupported_feature")
    expect(message).toBe(`${model} does not serve structured outputs on this endpoint, but on: messages.`)
  })
  test("web search is not served on chat, nor where no search is configured", async () => {
    const onChat = await gateway.model({ format: "chat", features: ["web_search"] })
    const onMessages = await gateway.model({ format: "messages", features: ["web_search"] })
    await expectFailure(await chat(onChat, { web_search_options: {} }), 400, "request.unsupported_feature")
    const search = { tools: [{ type: "web_search_20250305", name: "web_search" }] }
    const { message } = await expectFailure(await messages(onMessages, search), 400, "request.unsupported_feature")
    expect(message).toEndWith("on this endpoint, because this gateway has no search server.")
  })
  test("web search on responses is forwarded for a model that has it, and refused for one that has not", async () => {
    const [without, having] = await Promise.all([
      gateway.model({ format: "responses" }),
      gateway.model({ format: "responses", features: ["web_search"] }),
    ])
    const tools = [{ type: "web_search" }]
    await expectFailure(await responses(without, { tools }), 400, "request.unsupported_feature")
    const response = await responses(having, { tools })
    expect(response.status).toBe(200)
    expect(gateway.simulator.calls.at(-1)?.body).toMatchObject({ tools, store: false })
  })
  test("tools are not served for a model without them", async () => {
    const flagged = await gateway.model({ format: "chat", supports_tools: false })
    const listed = await gateway.model({ format: "chat", unsupported: ["tools"] })
    for (const model of [flagged, listed]) {
      await expectFailure(await chat(model, { tools: [tool] }), 400, "request.unsupported_feature")
    }
  })
  test("a parameter that the catalogue lists as unsupported is refused by its name, unless it asks for nothing", async () => {
    const model = await gateway.model({ format: "chat", unsupported: ["logprobs", "logit_bias"] })
    const { message } = await expectFailure(await chat(model, { logprobs: true }), 400, "request.unsupported_feature")
    expect(message).toContain("logprobs")
    expect((await chat(model, { logprobs: null })).status).toBe(200)
  })
  test.each([
    { previous_response_id: "resp_1" },
    { conversation: "conv_1" },
    { background: true },
    { input: [{ type: "item_reference", id: "msg_1" }] },
    { input: [{ role: "user", content: [{ type: "input_file", file_id: "file_1" }] }] },
    { prompt: { id: "pmpt_1" } },
  ])("state kept at the backend is not served: %j", async (state) => {
    const model = await gateway.model({ format: "responses" })
    const { hint } = await expectFailure(await responses(model, state), 400, "request.unsupported_feature")
    // What a loop of the AI SDK runs into by its default.
    if (JSON.stringify(state).includes("item_reference")) expect(hint).toContain("{ openai: { store: false } }")
  })
  test("a server tool that is not served is no feature, whatever else it has", async () => {
    const model = await gateway.model({ format: "messages" })
    const tools = [{ type: "code_execution_20250522", name: "code_execution" }]
    await expectFailure(await messages(model, { tools }), 400, "request.unsupported_feature")
  })
})

test(`${covers("error.model.unknown", "errors.rule5")} model ids are case-sensitive, and a removed one is unknown`, async () => {
  for (const model of ["nothing", "PLAIN", " plain", "__proto__", "constructor"]) {
    await expectFailure(await chat(model), 400, "model.unknown")
  }
})

describe(covers("error.upstream.context_length_exceeded"), () => {
  test("a prompt over the window is refused before it is forwarded, with the numbers", async () => {
    const model = await gateway.model({ format: "chat", context_window: 3 })
    const { message } = await expectFailure(await chat(model), 400, "upstream.context_length_exceeded")
    expect(message).toMatch(/^prompt is too long: \d+ tokens > 3 maximum$/)
  })
  test("a backend that finds the prompt too long is understood, in each format", async () => {
    for (const [format, call] of [
      ["chat", chat],
      ["messages", messages],
      ["responses", responses],
    ] as const) {
      const model = await gateway.model({ format, script: "fault=context" })
      const { message } = await expectFailure(await call(model), 400, "upstream.context_length_exceeded")
      if (format !== "responses") expect(message).toBe("prompt is too long: 210000 tokens > 200000 maximum")
    }
  })
})

test.each([400, 422])(
  `${covers("error.upstream.invalid_request")} a backend's %i is told without its words`,
  async (status) => {
    const model = await gateway.model({ format: "chat", script: `fault=status&status=${status}&message=secret-words` })
    const { message } = await expectFailure(await chat(model), 400, "upstream.invalid_request")
    expect(message).not.toContain("secret-words")
  },
)

test(`${covers("error.upstream.unsupported_feature")} a parameter that the backend does not take`, async () => {
  for (const [format, call] of [
    ["chat", chat],
    ["messages", messages],
    ["responses", responses],
  ] as const) {
    const model = await gateway.model({ format, script: "fault=unsupported" })
    await expectFailure(await call(model, { temperature: 0.2 }), 400, "upstream.unsupported_feature")
  }
})

describe(covers("error.auth.api_key_missing", "auth.either"), () => {
  test.each<Record<string, string>>([
    {},
    { "x-api-key": "" },
    { "x-api-key": "  " },
    { Authorization: "" },
    { Authorization: "Bearer" },
    { Authorization: "Bearer  " },
    { Authorization: "Basic c2VjcmV0" },
    { Authorization: "Bearer ", "x-api-key": "" },
  ])("no key in %j", async (headers) => {
    for (const path of [...Object.values(paths), "/v1/messages/count_tokens", "/v1/responses/input_tokens"]) {
      const response = await fetch(gateway.url + path, { method: "POST", headers, body: "{}" })
      await expectFailure(response, 401, "auth.api_key_missing")
    }
    await expectFailure(await get("/v1/models", headers), 401, "auth.api_key_missing")
    await expectFailure(await get("/v1/models/plain", headers), 401, "auth.api_key_missing")
  })
})

describe(covers("error.auth.api_key_invalid", "auth.checksum"), () => {
  test("a key of another form, one with a wrong checksum, and one that does not exist are not recognised", async () => {
    const flipped = key.slice(0, -1) + (key.endsWith("0") ? "1" : "0")
    const nobodys = createApiKey()
    for (const wrong of ["sk-other", `${key}x`, key.slice(1), key.toUpperCase(), flipped, nobodys, "a b"]) {
      await expectFailure(await chat("plain", {}, wrong), 401, "auth.api_key_invalid")
      await expectFailure(await get("/v1/models", { "x-api-key": wrong }), 401, "auth.api_key_invalid")
    }
  })
})

test(`${covers("error.auth.api_key_revoked")} a revoked key is refused on every path`, async () => {
  const revoked = await gateway.key(person)
  await chat("plain", {}, revoked.key)
  expect((await gateway.dashboard(person, `/keys/${revoked.id}/revoke`, { method: "POST" })).status).toBe(200)
  await eventually(
    "not revoked",
    () => chat("plain", {}, revoked.key),
    ({ status }) => status === 401,
  )
  await expectFailure(await chat("plain", {}, revoked.key), 401, "auth.api_key_revoked")
  await expectFailure(await get("/v1/models", { "x-api-key": revoked.key }), 401, "auth.api_key_revoked")
})

describe(covers("error.auth.unauthorized", "endpoint.usage", "4.headers"), () => {
  const dashboard = ["/usage", "/usage/req_1", "/account", "/keys", "/top-ups"]
  test("a dashboard endpoint takes a session and nothing else", async () => {
    for (const path of dashboard) {
      for (const headers of [
        {},
        { Authorization: "Bearer nothing" },
        { Authorization: `Bearer ${key}` },
        { "x-api-key": key },
        { Authorization: `Bearer ${person.token}`, "x-api-key": key },
      ]) {
        await expectFailure(await get(path, headers), 401, "auth.unauthorized")
      }
    }
  })
})

test(`${covers("error.billing.insufficient_balance", "12.5")} a balance of nothing pays for nothing, and no record is written`, async () => {
  const poor = await gateway.person()
  const poorKey = (await gateway.key(poor)).key
  const response = await chat("plain", {}, poorKey)
  await expectFailure(response.clone(), 402, "billing.insufficient_balance")
  const record = await gateway.dashboard(poor, `/usage/${response.headers.get("x-request-id")}`)
  await expectFailure(record, 404, "usage.not_found")
})

test(`${covers("error.auth.account_deleted")} the key of a deleted account`, async () => {
  const leaver = await gateway.person(10_000)
  const { key: orphan } = await gateway.key(leaver)
  const model = await gateway.model({ format: "chat" })
  expect((await chat(model, {}, orphan)).status).toBe(200)
  const deleted = await gateway.dashboard(leaver, "/account", {
    method: "DELETE",
    body: JSON.stringify({ password: "correct horse battery" }),
  })
  expect(deleted.status).toBe(204)
  await eventually(
    "not deleted",
    () => chat(model, {}, orphan),
    ({ status }) => status === 403,
  )
  await expectFailure(await chat(model, {}, orphan), 403, "auth.account_deleted")
  await expectFailure(await get("/v1/models", { "x-api-key": orphan }), 403, "auth.account_deleted")
})

test(`${covers("error.auth.forbidden")} a call by cookie from another origin`, async () => {
  const response = await fetch(`${gateway.url}/auth/sign-out`, {
    method: "POST",
    headers: { Cookie: `session=${person.token}`, Origin: "https://evil.example" },
  })
  await expectFailure(response, 403, "auth.forbidden")
})

test(`${covers("error.route.not_found")} a path that does not exist`, async () => {
  for (const path of ["/v1", "/v1/", "/v2/models", "/v1/messagess", "/V1/models", "/v1/embeddings", "/.env"]) {
    await expectFailure(await get(path, { "x-api-key": key }), 404, "route.not_found")
  }
})

test.each([
  ["/v1/v1/messages", "/v1/messages"],
  ["/v1/v1/chat/completions", "/v1/chat/completions"],
  ["/chat/completions", "/v1/chat/completions"],
  ["/messages/", "/v1/messages"],
  ["/responses", "/v1/responses"],
  ["/v1/messages/count_tokens//", "/v1/messages/count_tokens"],
  ["/v1/v1/models/", "/v1/models"],
  ["/v1//chat/completions", "/v1/chat/completions"],
  ["/v1/chat/completions/chat/completions", "/v1/chat/completions"],
  ["/v1/messages/v1/messages", "/v1/messages"],
])("at %s the way to %s is shown", async (path, meant) => {
  const { hint } = await expectFailure(await gateway.post(path, key, {}), 404, "route.not_found")
  expect(hint).toStartWith(`Did you mean ${meant}? As its base address`)
})

/** Of requests to paths that are not there. */
const hints = async (...paths: string[]) =>
  await Promise.all(paths.map(async (path) => (await expectFailure(await get(path, {}), 404, "route.not_found")).hint))

test("the base address alone is told what it is for, and what is like nothing is not", async () => {
  for (const hint of await hints("/v1", "/v1/")) expect(hint).toStartWith("As its base address")
  expect(await hints("/v1/nothing", `/v1${"/v1".repeat(2_000)}/nothing`)).toEqual(["", ""])
})

test(`${covers("error.resource.not_found")} a model id that does not exist`, async () => {
  await expectFailure(await get("/v1/models/nothing", { "x-api-key": key }), 404, "resource.not_found")
})

test(`${covers("error.usage.not_found")} an id that is unknown, foreign, malformed, or of a call that still runs`, async () => {
  const model = await gateway.model({ format: "chat", script: "text=abc&delta=1&pace=200" })
  const response = await chat(model, { stream: true })
  const id = response.headers.get("x-request-id") ?? ""
  await expectFailure(await gateway.dashboard(person, `/usage/${id}`), 404, "usage.not_found")
  await response.text()
  expect(await gateway.usage(person, id)).toMatchObject({ status: "ok" })
  await expectFailure(await gateway.dashboard(await gateway.person(), `/usage/${id}`), 404, "usage.not_found")
  for (const wrong of ["req_nothing", "%ff", "%00", "a'b", "x".repeat(5_000)]) {
    await expectFailure(await gateway.dashboard(person, `/usage/${wrong}`), 404, "usage.not_found")
  }
})

test(`${covers("error.request.method_not_allowed")} a wrong method on a right path says which are right`, async () => {
  const response = await get("/v1/messages", { "x-api-key": key })
  expect(response.headers.get("allow")).toBe("POST")
  await expectFailure(response, 405, "request.method_not_allowed")
})

test(`${covers("error.request.too_large")} one byte over the limit is too large, the limit itself is not`, async () => {
  const largest = "{}".padEnd(MAX_BODY_BYTES, " ")
  await expectFailure(await gateway.post(paths.chat, key, largest), 400, "request.invalid")
  await expectFailure(await gateway.post(paths.chat, key, `${largest} `), 413, "request.too_large")
})

test(`${covers("error.rate_limit.rpm_exceeded")} the second call of a key with one a minute`, async () => {
  const { key: once } = await gateway.key(person, { requests_per_minute: 1 })
  const began = performance.now()
  expect((await get("/v1/models", { "x-api-key": once })).status).toBe(200)
  const { retryAfterS } = await expectFailure(await chat("plain", {}, once), 429, "rate_limit.rpm_exceeded")
  expect(retryAfterS).toBeWithin(60 - secondsSince(began), 61)
})

test(`${covers("error.rate_limit.tpm_exceeded")} a call whose tokens are over what is left of the minute`, async () => {
  const model = await gateway.model({ format: "chat", script: "input=190&output=10" })
  const { key: limited } = await gateway.key(person, { tokens_per_minute: 200 })
  const began = performance.now()
  expect((await chat(model, {}, limited)).status).toBe(200)
  const { retryAfterS } = await expectFailure(await chat(model, {}, limited), 429, "rate_limit.tpm_exceeded")
  expect(retryAfterS).toBeWithin(60 - secondsSince(began), 61)
})

test(`${covers("error.gateway.capacity", "5.capacity")} a model whose slots are taken longer than the wait`, async () => {
  const model = await gateway.model({ format: "chat", script: "ttft=2500", max_concurrency: 1 })
  const first = chat(model)
  await eventually(
    "not forwarded",
    () => callsOf(gateway, model).length,
    (calls) => calls === 1,
  )
  const { retryAfterS } = await expectFailure(await chat(model), 429, "gateway.capacity")
  expect(retryAfterS).toBe(1)
  expect((await first).status).toBe(200)
  expect((await chat(model)).status).toBe(200)
})

describe(covers("error.upstream.rate_limited", "errors.rule3", "12.11"), () => {
  test.each([
    ["17", 17],
    ["3600", 3_600],
    ["3601", 3_600],
    ["86400", 3_600],
    ["86401", undefined],
    ["-5", undefined],
    ["1.5", undefined],
    ["soon", undefined],
    ["99999999999999999999", undefined],
    [new Date(Date.now() + 7_200_000).toUTCString(), 3_600],
    ["Fri, 31 Dec 1999 23:59:59 GMT", undefined],
  ])("a backend's Retry-After of %j", async (retryAfter, expected) => {
    const script = `fault=status&status=429&retry_after=${encodeURIComponent(retryAfter)}`
    const model = await gateway.model({ format: "chat", script })
    const { retryAfterS } = await expectFailure(await chat(model), 429, "upstream.rate_limited")
    expect(retryAfterS).toBe(expected)
  })
})

test(`${covers("error.quota.key_limit_exceeded")} a key that may spend nothing`, async () => {
  const { key: spent } = await gateway.key(person, { spending_limit_micro: 0, spending_period: "total" })
  const { retryAfterS } = await expectFailure(await chat("plain", {}, spent), 429, "quota.key_limit_exceeded")
  expect(retryAfterS).toBeUndefined()
})

test.each([
  ["its credentials are refused", "fault=status&status=401"],
  ["it does not know the model", "fault=status&status=404"],
  ["it answers with a page", "fault=status&status=418&body=html"],
  ["it redirects nowhere known", "fault=status&status=409&body=empty"],
])(`${covers("error.dependency.upstream_unavailable")} a backend fails: %s`, async (_, script) => {
  const model = await gateway.model({ format: "chat", script })
  await expectFailure(await chat(model), 502, "dependency.upstream_unavailable")
})

test(`${covers("error.dependency.upstream_unconfigured")} a model whose provider has no key`, async () => {
  const model = await gateway.model({ format: "chat", provider: "nobody" })
  await expectFailure(await chat(model), 503, "dependency.upstream_unconfigured")
})

test("none of this was a bug", () => {
  expect(bugs(gateway)).toEqual([])
})
