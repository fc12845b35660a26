import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { checkApiKey, hashApiKey } from "../../../src/accounts/bearer-tokens.ts"
import { newRequestId } from "../../../src/http/edge.ts"
import { openWorld, PASSWORD, type World } from "./world.ts"

let world: World
beforeAll(async () => void (world = await openWorld()))
afterAll(() => world[Symbol.asyncDispose]())

const create = (token: string, body: object = { name: "a key" }) => world.call("POST", "/keys", { token, body })

describe("a new key", () => {
  test("is shown once, and stored as its hash", async () => {
    const { token } = await world.signUp()
    const { status, json } = await create(token)
    expect(status).toBe(201)
    expect(checkApiKey(json.key)).toBe(true)
    const { key, ...record } = json
    expect(record).toEqual({
      id: expect.stringMatching(/^key_[A-Za-z0-9_-]{21}$/),
      name: "a key",
      prefix: key.slice(0, 13),
      last4: key.slice(-4),
      status: "active",
      parent_id: null,
      children: 0,
      requests_per_minute: null,
      tokens_per_minute: null,
      spending_limit_micro: null,
      spending_period: null,
      fallback: "never_dearer",
      shows_balance: true,
      replays_retries: true,
      breaker_ceiling_micro: null,
      breaker_action: "warn",
      breaker_pause_minutes: null,
      paused: null,
      spent_micro: null,
      created_at: expect.any(String),
      last_used_at: null,
      expires_at: null,
      models: null,
      endpoints: null,
      networks: null,
      origins: null,
      max_rate_micro: null,
      previous_expires_at: null,
      revoked_at: null,
      usage: { requests: null, tokens: null, budget: null },
    })
    expect((await world.call("GET", "/keys", { token })).json).toEqual({ data: [record], next_cursor: null })
    const [row] = await world.sql`select * from api_keys where id = ${json.id}`
    expect(Buffer.from(row?.key_hash)).toEqual(Buffer.from(hashApiKey(key)))
    expect(JSON.stringify(row)).not.toContain(key)
  })

  test("may have a ceiling of ten minutes, which warns unless it says otherwise", async () => {
    const { token } = await world.signUp()
    const made = await create(token, { name: "a key", breaker_ceiling_micro: 1 })
    expect(made.json).toMatchObject({ breaker_ceiling_micro: 1, breaker_action: "warn", breaker_pause_minutes: null })
    const ceiling = {
      breaker_ceiling_micro: Number.MAX_SAFE_INTEGER,
      breaker_action: "stop",
      breaker_pause_minutes: 10_080,
    }
    expect((await create(token, { name: "another", ...ceiling })).json).toMatchObject(ceiling)
  })

  test.each([
    [{ breaker_ceiling_micro: 0 }, "breaker_ceiling_micro"],
    [{ breaker_ceiling_micro: 1.5 }, "breaker_ceiling_micro"],
    [{ breaker_ceiling_micro: 1, breaker_action: "pause" }, "breaker_action"],
    [{ breaker_ceiling_micro: 1, breaker_pause_minutes: 10_081 }, "breaker_pause_minutes"],
    [{ breaker_action: "stop" }, "'breaker_action' needs a 'breaker_ceiling_micro'"],
    [{ breaker_pause_minutes: 15 }, "'breaker_pause_minutes' needs a 'breaker_ceiling_micro'"],
  ])("is not made with a ceiling such as %o", async (ceiling, said) => {
    const { token } = await world.signUp()
    const { status, json } = await create(token, { name: "a key", ...ceiling })
    expect([status, json.code, json.error]).toEqual([400, "request.invalid", expect.stringContaining(said)])
    expect((await world.call("GET", "/keys", { token })).json.data).toEqual([])
  })

  test("carries the limits that were asked for", async () => {
    const { token } = await world.signUp()
    const limits = {
      requests_per_minute: 60,
      tokens_per_minute: 100_000,
      spending_limit_micro: 5_000_000_000,
      spending_period: "daily",
      fallback: "any",
      shows_balance: false,
      replays_retries: false,
    }
    const { status, json } = await create(token, { name: "limited", ...limits })
    expect(status).toBe(201)
    expect(json).toMatchObject({ ...limits, spent_micro: 0 })
  })

  test("carries what it is bound to, each network in one way of writing", async () => {
    const { token } = await world.signUp()
    const models = Array.from({ length: 64 }, (_, index) => `model-${index}`)
    const networks = Array.from({ length: 32 }, (_, index) => `2001:db8:${(index + 1).toString(16)}::/48`)
    const { status, json } = await create(token, {
      name: "bound",
      expires_at: "2030-01-31T23:00:00.500+07:00",
      models,
      endpoints: ["responses", "chat"],
      networks: networks.map((network) => network.toUpperCase()),
      max_rate_micro: 0,
    })
    expect(status).toBe(201)
    const bound = { expires_at: "2030-01-31T16:00:00.500Z", models, endpoints: ["chat", "responses"], networks }
    expect(json).toMatchObject({ ...bound, max_rate_micro: 0, status: "active" })
  })

  test.each([
    ["no list at all", { networks: "203.0.113.0/24" }],
    ["no network", { networks: [] }],
    ["33 networks", { networks: Array.from({ length: 33 }, (_, index) => `10.0.${index}.0/24`) }],
    ["a network with bits beyond its prefix", { networks: ["10.0.0.0/8", "203.0.113.7/24"] }],
    ["a name for a network", { networks: ["example.com"] }],
    ["a prefix that is too long", { networks: ["203.0.113.0/33"] }],
    ["no model", { models: [] }],
    ["65 models", { models: Array.from({ length: 65 }, (_, index) => `model-${index}`) }],
    ["a model that is not in the catalogue", { models: ["model-1", "modle-2"] }],
    ["a model with a NUL", { models: ["model-\u0000"] }],
    ["no endpoint", { endpoints: [] }],
    ["an endpoint that is none", { endpoints: ["chat", "images"] }],
    ["six endpoints", { endpoints: Array.from({ length: 6 }, () => "chat") }],
    ["a rate below nothing", { max_rate_micro: -1 }],
    ["a fraction of a rate", { max_rate_micro: 0.5 }],
    ["a rate past 2^53", { max_rate_micro: 9_007_199_254_740_992 }],
    ["a time that is over", { expires_at: "2026-01-01T00:00:00Z" }],
    ["a time without a zone", { expires_at: "2030-01-31T00:00:00" }],
    ["a day that there is not", { expires_at: "2030-02-30T00:00:00Z" }],
    ["a day alone", { expires_at: "2030-01-31" }],
    ["a time after the year 9999", { expires_at: "+010000-01-01T00:00:00Z" }],
    ["a number for a time", { expires_at: 1_900_000_000_000 }],
  ] as [string, Record<string, unknown>][])(
    "is refused with %s, told by its field, when made and when changed",
    async (_, body) => {
      const [field = ""] = Object.keys(body)
      const { token } = await world.signUp()
      const made = await create(token, { name: "k", ...body })
      expect([made.status, made.json.code, made.json.error]).toEqual([
        400,
        "request.invalid",
        expect.stringContaining(`'${field}'`),
      ])
      if (_ === "a time that is over") return
      const { json: key } = await create(token)
      const { usage: _usage, ...before } = (await world.call("GET", "/keys", { token })).json.data[0]
      const changed = await world.call("PATCH", `/keys/${key.id}`, { token, body })
      expect([changed.status, changed.json.error]).toEqual([400, expect.stringContaining(`'${field}'`)])
      expect((await world.call("GET", "/keys", { token })).json.data[0]).toMatchObject(before)
    },
  )

  test("keeps a model on its list that has left the catalogue, and takes no other such one", async () => {
    const { token } = await world.signUp()
    const { json: key } = await create(token, { name: "k", models: ["model-1"] })
    await world.sql`update api_keys set models = '{gone}' where id = ${key.id}`
    const change = (models: string[]) => world.call("PATCH", `/keys/${key.id}`, { token, body: { models } })
    expect((await change(["gone", "model-2"])).json.models).toEqual(["gone", "model-2"])
    expect((await change(["gone", "lost"])).json.error).toContain('"lost"')
    expect((await change(["model-2"])).status).toBe(200)
    expect((await change(["gone"])).status).toBe(400)
    const { token: other } = await world.signUp()
    const foreign = await world.call("PATCH", `/keys/${key.id}`, { token: other, body: { models: ["lost"] } })
    expect(foreign.status).toBe(404)
  })

  const refused: [string, object][] = [
    ["no name", {}],
    ["a name that is a number", { name: 1 }],
    ["a blank name", { name: "  " }],
    ["a name of 101 characters", { name: "a".repeat(101) }],
    ["a name with a NUL", { name: "a\u0000b" }],
    ["a name that turns what follows it around", { name: "a\u202eb" }],
    ["a name in an isolate of another direction", { name: "\u2067a\u2069" }],
    ["no requests per minute", { name: "k", requests_per_minute: 0 }],
    ["a fraction of a request", { name: "k", requests_per_minute: 1.5 }],
    ["a limit as text", { name: "k", requests_per_minute: "60" }],
    ["more than an integer column holds", { name: "k", tokens_per_minute: 2_147_483_648 }],
    ["a negative budget", { name: "k", spending_limit_micro: -1, spending_period: "daily" }],
    ["a budget past 2^53", { name: "k", spending_limit_micro: 9_007_199_254_740_992, spending_period: "total" }],
    ["a budget without a period", { name: "k", spending_limit_micro: 1 }],
    ["a period without a budget", { name: "k", spending_period: "daily" }],
    ["a fallback that is none", { name: "k", fallback: "cheapest" }],
    ["a word for yes", { name: "k", shows_balance: "yes" }],
    ["a number for yes", { name: "k", replays_retries: 1 }],
    ["a period that is none", { name: "k", spending_limit_micro: 1, spending_period: "weekly" }],
    ["a misspelt budget", { name: "k", spendingLimitMicro: 1, spendingPeriod: "daily" }],
    ["a misspelt end", { name: "k", expires: "2030-01-01T00:00:00Z" }],
  ]
  test.each(refused)("is refused with %s", async (_, body) => {
    const { token } = await world.signUp()
    const { status, json } = await create(token, body)
    expect([status, json.code]).toEqual([400, "request.invalid"])
    expect((await world.call("GET", "/keys", { token })).json.data).toEqual([])
  })

  test("takes null for absent", async () => {
    const { token } = await world.signUp()
    const { status } = await create(token, {
      name: "k",
      requests_per_minute: null,
      spending_limit_micro: null,
      spending_period: null,
      fallback: null,
    })
    expect(status).toBe(201)
  })
})

