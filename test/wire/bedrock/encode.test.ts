import { describe, expect, test } from "bun:test"
import type { JsonObject } from "../../../src/language/json.ts"
import type { Prompt, Turn } from "../../../src/language/prompt.ts"
import type { ModelRequest } from "../../../src/language/request.ts"
import { Failure } from "../../../src/failure/failure.ts"
import { converseFormat } from "../../../src/wire/bedrock/converse.ts"
import { decodeRequest } from "../../../src/wire/chat/format.ts"
import { emptyPrompt, must } from "../chat/ask.ts"

const request = must(decodeRequest({ model: "m", messages: [{ role: "user", content: "Hi" }], max_tokens: 300 }))
const hello: Turn = { role: "user", parts: [{ type: "text", text: "Hello" }] }
const LLAMA = "us.meta.llama4-maverick-17b-instruct-v1:0"
const NOVA = "amazon.nova-lite-v1:0"
const NOVA_2 = "us.amazon.nova-2-lite-v1:0"
const GPT_OSS = "openai.gpt-oss-120b-1:0"

interface Asked {
  readonly model?: string
  readonly strip?: readonly string[]
  readonly from?: ModelRequest
}
const encode = (prompt: Partial<Prompt>, { model = LLAMA, strip = [], from = request }: Asked = {}) =>
  converseFormat.backend.encodePrompt({ ...emptyPrompt, turns: [hello], ...prompt }, from, { model, strip })
const encoded = (prompt: Partial<Prompt>, asked?: Asked): JsonObject =>
  must(encode(prompt, asked))({ maxOutputTokens: 200, stream: false })
const refusal = (prompt: Partial<Prompt>) => {
  const found = encode(prompt)
  return found instanceof Failure ? found.code : undefined
}
const turns = (...asked: Turn[]) => encoded({ turns: asked })["messages"]
const user = (...parts: Extract<Turn, { role: "user" }>["parts"]): Turn => ({ role: "user", parts })
const assistant = (...parts: Extract<Turn, { role: "assistant" }>["parts"]): Turn => ({ role: "assistant", parts })
const text = (said: string) => ({ type: "text", text: said }) as const
const call = (id: string, name = "weather") =>
  ({ type: "tool-call", id, name, arguments: '{"city":"Solo"}', custom: false }) as const
const result = (callId: string, said: string, isError = false) =>
  ({ type: "tool-result", callId, parts: said === "" ? [] : [text(said)], isError }) as const
const weather = {
  type: "function",
  name: "weather",
  description: "Tells it.",
  parameters: {},
  strict: undefined,
} as const
const spec = { toolSpec: { name: "weather", description: "Tells it.", inputSchema: { json: { type: "object" } } } }

const document = (name: string | undefined, mediaType = "application/pdf") =>
  ({ type: "document", source: { kind: "data", mediaType, base64: "aGk=" }, name }) as const
const callable = (prompt: Partial<Prompt>) => encoded(prompt)["toolConfig"]
const fields = (model: string, prompt: Partial<Prompt>, strip: string[] = []) =>
  encoded(prompt, { model, strip })["additionalModelRequestFields"]
const thinking = (effort: "none" | "minimal" | "high" | "max" | undefined, enabled = true) => ({
  reasoning: { enabled, effort, budgetTokens: undefined, visible: true },
})

