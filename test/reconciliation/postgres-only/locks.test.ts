/** What a reconciliation is to a PostgreSQL server that others use at the same time, and what is left when it is killed. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { join } from "node:path"
import { checkClaim } from "../../../src/reconciliation/reconcile.ts"
import { claims } from "../../../src/reconciliation/claims.ts"
import { directConnection } from "../../store/harness.ts"
import { type BrokenBooks, openBooks } from "../world.ts"

let world: BrokenBooks
beforeEach(async () => {
  world = await openBooks()
})
afterEach(() => world.close())

test("no claim takes a lock that another statement would wait for", async () => {
  const { sql } = world
  await sql`begin`
  for (const claim of claims) await checkClaim(sql, claim)
  const modes = await sql<{ mode: string }[]>`
    select distinct mode from pg_locks where pid = pg_backend_pid() and locktype in ('relation', 'tuple')`
  await sql`rollback`
  expect(modes.map(({ mode }) => mode)).toEqual(["AccessShareLock"])
})

test("one that is killed in the midst has frozen nobody and is not done; the next one is whole", async () => {
  const { sql, url, victim } = world
  await sql`update balances set posted_micro = posted_micro + 1 where account_id = ${victim.accountId}`
  const holder = directConnection(url)
  await holder.sql`begin`
  await holder.sql`lock table key_spend in access exclusive mode`
  const child = Bun.spawn([process.execPath, "src/main.ts", "reconcile"], {
    cwd: join(import.meta.dir, "../../.."),
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"], DATABASE_URL: url },
    stdout: "ignore",
    stderr: "ignore",
  })
  const waiting = () => sql`select from pg_locks where not granted and relation = 'key_spend'::regclass`
  while ((await waiting()).length === 0) await Bun.sleep(20)
  child.kill("SIGKILL")
  await child.exited
  await holder.sql`rollback`
  await holder.end()
  const [row] = await sql`select ended_at, differences from reconciliations`
  expect(row).toEqual({ ended_at: null, differences: null })
  expect(await world.frozen()).toEqual([])

  const { code, report } = await world.command()
  expect([code, report.frozen]).toEqual([1, [victim.accountId]])
  expect(await world.frozen()).toEqual([victim.accountId])
})