describe("a change", () => {
  const budget = { spending_limit_micro: 1_000, spending_period: "daily" }
  const none = { spending_limit_micro: null, spending_period: null }
  const changes: [string, object, object, object][] = [
    [
      "of the name leaves the limits",
      { ...budget, requests_per_minute: 5 },
      { name: "new" },
      { name: "new", ...budget, requests_per_minute: 5 },
    ],
    ["of nothing changes nothing", budget, {}, { name: "a key", ...budget }],
    ["sets a window", {}, { tokens_per_minute: 7 }, { tokens_per_minute: 7 }],
    [
      "removes a window with null",
      { requests_per_minute: 5 },
      { requests_per_minute: null },
      { requests_per_minute: null },
    ],
    ["sets a budget", {}, budget, budget],
    [
      "of the limit keeps the period",
      budget,
      { spending_limit_micro: 5 },
      { spending_limit_micro: 5, spending_period: "daily" },
    ],
    [
      "of the period keeps the limit",
      budget,
      { spending_period: "total" },
      { spending_limit_micro: 1_000, spending_period: "total" },
    ],
    ["removes the budget by its limit", budget, { spending_limit_micro: null }, none],
    ["sets the fallback alone", budget, { fallback: "off" }, { ...budget, fallback: "off" }],
    [
      "hides the balance alone",
      budget,
      { shows_balance: false },
      { ...budget, fallback: "never_dearer", shows_balance: false },
    ],
    ["binds it alone", budget, { networks: ["10.0.0.1"] }, { ...budget, networks: ["10.0.0.1/32"], models: null }],
    [
      "lets go of one binding and keeps the others",
      { models: ["model-1"], endpoints: ["chat"], networks: ["10.0.0.1"], max_rate_micro: 7 },
      { endpoints: null },
      { models: ["model-1"], endpoints: null, networks: ["10.0.0.1/32"], max_rate_micro: 7 },
    ],
    [
      "ends it at once by a time that is over",
      {},
      { expires_at: "2026-01-01T00:00:00Z" },
      { status: "expired", expires_at: "2026-01-01T00:00:00.000Z" },
    ],
    [
      "takes its end away",
      { expires_at: "2030-01-01T00:00:00Z" },
      { expires_at: null },
      { status: "active", expires_at: null },
    ],
    ["removes the budget by its period", budget, { spending_period: null }, none],
    ["removes the budget by both", budget, none, none],
  ]
  test.each(changes)("%s", async (_, before, change, after) => {
    const { token } = await world.signUp()
    const { json: key } = await create(token, { name: "a key", ...before })
    const { status, json } = await world.call("PATCH", `/keys/${key.id}`, { token, body: change })
    expect(status).toBe(200)
    expect(json).toMatchObject(after)
    expect(json.key).toBeUndefined()
    expect((await world.call("GET", "/keys", { token })).json.data).toEqual([json])
  })

  const refused: [string, object, object][] = [
    ["a limit for a key without a period", {}, { spending_limit_micro: 5 }],
    ["a period for a key without a limit", {}, { spending_period: "daily" }],
    ["a limit with its period taken away", budget, { spending_limit_micro: 5, spending_period: null }],
    ["a period with its limit taken away", budget, { spending_limit_micro: null, spending_period: "daily" }],
    ["a null name", {}, { name: null }],
    ["a window of zero", {}, { requests_per_minute: 0 }],
    ["a misspelt limit", budget, { spending_limit: 5 }],
  ]
  test.each(refused)("is refused with %s", async (_, before, change) => {
    const { token } = await world.signUp()
    const { json: key } = await create(token, { name: "a key", ...before })
    const { status, json } = await world.call("PATCH", `/keys/${key.id}`, { token, body: change })
    expect([status, json.code]).toEqual([400, "request.invalid"])
    expect((await world.call("GET", "/keys", { token })).json.data[0]).toMatchObject({ name: "a key", ...before })
  })

  test("is refused with a body that is no object", async () => {
    const { token } = await world.signUp()
    const { json: key } = await create(token)
    const { status, json } = await world.call("PATCH", `/keys/${key.id}`, { token, body: [1] })
    expect([status, json.code]).toEqual([400, "request.invalid_request"])
  })
})

