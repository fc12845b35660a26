/**
 * The AI SDK with the four ways in which it is pointed at a gateway, on backends of each format: what its users read of
 * text, tools, objects and usage, and what they are charged.
 */
import { createAnthropic } from "@ai-sdk/anthropic"
import { createOpenAI } from "@ai-sdk/openai"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import {
  APICallError,
  embedMany,
  generateText,
  isStepCount,
  type LanguageModel,
  Output,
  streamText,
  tool,
  wrapEmbeddingModel,
} from "ai"
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { z } from "zod"
import type { Translated } from "../../src/language/request.ts"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { answer, Buyer, countingFetch, script, thrownBy } from "./buyer.ts"

let gateway: TestGateway
let buyer: Buyer

beforeAll(async () => {
  globalThis.AI_SDK_LOG_WARNINGS = false
  gateway = await startTestGateway()
  buyer = await Buyer.with(gateway, 1_000_000)
})
afterAll(() => gateway[Symbol.asyncDispose]())

interface Settings {
  readonly baseURL: string
  readonly apiKey: string
  readonly fetch?: typeof fetch
}

interface Way {
  readonly name: string
  readonly format: Translated
  readonly model: (settings: Settings, id: string) => LanguageModel
}

const ways: readonly Way[] = [
  { name: "openai", format: "responses", model: (settings, id) => createOpenAI(settings)(id) },
  { name: "openai.chat", format: "chat", model: (settings, id) => createOpenAI(settings).chat(id) },
  { name: "anthropic", format: "messages", model: (settings, id) => createAnthropic(settings)(id) },
  {
    name: "openai-compatible",
    format: "chat",
    model: (settings, id) =>
      createOpenAICompatible({
        ...settings,
        name: "loket",
        includeUsage: true,
        supportsStructuredOutputs: true,
      })(id),
  },
]
const backends: readonly Translated[] = ["chat", "messages", "responses"]
const pairs = ways.flatMap((way) => backends.map((backend) => ({ ...way, backend })))

const prompt = "Where is my train?"
const settings = (apiKey = buyer.key): Settings => ({ baseURL: `${gateway.url}/v1`, apiKey })
const modelOf = (format: Translated, backend: Translated, itsScript: string) =>
  gateway.model({ format: backend, endpoints: [format], script: itsScript, features: ["structured_outputs"] })
const idOf = ({ response }: { readonly response: { readonly headers?: Record<string, string> } }) =>
  response.headers?.["x-request-id"]

const usage = { inputTokens: 160, outputTokens: 7, totalTokens: 167, inputTokenDetails: { cacheReadTokens: 40 } }

