/**
 * A machine that vanishes says no goodbye: no FIN, no reset, and whatever was sent to it stays unanswered. Its neighbour is
 * to serve all that its customers have within 15 s.
 */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { join } from "node:path"
import { reconcile } from "../../money/reconcile.ts"
import { directConnection } from "../../store/harness.ts"
import { type ChildGateway, type Customer, House, modelSeed } from "../child.ts"
import { Machine } from "../machine.ts"
import { noServer, PostgresServer } from "../torture/server.ts"

const WITHIN_MS = 15_000
/** Of ten answers, each of Rp 1,000. */
const CREDIT_RP = 10_000
const DEAR = { input_micro: 0, output_micro: 50_000_000 }

/** Undefined where there is all that it takes; else why it is left out. */
const left = noServer ?? Machine.whyNone()
if (left !== undefined) process.stderr.write(`left out: machines that vanish (${left})\n`)
const here = test.skipIf(left !== undefined)

let stack: AsyncDisposableStack
let machine: Machine
let server: PostgresServer
let house: House
let far: ChildGateway
let near: ChildGateway

beforeEach(async () => {
  stack = new AsyncDisposableStack()
  machine = stack.use(Machine.build()!)
  server = stack.use((await PostgresServer.build([machine.ourAddress]))!)
  const models = [
    modelSeed("quick", "chat", "input=1&output=20", DEAR),
    modelSeed("slow", "chat", "input=1&output=20&pace=2000", DEAR),
  ]
  house = stack.use(
    await House.build(models, { place: { DATABASE_URL: server.url }, simulatorHost: machine.ourAddress }),
  )
  far = await house.start({ HOST: machine.address, DATABASE_URL: server.at(machine.ourAddress) }, machine.inside)
  stack.defer(() => far.kill())
  near = await house.start()
  stack.defer(() => near.kill())
}, 60_000)
afterEach(() => stack.disposeAsync())

