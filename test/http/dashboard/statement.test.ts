/** The statement of an account: every change of its balance, and that what is shown adds up to the balance. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import type { Session } from "../../../src/accounts/accounts.ts"
import { Failure } from "../../../src/failure/failure.ts"
import { MAX_ROWS, statement as statementOf } from "../../../src/http/dashboard/statement.ts"
import { newRequestId } from "../../../src/http/edge.ts"
import { accountStore } from "../../../src/store/accounts.ts"
import { movementStore } from "../../../src/store/movements.ts"
import { type SummaryQuestion, usageSumStore } from "../../../src/store/usage-sums.ts"
import { openWorld, type World } from "./world.ts"

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world[Symbol.asyncDispose]())

interface Entry {
  readonly kind: string
  readonly day: string
  readonly at: string | null
  readonly amount_micro: number
  readonly balance_micro: number
  readonly calls: number | null
  readonly key_id: string | null
  readonly top_up_id: string | null
  readonly note: string | null
}
interface Statement {
  readonly month: string
  readonly from: string
  readonly to: string
  readonly first_month: string
  readonly opening_micro: number
  readonly in_micro: number
  readonly out_micro: number
  readonly closing_micro: number
  readonly by_key: boolean
  readonly entries: readonly Entry[]
}

async function statement(token: string, month?: string): Promise<Statement> {
  const query = month === undefined ? "" : `?month=${month}`
  const { status, json } = await world.call("GET", `/account/statement${query}`, { token })
  expect(status).toBe(200)
  return json as Statement
}

/** A transfer of the account's, dated; its balance follows. */
async function moved(
  accountId: string,
  at: string,
  amount: number,
  reason: string,
  key = `${reason}:${crypto.randomUUID()}`,
) {
  const [debit, credit] = amount > 0 ? ["house:x", accountId] : [accountId, "house:x"]
  await world.sql`
    insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason, created_at)
    values (${key}, ${debit}, ${credit}, ${Math.abs(amount)}, ${reason}, ${at})`
  await changed(accountId, amount)
}

const changed = (accountId: string, amount: number) =>
  world.sql`update balances set posted_micro = posted_micro + ${amount} where account_id = ${accountId}`

/** A call as the ledger books it: its record, which is its charge, and the balance. */
async function called(accountId: string, at: string, charge: number, keyId = "key_a") {
  const requestId = newRequestId(Date.parse(at))
  await world.sql`
    insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens,
      output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts,
      flagged, opened_at, duration_ms)
    values (${requestId}, 0, ${accountId}, ${keyId}, 1, 'm', 'chat', true, ${charge > 0 ? "ok" : "upstream_error"}, 1, 1, 0, 0,
      ${charge}, 0, 1, 1, 1, false, ${at}, 1)`
  await changed(accountId, -charge)
  return requestId
}

/** Its transfers are written by a trigger. */
async function voided(accountId: string, requestId: string) {
  const [row] = await world.sql<
    { charge_micro: bigint }[]
  >`select charge_micro from usage where request_id = ${requestId}`
  await world.sql`update usage set charge_micro = 0, status = 'billing_error' where request_id = ${requestId}`
  await changed(accountId, Number(row?.charge_micro))
}

const posted = async (accountId: string) => {
  const [row] = await world.sql<
    { posted_micro: bigint }[]
  >`select posted_micro from balances where account_id = ${accountId}`
  return Number(row?.posted_micro)
}

/** What must hold of every statement: each balance follows from the one below it. */
function addsUp(month: Statement): void {
  let balance = month.opening_micro
  for (const entry of month.entries.toReversed()) {
    balance += entry.amount_micro
    expect(entry.balance_micro).toBe(balance)
  }
  expect(month.closing_micro).toBe(balance)
  expect(month.closing_micro - month.opening_micro).toBe(month.in_micro - month.out_micro)
}

