/** The order of checks (decisions §4): a call that fails two of them is answered with the earlier one. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { createApiKey } from "../../src/accounts/bearer-tokens.ts"
import type { ModelWish, Person, TestGateway } from "../gateway/harness.ts"
import { startTestGateway } from "../gateway/harness.ts"
import { callsOf, eventually } from "./calling.ts"
import { bugs, expectFailure } from "./expect-failure.ts"
import { covers } from "./rows.ts"

let gateway: TestGateway
let rich: Person
let poor: Person
const models: Record<string, string> = {}

beforeAll(async () => {
  gateway = await startTestGateway({
    env: { MAX_BODY_BYTES: "100000", CAPACITY_WAIT_MS: "0", DRAIN_LEFT_MS: "100" },
  })
  rich = await gateway.person(1_000_000)
  poor = await gateway.person()
  const wishes: Record<string, ModelWish> = {
    unconfigured: { format: "chat", provider: "nobody", context_window: 3 },
    small: { format: "chat", context_window: 3 },
    onMessages: { format: "messages", supports_vision: false },
  }
  for (const [name, wish] of Object.entries(wishes)) models[name] = await gateway.model(wish)
})
afterAll(() => gateway[Symbol.asyncDispose]())

const hello = [{ role: "user", content: "Hello" }]
const image = [{ role: "user", content: [{ type: "image_url", image_url: { url: "https://example.com/a.png" } }] }]
const tooLarge = "x".repeat(100_001)
const deep = (levels: number) => "[".repeat(levels) + "]".repeat(levels)

const key = async (person: Person, limits: object = {}) => (await gateway.key(person, { ...limits })).key
const revoked = async (limits: object = {}) => {
  const made = await gateway.key(rich, { ...limits })
  await gateway.dashboard(rich, `/keys/${made.id}/revoke`, { method: "POST" })
  return made.key
}
const orphan = async (revoke: boolean) => {
  const leaver = await gateway.person()
  const made = await gateway.key(leaver)
  if (revoke) await gateway.dashboard(leaver, `/keys/${made.id}/revoke`, { method: "POST" })
  const body = JSON.stringify({ password: "correct horse battery" })
  await gateway.dashboard(leaver, "/account", { method: "DELETE", body })
  return made.key
}
const frozen = async (revoke: boolean) => {
  const person = await gateway.person(10_000)
  const made = await gateway.key(person)
  if (revoke) await gateway.dashboard(person, `/keys/${made.id}/revoke`, { method: "POST" })
  await gateway.freeze(person, "a test")
  return made.key
}
const chat = (by: string, body: unknown) => gateway.post("/v1/chat/completions", by, body)
/** A key whose one request of this minute has been made. */
const exhausted = async (by: string) => {
  await chat(by, "{}")
  return by
}

/** A model whose one slot is taken for as long as this is in scope. */
async function occupied(): Promise<AsyncDisposable & { readonly model: string }> {
  const model = await gateway.model({ format: "chat", script: "ttft=60000", max_concurrency: 1 })
  const ask = { model, messages: hello }
  const leaving = new AbortController()
  const left = gateway
    .post("/v1/chat/completions", await key(rich), ask, { signal: leaving.signal })
    .catch(() => "it left")
  await eventually(
    "not forwarded",
    () => callsOf(gateway, model).length,
    (calls) => calls === 1,
  )
  await expectFailure(await chat(await key(rich), ask), 429, "gateway.capacity")
  return {
    model,
    [Symbol.asyncDispose]: async () => {
      leaving.abort()
      expect(await left).toBe("it left")
    },
  }
}

interface Case {
  readonly earlier: string
  readonly later: string
  readonly status: number
  readonly code: string
  readonly call: () => Promise<Response>
}

