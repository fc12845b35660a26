import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import type { Json, JsonObject } from "../../src/language/json.ts"
import { usageSearches, usageTokens as chat } from "../../src/wire/shared/chunks.ts"
import { readUsage as chatUsage } from "../../src/wire/chat/events-in.ts"
import { decodeUsage as messagesUsage, SearchCount, usageTokens as messages } from "../../src/wire/messages/usage.ts"
import { responsesFormat } from "../../src/wire/responses/format.ts"
import { replyUsage as responsesUsage, usageTokens as responses } from "../../src/wire/responses/reply.ts"
import { plausibleTokens } from "../../src/wire/tokens.ts"

describe("buckets are disjoint whatever the format counts", () => {
  const same = { input: 100, cacheRead: 20, cacheWrite: 5, output: 30 }
  test("chat counts the cache within the prompt", () => {
    const details = { cached_tokens: 20, cache_write_tokens: 5 }
    expect(chat({ prompt_tokens: 125, completion_tokens: 30, prompt_tokens_details: details })).toEqual(same)
  })
  test("messages counts the cache beside the input", () => {
    const cache = { cache_read_input_tokens: 20, cache_creation_input_tokens: 5 }
    expect(messages({ input_tokens: 100, output_tokens: 30, ...cache })).toEqual(same)
  })
  test("responses counts the cache within the input", () => {
    const details = { cached_tokens: 20, cache_write_tokens: 5 }
    expect(responses({ input_tokens: 125, output_tokens: 30, input_tokens_details: details })).toEqual(same)
  })
})

describe("reasoning is output", () => {
  const usage = { prompt_tokens: 10, completion_tokens: 5, completion_tokens_details: { reasoning_tokens: 3 } }
  test("once, where completion_tokens includes it", () => {
    expect(chat({ ...usage, total_tokens: 15 })?.output).toBe(5)
    expect(chat(usage)?.output).toBe(5)
  })
  test("also where the total says that completion_tokens leaves it out", () => {
    expect(chat({ ...usage, total_tokens: 18 })?.output).toBe(8)
  })
})

const countedChat = (completion: Json, reasoning: Json, total: Json) =>
  chat({
    prompt_tokens: 10,
    completion_tokens: completion,
    total_tokens: total,
    completion_tokens_details: { reasoning_tokens: reasoning },
  })

describe("reasoning that no total can be right about", () => {
  test("takes nothing away from the output", () => expect(countedChat(5, -2, 13)?.output).toBe(5))
  test("stands for no output that is missing", () => expect(countedChat(null, 3, 13)).toBeUndefined())
  test("is one token as well as many", () => expect(countedChat(5, 1, 16)?.output).toBe(6))
})

const told = (reasoning: Json) => [
  chatUsage({ prompt_tokens: 10, completion_tokens: 5, completion_tokens_details: { reasoning_tokens: reasoning } }),
  messagesUsage({ input_tokens: 10, output_tokens: 5, output_tokens_details: { thinking_tokens: reasoning } }),
  responsesUsage({ input_tokens: 10, output_tokens: 5, output_tokens_details: { reasoning_tokens: reasoning } }),
]

test("reasoning that is no part of the answer's count is told no client, whatever its backend speaks", () => {
  for (const reasoning of [0, 5])
    expect(told(reasoning).map((usage) => usage?.reasoning)).toEqual([reasoning, reasoning, reasoning])
  for (const reasoning of [6, -1, 1.5, 1e300, null, "3", {}])
    expect(told(reasoning).map((usage) => usage?.reasoning)).toEqual([undefined, undefined, undefined])
})

test("cache details that are missing or null are 0", () => {
  const counted = { input: 10, cacheRead: 0, cacheWrite: 0, output: 5 }
  expect(chat({ prompt_tokens: 10, completion_tokens: 5, prompt_tokens_details: null })).toEqual(counted)
  expect(messages({ input_tokens: 10, output_tokens: 5, cache_read_input_tokens: null })).toEqual(counted)
  expect(responses({ input_tokens: 10, output_tokens: 5, input_tokens_details: {} })).toEqual(counted)
})