describe("a month", () => {
  test("has what came by itself, and calls by day and key, in the account's days", async () => {
    const { id, token } = await world.signUp()
    await moved(id, "2026-09-30T10:00:00Z", 1_000_000, "top_up")
    // The last hour of September in Jakarta, and the first of October.
    await called(id, "2026-09-30T16:59:00Z", 100)
    await called(id, "2026-09-30T17:01:00Z", 200)
    await called(id, "2026-10-01T03:00:00Z", 300, "key_b")
    await called(id, "2026-10-01T04:00:00Z", 50)
    await moved(id, "2026-10-01T05:00:00Z", 5_000, "adjustment")
    await moved(id, "2026-10-20T05:00:00Z", -700, "adjustment")
    await called(id, "2026-11-02T05:00:00Z", 9)

    const october = await statement(token, "2026-10")
    expect(october).toMatchObject({
      month: "2026-10",
      from: "2026-09-30T17:00:00.000Z",
      to: "2026-10-31T17:00:00.000Z",
      opening_micro: 999_900,
      in_micro: 5_000,
      out_micro: 1_250,
      closing_micro: 1_003_650,
      by_key: true,
    })
    expect(
      october.entries.map((entry) => [entry.day, entry.kind, entry.amount_micro, entry.calls, entry.key_id]),
    ).toEqual([
      ["2026-10-20", "adjustment", -700, null, null],
      ["2026-10-01", "calls", -300, 1, "key_b"],
      ["2026-10-01", "calls", -250, 2, "key_a"],
      ["2026-10-01", "adjustment", 5_000, null, null],
    ])
    for (const month of ["2026-09", "2026-10", "2026-11"]) addsUp(await statement(token, month))
    const [september, november] = [await statement(token, "2026-09"), await statement(token, "2026-11")]
    expect([september.opening_micro, september.closing_micro]).toEqual([0, october.opening_micro])
    expect([november.opening_micro, november.closing_micro]).toEqual([october.closing_micro, await posted(id)])
  })

  test("takes a charge that was taken back for none, and passes over calls that cost nothing", async () => {
    const { id, token } = await world.signUp()
    // The first moment of October in Jakarta.
    await moved(id, "2026-09-30T17:00:00Z", 1_000, "top_up")
    const late = await called(id, "2026-10-02T00:00:00Z", 400)
    await called(id, "2026-10-03T00:00:00Z", 0)
    await voided(id, late)
    const october = await statement(token, "2026-10")
    expect(october.entries.map(({ kind, amount_micro: amount }) => [kind, amount])).toEqual([["top_up", 1_000]])
    expect(october.closing_micro).toBe(await posted(id))
    expect([october.opening_micro, (await statement(token, "2026-09")).closing_micro]).toEqual([0, 0])
    addsUp(october)
    // The charge and its return are transfers of the moment in which it was taken back.
    const transfers =
      await world.sql`select reason from transfers where ${id} in (debit_account, credit_account) order by reason`
    expect(transfers.map(({ reason }) => reason)).toEqual(["charge", "top_up", "void"])
    const present = await statement(token)
    expect(present.entries.filter(({ kind }) => kind !== "top_up")).toEqual([])
    addsUp(present)
  })

  test("links a top-up, and says what was written to an adjustment", async () => {
    const { id, token } = await world.signUp()
    const { json } = await world.call("POST", "/top-ups", { token, body: { amount_rp: 25_000 } })
    expect((await world.call("POST", `/simulated-pay/${json.id}`)).status).toBe(200)
    const transfer = `adjustment:${id}:1`
    await moved(id, new Date().toISOString(), 7, "adjustment", transfer)
    await world.sql`
      insert into audit_log (request_id, action, subject, reason, after)
      values (${crypto.randomUUID()}, 'account.adjusted', ${id}, 'an apology', jsonb_build_object('transfer', ${transfer}::text))`
    const { entries } = await statement(token)
    expect(entries.find(({ kind }) => kind === "top_up")).toMatchObject({
      top_up_id: json.id,
      amount_micro: 25_000_000_000,
    })
    expect(entries.find(({ kind }) => kind === "adjustment")).toMatchObject({ note: "an apology", amount_micro: 7 })
  })

  test("of very many rows has its calls by the day alone", async () => {
    const { id, token } = await world.signUp()
    await moved(id, "2026-10-01T00:00:00Z", 10_000_000, "top_up")
    const sql = world.sql
    const make = (from: number, to: number) => sql`
      insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens,
        output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts,
        flagged, opened_at, duration_ms)
      select 'req_many' || n, 0, ${id}, 'key_' || n, 1, 'm', 'chat', true, 'ok', 1, 1, 0, 0, 1, 0, 1, 1, 1, false,
        '2026-10-05T05:00:00Z', 1 from generate_series(${from}::int, ${to}::int) n`
    await make(1, MAX_ROWS)
    expect((await statement(token, "2026-10")).entries).toHaveLength(MAX_ROWS + 1)
    await make(MAX_ROWS + 1, MAX_ROWS + 1)
    const month = await statement(token, "2026-10")
    expect([month.by_key, month.entries.length]).toEqual([false, 2])
    expect(month.entries[0]).toMatchObject({ calls: MAX_ROWS + 1, key_id: null, amount_micro: -(MAX_ROWS + 1) })
    addsUp(month)
    await make(MAX_ROWS + 2, 2 * MAX_ROWS)
    const sums = usageSumStore(world.db)
    let read = 0
    const counted = {
      ...sums,
      async summarise(question: SummaryQuestion, most?: number) {
        const rows = await sums.summarise(question, most)
        read = Math.max(read, rows.length)
        return rows
      },
    }
    const account = await accountStore(world.db).read(id)
    if (account === undefined) throw new Error("no account")
    const deps = {
      accounts: { account: async () => account },
      movements: movementStore(world.db),
      sums: counted,
      authenticate: Object.assign(async () => new Failure("auth.unauthorized"), {
        changes: { once: async () => new Failure("auth.unauthorized") },
      }),
    }
    const found = await statementOf(deps, { accountId: id, timeZone: account.timeZone } as Session, "2026-10")
    expect(found).toMatchObject({ by_key: false, out_micro: 2 * MAX_ROWS })
    // However many keys have called, no more of them is read than tells that they are too many.
    expect(read).toBe(MAX_ROWS + 1)
  })

  test("is nobody else's", async () => {
    const [one, other] = [await world.signUp(), await world.signUp()]
    await moved(one.id, "2026-10-01T00:00:00Z", 1_000, "top_up")
    expect((await statement(other.token, "2026-10")).entries).toEqual([])
  })

  test.each(["2026", "2026-13", "2026-00", "26-10", "2026-10-01", "x", "1969-12", "9999999-01"])(
    "that is none, such as %s, is refused",
    async (month) => {
      const { token } = await world.signUp()
      const { status, json } = await world.call("GET", `/account/statement?month=${month}`, { token })
      expect([status, json.code]).toEqual([400, "request.invalid"])
    },
  )
})

