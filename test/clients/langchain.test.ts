/**
 * LangChain's chat models for the three formats, on backends of each: what its users read of text, tools, objects and
 * usage, and what they are charged.
 */
import { ChatAnthropic } from "@langchain/anthropic"
import { ContextOverflowError } from "@langchain/core/errors"
import { type AIMessage, AIMessageChunk, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages"
import { tool } from "@langchain/core/tools"
import { ChatOpenAI } from "@langchain/openai"
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { z } from "zod"
import type { Translated } from "../../src/language/request.ts"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { answer, Buyer, countingFetch, script, thrownBy } from "./buyer.ts"

let gateway: TestGateway
let buyer: Buyer

beforeAll(async () => {
  gateway = await startTestGateway()
  buyer = await Buyer.with(gateway, 1_000_000)
})
afterAll(() => gateway[Symbol.asyncDispose]())

interface Settings {
  readonly url: string
  readonly apiKey: string
  /** The network; some ways of calling hand the answer's headers to nobody. */
  readonly fetch: typeof fetch
}

interface Way {
  readonly name: string
  readonly format: Translated
  readonly model: (settings: Settings, model: string) => ChatOpenAI | ChatAnthropic
}

const openai = (useResponsesApi: boolean) => (settings: Settings, model: string) =>
  new ChatOpenAI({
    model,
    apiKey: settings.apiKey,
    useResponsesApi,
    ...(useResponsesApi && { zdrEnabled: true }),
    configuration: { baseURL: `${settings.url}/v1`, fetch: settings.fetch },
  })

const ways: readonly Way[] = [
  { name: "ChatOpenAI", format: "chat", model: openai(false) },
  { name: "ChatOpenAI with useResponsesApi", format: "responses", model: openai(true) },
  {
    name: "ChatAnthropic",
    format: "messages",
    model: ({ url, apiKey, fetch }, model) =>
      new ChatAnthropic({ model, apiKey, anthropicApiUrl: url, clientOptions: { fetch }, maxTokens: 1_024 }),
  },
]
const backends: readonly Translated[] = ["chat", "messages", "responses"]
const pairs = ways.flatMap((way) => backends.map((backend) => ({ ...way, backend })))

/** The network as it is, with the ids of the requests that went over it. */
function watchedFetch() {
  const ids: (string | null)[] = []
  const watched = async (...args: Parameters<typeof fetch>) => {
    const response = await fetch(...args)
    ids.push(response.headers.get("x-request-id"))
    return response
  }
  return { ids, fetch: watched as typeof fetch }
}

const prompt = "Where is my train?"
const settings = (network: typeof fetch, apiKey = buyer.key): Settings => ({
  url: gateway.url,
  apiKey,
  fetch: network,
})
const modelOf = (format: Translated, backend: Translated, itsScript: string) =>
  gateway.model({ format: backend, endpoints: [format], script: itsScript, features: ["structured_outputs"] })
const sum = (chunks: readonly AIMessageChunk[]): AIMessageChunk =>
  chunks.reduce((all, chunk) => all.concat(chunk), new AIMessageChunk(""))
const usage = { input_tokens: 160, output_tokens: 7, total_tokens: 167, input_token_details: { cache_read: 40 } }

/**
 * ChatAnthropic takes the prompt's counts from `message_start`, where a translated stream can have an estimate only, and
 * adds up the output of all events.
 */
const streamedUsage = (format: Translated, backend: Translated): object => {
  if (format !== "messages") return usage
  return backend === "messages" ? { input_tokens: 160, output_tokens: 8 } : { output_tokens: 7 }
}

describe.each(pairs)("$name on a backend of $backend", ({ format, backend, model }) => {
  test("invoke: text, usage and price", async () => {
    const { ids, fetch } = watchedFetch()
    const id = await modelOf(format, backend, script)
    const said = await buyer.buys(
      () => model(settings(fetch), id).invoke(prompt),
      () => ids[0],
    )
    expect(said.text).toBe(answer)
    expect(said.usage_metadata).toMatchObject(usage)
  })

  test("stream: the same, piece by piece", async () => {
    const { ids, fetch } = watchedFetch()
    const id = await modelOf(format, backend, script)
    const chunks = await buyer.buys(
      async () => Array.fromAsync(await model(settings(fetch), id).stream(prompt)),
      () => ids[0],
    )
    expect(chunks.filter(({ text }) => text !== "").length).toBeGreaterThan(1)
    const said = sum(chunks)
    expect(said.text).toBe(answer)
    if (format === "responses") expect(said.response_metadata["status"]).toBe("completed")
    expect(said.usage_metadata).toMatchObject(streamedUsage(format, backend))
  })

  describe("tools", () => {
    const steps = [
      ["find_train", { from: "Gambir" }],
      ["find_train", { from: "Bandung" }],
    ]
    const itsScript = `text=${encodeURIComponent(answer)}&steps=${encodeURIComponent(JSON.stringify(steps))}`
    const findTrain = tool(({ from }) => `from ${from} at nine`, {
      name: "find_train",
      description: "Finds the next train.",
      schema: z.object({ from: z.string() }),
    })

    const loops = {
      invoke: (bound, conversation) => bound.invoke([...conversation]),
      async stream(bound, conversation) {
        const chunks = await Array.fromAsync(await bound.stream([...conversation]))
        return sum(chunks)
      },
    } satisfies Record<string, Ask>

    test.each(["invoke", "stream"] as const)("a loop of %s runs its steps and ends in the answer", async (kind) => {
      const id = await modelOf(format, backend, itsScript)
      const bound = model(settings(fetch), id).bindTools([findTrain])
      const conversation: BaseMessage[] = [new HumanMessage(prompt)]
      const asked: unknown[] = []
      let said = await loops[kind](bound, conversation)
      while ((said.tool_calls ?? []).length > 0 && asked.length < 5) {
        conversation.push(said)
        for (const call of said.tool_calls ?? []) {
          asked.push(call.args)
          const content = await findTrain.invoke({ from: String(call.args["from"]) })
          conversation.push(new ToolMessage({ content, tool_call_id: call.id ?? "" }))
        }
        said = await loops[kind](bound, conversation)
      }
      expect([asked, said.text]).toEqual([[{ from: "Gambir" }, { from: "Bandung" }], answer])
    })
  })

  test("an object of a schema arrives where structured outputs are served, and is refused by name elsewhere", async () => {
    const object = { platform: 9 }
    const id = await modelOf(format, backend, `text=${encodeURIComponent(JSON.stringify(object))}`)
    const { counted, fetch } = countingFetch()
    const asking = model(settings(fetch as typeof globalThis.fetch), id)
      .withStructuredOutput(z.object({ platform: z.number() }), { method: "jsonSchema" })
      .invoke(prompt)
    if (format === "messages" || backend !== "messages") expect(await asking).toEqual(object)
    else expect(codeOf(await thrownBy(asking))).toBe("request.unsupported_feature")
    expect(counted.calls).toBe(1)
  })

  test("an object of a schema arrives from a stream, too", async () => {
    if (backend === "messages" && format !== "messages") return
    const object = { platform: 9 }
    const id = await modelOf(format, backend, `text=${encodeURIComponent(JSON.stringify(object))}`)
    const schema = z.object({ platform: z.number() })
    const structured = model(settings(fetch), id).withStructuredOutput(schema, { method: "jsonSchema" })
    expect((await Array.fromAsync(await structured.stream(prompt))).at(-1)).toEqual(object)
  })

  test("a failure inside a stream is thrown, or on responses leaves a message without status and usage", async () => {
    const id = await modelOf(format, backend, "text=one+two+three&fault=error-event&after=2")
    const chunks: AIMessageChunk[] = []
    const reading = (async () => {
      for await (const chunk of await model(settings(fetch), id).stream(prompt)) chunks.push(chunk)
    })()
    // LangChain passes over `response.failed`, whoever sends it.
    if (format === "responses") await reading
    else expect(await thrownBy(reading)).toBeInstanceOf(Error)
    const said = sum(chunks)
    expect(said.text.trim()).toBe("one two")
    if (format === "responses") {
      expect(said.response_metadata["status"]).toBeUndefined()
      expect(said.usage_metadata).toBeUndefined()
    }
  })
})

/** What both kinds of chat models come to when tools are bound to them. */
interface Bound {
  invoke(messages: BaseMessage[]): Promise<AIMessage>
  stream(messages: BaseMessage[]): Promise<AsyncIterable<AIMessageChunk>>
}
type Ask = (bound: Bound, conversation: readonly BaseMessage[]) => Promise<AIMessage>

const codeOf = (error: unknown): unknown => {
  const { headers } = error as { headers?: Headers }
  return headers?.get("x-error-code") ?? error
}

describe.each(ways)("$name", ({ format, model }) => {
  test("a prompt that is over a window that nobody knows is what it takes for one that is too long", async () => {
    const id = await gateway.model({
      format,
      context_window: null,
      script: "fault=status&status=400&code=context_length_exceeded&message=Too+much.",
    })
    const error = await thrownBy(model(settings(fetch), id).invoke(prompt))
    expect(ContextOverflowError.isInstance(error)).toBeTrue()
    expect(codeOf((error as ContextOverflowError).cause)).toBe("upstream.context_length_exceeded")
  })

  const rows = [
    ["a wrong key", 401, "auth.api_key_invalid"],
    ["an empty balance", 402, "billing.insufficient_balance"],
    ["an unknown model", 400, "model.unknown"],
    ["a spent budget", 429, "quota.key_limit_exceeded"],
  ] as const
  test.each(rows)("%s: %i %s, at the first try", async (what, status, code) => {
    const known = await modelOf(format, format, script)
    const { counted, fetch } = countingFetch()
    const key = {
      "a wrong key": () => Promise.resolve("sk-loket-nobody"),
      "an empty balance": async () => (await Buyer.with(gateway, 0)).key,
      "an unknown model": () => Promise.resolve(buyer.key),
      "a spent budget": async () =>
        (await Buyer.with(gateway, 10_000, { spending_limit_micro: 0, spending_period: "total" })).key,
    }[what]
    const id = what === "an unknown model" ? "no-such-model" : known
    const error = await thrownBy(model(settings(fetch as typeof globalThis.fetch, await key()), id).invoke(prompt))
    expect((error as { status?: number }).status).toBe(status)
    expect(codeOf(error)).toBe(code)
    expect(counted.calls).toBe(1)
  })
})
