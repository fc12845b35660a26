/**
 * The `openai` package as its users have it, pointed at a gateway: what it reads, what it throws and when it stops trying.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import OpenAI, { APIError, AuthenticationError, BadRequestError, NotFoundError, RateLimitError } from "openai"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { answer, Buyer, costRp, countingFetch, script, thrownBy } from "./buyer.ts"

let gateway: TestGateway
let buyer: Buyer
let openai: OpenAI

const client = (apiKey: string, options: object = {}) =>
  new OpenAI({ apiKey, baseURL: `${gateway.url}/v1`, ...options })

beforeAll(async () => {
  gateway = await startTestGateway()
  buyer = await Buyer.with(gateway, 1_000_000)
  openai = client(buyer.key)
})
afterAll(() => gateway[Symbol.asyncDispose]())

const question = "Where is my train?"
const messages = [{ role: "user" as const, content: question }]
const parameters = { type: "object", properties: { from: { type: "string" } } }
const args = { from: "Gambir" }
const calling = `tool=find_train&args=${encodeURIComponent(JSON.stringify(args))}`
/** Header of an SDK's `withResponse()`. */
const idOf = ({ response }: { readonly response: Response }) => response.headers.get("x-request-id")

describe("chat completions", () => {
  const tools = [{ type: "function" as const, function: { name: "find_train", parameters } }]

  test("an answer in one piece: text, usage, finish reason and price", async () => {
    const model = await gateway.model({ format: "chat", script: script })
    const { data, response, request_id } = await buyer.buys(
      () => openai.chat.completions.create({ model, messages }).withResponse(),
      idOf,
    )
    expect(data.model).toBe(model)
    expect(data.choices[0]?.message.content).toBe(answer)
    expect(data.choices[0]?.finish_reason).toBe("stop")
    expect(data.usage).toMatchObject({ prompt_tokens: 160, completion_tokens: 7, total_tokens: 167 })
    expect(data.usage?.prompt_tokens_details?.cached_tokens).toBe(40)
    expect(response.headers.get("x-cost-rp")).toBe(costRp)
    expect(request_id).toBe(response.headers.get("x-request-id"))
  })

  test("a stream, piece by piece, adds up to the same", async () => {
    const model = await gateway.model({ format: "chat", script: script })
    const { data } = await buyer.buys(async () => {
      const opened = await openai.chat.completions.create({ model, messages, stream: true }).withResponse()
      let text = ""
      let finish: string | null = null
      for await (const chunk of opened.data) {
        text += chunk.choices[0]?.delta.content ?? ""
        finish = chunk.choices[0]?.finish_reason ?? finish
        expect(chunk.usage ?? null).toBeNull()
        expect(chunk.model).toBe(model)
      }
      expect(opened.response.headers.has("x-cost-rp")).toBeFalse()
      return { data: { text, finish }, response: opened.response }
    }, idOf)
    expect(data).toEqual({ text: answer, finish: "stop" })
  })

  test("the stream helper's final completion equals the one in one piece", async () => {
    const model = await gateway.model({ format: "chat", script: script })
    const whole = await openai.chat.completions.create({ model, messages })
    const helper = openai.chat.completions.stream({ model, messages, stream_options: { include_usage: true } })
    const final = await helper.finalChatCompletion()
    expect(final.choices[0]?.message.content).toBe(whole.choices[0]?.message.content ?? "")
    expect(final.choices[0]?.finish_reason).toBe(whole.choices[0]?.finish_reason ?? "stop")
    expect(final.usage).toEqual(whole.usage as NonNullable<typeof whole.usage>)
  })

  test("tool calls arrive whole, streamed or not, and their results go back", async () => {
    const model = await gateway.model({ format: "chat", script: `${calling}&tools=2` })
    const whole = await openai.chat.completions.create({ model, messages, tools })
    const streamed = await openai.chat.completions.stream({ model, messages, tools }).finalChatCompletion()
    for (const { choices } of [whole, streamed]) {
      expect(choices[0]?.finish_reason).toBe("tool_calls")
      const calls = choices[0]?.message.tool_calls ?? []
      expect(calls.map((call) => call.type === "function" && JSON.parse(call.function.arguments))).toEqual([args, args])
    }
    const asked = whole.choices[0]!.message
    const results = (asked.tool_calls ?? []).map(({ id }) => ({
      role: "tool" as const,
      tool_call_id: id,
      content: "at nine",
    }))
    const last = await openai.chat.completions.create({ model, messages: [...messages, asked, ...results], tools })
    expect(last.choices[0]?.message.content).toContain("result has arrived")
    expect(last.choices[0]?.finish_reason).toBe("stop")
  })

  test("a model that refuses the older name of the answer limit gets it under the newer one, whoever asks", async () => {
    const model = await gateway.model({ format: "chat", endpoints: ["chat", "messages"], strip: ["max_tokens"] })
    const chat = async (limit: object) => {
      const { response } = await openai.chat.completions.create({ model, messages, ...limit }).withResponse()
      return response
    }
    const rows = [
      [() => chat({}), 8_192],
      [() => chat({ max_tokens: 50 }), 50],
      [() => chat({ max_completion_tokens: 60 }), 60],
      [() => gateway.post("/v1/messages", buyer.key, { model, messages, max_tokens: 70 }), 70],
    ] as const
    for (const [ask, limit] of rows) {
      const response = await ask()
      expect([response.status, response.headers.get("x-dropped-fields")]).toEqual([200, null])
      const { max_tokens, max_completion_tokens } = gateway.simulator.calls.at(-1)?.body ?? {}
      expect([max_tokens, max_completion_tokens]).toEqual([undefined, limit])
    }
  })

  test("a limit under the newer name alone binds a backend that knows the older one alone", async () => {
    const rows: [strip: string[], sent: (number | undefined)[]][] = [
      [[], [60, 60]],
      [["max_completion_tokens"], [60, undefined]],
    ]
    for (const [strip, sent] of rows) {
      const model = await gateway.model({ format: "chat", strip })
      const { response } = await openai.chat.completions
        .create({ model, messages, max_completion_tokens: 60 })
        .withResponse()
      expect([response.status, response.headers.get("x-dropped-fields")]).toEqual([200, null])
      const { max_tokens, max_completion_tokens } = gateway.simulator.calls.at(-1)?.body ?? {}
      expect([max_tokens, max_completion_tokens]).toEqual(sent)
    }
  })

  test("a backend gets what its catalogue entry sets and needs, in small bodies and in large ones", async () => {
    const wanted = {
      set: { reasoning_split: true, temperature: 0.25 },
      efforts: ["low" as const, "high" as const],
      needs: ["system_role" as const],
    }
    const upstreams = [{ provider: "simulated", format: "chat" as const, model: "m", ...wanted }]
    const model = await gateway.model({
      format: "chat",
      endpoints: ["chat", "messages"],
      context_window: null,
      upstreams,
    })
    const developer = { role: "developer", content: "Be brief." } as const
    for (const size of [1, 300_000]) {
      const { response } = await openai.chat.completions
        .create({
          model,
          messages: [developer, { role: "user", content: "x ".repeat(size) }],
          temperature: 1,
          reasoning_effort: "xhigh",
        })
        .withResponse()
      expect([response.status, response.headers.get("x-dropped-fields")]).toEqual([200, "temperature"])
      expect(gateway.simulator.calls.at(-1)?.body).toMatchObject({
        reasoning_split: true,
        temperature: 0.25,
        reasoning_effort: "high",
        messages: [{ role: "system", content: "Be brief." }, { role: "user" }],
      })
    }
    await gateway.post("/v1/messages", buyer.key, { model, messages, max_tokens: 70, temperature: 1 })
    expect(gateway.simulator.calls.at(-1)?.body).toMatchObject({ reasoning_split: true, temperature: 0.25 })
  })

  test("a failure inside a stream is thrown with its short code", async () => {
    const model = await gateway.model({ format: "chat", script: "text=one+two+three&fault=error-event&after=2" })
    const stream = await openai.chat.completions.create({ model, messages, stream: true })
    let text = ""
    const error = await thrownBy(
      (async () => {
        for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? ""
      })(),
    )
    expect(text).not.toBe("")
    expect(error).toBeInstanceOf(APIError)
    expect((error as APIError).code).toBe("upstream_unavailable")
  })
})

