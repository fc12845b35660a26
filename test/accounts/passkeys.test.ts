/** Passkeys over HTTP: added, used, guessed at, replayed, stolen, lost; by a device in software that also lies. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { generateKeyPairSync } from "node:crypto"
import { SettingsService } from "@simplewebauthn/server"
import { TOTP } from "otpauth"
import { relyingParty } from "../../src/accounts/passkeys.ts"
import { CODE_TRIES, PASSKEY_SIGN_INS } from "../../src/accounts/second-factor.ts"
import { passkeyStore, PASSKEYS } from "../../src/store/passkeys.ts"
import { secondFactorStore } from "../../src/store/second-factors.ts"
import { openWorld, PASSWORD, type World } from "../http/dashboard/world.ts"
import { Authenticator, type Lies } from "./authenticator.ts"

const ORIGIN = "https://loket.example"
const FROM = "x-client-address"
let world: World
beforeAll(async () => {
  world = await openWorld({ sendsLinks: true, publicUrl: ORIGIN, addressHeader: FROM })
})
afterAll(() => world[Symbol.asyncDispose]())

const post = (path: string, body: unknown, token?: string, headers?: Record<string, string>) =>
  world.call("POST", path, { body, ...(token !== undefined && { token }), ...(headers !== undefined && { headers }) })

async function person() {
  const someone = await world.signUp()
  await world.sql`update accounts set email_unproved = false where id = ${someone.id}`
  return someone
}
type Person = Awaited<ReturnType<typeof person>>

async function add({ token }: Person, proof: object = {}, device = new Authenticator(ORIGIN)) {
  const options = await post("/account/passkeys/options", { password: PASSWORD, ...proof }, token)
  expect([options.status, options.json.rp.id]).toEqual([200, "loket.example"])
  const added = await post("/account/passkeys", { name: "Ponsel", passkey: device.make(options.json) }, token)
  expect(added.status).toBe(201)
  return { device, id: added.json.passkey.id as string, codes: added.json.recovery_codes as string[] | null }
}
async function withPasskey() {
  const someone = await person()
  const { id: passkeyId, ...made } = await add(someone)
  return { ...someone, ...made, passkeyId }
}
const proofBy = async (device: Authenticator, token: string, lies: Lies = {}) => ({
  passkey: device.sign((await world.call("POST", "/account/passkeys/proof", { token })).json, lies),
})
const options = async () => (await world.call("POST", "/auth/sign-in/passkey/options")).json
const signIn = async (device: Authenticator, lies: Lies = {}) =>
  await post("/auth/sign-in/passkey", { passkey: device.sign(await options(), lies) })
const fromAfar = () => post("/auth/sign-in/passkey/options", {}, undefined, { [FROM]: "203.0.113.9" })
const half = async (email: string) => {
  const { json } = await post("/auth/sign-in", { email, password: PASSWORD })
  return json.second_factor as { token: string; has_passkey: boolean }
}
const mails = async (id: string) =>
  (await world.sql<{ kind: string }[]>`select kind from account_mails where account_id = ${id} order by id`)
    .map(({ kind }) => kind)
    .filter((kind) => kind !== "prove")

test("the first one is a second factor, with recovery codes; other sessions end, and the owner is told", async () => {
  const someone = await person()
  const other = (await post("/auth/sign-in", { email: someone.email, password: PASSWORD })).json.session_token
  expect((await post("/account/passkeys/options", { password: "wrong" }, someone.token)).status).toBe(401)
  const { id, codes } = await add(someone)
  expect(new Set(codes).size).toBe(10)
  expect((await world.call("GET", "/account", { token: other })).status).toBe(401)
  const { json } = await world.call("GET", "/account/passkeys", { token: someone.token })
  expect(json).toMatchObject({ data: [{ id, name: "Ponsel", last_used_at: null }], origin: ORIGIN, unavailable: null })
  expect(await mails(someone.id)).toEqual(["passkey-added"])
  const step = await half(someone.email)
  expect(step.has_passkey).toBe(true)
  expect((await world.call("GET", "/account", { token: step.token })).status).toBe(401)
})

test("it signs in alone, and as the second step; a session of it has shown a factor", async () => {
  const { id, email, device } = await withPasskey()
  const alone = await signIn(device)
  expect([alone.status, alone.json.account.id]).toEqual([200, id])
  expect(alone.headers.get("set-cookie")).toContain("HttpOnly")
  const passkey = device.sign(await options())
  const foreign = await post("/auth/sign-in/passkey", { passkey }, undefined, { origin: "https://example.org" })
  expect([foreign.status, foreign.headers.get("set-cookie")]).toEqual([200, null])
  const { token } = await half(email)
  const asked = await post("/auth/sign-in/second-factor/options", { token })
  expect(asked.json.allowCredentials).toHaveLength(1)
  const whole = await post("/auth/sign-in/second-factor", { token, passkey: device.sign(asked.json) })
  expect([whole.status, whole.json.account.id]).toEqual([200, id])
  const rows = await world.sql<{ showed: boolean }[]>`
    select factor_at is not null as showed from sessions where account_id = ${id}`
  expect(rows.map(({ showed }) => showed)).toEqual([true, true, true, true])
  const { json } = await world.call("GET", "/account/passkeys", { token: alone.json.session_token })
  expect(json.data[0].last_used_at).toBeString()
})

test("what is forged, foreign, without verification or of nobody is refused in the same words", async () => {
  const { device } = await withPasskey()
  const { device: foreign } = await withPasskey()
  const other = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey
  const unknown = new Authenticator(ORIGIN)
  const handle = Buffer.from("acc_of_nobody").toString("base64url")
  const lies: Lies[] = [
    { origin: "https://loket.example.evil.test" },
    { origin: "http://loket.example" },
    { rpId: "evil.test" },
    { userVerified: false },
    { key: other },
    { type: "webauthn.create" },
    { userHandle: undefined },
    { userHandle: handle },
    { challenge: Buffer.alloc(32, 7).toString("base64url") },
  ]
  const answers: { status: number; json: { code: string; error: string } }[] = []
  for (const lie of lies) {
    await world.sql`delete from allowances`
    world.pass(1_000_000)
    answers.push(await signIn(device, lie))
  }
  world.pass(1_000_000)
  answers.push(await signIn(unknown, { userHandle: handle }))
  // With the other one's signature under its own name.
  const mixed = { ...foreign.sign(await options()), id: device.id.toString("base64url") }
  answers.push(await post("/auth/sign-in/passkey", { passkey: { ...mixed, rawId: mixed.id } }))
  const said = answers.map(({ status, json }) => `${status} ${json.code} ${json.error}`)
  expect(new Set(said)).toEqual(new Set(["401 auth.unauthorized The passkey was not accepted; begin again."]))
  world.pass(1_000_000)
  expect((await signIn(device)).status).toBe(200)
})

test("a challenge is good once, for five minutes, for what it was asked for and for whom", async () => {
  const { token, email, device } = await withPasskey()
  const replayed = { passkey: device.sign(await options()) }
  const both = await Promise.all([1, 2, 3, 4].map(() => post("/auth/sign-in/passkey", replayed)))
  expect(both.map(({ status }) => status).sort((a, b) => a - b)).toEqual([200, 401, 401, 401])
  world.pass(1_000_000)

  const late = await options()
  await world.sql`update passkey_challenges set expires_at = expires_at - interval '300 seconds'`
  expect((await post("/auth/sign-in/passkey", { passkey: device.sign(late) })).status).toBe(401)
  const inTime = await options()
  await world.sql`update passkey_challenges set expires_at = expires_at - interval '290 seconds'`
  expect((await post("/auth/sign-in/passkey", { passkey: device.sign(inTime) })).status).toBe(200)

  // Of a sign-in for a change, of one step for another, of a change for a sign-in.
  const remove = (proof: object) =>
    world.call("DELETE", "/account/passkeys/pk_none", { token, body: { password: PASSWORD, ...proof } })
  expect((await remove({ passkey: device.sign(await options()) })).status).toBe(401)
  const [first, second] = [await half(email), await half(email)]
  const asked = await post("/auth/sign-in/second-factor/options", { token: first.token })
  const passkey = device.sign(asked.json)
  expect((await post("/auth/sign-in/second-factor", { token: second.token, passkey })).status).toBe(401)
  expect((await post("/auth/sign-in/passkey", await proofBy(device, token))).status).toBe(401)
  expect((await remove(await proofBy(device, token))).status).toBe(404)
})

test("what a stolen session is given to sign adds no passkey", async () => {
  const { token } = await withPasskey()
  // It is asked for without the password.
  const asked = (await world.call("POST", "/account/passkeys/proof", { token })).json
  const passkey = new Authenticator(ORIGIN).make(asked)
  expect((await post("/account/passkeys", { name: "a thief's", passkey }, token)).status).toBe(401)
  expect((await world.call("GET", "/account/passkeys", { token })).json.data).toHaveLength(1)
})

test("a foreign account's passkey is no proof, and its new one is added in the session that asked", async () => {
  const mine = await withPasskey()
  const theirs = await withPasskey()
  const { token } = await half(mine.email)
  const asked = await post("/auth/sign-in/second-factor/options", { token })
  const body = { token, passkey: theirs.device.sign(asked.json) }
  expect((await post("/auth/sign-in/second-factor", body)).status).toBe(401)
  const offered = await post(
    "/account/passkeys/options",
    { password: PASSWORD, ...(await proofBy(mine.device, mine.token)) },
    mine.token,
  )
  expect(offered.json.excludeCredentials).toHaveLength(1)
  const made = { name: "x", passkey: new Authenticator(ORIGIN).make(offered.json) }
  expect((await post("/account/passkeys", made, theirs.token)).status).toBe(401)
  expect((await post("/account/passkeys", made, mine.token)).status).toBe(201)
  expect((await post("/account/passkeys", made, mine.token)).status).toBe(401)
})

test("a new one is refused from another origin, for another domain, and without verification", async () => {
  const { token } = await person()
  for (const lie of [{ origin: "https://evil.test" }, { rpId: "evil.test" }, { userVerified: false }] as Lies[]) {
    const { json } = await post("/account/passkeys/options", { password: PASSWORD }, token)
    const passkey = new Authenticator(ORIGIN).make(json, lie)
    expect((await post("/account/passkeys", { name: "x", passkey }, token)).status).toBe(401)
  }
  expect((await world.call("GET", "/account/passkeys", { token })).json.data).toEqual([])
})

test("whoever made a device, its certificates are traced to nobody", async () => {
  await withPasskey()
  for (const identifier of ["android-key", "android-safetynet", "apple", "mds"] as const)
    expect(SettingsService.getRootCertificates({ identifier })).toEqual([])
})

test("a counter that goes back is refused and logged, also of two at once", async () => {
  const [{ device }, { device: other }] = [await withPasskey(), await withPasskey()]
  for (const counter of [5, 6]) expect((await signIn(device, { counter })).status).toBe(200)
  // Each counts by itself.
  for (const counter of [100, 101]) expect((await signIn(other, { counter })).status).toBe(200)
  const before = world.warnings.length
  for (const counter of [6, 5, 0]) expect((await signIn(device, { counter })).status).toBe(401)
  expect(world.warnings).toHaveLength(before + 3)
  const twice = await Promise.all([signIn(device, { counter: 7 }), signIn(device, { counter: 7 })])
  expect(twice.map(({ status }) => status).sort((a, b) => a - b)).toEqual([200, 401])
})

test("a passkey that is at several devices is taken whatever each of them counts", async () => {
  const { device } = await withPasskey()
  const before = world.warnings.length
  for (const counter of [5, 0, 3, 3, 6])
    expect([counter, (await signIn(device, { synced: true, counter })).status]).toEqual([counter, 200])
  expect(world.warnings).toHaveLength(before)
  // One that says that it is at one device alone is not behind what was counted.
  expect((await signIn(device, { counter: 6 })).status).toBe(401)
})

test("who has a factor shows it to add or remove one, and the password; a code will do", async () => {
  const { token, device, passkeyId, codes, ...someone } = await withPasskey()
  const begin = (body: object) => post("/account/passkeys/options", body, token)
  expect((await begin({ password: PASSWORD })).status).toBe(400)
  expect((await begin({ password: PASSWORD, code: "AAAA-AAAA-AAAA-AAAA" })).status).toBe(401)
  expect((await begin({ password: "wrong", code: codes?.[0] })).status).toBe(401)
  const elsewhere = (await signIn(device)).json.session_token
  const second = await add({ ...someone, token }, { code: codes?.[0] })
  expect(second.codes).toBeNull()
  const signedIn = async () => (await world.call("GET", "/account", { token: elsewhere })).status
  expect(await signedIn()).toBe(200)
  const remove = (which: string, proof: object) =>
    world.call("DELETE", `/account/passkeys/${which}`, { token, body: { password: PASSWORD, ...proof } })
  expect((await remove(passkeyId, {})).status).toBe(400)
  expect((await remove(passkeyId, await proofBy(second.device, token))).status).toBe(204)
  expect([(await signIn(device)).status, await signedIn()]).toEqual([401, 200])
  // The last one: from now on the password is enough, the codes are gone, and all other sessions end.
  expect((await remove(second.id, { code: codes?.[1] })).status).toBe(204)
  expect(await signedIn()).toBe(401)
  expect((await post("/auth/sign-in", { email: someone.email, password: PASSWORD })).json.session_token).toBeString()
  const { json } = await world.call("GET", "/account/second-factor", { token })
  expect(json).toEqual({ since: null, recovery_codes_left: 0, needed: false })
  const told = ["passkey-added", "code-used", "passkey-added", "passkey-removed", "code-used", "factor-off"]
  expect(await mails(someone.id)).toEqual(told)
})

test("an app beside a passkey takes a proof, and either can go without the other", async () => {
  const { token, device, email, codes } = await withPasskey()
  expect((await post("/account/second-factor", { password: PASSWORD }, token)).status).toBe(400)
  const proof = { password: PASSWORD, ...(await proofBy(device, token)) }
  const { json } = await post("/account/second-factor", proof, token)
  const code = new TOTP({ secret: json.secret }).generate({ timestamp: world.now() })
  const confirmed = await post("/account/second-factor/confirm", { code }, token)
  expect(confirmed.json.recovery_codes).toHaveLength(10)
  const { token: step } = await half(email)
  expect((await post("/auth/sign-in/second-factor", { token: step, code: codes?.[0] })).status).toBe(401)
  const body = { password: PASSWORD, ...(await proofBy(device, token)) }
  expect((await world.call("DELETE", "/account/second-factor", { token, body })).status).toBe(204)
  const left = await half(email)
  expect(left.has_passkey).toBe(true)
  const again = { token: left.token, code: confirmed.json.recovery_codes[0] }
  expect((await post("/auth/sign-in/second-factor", again)).status).toBe(200)
})

test("a passkey beside an app leaves it and its recovery codes as they are", async () => {
  const someone = await person()
  const { json } = await post("/account/second-factor", { password: PASSWORD }, someone.token)
  const app = new TOTP({ secret: json.secret })
  const codeNow = () => {
    world.pass(30_000)
    return app.generate({ timestamp: world.now() })
  }
  const confirmed = await post("/account/second-factor/confirm", { code: codeNow() }, someone.token)
  const { id, codes } = await add(someone, { code: codeNow() })
  expect(codes).toBeNull()
  const { token } = someone
  const bothWork = async (isBeside: boolean, recovery: string) => {
    for (const code of [codeNow(), recovery]) {
      const step = await half(someone.email)
      expect(step.has_passkey).toBe(isBeside)
      expect((await post("/auth/sign-in/second-factor", { token: step.token, code })).status).toBe(200)
    }
  }
  const [first, second] = confirmed.json.recovery_codes
  await bothWork(true, first)
  const body = { password: PASSWORD, code: codeNow() }
  expect((await world.call("DELETE", `/account/passkeys/${id}`, { token, body })).status).toBe(204)
  await bothWork(false, second)
})

const beginApp = async ({ token }: Person) => {
  const { json } = await post("/account/second-factor", { password: PASSWORD }, token)
  return new TOTP({ secret: json.secret })
}
const confirmApp = ({ token }: Person, app: TOTP) =>
  post("/account/second-factor/confirm", { code: app.generate({ timestamp: world.now() }) }, token)

test("an app that was begun before the passkey is forgotten with it", async () => {
  const [someone, other] = [await person(), await person()]
  const [app, theirs] = [await beginApp(someone), await beginApp(other)]
  await add(someone)
  expect([(await confirmApp(someone, app)).status, (await confirmApp(other, theirs)).status]).toEqual([400, 200])
})

test("an account has ten at most, also of two at once", async () => {
  const someone = await withPasskey()
  await world.sql`
    insert into passkeys (id, account_id, place, credential_id, public_key, counter, transports, name)
    select 'pk_' || ${someone.id} || n, ${someone.id}, n, decode(md5(${someone.id} || n), 'hex'), '', 0, '{}', 'x'
    from generate_series(2, ${PASSKEYS - 1}::int) n`
  const offers: { challenge: string }[] = []
  for (let n = 0; n < 2; n++) {
    const proof = { password: PASSWORD, ...(await proofBy(someone.device, someone.token)) }
    offers.push((await post("/account/passkeys/options", proof, someone.token)).json)
  }
  const added = await Promise.all(
    offers.map((offer) =>
      post("/account/passkeys", { name: "x", passkey: new Authenticator(ORIGIN).make(offer) }, someone.token),
    ),
  )
  expect(added.map(({ status }) => status).sort((a, b) => a - b)).toEqual([201, 400])
  const proof = { password: PASSWORD, ...(await proofBy(someone.device, someone.token)) }
  expect((await post("/account/passkeys/options", proof, someone.token)).status).toBe(400)
})

test("wrong ones are bounded: by account at the second step, by network alone", async () => {
  const { id, email, device } = await withPasskey()
  const { token } = await half(email)
  const wrong = async () => {
    const asked = await post("/auth/sign-in/second-factor/options", { token })
    const passkey = device.sign(asked.json, { userVerified: false })
    return await post("/auth/sign-in/second-factor", { token, passkey })
  }
  for (let n = 0; n < CODE_TRIES; n++) expect((await wrong()).headers.has("retry-after")).toBe(false)
  expect((await wrong()).headers.has("retry-after")).toBe(true)
  await world.sql`delete from allowances where name = ${`factor of ${id}`}`

  for (let n = 0; n < PASSKEY_SIGN_INS.most; n++) expect((await fromAfar()).status).toBe(200)
  const refused = await fromAfar()
  expect([refused.status, refused.headers.has("retry-after")]).toEqual([401, true])
  world.pauses.length = 0
  for (let n = 0; n < 7; n++) await signIn(device, { userVerified: false })
  expect(world.pauses.length).toBeGreaterThan(0)
})

test("right ones are slowed down by nothing, however many", async () => {
  const { device } = await withPasskey()
  // What others have failed at is forgotten.
  world.pass(1_000_000)
  world.pauses.length = 0
  for (let n = 0; n < 7; n++) expect((await signIn(device)).status).toBe(200)
  expect(world.pauses).toEqual([])
})

test("of one session's challenges only the latest five are kept", async () => {
  const { token, device } = await withPasskey()
  const another = await withPasskey()
  const theirs = await options()
  const asked: { challenge: string; rpId: string }[] = []
  for (let n = 0; n < 6; n++) {
    // The embedded database counts whole milliseconds, and two challenges may have the same.
    await world.sql`update passkey_challenges set expires_at = expires_at - interval '1 second'`
    asked.push((await world.call("POST", "/account/passkeys/proof", { token })).json)
  }
  const remove = (n: number) =>
    world.call("DELETE", "/account/passkeys/pk_none", {
      token,
      body: { password: PASSWORD, passkey: device.sign(asked[n] ?? { challenge: "" }) },
    })
  expect([(await remove(0)).status, (await remove(1)).status]).toEqual([401, 404])
  const passkey = another.device.sign(theirs)
  expect((await post("/auth/sign-in/passkey", { passkey })).status).toBe(200)
})

test("what the database cannot hold is refused, and is no bug", async () => {
  const someone = await person()
  const { token } = someone
  const making = async (
    idBytes: number,
    { transports = ["usb"], said = {} }: { transports?: string[]; said?: object } = {},
  ) => {
    const options = await post("/account/passkeys/options", { password: PASSWORD }, token)
    const made = new Authenticator(ORIGIN, idBytes).make(options.json)
    const passkey = { ...made, ...said, response: { ...made.response, transports } }
    return await post("/account/passkeys", { name: "x", passkey }, token)
  }
  expect((await making(32, { transports: ["a\u0000b"] })).status).toBe(400)
  expect((await making(1_024)).status).toBe(401)
  expect((await making(8_000, { said: { id: "AAAA", rawId: "AAAA" } })).status).toBe(401)
  const longest = await making(1_023, { transports: ["smart-card", "cable"] })
  expect(longest.status).toBe(201)
  const renamed = await world.call("PATCH", "/account/passkeys/%00", { token, body: { name: "x" } })
  expect(renamed.status).toBe(404)
  const body = { password: PASSWORD, code: longest.json.recovery_codes[0] }
  expect((await world.call("DELETE", "/account/passkeys/%00", { token, body })).status).toBe(404)
  expect(world.bugs).toEqual([])
})

test("it is renamed by its owner alone, in words of one line", async () => {
  const { token, passkeyId: id } = await withPasskey()
  const other = await withPasskey()
  const rename = (name: string, by = token) =>
    world.call("PATCH", `/account/passkeys/${id}`, { token: by, body: { name } })
  expect((await rename(" Laptop ")).json).toMatchObject({ id, name: "Laptop" })
  for (const name of ["", "  ", "a\nb", "a\u202eb", "x".repeat(61)]) expect((await rename(name)).status).toBe(400)
  expect((await rename("x".repeat(60))).status).toBe(200)
  expect((await rename("mine", other.token)).status).toBe(404)
})

test("it is removed by its owner alone", async () => {
  const { id, passkeyId, device } = await withPasskey()
  const other = await withPasskey()
  const body = { password: PASSWORD, ...(await proofBy(other.device, other.token)) }
  const removed = await world.call("DELETE", `/account/passkeys/${passkeyId}`, { token: other.token, body })
  expect(removed.status).toBe(404)
  expect((await signIn(device)).json.account.id).toBe(id)
})

test("a reset by who has the machine, and a deletion, leave nothing of it", async () => {
  const { id, token, email, device } = await withPasskey()
  const act = { requestId: crypto.randomUUID(), operatorId: undefined, address: undefined }
  expect(await secondFactorStore(world.db).remove(id, { act, reason: "phone lost" })).toBe(true)
  expect((await world.call("GET", "/account", { token })).status).toBe(401)
  expect((await signIn(device)).status).toBe(401)
  const again = (await post("/auth/sign-in", { email, password: PASSWORD })).json.session_token
  const { json: state } = await world.call("GET", "/account/second-factor", { token: again })
  expect(state).toEqual({ since: null, recovery_codes_left: 0, needed: false })
  const gone = await withPasskey()
  await world.call("DELETE", "/account", { token: gone.token, body: { password: PASSWORD } })
  world.pass(1_000_000)
  expect((await signIn(gone.device)).status).toBe(401)
  for (const account of [id, gone.id]) expect(await passkeyStore(world.db).list(account)).toEqual([])
})

test("an address that is not proved has none", async () => {
  const { token } = await world.signUp()
  expect((await post("/account/passkeys/options", { password: PASSWORD }, token)).status).toBe(403)
})

test("for whom they are comes from PUBLIC_URL, or else of this machine, and never of a visitor", async () => {
  expect(relyingParty("https://loket.example/", 80)).toEqual({ id: "loket.example", origin: ORIGIN })
  expect(relyingParty("https://loket.example:8443", 80)).toEqual({ id: "loket.example", origin: `${ORIGIN}:8443` })
  expect(relyingParty(undefined, 8787)).toEqual({ id: "localhost", origin: "http://localhost:8787" })
  expect(relyingParty("http://loket.localhost:81", 80)).toMatchObject({ id: "loket.localhost" })
  for (const url of ["https://192.0.2.1", "https://[2001:db8::1]", "http://loket.example"])
    expect(relyingParty(url, 80).unavailable).toBeString()
  const { token } = await person()
  const headers = { host: "evil.test", origin: "https://evil.test" }
  const { json } = await post("/account/passkeys/options", { password: PASSWORD }, token, headers)
  expect(json.rp.id).toBe("loket.example")

  await using without = await openWorld({ sendsLinks: true, publicUrl: "https://192.0.2.1" })
  const refused = await without.call("POST", "/auth/sign-in/passkey/options")
  expect([refused.status, refused.json.code]).toEqual([400, "request.unsupported_feature"])
  const { token: other } = await without.signUp()
  const { json: state } = await without.call("GET", "/account/passkeys", { token: other })
  expect(state).toEqual({ data: [], origin: null, unavailable: expect.stringContaining("IP address") })
})