describe("turns", () => {
  test("neighbours of one role are one message, and blank text is none", () => {
    expect(
      turns(user(text("a")), user(text(" "), text("b")), assistant(text("c")), assistant(text("")), user(text("d"))),
    ).toEqual([
      { role: "user", content: [{ text: "a" }, { text: "b" }] },
      { role: "assistant", content: [{ text: "c" }] },
      { role: "user", content: [{ text: "d" }] },
    ])
  })

  test("a conversation begins and ends with the user", () => {
    expect(turns(assistant(text("Yes?")))).toEqual([
      { role: "user", content: [{ text: "." }] },
      { role: "assistant", content: [{ text: "Yes?" }] },
      { role: "user", content: [{ text: "Continue." }] },
    ])
  })

  test("results of tools come before what else the user says, empty ones too", () => {
    expect(
      turns(hello, assistant(call("a"), call("b")), user(text("So?"), result("a", "Rain"), result("b", ""))),
    ).toEqual([
      { role: "user", content: [{ text: "Hello" }] },
      {
        role: "assistant",
        content: [
          { toolUse: { toolUseId: "a", name: "weather", input: { city: "Solo" } } },
          { toolUse: { toolUseId: "b", name: "weather", input: { city: "Solo" } } },
        ],
      },
      {
        role: "user",
        content: [
          { toolResult: { toolUseId: "a", content: [{ text: "Rain" }] } },
          { toolResult: { toolUseId: "b", content: [{ text: "." }] } },
          { text: "So?" },
        ],
      },
    ])
  })

  test("system text in mid-conversation is the user's, marked", () => {
    expect(turns(hello, { role: "system", parts: [text("Be brief.")] })).toEqual([
      { role: "user", content: [{ text: "Hello" }, { text: "<system>\nBe brief.\n</system>" }] },
    ])
  })

  test("thinking goes back only where its seal may be known", () => {
    const thinking = { type: "thinking", text: "Hm.", seal: { by: "messages", data: "c2ln" } } as const
    const asked = { turns: [hello, assistant(thinking, text("Hi")), hello] }
    const told = (model: string) => JSON.stringify(encoded(asked, { model })["messages"])
    expect(told(LLAMA)).not.toContain("Hm.")
    expect(told("arn:aws:bedrock:us-east-1:1:application-inference-profile/a")).toContain(
      '{"reasoningContent":{"reasoningText":{"text":"Hm.","signature":"c2ln"}}}',
    )
    const redacted = { type: "thinking", text: "", seal: { by: "messages-redacted", data: "cmVk" } } as const
    const unsealed = { type: "thinking", text: "Hm.", seal: undefined } as const
    const arn = { model: "arn:aws:bedrock:us-east-1:1:application-inference-profile/a" }
    expect(
      encoded({ turns: [hello, assistant(redacted, unsealed, text("Hi")), hello] }, arn)["messages"],
    ).toMatchObject([{}, { content: [{ reasoningContent: { redactedContent: "cmVk" } }, { text: "Hi" }] }, {}])
  })

  test("an id of a call that is too long is written alike in call and result", () => {
    const id = `call_${"x".repeat(80)}`
    const [, asked, answered] = turns(hello, assistant(call(id)), user(result(id, "Rain"))) as JsonObject[]
    const written = /"toolUseId":"([\w-]{64})"/
    const [, there] = written.exec(JSON.stringify(asked)) ?? []
    expect(there).toBeDefined()
    expect(written.exec(JSON.stringify(answered))?.[1]).toBe(there ?? "")
  })
})

const namesOf = (names: readonly string[]) =>
  [...JSON.stringify(turns(user(...names.map((name) => document(name))))).matchAll(/"name":"([^"]+)"/g)].map(
    ([, name]) => name,
  )

describe("media", () => {
  const png = { type: "image", source: { kind: "data", mediaType: "image/PNG; x=y", base64: "aGk=" } } as const

  test("images and documents travel as bytes, with names that no other document has, and words beside them", () => {
    expect(
      turns(user(png, document("Q3_report.pdf"), document("Q3_report.pdf"), document(undefined, "text/plain"))),
    ).toEqual([
      {
        role: "user",
        content: [
          { image: { format: "png", source: { bytes: "aGk=" } } },
          { document: { format: "pdf", name: "Q3-report-pdf", source: { bytes: "aGk=" } } },
          { document: { format: "pdf", name: "Q3-report-pdf (2)", source: { bytes: "aGk=" } } },
          { document: { format: "txt", name: "document", source: { bytes: "aGk=" } } },
          { text: "." },
        ],
      },
    ])
  })

  test("a document's name has 200 characters at the most, with the number that tells it from another too", () => {
    const [a, b] = ["a", "b"].map((end) => `${"n".repeat(199)}${end}`)
    expect(namesOf([a!, `${a}x`, a!, b!, b!])).toEqual([
      a,
      `${"n".repeat(192)} (2)`,
      `${"n".repeat(192)} (3)`,
      b,
      `${"n".repeat(192)} (4)`,
    ])
    expect(namesOf(["x", "x (2)", "x", "x", "x (2)"])).toEqual(["x", "x (2)", "x (3)", "x (4)", "x (2) (2)"])
  })

  test("thousands of documents of one name, or of long ones that begin alike, take no time", () => {
    const long = Array.from({ length: 4_000 }, (_, at) => `${"n".repeat(192)}${at}`)
    const before = process.threadCpuUsage()
    for (const names of [Array<string>(8_000).fill("x"), [...long, ...long]])
      expect(new Set(namesOf(names)).size).toBe(8_000)
    const { user: worked } = process.threadCpuUsage(before)
    expect(worked).toBeLessThan(3_000_000)
  })

  test("a document of text travels as a text file", () => {
    const source = { kind: "text", text: "Halo" } as const
    expect(JSON.stringify(turns(user(text("Read:"), { type: "document", source, name: undefined })))).toContain(
      '{"document":{"format":"txt","name":"document","source":{"bytes":"SGFsbw=="}}}',
    )
  })

  test.each([
    ["an image by address", { type: "image", source: { kind: "url", url: "https://example.com/a.png" } } as const],
    [
      "a document by address",
      { type: "document", source: { kind: "url", url: "https://example.com/a.pdf" }, name: undefined } as const,
    ],
    [
      "an image of another kind",
      { type: "image", source: { kind: "data", mediaType: "image/tiff", base64: "aGk=" } } as const,
    ],
    ["a document of another kind", document("a.zip", "application/zip")],
  ])("%s is refused", (_, part) => {
    expect(refusal({ turns: [user(part)] })).toBe("request.unsupported_feature")
  })
})

