/**
 * The `@anthropic-ai/sdk` package as its users have it, pointed at a gateway: what it reads, what it throws and when it
 * stops trying.
 */
import Anthropic, {
  APIError,
  AuthenticationError,
  BadRequestError,
  NotFoundError,
  RateLimitError,
} from "@anthropic-ai/sdk"
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { answer, Buyer, costRp, countingFetch, script, thrownBy } from "./buyer.ts"

let gateway: TestGateway
let buyer: Buyer
let anthropic: Anthropic

const client = (apiKey: string, options: object = {}) => new Anthropic({ apiKey, baseURL: gateway.url, ...options })

beforeAll(async () => {
  gateway = await startTestGateway()
  buyer = await Buyer.with(gateway, 1_000_000)
  anthropic = client(buyer.key)
})
afterAll(() => gateway[Symbol.asyncDispose]())

const ask = { max_tokens: 100, messages: [{ role: "user" as const, content: "Where is my train?" }] }
const args = { from: "Gambir" }
const calling = `tool=find_train&args=${encodeURIComponent(JSON.stringify(args))}`
const tools = [
  { name: "find_train", input_schema: { type: "object" as const, properties: { from: { type: "string" } } } },
]
const idOf = ({ response }: { readonly response: Response }) => response.headers.get("x-request-id")
const textOf = (message: Anthropic.Message) =>
  message.content.map((block) => block.type === "text" && block.text).join()

/** What both ways of asking must agree on. */
const plain = ({ content, stop_reason, usage, role, model: named }: Anthropic.Message) => ({
  text: content.map((block) => block.type === "text" && block.text),
  tokens: [usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens],
  output: usage.output_tokens,
  stop_reason,
  role,
  named,
})

describe("messages", () => {
  test("an answer in one piece: text, usage, stop reason and price", async () => {
    const model = await gateway.model({ format: "messages", script: script })
    const { data, response, request_id } = await buyer.buys(
      () => anthropic.messages.create({ model, ...ask }).withResponse(),
      idOf,
    )
    expect(textOf(data)).toBe(answer)
    expect(data.stop_reason).toBe("end_turn")
    expect(data.model).toBe(model)
    expect(data.usage).toMatchObject({
      input_tokens: 100,
      cache_read_input_tokens: 40,
      cache_creation_input_tokens: 20,
      output_tokens: 7,
    })
    expect(response.headers.get("x-cost-rp")).toBe(costRp)
    expect(request_id).toBe(response.headers.get("x-request-id"))
  })

  test("a stream, event by event, ends with its own terminal event and costs the same", async () => {
    const model = await gateway.model({ format: "messages", script: script })
    await buyer.buys(async () => {
      const opened = await anthropic.messages.create({ model, ...ask, stream: true }).withResponse()
      let text = ""
      let last = ""
      for await (const event of opened.data) {
        if (event.type === "content_block_delta" && event.delta.type === "text_delta") text += event.delta.text
        last = event.type
      }
      expect([text, last]).toEqual([answer, "message_stop"])
      expect(opened.response.headers.has("x-cost-rp")).toBeFalse()
      return opened
    }, idOf)
  })

  test.each(["none", "null"])(
    "an answer whose backend counts %s is read all the same, with our estimate",
    async (usage) => {
      const model = await gateway.model({ format: "messages", script: `text=Hi&usage=${usage}` })
      const whole = await anthropic.messages.create({ model, ...ask })
      const final = await anthropic.messages.stream({ model, ...ask }).finalMessage()
      const { input_tokens: estimated } = await anthropic.messages.countTokens({ model, messages: ask.messages })
      for (const message of [whole, final]) {
        expect(textOf(message)).toBe("Hi")
        expect(message.usage).toMatchObject({ input_tokens: estimated, output_tokens: 0 })
      }
    },
  )

  test("the stream helper's final message equals the one in one piece", async () => {
    const model = await gateway.model({ format: "messages", script: script })
    const whole = await anthropic.messages.create({ model, ...ask })
    const final = await anthropic.messages.stream({ model, ...ask }).finalMessage()
    expect(plain(final)).toEqual(plain(whole))
  })

  test("tool calls arrive whole, streamed or not, and their results go back", async () => {
    const model = await gateway.model({ format: "messages", script: `${calling}&tools=2` })
    const whole = await anthropic.messages.create({ model, ...ask, tools })
    const streamed = await anthropic.messages.stream({ model, ...ask, tools }).finalMessage()
    for (const { content, stop_reason } of [whole, streamed]) {
      expect(stop_reason).toBe("tool_use")
      expect(content.map((block) => block.type === "tool_use" && block.input)).toEqual([args, args])
    }
    const results = whole.content.flatMap((block) =>
      block.type === "tool_use" ? [{ type: "tool_result" as const, tool_use_id: block.id, content: "at nine" }] : [],
    )
    const last = await anthropic.messages.create({
      model,
      ...ask,
      tools,
      messages: [...ask.messages, { role: "assistant", content: whole.content }, { role: "user", content: results }],
    })
    expect(textOf(last)).toContain("result has arrived")
    expect(last.stop_reason).toBe("end_turn")
  })

  test("a failure inside a stream is thrown as an error of the format", async () => {
    const model = await gateway.model({ format: "messages", script: "text=one+two+three&fault=error-event&after=2" })
    const stream = anthropic.messages.stream({ model, ...ask })
    let text = ""
    stream.on("text", (delta) => (text += delta))
    const error = await thrownBy(stream.finalMessage())
    expect(text).not.toBe("")
    expect(error).toBeInstanceOf(APIError)
    const { error: body } = error as APIError
    expect(body).toMatchObject({ type: "error", request_id: expect.stringMatching(/^req_/) })
  })

  test("tokens are counted without a charge", async () => {
    const model = await gateway.model({ format: "messages" })
    const before = await gateway.balance(buyer.person)
    const { input_tokens } = await anthropic.messages.countTokens({ model, messages: ask.messages })
    expect(input_tokens).toBeGreaterThan(0)
    expect(await gateway.balance(buyer.person)).toEqual(before)
  })
})

