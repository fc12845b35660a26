/** What of a request reaches a backend, and what the client is told of the rest (decisions §13.3, §13.18). */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import type { Json, JsonObject } from "../../src/language/json.ts"
import type { Translated } from "../../src/language/request.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { knownBodies, knownPlaces, neededBetas, withField } from "../wire/known-bodies.ts"
import { ask, formats } from "./calling.ts"
import { expectFailure } from "./expect-failure.ts"
import { covers } from "./rows.ts"

let gateway: TestGateway
let person: Person
let key: string

beforeAll(async () => {
  gateway = await startTestGateway()
  person = await gateway.person(1_000_000)
  key = (await gateway.key(person)).key
})
afterAll(() => gateway[Symbol.asyncDispose]())

const paths = { chat: "/v1/chat/completions", messages: "/v1/messages", responses: "/v1/responses" } as const
const betas = { headers: { "anthropic-beta": neededBetas.join(",") } }
const last = () => gateway.simulator.calls.at(-1)
const told = (response: Response) => response.headers.get("x-dropped-fields")

const nameIn = (format: Translated): unknown => {
  const body = last()?.body ?? {}
  return format === "messages" ? (body["metadata"] as JsonObject)["user_id"] : body["safety_identifier"]
}

const own = (format: Translated, value: string): JsonObject =>
  format === "messages" ? { metadata: { user_id: value } } : { user: value, safety_identifier: value }

const secret = async (of: TestGateway) => {
  const [row] = await of.sql<{ hex: string }[]>`select encode(secret, 'hex') as hex from installation_secrets`
  return row?.hex
}

describe.each(formats)("%s", (format) => {
  describe(covers("13.3"), () => {
    test("random fields that nobody knows never reach a backend, and those that are known all do", async () => {
      const model = await gateway.model({
        format,
        supports_vision: true,
        features: ["structured_outputs", "web_search"],
        context_window: null,
      })
      const known: JsonObject = { ...knownBodies[format], model }
      const post = async (body: JsonObject) => {
        const response = await gateway.post(paths[format], key, body, betas)
        expect({ status: response.status, text: await response.text() }).toMatchObject({ status: 200 })
        return { sent: last()?.body ?? {}, names: told(response) }
      }
      const plain = await post(known)
      expect(plain.names).toBeNull()
      expect(Object.keys(known).filter((name) => !Object.hasOwn(plain.sent, name))).toEqual(
        // What is false where it is left out.
        ["stream", "stream_options"]
          .filter((name) => Object.hasOwn(known, name) && format !== "responses")
          .concat(format === "responses" ? ["stream"] : []),
      )
      const name = fc.string({ minLength: 1, maxLength: 9 }).map((text) => `x_${text}`)
      const value = fc.jsonValue({ maxDepth: 2 }).filter((found) => found !== null) as fc.Arbitrary<Json>
      await fc.assert(
        fc.asyncProperty(fc.constantFrom(...knownPlaces(known)), name, value, async (path, field, found) => {
          const { sent, names } = await post(withField(known, path, field, found))
          expect(sent).toEqual(plain.sent)
          expect(names).not.toBeNull()
        }),
        { numRuns: 40 },
      )
    })

    test.each([true, false])("what is left out is named, with the answer's head (stream: %p)", async (stream) => {
      const model = await gateway.model({ format })
      const response = await ask(gateway, key, format, model, { stream, x_new: 1, "not a name": 2 })
      expect(response.status).toBe(200)
      await response.text()
      expect(told(response)).toBe("x_new, ...")
      expect(last()?.body).not.toContainAnyKeys(["x_new", "not a name"])
      const known = await ask(gateway, key, format, model, { stream })
      await known.text()
      expect(told(known)).toBeNull()
    })
    test("it is named with a failure too", async () => {
      const broken = await gateway.model({ format, script: "fault=status&status=400" })
      const response = await ask(gateway, key, format, broken, { x_new: 1 })
      await expectFailure(response, 400, "upstream.invalid_request")
      expect(told(response)).toBe("x_new")
    })

    test("what a model's entry passes travels to it, and to no other", async () => {
      const passing = await gateway.model({ format, pass: ["x_new"] })
      const other = await gateway.model({ format, script: "fault=status&status=429", fallback: [passing] })
      const first = await ask(gateway, key, format, passing, { x_new: { a: 1, provider: "b" } })
      expect(last()?.body?.["x_new"]).toEqual({ a: 1 })
      expect(told(first)).toBe("x_new.provider")
      await (await ask(gateway, key, format, other, { x_new: 1 })).text()
      expect(last()?.body).not.toContainKey("x_new")
    })

    test("a dear value is refused before anything is held or forwarded", async () => {
      const model = await gateway.model({ format })
      const before = gateway.simulator.calls.length
      for (const tier of ["PRIORITY", ["priority"], "scale"])
        await expectFailure(
          await ask(gateway, key, format, model, { service_tier: tier }),
          400,
          "request.unsupported_feature",
        )
      expect(gateway.simulator.calls.length).toBe(before)
    })
  })

  describe(covers("13.18"), () => {
    test("a backend knows an account by one name, which means nothing elsewhere, and its end users apart", async () => {
      const model = await gateway.model({ format })
      const called = async (as: string, fields: JsonObject = {}) => {
        await (await ask(gateway, as, format, model, fields)).text()
        return nameIn(format)
      }
      const [other, second] = [await gateway.person(10_000), await gateway.key(person)]
      const mine = await called(key)
      expect(mine).toMatch(/^[0-9a-f]{32}$/)
      expect(await called(second.key)).toBe(mine)
      const theirs = await called((await gateway.key(other)).key)
      expect(theirs).not.toBe(mine)
      const ada = await called(key, own(format, "ada@example.com"))
      expect(ada).toMatch(new RegExp(`^${String(mine)}-[0-9a-f]{31}$`))
      expect(await called(key, own(format, "ada@example.com"))).toBe(ada)
      expect(await called(key, own(format, "bob@example.com"))).not.toBe(ada)
      expect(await called((await gateway.key(other)).key, own(format, "ada@example.com"))).not.toContain(
        String(ada).slice(33),
      )
      const journal = JSON.stringify(gateway.simulator.calls)
      for (const raw of ["ada@example.com", person.accountId, other.accountId]) expect(journal).not.toContain(raw)
    })
  })
})

