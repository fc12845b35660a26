/**
 * The power is cut at random moments of a business that books calls and takes payments on the embedded database: whatever the
 * disk has then, the database starts, the books agree, and what was acknowledged is there.
 */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { cpSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Random } from "../../../actors/kernel/clock.ts"
import { seededRandom } from "../../kernel/virtual-time.ts"
import { openDatabase } from "../../../src/store/database.ts"
import { openEmbedded } from "../../../src/store/embedded/open.ts"
import { programs } from "../../../src/store/embedded/programs.ts"
import { start } from "../../../src/store/embedded/start.ts"
import { Books } from "../../money/books.ts"
import { reconcile } from "../../money/reconcile.ts"
import { directConnection, templateCopy, type TestDatabase } from "../harness.ts"
import { RecordedFiles } from "./recorded-files.ts"

const CUTS = Number(Bun.env["LOKET_POWER_CUTS"] ?? 6)
const SEED = Number(Bun.env["LOKET_SEED"] ?? Date.now() % 1_000_000)
const never = { lookMs: 3_600_000, logBytes: Number.POSITIVE_INFINITY, ageMs: Number.POSITIVE_INFINITY }

let root: string
beforeEach(async () => {
  root = await templateCopy()
})
afterEach(() => rmSync(root, { recursive: true }))

/** What was acknowledged, and when: a call's record by its id, a payment by its transfer's. */
interface Told {
  readonly id: string
  readonly moment: number
}

interface Story {
  readonly files: RecordedFiles
  readonly told: readonly Told[]
}

function failed(error: unknown): never {
  throw error
}

/** A thousand calls and more in batches, payments between them, and checkpoints. */
async function play(random: Random, batches: number, syncsCommits: boolean): Promise<Story> {
  const recorders: RecordedFiles[] = []
  const socketDirectory = mkdtempSync(join(tmpdir(), "loket-"))
  const socketPath = join(socketDirectory, ".s.PGSQL.5432")
  const stop = await start(
    { programs: await programs(), directory: join(root, "pg"), socketPath, checkpoints: never, syncsCommits },
    { failed, checkpointFailed: failed },
    (directory, syncs) => {
      const files = new RecordedFiles(directory, syncs)
      recorders.push(files)
      return files
    },
  )
  const [files] = recorders
  if (files === undefined) throw new Error("it has no files")
  const url = `postgres://postgres@localhost/postgres?host=${encodeURIComponent(socketDirectory)}`
  const connection = directConnection(url)
  const db = openDatabase({ url, connections: 2 })
  const target = { url, db, sql: connection.sql } as TestDatabase
  const books = await Books.open(target)
  const customers = await Promise.all([1, 2, 3].map(() => books.customer(1_000_000_000n)))
  const told: Told[] = []
  const tell = (...ids: string[]) => told.push(...ids.map((id) => ({ id, moment: files.moment })))
  for (let batch = 0; batch < batches; batch++) {
    const customer = customers[batch % 3]!
    const settlements = Array.from({ length: 1 + Math.floor(20 * random()) }, () =>
      books.settlement({ ...customer, id: `req_${crypto.randomUUID()}` }),
    )
    const openings = [books.opening({ ...customer, id: `req_${crypto.randomUUID()}` })]
    await books.commit(customer.processId, { openings, settlements })
    tell(...settlements.map(({ opening }) => opening.requestId))
    if (random() < 0.2) {
      await books.credit(customer.accountId, 1_000n)
      const [last] = await target.sql<{ key: string }[]>`
        select idempotency_key as key from transfers where credit_account = ${customer.accountId} order by id desc limit 1`
      tell(last!.key)
    }
    if (syncsCommits && random() < 0.05) await target.sql`checkpoint`
    // The log goes on in its next file.
    if (batch === 40) await target.sql`select pg_switch_wal()`
  }
  await db.close()
  await connection.end()
  await stop()
  rmSync(socketDirectory, { recursive: true })
  return { files, told }
}

/** What of the acknowledged a database has, after its books were looked at. */
async function survivors(dataDir: string): Promise<ReadonlySet<string>> {
  const embedded = await openEmbedded({ dataDir })
  const { sql, end } = connected(embedded.url)
  const rows = await sql<{ id: string }[]>`
    select request_id as id from usage union all select idempotency_key from transfers where credit_account like 'acc%'`
  await reconcile(sql, { busy: true })
  // It goes on from there.
  await sql`insert into processes (id) values ('prc_after')`
  await end()
  await embedded.close()
  return new Set(rows.map(({ id }) => id))
}

function connected(url: string) {
  const connection = directConnection(url)
  return { sql: connection.sql, end: () => connection.end() }
}

test(
  `whatever of the unsynced is on the disk, all that was acknowledged is there (${CUTS} cuts, seed ${SEED})`,
  async () => {
    const random = seededRandom(SEED)
    const before = join(root, "before")
    cpSync(join(root, "pg"), before, { recursive: true })
    const { files, told } = await play(random, 80, true)
    for (let cut = 0; cut < CUTS; cut++) {
      // At any moment, and each other time just as something was acknowledged.
      const any = Math.floor(random() * (files.moment + 1))
      const moment = cut % 2 === 0 ? any : told[Math.floor(random() * told.length)]!.moment
      const dataDir = join(root, `cut${cut}`)
      files.cutAt(moment, random, before, join(dataDir, "pg"))
      const there = await survivors(dataDir)
      const due = told.filter((each) => each.moment <= moment).map(({ id }) => id)
      expect({ seed: SEED, cut, moment, lost: due.filter((id) => !there.has(id)) }).toMatchObject({ lost: [] })
      rmSync(dataDir, { recursive: true })
    }
  },
  20_000 + 10_000 * CUTS,
)

test("with commits left to the operating system a cut takes the last of them, and what is left is whole", async () => {
  const before = join(root, "before")
  cpSync(join(root, "pg"), before, { recursive: true })
  const { files, told } = await play(seededRandom(SEED), 20, false)
  const dataDir = join(root, "cut")
  // Nothing that was not synced has reached the disk.
  files.cutAt(told.at(-1)!.moment, () => 0, before, join(dataDir, "pg"))
  const there = await survivors(dataDir)
  const kept = told.map(({ id }) => there.has(id))
  expect(kept).toContain(false)
  expect(kept.lastIndexOf(true)).toBeLessThan(kept.includes(false) ? Math.max(1, kept.indexOf(false)) : 0)
})
