/** Web search on messages, beside its way: what fails, what was found before, what may not be asked for, and who leaves. */
import { describe, expect, test } from "bun:test"
import Anthropic from "@anthropic-ai/sdk"
import { kyoto, pages } from "../search/searx-server.ts"
import { startTestGateway } from "../gateway/harness.ts"
import { call, counts, search, startTurnsBackend, text } from "../search/turns-backend.ts"
import { requestId } from "./calling.ts"
import { expectFailure } from "./expect-failure.ts"
import {
  searching,
  gateway,
  searx,
  backend,
  person,
  key,
  tool,
  question,
  asking,
  ask,
  play,
  priced,
} from "./searching.ts"

searching()

describe("what a model writes beside a search", () => {
  test("is left out where it is no part of it, however deep it nests", async () => {
    const nested = "[".repeat(100_000) + "]".repeat(100_000)
    const input = `{"query":"q","nested":${nested}}`
    play({ blocks: [text("Let me look."), call("toolu_1", "web_search", input)] }, { blocks: [text("Red.")] })
    const response = await ask({ stream: true })
    const body = await response.text()
    expect(body).toContain("Red.")
    expect(body).toContain("message_stop")
    expect(await gateway.usage(person, requestId(response))).toMatchObject({ status: "ok", turns: 2 })
  })

  test("is left out where it is white space, which the vendor refuses", async () => {
    play({ blocks: [text("\n\n"), search("toolu_1", "q")] }, { blocks: [text("Red.")] })
    expect(await (await ask()).json()).toMatchObject({ content: [{ text: "\n\n" }, {}, {}, { text: "Red." }] })
    expect(backend.asked[1]).toMatchObject({ messages: [question, { content: [{ type: "tool_use" }] }, {}] })
  })
})

describe("a turn that fails after a search", () => {
  test("ends a stream with the format's error, and nothing is charged", async () => {
    play({ blocks: [search("toolu_1", "q")] }, { status: 400 })
    const response = await ask({ stream: true })
    expect(response.status).toBe(200)
    const body = await response.text()
    expect(body).toContain("web_search_tool_result")
    expect(body).toMatch(/event: error\ndata: .*\n\n$/)
    expect(body).not.toContain("message_stop")
    expect(await gateway.usage(person, requestId(response))).toMatchObject({
      status: "upstream_error",
      charge_micro: 0,
    })
  })

  test("in the middle of its words does too", async () => {
    play({ blocks: [search("toolu_1", "q")] }, { blocks: [text("Half a")], breaks: true })
    const response = await ask({ stream: true })
    expect(await response.text()).toMatch(/event: error\ndata: .*\n\n$/)
    expect(await gateway.usage(person, requestId(response))).toMatchObject({
      status: "upstream_error",
      charge_micro: 0,
    })
  })

  test("is a failure of the backend, whatever was not said of it", async () => {
    const silent = { blocks: [], breaks: true }
    play({ blocks: [search("toolu_1", "q")] }, silent, silent, silent)
    const response = await ask({ stream: true })
    expect(await response.text()).toMatch(/event: error\ndata: .*\n\n$/)
    expect(backend.asked).toHaveLength(4)
    expect(await gateway.usage(person, requestId(response))).toMatchObject({
      status: "upstream_error",
      charge_micro: 0,
    })
  })

  test.each([
    ["out of order", 503, 4, 502],
    ["throttled", 429, 2, 429],
  ] as const)(
    "because its backend is %s is not played again from the first turn, nor rerouted",
    async (_, status, calls, answered) => {
      const other = await gateway.model({ format: "messages", features: ["web_search"] })
      const chained = await gateway.model({
        format: "messages",
        provider: "turns",
        features: ["web_search"],
        fallback: [other],
      })
      play({ blocks: [search("toolu_1", "q")] }, { status }, { status }, { status })
      const simulated = gateway.simulator.calls.length
      expect((await ask({ model: chained })).status).toBe(answered)
      expect(backend.asked).toHaveLength(calls)
      expect(gateway.simulator.calls).toHaveLength(simulated)
    },
  )

  test("is the failure of a call that does not stream, and is not begun anew", async () => {
    play({ blocks: [search("toolu_1", "q")] }, { status: 400 })
    const response = await ask()
    await expectFailure(response, 400, "upstream.invalid_request")
    expect(backend.asked).toHaveLength(2)
    expect(await gateway.usage(person, requestId(response))).toMatchObject({
      status: "upstream_error",
      charge_micro: 0,
    })
  })
})

/** A gateway of its own, whose model has two backends; the first is asked first. */
const pooled = async () => {
  const [one, other] = [startTurnsBackend("one"), startTurnsBackend("other")]
  const own = await startTestGateway({
    env: { SEARCH_URL: searx.url },
    backends: [one.backend, other.backend],
  })
  const someone = await own.person(100_000)
  const { key: secret } = await own.key(someone)
  const upstreams = ["one", "other"].map(
    (provider, at) => ({ provider, format: "messages", model: "m", priority: 50 - at }) as const,
  )
  const model = await own.model({ format: "messages", upstreams, features: ["web_search"] })
  return {
    one,
    other,
    own,
    ask: (more = {}) => own.post("/v1/messages", secret, { ...asking(more), model }),
    record: (answer: Response) => own.usage(someone, requestId(answer)),
    async [Symbol.asyncDispose]() {
      await own[Symbol.asyncDispose]()
      await one[Symbol.asyncDispose]()
      await other[Symbol.asyncDispose]()
    },
  }
}

