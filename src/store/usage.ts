/**
 * Usage as its owner reads it: receipts, and one call's final record. Read only; the ledger alone writes here.
 * Money in micro-rupiah. Request ids sort by creation time, so a page goes on after the last id of the one before it.
 */
import type { UsageStatus } from "../../actors/ledger.ts"
import { type Micro, micro, zero } from "../../actors/money/micro.ts"
import type { Rates, Tokens } from "../../actors/money/price.ts"
import type { ArchivedRow } from "./archive-file.ts"
import { archivedWithin, findArchived, readArchived } from "./archives.ts"
import type { Database, Sql } from "./database.ts"
import {
  arrivalOf,
  atLeastNewest,
  beforeCall,
  callsOf,
  fromCall,
  hoursWithCalls,
  narrowed,
  noLaterThan,
  type UsageNarrowing,
} from "./usage-spans.ts"

/** A call has its id from its arrival, and its time from its admission, after its body was read and a slot was free. */
export const LONGEST_ARRIVAL_MS = 60 * 60 * 1000

export interface UsageRow {
  readonly requestId: string
  /** 0 is the final record; a marker of a reroute has a higher one. */
  readonly part: number
  readonly keyId: string
  /** Undefined where the key is there no more. */
  readonly keyName: string | undefined
  /** The run that it is one of. */
  readonly runId: string | undefined
  readonly model: string
  readonly endpoint: string
  readonly streamed: boolean
  readonly status: UsageStatus
  readonly tokens: Tokens
  readonly chargeMicro: Micro
  /** What the tokens cost over the charge; the house bore it. Counts over their bounds, which it bore too, are no part. */
  readonly absorbedMicro: Micro
  readonly priceId: bigint
  /** The price version that was charged at. */
  readonly rates: Rates
  /** Since when that version is in force. */
  readonly priceEffectiveAt: Date | undefined
  readonly turns: number
  readonly attempts: number
  readonly errorCode: string | undefined
  readonly createdAt: Date
  readonly firstTokenMs: number | undefined
  readonly durationMs: number
}

/**
 * `from` is included, `to` is not; `ids` says the same roughly, as request ids, which is what the index is by. Without a
 * status final records are meant; a fallback status means its markers.
 */
export interface UsageFilter extends UsageNarrowing {
  readonly accountId: string
  readonly ids?: { readonly from: string | undefined; readonly to: string | undefined } | undefined
  readonly from?: Date | undefined
  readonly to?: Date | undefined
  readonly errorCode?: string | undefined
  readonly runId?: string | undefined
}

export interface UsagePage {
  /** The last row that was seen before. */
  readonly after?: UsagePlace | undefined
  readonly limit: number
}
export type UsagePlace = Pick<UsageRow, "requestId" | "part">

export interface UsageStore {
  /** The newest first. */
  list(filter: UsageFilter, page: UsagePage): Promise<readonly UsageRow[]>
  /** The final record of a call, and the markers of its reroutes in their order. What failed tries cost is the house's own. */
  find(accountId: string, requestId: string): Promise<{ record: UsageRow; markers: readonly UsageRow[] } | undefined>
  /** Calls that arrived before are in files, and listed no more. Undefined where none of the account's is within the filter's time. */
  archivedUntil(filter: UsageFilter): Promise<Date | undefined>
}

const once = { deadlineMs: 5_000, retry: true } as const
/** How many of the newest calls are looked at before it is looked up where such calls are. */
const LOOKED_AT = 2_000

