/**
 * Months of records in files (migrations/0076_archives.sql, archive-file.ts). A month's table goes in the same transaction in which
 * its file, its sums and its blocks are written down, so that a call is always in one of the two. The file is complete and was
 * read back before that.
 */
import { existsSync, renameSync, rmSync, statSync } from "node:fs"
import { copyFile, mkdir, readdir } from "node:fs/promises"
import { dirname, join, relative } from "node:path"
import {
  type ArchivedRow,
  blockRows,
  headerOf,
  NotArchived,
  readBack,
  sha256Of,
  type Sums,
  writeRecords,
} from "./archive-file.ts"
import { ifGone, makeDirectory, mustNotBeAnothers, sync } from "./embedded/database-files.ts"
import type { Sql } from "./sql.ts"

/** A month's table, or the one of all before there were months. */
export interface Month {
  readonly name: string
  /** Request ids, the second not included. */
  readonly from: string
  readonly until: string
  readonly untilAt: Date
}

/** Pages and warnings look at the records of so many days. */
const KEPT_DAYS = 93
const DAY_MS = 86_400_000
/** Blocks that are written to the database at a time. */
const BATCH = 5_000
const LOCK_TRIES = 60
const LOCK_NOT_AVAILABLE = "55P03"

/** What of the data directory belongs to the database: a backup of its files has it, and who moves takes it along. */
export const BESIDE_DATABASE = ["withdrawals", "archives"] as const

/** Copies the files of a directory, but those that go meanwhile. Where there is no directory, nothing. */
export async function copyFiles(from: string, to: string): Promise<void> {
  const entries = await readdir(from, { recursive: true, withFileTypes: true }).catch(ifGone)
  for (const entry of entries ?? []) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    const target = join(to, relative(from, path))
    await mkdir(dirname(target), { recursive: true, mode: 0o700 })
    await copyFile(path, target).catch(ifGone)
  }
}

export const archivesIn = (dataDir: string): string => join(dataDir, "archives")
const archiveFile = (directory: string, name: string): string => join(directory, `${name}.csv.gz`)

/** Those that are over before a request id, the oldest first. */
export async function monthsBefore(sql: Sql, before: string): Promise<readonly Month[]> {
  const rows = await sql<{ name: string; from: string | null; until: string }[]>`
    select c.relname::text as name, substring(b.bounds from 'FROM \\(''([^'']*)''') as from, substring(b.bounds from 'TO \\(''([^'']*)''') as until
    from pg_inherits i join pg_class c on c.oid = i.inhrelid cross join lateral (select pg_get_expr(c.relpartbound, c.oid) as bounds) b
    where i.inhparent = 'usage'::regclass`
  return rows
    .filter(({ until }) => /^req_[0-9a-z]{9}$/.test(until) && until <= before)
    .map(({ name, from, until }) => ({
      name,
      from: from ?? "",
      until,
      untilAt: new Date(Number.parseInt(until.slice(4), 36)),
    }))
    .sort((a, b) => (a.until < b.until ? -1 : 1))
}

/** What has to be done before a month can be archived. */
export async function obstacle(sql: Sql, { until, untilAt }: Month, nowMs: number): Promise<string | undefined> {
  if (nowMs - untilAt.getTime() < KEPT_DAYS * DAY_MS) return `records are kept in the database for ${KEPT_DAYS} days`
  const [row] = await sql<{ openings: number; changes: boolean; proven: boolean }[]>`
    select (select count(*)::int from openings where request_id < ${until}) as openings,
      exists (select from call_changes where request_id < ${until}) as changes,
      coalesce((select until_call from proofs order by id desc limit 1) >= ${until}, false) as proven`
  if (row === undefined || row.openings > 0)
    return `${row?.openings} of its calls have not ended: start a gateway, which ends them`
  return row.changes || !row.proven ? "the books were not found to agree since: run `loket reconcile`" : undefined
}

export interface Archived {
  readonly file: string
  readonly records: number
  readonly bytes: number
}

/**
 * On a connection of the tables' owner that nobody else uses. `step` is told of what has been done, before the next thing is. Throws `NotArchived`;
 * then, and where it was killed, all records are where they were, and it can be done again.
 */
