import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { LEGAL_VERSION, openWorld, PASSWORD, type World } from "./world.ts"

let world: World
beforeAll(async () => void (world = await openWorld()))
afterAll(() => world[Symbol.asyncDispose]())

describe("the balance", () => {
  test("is what is posted, and what open calls hold of it", async () => {
    const { id, token } = await world.signUp()
    await world.sql`update balances set posted_micro = 5000000 where account_id = ${id}`
    await world.sql`
      insert into openings values ('req_open', 'proc', ${id}, 'key_x', 1, 'm', 'chat', false, 1200000, 1, now())`
    const { json } = await world.call("GET", "/account", { token })
    expect([json.balance_micro, json.held_micro]).toEqual([5_000_000, 1_200_000])
  })
})

describe("the time zone", () => {
  test.each(["Asia/Makassar", "UTC", "America/Argentina/Buenos_Aires"])("may be %s", async (zone) => {
    const { token } = await world.signUp()
    const { status, json } = await world.call("PATCH", "/account", { token, body: { time_zone: zone } })
    expect([status, json.time_zone]).toEqual([200, zone])
  })

  // The database takes some of them, which no days can be counted by here.
  test.each([
    ["Mars/Olympus"],
    [""],
    ["+07:00"],
    [7],
    ["Asia/Jakarta'; drop table accounts"],
    ["WIB-7"],
    ["Foo+7"],
    ["Factory"],
  ])("may not be %j", async (zone) => {
    const { token } = await world.signUp()
    const { status, json } = await world.call("PATCH", "/account", { token, body: { time_zone: zone } })
    expect([status, json.code]).toEqual([400, "request.invalid"])
    expect((await world.call("GET", "/account", { token })).json.time_zone).toBe("Asia/Jakarta")
  })

  test("stays as it is when it is absent or null", async () => {
    const { token } = await world.signUp()
    for (const body of [{}, { time_zone: null }]) {
      const { status, json } = await world.call("PATCH", "/account", { token, body })
      expect([status, json.time_zone]).toEqual([200, "Asia/Jakarta"])
    }
  })

  test("is told to the live keys, whose budgets follow it", async () => {
    const { token } = await world.signUp()
    const key = (await world.call("POST", "/keys", { token, body: { name: "a key" } })).json
    world.told.length = 0
    await world.call("PATCH", "/account", { token, body: { time_zone: "Asia/Jayapura" } })
    expect(world.told.map(({ keyId }) => keyId)).toEqual([key.id])
  })
})

const patch = (token: string, body: unknown) => world.call("PATCH", "/account", { token, body })

describe("the settings", () => {
  const settings = { language: "en", low_balance_email: "money@example.com", low_balance_threshold_micro: 50_000_000 }

  test("are changed one by one, and null takes an address and a threshold away", async () => {
    const { token } = await world.signUp()
    expect((await patch(token, settings)).json).toMatchObject(settings)
    expect((await patch(token, { language: "id" })).json).toMatchObject({ ...settings, language: "id" })
    for (const low_balance_threshold_micro of [0, Number.MAX_SAFE_INTEGER])
      expect((await patch(token, { low_balance_threshold_micro })).json).toMatchObject({ low_balance_threshold_micro })
    const none = { low_balance_email: null, low_balance_threshold_micro: null }
    const { status, json } = await patch(token, { ...none, language: null, time_zone: null })
    expect(status).toBe(200)
    expect(json).toMatchObject({ ...none, language: "id", time_zone: "Asia/Jakarta" })
    expect((await world.call("GET", "/account", { token })).json).toEqual(json)
  })

  test("name the buyer, whose tax number is kept as its digits", async () => {
    const { token } = await world.signUp()
    const buyer = { buyer_name: "PT Ünïcode 株式会社", buyer_address: "Jalan Satu 1\nJakarta" }
    expect((await patch(token, { ...buyer, buyer_npwp: "01.234.567.8-901.000" })).json).toMatchObject({
      ...buyer,
      buyer_npwp: "012345678901000",
    })
    expect((await patch(token, { buyer_npwp: "1234567890123456" })).json).toMatchObject({
      ...buyer,
      buyer_npwp: "1234567890123456",
    })
    expect((await patch(token, { buyer_name: "n".repeat(200), buyer_address: null })).json).toMatchObject({
      buyer_name: "n".repeat(200),
      buyer_address: null,
      buyer_npwp: "1234567890123456",
    })
  })

  const refused: [string, unknown][] = [
    ["lang", "en"],
    ["language", "de"],
    ["language", 1],
    ["low_balance_email", "nobody"],
    ["low_balance_email", "a@example.com,b@example.com"],
    ["low_balance_email", "a@example.com\r\nBcc: b@example.com"],
    ["buyer_npwp", "1234"],
    ["buyer_npwp", "12345678901234"],
    ["buyer_npwp", "12345678901234567"],
    ["buyer_npwp", "01-234-567-8-901-000"],
    ["buyer_npwp", 123_456_789_012_345],
    ["buyer_name", ""],
    ["buyer_name", " "],
    ["buyer_name", "two\nlines"],
    ["buyer_name", "n".repeat(201)],
    ["buyer_name", "\u200b\u2060"],
    ["buyer_name", "half a letter \ud800"],
    ["buyer_name", "PT \u202eujaM"],
    ["buyer_address", "Jalan Satu\n\u2067Jakarta"],
    ["low_balance_email", "a\u202d@example.com"],
    ["buyer_address", "\u200b\n\u200b"],
    ["low_balance_email", "half\ud800@example.com"],
    ["buyer_address", "\u0000"],
    ["buyer_address", "a".repeat(501)],
    ["buyer_address", "a\n".repeat(7)],
    ["low_balance_threshold_micro", -1],
    ["low_balance_threshold_micro", 0.5],
    ["low_balance_threshold_micro", "5"],
    ["low_balance_threshold_micro", 9_007_199_254_740_992],
  ]
  test.each(refused)("refuse a %s that is %j, and all with it", async (name, value) => {
    const { token } = await world.signUp()
    const { status, json } = await patch(token, { time_zone: "UTC", [name]: value })
    expect([status, json.code]).toEqual([400, "request.invalid"])
    expect(json.error).toContain(name)
    expect((await world.call("GET", "/account", { token })).json.time_zone).toBe("Asia/Jakarta")
  })

  test("that leave the time zone alone tell no key", async () => {
    const { token } = await world.signUp()
    await world.call("POST", "/keys", { token, body: { name: "a key" } })
    world.told.length = 0
    await patch(token, settings)
    expect(world.told).toEqual([])
  })
})

