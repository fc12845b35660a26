/**
 * The database goes away under load and comes back. Milliseconds. `LOKET_TEST_OUTAGE_MS` makes the outage longer than is
 * bearable in a suite.
 */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { type Person, startTestGateway, type TestGateway } from "../../gateway/harness.ts"
import { reconcile } from "../../money/reconcile.ts"
import { type FaultProxy, openFaultProxy } from "../../store/fault-proxy.ts"
import { bodyOf, COUNTS, type Format, formats, paths, terminals } from "../asking.ts"

const OUTAGE_MS = Number(Bun.env["LOKET_TEST_OUTAGE_MS"] ?? 6_000)
const SETTLE_DEADLINE_MS = 2_000
const RECOVERY_MS = 5_000
const LIMIT_MS = OUTAGE_MS + 60_000

/** Of every answer: 30 input tokens at 1,000 and 20 output tokens at 5,000. */
const CHARGE_MICRO = 130_000
const CREDIT_RP = 1_000_000
/** What a batch that charges carries in its bytes, and nothing else does. */
const SETTLING = ",ok,"

let gateway: TestGateway
let proxy: FaultProxy
let person: Person
let key: string
let fast: Record<Format, string>
/** Ends the load. */
let over: AbortController

beforeEach(() => open(SETTLE_DEADLINE_MS))
afterEach(close)

async function open(settleDeadlineMs: number): Promise<void> {
  gateway = await startTestGateway({
    env: { SETTLE_DEADLINE_MS: String(settleDeadlineMs) },
    databaseUrl: async (url) => (proxy = await openFaultProxy(url)).url,
  })
  person = await gateway.person(CREDIT_RP)
  key = (await gateway.key(person)).key
  fast = await models("pace=5")
  over = new AbortController()
}

async function close(): Promise<void> {
  over.abort()
  await gateway[Symbol.asyncDispose]()
  await proxy.close()
}

async function models(script: string): Promise<Record<Format, string>> {
  const made = { chat: "", messages: "", responses: "" }
  for (const format of formats) {
    const wish = { format, script: `${COUNTS}&${script}`, max_concurrency: 1_000 }
    made[format] = await gateway.model(wish)
  }
  return made
}

interface Seen {
  readonly requestId: string
  readonly status: number
  readonly code: string | null
  readonly streamed: boolean
  /** The terminal event, or the whole body, arrived. */
  readonly ended: boolean
  readonly costRp: string | null
}

async function ask(format: Format, model: string, stream: boolean, withKey = key): Promise<Seen> {
  const response = await gateway.post(paths[format], withKey, bodyOf(format, model, stream))
  const text = await response.text()
  return {
    requestId: response.headers.get("x-request-id") ?? "",
    status: response.status,
    code: response.headers.get("x-error-code"),
    streamed: stream,
    ended: response.status === 200 && (!stream || text.includes(terminals[format])),
    costRp: response.headers.get("x-cost-rp"),
  }
}

/** One call of each format, streaming and not. */
const oneOfEach = (of: Record<Format, string>, withKey = key): Promise<Seen[]> =>
  Promise.all(formats.flatMap((format) => [true, false].map((stream) => ask(format, of[format], stream, withKey))))

/** Calls in a steady stream until it is over. They are in `seen` as they end. */
async function load(workers: number, seen: Seen[] = []): Promise<Seen[]> {
  const { signal } = over
  const work = async (worker: number) => {
    for (let n = worker; !signal.aborted; n++) {
      const format = formats[n % 3]!
      // A test that has failed does not wait for its calls.
      const call = await ask(format, fast[format], n % 2 === 0).catch((error: unknown) => {
        if (!signal.aborted) throw error
      })
      if (call !== undefined) seen.push(call)
      await Bun.sleep(5)
    }
  }
  await Promise.all(Array.from({ length: workers }, (_, worker) => work(worker)))
  return seen
}

/** Waits for the next call to pass, and says how long that took. */
const recovered = () =>
  lived(async () => {
    for (;;) {
      const seen = await ask("chat", fast.chat, false)
      if (seen.status === 200) return
      expect(seen.status).toBe(503)
      await Bun.sleep(50)
    }
  })

const TICK_MS = 25

/** How many milliseconds of this process's own something takes: a tick that comes late counts as one in time, since the machine was late then. */
async function lived(work: () => Promise<unknown>): Promise<number> {
  let ms = 0
  const ticking = setInterval(() => (ms += TICK_MS), TICK_MS)
  try {
    await work()
    return ms
  } finally {
    clearInterval(ticking)
  }
}

const calledAs = (id: string) => gateway.simulator.calls.some(({ model }) => model.startsWith(`${id}?`))

