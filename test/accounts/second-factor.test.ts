/** The second factor: set up, asked for, guessed at, used twice, lost. Over HTTP, with real codes. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { TOTP } from "otpauth"
import { RECOVERY_CODES } from "../../src/accounts/fields.ts"
import { CODE_TRIES, SecondFactors } from "../../src/accounts/second-factor.ts"
import { Failure } from "../../src/failure/failure.ts"
import { hashSessionToken } from "../../src/accounts/bearer-tokens.ts"
import { allowanceStore } from "../../src/store/allowances.ts"
import { accountMailStore } from "../../src/store/account-mails.ts"
import { passkeyStore } from "../../src/store/passkeys.ts"
import { secondFactorStore, STEPS_ELSEWHERE } from "../../src/store/second-factors.ts"
import { sessionStore } from "../../src/store/sessions.ts"
import { openWorld, PASSWORD, type World } from "../http/dashboard/world.ts"

let world: World
beforeAll(async () => {
  world = await openWorld({ sendsLinks: true, addressHeader: "x-real-ip" })
})
afterAll(() => world[Symbol.asyncDispose]())

const post = (path: string, body: unknown, token?: string) =>
  world.call("POST", path, { body, ...(token !== undefined && { token }) })
/** The next step's code each time: one is taken once. */
const codeOf = (app: TOTP) => {
  world.pass(30_000)
  return app.generate({ timestamp: world.now() })
}

async function person() {
  const someone = await world.signUp()
  await world.sql`update accounts set email_unproved = false where id = ${someone.id}`
  return someone
}

/** Somebody with an app, its recovery codes, and the session in which it was set up. */
async function withApp() {
  const someone = await person()
  const { json } = await post("/account/second-factor", { password: PASSWORD }, someone.token)
  const app = new TOTP({ secret: json.secret })
  const confirmed = await post("/account/second-factor/confirm", { code: codeOf(app) }, someone.token)
  expect(confirmed.status).toBe(200)
  return { ...someone, app, codes: confirmed.json.recovery_codes as string[] }
}

const halfSignIn = async (email: string): Promise<string> => {
  const { status, json } = await post("/auth/sign-in", { email, password: PASSWORD })
  expect([status, json.session_token, json.account]).toEqual([200, undefined, undefined])
  return json.second_factor.token
}
const show = (token: string, code: string) => post("/auth/sign-in/second-factor", { token, code })
const account = (token: string) => world.call("GET", "/account", { token })

test("an app counts from its first code on; other sessions end, and the owner is told", async () => {
  const { id, email, token } = await person()
  const other = (await post("/auth/sign-in", { email, password: PASSWORD })).json.session_token
  expect((await post("/account/second-factor", { password: "wrong" }, token)).status).toBe(401)
  const { json } = await post("/account/second-factor", { password: PASSWORD }, token)
  expect(json.uri).toContain(`otpauth://totp/Loket:${encodeURIComponent(email)}?`)
  expect(json.qr_svg).toStartWith("<svg")
  // Another one's that waits is another's.
  expect((await post("/account/second-factor", { password: PASSWORD }, (await person()).token)).status).toBe(201)
  // Not yet shown, it is not asked for.
  expect((await post("/auth/sign-in", { email, password: PASSWORD })).json.session_token).toBeString()
  const app = new TOTP({ secret: json.secret })
  expect((await post("/account/second-factor/confirm", { code: "000000" }, token)).status).toBe(401)
  const confirmed = await post("/account/second-factor/confirm", { code: codeOf(app) }, token)
  expect(new Set(confirmed.json.recovery_codes).size).toBe(RECOVERY_CODES)
  expect([(await account(token)).status, (await account(other)).status]).toEqual([200, 401])
  const { json: state } = await world.call("GET", "/account/second-factor", { token })
  expect(state).toMatchObject({ since: expect.any(String), recovery_codes_left: RECOVERY_CODES, needed: false })
  const { json: none } = await world.call("GET", "/account/second-factor", { token: (await person()).token })
  expect(none).toEqual({ since: null, recovery_codes_left: 0, needed: false })
  const told = await world.sql`select kind from account_mails where account_id = ${id} and kind like 'factor%'`
  expect(told).toEqual([{ kind: "factor-on" }] as never)
  expect((await post("/account/second-factor", { password: PASSWORD }, token)).status).toBe(400)
})