const cases: readonly Case[] = [
  {
    earlier: "path",
    later: "key",
    status: 404,
    code: "route.not_found",
    call: () => fetch(`${gateway.url}/v1/images/generations`, { method: "POST" }),
  },
  {
    earlier: "method",
    later: "key",
    status: 405,
    code: "request.method_not_allowed",
    call: () => fetch(`${gateway.url}/v1/messages`),
  },
  {
    earlier: "no key",
    later: "body too large",
    status: 401,
    code: "auth.api_key_missing",
    call: () => fetch(`${gateway.url}/v1/messages`, { method: "POST", body: tooLarge }),
  },
  {
    earlier: "unknown key",
    later: "body too large",
    status: 401,
    code: "auth.api_key_invalid",
    call: () => chat(createApiKey(), tooLarge),
  },
  {
    earlier: "request window",
    later: "revoked",
    status: 429,
    code: "rate_limit.rpm_exceeded",
    call: async () => chat(await exhausted(await revoked({ requests_per_minute: 1 })), "{}"),
  },
  {
    earlier: "request window",
    later: "body too large",
    status: 429,
    code: "rate_limit.rpm_exceeded",
    call: async () => chat(await exhausted(await key(rich, { requests_per_minute: 1 })), tooLarge),
  },
  {
    earlier: "revoked",
    later: "account deleted",
    status: 401,
    code: "auth.api_key_revoked",
    call: async () => chat(await orphan(true), "{}"),
  },
  {
    earlier: "revoked",
    later: "body too large",
    status: 401,
    code: "auth.api_key_revoked",
    call: async () => chat(await revoked(), tooLarge),
  },
  {
    earlier: "account deleted",
    later: "body too large",
    status: 403,
    code: "auth.account_deleted",
    call: async () => chat(await orphan(false), tooLarge),
  },
  {
    earlier: "revoked",
    later: "account frozen",
    status: 401,
    code: "auth.api_key_revoked",
    call: async () => chat(await frozen(true), "{}"),
  },
  {
    earlier: "account frozen",
    later: "body too large",
    status: 403,
    code: "auth.account_frozen",
    call: async () => chat(await frozen(false), tooLarge),
  },
  {
    earlier: "body too large",
    later: "not JSON",
    status: 413,
    code: "request.too_large",
    call: async () => chat(await key(rich), tooLarge),
  },
  {
    earlier: "not JSON",
    later: "not an object",
    status: 400,
    code: "request.invalid",
    call: async () => chat(await key(rich), "[1"),
  },
  {
    earlier: "nested too deep",
    later: "not an object",
    status: 400,
    code: "request.invalid",
    call: async () => chat(await key(rich), deep(65)),
  },
  {
    earlier: "not an object",
    later: "model missing",
    status: 400,
    code: "request.invalid_request",
    call: async () => chat(await key(rich), deep(64)),
  },
  {
    earlier: "model missing",
    later: "shape",
    status: 400,
    code: "request.invalid",
    call: async () => chat(await key(rich), { messages: "none" }),
  },
  {
    earlier: "model unknown",
    later: "shape",
    status: 400,
    code: "model.unknown",
    call: async () => chat(await key(rich), { model: "nothing", messages: "none" }),
  },
  {
    earlier: "model not on this endpoint",
    later: "shape",
    status: 400,
    code: "request.invalid",
    call: async () => chat(await key(rich), { model: models["onMessages"], messages: "none" }),
  },
  {
    earlier: "shape",
    later: "feature",
    status: 400,
    code: "request.invalid_request",
    call: async () => chat(await key(rich), { model: "plain", messages: image, web_search_options: {}, stream: "yes" }),
  },
  {
    earlier: "shape of a later field",
    later: "feature of an earlier one, on messages",
    status: 400,
    code: "request.invalid_request",
    call: async () =>
      gateway.post("/v1/messages", await key(rich), {
        model: models["onMessages"],
        messages: hello,
        max_tokens: "many",
        mcp_servers: [{ url: "https://example.com" }],
      }),
  },
  {
    earlier: "feature",
    later: "no backend",
    status: 400,
    code: "request.unsupported_feature",
    call: async () => chat(await key(rich), { model: models["unconfigured"], messages: hello, web_search_options: {} }),
  },
  {
    earlier: "vision",
    later: "no backend",
    status: 400,
    code: "request.invalid",
    call: async () => chat(await key(rich), { model: models["unconfigured"], messages: image }),
  },
  {
    earlier: "no backend",
    later: "context window",
    status: 503,
    code: "dependency.upstream_unconfigured",
    call: async () => chat(await key(rich), { model: models["unconfigured"], messages: hello }),
  },
  {
    earlier: "context window",
    later: "tokens per minute",
    status: 400,
    code: "upstream.context_length_exceeded",
    call: async () => chat(await key(rich, { tokens_per_minute: 1 }), { model: models["small"], messages: hello }),
  },
  {
    earlier: "tokens per minute",
    later: "budget",
    status: 429,
    code: "rate_limit.tpm_exceeded",
    call: async () =>
      chat(await key(rich, { tokens_per_minute: 1, spending_limit_micro: 0, spending_period: "total" }), {
        model: "plain",
        messages: hello,
      }),
  },
  {
    earlier: "budget",
    later: "balance",
    status: 429,
    code: "quota.key_limit_exceeded",
    call: async () =>
      chat(await key(poor, { spending_limit_micro: 0, spending_period: "daily" }), { model: "plain", messages: hello }),
  },
  {
    earlier: "balance",
    later: "capacity",
    status: 402,
    code: "billing.insufficient_balance",
    call: async () => {
      await using busy = await occupied()
      return await chat(await key(poor), { model: busy.model, messages: hello })
    },
  },
]

describe(covers("4.order"), () => {
  test.each(cases.map((row) => [row.earlier, row.later, row] as const))("%s before %s", async (_, __, row) => {
    await expectFailure(await row.call(), row.status, row.code)
  })
})

describe(covers("4.give-back"), () => {
  test("a call refused for its balance, or for want of room, takes nothing of tokens and budget", async () => {
    await using busy = await occupied()
    const limits = { tokens_per_minute: 10_000, spending_limit_micro: 1_000_000_000, spending_period: "total" }
    for (const [person, model, code] of [
      [poor, "plain", "billing.insufficient_balance"],
      [rich, busy.model, "gateway.capacity"],
    ] as const) {
      const by = await key(person, limits)
      const response = await chat(by, { model, messages: hello })
      expect(response.headers.get("x-error-code")).toBe(code)
      expect(response.headers.get("x-ratelimit-remaining-tokens")).toBe("10000")
      expect(response.headers.get("x-key-usage-micro")).toBe("0")
    }
    expect(await gateway.balance(poor)).toMatchObject({ held_micro: 0 })
  })
  test("a refused call counts against its minute all the same", async () => {
    const by = await key(poor, { requests_per_minute: 10 })
    const bodies = ["{", "[]", {}, { model: "nothing" }, { model: "plain", messages: hello }]
    for (const [index, body] of bodies.entries()) {
      const response = await chat(by, body)
      expect(response.ok).toBeFalse()
      expect(response.headers.get("x-ratelimit-remaining")).toBe(String(9 - index))
    }
  })
})

test("none of this was a bug", () => {
  expect(bugs(gateway)).toEqual([])
})
