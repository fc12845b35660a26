/**
 * Runs (actors/run.ts) as rows: made once, changed at the most by an end before their time, and removed some time after it. What a run has spent stands in
 * `key_spend`, in one commit with the records of its calls. Micro-rupiah.
 */
import { type Micro, micro } from "../../actors/money/micro.ts"
import type { RunRequest, RunRecord } from "../../actors/run.ts"
import type { Tokens } from "../../actors/money/price.ts"
import type { Database, Sql } from "./database.ts"
import { type TokenColumns, toTokens } from "./usage.ts"

/** Of one account: runs that have not ended, and all that are kept. */
export const MAX_RUNS_OPEN = 2_000
export const MAX_RUNS_KEPT = 20_000
/** From a run's end until its row goes. Its calls' records stay. */
export const RUN_KEPT_DAYS = 30
/** How long a run lasts whose end nobody has said. */
const RUN_LASTS_MS = 7 * 24 * 60 * 60 * 1_000

export interface NewRun extends RunRequest {
  readonly budget: Micro
  readonly createdAt: number
  readonly endsAt: number
}

/** One statement each, which may come twice. */
export interface RunStatements {
  findRun(runId: string): Promise<RunRecord | undefined>
  /** False where the account has as many as it may; where there is such a run already nothing is changed. */
  openRun(run: NewRun): Promise<boolean>
  /** What `openRun` would say of one that is not there. */
  mayOpenRun(accountId: string, nowMs: number): Promise<boolean>
}

/** A run as its owner sees it. */
export interface KeptRun extends RunRecord {
  readonly createdAt: Date
}

export interface RunOfModel {
  readonly model: string
  /** Calls with a final record, and how many of them were answered. */
  readonly calls: number
  readonly ok: number
  readonly tokens: Tokens
  readonly chargeMicro: Micro
}

export interface RunFilter {
  readonly accountId: string
  readonly keyId: string | undefined
}

export interface RunStore extends RunStatements {
  /** The newest first. */
  list(
    filter: RunFilter,
    page: { readonly after: string | undefined; readonly limit: number },
  ): Promise<readonly KeptRun[]>
  find(accountId: string, runId: string): Promise<KeptRun | undefined>
  /** Ends it now, and tells every process so; what has ended stays as it is. Undefined where there is no such run. */
  end(accountId: string, runId: string, nowMs: number): Promise<KeptRun | undefined>
  /** What its calls came to so far, the dearest model first. */
  models(runId: string): Promise<readonly RunOfModel[]>
}

interface RunRow {
  readonly id: string
  readonly account_id: string
  readonly key_id: string
  readonly name: string
  readonly budget_micro: bigint
  readonly ends_at: Date
  readonly spent_micro: bigint
}
interface KeptRow extends RunRow {
  readonly created_at: Date
}
interface ModelRow extends TokenColumns {
  readonly model: string
  readonly calls: number
  readonly ok: number
  readonly charge_micro: bigint
}

const again = { retry: true } as const
const once = { deadlineMs: 5_000, retry: true } as const

const toRecord = (row: RunRow): RunRecord => ({
  runId: row.id,
  accountId: row.account_id,
  keyId: row.key_id,
  name: row.name,
  budget: micro(row.budget_micro),
  endsAt: row.ends_at.getTime(),
  spent: micro(row.spent_micro),
})
const toKept = (row: KeptRow): KeptRun => ({ ...toRecord(row), createdAt: row.created_at })