const hostile: [string, Json | undefined][] = [
  ["missing", undefined],
  ["null", null],
  ["negative", -1],
  ["fractional", 1.5],
  ["a string", "12"],
  ["an object", {}],
  ["over all numbers", Number.POSITIVE_INFINITY],
]
test.each(hostile)("a count that is %s is not believed", (_, count) => {
  expect(chat({ prompt_tokens: count, completion_tokens: 5 })).toBeUndefined()
  expect(chat({ prompt_tokens: 5, completion_tokens: count })).toBeUndefined()
  expect(messages({ input_tokens: count, output_tokens: 5 })).toBeUndefined()
  expect(messages({ input_tokens: 5, output_tokens: count })).toBeUndefined()
  expect(responses({ input_tokens: count, output_tokens: 5 })).toBeUndefined()
  expect(responses({ input_tokens: 5, output_tokens: count })).toBeUndefined()
})

test("a cache count of the wrong kind is not taken for a missing one", () => {
  expect(messages({ input_tokens: 5, output_tokens: 5, cache_read_input_tokens: "3" })).toBeUndefined()
  expect(chat({ prompt_tokens: 5, completion_tokens: 5, prompt_tokens_details: { cached_tokens: -3 } })).toBeUndefined()
})

describe("what a chat backend counts of its cache in a field of its own", () => {
  const usage = { prompt_tokens: 1204, completion_tokens: 5 }

  test("is counted beside a zero in the usual one", () => {
    const read = { input: 180, cacheRead: 1024, cacheWrite: 0, output: 5 }
    for (const details of [undefined, { cached_tokens: null }, { cached_tokens: 0 }]) {
      expect(chat({ ...usage, prompt_cache_hit_tokens: 1024, prompt_tokens_details: details })).toEqual(read)
      expect(chat({ ...usage, cached_tokens: 1024, prompt_tokens_details: details })).toEqual(read)
    }
  })

  test("is not counted twice, and no zero takes the usual count away", () => {
    const read = { input: 204, cacheRead: 1000, cacheWrite: 0, output: 5 }
    for (const own of [0, 1000])
      expect(chat({ ...usage, prompt_cache_hit_tokens: own, prompt_tokens_details: { cached_tokens: 1000 } })).toEqual(
        read,
      )
  })
})

test.each(["cache_write_tokens", "cache_creation_input_tokens", "cache_creation_tokens"])(
  "what a chat backend stored in its cache is counted, also as %s",
  (name) => {
    const usage = { prompt_tokens: 2000, completion_tokens: 5 }
    expect(chat({ ...usage, prompt_tokens_details: { cached_tokens: 60, [name]: 1889 } })).toEqual({
      input: 51,
      cacheRead: 60,
      cacheWrite: 1889,
      output: 5,
    })
    const zero = { cache_write_tokens: 0, cache_creation_tokens: 0 }
    expect(chat({ ...usage, prompt_tokens_details: { ...zero, [name]: 1889 } })?.cacheWrite).toBe(1889)
    for (const hostile of [-1, 1.5, "3", {}, 2001])
      expect(chat({ ...usage, prompt_tokens_details: { [name]: hostile } })).toBeUndefined()
  },
)

test("a prompt smaller than its cached part is not believed", () => {
  expect(chat({ prompt_tokens: 5, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 6 } })).toBeUndefined()
})

test.each([2 ** 53 - 1, 2 ** 53, 1e18, 1e300])(
  "a count of %p is read as the largest; how much of it is charged is decided elsewhere",
  (count) => {
    const most = 2 ** 53 - 1
    expect(messages({ input_tokens: count, output_tokens: 1 })).toMatchObject({ input: most, output: 1 })
    expect(messages({ input_tokens: 1, output_tokens: count })).toMatchObject({ input: 1, output: most })
    expect(
      chat({ prompt_tokens: count, completion_tokens: count, prompt_tokens_details: { cached_tokens: count } }),
    ).toEqual({
      input: 0,
      cacheRead: most,
      cacheWrite: 0,
      output: most,
    })
  },
)

describe("an answer with content", () => {
  const nothing = { input: 0, cacheRead: 0, cacheWrite: 0, output: 0 }
  test("is not counted by zeros alone", () => {
    expect(plausibleTokens(nothing, true)).toBeUndefined()
    expect(plausibleTokens(nothing, false)).toEqual(nothing)
  })
  test("is counted by one token of any bucket", () => {
    for (const bucket of ["input", "cacheRead", "cacheWrite", "output"] as const)
      expect(plausibleTokens({ ...nothing, [bucket]: 1 }, true)).toEqual({ ...nothing, [bucket]: 1 })
  })
})