test("a sign-in takes both steps, and half of one opens nothing", async () => {
  const { email, app } = await withApp()
  const half = await halfSignIn(email)
  for (const [method, path] of [
    ["GET", "/account"],
    ["GET", "/keys"],
    ["POST", "/auth/sign-out"],
    ["DELETE", "/account/second-factor"],
  ] as const)
    expect((await world.call(method, path, { token: half })).status).toBe(401)
  expect((await world.call("GET", "/account", { headers: { cookie: `session=${half}` } })).status).toBe(401)
  const whole = await show(half, codeOf(app))
  expect([whole.status, whole.json.account.email]).toEqual([200, email])
  expect(whole.headers.get("set-cookie")).toContain("HttpOnly")
  expect((await account(whole.json.session_token)).status).toBe(200)
  expect((await show(half, codeOf(app))).status).toBe(401)
  // A foreign page has its visitor keep no session.
  const body = { token: await halfSignIn(email), code: codeOf(app) }
  const foreign = await world.call("POST", "/auth/sign-in/second-factor", {
    body,
    headers: { origin: "https://example.org" },
  })
  expect([foreign.status, foreign.headers.get("set-cookie")]).toEqual([200, null])
})

test("a code is good for its own step, the one before and the next, and no code is taken twice", async () => {
  const { email, app } = await withApp()
  const at = (steps: number) => app.generate({ timestamp: world.now() + steps * 30_000 })
  world.pass(300_000)
  const half = await halfSignIn(email)
  for (const steps of [-2, 2]) expect((await show(half, at(steps))).status).toBe(401)
  expect((await show(half, at(-1))).status).toBe(200)
  const second = await halfSignIn(email)
  expect((await show(second, at(-1))).status).toBe(401)
  expect((await show(second, at(1))).status).toBe(200)
  // A later code was taken, so the one of now is over too.
  expect((await show(await halfSignIn(email), at(0))).status).toBe(401)
})

test("eight uses of one code at once are one, of the app's and of a recovery code", async () => {
  const { email, app, codes } = await withApp()
  for (const code of [codeOf(app), codes[0] ?? ""]) {
    await world.sql`delete from allowances`
    const halves = await Promise.all(Array.from({ length: 8 }, () => halfSignIn(email)))
    const shown = await Promise.all(halves.map((half) => show(half, code)))
    expect(shown.filter(({ status }) => status === 200)).toHaveLength(1)
  }
})

test("a recovery code signs in once, as people type it, and the owner is told", async () => {
  const { id, email, codes } = await withApp()
  const [code = ""] = codes
  expect((await show(await halfSignIn(email), ` ${code.toLowerCase().replaceAll("-", " ")} `)).status).toBe(200)
  expect((await show(await halfSignIn(email), code)).status).toBe(401)
  const told = await world.sql`select from account_mails where account_id = ${id} and kind = 'code-used'`
  expect(told).toHaveLength(1)
  // Kept by its hash alone.
  const rows = await world.sql<{ row: string }[]>`select r::text as row from recovery_codes r where account_id = ${id}`
  expect(rows).toHaveLength(RECOVERY_CODES - 1)
  expect(rows.some(({ row }) => row.includes(codes[1] ?? "-"))).toBe(false)
})

test("one account's codes open no other one, and use up nothing of it", async () => {
  const [one, other] = [await withApp(), await withApp()]
  const [theirs = ""] = other.codes
  const half = await halfSignIn(one.email)
  expect((await show(half, theirs)).status).toBe(401)
  expect((await show(await halfSignIn(other.email), theirs)).status).toBe(200)
  // Of the same step.
  const code = codeOf(one.app)
  expect((await show(half, other.app.generate({ timestamp: world.now() }))).status).toBe(401)
  expect((await show(half, code)).status).toBe(200)
  const theirCode = other.app.generate({ timestamp: world.now() })
  expect((await show(await halfSignIn(other.email), theirCode)).status).toBe(200)
})

test("an app that counts gives way to another one only when it is removed", async () => {
  const { email, token, app, codes } = await withApp()
  const begun = await post("/account/second-factor", { password: PASSWORD, code: codeOf(app) }, token)
  expect([begun.status, begun.json.code]).toEqual([400, "request.invalid"])
  expect((await post("/account/second-factor/confirm", { code: codeOf(app) }, token)).status).toBe(400)
  expect((await show(await halfSignIn(email), codeOf(app))).status).toBe(200)
  expect((await show(await halfSignIn(email), codes[0] ?? "")).status).toBe(200)
})

const anotherProcess = () =>
  new SecondFactors({
    accounts: undefined as never,
    store: secondFactorStore(world.db),
    passkeys: undefined as never,
    passkeyStore: passkeyStore(world.db),
    slowDown: undefined as never,
    sessions: sessionStore(world.db),
    allowances: allowanceStore(world.db),
    now: world.now,
  })