describe("revocation", () => {
  test("is final, and as often as it is asked for", async () => {
    const { token } = await world.signUp()
    const { json: key } = await create(token)
    const first = await world.call("POST", `/keys/${key.id}/revoke`, { token })
    expect([first.status, first.json.status]).toEqual([200, "revoked"])
    const second = await world.call("POST", `/keys/${key.id}/revoke`, { token })
    expect([second.status, second.json]).toEqual([200, first.json])
  })
})

const dayStart = (day: Temporal.ZonedDateTime) => new Date(day.epochMilliseconds)

describe("what is used of a key's limits", () => {
  test("is nothing where no call was made, and what was spent in the period", async () => {
    const { token } = await world.signUp()
    const { json } = await create(token, {
      name: "k",
      requests_per_minute: 5,
      tokens_per_minute: 100,
      spending_limit_micro: 1_000,
      spending_period: "monthly",
    })
    const month = Temporal.Now.zonedDateTimeISO("Asia/Jakarta").with({ day: 1 }).startOfDay()
    await world.sql`insert into key_spend values (${json.id}, 'monthly', ${dayStart(month)}, 300)`
    const [key] = (await world.call("GET", "/keys", { token })).json.data
    expect(key.usage).toEqual({
      requests: { limit: 5, used: 0, resets_in_s: 0 },
      tokens: { limit: 100, used: 0, resets_in_s: 0 },
      budget: {
        limit_micro: 1_000,
        used_micro: 300,
        resets_at: dayStart(month.add({ months: 1 })).toISOString(),
      },
    })
  })

  test("never resets for a total", async () => {
    const { token } = await world.signUp()
    const { json } = await create(token, { name: "k", spending_limit_micro: 1_000, spending_period: "total" })
    expect(json.usage.budget).toEqual({ limit_micro: 1_000, used_micro: 0, resets_at: null })
  })
})

