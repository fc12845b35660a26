/** What a catalogue says of one backend: fields that are set, efforts that it takes, and what it needs of a prompt. */
import { describe, expect, test } from "bun:test"
import { decode } from "../../src/bodies/body-processor.ts"
import type { JsonObject } from "../../src/language/json.ts"
import { EFFORTS } from "../../src/language/prompt.ts"
import { type Adaptation, BACKEND_FORMATS, type Need, NEEDS, type Translated } from "../../src/language/request.ts"
import { invokeBody } from "../../src/wire/bedrock/invoke.ts"
import { exchange } from "../../src/wire/exchange.ts"
import { type BackendModel, formats } from "../../src/wire/protocol.ts"
import { must } from "./chat/ask.ts"

const hello = [{ role: "user", content: "Hi" }]
const asked: Readonly<Record<Translated, JsonObject>> = {
  chat: { model: "m", messages: hello },
  messages: { model: "m", max_tokens: 90, messages: hello },
  responses: { model: "m", input: "Hi" },
}
const clients = ["chat", "messages", "responses"] as const

const backend = (format: BackendModel["format"], adaptation: Adaptation): BackendModel => ({
  format,
  model: format === "bedrock" ? "openai.gpt-oss-120b" : "v",
  ...adaptation,
})

const sent = (client: Translated, to: BackendModel, fields: JsonObject = {}): JsonObject => {
  const request = must(
    formats[client].client.decodeRequest({ ...asked[client], ...fields }, { pass: ["reasoning"], betas: [] }),
  )
  return must(exchange(request, to, { strip: ["top_p"], pass: ["reasoning"] })).encodeRequest(50)
}

const backendFormats = BACKEND_FORMATS.filter((format) => format !== "completions" && format !== "embeddings")

const calling = (...backends: BackendModel[]) => ({
  secret: new Uint8Array(8),
  accountId: "acc_1",
  backends,
  strip: [],
  dropped: [],
  conversationName: undefined,
})

const tokens = (...backends: BackendModel[]) =>
  must(decode("chat", asked.chat, { call: calling(...backends) })).inputTokens

describe("what an operator sets of a backend", () => {
  const set = { reasoning_split: true, temperature: 0.25, chat_template_kwargs: { enable_thinking: false } }
  test.each(clients.flatMap((client) => backendFormats.map((format) => [client, format] as const)))(
    "is written over what a %s client says to a %s backend",
    (client, format) => {
      const said = { temperature: 1 }
      const without = sent(client, backend(format, {}), said)
      expect(sent(client, backend(format, { set }), said)).toEqual({ ...without, ...set })
    },
  )

  test("is written where the model's strip takes it away", () =>
    expect(sent("chat", backend("chat", { set: { top_p: 0.5 } }), { top_p: 1 })).toMatchObject({ top_p: 0.5 }))

  test("reaches Bedrock's Claude in its envelope", () => {
    const to: BackendModel = { format: "bedrock", model: "anthropic.claude-opus-4-8", set: { temperature: 0.25 } }
    expect(invokeBody(sent("messages", to), null)).toMatchObject({ temperature: 0.25, max_tokens: 50 })
  })

  test("names the client's own field as one that was left out", () => {
    const understood = must(
      decode("chat", { ...asked.chat, temperature: 1, seed: 3 }, { call: calling(backend("chat", { set })) }),
    )
    expect(understood.dropped).toEqual({ names: ["temperature"], more: false })
  })

  test("counts as prompt, the most that any backend of the pool has", () => {
    const long = { chat_template_kwargs: { note: "word ".repeat(500) } }
    const [none, short, most] = [
      tokens(backend("chat", {})),
      tokens(backend("chat", { set })),
      tokens(backend("chat", { set: long }), backend("chat", { set }), backend("chat", {})),
    ]
    expect(short).toBeGreaterThan(none)
    expect(most - none).toBeWithin(400, 700)
  })
})

const three = ["high", "low", "medium"] as const
const to = (format: BackendModel["format"]) => backend(format, { efforts: three })

describe("an effort that a backend does not have", () => {
  test.each([
    ["none", "low"],
    ["minimal", "low"],
    ["low", "low"],
    ["medium", "medium"],
    ["high", "high"],
    ["xhigh", "high"],
    ["max", "high"],
  ])("is the nearest below it, or the least: %s is %s", (effort, nearest) => {
    expect(sent("chat", to("chat"), { reasoning_effort: effort })["reasoning_effort"]).toBe(nearest)
    expect(sent("chat", to("chat"), { reasoning: { effort, exclude: true } })["reasoning"]).toEqual({
      effort: nearest,
      exclude: true,
    })
    expect(sent("responses", to("responses"), { reasoning: { effort, summary: "auto" } })["reasoning"]).toEqual({
      effort: nearest,
      summary: "auto",
    })
    expect(sent("chat", to("responses"), { reasoning_effort: effort })["reasoning"]).toMatchObject({ effort: nearest })
    expect(sent("responses", to("chat"), { reasoning: { effort } })["reasoning_effort"]).toBe(nearest)
    if (effort === "none" || effort === "minimal") return
    const config = { output_config: { effort } }
    expect(sent("messages", to("messages"), config)["output_config"]).toEqual({ effort: nearest })
    expect(sent("messages", to("chat"), { ...config, thinking: { type: "adaptive" } })["reasoning_effort"]).toBe(
      nearest,
    )
  })

  test("stays where a backend takes all, and where nobody asks for one", () => {
    for (const effort of EFFORTS) {
      expect(sent("chat", backend("chat", {}), { reasoning_effort: effort })["reasoning_effort"]).toBe(effort)
      const all = backend("chat", { efforts: [...EFFORTS] })
      expect(sent("chat", all, { reasoning_effort: effort })["reasoning_effort"]).toBe(effort)
    }
    expect(sent("chat", backend("chat", { efforts: three }))).not.toContainKey("reasoning_effort")
    expect(sent("responses", backend("responses", { efforts: three }))).not.toContainKey("reasoning")
  })

  test("is what the operator sets, where that is set", () =>
    expect(
      sent("chat", backend("chat", { efforts: three, set: { reasoning_effort: "max" } }), { reasoning_effort: "max" }),
    ).toMatchObject({ reasoning_effort: "max" }))

  test("is the backend's to judge where it is no effort at all", () =>
    expect(sent("chat", backend("chat", { efforts: three }), { reasoning_effort: "turbo" })).toMatchObject({
      reasoning_effort: "turbo",
    }))
})