describe("a turn that fails after a search at one member of a pool", () => {
  test.each([
    ["an error", 503],
    ["a refused credential", 401],
    ["a throttle", 429],
  ] as const)(
    "with %s is asked of another, which goes on with what was found, and both are charged",
    async (_, status) => {
      await using pool = await pooled()
      pool.one.turns = [{ blocks: [search("toolu_1", "q")] }, { status }]
      pool.other.turns = [{ blocks: [text("Red.")] }]
      const answer = await pool.ask()
      expect(await answer.json()).toMatchObject({ content: [{}, { type: "web_search_tool_result" }, { text: "Red." }] })
      expect(pool.other.asked).toMatchObject([
        { messages: [question, { content: [{ type: "tool_use" }] }, { content: [{ type: "tool_result" }] }] },
      ])
      expect(await pool.record(answer)).toMatchObject({
        status: "ok",
        turns: 2,
        attempts: 2,
        charge_micro: priced(20, 10),
      })
      const alerts = status === 401 ? 1 : 0
      expect(pool.own.complaints.filter((line) => line.includes("backend needs attention"))).toHaveLength(alerts)
    },
  )

  test("that finds the prompt too long ends the answer there, and no other is asked", async () => {
    await using pool = await pooled()
    pool.one.turns = [{ blocks: [search("toolu_1", "q")] }, { status: 413 }]
    const answer = await pool.ask()
    expect(await answer.json()).toMatchObject({ stop_reason: "model_context_window_exceeded" })
    expect(pool.other.asked).toHaveLength(0)
    expect(await pool.record(answer)).toMatchObject({ status: "ok", turns: 1, charge_micro: priced(10, 5) })
  })

  test("and at the others too is told and reported once each, and nothing is charged", async () => {
    await using pool = await pooled()
    pool.one.turns = [{ blocks: [search("toolu_1", "q")] }, { status: 401 }]
    pool.other.turns = [{ status: 401 }]
    const answer = await pool.ask()
    expect(answer.status).toBe(502)
    expect(await pool.record(answer)).toMatchObject({ status: "upstream_error", charge_micro: 0 })
    expect(pool.own.complaints.filter((line) => line.includes("backend needs attention"))).toHaveLength(2)
  })
})

describe("an earlier search", () => {
  const earlier = [
    text("Let me look."),
    { type: "server_tool_use", id: "srvtoolu_01ab", name: "web_search", input: { query: "q" } },
    {
      type: "web_search_tool_result",
      tool_use_id: "srvtoolu_01ab",
      content: [
        { type: "web_search_result", url: "https://a.b/", title: "A", encrypted_content: "EqgB", page_age: null },
      ],
    },
    text("In November.", [
      { type: "web_search_result_location", url: "https://a.b/", title: "A", encrypted_index: "x", cited_text: "y" },
    ]),
  ]
  const messages = [question, { role: "assistant", content: earlier }, { role: "user", content: "Sure?" }]

  test("is understood where the tool is not offered any more, the vendor's own too", async () => {
    play({ blocks: [text("Sure.")] })
    const response = await ask({ tools: undefined, messages })
    expect(response.status).toBe(200)
    const [body] = backend.asked
    expect(body).toMatchObject({ tools: [{ name: "web_search" }], tool_choice: { type: "none" } })
    const page = { type: "search_result", source: "https://a.b/", title: "A", content: [{ type: "text", text: "A" }] }
    expect(body?.["messages"]).toEqual([
      question,
      {
        role: "assistant",
        content: [
          { type: "text", text: "Let me look." },
          { type: "tool_use", id: "toolu_01ab", name: "web_search", input: { query: "q" } },
        ],
      },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_01ab", content: [page] }] },
      { role: "assistant", content: [{ type: "text", text: "In November." }] },
      { role: "user", content: "Sure?" },
    ])
  })

  test("is left out for a model of another format, to which the words after it say what was found", async () => {
    const other = await gateway.model({ format: "chat", endpoints: ["chat", "messages"] })
    const response = await ask({ model: other, tools: undefined, messages })
    expect(response.status).toBe(200)
    const sent = JSON.stringify(gateway.simulator.calls.at(-1)?.body)
    expect(sent).toContain("In November.")
    expect(sent).not.toContain("web_search")
  })

  test("without its result is told as one that was not run", async () => {
    play({ blocks: [text("Well.")] })
    expect((await ask({ messages: [question, { role: "assistant", content: earlier.slice(0, 2) }] })).status).toBe(200)
    expect(backend.asked[0]).toMatchObject({
      messages: [question, {}, { role: "user", content: [{ type: "tool_result", is_error: true }] }],
    })
  })
})

