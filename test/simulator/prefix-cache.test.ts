/** Prompts that are cached, as each format counts them. */
import { describe, expect, test } from "bun:test"
import type { Json, JsonObject } from "../../src/language/json.ts"
import { LIFE_MS, PrefixCaches, type PromptBlock } from "../../src/simulator/ask.ts"
import { startSimulator } from "../../src/simulator/simulator.ts"
import { ask, at, eventsOf, type Format, simulatorForFile, stream } from "./ask.ts"

const simulator = simulatorForFile()
const mark = { cache_control: { type: "ephemeral" } }
/** So many tokens, no two of which are alike in two texts that differ in `about`. */
const words = (tokens: number, about = "a") => about.repeat(4 * tokens).slice(0, 4 * tokens)

const text = (tokens: number, about: string, marks: JsonObject = {}) => ({
  type: "text",
  text: words(tokens, about),
  ...marks,
})
const block = (about: string): PromptBlock[] => [{ text: words(1_024, about), isMarked: true }]

interface Counted {
  readonly input: unknown
  readonly cached: unknown
  readonly written: unknown
}

async function counted(format: Format, body: JsonObject, key = "sk-1", script = "cache=prefix"): Promise<Counted> {
  const response = await ask(simulator, format, script, body, { headers: { authorization: `Bearer ${key}` } })
  const { usage } = (await response.json()) as { usage: JsonObject }
  if (format === "messages")
    return {
      input: usage["input_tokens"],
      cached: usage["cache_read_input_tokens"],
      written: usage["cache_creation_input_tokens"],
    }
  const details = usage["prompt_tokens_details"] ?? usage["input_tokens_details"]
  return {
    input: usage["prompt_tokens"] ?? usage["input_tokens"],
    cached: at(details, "cached_tokens"),
    written: at(details, "cache_write_tokens") ?? 0,
  }
}

const said = (...turns: readonly Json[]): Json[] =>
  turns.map((content, place) => ({ role: place % 2 === 0 ? "user" : "assistant", content }))

describe.each(["chat", "responses"] as const)("%s caches by itself", (format) => {
  const prompt = (...turns: readonly Json[]) => ({ [format === "chat" ? "messages" : "input"]: said(...turns) })

  test("what a prompt has in common with an earlier one, in steps of 128 tokens", async () => {
    const first = words(2_000)
    expect(await counted(format, prompt(first))).toMatchObject({ cached: 0, written: 0 })
    const { input, cached } = await counted(format, prompt(first, "Yes?", words(500, "b")))
    expect(cached).toBe(1_920)
    expect(Number(input)).toBeGreaterThan(2_500)
    expect((await counted(format, prompt(first, "Yes?", words(500, "b"), "And?", "c"))).cached).toBe(2_432)
    expect((await counted(format, prompt(first, "Yes?", words(500, "c")))).cached).toBe(1_920)
  })

  test("nothing below 1,024 tokens", async () => {
    for (const tokens of [1_000, 1_024 + 128]) {
      await counted(format, prompt(words(tokens, `${tokens}`)))
      expect((await counted(format, prompt(words(tokens, `${tokens}`)))).cached).toBe(tokens < 1_024 ? 0 : 1_152)
    }
  })

  test("for the credential and the model that asked", async () => {
    await counted(format, prompt(words(2_000)))
    expect((await counted(format, prompt(words(2_000)), "sk-2")).cached).toBe(0)
    const other = `cache=prefix&output=1`
    expect((await counted(format, prompt(words(2_000)), "sk-1", other)).cached).toBe(1_920)
  })

  test("whether a text comes as a string or as a part", async () => {
    await counted(format, prompt(words(2_000)))
    expect((await counted(format, prompt([{ type: "text", text: words(2_000) }]))).cached).toBe(1_920)
  })
})

