/** Changes that carry an `Idempotency-Key`: one effect each, whoever sends them how often, and whoever dies in between. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { nanoid } from "nanoid"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { Keys } from "../../src/accounts/keys.ts"
import { Failure } from "../../src/failure/failure.ts"
import { Changes, type Outcome } from "../../src/http/changes.ts"
import { apiKeyStore } from "../../src/store/api-keys.ts"
import { unbound } from "../../src/store/key-rows.ts"
import { type ChangeName, type IdempotencyKeyStore, idempotencyKeyStore } from "../../src/store/idempotency-keys.ts"
import { PASSWORD, openWorld, type World } from "./dashboard/world.ts"

let world: World
beforeAll(async () => void (world = await openWorld()))
afterAll(() => world[Symbol.asyncDispose]())

type Person = Awaited<ReturnType<World["signUp"]>>

const post = ({ token }: Person, path: string, key: string, body: object = {}) =>
  world.call("POST", path, { token, body, headers: { "idempotency-key": key } })
const keysOf = async (person: Person) =>
  (await world.sql<{ id: string }[]>`select id from api_keys where account_id = ${person.id}`).map(({ id }) => id)
const secretsOf = (id: string) => world.sql`select 1 from key_secrets where key_id = ${id}`

describe("over HTTP", () => {
  test("a key is made once, and shown again in the same bytes", async () => {
    const person = await world.signUp()
    const first = await post(person, "/keys", "a", { name: "one" })
    expect(first.status).toBe(201)
    expect(first.headers.get("idempotency-replayed")).toBeNull()
    const again = await post(person, "/keys", "a", { name: "one" })
    expect([again.status, again.text]).toEqual([201, first.text])
    expect(again.headers.get("idempotency-replayed")).toBe("true")
    expect(again.headers.get("x-request-id")).not.toBe(first.headers.get("x-request-id"))
    expect(await keysOf(person)).toEqual([first.json.id])
  })

  test("sent at the same moment, a change has one effect and one answer", async () => {
    const person = await world.signUp()
    const answers = await Promise.all(Array.from({ length: 8 }, () => post(person, "/keys", "b", { name: "one" })))
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1)
    expect(await keysOf(person)).toHaveLength(1)
    const [id = ""] = await keysOf(person)
    await Promise.all([1, 2, 3].map(() => post(person, `/keys/${id}/rotate`, "c", { overlap_s: 60 })))
    // The first secret has a row from the first rotation on.
    expect(await secretsOf(id)).toHaveLength(2)
    await Promise.all([1, 2, 3].map(() => post(person, "/top-ups", "d", { amount_rp: 50_000 })))
    expect(await world.sql`select 1 from top_ups where account_id = ${person.id}`).toHaveLength(1)
  })

  test("the same key with another body, path or method is a mismatch", async () => {
    const person = await world.signUp()
    const { json } = await post(person, "/keys", "a", { name: "one" })
    for (const answer of [
      await post(person, "/keys", "a", { name: "two" }),
      await post(person, `/keys/${json.id}/revoke`, "a", { name: "one" }),
      await world.call("PATCH", `/keys/${json.id}`, {
        token: person.token,
        body: { name: "one" },
        headers: { "idempotency-key": "a" },
      }),
    ])
      expect([answer.status, answer.json.code]).toEqual([409, "idempotency.mismatch"])
    expect(await keysOf(person)).toHaveLength(1)
  })

  test("a refused change frees its key, and a body that cannot be one takes none", async () => {
    const person = await world.signUp()
    const wrong = await post(person, "/keys", "a", { name: "one", spending_limit_micro: 5 })
    expect(wrong.json.code).toBe("request.invalid")
    expect((await post(person, "/keys", "a", { name: 7 })).json.code).toBe("request.invalid")
    // So does one that the statement itself refuses.
    await world.sql`update accounts set frozen_at = now(), frozen_reason = 'a test' where id = ${person.id}`
    expect((await post(person, "/keys", "a", { name: "one" })).json.code).toBe("auth.account_frozen")
    await world.sql`update accounts set frozen_at = null, frozen_reason = null where id = ${person.id}`
    expect((await post(person, "/keys", "a", { name: "one" })).status).toBe(201)
  })

  test("a key belongs to its account", async () => {
    const [one, other] = [await world.signUp(), await world.signUp()]
    await post(one, "/keys", "same", { name: "one" })
    expect((await post(other, "/keys", "same", { name: "other" })).status).toBe(201)
  })

  test.each([
    ["empty", "", 400],
    ["with a space", "a b", 400],
    ["256 characters", "x".repeat(256), 400],
    ["255 characters", "x".repeat(255), 201],
    ["one character", "~", 201],
  ])("a key that is %s", async (_, key, status) => {
    const person = await world.signUp()
    expect((await post(person, "/keys", key, { name: "one" })).status).toBe(status)
    expect(await keysOf(person)).toHaveLength(status === 201 ? 1 : 0)
  })

  test("nothing of key and body is in the rows", async () => {
    const person = await world.signUp()
    const key = nanoid()
    const { json } = await post(person, "/keys", key, { name: "Rahasia" })
    await post(person, "/auth/password", `${key}-p`, { current: PASSWORD, new: "another long pass" })
    const rows = await world.sql`select * from idempotency_keys where account_id = ${person.id}`
    expect(rows).toHaveLength(2)
    const text = rows
      .map((row) => Object.values(row).map((value) => Buffer.from(value ?? "").toString("latin1")))
      .join()
    for (const secret of [key, "Rahasia", json.key, PASSWORD]) expect(text).not.toContain(secret)
  })

  test("a question with a key is asked anew each time", async () => {
    const person = await world.signUp()
    const ask = () => world.call("GET", "/keys", { token: person.token, headers: { "idempotency-key": "a" } })
    expect((await ask()).json.data).toEqual([])
    await post(person, "/keys", "a", { name: "one" })
    const again = await ask()
    expect([again.json.data.length, again.headers.get("idempotency-replayed")]).toEqual([1, null])
  })

  test("a change without a body, and without an answer", async () => {
    const person = await world.signUp()
    const { json } = await post(person, "/keys", "a", { name: "one" })
    const [first, again] = [
      await post(person, `/keys/${json.id}/revoke`, "r"),
      await post(person, `/keys/${json.id}/revoke`, "r"),
    ]
    expect([first.status, again.text]).toEqual([200, first.text])
    expect((await post(person, "/auth/sign-out", "s")).status).toBe(204)
  })
})

const request = (key: string) =>
  new Request("http://loket/keys", { method: "POST", headers: { "idempotency-key": key } })
const session = ({ id }: Person) => ({ accountId: id }) as Parameters<Keys["create"]>[0]

/** A process: what it remembers is its own, what it writes is everybody's. */
async function startProcess() {
  const processId = `proc_${nanoid()}`
  await world.sql`insert into processes (id) values (${processId})`
  const problems: unknown[] = []
  const changes = new Changes({
    store: idempotencyKeyStore(world.db),
    processId,
    failed: (error) => problems.push(error),
  })
  const keys = new Keys({
    store: apiKeyStore(world.db),
    keysChanged: async () => true,
    accountChanged() {},
    originsChanged: async () => {},
    mostKeys: 200,
    isModel: () => true,
    live: async () => undefined,
  })
  const once = (accountId: string, key: string, work: (change: ChangeName | undefined) => Promise<Outcome | Failure>) =>
    changes.once({ accountId, request: request(key), body: new Uint8Array() }, work)
  const wishes = {
    name: "one",
    requestsPerMinute: undefined,
    tokensPerMinute: undefined,
    spendingLimitMicro: undefined,
    spendingPeriod: undefined,
    fallback: undefined,
    showsBalance: undefined,
    replaysRetries: undefined,
    ...unbound,
  }
  const make = (person: Person) => async (change: ChangeName | undefined) => {
    const made = await keys.create(session(person), wishes, change)
    return made instanceof Failure ? made : { answer: { id: made.record.id, key: made.key }, status: 201 }
  }
  const rotate = (person: Person, id: string) => async (change: ChangeName | undefined) => {
    const made = await keys.rotate({ accountId: session(person).accountId, keyId: id }, 60, change)
    return made instanceof Failure ? made : { answer: { id, key: made.key }, status: 201 }
  }
  const die = () => world.sql`update processes set closed_at = now() where id = ${processId}`
  return { once, make, rotate, die, problems }
}
const died = () => new Promise<never>(() => {})
/** One of the person's changes has its claim. */
async function begun(person: Person): Promise<void> {
  const claims = () => world.sql`select from idempotency_keys where account_id = ${person.id}`
  while ((await claims()).length === 0) await Bun.sleep(5)
}
const codeOf = (outcome: unknown) => (outcome instanceof Failure ? outcome.code : "done")

