/** Accounts as operators see them: found by what is at hand, with what they have, and the ledger of each. Micro-rupiah. */
import { type Micro, micro } from "../../../actors/money/micro.ts"
import { findArchived, readArchived } from "../archives.ts"
import { isPaused, type Pause, type PauseRow, pauseOf } from "../breakers.ts"
import type { Database, Sql } from "../database.ts"
import { chargedFrom, credits, newestCharges } from "../movements.ts"
import { creditKey } from "../top-ups.ts"
import { type OperatorRole, operatorRole, type Role } from "./role.ts"

export interface AccountView {
  readonly id: string
  readonly email: string
  readonly role: Role
  /** Undefined for a customer. */
  readonly operatorRole: OperatorRole | undefined
  readonly timeZone: string
  readonly createdAt: Date
  readonly deletedAt: Date | undefined
  readonly frozen: { readonly at: Date; readonly reason: string } | undefined
  /** By its owner's ceiling for all keys together. */
  readonly paused: Pause | undefined
  readonly balanceMicro: Micro
  /** Of calls under way. */
  readonly heldMicro: Micro
  /** What gateway processes may spend without asking again, what is held included. */
  readonly leasedMicro: Micro
  /** What the account owes for payments that were taken back. */
  readonly claimMicro: Micro
  readonly keys: number
  /** Those that are not revoked. */
  readonly activeKeys: number
}

export interface AccountPage {
  /** Part of an e-mail address, the beginning of an account's or key's id, or of a key, or all of a call's or top-up's id, or of a payment's reference. */
  readonly query: string | undefined
  /** The last account of the page before. */
  readonly after: string | undefined
  readonly limit: number
}

/** Where in an account's ledger one stands: the transfers from one on were shown, and the charges of calls from one on. */
export interface TransferPlace {
  readonly transfer: bigint | undefined
  readonly call: string | undefined
}

export interface TransferRow {
  /** Of a call's charge its request id, of all charges of an archived month its name. */
  readonly id: string
  /** After it. */
  readonly place: TransferPlace
  readonly at: Date
  /** Of this account: what came is positive. */
  readonly amountMicro: Micro
  /** After this transfer. */
  readonly balanceMicro: Micro
  readonly counterpart: string
  readonly reason: string
  /** `kind:id` of what it was for: a call's request id, a top-up, an adjustment. */
  readonly idempotencyKey: string
  /** Of an adjustment or a refund, what its operator wrote. */
  readonly note: string | undefined
}

export interface TransferPage {
  /** Of the last transfer of the page before. */
  readonly before: TransferPlace | undefined
  readonly limit: number
}

export interface AccountViews {
  /** The newest first. */
  search(page: AccountPage): Promise<readonly AccountView[]>
  find(id: string): Promise<AccountView | undefined>
  /** By id, or by the whole address of one that is not deleted. */
  named(text: string): Promise<AccountView | undefined>
  /** The newest first. */
  transfers(accountId: string, page: TransferPage): Promise<readonly TransferRow[]>
}

const once = { deadlineMs: 5_000, retry: true } as const
/** As much of a key as is kept readable. */
const KEY_PREFIX_LENGTH = 13

