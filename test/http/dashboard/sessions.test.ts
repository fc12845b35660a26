import { afterAll, beforeAll, expect, test } from "bun:test"
import { Elysia } from "elysia"
import type { Session } from "../../../src/accounts/accounts.ts"
import type { Failure } from "../../../src/failure/failure.ts"
import type { Outcome } from "../../../src/http/changes.ts"
import { signedInBy } from "../../../src/http/dashboard/session.ts"
import { edge, edgeHandler } from "../../../src/http/edge.ts"
import { createLog } from "../../../src/log.ts"
import { ownerSession } from "./session.ts"
import { openWorld, PASSWORD, type World } from "./world.ts"

let world: World
beforeAll(async () => void (world = await openWorld()))
afterAll(() => world[Symbol.asyncDispose]())

const signIn = async (email: string, userAgent = "a browser") => {
  const { json } = await world.call("POST", "/auth/sign-in", {
    body: { email, password: PASSWORD },
    headers: { "user-agent": userAgent },
  })
  return json.session_token as string
}
interface Listed {
  readonly id: string
  readonly current: boolean
  readonly last_seen_at: string
  readonly [field: string]: unknown
}
const list = async (token: string): Promise<Listed[]> =>
  (await world.call("GET", "/account/sessions", { token })).json.data
const own = async (token: string) => (await list(token)).find(({ current }) => current)
const works = async (token: string) => (await world.call("GET", "/account", { token })).status === 200

test("every sign-in is listed with its browser and address, and which of them asks", async () => {
  const { email, token } = await world.signUp()
  const other = await signIn(email, "another\tbrowser ".padEnd(400, "x"))
  const sessions = await list(token)
  expect(sessions).toHaveLength(2)
  for (const session of sessions) {
    expect(session).toEqual({
      id: expect.stringMatching(/^ses_[A-Za-z0-9_-]+$/),
      created_at: expect.any(String),
      last_seen_at: expect.any(String),
      expires_at: expect.any(String),
      user_agent: expect.any(String),
      address: "127.0.0.1",
      current: expect.any(Boolean),
    })
    expect(JSON.stringify(session)).not.toContain(token)
  }
  expect(sessions.filter(({ current }) => current)).toHaveLength(1)
  expect((await own(other))?.["user_agent"]).toBe("another browser ".padEnd(300, "x"))
})

test("a session is seen once a minute, from where it is then", async () => {
  const { id, token } = await world.signUp()
  const first = (await own(token))?.last_seen_at
  await world.call("GET", "/account", { token, headers: { "user-agent": "changed" } })
  expect(await own(token)).toMatchObject({ last_seen_at: first, user_agent: expect.not.stringMatching("changed") })
  await world.sql`update sessions set last_seen_at = now() - interval '61 seconds' where account_id = ${id}`
  await world.call("GET", "/account", { token, headers: { "user-agent": "changed" } })
  const seen = await own(token)
  expect(seen?.["user_agent"]).toBe("changed")
  expect(Date.parse(seen?.last_seen_at ?? "")).toBeGreaterThanOrEqual(Date.parse(first ?? ""))
})

test("one session is ended by its id, and no other", async () => {
  const { email, token } = await world.signUp()
  const other = await signIn(email)
  const id = (await own(other))?.id
  const ended = await world.call("DELETE", `/account/sessions/${id}`, { token })
  expect([ended.status, ended.text]).toEqual([204, ""])
  expect([await works(token), await works(other)]).toEqual([true, false])
  expect((await world.call("DELETE", `/account/sessions/${id}`, { token })).status).toBe(404)
})

test("all others are ended at once, and the one that asks is left", async () => {
  const { email, token } = await world.signUp()
  const others = [await signIn(email), await signIn(email)]
  expect((await world.call("DELETE", "/account/sessions", { token })).status).toBe(204)
  expect(await Promise.all([token, ...others].map(works))).toEqual([true, false, false])
  expect(await list(token)).toHaveLength(1)
})