describe("the last use", () => {
  test("is that of the newest call, also of one that is under way", async () => {
    const { id, token } = await world.signUp()
    const { json: key } = await create(token)
    const used = async () => (await world.call("GET", "/keys", { token })).json.data[0].last_used_at
    const record = (at: string) => world.sql`
      insert into usage values (${newRequestId(Date.parse(at))}, 0, ${id}, ${key.id}, 1, 'm', 'chat', false, 'ok', 1, 1, 0, 0, 1,
        0, 1, 1, 1, null, false, ${at}, null, 1)`
    await record("2026-11-20T05:00:00.123Z")
    await record("2026-11-19T05:00:00Z")
    expect(await used()).toBe("2026-11-20T05:00:00.123Z")
    await world.sql`
      insert into openings values (${`req_${crypto.randomUUID()}`}, 'prc_x', ${id}, ${key.id}, 1, 'm', 'chat', false, 1, 1,
        '2026-11-20T06:00:00Z')`
    expect(await used()).toBe("2026-11-20T06:00:00.000Z")
  })
})

const rotate = (token: string, id: string, body: object = {}) =>
  world.call("POST", `/keys/${id}/rotate`, { token, body })

describe("a rotation", () => {
  test("shows another secret once, and leaves the key what it was", async () => {
    const { token } = await world.signUp()
    const { json: made } = await create(token, { name: "k", requests_per_minute: 5 })
    world.told.length = 0
    const { status, json } = await rotate(token, made.id)
    expect(status).toBe(201)
    expect(checkApiKey(json.key)).toBe(true)
    expect(json).toEqual({
      ...made,
      key: json.key,
      prefix: json.key.slice(0, 13),
      last4: json.key.slice(-4),
      previous_expires_at: expect.any(String),
    })
    const dayLater = Date.parse(json.previous_expires_at) - Date.now()
    expect(Math.abs(dayLater - 24 * 60 * 60 * 1000)).toBeLessThan(60_000)
    const told = { keyId: made.id, keyHash: Buffer.from(hashApiKey(made.key)).toString("hex") }
    expect(world.told).toEqual([told])
    const { key: _, ...listed } = json
    expect((await world.call("GET", "/keys", { token })).json.data).toEqual([listed])
    const rows = await world.sql`select * from key_secrets where key_id = ${made.id}`
    expect(rows).toHaveLength(2)
    expect(JSON.stringify([...rows])).not.toContain(json.key)
  })

  test("without an overlap leaves no secret before it, and shortens one that still runs", async () => {
    const { token } = await world.signUp()
    const { json: made } = await create(token)
    await rotate(token, made.id, { overlap_s: 604_800 })
    const { json } = await rotate(token, made.id, { overlap_s: 0 })
    expect(json.previous_expires_at).toBeNull()
    const rows = await world.sql`
      select expires_at <= now() as over from key_secrets where key_id = ${made.id} order by created_at, over`
    expect(rows.filter(({ over }) => over === true)).toHaveLength(2)
    expect(rows.filter(({ over }) => over === null)).toHaveLength(1)
  })

  test.each([-1, 604_801, 0.5, "60"])("is refused with an overlap of %j", async (overlap) => {
    const { token } = await world.signUp()
    const { json: made } = await create(token)
    const { status, json } = await rotate(token, made.id, { overlap_s: overlap })
    expect([status, json.code]).toEqual([400, "request.invalid"])
    expect((await world.call("GET", "/keys", { token })).json.data[0].last4).toBe(made.last4)
  })

  test("is refused with a misspelt overlap, which would leave the secret before it for a day", async () => {
    const { token } = await world.signUp()
    const { json: made } = await create(token)
    const { status, json } = await rotate(token, made.id, { overlap: 0 })
    expect(status).toBe(400)
    expect(json.error).toBe("'overlap' is no field of this request; its fields are overlap_s.")
    expect((await world.call("GET", "/keys", { token })).json.data[0].last4).toBe(made.last4)
  })

  test.each([
    ["", ""],
    ["over/lap~s", "over/lap~s"],
    [`${"x".repeat(63)}😀`, `${"x".repeat(63)}\uFFFD`],
  ])("is refused with a field %j, which is named %j", async (given, named) => {
    const { token } = await world.signUp()
    const { json: made } = await create(token)
    const { json } = await rotate(token, made.id, { [given]: 0 })
    expect(json.error).toBe(`'${named}' is no field of this request; its fields are overlap_s.`)
  })

  test("is refused for a revoked key, and for a frozen account", async () => {
    const { id, token } = await world.signUp()
    const { json: made } = await create(token)
    await world.sql`update accounts set frozen_at = now(), frozen_reason = 'a test' where id = ${id}`
    expect((await rotate(token, made.id)).json.code).toBe("auth.account_frozen")
    await world.sql`update accounts set frozen_at = null, frozen_reason = null where id = ${id}`
    await world.call("POST", `/keys/${made.id}/revoke`, { token })
    expect((await rotate(token, made.id)).json.code).toBe("request.invalid")
    expect(await world.sql`select from key_secrets where key_id = ${made.id}`).toHaveLength(0)
  })

  test("of a foreign key is as of an unknown one", async () => {
    const [owner, other] = [await world.signUp(), await world.signUp()]
    const { json: made } = await create(owner.token)
    for (const id of [made.id, "key_unknown", "%00"]) {
      const { status, json } = await rotate(other.token, id)
      expect([status, json.code]).toEqual([404, "resource.not_found"])
    }
    expect(await world.sql`select from key_secrets where key_id = ${made.id}`).toHaveLength(0)
  })
})