/** `archives`: the directory of records that the database has no longer; without it none of their calls is searched for. */
export function accountViews(database: Database, archives?: string): AccountViews {
  const find = async (id: string): Promise<AccountView | undefined> => {
    const [row] = await database.run((sql) => sql<AccountRow[]>`${selectAccounts(sql)} where a.id = ${id}`, once)
    return row && toView(row)
  }
  return {
    async search({ query, after, limit }) {
      const rows = await database.run(
        (sql) => sql<AccountRow[]>`
          ${selectAccounts(sql)}
          where ${query === undefined ? sql`true` : matching(sql, query)}
            ${after === undefined ? sql`` : sql`and (a.created_at, a.id) < (select created_at, id from accounts where id = ${after})`}
          order by a.created_at desc, a.id desc limit ${limit}`,
        once,
      )
      if (rows.length > 0 || after !== undefined || archives === undefined) return rows.map(toView)
      if (query === undefined || !REQUEST_ID.test(query)) return []
      const place = await database.run((sql) => findArchived(sql, query), once)
      const [record] = place === undefined ? [] : await readArchived(archives, place, query)
      const owner = record?.["account_id"] ?? undefined
      const account = owner === undefined ? undefined : await find(owner)
      return account === undefined ? [] : [account]
    },

    find,

    async named(text) {
      const [row] = await database.run(
        (sql) => sql<AccountRow[]>`
          ${selectAccounts(sql)} where a.id = ${text} or (lower(a.email) = lower(${text}) and a.deleted_at is null)`,
        once,
      )
      return row && toView(row)
    },

    async transfers(accountId, { before, limit }) {
      const { transfer, call } = before ?? { transfer: undefined, call: undefined }
      const rows = await database.run(
        (sql) => sql<TransferColumns[]>`
          with booked as (
            (select id, created_at, amount_micro as amount, debit_account as counterpart, reason, idempotency_key
              from transfers where ${credits(sql, accountId)} ${olderThan(sql, transfer)} order by id desc limit ${limit})
            union all
            (select id, created_at, -amount_micro, credit_account, reason, idempotency_key
              from transfers where debit_account = ${accountId} ${olderThan(sql, transfer)} order by id desc limit ${limit})
            order by id desc limit ${limit}
          ), charged as (
            select request_id, at, amount_micro, archive from (${newestCharges(sql, accountId, call, limit)}) newest
            order by request_id desc limit ${limit}
          ), rows as (
            select id, null as request_id, null as archive, created_at, amount, counterpart, reason, idempotency_key from booked
            union all
            select null, request_id, archive, at, -amount_micro, 'house:revenue', 'charge', 'charge:' || coalesce(archive, request_id) from charged
          )
          select p.*,
            -- Balances go back from the newest transfer.
            (start.posted_micro ${transfer === undefined ? sql`` : sql`- ${bookedFrom(sql, accountId, transfer)}`}
              ${call === undefined ? sql`` : sql`+ ${chargedFrom(sql, accountId, call)}`})::bigint as balance,
            case when p.idempotency_key like 'refund%' then (select r.reason from refunds r where r.id = split_part(p.idempotency_key, ':', 2))
              when p.reason = 'adjustment' then (select l.reason from audit_log l where l.subject = ${accountId} and l.action = 'account.adjusted'
              and l.after->>'transfer' = p.idempotency_key) end as note
          from rows p, balances start where start.account_id = ${accountId} order by p.id desc, p.request_id desc`,
        once,
      )
      return merged(rows, { transfer, call }).slice(0, limit)
    },
  }
}

/** By their times, the newest first, but each kind in its order, by which it is paged. `balance` of each row is before all of them. */
function merged(rows: readonly TransferColumns[], start: TransferPlace): readonly TransferRow[] {
  const charges = rows.filter((row) => row.id === null)
  const others = rows.filter((row) => row.id !== null)
  let balance = rows[0]?.balance ?? 0n
  let place = start
  return rows.map(() => {
    const [charge, other] = [charges[0], others[0]]
    const isCharge = charge !== undefined && (other === undefined || charge.created_at > other.created_at)
    const row = (isCharge ? charges : others).shift()
    if (row === undefined) throw new Error("fewer transfers than were counted")
    place = { transfer: row.id ?? place.transfer, call: row.request_id ?? place.call }
    const after = balance
    balance -= row.amount
    return {
      id: row.archive ?? row.request_id ?? String(row.id),
      place,
      at: row.created_at,
      amountMicro: micro(row.amount),
      balanceMicro: micro(after),
      counterpart: row.counterpart,
      reason: row.reason,
      idempotencyKey: row.idempotency_key,
      note: row.note ?? undefined,
    }
  })
}

const olderThan = (sql: Sql, before: bigint | undefined) => (before === undefined ? sql`` : sql`and id < ${before}`)

/** What the transfers from `from` on came to. */
const bookedFrom = (sql: Sql, accountId: string, from: bigint) => sql`(
  (select coalesce(sum(amount_micro), 0) from transfers where ${credits(sql, accountId)} and id >= ${from}) -
  (select coalesce(sum(amount_micro), 0) from transfers where debit_account = ${accountId} and id >= ${from}))`