/** A chat request with an image. */
function seen(detail: string): JsonObject {
  const image = { type: "image_url", image_url: { url: "https://a.example/b", detail } }
  return { messages: [{ role: "user", content: [image] }] }
}

describe(`${covers("13.3")} what a backend's format has no words for is named`, () => {
  const look = { name: "look", input_schema: { type: "object" } }
  const rows: readonly (readonly [
    client: Translated,
    backend: Translated,
    fields: JsonObject,
    names: string | null,
  ])[] = [
    ["chat", "messages", { seed: 7, logprobs: true, verbosity: "low", min_p: 0.1 }, "seed, logprobs, verbosity, min_p"],
    ["chat", "responses", { top_k: 5, prompt_cache_key: "k", seed: 7 }, "seed, top_k"],
    [
      "messages",
      "chat",
      {
        top_k: 5,
        context_management: { edits: [{ type: "clear_thinking_20251015" }] },
        tools: [{ ...look, defer_loading: true }],
        x_new: 1,
      },
      "x_new, context_management, tools.defer_loading, top_k",
    ],
    [
      "responses",
      "chat",
      { truncation: "auto", text: { verbosity: "low" }, metadata: {} },
      "truncation, text.verbosity",
    ],
    [
      "chat",
      "messages",
      { tools: [true, false].map((strict) => ({ type: "function", function: { name: `f_${strict}`, strict } })) },
      "tools.function.strict",
    ],
    ["chat", "responses", { tools: [{ type: "function", function: { name: "f", strict: true } }] }, null],
    [
      "messages",
      "chat",
      {
        tools: [
          { ...look, strict: true },
          { type: "tool_search_tool_regex_20251119", name: "s" },
        ],
      },
      "tools.tool_search_tool_regex_20251119",
    ],
    [
      "responses",
      "messages",
      {
        input: [
          { role: "user", content: "Hi" },
          { type: "web_search_call", id: "ws", status: "completed" },
        ],
        tools: [
          { type: "shell" },
          { type: "apply_patch" },
          { type: "shell" },
          { type: "function", name: "f", strict: true },
        ],
      },
      "tools.shell, tools.apply_patch, input.web_search_call, tools.strict",
    ],
    ["responses", "responses", { tools: [{ type: "local_shell" }] }, null],
    [
      "messages",
      "chat",
      {
        messages: [
          { role: "user", content: "Hi" },
          {
            role: "assistant",
            content: [
              { type: "server_tool_use", id: "s", name: "web_fetch", input: {} },
              { type: "web_fetch_tool_result", tool_use_id: "s", content: {} },
              { type: "text", text: "It says so." },
            ],
          },
          { role: "user", content: [{ type: "text", text: "And?" }] },
        ],
      },
      "messages.content.server_tool_use, messages.content.web_fetch_tool_result",
    ],
    ["chat", "messages", seen("low"), "messages.content.image_url.detail"],
    ["chat", "messages", seen("auto"), null],
    ["chat", "responses", seen("low"), null],
    ["chat", "chat", { seed: 7, min_p: 0.1, top_k: 5 }, null],
    ["messages", "messages", { top_k: 5 }, null],
  ]
  test.each(rows)("%s → %s: %j", async (client, backend, fields, names) => {
    const made = { endpoints: [client], pass: ["min_p", "top_k"], supports_vision: true }
    const model = await gateway.model({ format: backend, ...made })
    const response = await ask(gateway, key, client, model, fields, betas)
    expect({ status: response.status, text: await response.text() }).toMatchObject({ status: 200 })
    expect(told(response)).toBe(names)
  })
})