const ask = (gateway: ChildGateway, { key }: Customer, model: string, stream: boolean) =>
  fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}` },
    body: JSON.stringify({ model, stream, max_tokens: 20, messages: [{ role: "user", content: "Hello" }] }),
  })

/** A stream that has begun, and goes on. Returns its request id. */
async function underWay(gateway: ChildGateway, customer: Customer): Promise<string> {
  const response = await ask(gateway, customer, "slow", true)
  expect(response.status).toBe(200)
  void response.text().catch(() => {})
  return response.headers.get("x-request-id") ?? ""
}

const status = async (gateway: ChildGateway, customer: Customer): Promise<number> => {
  const response = await ask(gateway, customer, "quick", false)
  await response.text()
  return response.status
}

/** Asks until so many answers were served, and returns how long it took. */
async function serve(gateway: ChildGateway, customer: Customer, answers: number): Promise<number> {
  const since = performance.now()
  while (answers > 0) {
    const seen = await status(gateway, customer)
    if (seen === 200) answers--
    else {
      expect([402, 503]).toContain(seen)
      await Bun.sleep(100)
    }
    if (performance.now() - since > 4 * WITHIN_MS) return Infinity
  }
  return performance.now() - since
}

const closed = async (): Promise<string[]> => {
  const rows = await server.admin((sql) => sql<{ id: string }[]>`select id from processes where closed_at is not null`)
  return rows.map(({ id }) => id)
}

here(
  "a machine that vanishes with money and a call under way: its neighbour serves all of the balance within 15 s",
  async () => {
    const customer = await far.customer(CREDIT_RP)
    expect(await status(far, customer)).toBe(200)
    const requestId = await underWay(far, customer)
    machine.unplug()
    const vanishedAt = performance.now()
    await far.kill()

    const tookMs = await serve(near, customer, 9)
    process.stderr.write(
      `all of the balance was served ${(tookMs / 1000).toFixed(1)} s after the machine had vanished\n`,
    )
    expect(tookMs).toBeLessThan(WITHIN_MS)
    expect(await status(near, customer)).toBe(402)
    // The log's line comes when the last of it is closed.
    while (!near.complaints.some((line) => line.includes("closed a dead process"))) await Bun.sleep(20)
    const records = await server.admin(
      (sql) =>
        sql<{ charge_micro: bigint }[]>`select charge_micro from usage where request_id = ${requestId} and part = 0`,
    )
    expect(Array.from(records)).toEqual([{ charge_micro: 0n }])
    await server.admin(reconcile)
    // Neither do the sessions that were at work stay behind: the server misses each by itself, 8 s after it last heard of it.
    const sessions = async () => {
      const [row] = await server.admin(
        (sql) => sql`select count(*)::int as n from pg_stat_activity where client_addr = ${machine.address}::inet`,
      )
      return row!["n"] as number
    }
    while ((await sessions()) > 0 && performance.now() - vanishedAt < WITHIN_MS) await Bun.sleep(100)
    expect(await sessions()).toBe(0)
  },
  120_000,
)

here(
  "a living machine that is cut off for some seconds goes on as if nothing had been",
  async () => {
    const customer = await far.customer(CREDIT_RP)
    expect(await status(far, customer)).toBe(200)
    machine.unplug()
    await Bun.sleep(4_000)
    machine.plugIn()
    const since = performance.now()
    expect(await serve(far, customer, 3)).toBeLessThan(10_000)
    await Bun.sleep(Math.max(0, 8_000 - (performance.now() - since)))
    expect(await closed()).toEqual([])
    expect(await status(far, customer)).toBe(200)
    await server.admin(reconcile)
  },
  120_000,
)

here(
  "a living machine that was cut off for longer is closed, and ends when it hears of it",
  async () => {
    const customer = await far.customer(CREDIT_RP)
    expect(await status(far, customer)).toBe(200)
    await underWay(far, customer)
    machine.unplug()
    expect(await serve(near, customer, 9)).toBeLessThan(WITHIN_MS)
    machine.plugIn()
    expect(await far.exited).toBe(1)
    await far.silent
    expect(far.complaints.join("\n")).toContain("another process took this one for dead")
    expect(await closed()).toHaveLength(1)
    expect(await status(near, customer)).toBe(402)
    await server.admin(reconcile)
  },
  120_000,
)

here(
  "where the server vanishes, statements end by their deadline, sockets do not pile up, and it goes on when it is back",
  async () => {
    const program = `
    import { readdirSync } from "node:fs"
    import { openDatabase } from ${JSON.stringify(join(import.meta.dir, "../../../src/store/database.ts"))}
    const db = openDatabase({ url: ${JSON.stringify(server.at(machine.ourAddress))}, connections: 4 })
    for (;;) {
      const since = performance.now()
      const outcomes = await Promise.all(Array.from({ length: 4 }, () =>
        db.run((sql) => sql\`select repeat('x', 1000)\`, { retry: true }).then(() => "ok", (error) => error.name)))
      const sockets = readdirSync("/proc/self/fd").length
      console.log(JSON.stringify({ outcomes: [...new Set(outcomes)], tookMs: performance.now() - since, sockets }))
      await Bun.sleep(50)
    }`
    const child = Bun.spawn([...machine.inside, "bun", "-e", program], { stdout: "pipe", stderr: "inherit" })
    stack.defer(async () => {
      child.kill("SIGKILL")
      await child.exited
    })
    const rounds: { outcomes: string[]; tookMs: number; sockets: number }[] = []
    void (async () => {
      let text = ""
      for await (const bytes of child.stdout) {
        const lines = (text + Buffer.from(bytes).toString()).split("\n")
        text = lines.pop() ?? ""
        rounds.push(...lines.map((line) => JSON.parse(line) as (typeof rounds)[number]))
      }
    })()
    const more = async (count: number) => {
      const until = rounds.length + count
      while (rounds.length < until) await Bun.sleep(20)
    }
    await more(5)
    const before = rounds.at(-1)!
    expect(before.outcomes).toEqual(["ok"])
    machine.unplug()
    await more(4)
    const away = rounds.slice(-3)
    expect(away.flatMap(({ outcomes }) => outcomes)).toEqual(Array.from({ length: 3 }, () => "DatabaseUnavailable"))
    for (const { tookMs, sockets } of away) {
      expect(tookMs).toBeLessThan(7_000)
      expect(sockets).toBeLessThanOrEqual(before.sockets + 4)
    }
    machine.plugIn()
    await more(2)
    expect(rounds.at(-1)).toMatchObject({ outcomes: ["ok"] })
  },
  120_000,
)

here(
  "the server was told to miss us soon, and one that cannot be told works all the same",
  async () => {
    const connection = directConnection(server.url)
    await connection.prepare()
    const told = async () => {
      const [settings] = await connection.sql`
      select current_setting('tcp_user_timeout') as timeout, current_setting('tcp_keepalives_idle') as idle,
        current_setting('tcp_keepalives_interval') as interval, current_setting('tcp_keepalives_count') as count`
      return { ...settings }
    }
    expect(await told()).toEqual({ timeout: "8000", idle: "4", interval: "2", count: "2" })
    await connection.end()

    await server.admin((sql) =>
      sql.unsafe("create role deaf login; revoke execute on function set_config(text, text, boolean) from public"),
    )
    const url = new URL(server.url)
    url.username = "deaf"
    const untold = directConnection(url.href)
    await untold.prepare()
    for (let n = 0; n < 3; n++) expect(await untold.sql`select ${n}::int as n`).toMatchObject([{ n }])
    const [usual] = await untold.sql`select current_setting('tcp_user_timeout') as timeout`
    expect({ ...usual }).toEqual({ timeout: "0" })
    await untold.end()
  },
  60_000,
)
