import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { startTestGateway, type Person, type TestGateway } from "../../gateway/harness.ts"
import { reconcile } from "../../money/reconcile.ts"
import { caller, makeOperator } from "./operator.ts"

let gateway: TestGateway
let operator: Person
let ask: ReturnType<typeof caller>
let model: string
beforeAll(async () => {
  gateway = await startTestGateway({ env: { DRAIN_LEFT_MS: "100" } })
  operator = await makeOperator(gateway)
  ask = caller(gateway, operator)
  model = await gateway.model({ format: "chat" })
})
afterAll(() => gateway[Symbol.asyncDispose]())

const say = (key: string, id = model) =>
  gateway.post("/v1/chat/completions", key, { model: id, max_tokens: 50, messages: [{ role: "user", content: "hi" }] })
const emailOf = async ({ accountId }: Person): Promise<string> => {
  const [row] = await gateway.sql<{ email: string }[]>`select email from accounts where id = ${accountId}`
  return row?.email ?? ""
}
/** Calls until it is answered like this: a change reaches a live key soon, not at once. */
const answers = async (key: string, status: number) => {
  while ((await say(key)).status !== status) await Bun.sleep(20)
}
const adjust = (person: Person, amount: number, key: string = crypto.randomUUID()) =>
  ask(`/operator/accounts/${person.accountId}/adjustments`, {
    amount_micro: amount,
    reason: "a test",
    idempotency_key: key,
  })

const found = async (query: string): Promise<readonly string[]> => {
  const { json } = await ask(`/operator/accounts?query=${encodeURIComponent(query)}`)
  return json.data.map(({ id }: { id: string }) => id)
}

describe("the search", () => {
  test("finds by e-mail address, id, key id and the beginning of a key, and by nothing else", async () => {
    const person = await gateway.person()
    const email = await emailOf(person)
    const { id: keyId, key } = await gateway.key(person)
    for (const query of [email, email.slice(1, 30).toUpperCase(), person.accountId, keyId, key, key.slice(0, 13)]) {
      const { status, json } = await ask(`/operator/accounts?query=${encodeURIComponent(query)}`)
      expect([query, status, json.data.map(({ id }: { id: string }) => id)]).toEqual([query, 200, [person.accountId]])
    }
    for (const query of ["%", "nobody-at-all", key.slice(20)]) {
      const { json } = await ask(`/operator/accounts?query=${encodeURIComponent(query)}`)
      expect([query, json.data]).toEqual([query, []])
    }
    for (const [query, status] of [
      ["\u0000", 400],
      ["a\u0000", 400],
      ["\u0000a", 400],
      ["a".repeat(255), 400],
      ["a".repeat(254), 200],
    ] as const)
      expect([query, (await ask(`/operator/accounts?query=${encodeURIComponent(query)}`)).status]).toEqual([
        query,
        status,
      ])
  })

  test("finds whose a call, a refused call, a top-up and a payment are, by the whole id", async () => {
    const person = await gateway.person(20_000)
    const { key } = await gateway.key(person)
    const called = (await say(key)).headers.get("x-request-id") ?? ""
    await gateway.usage(person, called)
    const bad = { model: "nothing", messages: [{ role: "user", content: "Halo" }] }
    const refused = (await gateway.post("/v1/chat/completions", key, bad)).headers.get("x-request-id") ?? ""
    const [topUp] = await gateway.sql<{ id: string; reference: string }[]>`
      select id, reference from top_ups where account_id = ${person.accountId}`
    // Refused calls are written a moment later.
    while ((await found(refused)).length === 0) await Bun.sleep(20)
    for (const query of [called, refused, topUp?.id ?? "", topUp?.reference ?? ""])
      expect([query, await found(query)]).toEqual([query, [person.accountId]])
    for (const query of [called.slice(0, -1), `${called}x`, "req_", topUp?.id.slice(0, -1) ?? ""])
      expect([query, await found(query)]).toEqual([query, []])
  })

  test("is read page by page, each account once, the newest first", async () => {
    const people = []
    for (let count = 0; count < 5; count++) people.push((await gateway.person()).accountId)
    const seen: string[] = []
    for (let path = "/operator/accounts?limit=2"; path !== "" && seen.length < 5;) {
      const { json } = await ask(path)
      seen.push(...json.data.map(({ id }: { id: string }) => id))
      path = json.next_cursor === null ? "" : `/operator/accounts?limit=2&cursor=${json.next_cursor}`
    }
    expect(seen.slice(0, 5)).toEqual(people.reverse())
  })
})

