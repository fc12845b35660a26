/**
 * The loop around a web search, at each of its bounds: met, and passed by one. Without a gateway: a call of the test's, and a backend
 * that plays the turns that are written out.
 */
import { afterAll, beforeEach, describe, expect, test } from "bun:test"
import { systemClock } from "../../actors/kernel/clock.ts"
import { type Micro, micro, zero } from "../../actors/money/micro.ts"
import { price, type Rates } from "../../actors/money/price.ts"
import { Failure } from "../../src/failure/failure.ts"
import type { AnsweredEnd, End, FailedEnd } from "../../src/gateway/attempt.ts"
import { Timeouts } from "../../src/gateway/timeouts.ts"
import { type Loop, type LoopedCall, toolLoop } from "../../src/gateway/tool-loop.ts"
import { isObject, type JsonObject } from "../../src/language/json.ts"
import type { Search } from "../../src/search/searx.ts"
import { estimateInputTokens } from "../../src/wire/estimate.ts"
import { exchange } from "../../src/wire/exchange.ts"
import { decodeRequest } from "../../src/wire/messages/format.ts"
import { call as toolCall, counts, search, startTurnsBackend, text, type TurnAnswer } from "../search/turns-backend.ts"

const backend = startTurnsBackend()
afterAll(() => backend[Symbol.asyncDispose]())
beforeEach(() => void (backend.asked.length = 0))

const RATES: Rates = { input: micro(2n), output: micro(10n), cacheRead: micro(1n), cacheWrite: micro(3n) }
const RICH = micro(10n ** 12n)
const page = { url: "https://example.com/", title: "Maples", snippet: "They turn red.", published: undefined }

interface Given {
  readonly turns: readonly TurnAnswer[]
  readonly hold?: Micro
  readonly rates?: Rates
  readonly contextWindow?: number | null
  readonly modelLimit?: number
  readonly clientLimit?: number
  /** What the first turn may answer. */
  readonly answerLimit?: number
  readonly maxUses?: number
  /** What the client gives to be cited, from this address. */
  readonly ownSource?: string
  readonly stream?: boolean
  /** A long answer is asked for as a stream, and gathered. */
  readonly gather?: boolean
  readonly search?: Search
  readonly isClientWaiting?: () => boolean
  /** Of the backend's first content, of a call and of each turn. */
  readonly startMs?: number
}

interface Looped {
  readonly end: End
  /** What the client was told, and what the call heard before it. */
  readonly heard: readonly string[]
  /** The limits that were forwarded. */
  readonly limits: readonly unknown[]
  /** What each try was estimated to read. */
  readonly prompts: readonly number[]
  readonly searched: readonly string[]
  readonly attempts: number
}

const nothing = () => {}
const ownResult = (source: string) => ({
  type: "search_result",
  source,
  title: "Mine",
  content: [{ type: "text", text: "Red." }],
})

