/**
 * Two PostgreSQL servers, one the standby of the other, and gateways that know both: whoever is promoted is found within five
 * seconds, and an old primary is never written to.
 */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Servers } from "../../../src/store/servers.ts"
import type { Sql } from "../../../src/store/sql.ts"
import { loket } from "../../command/loket.ts"
import { reconcile } from "../../money/reconcile.ts"
import { directConnection } from "../../store/harness.ts"
import { type ChildGateway, type Customer, House, modelSeed } from "../child.ts"
import { noServer, PostgresServer } from "../torture/server.ts"

const FOUND_WITHIN_MS = 5_000

/** Undefined where there is all that it takes; else why it is left out. */
const left = noServer
if (left !== undefined) process.stderr.write(`left out: a promotion (${left})\n`)
const here = test.skipIf(left !== undefined)

let stack: AsyncDisposableStack
let one: PostgresServer
let two: PostgresServer
let house: House

beforeEach(async () => {
  stack = new AsyncDisposableStack()
  one = stack.use((await PostgresServer.build())!)
  two = stack.use(await PostgresServer.standbyOf(one))
  const models = [modelSeed("quick", "chat", "input=1&output=20")]
  house = stack.use(await House.build(models, { place: { DATABASE_URL: bothOf(one, two) } }))
}, 60_000)
afterEach(() => stack.disposeAsync())

const hostOf = (server: PostgresServer) => new URL(server.url).host
const bothOf = (first: PostgresServer, second: PostgresServer) =>
  `postgres://postgres@${hostOf(first)},${hostOf(second)}/postgres`

async function start(env: Readonly<Record<string, string>> = {}): Promise<ChildGateway> {
  const gateway = await house.start(env)
  stack.defer(() => gateway.kill())
  return gateway
}

const status = async (gateway: ChildGateway, { key }: Customer): Promise<number> => {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: "quick", max_tokens: 20, messages: [{ role: "user", content: "Hello" }] }),
  }).catch(sayWhy(gateway))
  await response.text()
  return response.status
}

/** What a gateway that does not answer has said. */
const sayWhy = (gateway: ChildGateway) => (cause: unknown) => {
  throw new Error(`the gateway does not answer: ${gateway.complaints.slice(-5).join("\n")}`, { cause })
}

/** How long it takes until a call is answered. Whatever was answered before is in `answered`. */
async function untilServed(gateway: ChildGateway, customer: Customer): Promise<number> {
  const since = performance.now()
  while ((await status(gateway, customer)) !== 200) await Bun.sleep(20)
  answered++
  return performance.now() - since
}
let answered = 0
beforeEach(() => {
  answered = 0
})

const charged = async (server: PostgresServer): Promise<number> =>
  (await server.admin((sql) => sql`select from usage where part = 0 and status = 'ok'`)).length

here(
  "a promotion and the way back are found within five seconds, and no charge is lost on the way",
  async () => {
    const gateways = [await start(), await start({ DATABASE_URL: bothOf(two, one) })]
    const customer = await gateways[0]!.customer(100_000)
    for (const gateway of gateways) await untilServed(gateway, customer)
    for (const [from, to] of [
      [one, two],
      [two, one],
    ] as const) {
      await from.stop("immediate")
      await to.promote()
      const tookMs = await Promise.all(gateways.map((gateway) => untilServed(gateway, customer)))
      process.stderr.write(`found the new primary within ${tookMs.map((ms) => Math.round(ms)).join(" and ")} ms\n`)
      for (const each of tookMs) expect(each).toBeLessThan(FOUND_WITHIN_MS)
      // The old primary is a standby now, and whoever loses a connection is not led to it.
      await from.follow(to)
      await to.terminateBackends()
      for (const gateway of gateways) expect(await untilServed(gateway, customer)).toBeLessThan(FOUND_WITHIN_MS)
    }
    for (const gateway of gateways) expect(await gateway.stop()).toBe(0)
    expect(await charged(one)).toBe(answered)
    await one.admin(reconcile)
  },
  120_000,
)

