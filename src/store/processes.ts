/**
 * This process among those that share a database: a row in `processes`, and on a PostgreSQL server a session lock that the
 * server drops when the process dies. Only a free lock says that a process is gone; time alone never does (decisions
 * §12.23). A gone process is closed by any living one: it is fenced, its leases are given back, and each of its calls
 * gets the final record that it could not write.
 *
 * And what all processes of one installation have in common: its secrets and its name.
 */
import { nanoid } from "nanoid"
import type postgres from "postgres"
import { type Clock, sleep, systemClock } from "../../actors/kernel/clock.ts"
import type { Share } from "../../actors/lease.ts"
import { type Database, RowsHeld, type Sql } from "./database.ts"
import type { Servers } from "./servers.ts"
import { lockKey, LOSS_NOTICED_WITHIN_MS, SessionLock } from "./session-lock.ts"

interface ProcessOptions {
  readonly db: Database
  /**
   * For the session lock's own connection; not through a pooler that shares sessions. Undefined on the embedded database,
   * whose sessions are one, and whose data directory admits one process: any other is dead.
   */
  readonly lockOn: Servers | undefined
  /** It was proved that each connection has a session of its own. */
  readonly ownSessions?: boolean
  /** Another process took this one for dead and closed it. Nothing it leased is its own any more; it should end. */
  readonly onFenced: (why: string) => void
  /** The session lock was lost, and is taken again unless this process is closed by then. */
  readonly onLost?: () => void
}

export interface RegisteredProcess {
  readonly id: string
  /** From now on it takes calls, and what all processes keep together is shared with it. */
  serve(): Promise<void>
  /** It takes no calls any more; what it had a share in is the others'. */
  drain(): Promise<void>
  /** Its place among the processes that take calls; undefined when it is none of them. */
  share(): Promise<Share | undefined>
  /** Other processes that are gone and not wholly closed yet. */
  deadProcesses(): Promise<readonly string[]>
  /** Closes a process that is gone. Does nothing to one that lives, and nothing the second time. */
  closeProcess(id: string): Promise<Closed>
  /** A settlement has found a lease of this process not open: it ends, unless it is closing. */
  leaseUnknown(): void
  /** Closes this process itself, after its last statement. */
  close(): Promise<void>
}

/** What closing a process came to. */
interface Closed {
  readonly leases: number
  readonly openings: number
}

/**
 * After its own lock was lost and taken again, a process judges no other for so long: a server's restart frees everybody's at once,
 * and another may notice that late.
 */
export const REPRIEVE_MS = LOSS_NOTICED_WITHIN_MS
/** Whoever lost the connection of its lock alone has taken it again by then. */
const SURE_AFTER_MS = 1_000

export async function registerProcess(options: ProcessOptions): Promise<RegisteredProcess> {
  const { db, lockOn, ownSessions = false, onFenced, onLost } = options
  const id = `prc_${nanoid()}`
  const statements = processStatements(db)
  // The lock before the row, so that nobody ever sees the row of a living process with its lock free.
  const lock =
    lockOn &&
    (await SessionLock.take({ servers: lockOn, processId: id, ownSessions, onFenced, ...(onLost && { onLost }) }))
  const exclusive = lock !== undefined
  await statements.registerProcess(id)
  lock?.registered()
  return {
    id,
    serve: () => statements.serve(id),
    drain: () => statements.drain(id),
    share: () => statements.share(id),
    deadProcesses: async () => {
      if (lock === undefined) return await statements.findDead(id, false)
      const judges = () => performance.now() - lock.retakenAt >= REPRIEVE_MS
      const dead = judges() ? await findSurelyDead(statements, id) : []
      // A look is repeated when its connection is lost, and the lock may have been lost with it.
      return judges() ? dead : []
    },
    closeProcess: (other) => closeProcess(statements, other, exclusive),
    leaseUnknown: () => lock?.leaseUnknown(),
    close: async () => {
      await lock?.release()
      await closeProcess(statements, id, false)
    },
  }
}

/** Those whose locks are free in two looks, a second apart. */
export async function findSurelyDead(
  statements: Pick<ProcessStatements, "findDead">,
  own: string,
  clock: Clock = systemClock,
): Promise<readonly string[]> {
  const dead = await statements.findDead(own, true)
  if (dead.length === 0) return []
  await sleep(clock, SURE_AFTER_MS)
  const still = new Set(await statements.findDead(own, true))
  return dead.filter((id) => still.has(id))
}

/**
 * In four statements, each idempotent. The fence waits for what the process has under way (leasing locks its row, settling
 * its leases); what it waited for is seen only by a statement that begins after it. The lock is tried in the fence itself,
 * so that the owner cannot take it again in between.
 */