describe("tools", () => {
  test("are told with a schema of an object, and the choice among them where it is one", () => {
    expect(callable({ tools: [weather] })).toEqual({ tools: [spec] })
    expect(callable({ tools: [weather], toolChoice: { kind: "auto" } })).toEqual({ tools: [spec] })
    expect(callable({ tools: [weather], toolChoice: { kind: "required" } })).toEqual({
      tools: [spec],
      toolChoice: { any: {} },
    })
    expect(callable({ tools: [weather], toolChoice: { kind: "tool", name: "weather" } })).toEqual({
      tools: [spec],
      toolChoice: { tool: { name: "weather" } },
    })
  })

  test("keep all of their schema, and no description of white space", () => {
    const parameters = { properties: { city: { type: "string" } }, required: ["city"] }
    expect(callable({ tools: [{ ...weather, description: " ", parameters }] })).toEqual({
      tools: [{ toolSpec: { name: "weather", inputSchema: { json: { ...parameters, type: "object" } } } }],
    })
  })

  test("are left out where none may be called", () => {
    expect(callable({ tools: [weather], toolChoice: { kind: "none" } })).toBeUndefined()
  })

  test("that were called earlier are told though they are not offered any more", () => {
    expect(callable({ turns: [hello, assistant(call("a")), user(result("a", "Rain"))] })).toEqual({
      tools: [{ toolSpec: { name: "weather", inputSchema: { json: { type: "object" } } } }],
    })
  })

  test("that take free text are functions with one text", () => {
    const custom = { type: "custom", name: "patch", description: undefined, grammar: undefined } as const
    const input = { type: "string" }
    expect(callable({ tools: [custom] })).toEqual({
      tools: [
        {
          toolSpec: {
            name: "patch",
            inputSchema: {
              json: { type: "object", properties: { input }, required: ["input"], additionalProperties: false },
            },
          },
        },
      ],
    })
  })

  test.each<[string, Partial<Prompt>]>([
    ["a web search", { tools: [{ type: "web-search", options: {} }] }],
    ["at most one call", { tools: [weather], parallelTools: false }],
    ["a tool that is not there", { tools: [weather], toolChoice: { kind: "tool", name: "time" } }],
    [
      "no tool after calls",
      {
        turns: [hello, assistant(call("a")), user(result("a", "Rain"))],
        tools: [weather],
        toolChoice: { kind: "none" },
      },
    ],
  ])("%s is refused", (_, prompt) => {
    expect(refusal(prompt)).toBe("request.unsupported_feature")
  })

  test("a search that is offered with every request is left out on responses alone", () => {
    const tools = [{ type: "web-search", options: {} }] as const
    expect(encoded({ tools }, { from: { ...request, endpoint: "responses" } })["toolConfig"]).toBeUndefined()
  })

  test("at most one call, as Codex writes it for each model that it does not know, is left out on responses alone", () => {
    const from = { ...request, endpoint: "responses" } as const
    expect(encoded({ tools: [weather], parallelTools: false }, { from })["toolConfig"]).toEqual({ tools: [spec] })
  })
})