here(
  "a primary that falls silent without closing a connection is left for the promoted one as soon",
  async () => {
    const gateway = await start()
    const customer = await gateway.customer(100_000)
    await untilServed(gateway, customer)
    one.freeze()
    await two.promote()
    const since = performance.now()
    const served: number[] = []
    const calls: Promise<unknown>[] = []
    const call = async () => {
      if ((await status(gateway, customer)) === 200) served.push(performance.now() - since)
    }
    // What was asked of the silent one waits for its own deadline, so others are asked meanwhile.
    while (served.length === 0 && performance.now() - since < 20_000) {
      calls.push(call())
      await Bun.sleep(200)
    }
    const [firstMs = Infinity] = served
    process.stderr.write(`left the silent primary after ${Math.round(firstMs)} ms\n`)
    expect(firstMs).toBeLessThan(FOUND_WITHIN_MS)
    await Promise.all(calls)
    one.thaw()
    // It takes writes still. What lay in its sockets is carried out, told to nobody and booked on the new one too; then nothing more.
    await one.replicate(false)
    await Bun.sleep(1_000)
    const before = await charged(one)
    await untilServed(gateway, customer)
    expect(await charged(one)).toBe(before)
    expect(await gateway.stop()).toBe(0)
    await two.admin(reconcile)
  },
  120_000,
)

here(
  "a primary that was left is not written to: not by who runs, nor by who starts, nor by who finds nobody else",
  async () => {
    const gateway = await start()
    const customer = await gateway.customer(100_000)
    await untilServed(gateway, customer)
    // The old one lives on and takes writes: nobody has fenced it.
    await one.replicate(false)
    await two.promote()
    const before = await charged(one)
    await Bun.sleep(FOUND_WITHIN_MS)
    await untilServed(gateway, customer)
    const directory = mkdtempSync(join(tmpdir(), "loket-fresh-"))
    stack.defer(() => rmSync(directory, { recursive: true }))
    // Without any memory, and with the old one first in its list.
    const fresh = await start({ DATA_DIR: directory })
    await untilServed(fresh, customer)
    expect(await charged(one)).toBe(before)
    expect(await charged(two)).toBe(answered)
    expect(await fresh.stop()).toBe(0)

    await two.stop("fast")
    expect(await status(gateway, customer)).toBe(503)
    const alone = house.spawn({ DATA_DIR: directory, DATABASE_URL: one.url })
    stack.defer(() => alone.kill())
    expect(await alone.exited).toBe(1)
    await alone.silent
    expect(alone.complaints.join("\n")).toContain(
      `${hostOf(one)} is on timeline 1, and timeline 2 of the same database was seen: it is an old primary`,
    )
    const open = await one.admin((sql) => sql`select from processes where closed_at is null`)
    expect(open).toHaveLength(1)
    await two.start()
    expect(await untilServed(gateway, customer)).toBeLessThan(FOUND_WITHIN_MS)
    expect(await charged(one)).toBe(before)
    expect(await gateway.stop()).toBe(0)
    await two.admin(reconcile)
  },
  120_000,
)

const sums = (sql: Sql) => sql`select count(*)::int as accounts, sum(posted_micro)::text as posted from balances`

