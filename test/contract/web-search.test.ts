/** Web search on messages: the gateway searches, the model goes on, the client is told one answer and pays each turn. */
import { describe, expect, test } from "bun:test"
import { kyoto, pages } from "../search/searx-server.ts"
import { counts, search, text, call } from "../search/turns-backend.ts"
import { requestId } from "./calling.ts"
import { covers } from "./rows.ts"
import {
  searching,
  type Json,
  gateway,
  searx,
  backend,
  person,
  weather,
  question,
  play,
  ways,
  told,
  types,
  usageOf,
  priced,
  tool,
  found,
  type Block,
} from "./searching.ts"

searching()

test("a search of a large request is gone on with as any other: each turn is sent all of it, and what was found", async () => {
  play(
    { blocks: [text("Let me look."), search("toolu_1", "maples kyoto")], usage: counts(100, 20) },
    { blocks: [text("In November.")], usage: counts(300, 30) },
  )
  const story = "The maples turn red. ".repeat(20_000)
  const answer = await told(false, { messages: [{ role: "user", content: story }], tool_choice: { type: "any" } })
  expect(types(answer)).toEqual(["text", "server_tool_use", "web_search_tool_result", "text"])
  expect(backend.asked).toHaveLength(2)
  const [first, second] = backend.asked.map((asked) => JSON.parse(JSON.stringify(asked)) as unknown)
  for (const turn of [first, second]) expect(JSON.stringify(turn)).toContain(story)
  expect(JSON.stringify(first)).toContain('"tool_choice":{"type":"any"}')
  expect(JSON.stringify(second)).toContain('"tool_choice":{"type":"auto"}')
  expect(JSON.stringify(second)).toContain(kyoto.url)
})