async function loop(given: Given): Promise<Looped> {
  const { stream = false, clientLimit = 1_000, modelLimit = 1_000, contextWindow = null, rates = RATES } = given
  const request = decodeRequest({
    model: "m",
    max_tokens: clientLimit,
    stream,
    messages: [{ role: "user", content: given.ownSource === undefined ? "When?" : [ownResult(given.ownSource)] }],
    tools: [{ type: "web_search_20250305", name: "web_search", max_uses: given.maxUses ?? null }],
  })
  if (request instanceof Failure) throw new Error(request.message)
  const asking = exchange(request, { format: "messages", model: "m" })
  if (asking instanceof Failure || request.webSearch === undefined) throw new Error("no search is asked for")
  const heard: string[] = []
  const searched: string[] = []
  const prompts: number[] = []
  const usage = { setCounts: nothing, output: { whole: nothing, event: nothing, unread: nothing } }
  const limits = { upstreamStartMs: given.startMs ?? 1_000, upstreamIdleMs: 60_000, upstreamAnswerMs: 60_000 }
  const timeouts = new Timeouts(systemClock, limits, nothing)
  const call = {
    requestId: "req_1",
    caller: { record: { accountId: "acc" } },
    clientHeaders: new Headers(),
    plan: { requestBytes: 1_000 },
    attempts: 1,
    admission: {
      hold: given.hold ?? RICH,
      seat: {
        member: { id: "turns", backend: backend.backend },
        requestSent: nothing,
        onContent: nothing,
        onSuccess: nothing,
        onFailure: nothing,
        exchange: asking,
      },
    },
    ports: {
      clock: systemClock,
      fetch,
      health: { watch: () => ({ content: nothing, ended: nothing }) },
      random: () => 0,
    },
    timeouts,
    costs: {
      begin({ request: { inputTokens } }: Loop["first"]) {
        prompts.push(inputTokens)
        return usage
      },
    },
    get isClientWaiting() {
      return given.isClientWaiting?.() ?? true
    },
    onContent: () => heard.push("content"),
    onCommit: () => heard.push("commit"),
    onBackendActivity: nothing,
    write: (told: string) => heard.push(told),
  }
  backend.turns = [...given.turns]
  const end = await toolLoop(call as unknown as LoopedCall, {
    first: {
      request,
      offer: {
        model: { id: "m", contextWindow, maxOutputTokens: modelLimit, gather: given.gather ?? false },
        price: { rates },
      },
      exchange: asking,
      answerLimit: given.answerLimit ?? Math.min(clientLimit, modelLimit),
    } as unknown as Loop["first"],
    webSearch: request.webSearch,
    search: async (...asked) => {
      searched.push(asked[0])
      return given.search === undefined ? [page] : await given.search(...asked)
    },
  })
  timeouts.end()
  const forwarded = backend.asked.map((body) => body["max_tokens"])
  return { end, heard, limits: forwarded, prompts, searched, attempts: call.attempts }
}

const answered = ({ end }: Looped): AnsweredEnd => {
  if (end.kind === "failed") throw new Error(`it failed: ${end.fault.failure.code}`)
  return end
}
const failed = ({ end }: Looped): FailedEnd => {
  if (end.kind === "answered") throw new Error("it was answered")
  return end
}
const told = (looped: Looped): JsonObject => {
  const { last } = answered(looped)
  if (!isObject(last)) throw new Error("a stream's end")
  return last
}
const stopOf = (looped: Looped) => told(looped)["stop_reason"]
const contentOf = (looped: Looped) => told(looped)["content"] as JsonObject[]
const summed = (input: number, output: number, cacheRead = 0, cacheWrite = 0) => ({
  input,
  output,
  cacheRead,
  cacheWrite,
})

const searching = (usage = counts(10, 5)): TurnAnswer => ({ blocks: [search("toolu_1", "q")], usage })
const last: TurnAnswer = { blocks: [text("So.")], usage: counts(20, 3) }

/** What a second turn reads, as the gateway estimates it: the prompt and what was told since, or what was counted and what was found. */
async function secondPrompt(usage: ReturnType<typeof counts>, counted: number): Promise<number> {
  const content = contentOf(await loop({ turns: [searching(usage), last] })).slice(0, 2)
  backend.asked.length = 0
  const said = estimateInputTokens({ messages: [{ role: "assistant", content }], tools: [], schemas: [] })
  const found = estimateInputTokens({ messages: content, tools: [], schemas: [] })
  const request = decodeRequest({
    model: "m",
    max_tokens: 1,
    messages: [{ role: "user", content: "When?" }],
    tools: [{ type: "web_search_20250305", name: "web_search" }],
  })
  if (request instanceof Failure) throw new Error(request.message)
  return Math.max(request.inputTokens + said, counted + found)
}

