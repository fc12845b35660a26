/** How many accounts may be made from one network, over HTTP. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { openWorld, PASSWORD, type World } from "./world.ts"

const FROM = "x-client-address"
const limits = { perHour: 12, perDay: 20 }
let world: World
beforeEach(async () => void (world = await openWorld({ addressHeader: FROM, signUps: limits })))
afterEach(() => world[Symbol.asyncDispose]())

const signUp = (address: string, email = `${crypto.randomUUID()}@example.com`) =>
  world.call("POST", "/auth/sign-up", { headers: { [FROM]: address }, body: { email, password: PASSWORD } })
const count = async () => {
  const [row] = await world.sql`select count(*)::int as accounts from accounts`
  return row?.["accounts"] as number
}
const pass = (time: string) =>
  world.sql`update sign_ups set hour_began_at = hour_began_at - ${time}::interval, day_began_at = day_began_at - ${time}::interval`

test("ten are made at once, more wait for each other, and beyond the hour's number are told when to come again", async () => {
  const answers = []
  for (let n = 0; n < 13; n++) answers.push(await signUp("192.0.2.1"))
  expect(answers.map(({ status }) => status)).toEqual([...Array.from({ length: 12 }, () => 201), 429])
  expect(world.pauses).toHaveLength(3)
  const { json, headers } = answers.at(-1)!
  expect(json).toMatchObject({ code: "rate_limit.sign_up", retryable: true })
  expect(headers.get("x-should-retry")).toBeNull()
  expect(Number(headers.get("retry-after"))).toBeWithin(3_500, 3_601)
  expect(await count()).toBe(12)
  // Of others nobody is refused.
  expect((await signUp("192.0.2.2")).status).toBe(201)
})

test("after an hour as many may come again, until the day's number is reached", async () => {
  for (let n = 0; n < 12; n++) expect((await signUp("192.0.2.1")).status).toBe(201)
  await pass("1 hour")
  const statuses = []
  for (let n = 0; n < 9; n++) statuses.push((await signUp("192.0.2.1")).status)
  expect(statuses).toEqual([...Array.from({ length: 8 }, () => 201), 429])
  const refused = await signUp("192.0.2.1")
  expect(Number(refused.headers.get("retry-after"))).toBeWithin(22 * 3_600, 23 * 3_600 + 1)
  await pass("23 hours")
  expect((await signUp("192.0.2.1")).status).toBe(201)
})

test("a database's clock that is set back keeps no network out until it is where it was", async () => {
  for (let n = 0; n < 12; n++) expect((await signUp("192.0.2.1")).status).toBe(201)
  await pass("-1 year")
  const statuses = []
  for (let n = 0; n < 13; n++) statuses.push((await signUp("192.0.2.1")).status)
  expect(statuses).toEqual([...Array.from({ length: 12 }, () => 201), 429])
  // What began a moment after this statement is of another one, and no other time.
  await pass("-10 seconds")
  expect((await signUp("192.0.2.1")).status).toBe(429)
})

test("forty at once from one network of IPv6 make as many accounts as are allowed", async () => {
  const answers = await Promise.all(Array.from({ length: 40 }, (_, n) => signUp(`2001:db8:0:1::${n}`)))
  const of = (status: number) => answers.filter((answer) => answer.status === status)
  expect(of(201).length + of(429).length).toBe(40)
  expect(of(201)).toHaveLength(12)
  for (const { json, headers } of of(429)) {
    expect(json.code).toBe("rate_limit.sign_up")
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(0)
  }
  expect((await signUp("2001:db8:0:2::1")).status).toBe(201)
})

test("all networks of one IPv6 /48 make four times as many as one", async () => {
  const answers = []
  for (let n = 0; n < 5; n++)
    answers.push(...(await Promise.all(Array.from({ length: 12 }, () => signUp(`2001:db8:7:${n}::1`)))))
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(48)
  expect(answers.at(-1)?.json.code).toBe("rate_limit.sign_up")
  expect((await signUp("2001:db8:8::1")).status).toBe(201)
})

test("an address that is taken counts too, and a body that is wrong does not", async () => {
  const emails = []
  for (let n = 0; n < 4; n++) emails.push((await world.signUp()).email)
  expect((await world.call("POST", "/auth/sign-up", { headers: { [FROM]: "192.0.2.1" }, body: {} })).status).toBe(400)
  for (let n = 0; n < 12; n++) expect((await signUp("192.0.2.1", emails[n % 4])).status).toBe(400)
  expect((await signUp("192.0.2.1")).json.code).toBe("rate_limit.sign_up")
})

test("this machine itself is not counted", async () => {
  for (const address of ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
    for (let n = 0; n < 7; n++) expect((await signUp(address)).status).toBe(201)
  expect(await world.sql`select from sign_ups`).toHaveLength(0)
})

test("a network that made none for a day is forgotten", async () => {
  expect((await signUp("192.0.2.1")).status).toBe(201)
  await pass("25 hours")
  expect((await signUp("192.0.2.2")).status).toBe(201)
  expect(await world.sql`select network from sign_ups`).toEqual([{ network: "192.0.2.2" }] as never)
})