const call = (id: string): JsonObject => ({ id, type: "function", function: { name: "f", arguments: "{}" } })

const adapted = (messages: JsonObject[], ...needs: Need[]) =>
  sent("chat", backend("chat", { needs }), { messages })["messages"]

describe("a chat backend that needs", () => {
  const user = { role: "user", content: "Hi" }
  const calls: JsonObject = { role: "assistant", content: null, tool_calls: [call("call_1"), call("AbC456xyz")] }
  const results: JsonObject[] = [
    { role: "tool", tool_call_id: "call_1", content: "1" },
    { role: "tool", tool_call_id: "AbC456xyz", content: "2" },
  ]

  test("nothing gets the messages as they came", () => {
    const messages = [{ role: "developer", content: "Be brief." }, user, calls, ...results, user]
    expect(adapted(messages)).toEqual(messages)
  })

  test("system_role has developers' messages as the system's", () =>
    expect(
      adapted([{ role: "developer", content: "A" }, user, { role: "developer", content: "B" }], "system_role"),
    ).toEqual([{ role: "system", content: "A" }, user, { role: "system", content: "B" }]))

  test("system_first has one message of them, at the front", () => {
    const said = [
      user,
      {
        role: "developer",
        content: [
          { type: "text", text: "A" },
          { type: "text", text: "B" },
        ],
      },
    ]
    expect(adapted([...said, user, { role: "system", content: "C" }], "system_first", "system_role")).toEqual([
      { role: "system", content: "A\n\nB\n\nC" },
      user,
      user,
    ])
    const first = { role: "system", content: [{ type: "text", text: "A" }] }
    expect(adapted([first, user], "system_first")).toEqual([first, user])
    expect(adapted([user], "system_first")).toEqual([user])
  })

  test("answer_after_tools has an assistant's message between results and the user's", () => {
    const between = { role: "assistant", content: "Done." }
    expect(adapted([user, calls, ...results, user, user], "answer_after_tools")).toEqual([
      user,
      calls,
      ...results,
      between,
      user,
      user,
    ])
    expect(adapted([user, calls, ...results], "answer_after_tools")).toEqual([user, calls, ...results])
    const go = { role: "assistant", content: "It is 1." }
    expect(adapted([user, calls, ...results, go, user], "answer_after_tools")).toEqual([
      user,
      calls,
      ...results,
      go,
      user,
    ])
  })

  test("short_call_ids has ids of nine letters and digits, the same for a call and its result", () => {
    const short = expect.stringMatching(/^[A-Za-z0-9]{9}$/)
    const written = adapted([user, calls, ...results], "short_call_ids")
    expect(written).toEqual([
      user,
      { ...calls, tool_calls: [{ ...call("x"), id: short }, call("AbC456xyz")] },
      { ...results[0], tool_call_id: short },
      ...results.slice(1),
    ])
    const [, said, result] = written as [JsonObject, { tool_calls: [{ id: string }] }, { tool_call_id: string }]
    expect(said.tool_calls[0].id).toBe(result.tool_call_id)
    expect(adapted([user, calls, ...results], "short_call_ids")).toEqual(written)
    const others = adapted([user, { ...calls, tool_calls: [call("call_2")] }], "short_call_ids")
    expect(JSON.stringify(others)).not.toContain(result.tool_call_id)
  })

  test("leaves the client's own request as it was", () => {
    const messages: JsonObject[] = [{ role: "developer", content: "A" }, user, calls, ...results, user]
    const before = JSON.stringify(messages)
    adapted(messages, ...NEEDS)
    expect(JSON.stringify(messages)).toBe(before)
  })

  test("all of it gets it from a client of another format too", () => {
    const use = { type: "tool_use", id: "toolu_01A", name: "f", input: {} }
    const result = { type: "tool_result", tool_use_id: "toolu_01A", content: "1" }
    const messages = [
      { role: "user", content: "Hi" },
      { role: "assistant", content: [use] },
      { role: "user", content: [result, { type: "text", text: "And?" }] },
    ]
    const tools = [{ name: "f", input_schema: { type: "object" } }]
    const body = sent("messages", backend("chat", { needs: [...NEEDS] }), { messages, tools, system: "Be brief." })
    expect(body["messages"]).toMatchObject([
      { role: "system", content: "Be brief." },
      { role: "user", content: "Hi" },
      { role: "assistant", tool_calls: [{ id: expect.stringMatching(/^[A-Za-z0-9]{9}$/) }] },
      { role: "tool", tool_call_id: expect.stringMatching(/^[A-Za-z0-9]{9}$/), content: "1" },
      { role: "assistant", content: "Done." },
      { role: "user", content: "And?" },
    ])
  })
})
