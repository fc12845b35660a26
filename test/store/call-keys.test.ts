/** Whose a call's key is, as rows say it: in every order in which a process may die. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test"
import { createHash } from "node:crypto"
import { type CallClaim, callKeyStatements, claimCall } from "../../src/store/call-keys.ts"
import { idempotencyKeyStore } from "../../src/store/idempotency-keys.ts"
import { openTestDatabase, type TestDatabase } from "./harness.ts"

let database: TestDatabase
beforeAll(async () => void (database = await openTestDatabase()))
afterAll(() => database.close())

const hash = (text: string) => createHash("sha256").update(text).digest()
let calls = 0
let account = ""
let one: CallClaim
const anew = (more: Partial<CallClaim> = {}): CallClaim => ({ ...one, requestId: `req_${++calls}`, ...more })
const store = () => callKeyStatements(database.db)
const claimOf = (claim: CallClaim) => claimCall(store(), claim)
const kindOf = async (claim: CallClaim) => (await claimOf(claim)).kind

const closeProcess = (id: string) => database.sql`update processes set closed_at = now() where id = ${id}`
const lease = () => database.sql`
  insert into leases (account_id, process_id, granted_micro, version) values (${account}, ${one.processId}, 0, 1)`
const closeLease = () => database.sql`update leases set closed_at = now() where account_id = ${account}`
const record = (
  { requestId }: CallClaim,
  status: string,
  { attempts = 1, charge = 0, errorCode = null as string | null, streamed = true } = {},
) => database.sql`
  insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens,
    output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts, error_code,
    flagged, opened_at, duration_ms)
  values (${requestId}, 0, ${account}, ${one.keyId}, 1, 'm', 'chat', ${streamed}, ${status}, 5, 7, 1, 2, ${charge}, 0, 1, 1, ${attempts},
    ${errorCode}, false, now(), 1)`
const opening = ({ requestId }: CallClaim) => database.sql`
  insert into openings (request_id, account_id, key_id, lease_id, process_id, model, endpoint, streamed, hold_micro, price_id, opened_at)
  values (${requestId}, ${account}, ${one.keyId}, 1, ${one.processId}, 'm', 'chat', true, 1, 1, now())`

beforeEach(async () => {
  const n = ++calls
  account = `acc_${n}`
  await database.sql`insert into accounts (id, email, password_hash) values (${account}, ${`${n}@example.com`}, '')`
  await database.sql`insert into balances (account_id) values (${account}) on conflict do nothing`
  await database.sql`insert into processes (id) values (${`prc_${n}`}), (${`prc_${n}b`})`
  one = {
    keyId: `key_${n}`,
    keyHash: hash("name"),
    accountId: account,
    fingerprint: hash("body"),
    requestId: `req_first_${n}`,
    processId: `prc_${n}`,
  }
  expect(await kindOf(one)).toBe("claimed")
})

const elsewhere = () => anew({ processId: `${one.processId}b` })

test("a claim that is sent again, because its answer was lost, is the same claim", async () => {
  expect(await kindOf(one)).toBe("claimed")
})

test("two processes that claim at once: one has it", async () => {
  const [a, b] = [anew({ keyHash: hash("other") }), { ...elsewhere(), keyHash: hash("other") }]
  const kinds = await Promise.all([kindOf(a), kindOf(b)])
  expect(kinds.toSorted()).toEqual(["claimed", "in progress"])
})

describe("while its process lives", () => {
  test("it is in progress for every other process", async () => {
    expect(await kindOf(elsewhere())).toBe("in progress")
    await opening(one)
    expect(await kindOf(elsewhere())).toBe("in progress")
  })

  test("another body is a mismatch", async () => {
    expect(await kindOf({ ...elsewhere(), fingerprint: hash("another") })).toBe("mismatch")
  })

  test("its own process asks only for what is not under way any more", async () => {
    const next = anew()
    expect(await kindOf(next)).toBe("claimed")
    // The first one's statement comes late, after it was given up.
    expect(await store().takeCallKey(one)).toBeFalse()
    // What the first one's process still sends of it changes nothing.
    await store().freeCallKey(one)
    expect(await kindOf(elsewhere())).toBe("in progress")
  })
})

test.each([
  ["ok", 1],
  ["usage_missing", 1],
  ["billing_error", 1],
])("a record of %s keeps the key, for every process, with the receipt", async (status, attempts) => {
  await record(one, status, { attempts, charge: status === "ok" ? 42 : 0 })
  for (const claim of [anew(), elsewhere()])
    expect(await claimOf(claim)).toMatchObject({
      kind: "finished",
      receipt: {
        requestId: one.requestId,
        status,
        charge: status === "ok" ? 42n : 0n,
        inputTokens: 5n,
        outputTokens: 7n,
        cacheReadTokens: 1n,
        cacheWriteTokens: 2n,
      },
    })
  expect(await kindOf({ ...anew(), fingerprint: hash("another") })).toBe("mismatch")
  await closeProcess(one.processId)
  expect(await kindOf(elsewhere())).toBe("finished")
})

test.each<[string, number, string | null]>([
  ["upstream_error", 1, "dependency.upstream_unavailable"],
  ["aborted_stream", 1, "dependency.upstream_unavailable"],
  // Written by whoever closed a dead process.
  ["billing_error", 0, null],
  // Its client was told a failure, or had left for good.
  ["billing_error", 1, "billing.reconcile_failed"],
  ["usage_missing", 1, "dependency.upstream_unavailable"],
])(
  "a record of %s with %p tries and the code %p frees it, also for another body",
  async (status, attempts, errorCode) => {
    await record(one, status, { attempts, errorCode })
    expect(await kindOf({ ...elsewhere(), fingerprint: hash("another") })).toBe("claimed")
  },
)

// As a withdrawal does of a charge that was booked after all: a process that dies then has told its client, and has not freed the key.
test.each([
  ["a whole answer frees it, for nobody was given that", false, "claimed"],
  ["a stream keeps it, which was read", true, "finished"],
] as const)("a charge that was taken back of %s", async (_, streamed, kind) => {
  await record(one, "ok", { charge: 42, streamed })
  await database.sql`select take_back_1(${one.requestId})`
  expect(await kindOf(elsewhere())).toBe(kind)
})

test("what the house bore of a whole answer, which was given, keeps the key", async () => {
  await record(one, "billing_error", { streamed: false })
  expect(await kindOf(elsewhere())).toBe("finished")
})

describe("when its process is gone", () => {
  test("nobody has it until nothing can be charged any more: neither an opening nor a lease is left", async () => {
    await lease()
    await opening(one)
    await closeProcess(one.processId)
    expect(await kindOf(elsewhere())).toBe("in progress")
    await closeLease()
    expect(await kindOf(elsewhere())).toBe("in progress")
    await database.sql`delete from openings where request_id = ${one.requestId}`
    expect(await kindOf(elsewhere())).toBe("claimed")
  })

  test("a charge that it made before it was gone keeps the key", async () => {
    await lease()
    await closeProcess(one.processId)
    await record(one, "ok", { charge: 9 })
    await closeLease()
    expect(await kindOf(elsewhere())).toBe("finished")
  })
})

test("after a day it is anybody's, and is removed", async () => {
  await record(one, "ok")
  await database.sql`update idempotency_keys set expires_at = now() where scope = ${one.keyId}`
  expect(await kindOf({ ...elsewhere(), fingerprint: hash("another") })).toBe("claimed")
  await database.sql`update idempotency_keys set expires_at = now() where scope = ${one.keyId}`
  expect(await idempotencyKeyStore(database.db).removeExpired()).toBeGreaterThan(0)
  expect(await database.sql`select 1 from idempotency_keys where scope = ${one.keyId}`).toHaveLength(0)
})

test("calls take no room of the account's changes", async () => {
  await claimOf(one)
  await database.sql`
    insert into idempotency_keys (scope, key_hash, account_id, fingerprint, claim, process_id, claimed_until, expires_at)
    select scope, sha256(n::text::bytea), account_id, fingerprint, claim, process_id, claimed_until, expires_at
    from idempotency_keys, generate_series(1, 1000) n where scope = ${one.keyId}`
  const claim = { scope: account, keyHash: hash("c"), accountId: account, fingerprint: hash("f"), claim: "c" }
  const changes = idempotencyKeyStore(database.db)
  expect(await changes.claim({ ...claim, processId: one.processId })).toEqual({ kind: "claimed" })
})
