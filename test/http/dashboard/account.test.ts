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
