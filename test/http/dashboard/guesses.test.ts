/** Wrong passwords over HTTP, from networks that a header names: who waits for whom. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test"
import { openWorld, PASSWORD, type World } from "./world.ts"

const FROM = "x-client-address"
let world: World
beforeAll(async () => void (world = await openWorld({ addressHeader: FROM })))
afterAll(() => world[Symbol.asyncDispose]())
beforeEach(() => void (world.pauses.length = 0))

const from = (address: string) => ({ headers: { [FROM]: address } })
const signIn = (email: string, address: string, password = "a wrong password") =>
  world.call("POST", "/auth/sign-in", { ...from(address), body: { email, password } })
/** An account of which somebody has signed in from this machine alone. */
async function owner() {
  const person = await world.signUp()
  return { ...person, known: await networks(person.id) }
}
const networks = async (id: string) =>
  (await world.sql`select network from account_networks where account_id = ${id} order by network`).map(
    (row) => row["network"] as string,
  )
/** So many guesses at once, each from a network of its own. */
const crowd = (email: string, count: number) =>
  Promise.all(Array.from({ length: count }, (_, n) => signIn(email, `198.51.${n >> 8}.${n & 255}`)))

test("guesses from one address do not make the owner wait at another", async () => {
  const { email } = await owner()
  for (let n = 0; n < 12; n++) expect((await signIn(email, "203.0.113.66")).status).toBe(401)
  expect(world.pauses).toHaveLength(5)
  world.pauses.length = 0
  expect((await signIn(email, "192.0.2.1", PASSWORD)).status).toBe(200)
  expect(world.pauses).toEqual([])
})

test("a crowd makes strangers wait, and not a network from which somebody has signed in", async () => {
  const { email, id } = await owner()
  expect((await signIn(email, "192.0.2.7", PASSWORD)).status).toBe(200)
  expect(await networks(id)).toEqual(["127.0.0.1", "192.0.2.7"])
  // From which somebody has signed in, but to another account.
  expect((await signIn((await owner()).email, "192.0.2.200", PASSWORD)).status).toBe(200)
  const answers = await crowd(email, 130)
  for (const { status } of answers) expect(status).toBe(401)
  const turnedAway = answers.filter(({ headers }) => headers.has("retry-after"))
  expect(turnedAway.length).toBeGreaterThan(10)
  expect(world.pauses.length).toBeLessThanOrEqual(10)
  const stranger = await signIn(email, "192.0.2.200", PASSWORD)
  expect([stranger.status, stranger.json.code, stranger.headers.has("retry-after")]).toEqual([
    401,
    "auth.unauthorized",
    true,
  ])
  world.pauses.length = 0
  expect((await signIn(email, "192.0.2.7", PASSWORD)).status).toBe(200)
  expect(world.pauses).toEqual([])
  // A network is known for 90 days after the last sign-in.
  const aged = async (days: number) => {
    await world.sql`update account_networks set signed_in_at = now() - make_interval(days => ${days}) where account_id = ${id}`
    return (await signIn(email, "192.0.2.7", PASSWORD)).status
  }
  expect(await aged(89)).toBe(200)
  const [row] = await world.sql`
    select signed_in_at > now() - interval '1 day' as today from account_networks where account_id = ${id} and network = '192.0.2.7'`
  expect(row).toEqual({ today: true })
  expect(await aged(91)).toBe(401)
})

test("another spelling by which the database finds an account is no other account to guess at", async () => {
  const email = `iris-${crypto.randomUUID()}@example.com`
  await world.signUp(email)
  const spelt = email.replace("i", "\u0130")
  // A dotted capital I is one letter in small there, and two here.
  expect(await world.sql`select lower(${spelt}) = ${email} as is_same`).toEqual([{ is_same: true }] as never)
  await crowd(email, 130)
  const stranger = await signIn(spelt, "192.0.2.201", PASSWORD)
  expect([stranger.status, stranger.headers.has("retry-after")]).toEqual([401, true])
})

test("who has no account is slowed down and turned away in the same words", async () => {
  const email = `nobody-${crypto.randomUUID()}@example.com`
  const strangers = await crowd(email, 130)
  const { email: taken } = await owner()
  const owners = await crowd(taken, 130)
  const shape = (answers: typeof strangers) =>
    [...new Set(answers.map(({ status, json }) => `${status} ${json.code} ${json.error}`))].sort()
  expect(shape(strangers)).toEqual(shape(owners))
  expect(shape(owners)).toHaveLength(2)
})

test("a session that was stolen guesses no faster, and makes its network none of the owner's", async () => {
  const { email, id, token } = await owner()
  const thief = "203.0.113.99"
  const guess = { ...from(thief), token, body: { current: "a wrong password", new: "another password" } }
  for (let n = 0; n < 6; n++) expect((await world.call("POST", "/auth/password", guess)).status).toBe(401)
  const deletion = { ...from(thief), token, body: { password: "a wrong password" } }
  expect((await world.call("DELETE", "/account", deletion)).status).toBe(401)
  expect(world.pauses).toHaveLength(2)
  expect(await networks(id)).toEqual(["127.0.0.1"])
  world.pauses.length = 0
  // The owner takes the account back without a wait.
  const change = { ...from("127.0.0.1"), token, body: { current: PASSWORD, new: "quite another password" } }
  expect((await world.call("POST", "/auth/password", change)).status).toBe(204)
  expect(world.pauses).toEqual([])
  expect((await signIn(email, "192.0.2.1", "quite another password")).status).toBe(200)
})

test("of an account's networks the latest twenty are kept, its own at a change of password, none when it is deleted", async () => {
  const { email, id } = await owner()
  for (let n = 1; n <= 25; n++) expect((await signIn(email, `192.0.2.${100 + n}`, PASSWORD)).status).toBe(200)
  expect(await networks(id)).toEqual(Array.from({ length: 20 }, (_, n) => `192.0.2.${106 + n}`))
  const { json } = await signIn(email, "2001:db8::7", PASSWORD)
  const change = { ...from("2001:db8::8"), token: json.session_token, body: { current: PASSWORD, new: PASSWORD } }
  expect((await world.call("POST", "/auth/password", change)).status).toBe(204)
  expect(await networks(id)).toEqual(["2001:db8:0:0::/64"])
  const { json: last } = await signIn(email, "192.0.2.1", PASSWORD)
  const deletion = { ...from("192.0.2.1"), token: last.session_token, body: { password: PASSWORD } }
  expect((await world.call("DELETE", "/account", deletion)).status).toBe(204)
  expect(await networks(id)).toEqual([])
})

test("an account has a hundred sessions at most, of which the one that was seen longest ago ends", async () => {
  const { email, id, token } = await owner()
  await world.sql`
    insert into sessions (token_hash, account_id, expires_at, last_seen_at)
    select sha256(n::text::bytea), ${id}, now() + interval '1 day', now() - interval '1 hour' * n
    from generate_series(1, 120) n`
  expect((await signIn(email, "127.0.0.1", PASSWORD)).status).toBe(200)
  const [row] = await world.sql`
    select count(*)::int as sessions, min(last_seen_at) > now() - interval '99 hours' as latest
    from sessions where account_id = ${id}`
  expect(row).toEqual({ sessions: 100, latest: true })
  expect((await world.call("GET", "/account", { token, ...from("127.0.0.1") })).status).toBe(200)
})