test("no usage makes a bucket that is negative, fractional or unsafe", () => {
  const count = fc.oneof(
    fc.nat(1000),
    fc.integer(),
    fc.double(),
    fc.maxSafeInteger(),
    fc.constantFrom<Json | undefined>(null, undefined, "7", true, 2 ** 60, -0),
  )
  const details = fc.oneof(fc.record({ cached_tokens: count, cache_write_tokens: count }), fc.constant(undefined))
  const usage: fc.Arbitrary<JsonObject> = fc.record({
    prompt_tokens: count,
    completion_tokens: count,
    total_tokens: count,
    prompt_tokens_details: details,
    input_tokens: count,
    output_tokens: count,
    input_tokens_details: details,
    cache_read_input_tokens: count,
    cache_creation_input_tokens: count,
    completion_tokens_details: fc.record({ reasoning_tokens: count }),
  })
  fc.assert(
    fc.property(usage, (usage) => {
      for (const read of [chat, messages, responses]) {
        for (const bucket of Object.values(read(usage) ?? {})) {
          expect(Number.isSafeInteger(bucket) && bucket >= 0).toBe(true)
        }
      }
    }),
  )
})

const countOf = (usage: Json, ...blocks: Json[]): number => {
  const count = new SearchCount()
  for (const block of blocks) count.block(block)
  count.usage(usage)
  return count.searches
}
const call = (action: Json) => ({ type: "web_search_call", status: "completed", action })

describe("searches are those that a backend ran, as far as it can be believed", () => {
  const claims: [Json, number][] = [
    [3, 3],
    [0, 0],
    [100, 100],
    [101, 100],
    [Number.MAX_SAFE_INTEGER, 100],
  ]
  const nonsense: [Json][] = [[1e18], [-1], [1.5], ["3"], [null], [[3]], [{}]]
  const search = { type: "server_tool_use", name: "web_search", id: "s", input: {} }

  test.each(claims)("%p is %p", (claim, searches) => {
    expect(countOf({ server_tool_use: { web_search_requests: claim } })).toBe(searches)
    expect(usageSearches({ server_tool_use: { web_search_requests: claim } })).toBe(searches)
    expect(usageSearches({ server_side_tool_usage_details: { web_search_calls: claim } })).toBe(searches)
    expect(usageSearches({ num_search_queries: claim })).toBe(searches)
  })

  test.each(nonsense)("%j is no count, and what was seen to begin is one", (claim) => {
    expect(countOf({ server_tool_use: { web_search_requests: claim } }, search, { ...search, name: "other" })).toBe(1)
    expect(usageSearches({ server_tool_use: { web_search_requests: claim }, num_search_queries: claim })).toBe(0)
  })

  test("a search that failed is not billed, and so the backend's count is before the blocks", () => {
    expect(countOf({ server_tool_use: { web_search_requests: 1 } }, search, search)).toBe(1)
    expect(countOf({ output_tokens: 5 }, ...Array.from({ length: 200 }, () => search))).toBe(100)
  })

  test("a count stays where a later event has none", () => {
    const count = new SearchCount()
    count.usage({ server_tool_use: { web_search_requests: 2 } })
    count.usage({ server_tool_use: {} })
    count.usage({ output_tokens: 5 })
    expect(count.searches).toBe(2)
  })

  test("a page that was opened is no search", () => {
    const items = [call({ type: "search", query: "q" }), call({ type: "open_page" }), call({ type: "find_in_page" })]
    const stream = responsesFormat.backend.stream({ model: "m", includeUsage: true })
    const say = (type: string, output_index: number, item: JsonObject) =>
      stream.meaning({ event: type, data: "" }, { type, output_index, item })
    for (const [place, item] of items.entries()) {
      say("response.output_item.added", place, { type: "web_search_call", status: "in_progress" })
      // Until it says what it is, it counts.
      expect([place, stream.searches()]).toEqual([place, place === 0 ? 1 : 2])
      say("response.output_item.done", place, item)
      expect([place, stream.searches()]).toEqual([place, 1])
    }
    expect(responsesFormat.backend.readReply({ output: items }, { model: "m", includeUsage: true })).toMatchObject({
      searches: 1,
    })
  })
})