const selectAccounts = (sql: Sql) => sql`
  select a.id, a.email, a.role, ${operatorRole(sql, "a")} as operator_role, a.time_zone, a.created_at, a.deleted_at, a.frozen_at, a.frozen_reason,
    case when a.deleted_at is null and ${isPaused(sql, "a")} then a.paused_at end as paused_at, a.paused_until,
    coalesce(b.posted_micro, 0) as posted_micro, coalesce(b.leased_micro, 0) as leased_micro,
    coalesce(b.claim_micro, 0) as claim_micro,
    (select coalesce(sum(o.hold_micro), 0)::bigint from openings o where o.account_id = a.id) as held_micro,
    (select count(*)::int from api_keys k where k.account_id = a.id) as keys,
    (select count(*)::int from api_keys k where k.account_id = a.id and k.revoked_at is null) as active_keys
  from accounts a left join balances b on b.account_id = a.id`

const REQUEST_ID = /^req_[A-Za-z0-9_-]{20,}$/

/** Under which a payment of this reference was credited: transfers have an index of these, and top-ups none of references. */
const creditKeys = (reference: string): string[] => ["simulated", "midtrans"].map((of) => creditKey(of, reference))

/** Whoever pastes a whole key finds its account by the part that is kept, or by the hash of a secret that was rotated. A customer who asks about a call or a payment has its id alone. */
function matching(sql: Sql, query: string) {
  const begins = `${literally(query)}%`
  const keyBegins = `${literally(query.slice(0, KEY_PREFIX_LENGTH))}%`
  return sql`(a.id like ${begins} or lower(a.email) like ${`%${literally(query.toLowerCase())}%`} or a.id in (
    select account_id from api_keys where id like ${begins} or (${query.startsWith("sk-")} and prefix like ${keyBegins})
    ${
      query.startsWith("sk-")
        ? sql`union all select k.account_id from key_secrets s join api_keys k on k.id = s.key_id
          where s.secret_hash = sha256(convert_to(${query}, 'UTF8'))`
        : sql``
    }
    union all select account_id from top_ups where id = ${query}
    union all select credit_account from transfers where idempotency_key = any (${sql.array(creditKeys(query))}::text[])
    ${
      REQUEST_ID.test(query)
        ? sql`union all select account_id from usage where request_id = ${query}
          union all select account_id from refused_calls where request_id = ${query}`
        : sql``
    }
  ))`
}

/** For `like`, which takes `%`, `_` and `\` for more than themselves. */
const literally = (text: string): string => text.replaceAll(/[\\%_]/g, "\\$&")

interface AccountRow extends PauseRow {
  id: string
  email: string
  role: Role
  operator_role: OperatorRole | null
  time_zone: string
  created_at: Date
  deleted_at: Date | null
  frozen_at: Date | null
  frozen_reason: string | null
  posted_micro: bigint
  leased_micro: bigint
  held_micro: bigint
  claim_micro: bigint
  keys: number
  active_keys: number
}
interface TransferColumns {
  /** Null of a call's charge, which has a request id. */
  id: bigint | null
  request_id: string | null
  /** Of an archived month's charges. */
  archive: string | null
  created_at: Date
  amount: bigint
  balance: bigint
  counterpart: string
  reason: string
  idempotency_key: string
  note: string | null
}

const toView = (row: AccountRow): AccountView => ({
  id: row.id,
  email: row.email,
  role: row.role,
  operatorRole: row.operator_role ?? undefined,
  timeZone: row.time_zone,
  createdAt: row.created_at,
  deletedAt: row.deleted_at ?? undefined,
  frozen: row.frozen_at === null ? undefined : { at: row.frozen_at, reason: row.frozen_reason ?? "" },
  paused: pauseOf(row),
  balanceMicro: micro(row.posted_micro),
  heldMicro: micro(row.held_micro),
  leasedMicro: micro(row.leased_micro),
  claimMicro: micro(row.claim_micro),
  keys: row.keys,
  activeKeys: row.active_keys,
})