test("a foreign key is as unknown as none", async () => {
  const [owner, other] = [await world.signUp(), await world.signUp()]
  const { json: key } = await create(owner.token)
  world.told.length = 0
  for (const id of [key.id, "key_unknown", "%00", "x"]) {
    const patched = await world.call("PATCH", `/keys/${id}`, { token: other.token, body: { name: "mine" } })
    const revoked = await world.call("POST", `/keys/${id}/revoke`, { token: other.token })
    expect([patched.status, patched.json.code]).toEqual([404, "resource.not_found"])
    expect([revoked.status, revoked.json.code]).toEqual([404, "resource.not_found"])
  }
  expect(world.told).toEqual([])
  expect((await world.call("GET", "/keys", { token: other.token })).json.data).toEqual([])
  expect((await world.call("GET", "/keys", { token: owner.token })).json.data[0]).toMatchObject({
    name: "a key",
    status: "active",
  })
})

test("what is done to a key, and what it has spent, is not another's of the same account", async () => {
  const { id, token } = await world.signUp()
  const limits = { spending_limit_micro: 1_000, spending_period: "total" }
  const [one, two] = [
    (await create(token, { name: "one", ...limits })).json,
    (await create(token, { name: "two", ...limits })).json,
  ]
  const shown = async (key: { id: string }) =>
    (await world.call("GET", "/keys", { token })).json.data.find((each: { id: string }) => each.id === key.id)
  const before = await shown(two)
  await world.sql`insert into key_spend values (${one.id}, 'total', 'epoch', 300)`
  await world.sql`
    insert into usage values (${newRequestId(Date.now())}, 0, ${id}, ${one.id}, 1, 'm', 'chat', false, 'ok', 1, 1, 0, 0, 1,
      0, 1, 1, 1, null, false, now(), null, 1)`
  await world.sql`
    insert into openings values (${`req_${crypto.randomUUID()}`}, 'prc_x', ${id}, ${one.id}, 1, 'm', 'chat', false, 1, 1, now())`
  expect((await world.call("PATCH", `/keys/${one.id}`, { token, body: { name: "renamed" } })).status).toBe(200)
  expect((await rotate(token, one.id)).status).toBe(201)
  const { name, usage, last_used_at, previous_expires_at } = await shown(one)
  expect([name, usage.budget.used_micro, typeof last_used_at, typeof previous_expires_at]).toEqual([
    "renamed",
    300,
    "string",
    "string",
  ])
  expect(await shown(two)).toEqual(before)
})