describe(`${covers("13.3")} what one model does not take is named`, () => {
  const sampling = { temperature: 0.5, top_p: 0.9 }
  const rows: readonly (readonly [backend: Translated, named: string, fields: JsonObject, names: string | null])[] = [
    ["messages", "any", { stop: "\n" }, "stop"],
    ["messages", "any", { stop: ["\n\n", "END"] }, "stop"],
    ["messages", "any", { stop: ["END"], ...sampling }, null],
    ["messages", "claude-opus-4-5", sampling, "top_p"],
    ["messages", "claude-opus-4-5", { top_p: 0.9 }, null],
    ["messages", "claude-opus-5-5", { ...sampling, top_k: 5 }, "temperature, top_p, top_k"],
    ["chat", "any", { stop: "\n", ...sampling }, null],
    ["chat", "any", { seed: 7, user: null }, "seed"],
  ]
  test.each(rows)("chat → %s, %s: %j", async (format, named, fields, names) => {
    const upstreams = [{ provider: "simulated", format, model: named }]
    const strip = ["seed", "user"]
    const model = await gateway.model({ format, endpoints: ["chat"], pass: ["top_k"], upstreams, strip })
    const response = await ask(gateway, key, "chat", model, fields)
    expect({ status: response.status, text: await response.text() }).toMatchObject({ status: 200 })
    expect(told(response)).toBe(names)
  })
})

describe("the flags of anthropic-beta", () => {
  const claudeCode =
    "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,per-turn-control-2026-07-01," +
    "mid-conversation-tool-changes-2026-07-01,thinking-token-count-2026-05-13,advanced-tool-use-2025-11-20,effort-2025-11-24"

  test(`${covers("13.3")} Claude Code's travel, those that cost more do not and are named`, async () => {
    const model = await gateway.model({ format: "messages" })
    const dear = "context-1m-2025-08-07, fast-mode-2026-02-01,extended-cache-ttl-2025-04-11,compact-2026-01-12"
    const headers = { "anthropic-beta": `${claudeCode},${dear}` }
    const response = await ask(gateway, key, "messages", model, {}, { headers })
    expect(last()?.headers["anthropic-beta"]).toBe(claudeCode)
    expect(told(response)).toBe(
      dear
        .split(",")
        .map((beta) => `anthropic-beta.${beta.trim()}`)
        .join(", "),
    )
  })

  test(`${covers("13.3")} a field that needs one travels with it, and without it is named`, async () => {
    const model = await gateway.model({ format: "messages" })
    const management = {
      context_management: { edits: [{ type: "clear_thinking_20251015" }, { type: "compact_20260112" }] },
    }
    const without = await ask(gateway, key, "messages", model, management)
    expect(told(without)).toBe("context_management")
    const headers = { "anthropic-beta": "context-management-2025-06-27" }
    const response = await ask(gateway, key, "messages", model, management, { headers })
    expect(last()?.body?.["context_management"]).toEqual({ edits: [{ type: "clear_thinking_20251015" }] })
    expect(told(response)).toBe("context_management.edits.compact_20260112")
  })
})

test(`${covers("13.18")} the secret behind the names is the installation's: made once, and not the same elsewhere`, async () => {
  await using other = await startTestGateway()
  const mine = await secret(gateway)
  expect(mine).toMatch(/^[0-9a-f]{64}$/)
  expect(await secret(gateway)).toBe(mine ?? "")
  expect(await secret(other)).not.toBe(mine ?? "")
})