describe.each(pairs)("$name on a backend of $backend", ({ name, format, backend, model }) => {
  test("generateText: text, reason, usage and price", async () => {
    const id = await modelOf(format, backend, script)
    const result = await buyer.buys(() => generateText({ model: model(settings(), id), prompt }), idOf)
    expect(result.text).toBe(answer)
    expect(result.finishReason).toBe("stop")
    expect(result.usage).toMatchObject(usage)
    expect(result.response.modelId).toBe(id)
  })

  test("streamText: the same, piece by piece", async () => {
    const id = await modelOf(format, backend, script)
    const result = await buyer.buys(async () => {
      const stream = streamText({ model: model(settings(), id), prompt })
      const pieces: string[] = []
      for await (const piece of stream.textStream) pieces.push(piece)
      return { pieces, reason: await stream.finishReason, usage: await stream.usage, response: await stream.response }
    }, idOf)
    expect(result.pieces.length).toBeGreaterThan(1)
    expect(result.pieces.join("")).toBe(answer)
    expect(result.reason).toBe("stop")
    expect(result.usage).toMatchObject(usage)
  })

  test("thinking is read as reasoning, apart from the text", async () => {
    const id = await modelOf(format, backend, "think=4&text=At+nine.")
    const providerOptions = {
      anthropic: { thinking: { type: "enabled", budgetTokens: 1_024 } },
      openai: { reasoningEffort: "low", reasoningSummary: "auto", forceReasoning: true },
      loket: { reasoningEffort: "low" },
    } as const
    const stream = streamText({ model: model(settings(), id), prompt, providerOptions })
    expect(await stream.text).toBe("At nine.")
    // The vendor's own chat format has no place for it, and its client does not look for one.
    const words = ((await stream.reasoningText) ?? "").split(" ").filter((word) => word !== "")
    expect(words.length).toBe(name === "openai.chat" ? 0 : 4)
  })

  describe("tools", () => {
    const steps = [
      ["find_train", { from: "Gambir" }],
      ["find_train", { from: "Bandung" }],
    ]
    const itsScript = `text=${encodeURIComponent(answer)}&steps=${encodeURIComponent(JSON.stringify(steps))}`
    const asked: string[] = []
    const tools = {
      find_train: tool({
        description: "Finds the next train.",
        inputSchema: z.object({ from: z.string() }),
        execute: ({ from }) => {
          asked.push(from)
          return `from ${from} at nine`
        },
      }),
    }
    // Without it the provider names what was said by ids, see the last test.
    const providerOptions = { openai: { store: false } }
    const loop = { prompt, tools, stopWhen: isStepCount(5), providerOptions }

    test("a loop of generateText runs its steps, and its usage is what was charged", async () => {
      asked.length = 0
      const id = await modelOf(format, backend, itsScript)
      const result = await generateText({ ...loop, model: model(settings(), id) })
      expect([asked, result.text]).toEqual([["Gambir", "Bandung"], answer])
      expect(result.steps.map(({ finishReason }) => finishReason)).toEqual(["tool-calls", "tool-calls", "stop"])
      const records = await Promise.all(result.steps.map((step) => gateway.usage(buyer.person, idOf(step) ?? "")))
      const charged = (name: string) => records.reduce((sum, record) => sum + Number(record[name]), 0)
      expect(result.usage.outputTokens).toBe(charged("output_tokens"))
      expect(result.usage.inputTokens).toBe(charged("input_tokens"))
    })

    test("a loop of streamText runs the same steps", async () => {
      asked.length = 0
      const id = await modelOf(format, backend, itsScript)
      const result = streamText({ ...loop, model: model(settings(), id) })
      expect(await result.text).toBe(answer)
      expect(asked).toEqual(["Gambir", "Bandung"])
      expect((await result.steps).map(({ finishReason }) => finishReason)).toEqual(["tool-calls", "tool-calls", "stop"])
    })
  })

  test("an object of a schema arrives where structured outputs are served, and is refused by name elsewhere", async () => {
    const object = { platform: 9 }
    const id = await modelOf(format, backend, `text=${encodeURIComponent(JSON.stringify(object))}`)
    const asking = generateText({
      model: model(settings(), id),
      prompt,
      output: Output.object({ schema: z.object({ platform: z.number() }) }),
      providerOptions: { anthropic: { structuredOutputMode: "outputFormat" } },
    })
    if (format === "messages" || backend !== "messages") expect((await asking).output).toEqual(object)
    else expect(codeOf(await thrownBy(asking))).toBe("request.unsupported_feature")
  })

  test("a tool that the client demands is called, also where nobody scripted it", async () => {
    const { toolCalls } = await generateText({
      model: model(settings(), await modelOf(format, backend, "input=9")),
      prompt,
      tools: { json: tool({ inputSchema: z.object({ platform: z.number() }) }) },
      toolChoice: "required",
    })
    expect(toolCalls.map(({ input }) => input)).toEqual([{ platform: 1 }])
  })

  test("a failure inside a stream is an error, not an end", async () => {
    const id = await modelOf(format, backend, "text=one+two+three&fault=error-event&after=2")
    const errors: unknown[] = []
    const stream = streamText({
      model: model(settings(), id),
      prompt,
      maxRetries: 0,
      onError: ({ error }) => void errors.push(error),
    })
    let text = ""
    for await (const part of stream.fullStream) if (part.type === "text-delta") text += part.text
    expect(text.trim()).toBe("one two")
    expect(errors.length).toBeGreaterThan(0)
    expect(await stream.finishReason).toBe("error")
  })
})