test("wrong codes are bounded by account, whatever the half sessions and the processes", async () => {
  const { id, email, app } = await withApp()
  const halves = await Promise.all(Array.from({ length: 4 }, () => halfSignIn(email)))
  const another = anotherProcess()
  const from = { address: "192.0.2.1", userAgent: "" }
  const tries = Array.from({ length: 3 * CODE_TRIES }, (_, n) => {
    const half = halves[n % halves.length] ?? ""
    return n % 2 === 0 ? show(half, "000000") : another.signIn(half, { code: "000000" }, from)
  })
  await Promise.all(tries)
  const [row] = await world.sql<{ used: number }[]>`select used from allowances where name = ${`factor of ${id}`}`
  expect(row?.used).toBe(CODE_TRIES)
  const refused = await show(halves[0] ?? "", codeOf(app))
  expect([refused.status, Number(refused.headers.get("retry-after")) > 3_500]).toEqual([401, true])
  await world.sql`update allowances set ends_at = now() where name = ${`factor of ${id}`}`
  expect((await show(halves[0] ?? "", codeOf(app))).status).toBe(200)
})

test("right codes count for nothing, however many", async () => {
  const { email, app } = await withApp()
  for (let n = 0; n <= CODE_TRIES; n++)
    expect([n, (await show(await halfSignIn(email), codeOf(app))).status]).toEqual([n, 200])
})

test("first codes of an app are bounded as all others are", async () => {
  const { token } = await person()
  await post("/account/second-factor", { password: PASSWORD }, token)
  const tried: boolean[] = []
  for (let n = 0; n <= CODE_TRIES; n++) {
    const { status, headers } = await post("/account/second-factor/confirm", { code: "000000" }, token)
    expect(status).toBe(401)
    tried.push(!headers.has("retry-after"))
  }
  expect(tried).toEqual([...Array<boolean>(CODE_TRIES).fill(true), false])
})

test("who knows the password guesses no faster from many networks, and keeps the owner out of nothing at home", async () => {
  const { email, app } = await withApp()
  const half = await halfSignIn(email)
  const elsewhere = async (n: number, code: string) =>
    await anotherProcess().signIn(half, { code }, { address: `192.0.2.${n}`, userAgent: "" })
  const waits: unknown[] = []
  for (let n = 0; n < CODE_TRIES + 2; n++) {
    const outcome = await elsewhere(n, "000000")
    waits.push(outcome instanceof Failure && outcome.detail.retryAfterS)
  }
  expect(waits.map((wait) => wait !== undefined)).toEqual([...Array(CODE_TRIES).fill(false), true, true])
  expect((await show(await halfSignIn(email), codeOf(app))).status).toBe(200)
  // That the owner is in gives nobody else new tries.
  expect(await elsewhere(99, codeOf(app))).toMatchObject({
    code: "auth.unauthorized",
    detail: { retryAfterS: expect.any(Number) },
  })
})

test("who knows the password begins few sign-ins elsewhere, which leave those that the owner began at home", async () => {
  const { email, app } = await withApp()
  const own = await halfSignIn(email)
  const begun: boolean[] = []
  for (let n = 0; n < 30; n++) {
    const headers = { "x-real-ip": `192.0.2.${n}` }
    const { status, headers: answered } = await world.call("POST", "/auth/sign-in", {
      headers,
      body: { email, password: PASSWORD },
    })
    begun.push(status === 200)
    expect([status, answered.has("retry-after")]).toEqual(status === 200 ? [200, false] : [401, true])
  }
  expect(begun.filter(Boolean)).toHaveLength(STEPS_ELSEWHERE)
  expect((await show(own, codeOf(app))).status).toBe(200)
})

test("sign-ins that others have begun push out none", async () => {
  const [{ email, app }, other] = [await withApp(), await withApp()]
  const own = await halfSignIn(email)
  const [row] = await world.sql<{ password_hash: string }[]>`select password_hash from accounts where id = ${other.id}`
  const step = { accountId: other.id, email: other.email, passwordHash: row?.password_hash ?? "" }
  for (let n = 0; n < 25; n++)
    await secondFactorStore(world.db).openStep({ ...step, tokenHash: crypto.getRandomValues(new Uint8Array(32)) })
  expect(await world.sql`select from sign_in_steps where account_id = ${other.id}`).toHaveLength(20)
  expect((await show(own, codeOf(app))).status).toBe(200)
})