test("every committed change is told with the key's hash", async () => {
  const { token } = await world.signUp()
  world.told.length = 0
  const { json: key } = await create(token)
  await world.call("PATCH", `/keys/${key.id}`, { token, body: { requests_per_minute: 5 } })
  await world.call("POST", `/keys/${key.id}/revoke`, { token })
  const told = { keyId: key.id, keyHash: Buffer.from(hashApiKey(key.key)).toString("hex") }
  // A key that was just made is in nobody's memory.
  expect(world.told).toEqual([told, told])
})

test("a change that is not in force in time is told as 503, and stands", async () => {
  const { id, token } = await world.signUp()
  const { json: key } = await create(token)
  world.inForce = false
  const changes = [
    await world.call("PATCH", `/keys/${key.id}`, { token, body: { requests_per_minute: 5 } }),
    await world.call("POST", `/keys/${key.id}/rotate`, { token, body: {} }),
    await world.call("POST", `/keys/${key.id}/revoke`, { token }),
    await world.call("DELETE", "/account", { token, body: { password: PASSWORD } }),
  ]
  world.inForce = true
  for (const { status, json } of changes) {
    expect([status, json.code, json.retryable]).toEqual([503, "dependency.database_unavailable", true])
  }
  const [row] = await world.sql`
    select k.requests_per_minute, k.revoked_at is not null as revoked, a.deleted_at is not null as deleted,
      (select count(*)::int from key_secrets s where s.key_id = k.id) as secrets
    from api_keys k join accounts a on a.id = k.account_id where a.id = ${id}`
  expect(row).toEqual({ requests_per_minute: 5, revoked: true, deleted: true, secrets: 2 })
})

test("what was spent counts in its own period only", async () => {
  const { token } = await world.signUp()
  const budget = { spending_limit_micro: 1_000, spending_period: "daily" }
  const { json: key } = await create(token, { name: "k", ...budget })
  const spent = async () => (await world.call("GET", "/keys", { token })).json.data[0].spent_micro
  const today = Temporal.Now.zonedDateTimeISO("Asia/Jakarta").startOfDay()
  await world.sql`insert into key_spend values (${key.id}, 'daily', ${dayStart(today.subtract({ days: 1 }))}, 7)`
  await world.sql`insert into key_spend values (${key.id}, 'total', ${new Date(0)}, 70)`
  expect(await spent()).toBe(0)
  await world.sql`insert into key_spend values (${key.id}, 'daily', ${dayStart(today)}, 3)`
  expect(await spent()).toBe(3)
  await world.call("PATCH", `/keys/${key.id}`, { token, body: { spending_period: "total" } })
  expect(await spent()).toBe(70)
})

test("nothing here was answered by a bug", () => expect(world.bugs).toEqual([]))

