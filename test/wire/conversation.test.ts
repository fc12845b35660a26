/** Which conversation a call belongs to: as the agents of test/agents write their calls, and for any conversation at all. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import type { Json, JsonObject } from "../../src/language/json.ts"
import type { Endpoint } from "../../src/language/request.ts"
import { conversationKey, conversationOf, nameInHeaders } from "../../src/wire/conversation.ts"

const secret = new Uint8Array(32).fill(7)
const owner = { accountId: "acc_1", keyId: "key_1", model: "m" }
const keyOf = (body: JsonObject, headers: Record<string, string> = {}, of = owner) =>
  conversationKey(secret, of, conversationOf(body, nameInHeaders(new Headers(headers))))

const session = "c16bef9c-b06b-426b-a32b-57df14cac575"
const claudeCode = (id: string) => JSON.stringify({ device_id: "de138e72", account_uuid: "", session_id: id })

describe("what a client names", () => {
  const asked = { model: "m", messages: [{ role: "user", content: "Hi" }] }
  const other = { model: "m", messages: [{ role: "user", content: "Something else" }] }
  const rows: readonly (readonly [string, JsonObject, Record<string, string>])[] = [
    ["prompt_cache_key", { prompt_cache_key: session }, {}],
    ["session_id of the body", { session_id: session }, {}],
    ["session_id of metadata", { metadata: { session_id: session } }, {}],
    ["session_id of client_metadata", { client_metadata: { session_id: session } }, {}],
    ["X-Session-Id", {}, { "X-Session-Id": session }],
    ["OpenCode's x-session-affinity", {}, { "x-session-affinity": session }],
    ["Codex's session-id", {}, { "session-id": session }],
    ["Codex's session_id, as it was", {}, { session_id: session }],
    ["Codex's conversation_id, as it was", {}, { conversation_id: session }],
    ["Claude Code's header", {}, { "X-Claude-Code-Session-Id": session }],
    ["Claude Code's user_id", { metadata: { user_id: claudeCode(session) } }, {}],
    ["its older one", { metadata: { user_id: `user_${"a1".repeat(32)}_account__session_${session}` } }, {}],
    ["the same with an account", { metadata: { user_id: `user_ab_account_9f-3_session_${session}` } }, {}],
  ]
  test.each(rows)("%s is the conversation, whatever is said in it", (_, fields, headers) => {
    const key = keyOf({ ...asked, ...fields }, headers)
    expect(keyOf({ ...other, ...fields }, headers)).toBe(key)
    expect(key).not.toBe(keyOf(asked))
    const named = keyOf({ prompt_cache_key: session })
    expect(key).toBe(named)
  })

  test("an end user is no conversation", () => {
    const ids = [
      "u-17",
      17,
      "user_17",
      '{"user":"17"}',
      '{"session_id":""}',
      "{broken",
      `{"session_id":"${"x".repeat(2_000)}"}`,
    ]
    for (const user_id of ids) {
      expect(keyOf({ ...asked, metadata: { user_id } })).toBe(keyOf(asked))
      expect(keyOf({ ...other, metadata: { user_id } })).not.toBe(keyOf({ ...asked, metadata: { user_id } }))
    }
    expect(keyOf({ ...asked, user: "u-17" })).toBe(keyOf(asked))
  })

  test("what names nothing is as if it were not there", () => {
    for (const nothing of ["", null, 7, {}, ["a"]]) {
      expect(keyOf({ ...asked, prompt_cache_key: nothing, session_id: nothing, metadata: nothing })).toBe(keyOf(asked))
    }
    expect(keyOf(asked, { "x-session-id": "" })).toBe(keyOf(asked))
  })

  test("an account reaches no conversation of another, and one key none that another key began without a name", () => {
    const body = { ...asked, prompt_cache_key: session }
    expect(keyOf(body, {}, { ...owner, accountId: "acc_2" })).not.toBe(keyOf(body))
    expect(keyOf(body, {}, { ...owner, keyId: "key_2" })).toBe(keyOf(body))
    expect(keyOf(asked, {}, { ...owner, keyId: "key_2" })).not.toBe(keyOf(asked))
    expect(keyOf(asked, {}, { ...owner, accountId: "acc_2" })).not.toBe(keyOf(asked))
  })

  test("another installation has other keys, so that nobody computes where a name leads", () => {
    const conversation = { name: session }
    expect(conversationKey(new Uint8Array(32), owner, conversation)).not.toBe(
      conversationKey(secret, owner, conversation),
    )
  })
})

interface Told {
  readonly system: string
  readonly tools: readonly string[]
  /** What the user says before the first answer, in one or more texts of one message. */
  readonly opening: readonly string[]
  readonly turns: readonly { readonly answer: string; readonly call: boolean; readonly result: string }[]
}