describe("a further turn", () => {
  test("is begun at the window's last token, and not past it, by what was counted or, where that is less, by the estimate", async () => {
    for (const [usage, counted] of [
      [counts(10, 5), 15],
      [counts(4_000, 50, 300, 2), 4_352],
    ] as const) {
      const prompt = await secondPrompt(usage, counted)
      const at = (contextWindow: number) => loop({ turns: [searching(usage), last], contextWindow })
      const within = await at(prompt)
      expect([stopOf(within), within.prompts.at(1)]).toEqual(["end_turn", prompt])
      const past = await at(prompt - 1)
      expect(stopOf(past)).toBe("model_context_window_exceeded")
      expect(answered(past)).toMatchObject({ turns: 1 })
    }
  })

  test("may answer what the client's limit, or the model's, leaves: one token still, and none is the end", async () => {
    for (const limits of [
      { clientLimit: 100, modelLimit: 1_000 },
      { clientLimit: 1_000, modelLimit: 100 },
    ]) {
      const used = (output: number) => loop({ turns: [searching(counts(10, output)), last], ...limits })
      expect(stopOf(await used(100))).toBe("max_tokens")
      backend.asked.length = 0
      expect((await used(99)).limits).toEqual([100, 1])
    }
  })

  test("is begun while the hold pays for it and for a minimal answer, and not with a micro-rupiah less", async () => {
    const usage = counts(10, 5, 7, 2)
    const prompt = await secondPrompt(usage, 24)
    // Input may be written to a cache, at the dearest of its rates.
    const needed = price(summed(10, 5, 7, 2), RATES) + BigInt(prompt) * 3n + 16n * 10n
    const holding = (hold: bigint) => loop({ turns: [searching(usage), last], hold: micro(hold) })
    const paid = await holding(needed)
    expect([stopOf(paid), paid.limits]).toEqual(["end_turn", [1_000, 16]])
    backend.asked.length = 0
    expect((await holding(needed + 10n)).limits).toEqual([1_000, 17])
    const unpaid = await holding(needed - 1n)
    expect(stopOf(unpaid)).toBe("pause_turn")
    expect(answered(unpaid).tokens).toEqual(summed(10, 5, 7, 2))
  })

  test("is what all turns before it have left of the hold, of the limit and of five turns", async () => {
    const looped = await loop({ turns: Array.from({ length: 6 }, () => searching(counts(10, 100, 20, 30))) })
    expect(looped.limits).toEqual([1_000, 900, 800, 700, 600])
    expect(answered(looped)).toMatchObject({ turns: 5, tokens: summed(50, 500, 100, 150), excess: zero })
    expect(stopOf(looped)).toBe("pause_turn")
  })

  test("is not begun for a client that has left", async () => {
    const looped = await loop({ turns: [searching(), last], isClientWaiting: () => backend.asked.length === 0 })
    expect(stopOf(looped)).toBe("pause_turn")
    expect(answered(looped)).toMatchObject({ turns: 1, tokens: summed(10, 5) })
  })
})

describe("what turns counted", () => {
  test("over their own bounds is borne by the house, all turns together", async () => {
    const looped = await loop({
      turns: [searching(counts(10, 150)), { ...last, usage: counts(20, 77) }],
      answerLimit: 100,
      clientLimit: 120,
    })
    expect(looped.limits).toEqual([100, 20])
    expect(answered(looped)).toMatchObject({ tokens: summed(30, 120), excess: micro((50n + 57n) * 10n) })
  })

  test("is charged as far as counts can be, and nothing, not even of the house, where one cannot be read", async () => {
    const free = { ...RATES, input: zero, cacheRead: zero, cacheWrite: zero }
    const most = Number.MAX_SAFE_INTEGER
    const at = (second: number) =>
      loop({ turns: [searching(counts(1, 0)), { ...last, usage: counts(second, 0) }], rates: free })
    expect(answered(await at(most - 1)).tokens).toEqual(summed(most, 0))
    expect(answered(await at(most)).tokens).toBeUndefined()
    backend.asked.length = 0
    const past = await loop({ turns: [searching(counts(1, 0)), searching(counts(most, 0)), last], rates: free })
    expect([stopOf(past), past.limits.length]).toEqual(["pause_turn", 2])
    const unread = { ...last, usage: counts(1.5, 1) }
    const looped = await loop({ turns: [searching(counts(10, 150)), unread], answerLimit: 100 })
    expect(answered(looped)).toMatchObject({ tokens: undefined, excess: zero, turns: 2 })
    backend.asked.length = 0
    const paused = await loop({ turns: [searching(), { ...unread, blocks: [search("toolu_2", "q")] }, last] })
    expect([stopOf(paused), paused.limits.length]).toEqual(["pause_turn", 2])
  })
})

