/**
 * The matrix's rows: what is asked, what the backend must have heard of it, what the client must have got back. What a
 * row does not say is what was asked: that all of it arrives is the rule, and only the exceptions are written down. They
 * are those of docs/formats.md.
 */
import { expect } from "bun:test"
import type { FailureCode } from "../../src/failure/table.ts"
import type { Translated } from "../../src/language/request.ts"
import type { ModelWish } from "../gateway/harness.ts"
import type { Answer, Asked, Part, Tool, Turn } from "./speaker.ts"

/** Who asks, and who is asked. */
export interface Pair {
  readonly client: Translated
  readonly backend: Translated
  /** The two differ, so it goes through the neutral language. */
  readonly translated: boolean
}

export interface Row {
  readonly name: string
  readonly asked: Asked
  /** What the backend does: a script of the simulator. */
  readonly script: string
  readonly model?: Partial<ModelWish>
  /** Clients whose format has no words for it. */
  readonly unsayable?: readonly Translated[]
  readonly refused?: (pair: Pair) => FailureCode | undefined
  /** Where the backend hears something else than what was asked; undefined is nothing. */
  readonly heard?: (pair: Pair, first: Answer | undefined) => Partial<Asked>
  readonly got: (pair: Pair) => Partial<Answer>
  /** The answer is sent back with results for its calls, and what the backend hears then is what counts. */
  readonly goesOn?: true
}

const user = (...parts: Part[]): Turn => ({ role: "user", parts })
const assistant = (...parts: Part[]): Turn => ({ role: "assistant", parts })
const hello = user({ text: "Where is my train?" })
const weather: Tool = {
  name: "get_weather",
  schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
}
const city = '{"city":"Jakarta"}'
const calling = `tool=get_weather&args=${encodeURIComponent(city)}`
const said = "At platform nine"
const saying = `text=${encodeURIComponent(said)}`
const call = { call: "call_1", name: "get_weather", given: city }
const refusal = "request.unsupported_feature"

/** The words for each end, by the client's format. */
const ended: Record<"stop" | "length" | "tools", Record<Translated, string>> = {
  stop: { chat: "stop", messages: "end_turn", responses: "completed" },
  length: { chat: "length", messages: "max_tokens", responses: "max_output_tokens" },
  tools: { chat: "tool_calls", messages: "tool_use", responses: "completed" },
}

const answered = ({ client }: Pair): Partial<Answer> => ({ text: said, finish: ended.stop[client], calls: [] })
const aCall = expect.objectContaining({ name: "get_weather", given: city, custom: false })
const called =
  (times = 1) =>
  ({ client }: Pair): Partial<Answer> => ({
    calls: Array.from({ length: times }, () => aCall),
    finish: ended.tools[client],
  })
const thanked = ({ client }: Pair): Partial<Answer> => ({
  text: "Thank you, the tool's result has arrived and all is well.",
  finish: ended.stop[client],
})

/** A user's results, as an image in one of them makes no difference to whether it can be said. */
const afterCall = (...says: Part[]): readonly Turn[] => [hello, assistant(call), user({ result: "call_1", says })]
const image = "data:image/png;base64,iVBORw0KGgo="
const choosing = (choice: Asked["choice"]): Asked => ({ turns: [hello], tools: [weather], choice })
const schema = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
}
const longName = "look_up_".repeat(9)
/** As far as the answer limit leaves room: four fifths of 8,192 tokens. */
const largestBudget = 6553

