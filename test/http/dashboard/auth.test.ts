import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { openWorld, PASSWORD, type World } from "./world.ts"

let world: World
beforeAll(async () => void (world = await openWorld()))
afterAll(() => world[Symbol.asyncDispose]())

const fresh = () => `${crypto.randomUUID()}@example.com`

describe("sign-up", () => {
  test("opens an account without balance, and a session of it", async () => {
    const email = fresh()
    const { status, json } = await world.call("POST", "/auth/sign-up", { body: { email, password: PASSWORD } })
    expect(status).toBe(201)
    expect(json.account).toEqual({
      id: expect.stringMatching(/^acc_[A-Za-z0-9_-]{21}$/),
      email,
      email_proved: true,
      operator_role: null,
      role: "customer",
      member_role: "owner",
      may: ["read", "books", "pay", "build", "guard", "manage"],
      signed_in: { id: json.account.id, email, language: "id" },
      balance_micro: 0,
      held_micro: 0,
      claim_micro: 0,
      time_zone: "Asia/Jakarta",
      language: "id",
      low_balance_email: null,
      low_balance_threshold_micro: null,
      budget_mails: false,
      buyer_name: null,
      buyer_address: null,
      buyer_npwp: null,
      frozen: false,
      agreed_version: null,
      agreed_at: null,
      seen: null,
      created_at: expect.any(String),
    })
    const account = await world.call("GET", "/account", { token: json.session_token })
    expect(account.json).toEqual(json.account)
  })

  test("stores the password as argon2id and the token as a hash", async () => {
    const { id, token } = await world.signUp()
    const [row] = await world.sql`select password_hash from accounts where id = ${id}`
    expect(row?.password_hash).toStartWith("$argon2id$")
    const [session] = await world.sql`select token_hash from sessions where account_id = ${id}`
    expect(Buffer.from(session?.token_hash)).toEqual(new Bun.CryptoHasher("sha256").update(token).digest())
  })

  const refused: [string, unknown, string][] = [
    ["no JSON", "{", "request.invalid"],
    ["an empty body", "", "request.invalid"],
    ["an array", [], "request.invalid_request"],
    ["a string", '"text"', "request.invalid_request"],
    ["no e-mail", { password: PASSWORD }, "request.invalid"],
    ["an e-mail that is a number", { email: 1, password: PASSWORD }, "request.invalid"],
    ["no @", { email: "someone.example.com", password: PASSWORD }, "request.invalid"],
    ["two @", { email: "some@one@example.com", password: PASSWORD }, "request.invalid"],
    ["no domain", { email: "someone@", password: PASSWORD }, "request.invalid"],
    ["a domain without a dot", { email: "someone@example", password: PASSWORD }, "request.invalid"],
    [
      "an angle bracket before another's address",
      { email: "<some@example.com", password: PASSWORD },
      "request.invalid",
    ],
    ["an angle bracket behind it", { email: "some@example.com>", password: PASSWORD }, "request.invalid"],
    ["a comma behind it", { email: "some@example.com,", password: PASSWORD }, "request.invalid"],
    ["a second address", { email: "some@example.com;b.example.com", password: PASSWORD }, "request.invalid"],
    ["white space", { email: "some one@example.com", password: PASSWORD }, "request.invalid"],
    ["a NUL", { email: "some\u0000one@example.com", password: PASSWORD }, "request.invalid"],
    ["letters turned around", { email: "some\u202eeno@example.com", password: PASSWORD }, "request.invalid"],
    ["255 characters", { email: `a@${"b".repeat(249)}.com`, password: PASSWORD }, "request.invalid"],
    ["9 characters of password", { email: "a@example.com", password: "123456789" }, "request.invalid"],
    ["9 emoji of password", { email: "a@example.com", password: "🐴".repeat(9) }, "request.invalid"],
    ["257 characters of password", { email: "a@example.com", password: "a".repeat(257) }, "request.invalid"],
    ["a null password", { email: "a@example.com", password: null }, "request.invalid"],
  ]
  test.each(refused)("refuses %s", async (_, body, code) => {
    const answer = await world.call("POST", "/auth/sign-up", { body })
    expect([answer.status, answer.json.code]).toEqual([400, code])
    expect(answer.headers.get("x-error-code")).toBe(code)
    expect(answer.json.request_id).toBe(answer.headers.get("x-request-id"))
  })

  test.each([10, 256])("takes a password of %d characters, which then signs in", async (length) => {
    const body = { email: fresh(), password: "🐴".repeat(length) }
    expect((await world.call("POST", "/auth/sign-up", { body })).status).toBe(201)
    expect((await world.call("POST", "/auth/sign-in", { body })).status).toBe(200)
  })

  test("names the field that is wrong", async () => {
    const { json } = await world.call("POST", "/auth/sign-up", { body: { email: fresh(), password: "short" } })
    expect(json.error).toBe("'password' must be a string of 10 to 256 characters.")
  })

  test("refuses an address that is taken, whatever its case", async () => {
    const { email } = await world.signUp()
    const body = { email: email.toUpperCase(), password: PASSWORD }
    const { status, json } = await world.call("POST", "/auth/sign-up", { body })
    expect([status, json.code]).toEqual([400, "request.invalid"])
  })

  test("is slowed down for who asks again and again whether an address is taken", async () => {
    const { email } = await world.signUp()
    const body = { email, password: PASSWORD }
    const before = world.pauses.length
    for (let count = 0; count < 5; count++) await world.call("POST", "/auth/sign-up", { body })
    expect(world.pauses.length).toBe(before)
    expect((await world.call("POST", "/auth/sign-up", { body })).status).toBe(400)
    expect(world.pauses.length).toBe(before + 1)
    // Its owner does not wait for it.
    expect((await world.call("POST", "/auth/sign-in", { body })).status).toBe(200)
    expect(world.pauses.length).toBe(before + 1)
  })

  test("makes nothing of a session that somebody else has chosen", async () => {
    const chosen = "A".repeat(43)
    const body = { email: fresh(), password: PASSWORD }
    const { json } = await world.call("POST", "/auth/sign-up", { body, headers: { cookie: `session=${chosen}` } })
    const again = await world.call("POST", "/auth/sign-in", { body, headers: { cookie: `session=${chosen}` } })
    expect(new Set([chosen, json.session_token, again.json.session_token]).size).toBe(3)
    expect((await world.call("GET", "/account", { token: chosen })).status).toBe(401)
  })

  test("of ten at once with one address, one succeeds", async () => {
    const body = { email: fresh(), password: PASSWORD }
    const answers = await Promise.all(Array.from({ length: 10 }, () => world.call("POST", "/auth/sign-up", { body })))
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
    expect(answers.filter(({ status }) => status === 400)).toHaveLength(9)
  })

  test("takes a body of 64 KiB, and refuses one of a byte more", async () => {
    const body = JSON.stringify({ email: fresh(), password: PASSWORD }).padEnd(64 * 1024)
    const { status, json } = await world.call("POST", "/auth/sign-up", { body: `${body} ` })
    expect([status, json.code]).toEqual([413, "request.too_large"])
    expect((await world.call("POST", "/auth/sign-up", { body })).status).toBe(201)
  })
})