describe("the number of an account's keys", () => {
  let small: World
  beforeAll(async () => void (small = await openWorld({ mostKeys: 5 })))
  afterAll(() => small[Symbol.asyncDispose]())
  const make = (token: string) => small.call("POST", "/keys", { token, body: { name: "k" } })
  const revoke = (token: string, id: string) => small.call("POST", `/keys/${id}/revoke`, { token })

  test("is bounded, and a revoked one makes room", async () => {
    const { token } = await small.signUp()
    const ids: string[] = []
    for (let n = 0; n < 5; n++) ids.push((await make(token)).json.id)
    const refused = await make(token)
    expect([refused.status, refused.json.code]).toEqual([400, "request.invalid"])
    expect(refused.json.error).toBe("An account has at most 5 active keys; revoke one that is not needed.")
    expect((await revoke(token, ids[0]!)).status).toBe(200)
    expect((await make(token)).status).toBe(201)
    expect((await make(token)).status).toBe(400)
    // It is the account's own.
    expect((await make((await small.signUp()).token)).status).toBe(201)
  })

  test("is never passed, however many are made at once", async () => {
    const { id, token } = await small.signUp()
    const answers = await Promise.all(Array.from({ length: 40 }, () => make(token)))
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(5)
    expect(answers.filter(({ status }) => status === 400)).toHaveLength(35)
    expect(await small.sql`select from api_keys where account_id = ${id}`).toHaveLength(5)
  })

  test("that are made in a day is bounded too, so that revoked ones are", async () => {
    const { id, token } = await small.signUp()
    for (let n = 0; n < 25; n++) {
      const { status, json } = await make(token)
      expect([n, status]).toEqual([n, 201])
      await revoke(token, json.id)
    }
    const refused = await make(token)
    expect([refused.status, refused.json.code]).toEqual([400, "request.invalid"])
    expect(refused.json.error).toBe("An account makes at most 25 keys in 24 hours; make another later.")
    await small.sql`update api_keys set created_at = created_at - interval '1 day' where account_id = ${id}`
    expect((await make(token)).status).toBe(201)
  })
})

const page = async (token: string, query: string) => {
  const { status, json } = await world.call("GET", `/keys${query}`, { token })
  expect(status).toBe(200)
  return json as { data: { id: string; status: string; name: string }[]; next_cursor: string | null }
}

describe("the list", () => {
  test("comes in pages, with those that work first and the newest of each before the others", async () => {
    const { id, token } = await world.signUp()
    const made: string[] = []
    for (let n = 0; n < 7; n++) made.push((await create(token, { name: `key ${n}` })).json.id)
    // Of one moment, too.
    await world.sql`update api_keys set created_at = now() where account_id = ${id} and name in ('key 1', 'key 2', 'key 3')`
    for (const n of [0, 3, 5]) await world.call("POST", `/keys/${made[n]}/revoke`, { token })
    const whole = await page(token, "")
    expect(whole.next_cursor).toBeNull()
    expect(whole.data.map(({ status }) => status)).toEqual([...Array(4).fill("active"), ...Array(3).fill("revoked")])
    expect(new Set(whole.data.map((key) => key.id))).toEqual(new Set(made))
    for (const limit of [1, 2, 3, 4, 7]) {
      const seen: string[] = []
      let cursor: string | null = ""
      for (let pages = 0; cursor !== null && pages < 10; pages++) {
        const { data, next_cursor } = await page(token, `?limit=${limit}${cursor && `&cursor=${cursor}`}`)
        expect(data.length).toBeWithin(1, limit + 1)
        seen.push(...data.map((key) => key.id))
        cursor = next_cursor
      }
      expect(seen).toEqual(whole.data.map((key) => key.id))
    }
  })

  test("goes on after a key of the account alone", async () => {
    const [{ token }, stranger] = [await world.signUp(), await world.signUp()]
    await create(token)
    const { json } = await create(stranger.token)
    const after = async (id: string) =>
      (await page(token, `?cursor=${Buffer.from(`active ${id}`).toString("base64url")}`)).data
    expect(await after(json.id)).toEqual(await after("key_none"))
  })

  test("has fifty on a page unless told, a hundred at most", async () => {
    const { id, token } = await world.signUp()
    await world.sql`
      insert into api_keys (id, account_id, name, key_hash, prefix, last4)
      select 'key_' || ${id} || n, ${id}, 'k' || n, sha256((${id} || n)::bytea), 'sk-loket', 'last'
      from generate_series(1, 150) n`
    expect((await page(token, "")).data).toHaveLength(50)
    const first = await page(token, "?limit=100")
    expect(first.data).toHaveLength(100)
    const second = await page(token, `?limit=100&cursor=${first.next_cursor}`)
    expect([second.data.length, second.next_cursor]).toEqual([50, null])
  })

  test.each([
    "?limit=0",
    "?limit=101",
    "?limit=x",
    "?cursor=x",
    `?cursor=${btoa("active no-key")}`,
    `?cursor=${btoa("gone key_1")}`,
  ])("refuses %s", async (query) => {
    const { token } = await world.signUp()
    const { status, json } = await world.call("GET", `/keys${query}`, { token })
    expect([status, json.code]).toEqual([400, "request.invalid"])
  })

  test("of another's cursor shows nothing of theirs", async () => {
    const [owner, other] = [await world.signUp(), await world.signUp()]
    for (let n = 0; n < 3; n++) await create(owner.token)
    await create(other.token)
    const { next_cursor } = await page(owner.token, "?limit=1")
    const { next_cursor: ofNobody } = await page(owner.token, "?limit=2")
    await world.sql`delete from api_keys where id = ${atob(ofNobody ?? "").split(" ")[1] ?? ""}`
    // As one that is nobody's, so that it does not say whether there is such a key.
    for (const cursor of [next_cursor, ofNobody])
      expect((await page(other.token, `?cursor=${cursor}`)).data).toEqual([])
  })
})