const text = fc.oneof(fc.string({ maxLength: 40 }), fc.string({ minLength: 600, maxLength: 900 }))
const told: fc.Arbitrary<Told> = fc.record({
  system: text.filter((one) => one !== ""),
  tools: fc.array(fc.string({ minLength: 1, maxLength: 12 }), { maxLength: 5 }),
  opening: fc.array(text, { minLength: 1, maxLength: 5 }),
  turns: fc.array(fc.record({ answer: fc.string(), call: fc.boolean(), result: fc.string() }), {
    minLength: 19,
    maxLength: 19,
  }),
})

const id = (place: number) => `call_${place}`
const mark = (isLast: boolean) => (isLast ? { cache_control: { type: "ephemeral" } } : {})

/** The body of a turn. Which of two equal spellings is used changes from turn to turn, and cache marks go along. */
function bodyOf(endpoint: Endpoint, { system, tools, opening, turns }: Told, turn: number): JsonObject {
  const isOdd = turn % 2 === 1
  const said = turns.slice(0, turn)
  const parts = (type: string, isLast: boolean): Json[] =>
    opening.map((one, place) => ({ type, text: one, ...mark(isLast && place === opening.length - 1) }))
  const plain = (type: string, isLast: boolean): Json =>
    isOdd && opening.length === 1 ? (opening[0] ?? "") : parts(type, isLast)
  if (endpoint === "messages") {
    return {
      model: "m",
      max_tokens: 10 + turn,
      system: [
        { type: "text", text: `x-anthropic-billing-header: cch=${turn}` },
        { type: "text", text: system, ...mark(true) },
        { type: "text", text: `It is turn ${turn}.` },
      ],
      tools: [
        ...tools.map((name) => ({ name, input_schema: {} })),
        ...(isOdd ? [{ name: "late", defer_loading: true, input_schema: {} }] : []),
      ],
      messages: [
        { role: "user", content: plain("text", turn === 0) },
        { role: "system", content: isOdd ? "Mind this." : [{ type: "text", text: "Mind this." }] },
        ...said.flatMap(({ answer, call, result }, place): Json[] => [
          { role: "assistant", content: call ? [{ type: "tool_use", id: id(place), name: "t", input: {} }] : answer },
          {
            role: "user",
            content: call ? [{ type: "tool_result", tool_use_id: id(place), content: result }] : result,
          },
        ]),
      ],
    }
  }
  if (endpoint === "chat") {
    return {
      model: "m",
      tools: tools.map((name) => ({ type: "function", function: { name } })),
      messages: [
        { role: isOdd ? "system" : "developer", content: isOdd ? system : [{ type: "text", text: system }] },
        { role: "user", content: plain("text", turn === 0) },
        ...said.flatMap(({ answer, call, result }, place): Json[] => [
          call ? { role: "assistant", tool_calls: [{ id: id(place) }] } : { role: "assistant", content: answer },
          call ? { role: "tool", tool_call_id: id(place), content: result } : { role: "user", content: result },
        ]),
      ],
    }
  }
  return {
    model: "m",
    tools: tools.map((name) => ({ type: "function", name })),
    ...(isOdd && { instructions: system }),
    input: [
      ...(isOdd ? [] : [{ role: "developer", content: [{ type: "input_text", text: system }] }]),
      { type: "message", role: "user", content: plain("input_text", false) },
      ...said.flatMap(({ answer, call, result }, place): Json[] => [
        ...(place % 2 === 0 ? [{ type: "reasoning", encrypted_content: answer }] : []),
        call ? { type: "function_call", call_id: id(place) } : { role: "assistant", content: answer },
        call ? { type: "function_call_output", call_id: id(place), output: result } : { role: "user", content: result },
      ]),
    ],
  }
}