export async function archiveMonth(
  sql: Sql,
  month: Month,
  { directory, step }: { readonly directory: string; readonly step: (what: string) => void },
): Promise<Archived> {
  mustNotBeAnothers(existsSync(directory) ? directory : dirname(directory))
  makeDirectory(directory)
  const file = archiveFile(directory, month.name)
  let writing = false
  await sql.unsafe("begin")
  try {
    await sql`select set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO, YMD', true), set_config('lock_timeout', '5s', true),
      set_config('statement_timeout', '0', true)`
    const [lock] = await sql<
      { taken: boolean }[]
    >`select pg_try_advisory_xact_lock(hashtextextended('loket:archive', 0)) as taken`
    if (lock?.taken !== true) throw new NotArchived("another `loket archive` is at it")
    const table = `"${month.name}"`
    // Nobody writes a record of a month that is over, but for one that is taken back; it waits.
    await sql.unsafe(`lock table ${table} in share mode`)
    const [sums] = await sql.unsafe<Sums[]>(`
      select count(*)::int as records, coalesce(sum(charge_micro), 0)::text as charged, coalesce(sum(absorbed_micro), 0)::text as absorbed from ${table}`)
    if (sums === undefined) throw new Error("no answer to what a month comes to")
    await sumHours(sql, table)
    writing = true
    const blocks = await writeRecords(sql, table, `${file}.part`, (records) =>
      step(`${month.name}: ${records} of ${sums.records} records`),
    )
    step(`${month.name}: reading it back`)
    const found = await readBack(`${file}.part`, blocks)
    if (found.records !== sums.records || found.charged !== sums.charged || found.absorbed !== sums.absorbed)
      throw new NotArchived(
        `${file}.part has ${found.records} records of ${found.charged} micro-rupiah, and ${month.name} ${sums.records} of ${sums.charged}`,
      )
    // What is left of an archiving that broke off is the same. One of another installation is the only one that there is.
    if (existsSync(file) && (await sha256Of(file)) !== found.sha256)
      throw new NotArchived(`${file} is there already, and has other records: move it away`)
    renameSync(`${file}.part`, file)
    sync(directory)
    sync(dirname(directory))
    step(`${month.name}: written`)
    const { size: bytes } = statSync(file)
    await sql`insert into archives (name, from_call, until_call, until_at, records, charge_micro, absorbed_micro, bytes, sha256)
      values (${month.name}, ${month.from}, ${month.until}, ${month.untilAt}, ${sums.records}, ${sums.charged}, ${sums.absorbed}, ${bytes}, ${found.sha256})`
    for (let n = 0; n < blocks.length; n += BATCH) {
      const some = blocks.slice(n, n + BATCH)
      await sql`insert into archive_blocks (archive, first_call, starts, bytes) select ${month.name}, * from unnest(
        ${sql.array(some.map(({ first }) => first))}::text[], ${sql.array(some.map(({ starts }) => String(starts)))}::bigint[],
        ${sql.array(some.map(({ size }) => String(size)))}::integer[])`
    }
    await sql.unsafe(`
      insert into archived_keys (key_id, charge_micro, last_used_at)
      select key_id, sum(charge_micro), max(opened_at) from ${table} group by 1 order by 1
      on conflict (key_id) do update set charge_micro = archived_keys.charge_micro + excluded.charge_micro,
        last_used_at = greatest(archived_keys.last_used_at, excluded.last_used_at);
      insert into archived_leases (lease_id, charge_micro)
      select lease_id, sum(charge_micro) from ${table} where lease_id in (select id from leases where closed_at is null) group by 1 order by 1
      on conflict (lease_id) do update set charge_micro = archived_leases.charge_micro + excluded.charge_micro`)
    // Where records are charges, one transfer of each account says what they came to.
    await sql.unsafe(`
      insert into archived_charges (archive, account_id, amount_micro)
      select '${month.name}', account_id, sum(charge_micro) from ${table}
      where charge_micro > 0 and request_id >= (select until_call from charges_end) group by 2 order by 2`)
    await indexCharges(sql, month.name.replace(/^usage/, "charges"))
    await detach(sql, table)
    step(`${month.name}: its table goes`)
    await sql.unsafe("commit")
    step(`${month.name}: archived`)
    return { file, records: sums.records, bytes }
  } catch (error) {
    // A disk that it filled is the gateway's too. It is nobody else's as long as the lock is held.
    if (writing) rmSync(`${file}.part`, { force: true })
    await sql.unsafe("rollback").catch(() => {})
    throw isOfDisk(error) ? new NotArchived(`${file} is not written, and its records stay: ${error.message}`) : error
  }
}

/**
 * Sums by the hour are made of records by a chore of gateways, and again where a record has changed. What the chore has not come to, as after an upgrade or
 * while no gateway ran, could not be told once the records are gone, and an hour that is marked would be summed again from none.
 */
async function sumHours(sql: Sql, table: string): Promise<void> {
  const due = await sql.unsafe<{ hour: Date }[]>(`
    select hour from (select distinct date_trunc('hour', opened_at, 'UTC') as hour from ${table} where part = 0) had
    where hour not in (select hour from call_summed) or hour not in (select hour from latency_summed) or hour in (select hour from call_late)
    order by hour`)
  if (due.length === 0) return
  // The chore's own lock, which its function would not wait for.
  await sql`select pg_advisory_xact_lock(hashtextextended('loket:call_hours', 0))`
  // A call has its id an hour before its time at most.
  for (const { hour } of due)
    await sql`select sum_call_hour_1(hour, first_call(hour - interval '1 hour'), first_call(hour + interval '1 hour'))
      from (select ${hour}::timestamptz as hour) due`
}

