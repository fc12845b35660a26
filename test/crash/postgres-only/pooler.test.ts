/** Gateways that reach their server through PgBouncer: with sessions of their own as it comes, without them not at all. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { join } from "node:path"
import { reconcile } from "../../money/reconcile.ts"
import { hello } from "../asking.ts"
import { type ChildGateway, type Customer, House, modelSeed } from "../child.ts"
import { openDatabase } from "../../../src/store/database.ts"
import { migrate } from "../../../src/store/migrate.ts"
import { registerProcess } from "../../../src/store/processes.ts"
import { Servers } from "../../../src/store/servers.ts"
import { noPooler, Pooler, type PoolMode } from "../pooler.ts"
import { noServer, PostgresServer } from "../torture/server.ts"

/** Undefined where there is all that it takes; else why it is left out. */
const left = noServer ?? noPooler
if (left !== undefined) process.stderr.write(`left out: what stands behind a pooler (${left})\n`)
const here = test.skipIf(left !== undefined)

let stack: AsyncDisposableStack
let server: PostgresServer

beforeEach(async () => {
  stack = new AsyncDisposableStack()
  server = stack.use((await PostgresServer.build())!)
}, 60_000)
afterEach(() => stack.disposeAsync())

async function houseBehind(
  mode: PoolMode,
  settings: Readonly<Record<string, string>> = {},
): Promise<{ house: House; pooler: Pooler }> {
  const pooler = stack.use((await Pooler.build(server.url, { mode, settings }))!)
  const place = { DATABASE_URL: pooler.url }
  const house = stack.use(await House.build([modelSeed("quick", "chat", "input=1&output=20")], { place }))
  return { house, pooler }
}

const status = async (gateway: ChildGateway, { key }: Customer): Promise<number> => {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: "quick", max_tokens: 20, messages: hello }),
  })
  await response.text()
  return response.status
}

here(
  "what the page on poolers tells PgBouncer is understood, and a gateway starts behind it",
  async () => {
    const page = await Bun.file(join(import.meta.dir, "../../../docs/operating/poolers.md")).text()
    const section = page.slice(page.indexOf("[pgbouncer]"), page.indexOf("```\n", page.indexOf("[pgbouncer]")))
    const settings = Object.fromEntries(
      [...section.matchAll(/^(\w+) = (\w+)$/gm)].map(([, name, value]) => [name, value]),
    )
    expect(Object.keys(settings).length).toBeGreaterThan(5)
    const built = await houseBehind("session", settings)
    const gateway = await built.house.start()
    stack.defer(() => gateway.kill())
    expect(await gateway.stop()).toBe(0)
  },
  60_000,
)

here(
  "two gateways behind a pooler that gives each client a session work as it comes, and go on when it was started anew",
  async () => {
    // As the page on poolers has it: with the pooler's own 20 the second may wait for what the first has and does not give back.
    const built = await houseBehind("session", { default_pool_size: "40" })
    const { house, pooler } = built
    const gateways = [await house.start(), await house.start()]
    for (const gateway of gateways) stack.defer(() => gateway.kill())
    const customer = await gateways[0]!.customer(100_000)
    for (const gateway of gateways) expect(await status(gateway, customer)).toBe(200)
    // The server itself ends what was abandoned, though the pooler hands on no start-up parameter.
    const limited = await new Servers(pooler.url).connect({ timeoutMs: 5_000, statementTimeoutMs: 200 })
    const ended = limited.sql`select pg_sleep(10)`.then(
      () => "it slept",
      (error: Error) => error.message,
    )
    expect(await ended).toContain("statement timeout")
    await limited.end()
    await pooler.kill()
    expect(await status(gateways[0]!, customer)).toBe(503)
    await pooler.start()
    for (const gateway of gateways) while ((await status(gateway, customer)) !== 200) await Bun.sleep(50)
    // Long enough for each to look for dead ones: nobody was closed.
    await Bun.sleep(11_000)
    for (const gateway of gateways) expect(await status(gateway, customer)).toBe(200)
    for (const gateway of gateways) expect(await gateway.stop()).toBe(0)
    for (const gateway of gateways) expect(gateway.complaints.join("\n")).not.toContain("closed a dead process")
    await server.admin(reconcile)
  },
  120_000,
)

for (const mode of ["transaction", "statement"] as const)
  here(
    `a pooler that lends sessions for a ${mode} is recognised at the start, which says what to set and writes nothing`,
    async () => {
      const built = await houseBehind(mode)
      for (let n = 0; n < 3; n++) {
        const gateway = built.house.spawn()
        stack.defer(() => gateway.kill())
        expect(await gateway.exited).toBe(1)
        await gateway.silent
        expect(gateway.complaints.join("\n")).toContain("Set pool_mode = session for this database")
      }
      const tables = await server.admin((sql) => sql`select from pg_tables where schemaname = 'public'`)
      expect(tables).toHaveLength(0)
    },
    60_000,
  )

here(
  "a pooler that begins to lend sessions while a gateway runs ends it, and says why",
  async () => {
    const built = await houseBehind("session")
    const { house, pooler } = built
    const gateway = await house.start()
    stack.defer(() => gateway.kill())
    await pooler.begin("transaction")
    expect(await gateway.exited).toBe(1)
    await gateway.silent
    expect(gateway.complaints.join("\n")).toContain("Set pool_mode = session")
  },
  60_000,
)

here(
  "the same where little is asked of the pooler, which lends the same session again and again",
  async () => {
    const pooler = stack.use((await Pooler.build(server.url, { mode: "session" }))!)
    await migrate(server.url)
    const db = openDatabase({ url: server.url, connections: 1 })
    stack.defer(() => db.close())
    const { promise: fenced, resolve } = Promise.withResolvers<string>()
    // Its lock's connection is the only one that leads through the pooler.
    const own = await registerProcess({
      db,
      lockOn: new Servers(pooler.url),
      ownSessions: true,
      onFenced: resolve,
    })
    stack.defer(() => own.close())
    await pooler.begin("transaction")
    const late = Bun.sleep(10_000).then(() => "nothing within 10 s")
    expect(await Promise.race([fenced, late])).toContain("Set pool_mode = session")
  },
  60_000,
)