export async function closeProcess(statements: ClosingStatements, id: string, exclusive: boolean): Promise<Closed> {
  await statements.fence(id, exclusive)
  const leases = await statements.returnLeases(id)
  await statements.returnBudgets(id)
  const openings = await statements.recordOpenings(id)
  return { leases, openings }
}

// The statements that a process is registered, shared with, found dead and closed by, each on its own and idempotent.

/** An exclusive one passes over a process whose session lock is held. */
export interface ProcessStatements extends ClosingStatements {
  registerProcess(id: string): Promise<void>
  serve(id: string): Promise<void>
  drain(id: string): Promise<void>
  /** Its place among the processes that take calls; undefined when it is none of them. */
  share(id: string): Promise<Share | undefined>
  /** But `own`: those that are not wholly closed. An exclusive look finds nobody while the lock of `own` is free. */
  findDead(own: string, exclusive: boolean): Promise<string[]>
}

/** What closing a process takes, in this order. */
interface ClosingStatements {
  fence(id: string, exclusive: boolean): Promise<void>
  /** How many leases. */
  returnLeases(id: string): Promise<number>
  returnBudgets(id: string): Promise<void>
  /** How many records. */
  recordOpenings(id: string): Promise<number>
}

const again = { deadlineMs: 10_000, retry: true } as const

export const processStatements = (db: Database): ProcessStatements => ({
  registerProcess: async (id) => {
    await db.run((sql) => sql`insert into processes (id) values (${id}) on conflict do nothing`, again)
  },
  serve: async (id) => void (await db.run((sql) => serve(sql, id), again)),
  drain: async (id) => void (await db.run((sql) => drain(sql, id), again)),
  share: async (id) => (await db.run((sql) => findShare(sql, id), again))[0],
  findDead: async (own, exclusive) => {
    const rows = await db.run((sql) => findDead(sql, own, exclusive), again)
    return rows.map((row) => row.id)
  },
  fence: async (id, exclusive) => void (await db.run((sql) => fence(sql, id, exclusive), again)),
  returnLeases: async (id) => (await ofWhatIsFree(db, (sql, free) => returnLeases(sql, id, free)))[0]?.count ?? 0,
  returnBudgets: async (id) => void (await ofWhatIsFree(db, (sql, free) => returnBudgets(sql, id, free))),
  recordOpenings: async (id) => (await ofWhatIsFree(db, (sql, free) => recordOpenings(sql, id, free)))[0]?.count ?? 0,
})

/** Which of the locked rows a statement waits for. */
type Waiting = (sql: Sql) => postgres.Fragment
const forAll: Waiting = (sql) => sql``
const forNone: Waiting = (sql) => sql`skip locked`

/** Rows that others hold are waited for, but not for ever: one customer's are then left for the next look, and the others' are not. */
async function ofWhatIsFree<T>(db: Database, statement: (sql: Sql, waiting: Waiting) => PromiseLike<T>): Promise<T> {
  try {
    return await db.run((sql) => statement(sql, forAll), again)
  } catch (error) {
    if (!(error instanceof RowsHeld)) throw error
    return await db.run((sql) => statement(sql, forNone), again)
  }
}

function serve(sql: Sql, id: string): PromiseLike<unknown> {
  return sql`update processes set serving_since = now() where id = ${id} and serving_since is null`
}

function drain(sql: Sql, id: string): PromiseLike<unknown> {
  return sql`update processes set serving_since = null where id = ${id} and serving_since is not null`
}

/** In the order in which they began, so that who comes later moves nobody. One that has died counts until it is closed. */
function findShare(sql: Sql, id: string): PromiseLike<Share[]> {
  return sql`
    with serving as (
      select id, row_number() over (order by serving_since, id) - 1 as index, count(*) over () as count
      from processes where serving_since is not null and closed_at is null
    )
    select index::int, count::int from serving where id = ${id}`
}

/**
 * A closed process with something left is one whose last statement overtook its closing; it is closed once more. Where the own lock
 * is free, the server has dropped it, and perhaps everybody else's too: nobody is found then.
 */
function findDead(sql: Sql, own: string, exclusive: boolean): PromiseLike<{ id: string }[]> {
  return sql`
    with unfinished as materialized (
      select id from processes where id <> ${own} and closed_at is null
      union select process_id from openings where process_id <> ${own}
      union select process_id from leases where process_id <> ${own} and closed_at is null
      union select process_id from budget_leases where process_id <> ${own}
    )
    select id from unfinished
    where case
      when not ${exclusive} then true
      when pg_try_advisory_xact_lock(${lockKey(sql, own)}) then false
      else pg_try_advisory_xact_lock(${lockKey(sql, sql`id`)})
    end`
}