describe("between processes", () => {
  test("of many at once one carries it out; the others say so, then what it made", async () => {
    const person = await world.signUp()
    const processes = await Promise.all([startProcess(), startProcess(), startProcess(), startProcess()])
    const outcomes = await Promise.all(processes.map(({ once, make }) => once(person.id, "k", make(person))))
    const codes = outcomes.map(codeOf)
    expect(codes.filter((code) => code === "done")).toHaveLength(1)
    for (const code of codes) expect(["done", "idempotency.in_progress", "idempotency.finished"]).toContain(code)
    const [id = ""] = await keysOf(person)
    expect(await keysOf(person)).toEqual([id])
    for (const [at, { once, make }] of processes.entries()) {
      const later = await once(person.id, "k", make(person))
      if (codes[at] === "done") expect(codeOf(later)).toBe("done")
      else expect(later).toMatchObject({ code: "idempotency.finished", message: expect.stringContaining(id) })
    }
    expect(await keysOf(person)).toEqual([id])
  })

  test("while one is at it, the others are told to wait", async () => {
    const person = await world.signUp()
    const [one, other] = [await startProcess(), await startProcess()]
    void one.once(person.id, "k", died)
    await begun(person)
    const refused = await other.once(person.id, "k", other.make(person))
    expect(refused).toMatchObject({ code: "idempotency.in_progress", detail: { retryAfterS: 1 } })
    expect(await keysOf(person)).toEqual([])
  })

  test("killed before the effect: whoever comes next carries it out", async () => {
    const person = await world.signUp()
    const [dead, next] = [await startProcess(), await startProcess()]
    void dead.once(person.id, "k", died)
    await begun(person)
    await dead.die()
    expect(codeOf(await next.once(person.id, "k", next.make(person)))).toBe("done")
    expect(await keysOf(person)).toHaveLength(1)
  })

  test("killed after the effect and before its note: it is not carried out again, and what it made is named", async () => {
    const person = await world.signUp()
    const [dead, next] = [await startProcess(), await startProcess()]
    void dead.once(person.id, "k", async (change) => {
      await dead.make(person)(change)
      return await died()
    })
    while ((await keysOf(person)).length === 0) await Bun.sleep(5)
    await dead.die()
    const [id = ""] = await keysOf(person)
    const outcome = await next.once(person.id, "k", next.make(person))
    expect(outcome).toMatchObject({ code: "idempotency.finished", message: expect.stringContaining(id) })
    expect(await keysOf(person)).toEqual([id])

    void dead.once(person.id, "r", async (change) => {
      await dead.rotate(person, id)(change)
      return await died()
    })
    while ((await secretsOf(id)).length < 2) await Bun.sleep(5)
    expect(codeOf(await next.once(person.id, "r", next.rotate(person, id)))).toBe("idempotency.finished")
    expect(await secretsOf(id)).toHaveLength(2)
  })

  test("a late process that lost its claim has no second effect", async () => {
    const person = await world.signUp()
    const [late, next] = [await startProcess(), await startProcess()]
    const resumed = Promise.withResolvers<void>()
    const lateOne = late.once(person.id, "k", async (change) => {
      await resumed.promise
      return await late.make(person)(change)
    })
    await begun(person)
    await world.sql`update idempotency_keys set claimed_until = now() where account_id = ${person.id}`
    expect(codeOf(await next.once(person.id, "k", next.make(person)))).toBe("done")
    resumed.resolve()
    expect(codeOf(await lateOne)).toBe("idempotency.finished")
    expect(await keysOf(person)).toHaveLength(1)
  })

  test("a late process's top-up is over at once, and the other is the only one that can be paid", async () => {
    const person = await world.signUp()
    const [late, next] = [await startProcess(), await startProcess()]
    const open = async (change: ChangeName | undefined) => {
      const made = await world.topUps.open(person.id, 50_000, change)
      return made instanceof Failure ? made : { answer: { id: made.id }, status: 201 }
    }
    const resumed = Promise.withResolvers<void>()
    const lateOne = late.once(person.id, "t", async (change) => {
      await resumed.promise
      return await open(change)
    })
    await begun(person)
    await world.sql`update idempotency_keys set claimed_until = now() where account_id = ${person.id}`
    const made = await next.once(person.id, "t", open)
    resumed.resolve()
    expect([codeOf(made), codeOf(await lateOne)]).toEqual(["done", "idempotency.finished"])
    const rows = await world.sql`
      select qr_payload <> '' as shown, expires_at > now() as payable, next_check_at is not null as asked from top_ups
      where account_id = ${person.id} order by shown desc`
    expect([...rows]).toEqual([
      { shown: true, payable: true, asked: true },
      { shown: false, payable: false, asked: false },
    ])
  })

  test("after a failure of which nobody knows what it did, the same change may begin at once", async () => {
    const person = await world.signUp()
    const [one, other] = [await startProcess(), await startProcess()]
    const lost = one.once(person.id, "k", async (change) => {
      await one.make(person)(change)
      throw new Error("the connection was lost")
    })
    expect(await lost.catch(String)).toContain("the connection was lost")
    expect(codeOf(await other.once(person.id, "k", other.make(person)))).toBe("idempotency.finished")
    expect(codeOf(await one.once(person.id, "l", async () => new Failure("dependency.database_unavailable")))).toBe(
      "dependency.database_unavailable",
    )
    expect(codeOf(await other.once(person.id, "l", other.make(person)))).toBe("done")
  })

  test("after 24 hours a key is new", async () => {
    const person = await world.signUp()
    const [one, other] = [await startProcess(), await startProcess()]
    await one.once(person.id, "k", one.make(person))
    await world.sql`update idempotency_keys set expires_at = now() where account_id = ${person.id}`
    expect(codeOf(await other.once(person.id, "k", other.make(person)))).toBe("done")
    const third = await startProcess()
    expect(codeOf(await third.once(person.id, "k", third.make(person)))).toBe("idempotency.finished")
    expect(await keysOf(person)).toHaveLength(2)
    await world.sql`update idempotency_keys set expires_at = now() where account_id = ${person.id}`
    expect(await idempotencyKeyStore(world.db).removeExpired()).toBe(1)
    expect(await world.sql`select 1 from idempotency_keys where account_id = ${person.id}`).toHaveLength(0)
  })
})