/** `archives`: the directory of records that the database has no longer (archives.ts). */
export function usageStore(database: Database, archives: string): UsageStore {
  return {
    async list(filter, page) {
      const { narrowing, ...whole } = divided(filter)
      if (narrowing === undefined) {
        const rows = await database.run(
          (sql) => sql<Row[]>`${selectRows(sql, sql`(${newest(sql, filter, page)})`)} ${inOrder(sql, page)}`,
          once,
        )
        return rows.map(toUsageRow)
      }
      // Among the newest there are often enough of them.
      const rows = await database.run(
        (sql) => sql<(Row & { looked_at: number })[]>`
          with newest as materialized (
            select * from (${newest(sql, whole, { ...page, limit: LOOKED_AT })}) u order by u.request_id desc limit ${LOOKED_AT}
          )
          select n.looked_at, u.* from (select count(*)::int as looked_at from newest) n
          left join (${selectRows(sql, sql`newest`)} where true ${narrowedTo(sql, narrowing)} ${inOrder(sql, page)}) u on true
          order by u.request_id desc, u.part desc`,
        once,
      )
      // One row of nothing where none is found.
      const found = rows.filter(({ part }) => part !== null)
      if (found.length === page.limit || rows[0]?.looked_at !== LOOKED_AT) return found.map(toUsageRow)
      const rare = await database.run((sql) => sql<Row[]>`${rareRows(sql, filter, page)}`, once)
      return rare.map(toUsageRow)
    },

    async archivedUntil(filter) {
      const [row] = await database.run((sql) => archivedWithin(sql, filter), once)
      return row?.until
    },

    async find(accountId, requestId) {
      const find = async (archived?: readonly ArchivedRow[]) =>
        await database.run(
          (sql) => sql<Row[]>`
          ${selectRows(sql, archived === undefined ? sql`usage` : archivedUsage(sql, archived))} where u.request_id = ${requestId} and u.account_id = ${accountId}
            and (u.part = 0 or u.status like 'fallback\\_%')
          order by u.part`,
          once,
        )
      let rows: readonly Row[] = await find()
      if (rows.length === 0) {
        const place = await database.run((sql) => findArchived(sql, requestId), once)
        if (place !== undefined) rows = await find(await readArchived(archives, place, requestId))
        // What was taken back since is not in the file.
        const [taken] = await database.run((sql) => takenBack(sql, requestId), once)
        if (taken !== undefined)
          rows = rows.map((row) =>
            row.part === 0 ? { ...row, status: "billing_error" as const, charge_micro: 0n, absorbed_micro: 0n } : row,
          )
      }
      const [record, ...markers] = rows.map(toUsageRow)
      // Without its final record a call has not ended yet, whatever markers there are.
      return record?.part === 0 ? { record, markers } : undefined
    },
  }
}

const takenBack = (sql: Sql, requestId: string) => sql`
  select 1 from transfers where idempotency_key in (${`void:${requestId}`}, ${`void-absorb:${requestId}`})`

const selectRows = (sql: Sql, from = sql`usage`) => sql`
  select u.request_id, u.part, u.key_id, u.run_id, u.model, u.endpoint, u.streamed, u.status, u.input_tokens, u.output_tokens,
    u.cache_read_tokens, u.cache_write_tokens, u.charge_micro, u.absorbed_micro - u.excess_micro as absorbed_micro, u.price_id, u.turns, u.attempts,
    u.error_code, u.opened_at, u.first_token_ms, u.duration_ms,
    p.input_micro, p.output_micro, p.cache_read_micro, p.cache_write_micro, p.effective_at, k.name as key_name
  from ${from} u left join prices p on p.id = u.price_id left join api_keys k on k.id = u.key_id`

const archivedUsage = (sql: Sql, rows: readonly ArchivedRow[]) =>
  sql`json_populate_recordset(null::usage, ${JSON.stringify(rows)}::text::json)`

/** Of final records what they are narrowed to, and all else. Markers are few, and have an index of their own. */
function divided(filter: UsageFilter): UsageFilter & { readonly narrowing?: UsageFilter | undefined } {
  const { accountId, ids, from, to, ...narrowing } = filter
  const isNarrowed = Object.values(narrowing).some((value) => value !== undefined)
  if (!isNarrowed || isOfMarkers(filter)) return filter
  return { accountId, ids, from, to, narrowing: filter }
}

const isOfMarkers = ({ status }: UsageFilter) => status?.startsWith("fallback_") === true

/** Markers, errors and runs have indexes of their own, and so nothing is said of the one of all calls. */
const ofAccount = (sql: Sql, filter: UsageFilter) => {
  if (isOfMarkers(filter)) return sql`u.account_id = ${filter.accountId} and u.part > 0`
  const isOfFew = filter.errorCode !== undefined || filter.runId !== undefined
  return isOfFew ? sql`u.account_id = ${filter.accountId} and u.part = 0` : callsOf(sql, filter.accountId)
}

const matching = (sql: Sql, filter: UsageFilter) => {
  const { accountId: _, ids, from, to, ...only } = filter
  return sql`
  ${ofAccount(sql, filter)}
  ${ids?.from === undefined ? sql`` : sql`and ${fromCall(sql, ids.from)}`}
  ${ids?.to === undefined ? sql`` : sql`and ${beforeCall(sql, ids.to)}`}
  ${from === undefined ? sql`` : sql`and u.opened_at >= ${from}`}
  ${to === undefined ? sql`` : sql`and u.opened_at < ${to}`}
  ${narrowedTo(sql, only)}`
}

const narrowedTo = (sql: Sql, { errorCode, runId, ...only }: Omit<UsageFilter, "accountId">) => sql`
  ${errorCode === undefined ? sql`` : sql`and u.error_code = ${errorCode}`}
  ${runId === undefined ? sql`` : sql`and u.run_id = ${runId}`}
  ${narrowed(sql, only)}`

const afterPlace = (sql: Sql, { after }: UsagePage) =>
  after === undefined
    ? sql``
    : sql`and (u.request_id, u.part) < (${after.requestId}, ${after.part}) and ${noLaterThan(sql, after.requestId)}`