test("an account is shown with its keys and top-ups, and never with a secret", async () => {
  const person = await gateway.person(10_000)
  const { id, key } = await gateway.key(person)
  const { status, json } = await ask(`/operator/accounts/${person.accountId}`)
  expect(status).toBe(200)
  expect(json).toMatchObject({ id: person.accountId, balance_micro: 10_000_000_000, frozen: false, deleted_at: null })
  expect(json.keys.map((one: { id: string }) => one.id)).toEqual([id])
  expect([json.key_count, json.active_key_count]).toEqual([1, 1])
  expect(json.top_ups).toMatchObject([{ status: "paid" }])
  expect(JSON.stringify(json)).not.toContain(key)
})

test("an id that is unknown is 404, whatever it looks like", async () => {
  for (const id of ["acc_nobody", "key_1", "x", "%00", "acc_%27"]) {
    for (const path of [`/operator/accounts/${id}`, `/operator/accounts/${id}/transfers`]) {
      const { status, json } = await ask(path)
      expect([path, status, json.code]).toEqual([path, 404, "resource.not_found"])
    }
  }
})

test("the ledger tells what each transfer was for and what was left after it, over pages", async () => {
  const person = await gateway.person(10_000)
  const { key } = await gateway.key(person)
  const ids: string[] = []
  for (let count = 0; count < 3; count++) {
    const response = await say(key)
    expect(response.status).toBe(200)
    ids.push(response.headers.get("x-request-id") ?? "")
  }
  // Somebody else's are in none of the sums.
  const other = await gateway.person(20_000)
  expect((await say((await gateway.key(other)).key)).status).toBe(200)
  await adjust(other, -2_000_000)
  await adjust(person, 5_000_000, "gift-1")
  await adjust(other, 3_000_000)
  const rows: { reason: string; for: string; amount_micro: number; balance_micro: number; note: string | null }[] = []
  for (let path = `/operator/accounts/${person.accountId}/transfers?limit=2`; path !== "";) {
    const { json } = await ask(path)
    rows.push(...json.data)
    const next = `/operator/accounts/${person.accountId}/transfers?limit=2&cursor=${json.next_cursor}`
    path = json.next_cursor === null ? "" : next
  }
  expect(rows.map((row) => row.reason)).toEqual(["adjustment", "charge", "charge", "charge", "top_up"])
  expect(rows.slice(1, 4).map((row) => row.for)).toEqual(ids.reverse())
  expect(rows[0]).toMatchObject({ for: "gift-1", note: "a test", amount_micro: 5_000_000 })
  const { balance_micro } = await gateway.balance(person)
  expect(rows[0]?.balance_micro).toBe(balance_micro)
  for (const [index, row] of rows.entries())
    expect(row.balance_micro - row.amount_micro).toBe(rows[index + 1]?.balance_micro ?? 0)
  for (const forged of ["x", "0", "0 1", "-1 -", "- req_", `${"9".repeat(19)} -`, "- - 0"]) {
    const cursor = Buffer.from(forged).toString("base64url")
    const { status, json } = await ask(`/operator/accounts/${person.accountId}/transfers?cursor=${cursor}`)
    expect([forged, status, json.code]).toEqual([forged, 400, "request.invalid"])
  }
  for (const place of ["0 -", `${"9".repeat(18)} req_0`, "- req_zzz", "- -"]) {
    const cursor = Buffer.from(place).toString("base64url")
    expect((await ask(`/operator/accounts/${person.accountId}/transfers?cursor=${cursor}`)).status).toBe(200)
  }
})