test("while a change is under way, its key with another body is a mismatch", async () => {
  const person = await world.signUp()
  const changes = new Changes({ store: idempotencyKeyStore(world.db), processId: "proc_w", failed() {} })
  const done = Promise.withResolvers<Outcome>()
  const send = (body: string) =>
    changes.once({ accountId: person.id, request: request("k"), body: Buffer.from(body) }, () => done.promise)
  const sent = ["one", "two", "one"].map(send)
  done.resolve({ answer: { id: "x" }, status: 201 })
  expect((await Promise.all(sent)).map(codeOf)).toEqual(["done", "idempotency.mismatch", "done"])
})

test("a key is bound to the method, the path, the query and the body, also where nobody knows what became of the change", async () => {
  const person = await world.signUp()
  const changes = new Changes({ store: idempotencyKeyStore(world.db), processId: "proc_v", failed() {} })
  const sent = { method: "POST", path: "/keys?dry_run=true", body: "one" }
  const send = async (key: string, more: Partial<typeof sent>, outcome: Outcome | Failure) => {
    const { method, path, body } = { ...sent, ...more }
    const asked = new Request(`http://loket${path}`, { method, headers: { "idempotency-key": key } })
    return codeOf(
      await changes.once({ accountId: person.id, request: asked, body: Buffer.from(body) }, async () => outcome),
    )
  }
  const done = { answer: { id: "x" }, status: 201 }
  const away = new Failure("dependency.database_unavailable")
  expect([await send("done", {}, done), await send("away", {}, away)]).toEqual(["done", away.code])
  for (const more of [{ method: "PUT" }, { path: "/keys" }, { path: "/key?dry_run=true" }, { body: "two" }])
    for (const key of ["done", "away"])
      expect([more, await send(key, more, done)]).toEqual([more, "idempotency.mismatch"])
  expect(await send("away", {}, done)).toBe("done")
  // Nor can the body be guessed from a row: the fingerprint is of the key too.
  const rows = await world.sql<{ fingerprint: Uint8Array }[]>`
    select fingerprint from idempotency_keys where account_id = ${person.id}`
  expect(new Set(rows.map(({ fingerprint }) => Buffer.from(fingerprint).toString("hex"))).size).toBe(2)
})