describe("messages caches what is marked", () => {
  test("and counts what it reads, what it writes and the rest apart", async () => {
    const system = [text(2_000, "s", mark)]
    const first = { system, messages: said([text(300, "u", mark)]) }
    expect(await counted("messages", first)).toMatchObject({ cached: 0, written: 2_301 })
    const second = { system, messages: said([text(300, "u")], "Yes?", [text(100, "v", mark)]) }
    const { input, cached, written } = await counted("messages", second)
    expect({ cached, written }).toEqual({ cached: 2_301, written: 104 })
    expect(Number(input)).toBeLessThan(40)
  })

  test("nothing without a mark, and nothing below 1,024 tokens", async () => {
    const plain = { system: words(2_000, "p"), messages: said("Hi") }
    const small = { system: [text(1_000, "q", mark)], messages: said("Hi") }
    for (const body of [plain, plain, small, small])
      expect(await counted("messages", body)).toMatchObject({ cached: 0, written: 0 })
  })

  test("a mark on the request itself is one at its end", async () => {
    const body = { messages: said([text(2_000, "w")]), ...mark }
    expect(await counted("messages", body)).toMatchObject({ cached: 0, written: 2_001 })
    expect(await counted("messages", body)).toMatchObject({ cached: 2_001, written: 0 })
  })

  test("what was marked 20 blocks before is still found, and 21 before is not", async () => {
    for (const [blocks, found] of [
      [20, 2_001],
      [21, 0],
    ] as const) {
      const about = `${blocks}`
      await counted("messages", { messages: said([text(2_000, about, mark)]) })
      const more = Array.from({ length: blocks }, (_, place) => text(1, "m", place === blocks - 1 ? mark : {}))
      expect((await counted("messages", { messages: said([text(2_000, about), ...more]) })).cached).toBe(found)
    }
  })

  test("a stream tells them too", async () => {
    const body = { system: [text(2_000, "t", mark)], messages: said("Hi"), ...stream }
    const read = async () => eventsOf(await (await ask(simulator, "messages", "cache=prefix", body)).text())[0]
    expect(at(await read(), "message", "usage", "cache_creation_input_tokens")).toBe(2_000)
    expect(at(await read(), "message", "usage", "cache_read_input_tokens")).toBe(2_000)
  })
})

test("a call that is refused caches nothing, and neither does one that does not ask for it", async () => {
  const body = { messages: said(words(2_000)) }
  await counted("chat", body, "sk-1", "")
  const refused = await ask(simulator, "chat", "cache=prefix&fault=status&status=503", body, {
    headers: { authorization: "Bearer sk-1" },
  })
  expect(refused.status).toBe(503)
  expect((await counted("chat", body)).cached).toBe(0)
  simulator.reset()
  expect((await counted("chat", body)).cached).toBe(0)
})

test("counts that a script gives are not for a cache to count", async () => {
  for (const more of ["cached=1", "written=1"])
    expect((await ask(simulator, "chat", `cache=prefix&${more}`)).status).toBe(400)
})

test("a simulator's caches go by the time that it is given", async () => {
  let nowMs = 0
  const timed = startSimulator({ now: () => nowMs })
  const cached = async () => {
    const reply = await ask(timed, "chat", "cache=prefix", { messages: said(words(2_000)) })
    return at(await reply.json(), "usage", "prompt_tokens_details", "cached_tokens")
  }
  expect([await cached(), await cached()]).toEqual([0, 1_920])
  nowMs = LIFE_MS
  expect(await cached()).toBe(0)
  await timed.stop()
})

describe("a cache", () => {
  test.each(["automatic", "marked"] as const)("forgets after five minutes without use: %s", (caching) => {
    const caches = new PrefixCaches()
    const use = (nowMs: number) => caches.use("k", block("a"), caching, nowMs).cached
    expect([use(0), use(LIFE_MS - 1), use(2 * LIFE_MS - 2), use(3 * LIFE_MS - 2)]).toEqual([0, 1_024, 1_024, 0])
  })

  test("holds so many prefixes, and forgets those that were used longest ago", () => {
    const caches = new PrefixCaches(2)
    const use = (about: string) => caches.use("k", block(about), "marked", 0).cached
    expect(["a", "b", "a", "c", "a", "b"].map(use)).toEqual([0, 0, 1_024, 0, 1_024, 0])
  })
})