describe("an adjustment", () => {
  test("gives at once: who had nothing calls", async () => {
    const person = await gateway.person()
    const { key } = await gateway.key(person)
    expect((await say(key)).status).toBe(402)
    const { status, json } = await adjust(person, 10_000_000)
    expect([status, json.balance_micro]).toEqual([201, 10_000_000])
    expect((await say(key)).status).toBe(200)
  })

  test("of more than the house's limit is to be confirmed, either way and at its edge", async () => {
    const person = await gateway.person()
    const path = `/operator/accounts/${person.accountId}/adjustments`
    const large = (amount: number, more: object = {}) =>
      ask(path, { amount_micro: amount, reason: "a test", idempotency_key: `k${amount}`, ...more })
    const limit = 5_000_000_000_000
    expect((await ask(`/operator/accounts/${person.accountId}`)).json.confirm_above_micro).toBe(limit)
    expect((await large(limit)).status).toBe(201)
    for (const [amount, more] of [
      [limit + 1, {}],
      [limit + 1, { confirm_large: false }],
      [-limit - 1, {}],
    ] as const) {
      const { status, json } = await large(amount, more)
      expect([status, json.code, json.hint]).toEqual([
        400,
        "request.invalid",
        "Send 'confirm_large': true if it is meant.",
      ])
    }
    expect((await gateway.balance(person)).balance_micro).toBe(limit)
    expect((await large(limit + 1, { confirm_large: true })).json.balance_micro).toBe(2 * limit + 1)
    expect((await large(-limit - 1, { confirm_large: true })).json.balance_micro).toBe(limit)
    const most = await large(Number.MAX_SAFE_INTEGER, { confirm_large: true })
    expect([most.status, most.json.error]).toEqual([
      400,
      "'amount_micro' would make the balance larger than any can be.",
    ])
  })

  test("comes once under its key, however often and however many at once, and its key is for it alone", async () => {
    const person = await gateway.person()
    const answers = await Promise.all(Array.from({ length: 8 }, () => adjust(person, 1_000, "once")))
    expect(answers.map(({ status, json }) => [status, json.balance_micro])).toEqual(answers.map(() => [201, 1_000]))
    expect((await gateway.balance(person)).balance_micro).toBe(1_000)
    const other = await adjust(person, 2_000, "once")
    expect([other.status, other.json.code]).toEqual([400, "request.invalid"])
    const { json } = await ask(`/operator/audit?subject=${person.accountId}`)
    expect(json.data).toHaveLength(1)
    expect(json.data[0]).toMatchObject({
      action: "account.adjusted",
      operator: { id: operator.accountId },
      before: { balance_micro: 0 },
      after: { balance_micro: 1_000, amount_micro: 1_000 },
      reason: "a test",
    })
  })

  test("under a key that was used for another reason is refused, and not taken for the one before", async () => {
    const person = await gateway.person()
    const path = `/operator/accounts/${person.accountId}/adjustments`
    const goodwill = { amount_micro: 1_000, idempotency_key: "1" }
    expect((await ask(path, { ...goodwill, reason: "Monday's failure" })).status).toBe(201)
    const other = await ask(path, { ...goodwill, reason: "Tuesday's failure" })
    expect([other.status, other.json.code]).toEqual([400, "request.invalid"])
    expect(other.json.error).toContain("Monday's failure")
    expect((await ask(path, { ...goodwill, reason: "Monday's failure" })).status).toBe(201)
    expect((await gateway.balance(person)).balance_micro).toBe(1_000)
  })

  test("takes what the gateway has leased and does not need, to the last micro", async () => {
    const person = await gateway.person(10_000)
    const { key } = await gateway.key(person)
    expect((await say(key)).status).toBe(200)
    const { balance_micro } = await gateway.balance(person)
    const { status, json } = await adjust(person, -balance_micro)
    expect([status, json.balance_micro]).toEqual([201, 0])
    expect((await say(key)).status).toBe(402)
  })

  test("never takes what a call holds, and says how much is free", async () => {
    const slow = await gateway.model({ format: "chat", script: "ttft=60000", max_output_tokens: 100 })
    const person = await gateway.person(10_000)
    const { key } = await gateway.key(person)
    const leaving = new AbortController()
    const call = gateway
      .post(
        "/v1/chat/completions",
        key,
        { model: slow, messages: [{ role: "user", content: "hi" }] },
        { signal: leaving.signal },
      )
      .catch(() => {})
    let held = 0
    while (held === 0) held = (await gateway.balance(person)).held_micro
    const { status, json } = await adjust(person, -10_000_000_000)
    expect([status, json.code]).toEqual([400, "request.invalid"])
    const free = Number(/(\d+) micro-rupiah can be taken/.exec(json.error)?.[1])
    expect(free).toBe(10_000_000_000 - held)
    expect((await gateway.balance(person)).balance_micro).toBe(10_000_000_000)
    expect((await adjust(person, -free)).status).toBe(201)
    leaving.abort()
    await call
  })

  test.each([
    { amount_micro: 0, reason: "r", idempotency_key: "k" },
    { amount_micro: 1.5, reason: "r", idempotency_key: "k" },
    { amount_micro: "1", reason: "r", idempotency_key: "k" },
    { amount_micro: 2 ** 53, reason: "r", idempotency_key: "k" },
    { amount_micro: 1, reason: " ", idempotency_key: "k" },
    { amount_micro: 1, reason: "two\nlines", idempotency_key: "k" },
    { amount_micro: 1, reason: "r".repeat(501), idempotency_key: "k" },
    { amount_micro: 1, reason: "half \ud83d", idempotency_key: "k" },
    { amount_micro: 1, reason: "r", idempotency_key: "" },
    { amount_micro: 1, reason: "r", idempotency_key: "a b" },
    { amount_micro: 1, reason: "r", idempotency_key: "k".repeat(101) },
    { amount_micro: 1, reason: "r" },
    { amount_micro: -1, reason: "r", idempotency_key: "k" },
    { amount_micro: 1, amount_rp: 5, reason: "r", idempotency_key: "k" },
  ])("of %j is refused", async (body) => {
    const person = await gateway.person()
    const { status, json } = await ask(`/operator/accounts/${person.accountId}/adjustments`, body)
    expect([status, json.code]).toEqual([400, "request.invalid"])
    expect((await ask(`/operator/audit?subject=${person.accountId}`)).json.data).toEqual([])
  })

  test("of more than the whole balance says what it is and what would be left, whatever gateways keep ready of it", async () => {
    const person = await gateway.person(10_000)
    await say((await gateway.key(person)).key)
    const { balance_micro: balance } = await gateway.balance(person)
    const { status, json } = await adjust(person, -balance - 1)
    expect([status, json.error]).toEqual([
      400,
      `'amount_micro' takes more than the balance, which is ${balance} micro-rupiah: -1 would be left.`,
    ])
  })

  test("that would pass the largest balance is refused", async () => {
    const person = await gateway.person(10_000)
    expect((await adjust(person, Number.MAX_SAFE_INTEGER)).status).toBe(400)
  })
})