describe("what a web search may not ask for", () => {
  test.each([
    ["a client's tool of its name", { tools: [tool, { name: "web_search", input_schema: { type: "object" } }] }],
    ["no searches", { tools: [{ ...tool, max_uses: 0 }] }],
    ["domains that are no list", { tools: [{ ...tool, allowed_domains: "a.b" }] }],
    ["both lists of domains", { tools: [{ ...tool, allowed_domains: ["a.b"], blocked_domains: ["c.d"] }] }],
    ["too many domains", { tools: [{ ...tool, allowed_domains: Array.from({ length: 1_001 }, () => "a.b") }] }],
    ["a domain that is too long", { tools: [{ ...tool, blocked_domains: [`a.b/${"/".repeat(2_000)}`] }] }],
  ] as const)("%s: request.invalid_request", async (_, more) => {
    await expectFailure(await ask(more), 400, "request.invalid_request")
  })

  test("a model that does not have it", async () => {
    const without = await gateway.model({ format: "messages" })
    await expectFailure(await ask({ model: without }), 400, "request.unsupported_feature")
  })
})

describe("results and citations", () => {
  const uncited = { role: "user", content: [{ type: "document", source: { type: "text", data: "x" } }, text("?")] }
  test.each([
    ["a document that is not cited", { messages: [uncited] }],
    ["an answer in JSON", { output_config: { format: { type: "json_schema", schema: { type: "object" } } } }],
  ] as const)("are not enabled beside %s, which the vendor refuses", async (_, more) => {
    const both = await gateway.model({
      format: "messages",
      provider: "turns",
      features: ["web_search", "structured_outputs"],
    })
    play({ blocks: [search("toolu_1", "q")] }, { blocks: [text("So.")] })
    expect((await ask({ model: both, ...more })).status).toBe(200)
    expect(JSON.stringify(backend.asked[1])).toContain(kyoto.url)
    expect(JSON.stringify(backend.asked[1])).not.toContain('"citations"')
  })
})

test("a search that takes its time is kept company by heartbeats", async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  searx.answer = async () => {
    await promise
    return pages(kyoto)
  }
  play({ blocks: [search("toolu_1", "q")] }, { blocks: [text("So.")] })
  const response = await ask({ stream: true })
  const reader = response.body?.getReader()
  const decoder = new TextDecoder()
  let heard = ""
  while (!/server_tool_use[^]*: heartbeat\n/.test(heard)) heard += decoder.decode((await reader?.read())?.value)
  expect(heard).not.toContain("web_search_tool_result")
  resolve()
  for (let read = await reader?.read(); read?.done === false; read = await reader?.read())
    heard += decoder.decode(read.value)
  expect(heard).toMatch(/web_search_tool_result[^]*message_stop/)
})

test("a client that leaves in the middle is charged for the turns that were taken, and no more are", async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  searx.answer = async () => {
    await promise
    return pages(kyoto)
  }
  play({ blocks: [text("Let me look."), search("toolu_1", "q")], usage: counts(10, 5) }, { blocks: [text("Never.")] })
  const leaving = new AbortController()
  const response = await gateway.post("/v1/messages", key, asking({ stream: true }), { signal: leaving.signal })
  const reader = response.body?.getReader()
  let heard = ""
  while (!heard.includes("server_tool_use")) heard += new TextDecoder().decode((await reader?.read())?.value)
  leaving.abort()
  await Bun.sleep(500)
  resolve()
  expect(await gateway.usage(person, requestId(response))).toMatchObject({
    status: "ok",
    turns: 1,
    charge_micro: priced(10, 5),
  })
  expect(backend.asked).toHaveLength(1)
})

test("the vendor's SDK reads the stream as it reads the vendor's own", async () => {
  const simulated = await gateway.model({
    format: "messages",
    features: ["web_search"],
    script: 'tool=web_search&args={"query":"maples"}&rounds=2',
  })
  const client = new Anthropic({ baseURL: gateway.url, apiKey: key, maxRetries: 0 })
  const stream = client.messages.stream({
    model: simulated,
    max_tokens: 1_000,
    messages: [{ role: "user", content: "When?" }],
    tools: [{ type: "web_search_20250305", name: "web_search" }],
  })
  const message = await stream.finalMessage()
  const pair = ["server_tool_use", "web_search_tool_result"] as const
  expect(message.content.map(({ type }) => type)).toEqual([...pair, ...pair, "text"])
  expect(message.content[0]).toMatchObject({ name: "web_search", input: { query: "maples" } })
  expect(message.model).toBe(simulated)
  expect(message.stop_reason).toBe("end_turn")
  expect(message.usage.server_tool_use?.web_search_requests).toBe(2)
  expect(await gateway.usage(person, stream.request_id ?? "")).toMatchObject({
    turns: 3,
    input_tokens: message.usage.input_tokens,
    output_tokens: message.usage.output_tokens,
  })
  const again = await client.messages.create({
    model: simulated,
    max_tokens: 1_000,
    messages: [
      { role: "user", content: "When?" },
      { role: "assistant", content: message.content },
      { role: "user", content: "Sure?" },
    ],
  })
  expect(again.content[0]?.type).toBe("text")
})
