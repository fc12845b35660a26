/** Earlier searches in the words of a plain tool: what every backend of the format checks must hold of them. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import type { Json, JsonObject } from "../../../src/language/json.ts"
import { RelayedStream } from "../../../src/wire/backend-stream.ts"
import { resultBlock, searchBlock, searchId } from "../../../src/wire/messages/content.ts"
import { backendStream } from "../../../src/wire/messages/events-in.ts"
import { decodeRequest } from "../../../src/wire/messages/format.ts"
import { TurnReader } from "../../../src/wire/messages/server-tools-answer.ts"
import { expandHistory } from "../../../src/wire/messages/server-tools.ts"

interface Said {
  readonly role: string
  readonly content: string | readonly JsonObject[]
}

const page = { url: "https://a.b/", title: "A", snippet: "excerpt \u{1F341}", published: undefined }
const text = (said: string): JsonObject => ({ type: "text", text: said })

/** One turn of a model: what it says, how many searches it asks for, and whether their results came along. */
const turn = fc.record({
  said: fc.option(fc.string({ minLength: 1 })),
  searches: fc.nat(3),
  answered: fc.boolean(),
})

/** The assistant's message as the gateway tells it. */
const assistant = fc.array(turn, { minLength: 1, maxLength: 5 }).map((turns): Said => ({
  role: "assistant",
  content: turns.flatMap(({ said, searches, answered }, at) => [
    ...(said === null ? [] : [text(said)]),
    ...Array.from({ length: searches }, (_, place) => searchId("req_1-2", at, place)).flatMap((id) => [
      searchBlock(id, { query: "q" }),
      ...(answered ? [resultBlock(id, [page])] : []),
    ]),
  ]),
}))
const user = fc
  .oneof(fc.constant("Sure?"), fc.constant([text("Sure?")]))
  .map((content): Said => ({ role: "user", content }))
const conversation = fc
  .array(fc.oneof(assistant, user), { maxLength: 6 })
  .map((messages) => messages.filter(({ content }) => content.length > 0))
  .map((messages): Said[] => [{ role: "user", content: "Hi" }, ...messages])

const expand = (messages: readonly Said[]) =>
  expandHistory(JSON.parse(JSON.stringify(messages)) as Json[], false) as unknown[] as Said[]
const blocksOf = ({ content }: Said) => (typeof content === "string" ? [] : content)
const typed = (message: Said, type: string) => blocksOf(message).filter((block) => block["type"] === type)

const one = (turnAt: number, place: number): JsonObject[] => {
  const id = searchId("req_1", turnAt, place)
  return [searchBlock(id, { query: "q" }), resultBlock(id, [page])]
}
/** How many searches each of the model's turns asks for. */
const calls = (content: JsonObject[]) =>
  expand([{ role: "assistant", content }])
    .filter(({ role }) => role === "assistant")
    .map((message) => typed(message, "tool_use").length)

const words = (messages: readonly Said[]) =>
  messages.flatMap((message) =>
    typeof message.content === "string" ? [message.content] : typed(message, "text").map(({ text: said }) => said),
  )

