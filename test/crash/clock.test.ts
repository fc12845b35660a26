/**
 * The clock of the machine set back and forth by an hour, over midnight, under a running gateway: libfaketime under its
 * process, told by a file. Windows and deadlines go by the monotonic clock, which is left alone; calendars by the other.
 */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Glob } from "bun"
import { reconcile } from "../money/reconcile.ts"
import { bodyOf, COUNTS, type Format, formats, paths, terminals } from "./asking.ts"
import { type ChildGateway, House, modelSeed } from "./child.ts"

const [library] = new Glob("/usr/lib/*/faketime/libfaketimeMT.so.1").scanSync({ cwd: "/", absolute: true })
const HOUR_MS = 3_600_000
const WINDOW_MS = 60_000
/** A machine with much else to do may be late with a commit; that is told, and is not what is tested here. */
const BUSY = 503
/** Of every answer: 30 input tokens at 1,000 micro and 20 output tokens at 5,000. */
const CHARGE_MICRO = 130_000
/** What a key may spend in a day. */
const BUDGET_MICRO = 12 * CHARGE_MICRO

let house: House
let gateway: ChildGateway
let directory: string
beforeEach(async () => {
  if (library === undefined) return
  directory = mkdtempSync(join(tmpdir(), "loket-clock-"))
  setClock(beforeMidnightMs())
  house = await House.build(
    formats.flatMap((format) => [
      modelSeed(format, format, COUNTS),
      modelSeed(`slow-${format}`, format, `${COUNTS}&pace=40`),
    ]),
    {
      env: {
        LD_PRELOAD: library,
        FAKETIME_TIMESTAMP_FILE: join(directory, "clock"),
        FAKETIME_NO_CACHE: "1",
        FAKETIME_DONT_FAKE_MONOTONIC: "1",
        NO_FAKE_STAT: "1",
      },
    },
  )
  gateway = await house.start()
})
afterEach(async () => {
  if (library === undefined) return
  await gateway.kill()
  await house[Symbol.asyncDispose]()
  rmSync(directory, { recursive: true })
})

/** By how much the gateway's clock is off from now on. */
function setClock(offsetMs: number): void {
  const seconds = Math.round(offsetMs / 1_000)
  writeFileSync(join(directory, "next"), `${seconds < 0 ? "" : "+"}${seconds}\n`)
  renameSync(join(directory, "next"), join(directory, "clock"))
}

/** An offset that makes it half an hour before midnight in Jakarta, where accounts are until they say otherwise. */
function beforeMidnightMs(): number {
  const jakarta = new Date(Date.now() + 7 * HOUR_MS)
  const midnight = Date.UTC(jakarta.getUTCFullYear(), jakarta.getUTCMonth(), jakarta.getUTCDate() + 1) - 7 * HOUR_MS
  return midnight - HOUR_MS / 2 - Date.now()
}

interface Answer {
  readonly requestId: string
  readonly status: number
  readonly code: string | null
  readonly costRp: string | null
  readonly retryAfterS: number
  readonly ended: boolean
}

async function ask(key: string, format: Format, model: string, stream: boolean): Promise<Answer> {
  const response = await fetch(gateway.url + paths[format], {
    method: "POST",
    headers: { Authorization: `Bearer ${key}` },
    body: JSON.stringify(bodyOf(format, model, stream)),
  })
  const text = await response.text()
  return {
    requestId: response.headers.get("x-request-id") ?? "",
    status: response.status,
    code: response.headers.get("x-error-code"),
    costRp: response.headers.get("x-cost-rp"),
    retryAfterS: Number(response.headers.get("retry-after")),
    ended: response.status === 200 && (!stream || text.includes(terminals[format])),
  }
}