test("a database's clock that is set back keeps nobody out until it is where it was", async () => {
  const { id, email, app } = await withApp()
  const half = await halfSignIn(email)
  for (let n = 0; n < CODE_TRIES; n++) await show(half, "000000")
  // Of a statement that began a moment later.
  await world.sql`update allowances set ends_at = now() + interval '1 hour 10 seconds' where name = ${`factor of ${id}`}`
  expect((await show(half, codeOf(app))).status).toBe(401)
  await world.sql`update allowances set ends_at = now() + interval '1 year' where name = ${`factor of ${id}`}`
  expect((await show(half, codeOf(app))).status).toBe(200)
})

test("a half session is over after ten minutes, not before, and with its password", async () => {
  const slow = await withApp()
  const slowHalf = await halfSignIn(slow.email)
  await world.sql`update sign_in_steps set expires_at = expires_at - interval '9 minutes 30 seconds' where account_id = ${slow.id}`
  expect((await show(slowHalf, codeOf(slow.app))).status).toBe(200)
  const { id, email, app, token } = await withApp()
  const half = await halfSignIn(email)
  await world.sql`update sign_in_steps set expires_at = expires_at - interval '10 minutes' where account_id = ${id}`
  expect((await show(half, codeOf(app))).status).toBe(401)
  const second = await halfSignIn(email)
  await post("/auth/password", { current: PASSWORD, new: "a new password of mine" }, token)
  expect((await show(second, codeOf(app))).status).toBe(401)
})

test("a sign-in by password alone that is slower than the set-up opens no session", async () => {
  const { id } = await withApp()
  const [row] = await world.sql<{ password_hash: string }[]>`select password_hash from accounts where id = ${id}`
  const open = (showedFactor: boolean) =>
    sessionStore(world.db).open({
      accountId: id,
      passwordHash: row?.password_hash ?? "",
      showedFactor,
      from: { address: "192.0.2.1", userAgent: "" },
      network: "192.0.2.1",
      tokenHash: crypto.getRandomValues(new Uint8Array(32)),
      replaces: undefined,
    })
  expect(await open(false)).toBeUndefined()
  expect(await open(true)).toMatchObject({ id })
})

test("who forgets the password is asked for the code all the same", async () => {
  const { id, email } = await withApp()
  const by = { act: { requestId: crypto.randomUUID(), operatorId: undefined, address: undefined }, reason: "a test" }
  await accountMailStore(world.db).linkFor(id, hashSessionToken("A".repeat(43)) ?? new Uint8Array(), by)
  const reset = await post("/auth/password/reset", { token: "A".repeat(43), new: "a new password of mine" })
  expect(reset.status).toBe(204)
  const { json } = await post("/auth/sign-in", { email, password: "a new password of mine" })
  expect(json.second_factor.token).toBeString()
})

test("new recovery codes and the removal take the password and a code, and a stolen session has neither", async () => {
  const { email, token, app, codes } = await withApp()
  const change = (body: object) => post("/account/second-factor/recovery-codes", body, token)
  expect((await change({ password: PASSWORD, code: "000000" })).status).toBe(401)
  expect((await change({ password: "wrong", code: codeOf(app) })).status).toBe(401)
  const renewed = await change({ password: PASSWORD, code: codeOf(app) })
  expect(renewed.json.recovery_codes).toHaveLength(RECOVERY_CODES)
  expect((await show(await halfSignIn(email), codes[0] ?? "")).status).toBe(401)
  const other = await show(await halfSignIn(email), renewed.json.recovery_codes[0])
  const remove = (body: object) => world.call("DELETE", "/account/second-factor", { token, body })
  expect((await remove({ password: PASSWORD, code: "000000" })).status).toBe(401)
  expect((await remove({ password: PASSWORD, code: renewed.json.recovery_codes[1] })).status).toBe(204)
  expect((await account(other.json.session_token)).status).toBe(401)
  expect((await post("/auth/sign-in", { email, password: PASSWORD })).json.session_token).toBeString()
})

test("an address that is not proved has no second factor, which would keep its owner out", async () => {
  const { token } = await world.signUp()
  const { status, json } = await post("/account/second-factor", { password: PASSWORD }, token)
  expect([status, json.code]).toEqual([403, "auth.forbidden"])
})

test("with the account everything of it goes", async () => {
  const { id, email, token } = await withApp()
  await halfSignIn(email)
  await world.call("DELETE", "/account", { token, body: { password: PASSWORD } })
  const left = await world.sql`
    select account_id from second_factors where account_id = ${id} union all
    select account_id from recovery_codes where account_id = ${id} union all
    select account_id from sign_in_steps where account_id = ${id}`
  expect(left).toHaveLength(0)
})