here(
  "a backup is of the server that takes writes, and is restored there, wherever it stands in the list",
  async () => {
    const gateway = await start()
    const before = await gateway.customer(100_000)
    await untilServed(gateway, before)
    const directory = mkdtempSync(join(tmpdir(), "loket-backup-"))
    stack.defer(() => rmSync(directory, { recursive: true }))
    const [backup, DATA_DIR] = [join(directory, "backup"), join(directory, "data")]
    // The old one lives on: nobody has fenced it.
    await one.replicate(false)
    await two.promote()
    // Until it is left, the old one is written to, and a customer of whom half is written there is none.
    await Bun.sleep(FOUND_WITHIN_MS)
    await untilServed(gateway, before)
    await gateway.customer(50_000)
    const DATABASE_URL = bothOf(one, two)
    expect(await loket({ DATABASE_URL, DATA_DIR }, "backup", backup)).toMatchObject({ code: 0, complaint: "" })
    const [sold] = await two.admin(sums)
    expect(await gateway.stop()).toBe(0)

    await one.follow(two)
    await two.admin((sql) => sql`create database rehearsal`)
    const rehearsal = DATABASE_URL.replace(/postgres$/, "rehearsal")
    expect(await loket({ DATABASE_URL: rehearsal, DATA_DIR }, "restore", backup)).toMatchObject({
      code: 0,
      said: expect.stringMatching(/all agrees$/),
    })
    const restored = directConnection(two.url.replace(/postgres$/, "rehearsal"))
    expect([...(await sums(restored.sql))]).toEqual([sold!])
    await restored.end()
  },
  120_000,
)

const connect = (servers: Servers) => servers.connect({ timeoutMs: 5_000, statementTimeoutMs: 5_000 })

here(
  "of two systems that have nothing in common none is chosen, and a process keeps to the one that it began on",
  async () => {
    const other = stack.use((await PostgresServer.build())!)
    const open = () => {
      const servers = new Servers(bothOf(one, other))
      stack.defer(() => servers.close())
      return servers
    }
    const why = (servers: Servers) => connect(servers).then(String, (error: Error) => error.message)
    expect(await why(open())).toBe(`${hostOf(one)} and ${hostOf(other)} both take writes: stop one of them`)

    await other.stop("fast")
    const servers = open()
    const connection = await connect(servers)
    // It is not asked to choose any more: it has begun.
    await other.start()
    await Bun.sleep(3_000)
    expect(connection.closed).toBeFalse()
    connection.discard()
    await one.stop("fast")
    // The first to connect may be the one that finds the old one gone.
    if (!(await why(servers)).includes("another")) await Bun.sleep(300)
    expect(await why(servers)).toContain(`${hostOf(other)} is another database system than before`)
    await one.start()
    await Bun.sleep(300)
    ;(await connect(servers)).discard()
  },
  60_000,
)

here(
  "one server by two names is one server",
  async () => {
    const url = new URL(one.url)
    const servers = new Servers(`postgres://postgres@127.0.0.1:${url.port},localhost:${url.port}/postgres`)
    stack.defer(() => servers.close())
    ;(await connect(servers)).discard()
  },
  60_000,
)

here(
  "a standby alone is refused with a sentence that names it",
  async () => {
    const gateway = house.spawn({ DATABASE_URL: two.url })
    stack.defer(() => gateway.kill())
    expect(await gateway.exited).toBe(1)
    await gateway.silent
    expect(gateway.complaints.join("\n")).toContain(`${hostOf(two)} is a standby`)
  },
  60_000,
)

here(
  "a server that has not heard of what a gateway has leased ends it, and the next one charges as ever",
  async () => {
    const gateway = await start()
    const customer = await gateway.customer(10_000)
    expect(await status(gateway, customer)).toBe(200)
    // As where the standby that is promoted had not got the last of the old primary: the process is known, its lease is not.
    await one.admin(
      (sql) => sql`
      with gone as (delete from leases returning account_id, granted_micro - returned_micro - settled_micro as left)
      update balances b set leased_micro = b.leased_micro - g.left from gone g where b.account_id = g.account_id`,
    )
    expect(await status(gateway, customer)).toBe(200)
    const late = Bun.sleep(10_000).then(() => "it runs on")
    expect(await Promise.race([gateway.exited, late])).toBe(1)
    await gateway.silent
    expect(gateway.complaints.join("\n")).toContain("the database does not know what this process has leased")
    expect(await charged(one)).toBe(1)
    const next = await start()
    expect(await status(next, customer)).toBe(200)
    expect(await charged(one)).toBe(2)
    expect(await next.stop()).toBe(0)
    await one.admin(reconcile)
  },
  60_000,
)