describe("searches in a conversation", () => {
  test("come out as calls that the very next message answers, all of them and no others", () => {
    fc.assert(
      fc.property(conversation, (messages) => {
        const expanded = expand(messages)
        for (const [at, message] of expanded.entries()) {
          const calls = typed(message, "tool_use").map(({ id }) => id)
          if (message.role !== "assistant") expect(calls).toEqual([])
          const next = expanded[at + 1]
          const results = next === undefined ? [] : typed(next, "tool_result").map(({ tool_use_id: id }) => id)
          expect(results).toEqual(calls)
          if (calls.length > 0) expect(next?.role).toBe("user")
          // Results come before whatever else the user says.
          const kinds = blocksOf(message).map(({ type }) => type === "tool_result")
          expect(kinds.lastIndexOf(true)).toBe(kinds.filter(Boolean).length - 1)
          expect(message.content.length).toBeGreaterThan(0)
        }
        expect(JSON.stringify(expanded)).not.toContain("srvtoolu_")
      }),
      { numRuns: 300 },
    )
  })

  test("leave the words around them as they are, in their order", () => {
    fc.assert(
      fc.property(conversation, (messages) => {
        expect(words(expand(messages))).toEqual(words(messages))
      }),
    )
  })

  test("are one turn when they were asked for at once, and several when they were not", () => {
    expect(calls([...one(1, 0), ...one(1, 1), ...one(2, 0)])).toEqual([2, 1])
    expect(calls([...one(1, 0), text("Hm."), ...one(2, 0)])).toEqual([1, 1])
  })

  test("keep their excerpts through the client's hands", () => {
    const id = searchId("req_1", 1, 0)
    const content = [searchBlock(id, { query: "q" }), resultBlock(id, [page])]
    const sent = JSON.parse(JSON.stringify([{ role: "assistant", content }])) as JsonObject[]
    expect(JSON.stringify(sent)).not.toContain(page.snippet)
    expect(JSON.stringify(expandHistory(sent, true))).toContain(page.snippet)
  })
})

const search = (fields: JsonObject, content: Json = "Hi") =>
  decodeRequest({
    model: "m",
    max_tokens: 9,
    messages: [{ role: "user", content }],
    tools: [{ type: "web_search_20250305", name: "web_search", ...fields }],
  })

describe("a search that is asked for", () => {
  test("knows the sources that the client sent itself, and takes an empty list for none", () => {
    const own = { type: "search_result", source: "https://own.example", title: "T", content: [text("x")] }
    expect(search({ allowed_domains: [], max_uses: 2 }, [own, text("?")])).toMatchObject({
      webSearch: {
        maxUses: 2,
        domains: { allowed: undefined, blocked: [] },
        clientSources: new Set(["https://own.example"]),
      },
    })
  })
  test.each<[string, Json, boolean]>([
    ["a thousand", Array.from({ length: 1_000 }, () => "a.example"), true],
    ["one more", Array.from({ length: 1_001 }, () => "a.example"), false],
    ["a long one", ["a.example", "a".repeat(2_000)], true],
    ["one that is too long", ["a.example", "a".repeat(2_001)], false],
    ["an empty one", ["a.example", ""], false],
    ["a number", ["a.example", 5], false],
    ["a text", "a.example", false],
  ])("takes domains or not: %s", (_, blocked_domains, isTaken) => {
    const found = search({ blocked_domains })
    if (isTaken) expect(found).toMatchObject({ webSearch: { domains: { blocked: blocked_domains } } })
    else expect(found).toMatchObject({ code: "request.invalid_request" })
  })
})

test("what came of an earlier search is told in words where there are no pages", () => {
  const asked = searchBlock("srvtoolu_1", { query: "q" })
  const told = (...results: JsonObject[]) =>
    typed(expand([{ role: "assistant", content: [asked, ...results] }])[1] ?? { role: "", content: "" }, "tool_result")
  expect(told(resultBlock("srvtoolu_1", "unavailable"))).toMatchObject([
    { content: "The search failed: unavailable.", is_error: true },
  ])
  expect(told()).toMatchObject([{ content: "The search was not run.", is_error: true }])
  const [nothing] = told(resultBlock("srvtoolu_1", []))
  expect(nothing).toMatchObject({ content: "Nothing was found." })
  expect(nothing).not.toHaveProperty("is_error")
})

test("of a turn, too, thinking that is not shown says that the model is at work, and other blocks do not", () => {
  const inner = new RelayedStream(backendStream({ model: "m", includeUsage: true }))
  const reader = new TurnReader(inner, { blocksSent: 0, clientSources: new Set() })
  const begins = (index: number, block: JsonObject) =>
    reader.read({ event: "", data: JSON.stringify({ type: "content_block_start", index, content_block: block }) })
  expect(begins(0, { type: "text", text: "" })).toMatchObject({ kind: "preamble", isWorking: false })
  expect(begins(1, { type: "thinking", thinking: "" })).toMatchObject({ kind: "preamble", isWorking: true })
})