const inOrder = (sql: Sql, { limit }: UsagePage) => sql`order by u.request_id desc, u.part desc limit ${limit}`

/** At least those of the page, in no order. */
const newest = (sql: Sql, filter: UsageFilter, page: UsagePage) => sql`
  select * from usage u where ${matching(sql, filter)} ${afterPlace(sql, page)}
  ${isOfMarkers(filter) ? inOrder(sql, page) : atLeastNewest(sql, page.limit)}`

/** What few of an account's many calls are: of a run or an error, which have indexes, or in the hours whose sums have it. */
function rareRows(sql: Sql, filter: UsageFilter, page: UsagePage) {
  if (filter.runId !== undefined)
    return sql`
      with found as materialized (select * from usage u where ${matching(sql, filter)} ${afterPlace(sql, page)})
      ${selectRows(sql, sql`found`)} ${inOrder(sql, page)}`
  if (filter.errorCode !== undefined) return errorRows(sql, filter, page)
  const before = page.after === undefined ? undefined : arrivalOf(page.after.requestId)
  return sql`
    with hours as materialized (${hoursWithCalls(sql, { ...filter, before, limit: page.limit })}), found as materialized (
      select u.* from hours h cross join lateral (
        select * from usage u where ${fromCall(sql, sql`h.first_id`)} and ${beforeCall(sql, sql`h.end_id`)} and opened_at >= h.hour
          and opened_at < h.hour + interval '1 hour' and ${matching(sql, filter)} offset 0
      ) u
    )
    ${selectRows(sql, sql`found`)} where true ${afterPlace(sql, page)} ${inOrder(sql, page)}`
}

/**
 * Of one error. Its index is by the calls' times, which are up to `LONGEST_ARRIVAL_MS` later than those in their ids: none of the newest by their ids is
 * older by more than that than the last of as many of the newest by their times.
 */
function errorRows(sql: Sql, filter: UsageFilter, page: UsagePage) {
  const arrivedBefore = page.after === undefined ? undefined : arrivalOf(page.after.requestId)
  const latest =
    arrivedBefore === undefined
      ? sql``
      : sql`and u.opened_at <= ${new Date(arrivedBefore.getTime() + LONGEST_ARRIVAL_MS)}`
  return sql`
    with newest as materialized (
      select opened_at from usage u where ${matching(sql, filter)} ${afterPlace(sql, page)} ${latest}
      order by opened_at desc fetch first ((select ${page.limit}::bigint)) rows only
    ), found as materialized (
      select * from usage u where ${matching(sql, filter)} ${afterPlace(sql, page)} ${latest}
        and u.opened_at >= (select min(opened_at) from newest) - make_interval(secs => ${LONGEST_ARRIVAL_MS / 1_000})
    )
    ${selectRows(sql, sql`found`)} ${inOrder(sql, page)}`
}

export interface TokenColumns {
  input_tokens: bigint
  output_tokens: bigint
  cache_read_tokens: bigint
  cache_write_tokens: bigint
}
interface Row extends TokenColumns {
  request_id: string
  part: number
  key_id: string
  run_id: string | null
  model: string
  endpoint: string
  streamed: boolean
  status: UsageStatus
  charge_micro: bigint
  absorbed_micro: bigint
  price_id: bigint
  turns: number
  attempts: number
  error_code: string | null
  opened_at: Date
  first_token_ms: number | null
  duration_ms: number
  input_micro: bigint | null
  output_micro: bigint | null
  cache_read_micro: bigint | null
  cache_write_micro: bigint | null
  effective_at: Date | null
  key_name: string | null
}

export const toTokens = (row: TokenColumns): Tokens => ({
  input: Number(row.input_tokens),
  output: Number(row.output_tokens),
  cacheRead: Number(row.cache_read_tokens),
  cacheWrite: Number(row.cache_write_tokens),
})

const toUsageRow = (row: Row): UsageRow => ({
  requestId: row.request_id,
  part: row.part,
  keyId: row.key_id,
  keyName: row.key_name ?? undefined,
  runId: row.run_id ?? undefined,
  model: row.model,
  endpoint: row.endpoint,
  streamed: row.streamed,
  status: row.status,
  tokens: toTokens(row),
  chargeMicro: micro(row.charge_micro),
  absorbedMicro: micro(row.absorbed_micro),
  priceId: row.price_id,
  rates: {
    input: micro(row.input_micro ?? zero),
    output: micro(row.output_micro ?? zero),
    cacheRead: micro(row.cache_read_micro ?? zero),
    cacheWrite: micro(row.cache_write_micro ?? zero),
  },
  priceEffectiveAt: row.effective_at ?? undefined,
  turns: row.turns,
  attempts: row.attempts,
  errorCode: row.error_code ?? undefined,
  createdAt: row.opened_at,
  firstTokenMs: row.first_token_ms ?? undefined,
  durationMs: row.duration_ms,
})