describe("responses", () => {
  test("a request's input tokens are counted without an answer, and cost nothing", async () => {
    const model = await gateway.model({ format: "responses" })
    const before = await gateway.balance(buyer.person)
    const count = await openai.responses.inputTokens.count({ model, input: question, instructions: "Be brief." })
    expect(count).toEqual({ object: "response.input_tokens", input_tokens: expect.any(Number) })
    expect(count.input_tokens).toBeWithin(5, 60)
    expect(await gateway.balance(buyer.person)).toEqual(before)
  })

  const tools = [{ type: "function" as const, name: "find_train", parameters, strict: false }]

  test("an answer in one piece: text, usage, status and price", async () => {
    const model = await gateway.model({ format: "responses", script: script })
    const { data, response } = await buyer.buys(
      () => openai.responses.create({ model, input: question }).withResponse(),
      idOf,
    )
    expect(data.output_text).toBe(answer)
    expect(data.status).toBe("completed")
    expect(data.model).toBe(model)
    expect(data.usage).toMatchObject({ input_tokens: 160, output_tokens: 7, total_tokens: 167 })
    expect(response.headers.get("x-cost-rp")).toBe(costRp)
  })

  test("a stream's events add up to the same, and its helper's final response too", async () => {
    const model = await gateway.model({ format: "responses", script: script })
    await buyer.buys(async () => {
      const opened = await openai.responses.create({ model, input: question, stream: true }).withResponse()
      let text = ""
      let last = ""
      for await (const event of opened.data) {
        if (event.type === "response.output_text.delta") text += event.delta
        last = event.type
      }
      expect([text, last]).toEqual([answer, "response.completed"])
      return opened
    }, idOf)
    const final = await openai.responses.stream({ model, input: question }).finalResponse()
    expect(final.output_text).toBe(answer)
    expect(final.usage).toMatchObject({ input_tokens: 160, output_tokens: 7 })
  })

  test("function calls arrive whole, streamed or not", async () => {
    const model = await gateway.model({ format: "responses", script: calling })
    const whole = await openai.responses.create({ model, input: question, tools })
    const streamed = await openai.responses.stream({ model, input: question, tools }).finalResponse()
    for (const { output } of [whole, streamed]) {
      const calls = output.flatMap((item) => (item.type === "function_call" ? [item] : []))
      expect(calls.map((call) => [call.name, JSON.parse(call.arguments)])).toEqual([["find_train", args]])
    }
  })
})