/** Calls until the day's budget is spent; how much that was, in micro-rupiah. */
async function spendTheDay(key: string): Promise<number> {
  for (let spent = 0; ;) {
    const told = await ask(key, "chat", "chat", false)
    if (told.status === 200) {
      spent += Math.round(Number(told.costRp) * 1_000_000)
      continue
    }
    if (told.status === BUSY) continue
    expect(told).toMatchObject({ status: 429, code: "quota.key_limit_exceeded" })
    // A key whose tomorrow has begun stays there when the clock goes back: one budget more in a day would be one too many.
    expect(told.retryAfterS).toBeWithin(1, 86_400 + 7_200)
    return spent
  }
}

const name =
  "a clock that is set an hour back and forth over midnight exceeds no budget, opens no window and loses no call"
test.skipIf(library === undefined)(
  library === undefined ? `${name} (left out: libfaketime is not installed)` : name,
  async () => {
    const start = beforeMidnightMs()
    const customer = await gateway.customer(1_000_000)
    const limits = { spending_limit_micro: BUDGET_MICRO, spending_period: "daily" }
    const budgeted = await gateway.customer(10_000, limits)
    const windowed = await gateway.customer(10_000, { requests_per_minute: 5 })
    const seen: Answer[] = []
    const over = new AbortController()
    const load = Promise.all(
      formats.flatMap((format) =>
        [true, false].map(async (stream) => {
          while (!over.signal.aborted)
            seen.push(await ask(customer.key, format, stream ? `slow-${format}` : format, stream))
        }),
      ),
    )
    // What it fails of is told by the test that has ended before it.
    load.catch(() => {})
    let passed: Answer
    do passed = await ask(windowed.key, "chat", "chat", false)
    while (passed.status !== 429)

    const full = performance.now()
    const spent: number[] = []
    for (const shift of [0, HOUR_MS, 0, HOUR_MS, -HOUR_MS, HOUR_MS]) {
      setClock(start + shift)
      spent.push(await spendTheDay(budgeted.key))
      const fullForMs = performance.now() - full
      const refused = await ask(windowed.key, "chat", "chat", false)
      if (fullForMs < WINDOW_MS - 10_000) {
        expect(refused).toMatchObject({ status: 429, code: "rate_limit.rpm_exceeded" })
        expect(refused.retryAfterS).toBeWithin(1, 61)
      }
      // A session and a payment that began in the future are none the worse for it.
      expect((await gateway.get("/account", customer)).status).toBe(200)
      const topUp = await gateway.openTopUp(customer, 10_000)
      setClock(start - shift)
      await gateway.pay(topUp, 10_000)
      const late = await gateway.customer(10_000)
      setClock(start + shift)
      expect((await gateway.get("/account", late)).status).toBe(200)
    }
    over.abort()
    await load
    expect(seen.filter((call) => !call.ended && call.status !== BUSY)).toEqual([])
    expect(new Set(seen.map((call) => call.requestId)).size).toBe(seen.length)
    expect(gateway.complaints.filter((line) => /crashed|unhandled|fatal/.test(line))).toEqual([])

    expect(await gateway.stop()).toBe(0)
    await house.books(async (sql) => {
      await reconcile(sql)
      const days = await sql<{ spent: bigint }[]>`
        select spent_micro as spent from key_spend where key_id = ${budgeted.keyId} and period = 'daily' order by period_start`
      // Today's and tomorrow's, once each.
      expect(days.map((day) => Number(day.spent))).toEqual(spent.slice(0, 2))
      expect(spent.slice(2)).toEqual([0, 0, 0, 0])
      for (const micro of spent.slice(0, 2)) expect(micro).toBeWithin(BUDGET_MICRO / 2, BUDGET_MICRO + 1)
      const rows = await sql<{ request_id: string; status: string; charge_micro: bigint }[]>`
        select request_id, status, charge_micro from usage where part = 0`
      const records = new Map(rows.map((row) => [row.request_id, row]))
      for (const { requestId, costRp, ended } of seen) {
        if (!ended) continue
        const record = records.get(requestId)
        if (costRp === null && record?.status === "billing_error") expect(record.charge_micro).toBe(0n)
        else expect(record).toMatchObject({ status: "ok", charge_micro: BigInt(CHARGE_MICRO) })
        if (costRp !== null) expect(costRp).toBe("0.13")
      }
    })
  },
)