/** Waits until a call for each of these models is at its backend. */
async function atBackends(models: readonly string[]): Promise<void> {
  while (models.some((id) => !calledAs(id))) await Bun.sleep(5)
}

/** Waits until the ledger is known to be behind. */
async function noticed(): Promise<void> {
  for (;;) {
    const { ledger } = (await (await fetch(`${gateway.url}/readyz`)).json()) as { ledger: boolean }
    if (!ledger) return
    await Bun.sleep(20)
  }
}

/** Every client was told the truth, and the books are right. */
async function audit(seen: readonly Seen[]): Promise<void> {
  await reconcile(gateway.sql)
  const rows = await gateway.sql<{ request_id: string; status: string; charge_micro: bigint }[]>`
    select request_id, status, charge_micro from usage where part = 0 and account_id = ${person.accountId}`
  const records = new Map(rows.map((row) => [row.request_id, row]))
  for (const call of seen) {
    const record = records.get(call.requestId)
    const facts = { ...call, recorded: record?.status, charged: record?.charge_micro }
    if (call.code === "billing.reconcile_failed")
      expect(facts).toMatchObject({ recorded: "billing_error", charged: 0n })
    else if (call.status === 503) expect(facts.charged ?? 0n).toBe(0n)
    else if (call.streamed) {
      expect(facts).toMatchObject({ status: 200, ended: true, recorded: expect.stringMatching(/^(ok|billing_error)$/) })
    } else expect(facts).toMatchObject({ status: 200, costRp: "0.13", recorded: "ok", charged: BigInt(CHARGE_MICRO) })
  }
  const charged = rows.reduce((sum, row) => sum + Number(row.charge_micro), 0)
  expect(await gateway.balance(person)).toMatchObject({
    balance_micro: CREDIT_RP * 1_000_000 - charged,
    held_micro: 0,
  })
  expect(gateway.complaints.filter((line) => line.includes("fatal") || line.includes("crashed"))).toEqual([])
}

test(
  `a database that is away for ${OUTAGE_MS} ms costs nobody anything`,
  async () => {
    const streaming = await models("pace=100")
    const replying = await models("ttft=2000")
    // Known to the database, not to the gateway's memory.
    const strangers = await Promise.all([gateway.person(10_000), gateway.person(10_000)])
    const keys = await Promise.all(strangers.map((stranger) => gateway.key(stranger)))
    const underLoad = load(6)
    const inFlight = Promise.all(
      formats.flatMap((format) => [ask(format, streaming[format], true), ask(format, replying[format], false)]),
    )
    await atBackends([...Object.values(streaming), ...Object.values(replying)])
    // Their openings are written.
    await Bun.sleep(400)
    proxy.refuse()
    proxy.cut()
    const since = performance.now()

    await noticed()
    gateway.simulator.reset()
    const refused = await Promise.all([oneOfEach(fast), ...keys.map((each) => oneOfEach(fast, each.key))])
    for (const call of refused.flat())
      expect([call.status, call.code]).toEqual([503, "dependency.database_unavailable"])
    expect(gateway.simulator.calls).toEqual([])

    const ended = await inFlight
    for (const call of ended) {
      if (call.streamed) expect(call).toMatchObject({ status: 200, ended: true })
      else expect(call).toMatchObject({ status: 503, code: "billing.reconcile_failed" })
    }
    await Bun.sleep(Math.max(0, OUTAGE_MS - (performance.now() - since)))
    proxy.accept()
    expect(await recovered()).toBeLessThan(RECOVERY_MS)
    over.abort()
    const seen = [...(await underLoad), ...ended, ...refused.flat()]
    for (const call of ended) {
      expect(await gateway.usage(person, call.requestId)).toMatchObject({ status: "billing_error", charge_micro: 0 })
    }
    expect((await oneOfEach(fast, keys[0]!.key)).map((call) => call.status)).toEqual([200, 200, 200, 200, 200, 200])
    await audit(seen)
  },
  LIMIT_MS,
)