const image = (data: string): Json[] => [{ type: "image", source: { type: "base64", data } }]
const url = (address: string): Json[] => [{ type: "image_url", image_url: { url: address } }]
const file = (data: string): Json[] => [{ type: "file", file: { file_data: data } }]
const reminders = (count: number): Json[] =>
  Array.from({ length: count }, () => ({ type: "text", text: "Mind this. ".repeat(600) }))

const endpoints = ["chat", "messages", "responses"] as const
const keysOf = (endpoint: Endpoint, conversation: Told) =>
  Array.from({ length: 20 }, (_, turn) => keyOf(bodyOf(endpoint, conversation, turn)))

const many = (count: number, one: JsonObject) => Array.from({ length: count }, () => one)
const userSaid = (content: string): JsonObject => ({ role: "user", content })

describe("a conversation without a name", () => {
  test.each(endpoints)("is the same in its 20 turns on %s, and its first text makes it another", (endpoint) => {
    fc.assert(
      fc.property(told, fc.string({ minLength: 1 }), (conversation, more) => {
        const keys = new Set(keysOf(endpoint, conversation))
        expect(keys.size).toBe(1)
        const opening = [...conversation.opening.slice(0, -1), `${conversation.opening.at(-1)}${more}`]
        expect(keys).not.toContain(keyOf(bodyOf(endpoint, { ...conversation, opening }, 3)))
      }),
      { numRuns: 60 },
    )
  })

  test("is the same in all three formats", () => {
    const [conversation] = fc.sample(told, { numRuns: 1, seed: 5 })
    if (conversation === undefined) throw new Error("nothing was told")
    expect(new Set(endpoints.flatMap((endpoint) => keysOf(endpoint, conversation))).size).toBe(1)
  })

  test("a text alone is asked as a message is", () => {
    expect(keyOf({ input: "Hi" })).toBe(keyOf({ input: [{ role: "user", content: "Hi" }] }))
  })

  test("its instructions, its tools, its model and its pictures make it another", () => {
    const said = (content: Json, more: JsonObject = {}) => keyOf({ messages: [{ role: "user", content }], ...more })
    const keys = [
      said("Hi"),
      said("Hi", { system: "Be brief." }),
      said("Hi", { tools: [{ name: "look" }] }),
      said(image("aGk=")),
      said(image("aGo=")),
      said(url("https://a.example/1.png")),
      said(url("https://a.example/2.png")),
      said(file("aGs=")),
      said([{ type: "image", source: { type: "url", url: "https://a.example/4.png" } }]),
      said([{ type: "image", source: { type: "url", url: "https://a.example/5.png" } }]),
      keyOf({ input: [{ role: "user", content: [{ type: "input_image", image_url: "https://a.example/3.png" }] }] }),
      keyOf({ input: [{ role: "user", content: [{ type: "input_file", file_data: "aGw=" }] }] }),
      keyOf({ input: [{ role: "user", content: [{ type: "input_file", file_data: "aG0=" }] }] }),
      keyOf({ messages: [{ role: "user", content: "Hi" }] }, {}, { ...owner, model: "other" }),
    ]
    expect(new Set(keys).size).toBe(keys.length)
  })

  test("texts and token ids that stand for themselves make it another", () => {
    const asked: JsonObject[] = ["a", "b", ["a"], ["b"], [1], [2], [[1, 2]], [[1, 3]]].flatMap((one: Json) => [
      { prompt: one },
      { input: [one, "c"] },
    ])
    // A text alone is the same as one in a list of one.
    expect(new Set(asked.map((body) => keyOf(body))).size).toBe(asked.length - 2)
  })

  test("long reminders before what is said, and many of them, do not make all conversations one", () => {
    for (const count of [1, 5, 16, 17, 400]) {
      const said = (last: string) =>
        keyOf({ messages: [{ role: "user", content: [...reminders(count), { type: "text", text: last }] }] })
      expect(said("Fix the test")).not.toBe(said("Fix the build"))
    }
    const cwd = { role: "user", content: [{ type: "input_text", text: "<environment_context/>" }] }
    const codex = (prompt: string) => keyOf({ input: [cwd, { role: "user", content: prompt }] })
    expect(codex("Fix the test")).not.toBe(codex("Fix the build"))
  })

  test("its first 32 messages, 24 texts and 32 tools make it another, and no later one does", () => {
    const last: readonly (readonly [most: number, of: (count: number, end: string) => JsonObject])[] = [
      [32, (count, end) => ({ messages: [...many(count - 1, { role: "system", content: "" }), userSaid(end)] })],
      [24, (count, end) => ({ messages: [...many(count - 1, userSaid("x")), userSaid(end)] })],
      [32, (count, end) => ({ messages: [userSaid("x")], tools: [...many(count - 1, { name: "t" }), { name: end }] })],
    ]
    for (const [most, of] of last) {
      const isAnother = (count: number) =>
        !Bun.deepEquals(conversationOf(of(count, "a"), undefined), conversationOf(of(count, "b"), undefined))
      expect([isAnother(most), isAnother(most + 1)]).toEqual([true, false])
    }
  })

  test("keys are spread evenly", () => {
    const counts = [0, 0, 0, 0, 0, 0, 0, 0]
    for (let n = 0; n < 8_000; n++) {
      const place = Math.floor(keyOf({ messages: [{ role: "user", content: `Question ${n}` }] }) / 2 ** 29)
      counts[place] = (counts[place] ?? 0) + 1
    }
    for (const count of counts) expect(Math.abs(count - 1_000)).toBeLessThan(150)
  })
})