describe("what models are told beside that", () => {
  const sampling = { temperature: 1.7, topP: 0.9, topK: 40 }

  test("the answer limit is the smaller one, and sampling stays within what is taken", () => {
    expect(encoded({ sampling, stopSequences: ["END", ""] })["inferenceConfig"]).toEqual({
      maxTokens: 200,
      temperature: 1,
      topP: 0.9,
      stopSequences: ["END"],
    })
  })

  test("what the catalogue strips is left out", () => {
    const strip = ["temperature", "top_p", "top_k"]
    expect(encoded({ sampling }, { strip })["inferenceConfig"]).toEqual({ maxTokens: 200 })
    expect(fields(NOVA, { sampling }, strip)).toBeUndefined()
  })

  test.each([
    [NOVA, { sampling }, { inferenceConfig: { topK: 40 } }],
    [LLAMA, { sampling, ...thinking("high") }, undefined],
    [NOVA_2, thinking("minimal"), { reasoningConfig: { type: "enabled", maxReasoningEffort: "low" } }],
    [NOVA_2, thinking("max"), { reasoningConfig: { type: "enabled", maxReasoningEffort: "medium" } }],
    [NOVA_2, thinking("none"), undefined],
    [GPT_OSS, thinking("max"), { reasoning_effort: "high" }],
    [GPT_OSS, thinking(undefined), { reasoning_effort: "medium" }],
    [GPT_OSS, thinking(undefined, false), { reasoning_effort: "low" }],
    [GPT_OSS, {}, undefined],
  ] as const)("%s is told %j as %j", (model, prompt, expected) => {
    expect(fields(model, prompt)).toEqual(expected as JsonObject | undefined)
  })

  test("cache marks are cache points for the models that take them, and nothing for the others", () => {
    const marked = { type: "text", text: "Long.", cache: { ttl: "5m" } } as const
    const asked = { instructions: [marked], turns: [user(marked)] }
    const point = [{ text: "Long." }, { cachePoint: { type: "default" } }]
    expect(encoded(asked, { model: NOVA })).toMatchObject({ system: point, messages: [{ content: point }] })
    expect(JSON.stringify(encoded(asked))).not.toContain("cachePoint")
  })

  test("cache marks of an image and of a result are cache points behind them", () => {
    const cache = { ttl: undefined }
    const image = { type: "image", source: { kind: "data", mediaType: "image/png", base64: "aGk=" }, cache } as const
    const shown = [{ image: { format: "png", source: { bytes: "aGk=" } } }, { cachePoint: { type: "default" } }]
    expect(encoded({ turns: [user({ ...image, detail: undefined })] }, { model: NOVA })["messages"]).toEqual([
      { role: "user", content: shown },
    ])
    const asked = { turns: [hello, assistant(call("a")), user({ ...result("a", "Rain"), cache })] }
    expect(encoded(asked, { model: NOVA })["messages"]).toMatchObject([
      {},
      {},
      {
        content: [{ toolResult: { toolUseId: "a", content: [{ text: "Rain" }] } }, { cachePoint: { type: "default" } }],
      },
    ])
  })

  test("a failed tool is told by its status, or in words where there is none", () => {
    const asked = { turns: [hello, assistant(call("a")), user(result("a", "No net", true))] }
    const failed = { toolUseId: "a", content: [{ text: "No net" }], status: "error" }
    expect(encoded(asked, { model: NOVA })["messages"]).toContainEqual({
      role: "user",
      content: [{ toolResult: failed }],
    })
    const words = { toolUseId: "a", content: [{ text: "Error: " }, { text: "No net" }] }
    expect(encoded(asked)["messages"]).toContainEqual({ role: "user", content: [{ toolResult: words }] })
  })

  test("the agent's billing header is nobody else's, and JSON without a schema is asked for in words", () => {
    const instructions = [text("x-anthropic-billing-header: cc=1"), text("Be kind.")]
    expect(encoded({ instructions, output: { kind: "json" } })["system"]).toEqual([
      { text: "Be kind." },
      { text: "Answer with one valid JSON object and nothing else: no other text, no code fence." },
    ])
  })
})