test("the file has the same, with amounts that a spreadsheet takes for numbers and notes that it does not run", async () => {
  const { id, token } = await world.signUp()
  await moved(id, "2026-10-01T00:00:00Z", 1_500_000, "top_up")
  const transfer = `adjustment:${id}:1`
  await moved(id, "2026-10-02T00:00:00Z", -250_000, "adjustment", transfer)
  await world.sql`
    insert into audit_log (request_id, action, subject, reason, after)
    values (${crypto.randomUUID()}, 'account.adjusted', ${id}, '=HYPERLINK("x")', jsonb_build_object('transfer', ${transfer}::text))`
  const { status, headers, text } = await world.call("GET", "/account/statement.csv?month=2026-10", { token })
  expect(status).toBe(200)
  expect(headers.get("content-disposition")).toBe('attachment; filename="loket-statement-2026-10.csv"')
  expect(text.split("\r\n")).toEqual([
    "day,time,kind,amount_rp,balance_rp,calls,key_id,top_up_id,note,claim_rp",
    "2026-10-01,2026-10-01T00:00:00.000Z,top_up,1.5,1.5,,,,,0",
    `2026-10-02,2026-10-02T00:00:00.000Z,adjustment,-0.25,1.25,,,,"'=HYPERLINK(""x"")",0`,
    "",
  ])
  const indonesian = await world.call("GET", "/account/statement.csv?month=2026-10&lang=id", { token })
  expect(indonesian.text.split("\r\n")[1]).toBe("2026-10-01;2026-10-01T00:00:00.000Z;top_up;1,5;1,5;;;;;0")
})