const slowSearch = async () => {
  await Bun.sleep(250)
  return [page]
}

describe("a turn that fails", () => {
  test("is the call's own where it is the first, and tried once", async () => {
    for (const status of [503, 413]) {
      backend.asked.length = 0
      const looped = await loop({ turns: [{ status }, last] })
      expect(failed(looped).committed).toBeFalse()
      expect(looped.limits).toHaveLength(1)
    }
  })

  test("later is tried three times, and then ends the call, of which nothing is begun anew", async () => {
    const looped = await loop({ turns: [searching(), { status: 503 }, { status: 503 }, { status: 503 }, last] })
    expect(failed(looped)).toMatchObject({ committed: true, fault: { status: 503 } })
    expect([looped.limits.length, looped.attempts]).toEqual([4, 3])
  })

  test("is tried again also where the turns before it took all the time that a call has for its start", async () => {
    const looped = await loop({ turns: [searching(), { status: 503 }, last], search: slowSearch, startMs: 200 })
    expect(answered(looped)).toMatchObject({ turns: 2, tokens: summed(30, 8) })
  })

  test("for a prompt that the backend finds too long ends the answer, with the turns before it", async () => {
    const looped = await loop({ turns: [searching(), searching(), { status: 413 }] })
    expect(stopOf(looped)).toBe("model_context_window_exceeded")
    expect(answered(looped)).toMatchObject({ turns: 2, tokens: summed(20, 10) })
  })
})

const outcomes = (looped: Looped) =>
  contentOf(looped).flatMap(({ type, content }) => {
    if (type !== "web_search_tool_result") return []
    return isObject(content) ? [content["error_code"]] : ["found"]
  })
const many = (queries: readonly string[]): TurnAnswer => ({
  blocks: queries.map((query, at) => search(`toolu_${at}`, query)),
})
const numbered = (count: number) => Array.from({ length: count }, (_, at) => `q${at}`)

const events = (told: string) => [...told.matchAll(/^event: (.*)$/gm)].map(([, event]) => event)

test("a prompt that is too long for the backend is a failure once something of its turn was told", async () => {
  const error = { type: "invalid_request_error", message: "prompt is too long: 9 tokens > 8 maximum" }
  const failing = (blocks: TurnAnswer["blocks"]) =>
    loop({ turns: [searching(), { ...last, ...(blocks && { blocks }), error }], stream: true })
  expect(failed(await failing([text("So.")]))).toMatchObject({
    committed: true,
    fault: { failure: { code: "upstream.context_length_exceeded" } },
  })
  expect(answered(await failing([]))).toMatchObject({ turns: 1, tokens: summed(10, 5) })
})