export const rows: readonly Row[] = [
  { name: "text", asked: { turns: [hello] }, script: saying, got: answered },
  { name: "system prompt", asked: { system: ["Be brief."], turns: [hello] }, script: saying, got: answered },
  {
    name: "system prompt in blocks",
    asked: { system: ["Be brief.", "Be kind."], turns: [hello], as: { system: "blocks" } },
    script: saying,
    heard: ({ backend, translated }) =>
      translated && backend !== "messages" ? { system: ["Be brief.\n\nBe kind."] } : {},
    got: answered,
  },
  {
    name: "developer role",
    asked: { system: ["Be brief."], turns: [hello], as: { system: "developer" } },
    script: saying,
    unsayable: ["messages"],
    got: answered,
  },
  {
    name: "system text in mid-conversation",
    asked: {
      turns: [
        hello,
        assistant({ text: "Which?" }),
        { role: "system", parts: [{ text: "Be kind." }] },
        user({ text: "Mine" }),
      ],
    },
    script: saying,
    heard({ backend, translated }) {
      if (!translated || backend === "responses") return {}
      const rest = [hello, assistant({ text: "Which?" })]
      if (backend === "chat") return { system: ["Be kind."], turns: [...rest, user({ text: "Mine" })] }
      return { turns: [...rest, user({ text: "<system>\nBe kind.\n</system>" }, { text: "Mine" })] }
    },
    got: answered,
  },
  {
    name: "several turns",
    asked: { turns: [hello, assistant({ text: "Which?" }), user({ text: "Mine" }), assistant({ text: "Ah" }), hello] },
    script: saying,
    got: answered,
  },
  { name: "image, data", asked: { turns: [user({ text: "What?" }, { image })] }, script: saying, got: answered },
  {
    name: "image, address",
    asked: { turns: [user({ text: "What?" }, { image: "https://example.com/a.png" })] },
    script: saying,
    got: answered,
  },
  { name: "tools", asked: { turns: [hello], tools: [weather] }, script: calling, got: called() },
  { name: "tool choice auto", asked: choosing("auto"), script: calling, got: called() },
  { name: "tool choice none", asked: choosing("none"), script: `${calling}&${saying}`, got: answered },
  { name: "tool choice required", asked: choosing("required"), script: calling, got: called() },
  { name: "tool choice named", asked: choosing({ name: "get_weather" }), script: calling, got: called() },
  {
    name: "one call at most",
    asked: { turns: [hello], tools: [weather], choice: "auto", oneCall: true },
    script: calling,
    got: called(),
  },
  {
    name: "parallel tool calls",
    asked: { turns: [hello], tools: [weather] },
    script: `${calling}&tools=3`,
    got: called(3),
  },
  {
    name: "text beside a tool call",
    asked: { turns: [hello], tools: [weather] },
    script: `${calling}&${saying}`,
    got: (pair) => ({ ...called()(pair), text: said }),
  },
  {
    name: "tool name of 72 characters",
    asked: { turns: [hello], tools: [{ ...weather, name: longName }] },
    script: `tool=*&args=${encodeURIComponent(city)}`,
    // A responses client's names are shortened when they are read, as those within a namespace have to be.
    heard: ({ client, backend, translated }) =>
      translated && (backend === "chat" || client === "responses")
        ? { tools: [{ ...weather, name: expect.stringMatching(/^look_up_[\w-]{1,56}$/) }] }
        : {},
    got: ({ client }) => ({
      calls: [expect.objectContaining({ name: longName, given: city })],
      finish: ended.tools[client],
    }),
  },
  {
    name: "custom tool",
    asked: { turns: [hello], tools: [{ name: "patch", custom: true }] },
    script: `tool=patch&args=${encodeURIComponent('{"input":"*** Begin\\n+1"}')}`,
    unsayable: ["messages"],
    heard: ({ client, backend }) =>
      backend === "messages" || (backend === "chat" && client === "responses")
        ? {
            tools: [
              {
                name: "patch",
                schema: expect.objectContaining({ properties: { input: { type: "string" } }, required: ["input"] }),
              },
            ],
          }
        : {},
    got: ({ client }) => ({
      calls: [expect.objectContaining({ name: "patch", given: "*** Begin\n+1", custom: true })],
      finish: ended.tools[client],
    }),
  },
  { name: "tool result", asked: { turns: afterCall({ text: "31" }), tools: [weather] }, script: calling, got: thanked },
  {
    name: "tool result in blocks",
    asked: { turns: afterCall({ text: "31" }, { text: "sunny" }), tools: [weather], as: { results: "blocks" } },
    script: calling,
    heard({ backend, translated }) {
      if (!translated || backend === "messages") return {}
      return { turns: afterCall({ text: backend === "chat" ? "31\n\nsunny" : "31\nsunny" }) }
    },
    got: thanked,
  },
  {
    name: "tool result, failed",
    asked: {
      turns: [hello, assistant(call), user({ result: "call_1", says: [{ text: "no such city" }], failed: true })],
      tools: [weather],
    },
    script: calling,
    unsayable: ["chat", "responses"],
    heard({ backend }) {
      if (backend === "messages") return {}
      const mark = backend === "chat" ? "Error: " : "[The tool failed]\n"
      return { turns: afterCall({ text: `${mark}no such city` }) }
    },
    got: thanked,
  },
  {
    name: "tool result with an image",
    asked: { turns: afterCall({ text: "A map:" }, { image }), tools: [weather], as: { results: "blocks" } },
    script: calling,
    heard({ backend, translated }) {
      if (!translated || backend !== "chat") return {}
      const follows = "A map:\n\n[The images and files of this result follow in the next user message.]"
      return {
        turns: [hello, assistant(call), user({ result: "call_1", says: [{ text: follows }] }, { image })],
      }
    },
    got: thanked,
  },
  {
    name: "tool results of parallel calls, then text",
    asked: {
      turns: [
        hello,
        assistant(call, { ...call, call: "call_2" }),
        user(
          { result: "call_1", says: [{ text: "31" }] },
          { result: "call_2", says: [{ text: "32" }] },
          { text: "So?" },
        ),
      ],
      tools: [weather],
      choice: "none",
    },
    script: saying,
    got: answered,
  },
  {
    name: "calls of tools that are not offered any more",
    asked: { turns: afterCall({ text: "31" }) },
    script: calling,
    // This backend refuses calls where no tools are told.
    heard: ({ backend, translated }) =>
      backend === "messages" && translated
        ? { tools: [{ name: "get_weather", schema: { type: "object", properties: {} } }], choice: "none" }
        : {},
    got: thanked,
  },
  {
    name: "structured output",
    asked: { turns: [hello], schema },
    // Unscripted, the backend answers in JSON of the schema that it was given.
    script: "",
    refused: ({ client, backend }) => (backend === "messages" && client !== "messages" ? refusal : undefined),
    got: ({ client }) => ({ text: '{"city":"simulated"}', finish: ended.stop[client] }),
  },
  {
    name: "JSON without a schema",
    asked: { turns: [hello], json: true },
    script: `text=${encodeURIComponent(city)}`,
    unsayable: ["messages"],
    heard: ({ backend }) =>
      backend === "messages" ? { json: undefined, system: [expect.stringContaining("valid JSON object")] } : {},
    got: ({ client }) => ({ text: city, finish: ended.stop[client] }),
  },
  {
    name: "effort",
    asked: { turns: [hello], effort: "high" },
    script: saying,
    heard: ({ backend, translated }) =>
      backend === "messages" && translated ? { effort: undefined, budget: largestBudget } : {},
    got: answered,
  },
  {
    name: "effort, model with efforts",
    asked: { turns: [hello], effort: "high" },
    script: saying,
    model: { model: "claude-opus-4-8" },
    heard: ({ backend, translated }) => (backend === "messages" && translated ? { thinking: "adaptive" } : {}),
    got: answered,
  },
  {
    name: "budget",
    asked: { turns: [hello], budget: 2000, limit: 4000 },
    script: saying,
    unsayable: ["responses"],
    heard: ({ backend, translated }) =>
      backend !== "messages" && translated ? { budget: undefined, effort: "low" } : {},
    got: answered,
  },
  { name: "no thinking", asked: { turns: [hello], thinking: "off" }, script: saying, got: answered },
  {
    name: "thinking",
    asked: { turns: [hello], thinking: "adaptive", effort: "medium" },
    script: `think=4&${saying}`,
    heard({ backend, translated }) {
      if (backend !== "messages") return { thinking: undefined }
      return translated ? { thinking: undefined, effort: undefined, budget: largestBudget } : {}
    },
    got: (pair) => ({
      ...answered(pair),
      thinking: expect.stringMatching(/^(\S+ ){4}$/),
      seal: sealTold(pair),
    }),
  },
  {
    name: "thinking and a tool call, sent back",
    asked: { turns: [hello], tools: [weather], thinking: "adaptive", effort: "medium" },
    script: `think=4&${calling}`,
    goesOn: true,
    heard({ client, backend, translated }, first) {
      const id = first?.calls[0]?.id ?? ""
      const thought = thinkingReturned({ client, backend, translated }, first)
      const turns = [
        hello,
        assistant(...thought, { ...call, call: id }),
        user({ result: id, says: [{ text: "31 degrees" }] }),
      ]
      if (backend !== "messages") return { turns, thinking: undefined }
      if (!translated) return { turns }
      // A model with a budget goes on from its calls only where its own thinking is before them.
      const budget = thought.length > 0 ? largestBudget : undefined
      return { turns, thinking: undefined, effort: undefined, budget }
    },
    got: thanked,
  },
  {
    name: "stop sequence",
    asked: { turns: [hello], stops: ["END"] },
    script: "text=one+two+END+three",
    unsayable: ["responses"],
    refused: ({ backend }) => (backend === "responses" ? refusal : undefined),
    got: ({ client, backend }) => ({
      text: "one two ",
      finish: client === "messages" && backend === "messages" ? "stop_sequence" : ended.stop[client],
      stop: client === "messages" && backend === "messages" ? "END" : undefined,
    }),
  },
  {
    name: "limit",
    asked: { turns: [hello], limit: 20 },
    script: "output=100",
    got: ({ client }) => ({
      text: expect.stringMatching(/^(\S+ ){20}$/),
      finish: ended.length[client],
      usage: expect.objectContaining({ output: 20 }),
    }),
  },
  {
    name: "limit under the least",
    asked: { turns: [hello], limit: 3 },
    script: "output=100",
    heard: ({ backend, translated }) => (backend === "responses" && translated ? { limit: 16 } : {}),
    got: ({ client, backend, translated }) => ({
      finish: ended.length[client],
      usage: expect.objectContaining({ output: backend === "responses" && translated ? 16 : 3 }),
    }),
  },
  {
    name: "refusal",
    asked: { turns: [hello] },
    script: "refusal=I+would+rather+not",
    got({ client, backend }) {
      const text = "I would rather not"
      if (backend === "messages")
        return { text, finish: { chat: "content_filter", messages: "refusal", responses: "content_filter" }[client] }
      return client === "messages" ? { text, finish: "refusal" } : { refusal: text, finish: ended.stop[client] }
    },
  },
  {
    name: "usage with a cache",
    asked: { turns: [hello] },
    script: `input=100&cached=40&written=20&${saying}`,
    got: () => ({ usage: { input: 100, cacheRead: 40, cacheWrite: 20, output: 3 } }),
  },
  {
    name: "temperature and top_p",
    asked: { turns: [hello], temperature: 0.5, topP: 0.9 },
    script: saying,
    got: answered,
  },
  {
    name: "top_k",
    asked: { turns: [hello], topK: 5 },
    script: saying,
    unsayable: ["responses"],
    heard: ({ backend, translated }) => (translated && backend !== "messages" ? { topK: undefined } : {}),
    got: answered,
  },
  { name: "end user", asked: { turns: [hello], user: "traveller-7" }, script: saying, got: answered },
  {
    name: "several answers",
    asked: { turns: [hello], answers: 2 },
    script: saying,
    unsayable: ["messages", "responses"],
    refused: ({ translated }) => (translated ? refusal : undefined),
    got: ({ client }) => ({ finish: ended.stop[client] }),
  },
  {
    name: "web search",
    asked: { turns: [hello], tools: [weather, { search: "web_search" }] },
    script: calling,
    refused: ({ client }) => (client === "responses" ? undefined : refusal),
    heard({ backend }) {
      if (backend === "responses") return {}
      return { tools: backend === "chat" ? [weather] : [weather, { search: "web_search_20250305" }] }
    },
    got: called(),
  },
]

/** Each backend's seal goes to those clients that can send it back: its own, and responses. */
function sealTold({ client, backend }: Pair): Answer["seal"] {
  if (client === "messages") return backend === "messages" ? expect.any(String) : undefined
  if (client === "chat") return undefined
  if (backend === "chat") return "loket.unsealed."
  return backend === "messages"
    ? expect.stringMatching(/^loket\.messages\./)
    : expect.stringMatching(/^[A-Za-z0-9+/]+=*$/)
}

/** What a backend hears of its own thinking in the next turn. */
function thinkingReturned({ client, backend }: Pair, first: Answer | undefined): Part[] {
  if (first === undefined) return []
  const { thinking, seal } = first
  // A chat backend takes it as text, and it never had a seal.
  if (backend === "chat") return [{ thinking }]
  if (client === "chat" || (backend === "responses" && client !== "responses")) return []
  return [{ thinking, seal: seal?.replace(/^loket\.messages\./, "") }]
}
