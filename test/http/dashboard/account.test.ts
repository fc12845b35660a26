import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { openWorld, PASSWORD, type World } from "./world.ts"

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

  test.each([["Mars/Olympus"], [""], ["+07:00"], [7], ["Asia/Jakarta'; drop table accounts"]])(
    "may not be %j",
    async (zone) => {
      const { token } = await world.signUp()
      const { status, json } = await world.call("PATCH", "/account", { token, body: { time_zone: zone } })
      expect([status, json.code]).toEqual([400, "request.invalid"])
      expect((await world.call("GET", "/account", { token })).json.time_zone).toBe("Asia/Jakarta")
    },
  )

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
    const none = { low_balance_email: null, low_balance_threshold_micro: null }
    const { status, json } = await patch(token, { ...none, language: null, time_zone: null })
    expect(status).toBe(200)
    expect(json).toMatchObject({ ...none, language: "id", time_zone: "Asia/Jakarta" })
    expect((await world.call("GET", "/account", { token })).json).toEqual(json)
  })

  const refused: [string, unknown][] = [
    ["language", "de"],
    ["language", 1],
    ["low_balance_email", "nobody"],
    ["low_balance_email", "a@example.com,b@example.com"],
    ["low_balance_email", "a@example.com\r\nBcc: b@example.com"],
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