test(
  "an answer whose client has left is charged, though its opening came late and with its settlement",
  async () => {
    // Long enough for a slow machine to find its way back before the settlement is given up.
    const deadlineMs = 6_000
    await close()
    await open(deadlineMs)
    const slow = await models(`ttft=${deadlineMs * 0.75}&pace=1`)
    await oneOfEach(fast)
    proxy.freeze()
    const leaving = new AbortController()
    const init = { signal: leaving.signal }
    const begin = (format: Format) => gateway.post(paths[format], key, bodyOf(format, slow[format], true), init)
    const asked = formats.map((format) => begin(format).catch(() => "left"))
    await atBackends(Object.values(slow))
    leaving.abort()
    expect(await Promise.all(asked)).toEqual(["left", "left", "left"])
    // The openings are given up by now, and the settlements are not. What froze with the link is reset, or the ledger would give it
    // up in its own time, which says nothing of the settlements'.
    await Bun.sleep(deadlineMs * 1.1)
    proxy.thaw()
    proxy.cut()
    await recovered()
    for (const format of formats) {
      const [row] = await gateway.sql<{ status: string; charge_micro: bigint }[]>`
        select status, charge_micro from usage where part = 0 and account_id = ${person.accountId} and model = ${slow[format]}`
      expect(row).toEqual({ status: "ok", charge_micro: BigInt(CHARGE_MICRO) })
    }
    expect(await gateway.balance(person)).toMatchObject({ held_micro: 0 })
    await audit([])
  },
  LIMIT_MS,
)

test(
  "a link that freezes and thaws loses and doubles nothing",
  async () => {
    const underLoad = load(8)
    await Bun.sleep(300)
    for (let round = 0; round < 2; round++) {
      proxy.freeze()
      await Bun.sleep(3_500)
      proxy.thaw()
      expect(await recovered()).toBeLessThan(RECOVERY_MS)
      expect(await lived(() => gateway.balance(person))).toBeLessThan(RECOVERY_MS)
      await Bun.sleep(500)
    }
    over.abort()
    await audit(await underLoad)
  },
  LIMIT_MS,
)

test(
  "backends that are terminated again and again in mid-batch cost no call anything",
  async () => {
    const seen: Seen[] = []
    const underLoad = load(8, seen)
    const ended = () => seen.filter((call) => call.ended).length
    for (let n = 0; n < 40; n++) {
      const before = ended()
      await gateway.sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()`
      // Some calls of the eight have ended each time, and the others are on their way.
      while (ended() < before + 3) await Bun.sleep(20)
    }
    over.abort()
    await underLoad
    await audit(seen)
  },
  2 * LIMIT_MS,
)

test(
  "a commit whose answer is lost is sent again, and charged once",
  async () => {
    const underLoad = load(6)
    for (let n = 0; n < 20; n++) {
      await proxy.dropReplyTo(SETTLING)
      // The next one to be lost is another batch, and not the same one sent again.
      expect((await ask("chat", fast.chat, false)).status).toBe(200)
    }
    over.abort()
    const seen = await underLoad
    expect(seen.filter((call) => !call.ended)).toEqual([])
    await audit(seen)
  },
  LIMIT_MS,
)

test(
  "a charge that was booked, unknown to the gateway, is taken back from who was told 503",
  async () => {
    const before = await ask("chat", fast.chat, false)
    // Slow enough for the stream's opening to be written, and so for its head to go, before the settlement.
    const paced = await models("pace=200")
    const streamed = ask("messages", paced.messages, true)
    // A whole answer is not paced: it would be settled, and the database gone, before the stream was opened.
    await Bun.sleep(100)
    const calls = [streamed, ask("messages", paced.messages, false)]
    await proxy.dropReplyTo(SETTLING)
    proxy.refuse()
    proxy.cut()
    const seen = await Promise.all(calls)
    const booked = await gateway.sql`select from usage where status = 'ok' and request_id <> ${before.requestId}`
    expect(booked.length).toBeGreaterThan(0)
    proxy.accept()
    for (const call of seen) {
      expect(call.streamed ? call.status : call.code).toBe(call.streamed ? 200 : "billing.reconcile_failed")
    }
    expect(await recovered()).toBeLessThan(RECOVERY_MS)
    for (const call of seen) {
      expect(await gateway.usage(person, call.requestId)).toMatchObject({ status: "billing_error", charge_micro: 0 })
    }
    await audit([before, ...seen])
  },
  LIMIT_MS,
)

test(
  "a stream whose head could not be sent, because its opening could not be written, is not charged",
  async () => {
    // Its settlement is still within its deadline when its opening is not any more, and the database comes back in between.
    const late = await models("ttft=1200")
    await oneOfEach(fast)
    proxy.refuse()
    proxy.cut()
    const seen = await Promise.all(formats.map((format) => ask(format, late[format], true)))
    proxy.accept()
    for (const call of seen) expect([call.status, call.code]).toEqual([503, "dependency.database_unavailable"])
    expect(await recovered()).toBeLessThan(RECOVERY_MS)
    for (const call of seen) {
      expect(await gateway.usage(person, call.requestId)).toMatchObject({ status: "billing_error", charge_micro: 0 })
    }
    await audit(seen)
  },
  LIMIT_MS,
)