describe("sign-in", () => {
  test("gives a new token each time, and each of them works", async () => {
    const { id, email, token } = await world.signUp()
    const { status, json } = await world.call("POST", "/auth/sign-in", {
      body: { email: email.toUpperCase(), password: PASSWORD },
    })
    expect(status).toBe(200)
    expect(json.account.id).toBe(id)
    expect(json.session_token).not.toBe(token)
    for (const each of [token, json.session_token]) {
      expect((await world.call("GET", "/account", { token: each })).status).toBe(200)
    }
  })

  test.each(["some\u0000one@example.com", "some\none@example.com"])(
    "takes no control characters: %j",
    async (email) => {
      const { status, json } = await world.call("POST", "/auth/sign-in", { body: { email, password: PASSWORD } })
      expect([status, json.code]).toEqual([400, "request.invalid"])
    },
  )

  test("says the same of a wrong password and an unknown address", async () => {
    const { email } = await world.signUp()
    const wrong = await world.call("POST", "/auth/sign-in", { body: { email, password: "wrong password" } })
    const unknown = await world.call("POST", "/auth/sign-in", { body: { email: fresh(), password: PASSWORD } })
    const { request_id: _, ...said } = wrong.json
    const { request_id: __, ...saidOfUnknown } = unknown.json
    expect([wrong.status, said.code]).toEqual([401, "auth.unauthorized"])
    expect(said).toEqual(saidOfUnknown)
    expect(wrong.headers.get("x-should-retry")).toBe("false")
  })

  test.each([
    ["an empty password", ""],
    ["a NUL", "\u0000"],
    ["an endless password", "a".repeat(10_000)],
  ])("takes %s for a wrong one", async (_, password) => {
    const { email } = await world.signUp()
    const { status } = await world.call("POST", "/auth/sign-in", { body: { email, password } })
    expect(status).toBe(401)
  })

  test("is slowed down after five failures, and right again with the right password", async () => {
    const { email } = await world.signUp()
    const before = world.pauses.length
    const tried = { email, password: "wrong password" }
    for (let n = 0; n < 5; n++) await world.call("POST", "/auth/sign-in", { body: tried })
    expect(world.pauses.length).toBe(before)
    await world.call("POST", "/auth/sign-in", { body: tried })
    expect(world.pauses.length).toBe(before + 1)
    const right = await world.call("POST", "/auth/sign-in", { body: { email, password: PASSWORD } })
    expect(right.status).toBe(200)
    await world.call("POST", "/auth/sign-in", { body: tried })
    expect(world.pauses.length).toBe(before + 2)
  })

  test("by cookie replaces the session of that cookie", async () => {
    const { email, token } = await world.signUp()
    const { status } = await world.call("POST", "/auth/sign-in", {
      body: { email, password: PASSWORD },
      headers: { cookie: `session=${token}` },
    })
    expect(status).toBe(200)
    expect((await world.call("GET", "/account", { token })).status).toBe(401)
  })
})