test("whatever is sent, there is a key, and what it is made of is short", () => {
  fc.assert(
    fc.property(
      fc.dictionary(
        fc.constantFrom("messages", "input", "system", "instructions", "tools", "metadata", "prompt_cache_key"),
        fc.jsonValue(),
      ),
      (body) => {
        const key = keyOf(body)
        expect(Number.isInteger(key) && key >= 0 && key < 2 ** 32).toBeTrue()
      },
    ),
  )
  const long = "x".repeat(1_000_000)
  for (const body of [
    { prompt_cache_key: long },
    { messages: [{ role: "user", content: long }] },
    { messages: long, tools: [{ name: long }] },
  ])
    expect(JSON.stringify(conversationOf(body as JsonObject, undefined)).length).toBeLessThan(300)
})

/** The shortest of many runs, in nanoseconds. */
const best = (body: JsonObject) => {
  let least = Infinity
  for (let run = 0; run < 300; run++) {
    const begunAt = Bun.nanoseconds()
    conversationOf(body, undefined)
    least = Math.min(least, Bun.nanoseconds() - begunAt)
  }
  return least
}

test("a large body costs no more than a small one", () => {
  const part = { type: "text", text: "x".repeat(10_000) }
  const message = { role: "user", content: Array.from({ length: 1_000 }, () => part) }
  const large: JsonObject = {
    messages: Array.from({ length: 1_000 }, () => message),
    tools: Array.from({ length: 2_000 }, () => ({ name: part.text })),
  }
  const small: JsonObject = { messages: [{ role: "user", content: "Hi" }] }
  best(small)
  expect(best(large)).toBeLessThan(best(small) + 100_000)
})