test("the list of models is read, page by page and one by one", async () => {
  const model = await gateway.model({ format: "messages" })
  const ids: string[] = []
  for await (const { id } of anthropic.models.list()) ids.push(id)
  expect(ids).toContain(model)
  expect(await anthropic.models.retrieve(model)).toMatchObject({
    id: model,
    type: "model",
    display_name: model,
    max_input_tokens: 200_000,
    max_tokens: expect.any(Number),
  })
})

test("a model that is listed is active, and what is not known of it is null and not left out", async () => {
  const model = await gateway.model({ format: "messages" })
  const active: string[] = []
  for await (const { id, lifecycle } of anthropic.models.list()) if (lifecycle === "active") active.push(id)
  expect(active).toContain(model)
  const { capabilities, deprecated_at, line, retires_at } = await anthropic.models.retrieve(model)
  expect([capabilities, deprecated_at, line, retires_at]).toEqual([null, null, null, null])
})

describe("an error that no retry mends is thrown at the first try, with our code", () => {
  const rows = [
    ["a wrong key", 401, "auth.api_key_invalid", AuthenticationError],
    ["an empty balance", 402, "billing.insufficient_balance", APIError],
    ["an unknown model", 400, "model.unknown", BadRequestError],
    ["a spent budget", 429, "quota.key_limit_exceeded", RateLimitError],
  ] as const
  test.each(rows)("%s: %i %s", async (what, status, code, errorClass) => {
    const plain = await gateway.model({ format: "messages" })
    const keys: Record<typeof what, () => Promise<string>> = {
      "a wrong key": () => Promise.resolve("sk-loket-nobody"),
      "an empty balance": async () => (await Buyer.with(gateway, 0)).key,
      "an unknown model": () => Promise.resolve(buyer.key),
      "a spent budget": async () =>
        (await Buyer.with(gateway, 10_000, { spending_limit_micro: 0, spending_period: "total" })).key,
    }
    const { counted, fetch } = countingFetch()
    const model = what === "an unknown model" ? "no-such-model" : plain
    const error = await thrownBy(
      client(await keys[what](), { fetch, maxRetries: 3 }).messages.create({ model, ...ask }),
    )
    expect(error).toBeInstanceOf(errorClass)
    const { status: told, error: body, headers } = error as APIError
    expect(told).toBe(status)
    expect(body).toMatchObject({ code, retryable: false, request_id: headers?.get("request-id") })
    expect(counted.calls).toBe(1)
  })

  test("a model that is not there: 404 resource.not_found", async () => {
    const { counted, fetch } = countingFetch()
    const error = await thrownBy(client(buyer.key, { fetch }).models.retrieve("no-such-model"))
    expect(error).toBeInstanceOf(NotFoundError)
    expect((error as APIError).error).toMatchObject({ code: "resource.not_found" })
    expect(counted.calls).toBe(1)
  })
})

test("a full minute is a RateLimitError that says when to come back", async () => {
  const model = await gateway.model({ format: "messages" })
  const slow = await Buyer.with(gateway, 10_000, { requests_per_minute: 1 })
  const patient = client(slow.key, { maxRetries: 0 })
  await patient.messages.create({ model, ...ask })
  const error = await thrownBy(patient.messages.create({ model, ...ask }))
  expect(error).toBeInstanceOf(RateLimitError)
  const { headers, error: body } = error as APIError
  expect(body).toMatchObject({ code: "rate_limit.rpm_exceeded", retryable: true })
  expect(Number(headers?.get("retry-after"))).toBeWithin(1, 61)
})
