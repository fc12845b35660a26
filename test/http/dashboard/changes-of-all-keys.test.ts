import { expect, test } from "bun:test"
import { openWorld } from "./world.ts"

test("an account changes its time zone twenty times a day, because each change touches all of its keys", async () => {
  await using world = await openWorld()
  const [{ id, token }, other] = [await world.signUp(), await world.signUp()]
  const patch = (body: object, of = token) => world.call("PATCH", "/account", { token: of, body })
  // What is no zone, or null, changes nothing and counts for nothing.
  expect((await patch({ time_zone: "Mars/Olympus" })).status).toBe(400)
  expect((await patch({ time_zone: null })).status).toBe(200)
  for (let n = 0; n < 20; n++) expect((await patch({ time_zone: n % 2 === 0 ? "UTC" : "Asia/Tokyo" })).status).toBe(200)
  const refused = await patch({ time_zone: "Asia/Jayapura", buyer_name: "Ana" })
  expect([refused.status, refused.json.code]).toEqual([429, "gateway.capacity"])
  expect(Number(refused.headers.get("retry-after"))).toBeWithin(86_000, 86_401)
  expect((await patch({ language: "en" })).json).toMatchObject({
    time_zone: "Asia/Tokyo",
    buyer_name: null,
    language: "en",
  })
  expect((await patch({ time_zone: "Asia/Jayapura" }, other.token)).status).toBe(200)
  await world.sql`update allowances set ends_at = now() - interval '1 second' where name like ${`%${id}`}`
  expect((await patch({ time_zone: "Asia/Jayapura" })).json.time_zone).toBe("Asia/Jayapura")
})

test("an account's ceiling is set, or its pause ended, sixty times an hour; a key's own as often as its owner likes", async () => {
  await using world = await openWorld()
  const [{ id, token }, other] = [await world.signUp(), await world.signUp()]
  const set = (ceiling: number, of = token) =>
    world.call("PUT", "/account/breaker", { token: of, body: { ceiling_micro: ceiling, factor: null } })
  const resume = () => world.call("POST", "/account/breaker/resume", { token })
  for (let n = 1; n <= 30; n++) expect([(await set(n)).status, (await resume()).status]).toEqual([200, 204])
  for (const refused of [await set(31), await resume()]) {
    expect([refused.status, refused.json.code]).toEqual([429, "gateway.capacity"])
    expect(Number(refused.headers.get("retry-after"))).toBeWithin(3_000, 3_601)
  }
  expect((await world.call("GET", "/account/breaker", { token })).json.ceiling_micro).toBe(30)
  const { json: key } = await world.call("POST", "/keys", { token, body: { name: "a key" } })
  const body = { ceiling_micro: 5 }
  expect((await world.call("PUT", `/keys/${key.id}/breaker`, { token, body })).status).toBe(200)
  expect((await set(31, other.token)).status).toBe(200)
  await world.sql`update allowances set ends_at = now() - interval '1 second' where name like ${`%${id}`}`
  expect((await set(32)).json.ceiling_micro).toBe(32)
})