test("a foreign session is as unknown as none", async () => {
  const [owner, other] = [await world.signUp(), await world.signUp()]
  const foreign = (await own(owner.token))?.id
  for (const id of [foreign, "ses_unknown", "%00", "x".repeat(300)]) {
    const answer = await world.call("DELETE", `/account/sessions/${id}`, { token: other.token })
    expect([answer.status, answer.json.code]).toEqual([404, "resource.not_found"])
  }
  expect((await world.call("DELETE", "/account/sessions", { token: other.token })).status).toBe(204)
  expect(await works(owner.token)).toBe(true)
})

test("an expired session is not listed", async () => {
  const { email, id, token } = await world.signUp()
  await signIn(email)
  const current = (await own(token))?.id ?? ""
  await world.sql`update sessions set expires_at = now() where account_id = ${id} and id <> ${current}`
  expect(await list(token)).toHaveLength(1)
})

test("a session is good for thirty days, that of a sign-up and that of a sign-in, and is no longer for being used", async () => {
  const { email, id, token } = await world.signUp()
  const tokens = [token, await signIn(email)]
  const later = (time: string) => world.sql`
    update sessions set expires_at = expires_at - ${time}::interval where account_id = ${id}`
  await later("29 days 23:59")
  expect(await Promise.all(tokens.map(works))).toEqual([true, true])
  await later("1 minute")
  expect(await Promise.all(tokens.map(works))).toEqual([false, false])
})

test("nothing here was answered by a bug", () => expect(world.bugs).toEqual([]))

const whose = (request: Request) => {
  const [accountId = "", id = ""] = (request.headers.get("x-who") ?? "").split(" ")
  return Promise.resolve({ ...ownerSession(accountId), id })
}

/** A route that ends when it is told to, for sessions that a header names: `account session`. */
function slowRoute() {
  const changes = { once: (_: unknown, work: (change: undefined) => Promise<Outcome | Failure>) => work(undefined) }
  const running: string[] = []
  const gate = Promise.withResolvers<void>()
  const handler = async ({ session }: { readonly session: Session }) => {
    running.push(`${session.accountId} ${session.id}`)
    await gate.promise
    return undefined
  }
  const terms = { may: "read", tag: "Account", summary: { en: "Slow", id: "Lambat" }, status: 204 } as const
  const signedIn = signedInBy(Object.assign(whose, { changes }))
  const app = new Elysia().use(edge).post(...signedIn("/slow", terms, handler))
  const handle = edgeHandler(app, { log: createLog("error", () => {}), now: Date.now })
  const ask = (who: string) =>
    handle(new Request("http://127.0.0.1/slow", { method: "POST", headers: { "x-who": who } }), () => "")
  /** Resolves when so many have begun, and no more of those who were sent. */
  const begun = async (count: number) => {
    while (running.length < count) await Bun.sleep(5)
    await Bun.sleep(100)
  }
  return { running, ask, begun, open: () => gate.resolve() }
}

test("changes that a session sends by the hundred wait for each other, and nobody else's wait for them", async () => {
  const { running, ask, begun, open } = slowRoute()
  const crowd = ["one", "two", "three"].flatMap((id) => Array.from({ length: 100 }, () => ask(`acc_turns ${id}`)))
  await begun(4)
  expect(running).toHaveLength(4)
  const others = [ask("acc_other four"), ask("acc_other five")]
  await begun(6)
  expect(running.slice(4)).toEqual(["acc_other four", "acc_other five"])
  open()
  for (const { status } of await Promise.all([...crowd, ...others])) expect(status).toBe(204)
  expect(running).toHaveLength(302)
})

test("of one session no more wait than there is room for, and the account's other session has its turn among the next", async () => {
  const { running, ask, begun, open } = slowRoute()
  const crowd = Array.from({ length: 1_001 }, () => ask("acc_full stolen"))
  await begun(2)
  expect(running).toHaveLength(2)
  const owner = ask("acc_full own")
  await begun(3)
  expect(running.at(-1)).toBe("acc_full own")
  open()
  expect((await owner).status).toBe(204)
  const statuses = (await Promise.all(crowd)).map(({ status }) => status)
  expect(statuses.filter((status) => status === 429)).toHaveLength(1)
})