describe("a session", () => {
  test("ends with sign-out, and no other does", async () => {
    const { email, token } = await world.signUp()
    const other = (await world.call("POST", "/auth/sign-in", { body: { email, password: PASSWORD } })).json
      .session_token
    const { status, text, headers } = await world.call("POST", "/auth/sign-out", { token })
    expect([status, text]).toEqual([204, ""])
    expect(headers.get("set-cookie")).toContain("session=; Path=/; Max-Age=0")
    expect((await world.call("GET", "/account", { token })).status).toBe(401)
    expect((await world.call("GET", "/account", { token: other })).status).toBe(200)
  })

  test("ends after thirty days", async () => {
    const { id, token } = await world.signUp()
    const [row] =
      await world.sql`select expires_at - created_at = interval '30 days' as right from sessions where account_id = ${id}`
    expect(row?.right).toBe(true)
    await world.sql`update sessions set expires_at = now() where account_id = ${id}`
    expect((await world.call("GET", "/account", { token })).status).toBe(401)
  })

  test("ends with a change of password, as all the account's sessions do", async () => {
    const { email, token } = await world.signUp()
    const other = (await world.call("POST", "/auth/sign-in", { body: { email, password: PASSWORD } })).json
      .session_token
    const changed = await world.call("POST", "/auth/password", {
      token,
      body: { current: PASSWORD, new: "another password" },
    })
    expect([changed.status, changed.text]).toEqual([204, ""])
    for (const each of [token, other]) {
      expect((await world.call("GET", "/account", { token: each })).status).toBe(401)
    }
    expect((await world.call("POST", "/auth/sign-in", { body: { email, password: PASSWORD } })).status).toBe(401)
    expect((await world.call("POST", "/auth/sign-in", { body: { email, password: "another password" } })).status).toBe(
      200,
    )
  })

  test("survives a change of password that is refused", async () => {
    const { token } = await world.signUp()
    const wrong = await world.call("POST", "/auth/password", {
      token,
      body: { current: "wrong password", new: "another password" },
    })
    expect([wrong.status, wrong.json.code]).toEqual([401, "auth.unauthorized"])
    const short = await world.call("POST", "/auth/password", { token, body: { current: PASSWORD, new: "short" } })
    expect([short.status, short.json.code]).toEqual([400, "request.invalid"])
    expect((await world.call("GET", "/account", { token })).status).toBe(200)
  })

  test("is not opened by a sign-in with a password that changes meanwhile", async () => {
    const { email, token } = await world.signUp()
    const signIns = Array.from({ length: 6 }, () =>
      world.call("POST", "/auth/sign-in", { body: { email, password: PASSWORD } }),
    )
    const changed = await world.call("POST", "/auth/password", {
      token,
      body: { current: PASSWORD, new: "another password" },
    })
    expect(changed.status).toBe(204)
    for (const { status, json } of await Promise.all(signIns)) {
      if (status !== 200) continue
      expect((await world.call("GET", "/account", { token: json.session_token })).status).toBe(401)
    }
  })
})

