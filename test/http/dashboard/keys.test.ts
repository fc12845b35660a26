import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { checkApiKey, hashApiKey } from "../../../src/accounts/api-key.ts"
import { openWorld, type World } from "./world.ts"

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
      requests_per_minute: null,
      tokens_per_minute: null,
      spending_limit_micro: null,
      spending_period: null,
      spent_micro: null,
      created_at: expect.any(String),
      last_used_at: null,
      expires_at: null,
      previous_expires_at: null,
      revoked_at: null,
      usage: { requests: null, tokens: null, budget: null },
    })
    expect((await world.call("GET", "/keys", { token })).json).toEqual({ data: [record] })
    const [row] = await world.sql`select * from api_keys where id = ${json.id}`
    expect(Buffer.from(row?.key_hash)).toEqual(Buffer.from(hashApiKey(key)))
    expect(JSON.stringify(row)).not.toContain(key)
  })

  test("carries the limits that were asked for", async () => {
    const { token } = await world.signUp()
    const limits = {
      requests_per_minute: 60,
      tokens_per_minute: 100_000,
      spending_limit_micro: 5_000_000_000,
      spending_period: "daily",
    }
    const { status, json } = await create(token, { name: "limited", ...limits })
    expect(status).toBe(201)
    expect(json).toMatchObject({ ...limits, spent_micro: 0 })
  })

  const refused: [string, object][] = [
    ["no name", {}],
    ["a name that is a number", { name: 1 }],
    ["a blank name", { name: "  " }],
    ["a name of 101 characters", { name: "a".repeat(101) }],
    ["a name with a NUL", { name: "a\u0000b" }],
    ["no requests per minute", { name: "k", requests_per_minute: 0 }],
    ["a fraction of a request", { name: "k", requests_per_minute: 1.5 }],
    ["a limit as text", { name: "k", requests_per_minute: "60" }],
    ["more than an integer column holds", { name: "k", tokens_per_minute: 2_147_483_648 }],
    ["a negative budget", { name: "k", spending_limit_micro: -1, spending_period: "daily" }],
    ["a budget past 2^53", { name: "k", spending_limit_micro: 9_007_199_254_740_992, spending_period: "total" }],
    ["a budget without a period", { name: "k", spending_limit_micro: 1 }],
    ["a period without a budget", { name: "k", spending_period: "daily" }],
    ["a period that is none", { name: "k", spending_limit_micro: 1, spending_period: "weekly" }],
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
      insert into usage values (${`req_${crypto.randomUUID()}`}, 0, ${id}, ${key.id}, 1, 'm', 'chat', false, 'ok', 1, 1, 0, 0, 1,
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

  test("is refused for a revoked key, and for a frozen account", async () => {
    const { id, token } = await world.signUp()
    const { json: made } = await create(token)
    await world.sql`update accounts set frozen_at = now(), frozen_reason = 'a test' where id = ${id}`
    expect((await rotate(token, made.id)).json.code).toBe("auth.forbidden")
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

test("every committed change is told with the key's hash", async () => {
  const { token } = await world.signUp()
  world.told.length = 0
  const { json: key } = await create(token)
  await world.call("PATCH", `/keys/${key.id}`, { token, body: { requests_per_minute: 5 } })
  await world.call("POST", `/keys/${key.id}/revoke`, { token })
  const told = { keyId: key.id, keyHash: Buffer.from(hashApiKey(key.key)).toString("hex") }
  expect(world.told).toEqual([told, told, told])
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
