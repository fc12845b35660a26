/**
 * A real server that stands still (SIGSTOP to all of its processes) under load, and goes on. `LOKET_TEST_FROZEN_MS` makes it longer than is
 * bearable in a suite.
 */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { reconcile } from "../../money/reconcile.ts"
import { bodyOf, COUNTS, type Format, formats, paths, terminals } from "../asking.ts"
import { type ChildGateway, type Customer, House, modelSeed } from "../child.ts"
import { noServer, PostgresServer } from "../torture/server.ts"

const FROZEN_MS = Number(Bun.env["LOKET_TEST_FROZEN_MS"] ?? 5_000)
const SETTLE_DEADLINE_MS = 2_000
/** The head's deadline, the end's, and what a new call waits; and a busy machine. */
const ANSWERED_WITHIN_MS = 2 * SETTLE_DEADLINE_MS + 10_000
const CREDIT_RP = 1_000_000

if (noServer !== undefined) process.stderr.write(`left out: a server that stands still (${noServer})\n`)

let stack: AsyncDisposableStack
let server: PostgresServer
let gateway: ChildGateway

beforeEach(async () => {
  stack = new AsyncDisposableStack()
  server = stack.use((await PostgresServer.build())!)
  const models = formats.map((format) => modelSeed(format, format, COUNTS))
  const env = { SETTLE_DEADLINE_MS: String(SETTLE_DEADLINE_MS) }
  const house = stack.use(await House.build(models, { place: { DATABASE_URL: server.url }, env }))
  gateway = await house.start()
  stack.defer(() => gateway.kill())
}, 60_000)
afterEach(() => stack.disposeAsync())

interface Seen {
  readonly requestId: string
  readonly status: number
  readonly code: string | null
  readonly streamed: boolean
  readonly ended: boolean
  readonly costRp: string | null
  readonly ms: number
}

async function ask({ key }: Customer, format: Format, streamed: boolean): Promise<Seen> {
  const since = performance.now()
  const response = await fetch(gateway.url + paths[format], {
    method: "POST",
    headers: { Authorization: `Bearer ${key}` },
    body: JSON.stringify(bodyOf(format, format, streamed)),
    signal: AbortSignal.timeout(60_000),
  })
  const text = await response.text()
  const { headers, status } = response
  return {
    requestId: headers.get("x-request-id") ?? "",
    status,
    code: headers.get("x-error-code"),
    streamed,
    ended: status === 200 && (!streamed || text.includes(terminals[format])),
    costRp: headers.get("x-cost-rp"),
    ms: performance.now() - since,
  }
}

test.skipIf(noServer !== undefined)(
  `a server that stands still for ${FROZEN_MS} ms loses and doubles nothing, and nobody hangs`,
  async () => {
    const customer = await gateway.customer(CREDIT_RP)
    const seen: Seen[] = []
    const over = new AbortController()
    const caller = async (first: number) => {
      for (let n = first; !over.signal.aborted; n++) {
        seen.push(await ask(customer, formats[n % formats.length]!, n % 2 === 0))
        await Bun.sleep(10)
      }
    }
    const callers = [0, 1, 2, 3, 4, 5].map(caller)
    while (seen.filter(({ ended }) => ended).length < 20) await Bun.sleep(20)
    server.freeze()
    await Bun.sleep(FROZEN_MS)
    const refused = seen.filter(({ status }) => status === 503).length
    server.thaw()
    const since = performance.now()
    const before = seen.length
    while (!seen.slice(before).some(({ ended }) => ended)) await Bun.sleep(20)
    const backMs = performance.now() - since
    over.abort()
    await Promise.all(callers)
    expect(refused).toBeGreaterThan(0)
    expect(backMs).toBeLessThan(ANSWERED_WITHIN_MS)
    expect(Math.max(...seen.map(({ ms }) => ms))).toBeLessThan(ANSWERED_WITHIN_MS)
    expect(seen.filter(({ status }) => status !== 200 && status !== 503)).toEqual([])
    expect(await gateway.stop()).toBe(0)
    expect(gateway.complaints.filter((line) => /fatal|crashed|"unhandled"/.test(line))).toEqual([])

    await server.admin(async (sql) => {
      await reconcile(sql)
      const rows = await sql<{ request_id: string; status: string; charge_micro: bigint }[]>`
        select request_id, status, charge_micro from usage where part = 0`
      const records = new Map(rows.map((row) => [row.request_id, row]))
      for (const { requestId, status, streamed, ended, costRp } of seen) {
        const { charge_micro: charge = 0n, status: recorded } = records.get(requestId) ?? {}
        if (status === 503) expect([requestId, Number(charge)]).toEqual([requestId, 0])
        else if (streamed)
          expect([requestId, ended, recorded]).toEqual([requestId, true, expect.stringMatching(/^(ok|billing_error)$/)])
        else expect([requestId, recorded, Number(charge)]).toEqual([requestId, "ok", Number(costRp) * 1e6])
      }
      const charged = rows.reduce((sum, row) => sum + Number(row.charge_micro), 0)
      const [balance] = await sql`
        select leased_micro, posted_micro from balances where account_id = ${customer.accountId}`
      expect(balance).toEqual({ leased_micro: 0n, posted_micro: BigInt(CREDIT_RP * 1_000_000 - charged) })
    })
  },
  FROZEN_MS + 120_000,
)