describe("authentication", () => {
  const key = `sk-loket-${"a".repeat(46)}`
  const cases: [string, (token: string) => Record<string, string>, number, string?][] = [
    ["nothing", () => ({}), 401],
    ["a bearer token", (token) => ({ authorization: `Bearer ${token}` }), 200],
    ["a lower-case scheme", (token) => ({ authorization: `bearer ${token}` }), 200],
    ["another scheme", (token) => ({ authorization: `Basic ${token}` }), 401],
    ["a token that never was", () => ({ authorization: `Bearer ${"A".repeat(43)}` }), 401],
    ["an API key as bearer", () => ({ authorization: `Bearer ${key}` }), 401],
    ["an API key beside a good token", (token) => ({ authorization: `Bearer ${token}`, "x-api-key": key }), 401],
    ["an API key beside a good cookie", (token) => ({ cookie: `session=${token}`, "x-api-key": key }), 401],
    ["a cookie", (token) => ({ cookie: `a=b; session=${token}; c=d` }), 200],
    ["a cookie of another name", (token) => ({ cookie: `__Host-session=${token}` }), 401],
    ["a cookie beside a bad header", (token) => ({ cookie: `session=${token}`, authorization: "Basic x" }), 401],
  ]
  test.each(cases)("with %s", async (_, headers, status) => {
    const { token } = await world.signUp()
    const answer = await world.call("GET", "/account", { headers: headers(token) })
    expect(answer.status).toBe(status)
    if (status !== 200) expect(answer.json.code).toBe("auth.unauthorized")
  })

  test("covers every path of the dashboard", async () => {
    const paths = [
      ["POST", "/auth/sign-out"],
      ["POST", "/auth/password"],
      ["GET", "/account"],
      ["PATCH", "/account"],
      ["DELETE", "/account"],
      ["GET", "/keys"],
      ["POST", "/keys"],
      ["PATCH", "/keys/key_x"],
      ["POST", "/keys/key_x/revoke"],
      ["POST", "/top-ups"],
      ["GET", "/top-ups"],
      ["GET", "/top-ups/top_x"],
      ["GET", "/usage"],
      ["GET", "/usage/summary"],
      ["GET", "/usage/export.csv"],
      ["GET", "/usage/req_x"],
    ] as const
    for (const [method, path] of paths) {
      const { status, json } = await world.call(method, path, { headers: { "x-api-key": key } })
      expect([method, path, status, json.code]).toEqual([method, path, 401, "auth.unauthorized"])
    }
  })

  const origins: [string, (origin: string) => Record<string, string>, number][] = [
    ["its own origin", (origin) => ({ origin }), 200],
    ["no origin", () => ({}), 403],
    ["a foreign origin", () => ({ origin: "https://example.org" }), 403],
    ["an opaque origin", () => ({ origin: "null" }), 403],
    ["its own host at another port", () => ({ origin: "http://127.0.0.1:1" }), 403],
  ]
  test.each(origins)("a change by cookie with %s", async (_, headers, status) => {
    const { token } = await world.signUp()
    const answer = await world.call("PATCH", "/account", {
      body: { time_zone: "Asia/Makassar" },
      headers: { cookie: `session=${token}`, ...headers(world.origin) },
    })
    expect(answer.status).toBe(status)
    if (status === 403) expect(answer.json.code).toBe("auth.forbidden")
  })

  test("sets a plain cookie over http on loopback, and another password ends it", async () => {
    const body = { email: fresh(), password: PASSWORD }
    for (const path of ["/auth/sign-up", "/auth/sign-in"]) {
      const { headers, json } = await world.call("POST", path, { body })
      expect([path, headers.get("set-cookie")]).toEqual([
        path,
        `session=${json.session_token}; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict`,
      ])
      expect(json.session_token).toMatch(/^[A-Za-z0-9_-]{43}$/)
      const change = { token: json.session_token, body: { current: PASSWORD, new: PASSWORD } }
      const changed = await world.call("POST", "/auth/password", change)
      expect([changed.status, changed.headers.get("set-cookie")]).toEqual([
        204,
        "session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict",
      ])
    }
  })

  test("sets a __Host- cookie anywhere else, and reads it there", async () => {
    const { headers, json } = await world.call("POST", "/auth/sign-up", {
      body: { email: fresh(), password: PASSWORD },
      headers: { host: "loket.example" },
    })
    expect(headers.get("set-cookie")).toMatch(
      /^__Host-session=[A-Za-z0-9_-]{43}; Path=\/; Max-Age=2592000; HttpOnly; SameSite=Strict; Secure$/,
    )
    const cookie = `__Host-session=${json.session_token}`
    const change = (origin: string) =>
      world.call("PATCH", "/account", { body: {}, headers: { host: "loket.example", cookie, origin } })
    expect((await change("https://loket.example")).status).toBe(200)
    expect((await change("http://loket.example")).status).toBe(403)
  })

  test("gives a foreign page's sign-up and sign-in no cookie", async () => {
    const body = { email: fresh(), password: PASSWORD }
    for (const [path, made] of [
      ["/auth/sign-up", 201],
      ["/auth/sign-in", 200],
    ] as const) {
      const { status, headers } = await world.call("POST", path, { body, headers: { origin: "https://example.org" } })
      expect([path, status, headers.get("set-cookie")]).toEqual([path, made, null])
    }
  })
})

test("nothing here was answered by a bug", () => expect(world.bugs).toEqual([]))