test("a secret that ended a week ago is forgotten at the next rotation, the first one is not", async () => {
  const { token } = await world.signUp()
  const { json: key } = await create(token)
  for (let n = 0; n < 3; n++) await world.call("POST", `/keys/${key.id}/rotate`, { token, body: { overlap_s: 0 } })
  const secrets = async () => {
    const [row] = await world.sql`
      select count(*)::int as secrets, count(*) filter (where secret_hash = ${hashApiKey(key.key)})::int as first
      from key_secrets where key_id = ${key.id}`
    return row as unknown
  }
  expect(await secrets()).toEqual({ secrets: 4, first: 1 })
  await world.sql`update key_secrets set expires_at = expires_at - interval '8 days' where key_id = ${key.id}`
  await world.call("POST", `/keys/${key.id}/rotate`, { token, body: { overlap_s: 0 } })
  expect(await secrets()).toEqual({ secrets: 3, first: 1 })
})

const spent = (keyId: string, period: string, start: string, amount: number) => world.sql`
  insert into key_spend (key_id, period, period_start, spent_micro) values (${keyId}, ${period}, ${start}, ${amount})`
const startsOf = async (token: string) => {
  const { time_zone: zone } = (await world.call("GET", "/account", { token })).json as { time_zone: string }
  return Temporal.Now.zonedDateTimeISO(zone).startOfDay()
}
const iso = (at: Temporal.ZonedDateTime) => at.toInstant().toString()

describe("what keys have spent", () => {
  test("is told of today, of the month and of each day, where it is asked for", async () => {
    const { token } = await world.signUp()
    const { json: key } = await create(token)
    const { json: other } = await create(token)
    const today = await startsOf(token)
    await spent(key.id, "daily", iso(today), 5)
    await spent(key.id, "daily", iso(today.subtract({ days: 1 })), 7)
    await spent(key.id, "daily", iso(today.subtract({ days: 2 })), 11)
    await spent(key.id, "daily", iso(today.subtract({ days: 3 })), 13)
    await spent(key.id, "monthly", iso(today.with({ day: 1 })), 50)
    await spent(key.id, "monthly", iso(today.with({ day: 1 }).subtract({ months: 1 })), 500)
    await spent(key.id, "total", "1970-01-01T00:00:00Z", 5000)
    const list = async (days: string) => (await world.call("GET", `/keys${days}`, { token })).json.data
    expect(await list("?days=3")).toMatchObject([
      { id: other.id, spending: { today_micro: 0, month_micro: 0, days_micro: [0, 0, 0] } },
      { id: key.id, spending: { today_micro: 5, month_micro: 50, days_micro: [11, 7, 5] } },
    ])
    expect((await list("?days=31"))[1].spending.days_micro).toEqual([...Array(27).fill(0), 13, 11, 7, 5])
    for (const each of await list("")) expect(each).not.toHaveProperty("spending")
  })

  test.each(["0", "32", "1.5", "x"])("is not told of %s days", async (days) => {
    const { token } = await world.signUp()
    expect((await world.call("GET", `/keys?days=${days}`, { token })).json).toMatchObject({
      code: "request.invalid",
      error: expect.stringContaining("days"),
    })
  })

  test("stays what it was when the time zone changes", async () => {
    const { token } = await world.signUp()
    const { json: key } = await create(token)
    const today = await startsOf(token)
    await spent(key.id, "daily", iso(today), 5)
    await spent(key.id, "monthly", iso(today.with({ day: 1 })), 50)
    for (const zone of ["Pacific/Kiritimati", "Etc/GMT+12", "Asia/Jakarta"]) {
      await world.call("PATCH", "/account", { token, body: { time_zone: zone } })
      const [{ spending }] = (await world.call("GET", "/keys?days=31", { token })).json.data
      expect(spending).toMatchObject({ today_micro: 5, month_micro: 50 })
      expect(spending.days_micro.reduce((sum: number, day: number) => sum + day, 0)).toBe(5)
    }
  })
})
