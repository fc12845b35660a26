/** `POST /v1/completions`: there once a model has it, whole and as a stream, and each answer that is made is paid for. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import OpenAI, { APIError } from "openai"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { expectFailure } from "./expect-failure.ts"

let gateway: TestGateway
let person: Person
let key: string

const PATH = "/v1/completions"
const complete = (body: object | string, by = key) => gateway.post(PATH, by, body)
const forwarded = () => gateway.simulator.calls.at(-1)?.body ?? {}
const recordOf = (response: Response) => gateway.usage(person, response.headers.get("x-request-id") ?? "")
const ids = (count: number) => Array.from({ length: count }, (_, index) => index)
const answer = "Your train leaves now"
const script = `input=100&cached=40&text=${encodeURIComponent(answer)}`
const costs = 100 * 1_000 + 40 * 100 + 4 * 5_000
const openai = () => new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 })

beforeAll(async () => {
  gateway = await startTestGateway()
  person = await gateway.person(1_000_000)
  key = (await gateway.key(person)).key
})
afterAll(() => gateway[Symbol.asyncDispose]())

test("there is no such path until a model is served there", async () => {
  await expectFailure(await complete({ model: "plain", prompt: "Hello" }), 404, "route.not_found")
  await expectFailure(await fetch(gateway.url + PATH), 404, "route.not_found")
  await gateway.model({ format: "completions" })
  await expectFailure(await fetch(gateway.url + PATH), 405, "request.method_not_allowed")
})

describe("an answer", () => {
  test("in one piece is what the backend said, with its price", async () => {
    const model = await gateway.model({ format: "completions", script })
    const response = await complete({ model, prompt: "Where?", suffix: "!", user: "u", best_of: null, guided_json: {} })
    expect(response.headers.get("x-cost-rp")).toBe("0.124")
    expect(response.headers.get("x-dropped-fields")).toBe("guided_json")
    expect(await response.json()).toMatchObject({
      object: "text_completion",
      model,
      choices: [{ text: answer, index: 0, finish_reason: "stop" }],
      usage: { prompt_tokens: 140, completion_tokens: 4 },
    })
    expect(forwarded()).toMatchObject({
      prompt: "Where?",
      suffix: "!",
      max_tokens: 16,
      user: expect.stringContaining("-"),
    })
    expect(await recordOf(response)).toMatchObject({ endpoint: "completions", status: "ok", charge_micro: costs })
  })

  test("as a stream comes in pieces through OpenAI's package, with its usage where that is asked for", async () => {
    const model = await gateway.model({ format: "completions", script })
    for (const include of [false, true]) {
      const asked = {
        model,
        prompt: "Where?",
        stream: true,
        ...(include && { stream_options: { include_usage: true } }),
      } as const
      const { data, response } = await openai().completions.create(asked).withResponse()
      let text = ""
      const usages: unknown[] = []
      for await (const chunk of data) {
        expect(chunk.model).toBe(model)
        text += chunk.choices[0]?.text ?? ""
        if (chunk.usage) usages.push(chunk.usage.completion_tokens)
      }
      expect([text, usages]).toEqual([answer, include ? [4] : []])
      expect(forwarded()).toMatchObject({ stream: true, stream_options: { include_usage: true } })
      expect(await recordOf(response)).toMatchObject({ status: "ok", charge_micro: costs, output_tokens: 4 })
    }
    const raw = await (await complete({ model, prompt: "Where?", stream: true })).text()
    expect(raw).toEndWith("data: [DONE]\n\n")
    expect(raw).toContain(`: cost_micro=${costs} request_id=`)
    expect(raw).not.toContain('"usage":{')
  })

  test("that is long is asked for as a stream and put together", async () => {
    const model = await gateway.model({ format: "completions", max_output_tokens: 20_000, script: "output=12&input=1" })
    const whole = (await (await complete({ model, prompt: "Go", max_tokens: 8_000, n: 2 })).json()) as object
    expect(forwarded()["stream"]).toBeUndefined()
    const gathered = await complete({ model, prompt: "Go", max_tokens: 9_000, n: 2 })
    expect(forwarded()["stream"]).toBe(true)
    const { choices, ...rest } = (await gathered.json()) as { choices: unknown }
    expect(whole).toMatchObject({ choices: choices as [] })
    expect(rest).toMatchObject({ object: "text_completion", model, usage: { completion_tokens: 24 } })
    expect(await recordOf(gathered)).toMatchObject({ status: "ok", output_tokens: 24 })
  })

  test("that is long and the best of several is asked for in one piece, for backends choose none in a stream", async () => {
    const model = await gateway.model({ format: "completions", max_output_tokens: 20_000, script: "output=12&input=1" })
    for (const [best_of, streamed] of [
      [3, undefined],
      [1, true],
    ]) {
      const response = await complete({ model, prompt: "Go", max_tokens: 9_000, best_of })
      expect(response.status).toBe(200)
      expect(forwarded()).toMatchObject({ best_of })
      expect(forwarded()["stream"]).toBe(streamed)
      expect(await recordOf(response)).toMatchObject({ status: "ok", output_tokens: 12 * Number(best_of) })
    }
  })

  test("that breaks off in its stream is told there, and free", async () => {
    const model = await gateway.model({ format: "completions", script: "output=9&fault=cut&after=3" })
    const response = await complete({ model, prompt: "Go", stream: true })
    const text = await response.text()
    expect(text).toContain('"error":{')
    expect(text).toEndWith("data: [DONE]\n\n")
    expect(await recordOf(response)).toMatchObject({ status: "upstream_error", charge_micro: 0 })
    const thrown = openai().completions.create({ model, prompt: "Go", stream: true })
    const read = (async () => {
      for await (const _ of await thrown);
    })()
    expect(await read.catch((error: unknown) => error)).toBeInstanceOf(APIError)
  })

  test("for each prompt, and of best_of, is held and paid for", async () => {
    const model = await gateway.model({ format: "completions", script: "output=3&input=8" })
    const made = { model, prompt: ["a", "b"], max_tokens: 3, n: 2, best_of: 4 }
    const response = await complete(made)
    expect(await recordOf(response)).toMatchObject({ output_tokens: 2 * 4 * 3, charge_micro: 8 * 1_000 + 24 * 5_000 })
    // 24 tokens cost Rp 0.12; whoever has a tenth of that gets an answer that is cut to it, never one that is not paid for.
    const limits = { spending_limit_micro: 100_000, spending_period: "total" }
    const { key: tight } = await gateway.key(person, limits)
    const cut = await complete({ ...made, max_tokens: 1_000 }, tight)
    if (cut.status === 200) expect((forwarded()["max_tokens"] as number) * 8 * 5_000).toBeLessThanOrEqual(100_000)
    else await expectFailure(cut, 429, "quota.key_limit_exceeded")
    expect((await gateway.balance(person)).held_micro).toBe(0)
  })

  test("a prompt of token ids counts as many tokens as it has", async () => {
    const model = await gateway.model({ format: "completions", context_window: 1_000 })
    expect((await complete({ model, prompt: [ids(900), ids(900)] })).status).toBe(200)
    expect(forwarded()["prompt"]).toEqual([ids(900), ids(900)])
    await expectFailure(await complete({ model, prompt: ids(1_100) }), 400, "upstream.context_length_exceeded")
  })

  test("a suffix is read, and held for, with each of the prompts", async () => {
    const model = await gateway.model({ format: "completions", context_window: 4_096 })
    const tokensOf = async (prompt: string | string[]) => {
      const headers = { "X-Dry-Run": "true" }
      const asked = { model, prompt, suffix: "one two three four five ".repeat(100), max_tokens: 1 }
      const report = (await (await gateway.post(PATH, key, asked, { headers })).json()) as {
        cost: { input_tokens: number }
      }
      return report.cost.input_tokens
    }
    const one = await tokensOf("a")
    expect(one).toBeGreaterThan(400)
    expect(await tokensOf(Array(64).fill("a"))).toBeGreaterThan(63 * one)
  })

  test("an echo repeats the prompt, and costs no answer tokens", async () => {
    const model = await gateway.model({ format: "completions", script: "output=1&text=b" })
    const response = await complete({ model, prompt: "a", echo: true, logprobs: 5, max_tokens: 1 })
    expect(await response.json()).toMatchObject({ choices: [{ text: "ab" }], usage: { completion_tokens: 1 } })
    expect(forwarded()).toMatchObject({ echo: true, logprobs: 5 })
  })
})

test.each([
  ["no prompt", {}],
  ["an empty list", { prompt: [] }],
  ["an object", { prompt: {} }],
  ["parts", { prompt: [{ type: "text", text: "a" }] }],
  ["129 prompts", { prompt: Array(129).fill("a") }],
  ["64 prompts with three answers each", { prompt: Array(64).fill("a"), n: 3 }],
  ["129 answers", { prompt: "a", n: 129 }],
  ["a best_of of 129", { prompt: "a", best_of: 129 }],
  ["no answer", { prompt: "a", n: 0 }],
  ["a limit of 0", { prompt: "a", max_tokens: 0 }],
  ["a fraction of a token", { prompt: "a", max_tokens: 1.5 }],
  ["a suffix in a list", { prompt: "a", suffix: ["b"] }],
  ["an echo that is a text", { prompt: "a", echo: "yes" }],
  ["an echo in each of two answers", { prompt: "a", echo: true, n: 2 }],
  ["an echo in the best of two answers", { prompt: ["a", "b"], echo: true, best_of: 2 }],
])("%s is refused", async (_, more) => {
  const model = await gateway.model({ format: "completions" })
  await expectFailure(await complete({ model, ...more }), 400, "request.invalid_request")
})