test("the list of models is read, page by page and one by one", async () => {
  const model = await gateway.model({ format: "chat" })
  const ids: string[] = []
  for await (const { id } of openai.models.list()) ids.push(id)
  expect(ids).toContain(model)
  expect(await openai.models.retrieve(model)).toMatchObject({ id: model, object: "model" })
})

describe("an error that no retry mends is thrown at the first try, with our code", () => {
  const rows = [
    ["a wrong key", 401, "auth.api_key_invalid", AuthenticationError],
    ["an empty balance", 402, "billing.insufficient_balance", APIError],
    ["an unknown model", 400, "model.unknown", BadRequestError],
    ["a spent budget", 429, "quota.key_limit_exceeded", RateLimitError],
  ] as const
  test.each(rows)("%s: %i %s", async (what, status, code, errorClass) => {
    const plain = await gateway.model({ format: "chat" })
    const keys: Record<typeof what, () => Promise<string>> = {
      "a wrong key": () => Promise.resolve("sk-loket-nobody"),
      "an empty balance": async () => (await Buyer.with(gateway, 0)).key,
      "an unknown model": () => Promise.resolve(buyer.key),
      "a spent budget": async () =>
        (await Buyer.with(gateway, 10_000, { spending_limit_micro: 0, spending_period: "total" })).key,
    }
    const { counted, fetch } = countingFetch()
    const model = what === "an unknown model" ? "no-such-model" : plain
    const patient = client(await keys[what](), { fetch, maxRetries: 3 })
    const error = await thrownBy(patient.chat.completions.create({ model, messages }))
    expect(error).toBeInstanceOf(errorClass)
    const { status: told, headers, requestID } = error as APIError
    expect([told, headers?.get("x-error-code")]).toEqual([status, code])
    expect(requestID).toStartWith("req_")
    expect(counted.calls).toBe(1)
  })

  test("a model that is not there: 404 resource.not_found", async () => {
    const { counted, fetch } = countingFetch()
    const error = await thrownBy(client(buyer.key, { fetch }).models.retrieve("no-such-model"))
    expect(error).toBeInstanceOf(NotFoundError)
    expect((error as APIError).headers?.get("x-error-code")).toBe("resource.not_found")
    expect(counted.calls).toBe(1)
  })
})

test("a full minute is a RateLimitError that says when to come back", async () => {
  const model = await gateway.model({ format: "chat" })
  const slow = await Buyer.with(gateway, 10_000, { requests_per_minute: 1 })
  const patient = client(slow.key, { maxRetries: 0 })
  await patient.chat.completions.create({ model, messages })
  const error = await thrownBy(patient.chat.completions.create({ model, messages }))
  expect(error).toBeInstanceOf(RateLimitError)
  const { headers } = error as APIError
  expect(headers?.get("x-error-code")).toBe("rate_limit.rpm_exceeded")
  expect(headers?.get("x-should-retry")).toBeNull()
  expect(Number(headers?.get("retry-after"))).toBeWithin(1, 61)
})