test("an account that is frozen says so", async () => {
  const { id, token } = await world.signUp()
  expect((await world.call("GET", "/account", { token })).json.frozen).toBe(false)
  await world.sql`update accounts set frozen_at = now(), frozen_reason = 'a test' where id = ${id}`
  expect((await world.call("GET", "/account", { token })).json.frozen).toBe(true)
})

describe("deletion", () => {
  test("needs the password", async () => {
    const { token } = await world.signUp()
    const wrong = await world.call("DELETE", "/account", { token, body: { password: "wrong password" } })
    expect([wrong.status, wrong.json.code]).toEqual([401, "auth.unauthorized"])
    const none = await world.call("DELETE", "/account", { token, body: {} })
    expect([none.status, none.json.code]).toEqual([400, "request.invalid"])
    expect((await world.call("GET", "/account", { token })).status).toBe(200)
  })

  test("ends the sessions, frees the address and is told to every key", async () => {
    const { id, email, token } = await world.signUp()
    const keys = []
    for (const name of ["one", "two"]) keys.push((await world.call("POST", "/keys", { token, body: { name } })).json.id)
    world.told.length = 0
    const { status, text } = await world.call("DELETE", "/account", { token, body: { password: PASSWORD } })
    expect([status, text]).toEqual([204, ""])
    expect(new Set(world.told.map(({ keyId }) => keyId))).toEqual(new Set(keys))
    expect((await world.call("GET", "/account", { token })).status).toBe(401)
    expect((await world.call("POST", "/auth/sign-in", { body: { email, password: PASSWORD } })).status).toBe(401)
    const [row] = await world.sql`select deleted_at from accounts where id = ${id}`
    expect(row?.deleted_at).toBeInstanceOf(Date)
    expect((await world.signUp(email)).id).not.toBe(id)
  })
})

test("a database that is away is 503", async () => {
  await using other = await openWorld()
  const { token } = await other.signUp()
  await other.db.close()
  const { status, json } = await other.call("GET", "/account", { token })
  expect([status, json.code, json.retryable]).toEqual([503, "dependency.database_unavailable", true])
})

test("nothing here was answered by a bug", () => expect(world.bugs).toEqual([]))

const agreed = async (token: string) => {
  const { json } = await world.call("GET", "/account", { token })
  return [json.agreed_version, json.agreed_at]
}
const agree = (token: string, version: unknown) =>
  world.call("POST", "/account/agreement", { token, body: { version } })

describe("the agreement to the terms", () => {
  test("is none for who signs up with an address and a password alone", async () => {
    const { token } = await world.signUp()
    expect(await agreed(token)).toEqual([null, null])
  })

  test("is the version that a sign-up names, with its time", async () => {
    const body = { email: `a${crypto.randomUUID()}@example.com`, password: PASSWORD, agreed_version: LEGAL_VERSION }
    const { status, json } = await world.call("POST", "/auth/sign-up", { body })
    expect([status, json.account.agreed_version]).toEqual([201, LEGAL_VERSION])
    expect(Math.abs(Date.parse(json.account.agreed_at) - Date.now())).toBeLessThan(60_000)
  })

  test.each([["0123456789ac"], [""], [7], ["x".repeat(65)]])(
    "is refused of the version %j, and no account is made",
    async (version) => {
      const email = `a${crypto.randomUUID()}@example.com`
      const body = { email, password: PASSWORD, agreed_version: version }
      const { status, json } = await world.call("POST", "/auth/sign-up", { body })
      expect([status, json.code]).toEqual([400, "request.invalid"])
      expect(await world.sql`select from accounts where email = ${email}`).toHaveLength(0)
      const { token } = await world.signUp()
      const answer = await agree(token, version)
      expect([answer.status, answer.json.code]).toEqual([400, "request.invalid"])
      expect(await agreed(token)).toEqual([null, null])
    },
  )

  test("is given later; twice to the same version is once, and to another one anew", async () => {
    const { id, token } = await world.signUp()
    const { status, json } = await agree(token, LEGAL_VERSION)
    expect([status, json.agreed_version]).toEqual([200, LEGAL_VERSION])
    const first = await agreed(token)
    await agree(token, LEGAL_VERSION)
    expect(await agreed(token)).toEqual(first)
    await world.sql`update accounts set agreed_version = 'older', agreed_at = '2026-01-01' where id = ${id}`
    await agree(token, LEGAL_VERSION)
    const [version, at] = await agreed(token)
    expect(version).toBe(LEGAL_VERSION)
    expect(at > "2026-01-02").toBe(true)
  })
})