describe.each(ways)(`a web search, %s: ${covers("8.search-loop")}`, (_way, stream) => {
  test("is one answer of two turns, and both are charged", async () => {
    play(
      { blocks: [text("Let me look."), search("toolu_1", "maples kyoto")], usage: counts(100, 20, 7, 3) },
      { blocks: [text("In November.")], usage: counts(300, 30) },
    )
    const before = await gateway.balance(person)
    const answer = await told(stream)
    expect(types(answer)).toEqual(["text", "server_tool_use", "web_search_tool_result", "text"])
    const [, asked, result] = answer.content
    expect(asked).toMatchObject({ name: "web_search", input: { query: "maples kyoto" } })
    expect(asked?.["id"]).toMatch(/^srvtoolu_[a-zA-Z0-9_]+$/)
    expect(result).toMatchObject({
      tool_use_id: asked?.["id"],
      content: [
        {
          type: "web_search_result",
          url: kyoto.url,
          title: kyoto.title,
          page_age: kyoto.publishedDate,
          encrypted_content: expect.any(String),
        },
      ],
    })
    expect(answer.stop).toBe("end_turn")
    expect(answer.usage).toMatchObject({
      input_tokens: 400,
      output_tokens: 50,
      cache_read_input_tokens: 7,
      cache_creation_input_tokens: 3,
      server_tool_use: { web_search_requests: 1 },
    })
    expect(searx.asked.map((asked) => asked.get("q"))).toEqual(["maples kyoto"])

    const charge = priced(400, 50, 7, 3)
    expect(await usageOf(answer)).toMatchObject({
      input_tokens: 400,
      output_tokens: 50,
      cache_read_tokens: 7,
      cache_write_tokens: 3,
      charge_micro: charge,
      status: "ok",
      turns: 2,
    })
    const after = await gateway.balance(person)
    expect(before.balance_micro - after.balance_micro).toBe(charge)
    expect(after.held_micro).toBe(0)
    if (!stream) expect(answer.response.headers.get("x-cost-rp")).toBe(String(charge / 1_000_000))
  })

  test("is told to the backend as a plain tool, its result and an excerpt to cite", async () => {
    const thought = { type: "thinking", thinking: "hm", signature: "sealed" }
    play({ blocks: [thought, search("toolu_1", "q")] }, { blocks: [text("So.")] })
    await told(stream, { tools: [{ ...tool, user_location: { type: "approximate", city: "Bandung" } }, weather] })
    const [first, second] = backend.asked
    expect(first?.["tools"]).toMatchObject([{ name: "web_search", input_schema: { required: ["query"] } }, weather])
    expect(JSON.stringify(first)).toContain("Bandung")
    expect(JSON.stringify(backend.asked)).not.toContain("web_search_20250305")
    const messages = second?.["messages"] as Json[]
    expect(messages.slice(0, 1)).toEqual([question])
    const id = expect.stringMatching(/^toolu_/) as unknown
    expect(messages.slice(1)).toEqual([
      { role: "assistant", content: [thought, { type: "tool_use", id, name: "web_search", input: { query: "q" } }] },
      {
        role: "user",
        content: [
          {
            type: "tool_result",
            tool_use_id: id,
            content: [
              {
                type: "search_result",
                source: kyoto.url,
                title: kyoto.title,
                content: [{ type: "text", text: `Published: ${kyoto.publishedDate}\n${kyoto.content}` }],
                citations: { enabled: true },
              },
            ],
          },
        ],
      },
    ])
  })

  test("is cited in the format's words for what was found on the web", async () => {
    const citation = {
      type: "search_result_location",
      source: kyoto.url,
      title: kyoto.title,
      cited_text: "The maples",
      search_result_index: 0,
      start_block_index: 0,
      end_block_index: 1,
    }
    play({ blocks: [search("toolu_1", "q")] }, { blocks: [text("November.", [citation])] })
    const { content } = await told(stream)
    expect(content.at(-1)).toMatchObject({
      text: "November.",
      citations: [
        {
          type: "web_search_result_location",
          url: kyoto.url,
          title: kyoto.title,
          cited_text: "The maples",
          encrypted_index: expect.any(String),
        },
      ],
    })
  })

  test("that is not asked for costs one turn", async () => {
    play({ blocks: [text("I know.")], usage: counts(10, 2) })
    const answer = await told(stream)
    expect(types(answer)).toEqual(["text"])
    expect(answer.usage["server_tool_use"]).toMatchObject({ web_search_requests: 0 })
    expect(await usageOf(answer)).toMatchObject({ turns: 1, charge_micro: priced(10, 2) })
  })

  test("may be two in one turn, and stays one turn when it comes back", async () => {
    play({ blocks: [search("toolu_1", "one"), search("toolu_2", "two")] }, { blocks: [text("Both.")] })
    const answer = await told(stream)
    const pair = ["server_tool_use", "web_search_tool_result"]
    expect(types(answer)).toEqual([...pair, ...pair, "text"])
    expect(answer.usage["server_tool_use"]).toMatchObject({ web_search_requests: 2 })
    expect(await usageOf(answer)).toMatchObject({ turns: 2 })
    play({ blocks: [text("Again.")] })
    await told(stream, { messages: [question, { role: "assistant", content: answer.content }, question] })
    const messages = backend.asked.at(-1)?.["messages"] as { role: string; content: Block[] }[]
    expect(messages.map(({ role }) => role)).toEqual(["user", "assistant", "user", "assistant", "user"])
    expect(messages[1]?.content.map(({ type }) => type)).toEqual(["tool_use", "tool_use"])
    expect(messages[2]?.content.map(({ type }) => type)).toEqual(["tool_result", "tool_result"])
    expect(messages.slice(0, 3)).toEqual(backend.asked[1]?.["messages"] as typeof messages)
  })

  test("over max_uses is not run, and the model goes on", async () => {
    play({ blocks: [search("toolu_1", "a")] }, { blocks: [search("toolu_2", "b")] }, { blocks: [text("Enough.")] })
    const answer = await told(stream, { tools: [{ ...tool, max_uses: 1 }] })
    expect(found(answer)).toMatchObject([
      [{ type: "web_search_result" }],
      { type: "web_search_tool_result_error", error_code: "max_uses_exceeded" },
    ])
    expect(searx.asked).toHaveLength(1)
    expect(answer.usage["server_tool_use"]).toMatchObject({ web_search_requests: 1 })
    expect(answer.content.at(-1)).toMatchObject({ text: "Enough." })
    expect(JSON.stringify(backend.asked[2])).toContain('"is_error":true')
  })

  test.each([
    ["no max_uses", {}],
    ["a max_uses of 100", { max_uses: 100 }],
  ])("is run twenty times for one call at the most, with %s", async (_, uses) => {
    const many = Array.from({ length: 21 }, (_, at) => search(`toolu_${at}`, `q${at}`.padEnd(1_000, "x")))
    play({ blocks: many }, { blocks: [text("Enough.")] })
    const answer = await told(stream, { tools: [{ ...tool, ...uses }] })
    expect(searx.asked).toHaveLength(20)
    expect(found(answer).slice(19)).toMatchObject([[{ url: kyoto.url }], { error_code: "max_uses_exceeded" }])
    expect(answer.usage["server_tool_use"]).toMatchObject({ web_search_requests: 20 })
  })

  test("goes on for five turns and no more; the client may go on from there", async () => {
    play(...Array.from({ length: 6 }, (_, at) => ({ blocks: [search(`toolu_${at}`, `q${at}`)], usage: counts(10, 1) })))
    const answer = await told(stream)
    expect(answer.stop).toBe("pause_turn")
    expect(backend.asked).toHaveLength(5)
    expect(found(answer)).toHaveLength(5)
    expect(await usageOf(answer)).toMatchObject({ turns: 5, charge_micro: priced(50, 5), status: "ok" })
    play({ blocks: [text("At last.")] })
    const resumed = await told(stream, { messages: [question, { role: "assistant", content: answer.content }] })
    expect(types(resumed)).toEqual(["text"])
    const messages = backend.asked.at(-1)?.["messages"] as { role: string }[]
    expect(messages).toHaveLength(11)
    expect(messages.at(-1)?.role).toBe("user")
  })

  test("beside a call of the client's own tool ends the answer with that call, and with what was found", async () => {
    play({ blocks: [call("toolu_w", "weather", { city: "Kyoto" }), search("toolu_1", "q")], usage: counts(9, 9) })
    const answer = await told(stream, { tools: [weather, tool] })
    expect(types(answer)).toEqual(["tool_use", "server_tool_use", "web_search_tool_result"])
    expect(answer.content[0]).toMatchObject({ id: "toolu_w", name: "weather", input: { city: "Kyoto" } })
    expect(answer.stop).toBe("tool_use")
    expect(await usageOf(answer)).toMatchObject({ turns: 1, charge_micro: priced(9, 9) })
    play({ blocks: [text("Sunny.")] })
    const result = { type: "tool_result", tool_use_id: "toolu_w", content: "sunny" }
    const messages = [question, { role: "assistant", content: answer.content }, { role: "user", content: [result] }]
    await told(stream, { tools: [weather, tool], messages })
    const sent = backend.asked.at(-1)?.["messages"] as { content: Block[] }[]
    expect(sent.slice(1).map(({ content }) => content.map(({ type }) => type))).toEqual([
      ["tool_use", "tool_use"],
      ["tool_result", "tool_result"],
    ])
  })

  test("keeps to the domains that the client allows", async () => {
    searx.answer = () => pages({ url: "https://other.org/" }, kyoto, { url: "https://www.example.com/b" })
    play({ blocks: [search("toolu_1", "q")] }, { blocks: [text("Ok.")] })
    const answer = await told(stream, { tools: [{ ...tool, allowed_domains: ["example.com"] }] })
    expect(found(answer)).toMatchObject([[{ url: kyoto.url }, { url: "https://www.example.com/b" }]])
    play({ blocks: [search("toolu_1", "q")] }, { blocks: [text("Ok.")] })
    const blocked = await told(stream, { tools: [{ ...tool, blocked_domains: ["example.com"] }] })
    expect(found(blocked)).toMatchObject([[{ url: "https://other.org/" }]])
  })

  test.each([
    ["down", () => new Response("", { status: 502 }), "unavailable"],
    ["throttled", () => new Response("", { status: 429 }), "too_many_requests"],
    ["not speaking JSON", () => new Response("<html>"), "unavailable"],
  ] as const)("whose server is %s is no failure of the call", async (_, answering, code) => {
    searx.answer = answering
    play({ blocks: [search("toolu_1", "q")] }, { blocks: [text("Without, then.")], usage: counts(5, 5) })
    const answer = await told(stream)
    expect(found(answer)).toEqual([{ type: "web_search_tool_result_error", error_code: code }])
    expect(answer.content.at(-1)).toMatchObject({ text: "Without, then." })
    expect(await usageOf(answer)).toMatchObject({ status: "ok", turns: 2 })
  })

  test.each([
    ["nothing", {}, "invalid_tool_input"],
    ["no text", { query: 7 }, "invalid_tool_input"],
    ["a thousand and one characters", { query: "x".repeat(1_001) }, "query_too_long"],
  ] as const)("for %s is not run", async (_, input, code) => {
    play({ blocks: [call("toolu_1", "web_search", input)] }, { blocks: [text("Sorry.")] })
    expect(found(await told(stream))).toMatchObject([{ error_code: code }])
    expect(searx.asked).toHaveLength(0)
  })

  test("whose call was cut off by the limit is not run, and not told", async () => {
    play({ blocks: [text("Let"), search("toolu_1", "q")], stop: "max_tokens" })
    const answer = await told(stream)
    expect(types(answer)).toEqual(["text"])
    expect(answer.stop).toBe("max_tokens")
    expect(searx.asked).toHaveLength(0)
  })

  test("leaves what is left of the client's limit to the next turn, and ends when nothing is", async () => {
    play({ blocks: [search("toolu_1", "q")], usage: counts(10, 60) }, { blocks: [text("So.")] })
    await told(stream, { max_tokens: 100 })
    expect(backend.asked.map((body) => body["max_tokens"])).toEqual([100, 40])
    play({ blocks: [search("toolu_1", "q")], usage: counts(10, 100) })
    expect((await told(stream, { max_tokens: 100 })).stop).toBe("max_tokens")
  })

  test("is asked for once where it is demanded", async () => {
    play({ blocks: [search("toolu_1", "q")] }, { blocks: [text("So.")] })
    await told(stream, { tool_choice: { type: "tool", name: "web_search", disable_parallel_tool_use: true } })
    expect(backend.asked.map((body) => body["tool_choice"])).toEqual([
      { type: "tool", name: "web_search", disable_parallel_tool_use: true },
      { type: "auto", disable_parallel_tool_use: true },
    ])
  })

  test("with counts over the limit of a turn is charged up to that turn's", async () => {
    play(
      { blocks: [search("toolu_1", "q")], usage: counts(100, 20) },
      { blocks: [text("Ok.")], usage: counts(300, 900_000) },
    )
    const answer = await told(stream)
    const [, second] = backend.asked.map((body) => Number(body["max_tokens"]))
    expect(await usageOf(answer)).toMatchObject({
      status: "ok",
      turns: 2,
      output_tokens: 20 + (second ?? 0),
      charge_micro: priced(400, 20 + (second ?? 0)),
    })
    expect(answer.usage["output_tokens"]).toBe(20 + (second ?? 0))
    const [row] = await gateway.sql`
      select flagged, absorbed_micro, excess_micro from usage where request_id = ${requestId(answer.response)} and part = 0`
    const excess = BigInt(900_000 - (second ?? 0)) * 5_000n
    expect(row).toEqual({ flagged: true, absorbed_micro: excess, excess_micro: excess })
  })

  test("with counts in any turn that cannot be believed is charged nothing, and does not go on", async () => {
    play({ blocks: [search("toolu_1", "q")], usage: counts(-1, 5) }, { blocks: [text("Never.")] })
    const first = await told(stream)
    expect(first.stop).toBe("pause_turn")
    expect(await usageOf(first)).toMatchObject({ status: "usage_missing", charge_micro: 0 })
    play({ blocks: [search("toolu_1", "q")] }, { blocks: [text("Ok.")], usage: counts(1.5, 5) })
    const second = await told(stream)
    expect(second.content.at(-1)).toMatchObject({ text: "Ok." })
    expect(await usageOf(second)).toMatchObject({ status: "usage_missing", charge_micro: 0, turns: 2 })
  })

  test("pauses when the balance does not pay for another turn, and costs no more than there was", async () => {
    const poor = await gateway.person(10_000)
    const { key: poorKey } = await gateway.key(poor)
    // The prompt of the next turn alone would cost Rp 9,000 of the Rp 10,000 that there are.
    play({ blocks: [search("toolu_1", "q")], usage: counts(5_000, 10) }, { blocks: [text("Never.")] })
    const dear = await gateway.model({
      format: "messages",
      provider: "turns",
      features: ["web_search"],
      input_micro: 1_000_000,
      output_micro: 1_000_000,
      cache_read_micro: 0,
      cache_write_micro: 0,
    })
    const answer = await told(stream, { model: dear, max_tokens: 50 }, poorKey)
    expect(answer.stop).toBe("pause_turn")
    expect(types(answer)).toEqual(["server_tool_use", "web_search_tool_result"])
    expect(await gateway.usage(poor, requestId(answer.response))).toMatchObject({
      turns: 1,
      charge_micro: 5_010 * 1_000_000,
      status: "ok",
    })
    expect(await gateway.balance(poor)).toMatchObject({ balance_micro: 4_990 * 1_000_000, held_micro: 0 })
  })

  test("does not begin a turn whose prompt is past the model's window", async () => {
    const small = await gateway.model({
      format: "messages",
      provider: "turns",
      features: ["web_search"],
      context_window: 1_000,
    })
    play({ blocks: [search("toolu_1", "q")], usage: counts(980, 10) }, { blocks: [text("Never.")] })
    const answer = await told(stream, { model: small })
    expect(answer.stop).toBe("model_context_window_exceeded")
    expect(types(answer)).toEqual(["server_tool_use", "web_search_tool_result"])
    expect(await usageOf(answer)).toMatchObject({ status: "ok", turns: 1 })
  })

  test("ends where the backend finds a later prompt too long, as where that was foreseen, and is charged", async () => {
    play({ blocks: [text("A long one."), search("toolu_1", "q")], usage: counts(900, 80) }, { status: 413 })
    const answer = await told(stream)
    expect(answer.stop).toBe("model_context_window_exceeded")
    expect(types(answer)).toEqual(["text", "server_tool_use", "web_search_tool_result"])
    expect(answer.usage).toMatchObject({ input_tokens: 900, output_tokens: 80 })
    expect(backend.asked).toHaveLength(2)
    expect(await usageOf(answer)).toMatchObject({ status: "ok", turns: 1, charge_micro: priced(900, 80) })
  })

  test("is forwarded with a limit that the hold pays for, turn by turn", async () => {
    const small = await gateway.person(10_000)
    const { key: smallKey } = await gateway.key(small)
    const dear = await gateway.model({
      format: "messages",
      provider: "turns",
      features: ["web_search"],
      input_micro: 1_000_000,
      output_micro: 1_000_000,
      cache_read_micro: 0,
      cache_write_micro: 0,
    })
    play(
      { blocks: [search("toolu_1", "q")], usage: counts(1_000, 100) },
      { blocks: [text("So.")], usage: counts(2_000, 9) },
    )
    const answer = await told(stream, { model: dear, max_tokens: 8_000 }, smallKey)
    expect(answer.stop).toBe("end_turn")
    const [first, second] = backend.asked.map((body) => Number(body["max_tokens"]))
    // Half of the balance is held, Rp 5,000, at Rp 1 a token; the second turn has what the first one's tokens leave of it.
    expect(first).toBeLessThan(5_000)
    expect(second).toBeLessThan(5_000 - 1_100 - 1_100)
    expect(second).toBeGreaterThan(2_000)
    expect(await gateway.balance(small)).toMatchObject({ balance_micro: (10_000 - 3_109) * 1_000_000, held_micro: 0 })
  })

  test("tries a later turn again that nothing was told of", async () => {
    play({ blocks: [search("toolu_1", "q")] }, { status: 503 }, { blocks: [text("So.")] })
    const answer = await told(stream)
    expect(answer.content.at(-1)).toMatchObject({ text: "So." })
    expect(searx.asked).toHaveLength(1)
    expect(await usageOf(answer)).toMatchObject({ status: "ok", turns: 2, charge_micro: priced(20, 10) })
  })
})

test("counts in detail are told of one turn, and not of a sum", async () => {
  const details = { cache_creation: { ephemeral_5m_input_tokens: 3 } }
  const usage = { ...counts(10, 2, 0, 3), ...details, service_tier: "standard" }
  play({ blocks: [text("I know.")], usage })
  expect((await told(false)).usage).toMatchObject({ ...details, service_tier: "standard" })
  play({ blocks: [search("toolu_1", "q")], usage }, { blocks: [text("So.")], usage })
  const sum = (await told(false)).usage
  expect(sum).toMatchObject({ cache_creation_input_tokens: 6, service_tier: "standard" })
  expect(sum["cache_creation"]).toBeUndefined()
})