test("a frozen account's keys are refused and served again after, and both are logged", async () => {
  const person = await gateway.person(10_000)
  const { key } = await gateway.key(person)
  expect((await say(key)).status).toBe(200)
  const frozen = await ask(`/operator/accounts/${person.accountId}/freeze`, { reason: "odd payments" })
  expect([frozen.status, frozen.json.frozen, frozen.json.frozen_reason]).toEqual([200, true, "odd payments"])
  await answers(key, 403)
  // Once more changes nothing, the first reason least of all.
  const again = await ask(`/operator/accounts/${person.accountId}/freeze`, { reason: "another" })
  expect(again.json.frozen_reason).toBe("odd payments")
  const thawed = await ask(`/operator/accounts/${person.accountId}/unfreeze`, { reason: "cleared" })
  expect([thawed.status, thawed.json.frozen]).toEqual([200, false])
  await answers(key, 200)
  const { json } = await ask(`/operator/audit?subject=${person.accountId}`)
  expect(json.data.map((row: { action: string; reason: string }) => [row.action, row.reason])).toEqual([
    ["account.unfrozen", "cleared"],
    ["account.frozen", "odd payments"],
  ])
})

test("the books agree", async () => {
  await reconcile(gateway.sql, { busy: true })
  expect(gateway.complaints).toEqual([])
})