function fence(sql: Sql, id: string, exclusive: boolean): PromiseLike<unknown> {
  return sql`
    update processes set closed_at = now()
    where id = ${id} and closed_at is null
      and case when ${exclusive} then pg_try_advisory_xact_lock(${lockKey(sql, sql`id`)}) else true end`
}

function returnLeases(sql: Sql, id: string, waiting: Waiting): PromiseLike<{ count: number }[]> {
  return sql`
    with open as materialized (
      select l.id from leases l join processes p on p.id = l.process_id
        join balances b on b.account_id = l.account_id
      where p.id = ${id} and p.closed_at is not null and l.closed_at is null
      order by l.account_id for update of l, b ${waiting(sql)}
    ), closed as (
      update leases l set closed_at = now() from open where l.id = open.id
      returning l.account_id, l.granted_micro - l.returned_micro - l.settled_micro as back
    ), returned as materialized (
      select account_id, sum(back)::bigint as back from closed group by account_id
    ), given_back as (
      update balances b set leased_micro = b.leased_micro - r.back
      from returned r where b.account_id = r.account_id
    )
    select count(*)::int as count from closed`
}

/** After the leases: without one nothing is spent of a budget any more. */
function returnBudgets(sql: Sql, id: string, waiting: Waiting): PromiseLike<unknown> {
  return sql`
    with open as materialized (
      select b.key_id, b.period, b.period_start from budget_leases b join processes p on p.id = b.process_id
        join key_spend s using (key_id, period, period_start)
      where p.id = ${id} and p.closed_at is not null
      order by 1, 2, 3 for update of b, s ${waiting(sql)}
    ), closed as (
      delete from budget_leases b using open o
      where b.process_id = ${id} and b.key_id = o.key_id and b.period = o.period and b.period_start = o.period_start
      returning b.key_id, b.period, b.period_start, b.granted_micro - b.returned_micro - b.settled_micro as back
    )
    update key_spend s set leased_micro = s.leased_micro - c.back
    from closed c where s.key_id = c.key_id and s.period = c.period and s.period_start = c.period_start`
}

function recordOpenings(sql: Sql, id: string, waiting: Waiting): PromiseLike<{ count: number }[]> {
  return sql`
    with left_open as materialized (
      select o.request_id from openings o join processes p on p.id = o.process_id
      where p.id = ${id} and p.closed_at is not null
      order by o.request_id for update of o ${waiting(sql)}
    ), gone as (
      delete from openings o using left_open l where o.request_id = l.request_id returning o.*
    ), recorded as (
      insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status,
        input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id,
        turns, attempts, error_code, flagged, opened_at, first_token_ms, duration_ms)
      select request_id, 0, account_id, key_id, lease_id, model, endpoint, streamed, 'billing_error',
        0, 0, 0, 0, 0, 0, price_id,
        1, 0, 'internal.error', true, opened_at, null,
        greatest(0, least(extract(epoch from now() - opened_at) * 1000, 2147483647))::integer
      from gone order by request_id
      on conflict (request_id, part) do nothing
      returning 1
    )
    select count(*)::int as count from recorded`
}

const SECRET_BYTES = 32

/**
 * What only this installation knows: made by the first process that starts, the same for all others and ever after.
 * `end-users`: under which accounts are named to backends; `trial-credits`: by which addresses are known that had trial credit.
 */
export async function installationSecret(database: Database, name: "end-users" | "trial-credits"): Promise<Uint8Array> {
  const stored = () =>
    database.run((sql) => sql<{ secret: Uint8Array }[]>`select secret from installation_secrets where name = ${name}`, {
      retry: true,
    })
  const [known] = await stored()
  if (known !== undefined) return known.secret
  const fresh = crypto.getRandomValues(new Uint8Array(SECRET_BYTES))
  await database.run(
    (sql) => sql`insert into installation_secrets (name, secret) values (${name}, ${fresh}) on conflict do nothing`,
    { retry: true },
  )
  // Whoever came first has made it.
  const [made] = await stored()
  if (made === undefined) throw new Error("The installation's secret was not kept")
  return made.secret
}

/** The same for every process on one database, and another one on any other; 16 hexadecimal digits that give nothing away. */
export const installationName = (secret: Uint8Array): string =>
  new Bun.CryptoHasher("sha256", secret).update("installation").digest("hex").slice(0, 16)