export const runStatements = (database: Database): RunStatements => ({
  async findRun(runId) {
    const [row] = await database.run((sql) => sql<RunRow[]>`${selectKept(sql)} where r.id = ${runId}`, again)
    return row && toRecord(row)
  },
  async openRun({ runId, accountId, keyId, name, budget, createdAt, endsAt }) {
    const [row] = await database.run(
      (sql) => sql<{ there: boolean }[]>`
        select open_run_1(${runId}, ${accountId}, ${keyId}, ${name}, ${budget}, ${new Date(createdAt)}, ${new Date(endsAt)},
          ${MAX_RUNS_OPEN}, ${MAX_RUNS_KEPT}) as there`,
      again,
    )
    return row?.there === true
  },
  async mayOpenRun(accountId, nowMs) {
    const [row] = await database.run(
      (sql) => sql<{ may: boolean }[]>`
        select may_open_run_1(${accountId}, ${new Date(nowMs)}, ${MAX_RUNS_OPEN}, ${MAX_RUNS_KEPT}) as may`,
      again,
    )
    return row?.may === true
  },
})

/** What a call asks of its run: found, or made where there is none and a budget is given. */
export async function findOrOpenRun(
  statements: RunStatements,
  asked: RunRequest,
  nowMs: number,
  endsAt = nowMs + RUN_LASTS_MS,
): Promise<RunRecord | "unknown" | "too-many"> {
  const { runId, budget } = asked
  const found = await statements.findRun(runId)
  if (found !== undefined) return found
  if (budget === undefined) return "unknown"
  if (!(await statements.openRun({ ...asked, budget, createdAt: nowMs, endsAt }))) return "too-many"
  // As it is: another process may have made it with another budget.
  return (await statements.findRun(runId)) ?? "unknown"
}

const selectKept = (sql: Sql) => sql`
  select r.id, r.account_id, r.key_id, r.name, r.budget_micro, r.ends_at, r.created_at,
    coalesce((select s.spent_micro from key_spend s where s.key_id = r.id and s.period = 'total'), 0) as spent_micro
  from runs r`

export const runStore = (database: Database): RunStore => ({
  ...runStatements(database),

  async list({ accountId, keyId }, { after, limit }) {
    const rows = await database.run(
      (sql) => sql<KeptRow[]>`
        ${selectKept(sql)} where r.account_id = ${accountId}
          ${keyId === undefined ? sql`` : sql`and r.key_id = ${keyId}`}
          ${after === undefined ? sql`` : sql`and (r.created_at, r.id) < (select created_at, id from runs where id = ${after} and account_id = ${accountId})`}
        order by r.created_at desc, r.id desc limit ${limit}`,
      once,
    )
    return rows.map(toKept)
  },

  async find(accountId, runId) {
    const [row] = await database.run(
      (sql) => sql<KeptRow[]>`${selectKept(sql)} where r.id = ${runId} and r.account_id = ${accountId}`,
      once,
    )
    return row && toKept(row)
  },

  async end(accountId, runId, nowMs) {
    await database.run(
      (sql) => sql`
        with ended as (
          update runs set ends_at = greatest(${new Date(nowMs)}, created_at + interval '1 millisecond')
          where id = ${runId} and account_id = ${accountId} and ends_at > ${new Date(nowMs)}
          returning id, ends_at
        )
        select pg_notify('loket', concat_ws(' ', 'ended run', id, (extract(epoch from ends_at) * 1000)::bigint)) as notified from ended`,
      once,
    )
    return await this.find(accountId, runId)
  },

  async models(runId) {
    const rows = await database.run(
      (sql) => sql<ModelRow[]>`
        select u.model, count(*)::int as calls, (count(*) filter (where u.status = 'ok'))::int as ok,
          sum(u.input_tokens)::bigint as input_tokens, sum(u.output_tokens)::bigint as output_tokens,
          sum(u.cache_read_tokens)::bigint as cache_read_tokens, sum(u.cache_write_tokens)::bigint as cache_write_tokens,
          sum(u.charge_micro)::bigint as charge_micro
        from usage u join runs r on r.id = u.run_id
        where u.run_id = ${runId} and u.part = 0 and u.opened_at > r.created_at - interval '1 day'
        group by u.model order by charge_micro desc, u.model`,
      once,
    )
    return rows.map((row) => ({
      model: row.model,
      calls: row.calls,
      ok: row.ok,
      tokens: toTokens(row),
      chargeMicro: micro(row.charge_micro),
    }))
  },
})
