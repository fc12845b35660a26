/** What touches all keys of an account, of which there may be thousands, is done so often in a time. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { openWorld, type World } from "./world.ts"

let world: World
beforeAll(async () => void (world = await openWorld()))
afterAll(() => world[Symbol.asyncDispose]())

/** As if it had been done so often since. */
const done = (id: string, times: number) =>
  world.sql`update allowances set used = used + ${times} where name like ${`%${id}`}`
const over = (id: string) =>
  world.sql`update allowances set ends_at = now() - interval '1 second' where name like ${`%${id}`}`

test("an account changes its time zone fifty times a day", async () => {
  const [{ id, token }, other] = [await world.signUp(), await world.signUp()]
  const patch = (body: object, of = token) => world.call("PATCH", "/account", { token: of, body })
  // What is no zone, or null, changes nothing and counts for nothing.
  expect((await patch({ time_zone: "Mars/Olympus" })).status).toBe(400)
  expect((await patch({ time_zone: null })).status).toBe(200)
  expect((await patch({ time_zone: "UTC" })).status).toBe(200)
  await done(id, 48)
  expect((await patch({ time_zone: "Asia/Tokyo" })).status).toBe(200)
  const refused = await patch({ time_zone: "Asia/Jayapura", buyer_name: "Ana" })
  expect([refused.status, refused.json.code]).toEqual([429, "gateway.capacity"])
  expect(Number(refused.headers.get("retry-after"))).toBeWithin(86_000, 86_401)
  const unchanged = { time_zone: "Asia/Tokyo", buyer_name: null, language: "en" }
  expect((await patch({ language: "en" })).json).toMatchObject(unchanged)
  expect((await patch({ time_zone: "Asia/Jayapura" }, other.token)).status).toBe(200)
  await over(id)
  expect((await patch({ time_zone: "Asia/Jayapura" })).json.time_zone).toBe("Asia/Jayapura")
})

test("an account's ceiling is set three hundred times an hour; a pause is ended, and a key's own set, as often as its owner likes", async () => {
  const [{ id, token }, other] = [await world.signUp(), await world.signUp()]
  const set = (ceiling: number, of = token) =>
    world.call("PUT", "/account/breaker", { token: of, body: { ceiling_micro: ceiling, factor: null } })
  expect((await set(1)).status).toBe(200)
  await done(id, 298)
  expect((await set(2)).status).toBe(200)
  const refused = await set(3)
  expect([refused.status, refused.json.code]).toEqual([429, "gateway.capacity"])
  expect(Number(refused.headers.get("retry-after"))).toBeWithin(3_000, 3_601)
  expect((await world.call("GET", "/account/breaker", { token })).json.ceiling_micro).toBe(2)
  expect((await world.call("POST", "/account/breaker/resume", { token })).status).toBe(204)
  const { json: key } = await world.call("POST", "/keys", { token, body: { name: "a key" } })
  const body = { ceiling_micro: 5 }
  expect((await world.call("PUT", `/keys/${key.id}/breaker`, { token, body })).status).toBe(200)
  expect((await set(3, other.token)).status).toBe(200)
  await over(id)
  expect((await set(3)).json.ceiling_micro).toBe(3)
})