const writeRows = (person: Person, count: number, expiresInS: number) => world.sql`
  insert into idempotency_keys (scope, key_hash, account_id, fingerprint, claim, process_id, claimed_until, expires_at)
  select ${person.id}, sha256(n::text::bytea), ${person.id}, sha256('f'), 'claim', 'proc_x', now(),
    now() + make_interval(secs => ${expiresInS}) from generate_series(1, ${count}::int) n`

describe("bounds", () => {
  test("an account has a thousand rows, and those that it has still count", async () => {
    const person = await world.signUp()
    const store = idempotencyKeyStore(world.db)
    await writeRows(person, 998, 86_400)
    const name = (key: string) => ({
      scope: person.id,
      accountId: person.id,
      keyHash: Buffer.alloc(32, key),
      fingerprint: Buffer.alloc(32, "f"),
      claim: nanoid(),
      processId: "proc_x",
    })
    expect((await store.claim(name("a"))).kind).toBe("claimed")
    expect((await store.claim(name("b"))).kind).toBe("claimed")
    expect((await store.claim(name("c"))).kind).toBe("too many")
    expect((await store.claim(name("a"))).kind).toBe("in progress")
  })

  test("ten thousand rows whose time is over are removed in one statement, and the others in the next", async () => {
    const person = await world.signUp()
    const store = idempotencyKeyStore(world.db)
    while ((await store.removeExpired()) > 0);
    await writeRows(person, 10_001, 0)
    expect([await store.removeExpired(), await store.removeExpired()]).toEqual([10_000, 1])
  })

  test("a claim that is sent again is the same one, and one that is over is for the same request alone", async () => {
    const person = await world.signUp()
    const store = idempotencyKeyStore(world.db)
    const claim = {
      scope: person.id,
      accountId: person.id,
      keyHash: Buffer.alloc(32, "a"),
      fingerprint: Buffer.alloc(32, "f"),
      claim: nanoid(),
      processId: "proc_x",
    }
    for (const _ of [1, 2]) expect((await store.claim(claim)).kind).toBe("claimed")
    await store.giveUp(claim)
    const next = { ...claim, claim: nanoid() }
    expect((await store.claim({ ...next, fingerprint: Buffer.alloc(32, "g") })).kind).toBe("mismatch")
    expect((await store.claim(next)).kind).toBe("claimed")
    // Whoever has lost it frees nothing of it.
    await store.free(claim)
    expect((await store.find(next)).kind).toBe("in progress")
    await store.finish(next, "made")
    await store.free(next)
    expect((await store.find(next)).kind).toBe("finished")
  })

  test("a change that nobody ends is its process's for a minute, and its key another's after a day", async () => {
    const person = await world.signUp()
    const store = idempotencyKeyStore(world.db)
    const later = (seconds: number) => world.sql`
      update idempotency_keys set claimed_until = claimed_until - make_interval(secs => ${seconds}),
        expires_at = expires_at - make_interval(secs => ${seconds}) where account_id = ${person.id}`
    const claim = (fingerprint = "f") => ({
      scope: person.id,
      accountId: person.id,
      keyHash: Buffer.alloc(32, "a"),
      fingerprint: Buffer.alloc(32, fingerprint),
      claim: nanoid(),
      processId: "proc_x",
    })
    await store.claim(claim())
    await later(50)
    expect((await store.claim(claim())).kind).toBe("in progress")
    await later(10)
    const next = claim()
    expect((await store.claim(next)).kind).toBe("claimed")
    await store.finish(next, "made")
    // The day goes by from the first claim.
    await later(86_330)
    expect((await store.claim(claim())).kind).toBe("finished")
    expect((await store.claim(claim("g"))).kind).toBe("mismatch")
    await later(10)
    expect((await store.claim(claim("g"))).kind).toBe("claimed")
  })

  test("of answers a process keeps twenty of an account, for five minutes, none over 64 KiB", async () => {
    const person = await world.signUp()
    let time = 0
    const store = idempotencyKeyStore(world.db)
    const changes = new Changes({ store, processId: "proc_y", failed() {}, now: () => time })
    let carriedOut = 0
    const once = (key: string, answer: unknown = { id: "x" }) => {
      const request = new Request("http://loket/x", { method: "POST", headers: { "idempotency-key": key } })
      const sent = { accountId: person.id, request, body: new Uint8Array() }
      return changes.once(sent, async () => ({ answer, status: (carriedOut++, 200) }))
    }
    for (let key = 0; key < 21; key++) expect(codeOf(await once(`k${key}`))).toBe("done")
    expect(codeOf(await once("k0"))).toBe("idempotency.finished")
    expect(codeOf(await once("k1"))).toBe("done")
    time = 5 * 60_000
    expect(codeOf(await once("k1"))).toBe("idempotency.finished")
    expect(codeOf(await once("large", { id: "y", text: "x".repeat(64 * 1024) }))).toBe("done")
    expect(codeOf(await once("large"))).toBe("idempotency.finished")
    // A file is read by whoever asked for it.
    expect(codeOf(await once("file", new Response("x")))).toBe("done")
    expect(codeOf(await once("file"))).toBe("idempotency.finished")
    expect(carriedOut).toBe(23)
  })

  test("answers of all accounts together have so much memory, and the oldest go for the newest", async () => {
    const store: IdempotencyKeyStore = {
      claim: async () => ({ kind: "claimed" }),
      find: async () => ({ kind: "finished", at: new Date(), made: undefined }),
      finish: async () => {},
      free: async () => {},
      giveUp: async () => {},
      removeExpired: async () => 0,
    }
    const changes = new Changes({ store, processId: "proc_m", failed() {}, clock: new VirtualClock() })
    const text = "x".repeat(60_000)
    const once = (n: number) =>
      changes.once({ accountId: `acc_${n % 20}`, request: request(`k${n}`), body: new Uint8Array() }, async () => ({
        answer: text,
        status: 200,
      }))
    const isKept = async (n: number) => {
      const outcome = await once(n)
      return !(outcome instanceof Failure) && outcome.headers !== undefined
    }
    // Each is its JSON and 256 for itself; nobody has over 20.
    const most = Math.floor((8 * 1024 * 1024) / (60_000 + 2 + 256))
    for (let n = 0; n < most; n++) await once(n)
    expect([changes.keptSize, await isKept(0)]).toEqual([most * 60_258, true])
    for (let n = most; n < most + 3; n++) await once(n)
    expect(changes.keptSize).toBe(most * 60_258)
    expect(await Promise.all([3, most + 2].map(isKept))).toEqual([true, true])
    expect(await isKept(2)).toBeFalse()
  })

  test("an answer is gone after five minutes also where nobody comes back: it may hold an API key", async () => {
    const person = await world.signUp()
    const clock = new VirtualClock()
    const changes = new Changes({
      store: idempotencyKeyStore(world.db),
      processId: "proc_z",
      failed() {},
      now: () => clock.now(),
      clock,
    })
    const once = (key: string) => {
      const request = new Request("http://loket/x", { method: "POST", headers: { "idempotency-key": key } })
      const sent = { accountId: person.id, request, body: new Uint8Array() }
      return changes.once(sent, async () => ({ answer: { key: "of-somebody" }, status: 200 }))
    }
    await once("first")
    const ofOne = changes.keptSize
    clock.advance(60_000)
    await once("second")
    expect([ofOne > 0, changes.keptSize]).toEqual([true, 2 * ofOne])
    clock.advance(4 * 60_000)
    expect(changes.keptSize).toBe(ofOne)
    clock.advance(60_000)
    expect(changes.keptSize).toBe(0)
    expect(clock.runNext()).toBeFalse()
  })
})