describe("searches", () => {
  test("are as many as the client allows, and twenty at the most, in all turns together", async () => {
    for (const [maxUses, allowed] of [
      [2, 2],
      [3, 3],
      [undefined, 20],
      [30, 20],
    ] as const) {
      const queries = numbered(allowed)
      const looped = await loop({
        turns: [many(queries.slice(1)), many(["again", "more"]), last],
        ...(maxUses && { maxUses }),
      })
      expect(looped.searched).toEqual([...queries.slice(1), "again"])
      expect(outcomes(looped)).toEqual([...queries.map(() => "found"), "max_uses_exceeded"])
      expect(told(looped)["usage"]).toMatchObject({ server_tool_use: { web_search_requests: allowed } })
    }
  })

  test("are of a thousand characters at the most, and of some", async () => {
    const looped = await loop({ turns: [many(["x".repeat(1_000), "x".repeat(1_001), " \n"]), last] })
    expect(outcomes(looped)).toEqual(["found", "query_too_long", "invalid_tool_input"])
    expect(looped.searched).toHaveLength(1)
  })

  test("of one turn run side by side, and are told in their order", async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    let running = 0
    const looped = await loop({
      turns: [many(["one", "two"]), last],
      async search(query) {
        if (++running === 2) resolve()
        await promise
        return query === "one" ? "unavailable" : [page]
      },
    })
    expect(outcomes(looped)).toEqual(["unavailable", "found"])
    const ids = contentOf(looped).flatMap(({ type, id }) => (type === "server_tool_use" ? [id] : []))
    expect(new Set(ids).size).toBe(2)
  })

  test("beside a call of the client's own tool end the answer with it", async () => {
    const blocks = [toolCall("toolu_w", "weather", {}), search("toolu_1", "q")]
    const looped = await loop({ turns: [{ blocks }, last] })
    expect([stopOf(looped), outcomes(looped), looped.limits.length]).toEqual(["tool_use", ["found"], 1])
  })

  test("are gone on with where the answer is gathered, as where it comes whole", async () => {
    const looped = await loop({ turns: [searching(), last], gather: true, clientLimit: 10_000, modelLimit: 10_000 })
    expect(contentOf(looped).at(-1)).toMatchObject({ type: "text", text: "So." })
    expect(backend.asked.map(({ stream }) => stream)).toEqual([true, true])
    const messages = ["user", "assistant", "user"].map((role) => ({ role }))
    expect(backend.asked[1]).toMatchObject({ messages })
  })

  test("that a turn only says that it asks for are none, and end the answer", async () => {
    const looped = await loop({ turns: [{ ...last, stop: "tool_use" }, last] })
    expect([stopOf(looped), looped.limits.length]).toEqual(["tool_use", 1])
  })

  test("of a turn that was cut off are not run", async () => {
    const looped = await loop({ turns: [{ ...searching(), stop: "max_tokens" }, last] })
    expect([stopOf(looped), looped.searched]).toEqual(["max_tokens", []])
  })

  test.each([true, false])("are cited as such, and what the client gave as its own: stream %p", async (stream) => {
    const citation = { type: "search_result_location", title: "Maples", cited_text: "Red." }
    const sources = ["https://mine.example/", page.url]
    const cited = text(
      "Red.",
      sources.map((source) => ({ ...citation, source })),
    )
    const { end, heard } = await loop({
      turns: [searching(), { blocks: [cited] }],
      ownSource: "https://mine.example/",
      stream,
    })
    const told = heard.join("") + (end.kind === "answered" ? JSON.stringify(end.last) : "")
    expect([...told.matchAll(/"type":"(\w+_location)"/g)].map(([, type]) => type)).toEqual([
      "search_result_location",
      "web_search_result_location",
    ])
  })

  test("of a whole answer are not told before its end", async () => {
    expect((await loop({ turns: [searching(), last] })).heard).not.toContain("commit")
  })

  const block = ["content_block_start", "content_block_delta", "content_block_stop"]

  test.each([
    ["what was said before them", [text("Let me look.")], block],
    ["the answer's beginning, where nothing was said", [], []],
  ])("of a stream are told as they come, after %s", async (_, said, before) => {
    const turns = [{ ...searching(), blocks: [...said, search("toolu_1", "q")] }, last]
    const { heard, end } = await loop({ turns, stream: true })
    const asked = heard.findIndex((what) => what.includes("server_tool_use"))
    expect(heard[asked - 1]).toBe("commit")
    expect(heard.slice(0, asked)).toContain("content")
    expect(heard[asked]).not.toContain("web_search_tool_result")
    const written = heard.filter((what) => what !== "content" && what !== "commit").join("")
    const terminal = end.kind === "answered" && typeof end.last === "string" ? end.last : ""
    const found = ["content_block_start", "content_block_stop"]
    const all = ["message_start", before, block, found, block, "message_delta", "message_stop"].flat()
    expect(events(written + terminal)).toEqual(all)
  })

  test("of a stream that says nothing are none, and its end has all of it", async () => {
    const { heard, end } = await loop({ turns: [{ blocks: [], usage: counts(20, 1) }], stream: true })
    expect(heard).toEqual(["commit"])
    expect(end).toMatchObject({ last: expect.stringMatching(/^event: message_start\n[^]*event: message_stop\n/) })
  })
})
