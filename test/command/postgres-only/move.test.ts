/** `loket move`: from a server to an embedded database and back, by the same rows, and not where that would lose something. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openEmbedded } from "../../../src/store/embedded/open.ts"
import { registerProcess } from "../../../src/store/processes.ts"
import { Servers } from "../../../src/store/servers.ts"
import { openBooks } from "../../reconciliation/world.ts"
import { directConnection, openPlace, type Place, templateCopy } from "../../store/scratch.ts"
import { loket } from "../loket.ts"

const scratch = mkdtempSync(join(tmpdir(), "loket-move-"))
/** Migrated, and used by nobody. */
let embedded = ""
let world: Awaited<ReturnType<typeof openBooks>>
let back: Place
beforeAll(async () => {
  embedded = await templateCopy()
  world = await openBooks()
  back = await openPlace([])
})
afterAll(async () => {
  await world.close()
  await back.remove()
  for (const directory of [scratch, embedded]) rmSync(directory, { recursive: true })
})

const here = () => ({ DATABASE_URL: world.url, DATA_DIR: join(scratch, "here") })

/** Every row of every table, but for what the comparing of the books adds. */
async function rowsAt(url: string): Promise<Record<string, string[]>> {
  const connection = directConnection(url)
  const { sql } = connection
  await sql`select set_config('timezone', 'UTC', false)`
  const tables = await sql<{ name: string }[]>`
    select relname::text as name from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')
      and not relispartition
      and relname not in ('schema_migrations', 'reconciliations', 'proofs', 'proven_accounts', 'proven_keys', 'proven_leases', 'call_changes')`
  const rows: Record<string, string[]> = {}
  for (const { name } of tables) {
    const found = await sql.unsafe<{ row: string }[]>(`select t::text as row from ${name} t order by 1`)
    rows[name] = found.map(({ row }) => row)
  }
  await connection.end()
  return rows
}

test("to an embedded database and back to another server: the same rows, whose books agree", async () => {
  // What text and types could lose: quotes, line ends, JSON's null beside SQL's, bytes, microseconds.
  await world.sql`update accounts set email = ${'"a\\b", (c)\n{d}@mail.id'} where id = ${world.victim.accountId}`
  await world.sql`insert into audit_log (request_id, action, subject, before, after, at)
    values ('cmd_1', 'a', 'b', 'null'::jsonb, null, '2026-01-02T03:04:05.678901Z')`
  await world.sql`insert into installation_secrets (name, secret) values ('test', ${new Uint8Array([0, 255, 92, 39])})`
  // More children of a key than are copied at a time, before the key itself, which was changed after they were made.
  const { accountId, keyId } = world.victim
  await world.sql`insert into api_keys (id, account_id, name, key_hash, prefix, last4, parent_id)
    select 'key_of_' || n, ${accountId}, 'child', sha256(('child ' || n)::bytea), 'sk-loket-chil', 'dren', ${keyId} from generate_series(1, 1500) n`
  await world.sql`update api_keys set name = repeat('a class ', 40) where id = ${keyId}`
  mkdirSync(join(scratch, "here/withdrawals"), { recursive: true })
  writeFileSync(join(scratch, "here/withdrawals/req_1"), "withdrawn")
  const before = await rowsAt(world.url)
  expect(Object.keys(before).length).toBeGreaterThan(20)

  const moved = await loket(here(), "move", "--to", embedded)
  expect(moved.complaint).toBe("")
  expect(moved.said).toMatch(
    /^the books here: all agrees\nthe books there: all agrees\n\nmoved: \d+ rows of \d+ tables to /,
  )
  expect(moved.code).toBe(0)
  expect(readFileSync(join(embedded, "withdrawals/req_1"), "utf8")).toBe("withdrawn")
  const database = await openEmbedded({ dataDir: embedded })
  expect(await rowsAt(database.url)).toEqual(before)
  await database.close()

  const returned = await loket({ DATA_DIR: embedded }, "move", "--to", back.url)
  expect(returned).toMatchObject({ code: 0, complaint: "" })
  expect(await rowsAt(back.url)).toEqual(before)
  // Numbers go on where they were, and what keeps books final does so again.
  const connection = directConnection(back.url)
  const next = await connection.sql<{ fresh: boolean }[]>`
    insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
    values ('adjustment:x', 'house:adjustments', 'house:cash_clearing', 1, 'adjustment')
    returning id > (select max(id) from transfers) as fresh`
  expect([...next]).toEqual([{ fresh: true }])
  const changed = connection.sql`update transfers set amount_micro = 2 where idempotency_key = 'adjustment:x'`
  expect(
    await changed.then(
      () => "changed",
      (error: Error) => error.message,
    ),
  ).not.toBe("changed")
  await connection.end()
})

test("from a copy beside a database whose gateway runs, which is not its own", async () => {
  const servers = new Servers(world.url)
  const living = await registerProcess({ db: world.db, lockOn: servers, onFenced: () => {} })
  const copy = await openPlace([])
  const restored = join(scratch, "backup")
  expect(await loket(here(), "backup", restored)).toMatchObject({ code: 0 })
  expect(await loket({ ...here(), DATABASE_URL: copy.url }, "restore", restored)).toMatchObject({ code: 0 })
  const moved = await loket({ ...here(), DATABASE_URL: copy.url }, "move", "--to", join(scratch, "of-a-copy"))
  expect(moved).toMatchObject({ code: 0, complaint: "" })
  await living.close()
  await servers.close()
  await copy.remove()
})

test("not over what is there, not beside a gateway, and not of books that do not agree", async () => {
  const used = await loket(here(), "move", "--to", embedded)
  expect(used.complaint).toContain("is in use already: name an empty database, or a directory without one")
  expect(used.code).toBe(1)
  expect((await loket(here(), "move", "--to", "mysql://db")).code).toBe(2)

  const servers = new Servers(world.url)
  const living = await registerProcess({ db: world.db, lockOn: servers, onFenced: () => {} })
  const beside = await loket(here(), "move", "--to", join(scratch, "beside"))
  expect(beside).toMatchObject({ code: 1, complaint: expect.stringContaining("gateways run on") })
  expect(existsSync(join(scratch, "beside"))).toBe(false)
  await living.close()
  await servers.close()

  await world.sql`update balances set posted_micro = posted_micro + 1 where account_id = ${world.victim.accountId}`
  const wrong = await loket(here(), "move", "--to", join(scratch, "wrong"))
  expect(wrong).toMatchObject({ code: 1, complaint: expect.stringContaining("the books here do not agree") })
})