const isOfDisk = (error: unknown): error is Error =>
  error instanceof Error &&
  "code" in error &&
  (error.code === "ENOSPC" || error.code === "EDQUOT" || error.code === "EIO")

/** Of calls before records were charges a month's charges stay, and an account's are not found by its records any more. */
async function indexCharges(sql: Sql, table: string): Promise<void> {
  const [found] = await sql<{ there: boolean }[]>`select to_regclass(${`"${table}"`}) is not null as there`
  if (found?.there === true)
    await sql.unsafe(
      `create index if not exists "${table}_account_id_request_id_idx" on "${table}" (account_id, request_id)`,
    )
}

/** Whoever waits for the table makes all calls wait behind it: a moment, and then they are let pass. */
async function detach(sql: Sql, table: string): Promise<void> {
  await sql.unsafe("set local lock_timeout = '200ms'")
  for (let n = 1; ; n++) {
    await sql.unsafe("savepoint detaching")
    try {
      await sql.unsafe(`alter table usage detach partition ${table}; drop table ${table}`)
      return
    } catch (error) {
      const code = error instanceof Error && "code" in error ? error.code : undefined
      if (code !== LOCK_NOT_AVAILABLE) throw error
      if (n === LOCK_TRIES)
        throw new NotArchived(
          "somebody has been reading all months for a minute, a dump or a reconciliation: try again later",
        )
      await sql.unsafe("rollback to savepoint detaching")
      await Bun.sleep(800)
    }
  }
}

/**
 * When the last archived month ended, where calls of the account were archived that began in the time. Hours are those in which calls began: a call that
 * arrived in the month's last moments may be of the next month's first hour.
 */
export const archivedWithin = (sql: Sql, { accountId, from, to }: ArchivedQuestion) => sql<{ until: Date }[]>`
  select a.until from (select max(until_at) as until from archives) a
  where exists (
    select from usage_hours where account_id = ${accountId} and hour <= a.until
      and hour > ${from ?? new Date(0)}::timestamptz - interval '1 hour' ${to === undefined ? sql`` : sql`and hour < ${to}`}
  )`

interface ArchivedQuestion {
  readonly accountId: string
  readonly from?: Date | undefined
  readonly to?: Date | undefined
}

/** Where a call's records are, if they are archived. */
export interface ArchivePlace {
  readonly name: string
  readonly fileBytes: number
  readonly headerBytes: number
  readonly starts: number
  readonly size: number
}

export async function findArchived(sql: Sql, requestId: string): Promise<ArchivePlace | undefined> {
  const [row] = await sql<ArchivePlace[]>`
    select a.name, a.bytes::float8 as "fileBytes", (select min(starts) from archive_blocks where archive = a.name)::float8 as "headerBytes",
      b.starts::float8 as starts, b.bytes as size
    from archives a cross join lateral (
      select starts, bytes from archive_blocks where archive = a.name and first_call <= ${requestId} order by first_call desc limit 1
    ) b
    where a.from_call <= ${requestId} and a.until_call > ${requestId} limit 1`
  return row
}

/** All records of the call, with their columns as PostgreSQL wrote them. Throws `NotArchived` where the file is not here, or another. */
export async function readArchived(
  directory: string,
  place: ArchivePlace,
  requestId: string,
): Promise<readonly ArchivedRow[]> {
  const path = archiveFile(directory, place.name)
  if (!existsSync(path)) throw new NotArchived(`${path} is not here: copy it from where it was archived`)
  if (statSync(path).size !== place.fileBytes) throw new NotArchived(`${path} is not what was written`)
  try {
    const header = await headerOf(path, place.headerBytes)
    const rows = await blockRows(path, header, { first: "", ...place })
    return rows.filter((row) => row["request_id"] === requestId)
  } catch (error) {
    throw new NotArchived(`${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`)
  }
}

/** Archives that are not in the directory as they were written; with `whole` each is read. */
export async function damagedArchives(sql: Sql, directory: string, whole = false): Promise<readonly string[]> {
  const rows = await sql<{ name: string; bytes: number; sha256: string }[]>`
    select name, bytes::float8 as bytes, sha256 from archives order by until_call`
  const damaged: string[] = []
  for (const { name, bytes, sha256 } of rows) {
    const path = archiveFile(directory, name)
    if (!existsSync(path)) damaged.push(`${path} is not here`)
    else if (statSync(path).size !== bytes || (whole && (await sha256Of(path)) !== sha256))
      damaged.push(`${path} is not what was written`)
  }
  return damaged
}