const codeOf = (error: unknown): unknown =>
  APICallError.isInstance(error) ? error.responseHeaders?.["x-error-code"] : error

describe.each(ways)("$name", ({ format, model }) => {
  const rows = [
    ["a wrong key", 401, "auth.api_key_invalid"],
    ["an empty balance", 402, "billing.insufficient_balance"],
    ["an unknown model", 400, "model.unknown"],
  ] as const
  test.each(rows)("%s: %i %s, at the first try", async (what, status, code) => {
    const known = await modelOf(format, format, script)
    const { counted, fetch } = countingFetch()
    const key = {
      "a wrong key": () => Promise.resolve("sk-loket-nobody"),
      "an empty balance": async () => (await Buyer.with(gateway, 0)).key,
      "an unknown model": () => Promise.resolve(buyer.key),
    }[what]
    const counting = { ...settings(await key()), fetch: fetch as typeof globalThis.fetch }
    const error = await thrownBy(
      generateText({ model: model(counting, what === "an unknown model" ? "no-such-model" : known), prompt }),
    )
    expect(APICallError.isInstance(error) && error.statusCode).toBe(status)
    expect(codeOf(error)).toBe(code)
    expect(counted.calls).toBe(1)
  })
})

test("openai, as it comes, names what it said by ids, and is told that the gateway keeps none", async () => {
  const id = await modelOf("responses", "responses", "text=Let+me+look.&tool=find_train")
  const loop = generateText({
    model: createOpenAI(settings())(id),
    prompt,
    tools: { find_train: tool({ inputSchema: z.object({}), execute: () => "at nine" }) },
    stopWhen: isStepCount(3),
  })
  expect(codeOf(await thrownBy(loop))).toBe("request.unsupported_feature")
})

describe.each([
  { name: "anthropic", format: "messages", model: (id: string) => createAnthropic(settings())(id) },
  // Its users have to say so, see the test before this one.
  { name: "openai", format: "responses", model: (id: string) => createOpenAI(settings())(id) },
] as const)("$name", ({ format, model }) => {
  test.each([false, true])(
    "sends thinking that nobody signed back with the calls after it, streamed: %p",
    async (streamed) => {
      const id = await modelOf(format, "chat", "think=3&tool=find_train")
      const loop = {
        model: model(id),
        prompt,
        tools: { find_train: tool({ inputSchema: z.object({}), execute: () => "at nine" }) },
        stopWhen: isStepCount(2),
        providerOptions: {
          anthropic: { thinking: { type: "enabled", budgetTokens: 1_024 } },
          openai: { store: false },
        } as const,
      }
      await (streamed ? streamText(loop).text : generateText(loop))
      const last = gateway.simulator.calls.findLast((call) => call.model.startsWith(`${id}?`))
      const thought: unknown = expect.stringMatching(/./)
      expect(last?.body?.["messages"]).toMatchObject([{}, { reasoning_content: thought, tool_calls: [{}] }, {}])
    },
  )
})

test.each([
  ["openai", (made: Settings, id: string) => createOpenAI(made).embedding(id)],
  [
    "openai-compatible",
    (made: Settings, id: string) => createOpenAICompatible({ ...made, name: "loket" }).embeddingModel(id),
  ],
] as const)(
  "embedMany of %s asks for numbers, of which a call has a hundred, so it is told that",
  async (_, embedding) => {
    const model = await gateway.model({ format: "embeddings", output_micro: 0 })
    const values = Array.from({ length: 250 }, (__, index) => `text ${index}`)
    const refused = (await thrownBy(embedMany({ model: embedding(settings(), model), values }))) as APICallError
    expect(refused.statusCode).toBe(400)
    const before = gateway.simulator.calls.length
    const inParts = wrapEmbeddingModel({
      model: embedding(settings(), model),
      middleware: { specificationVersion: "v4", overrideMaxEmbeddingsPerCall: () => 100 },
    })
    const { embeddings } = await embedMany({ model: inParts, values })
    expect(embeddings).toHaveLength(250)
    expect(gateway.simulator.calls.length - before).toBe(3)
  },
)
