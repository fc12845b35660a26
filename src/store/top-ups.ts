/**
 * Top-ups as rows, and the one statement that turns a payment into balance.
 */
import { type Micro, micro, MICRO_PER_RUPIAH } from "../../actors/money/micro.ts"
import type { Database, Sql } from "./database.ts"
import { type ChangeName, taking } from "./idempotency-keys.ts"
import { isAhead } from "./sql.ts"

/** Under which a payment is credited, once. `reference`: the provider's name for it. */
export const creditKey = (provider: string, reference: string): string => `topup:${provider}:${reference}`

/** What a top-up costs; the total is what the payer pays. */
export interface Breakdown {
  readonly balancePurchasedMicro: Micro
  readonly serviceFeeMicro: Micro
  readonly paymentFeeMicro: Micro
  /** Of crypto top-ups, which are not offered. */
  readonly networkFeeMicro: Micro
}

export interface TopUp {
  readonly id: string
  readonly accountId: string
  readonly provider: string
  /** A pending one that is past its time is expired, whether or not anybody has written that down. */
  readonly status: "pending" | "paid" | "expired"
  readonly breakdown: Breakdown
  /** Empty while the provider has not made it. */
  readonly qrPayload: string
  readonly createdAt: Date
  readonly expiresAt: Date
  readonly paidAt: Date | undefined
  /** The provider's name for the payment that was credited. */
  readonly reference: string | undefined
  /** What of it went back: of the balance, and of the fees. */
  readonly refundedMicro: Micro
  readonly refundedFeesMicro: Micro
  /** The payer's bank took some of it back. */
  readonly disputed: boolean
}

export interface NewTopUp {
  readonly id: string
  readonly accountId: string
  readonly provider: string
  readonly breakdown: Breakdown
  readonly validMinutes: number
}

/** So many of a list, after the one with this id. */
export interface ListPage {
  readonly after: string | undefined
  readonly limit: number
}

export interface TopUpStore {
  /** False when the account has `OPEN_AT_ONCE` others that may still be paid, or `UNPAID_A_DAY` that were not; a crowd may get a few over. */
  create(topUp: NewTopUp): Promise<boolean>
  /** From then on it can be paid. `"done before"` when the change has already made another that can be. */
  showQr(id: string, qrPayload: string, change?: ChangeName): Promise<TopUp | "done before">
  /** No QR code could be made, so it is over before it began. */
  abandon(id: string): Promise<void>
  find(id: string): Promise<TopUp | undefined>
  /**
   * Of one account, the newest first; without a page the latest hundred. One that no QR code could be made for is listed while it is
   * the newest: it says how the last attempt ended, and was never to be paid.
   */
  list(accountId: string, page?: ListPage): Promise<readonly TopUp[]>
  /** Of all accounts, in the order of their ids, after the one named. */
  createdSince(since: Date, after: string | undefined, limit: number): Promise<readonly TopUp[]>
  /** Credits the top-up once for each idempotency key. True when it now credited a closed account, and kept that as a problem. */
  credit(id: string, payment: { readonly key: string; readonly reference: string }): Promise<boolean>
  /** Takes the right to ask the provider about one top-up now; false when somebody did a moment ago. */
  claim(id: string): Promise<boolean>
  /** Takes unpaid top-ups of these providers that are to be asked about, and puts each off until its next time. */
  claimDue(providers: readonly string[]): Promise<readonly TopUp[]>
}

/** How many of an account's top-ups are listed. */
const LISTED = 100
/** Each is a charge at the provider, and is asked about again and again. */
export const OPEN_AT_ONCE = 100
/** Also once it has expired: for a day, and by the reconciliations of a week. One account's must not take all their time. */
export const UNPAID_A_DAY = 300
/** How many are asked about in one go. */
const CLAIMED = 10
const once = { deadlineMs: 5_000, retry: true } as const

export function topUpStore(database: Database): TopUpStore {
  const find = async (id: string): Promise<TopUp | undefined> => {
    const [row] = await database.run(
      (sql) => sql<TopUpRow[]>`select ${sql.unsafe(TOP_UP_COLUMNS)} from top_ups where id = ${id}`,
      once,
    )
    return row === undefined ? undefined : toTopUp(row)
  }

  return {
    find,

    async create({ id, accountId, provider, breakdown, validMinutes }) {
      const rows = await database.run(
        (sql) => sql`
          with made as (
            insert into top_ups (id, account_id, provider, balance_purchased_micro, service_fee_micro, payment_fee_micro,
              network_fee_micro, qr_payload, expires_at)
            select ${id}, ${accountId}, ${provider}, ${breakdown.balancePurchasedMicro}::bigint,
              ${breakdown.serviceFeeMicro}::bigint, ${breakdown.paymentFeeMicro}::bigint,
              ${breakdown.networkFeeMicro}::bigint, '', now() + make_interval(mins => ${validMinutes})
            where (select count(*) from top_ups where account_id = ${accountId} and status = 'pending'
              and expires_at > now()) < ${OPEN_AT_ONCE}
              and (select count(*) from top_ups where account_id = ${accountId} and status = 'pending'
                and created_at > now() - interval '1 day' and not ${isAhead(sql, sql`created_at`)}) < ${UNPAID_A_DAY}
            on conflict (id) do nothing returning id
          )
          select id from made union select id from top_ups where id = ${id}`,
        once,
      )
      return rows.length > 0
    },

    async showQr(id, qrPayload, change) {
      const [row] = await database.run(
        (sql) => sql<TopUpRow[]>`
          with unshown as (
            select id from top_ups where id = ${id} and qr_payload = ''
          ), ${taking(sql, change, id, sql`exists (select from unshown)`)},
          shown as (
            update top_ups set qr_payload = ${qrPayload} from taken where id = ${id} and qr_payload = '' returning top_ups.*
          )
          select ${sql.unsafe(TOP_UP_COLUMNS)} from shown union all
          select ${sql.unsafe(TOP_UP_COLUMNS)} from top_ups where id = ${id} and qr_payload = ${qrPayload}`,
        once,
      )
      return row === undefined ? "done before" : toTopUp(row)
    },

    async abandon(id) {
      await database.run(
        (sql) => sql`
          update top_ups set expires_at = least(expires_at, now()), next_check_at = null where id = ${id}`,
        once,
      )
    },

    async list(accountId, { after, limit } = { after: undefined, limit: LISTED }) {
      const rows = await database.run(
        (sql) => sql<TopUpRow[]>`
          select ${sql.unsafe(TOP_UP_COLUMNS)} from top_ups where account_id = ${accountId}
            and not (status = 'pending' and qr_payload = '' and expires_at <= now() and exists (
              select from top_ups l where l.account_id = ${accountId} and (l.created_at, l.id) > (top_ups.created_at, top_ups.id)))
            ${after === undefined ? sql`` : sql`and (created_at, id) < (select created_at, id from top_ups where id = ${after})`}
          order by created_at desc, id desc limit ${limit}`,
        once,
      )
      return rows.map(toTopUp)
    },

    async createdSince(since, after, limit) {
      const rows = await database.run(
        (sql) => sql<TopUpRow[]>`
          select ${sql.unsafe(TOP_UP_COLUMNS)} from top_ups where created_at >= ${since} and id > ${after ?? ""}
          order by id limit ${limit}`,
        once,
      )
      return rows.map(toTopUp)
    },

    async credit(id, { key, reference }) {
      // All hangs on the transfer being fresh: whoever comes second waits for the first to commit, and then does nothing.
      const [row] = await database.run(
        (sql) => sql<{ is_closed: boolean }[]>`
          with top_up as (
            -- Locked, so that a deletion of the account that is under way commits before or after this, never unseen in between.
            select t.id, t.provider, account_id, t.balance_purchased_micro, t.service_fee_micro, t.payment_fee_micro + t.network_fee_micro as other_fees_micro,
              a.deleted_at is not null as is_closed
            from top_ups t join balances using (account_id) join accounts a on a.id = account_id where t.id = ${id} for share of a
          ), fresh as (
            insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
            select ${key}, 'house:cash_clearing', account_id, balance_purchased_micro, 'top_up' from top_up
            on conflict (idempotency_key) do nothing
            returning credit_account, amount_micro
          ), fee as (
            insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
            select ${`${key}:service_fee`}, 'house:cash_clearing', 'house:revenue', service_fee_micro,
              'service_fee'
            from top_up where service_fee_micro > 0 and exists (select from fresh)
          ), paid as (
            update top_ups set status = 'paid', paid_at = now(), reference = ${reference}
            where id = ${id} and exists (select from fresh)
          ), notified as (
            insert into payment_problems (provider, kind, reference, top_up_id, paid)
            select t.provider, 'closed_account', ${reference}, t.id,
              (t.balance_purchased_micro + t.service_fee_micro + t.other_fees_micro) / ${MICRO_PER_RUPIAH}::bigint || ' IDR'
            from top_up t where t.is_closed and exists (select from fresh)
            on conflict do nothing returning 1
          )
          select exists (select from notified) as is_closed, apply_1(null, array(
            select ('account', credit_account, null, null, null, -amount_micro)::change_1 from fresh))`,
        once,
      )
      return row?.is_closed === true
    },

    async claim(id) {
      const rows = await database.run(
        (sql) => sql`
          update top_ups set checked_at = now()
          where id = ${id} and status = 'pending'
            and (checked_at is null or checked_at not between now() - interval '2 seconds' and now() + interval '10 minutes')
          returning id`,
      )
      return rows.length > 0
    },

    async claimDue(providers) {
      // Ever less often: after half of its age, from ten seconds to an hour, until a day after it has expired. Of each account in turn: one that has
      // opened many does not keep others waiting for what they have paid.
      const rows = await database.run(
        (sql) => sql<TopUpRow[]>`
          with waiting as materialized (
            select id as waiting_id, next_check_at as since, row_number() over (partition by account_id order by next_check_at) as turn
            from top_ups
            where ${isDue(sql)} and provider = any(${sql.array([...providers])}::text[])
          ), due as (
            select id as due_id from top_ups join (select waiting_id from waiting order by turn, since limit ${CLAIMED}) first on id = waiting_id
            where ${isDue(sql)} for update of top_ups skip locked
          )
          update top_ups set checked_at = now(),
            next_check_at = case when now() < expires_at + interval '1 day'
              then now() + greatest(interval '10 seconds', least(interval '1 hour', (now() - created_at) / 2)) end
          from due where id = due_id
          returning ${sql.unsafe(TOP_UP_COLUMNS)}`,
      )
      return rows.map(toTopUp)
    },
  }
}

/** None is put off by more than an hour: what is later was put off by a clock of the database that has been set back since. */
const isDue = (sql: Sql) =>
  sql`(status = 'pending' and (next_check_at <= now() or next_check_at > now() + interval '61 minutes'))`

export const TOP_UP_COLUMNS = `id, account_id, provider,
  case when status = 'pending' and expires_at <= now() then 'expired' else status end as status,
  balance_purchased_micro, service_fee_micro, payment_fee_micro, network_fee_micro,
  qr_payload, created_at, expires_at, paid_at, reference, refunded_balance_micro,
  refunded_service_fee_micro + refunded_payment_fee_micro as refunded_fees_micro, disputed_at is not null as disputed`

export interface TopUpRow {
  id: string
  account_id: string
  provider: string
  status: TopUp["status"]
  balance_purchased_micro: bigint
  service_fee_micro: bigint
  payment_fee_micro: bigint
  network_fee_micro: bigint
  qr_payload: string
  created_at: Date
  expires_at: Date
  paid_at: Date | null
  reference: string | null
  refunded_balance_micro: bigint
  refunded_fees_micro: bigint
  disputed: boolean
}

export const toTopUp = (row: TopUpRow): TopUp => ({
  id: row.id,
  accountId: row.account_id,
  provider: row.provider,
  status: row.status,
  breakdown: {
    balancePurchasedMicro: micro(row.balance_purchased_micro),
    serviceFeeMicro: micro(row.service_fee_micro),
    paymentFeeMicro: micro(row.payment_fee_micro),
    networkFeeMicro: micro(row.network_fee_micro),
  },
  qrPayload: row.qr_payload,
  createdAt: row.created_at,
  expiresAt: row.expires_at,
  paidAt: row.paid_at ?? undefined,
  reference: row.reference ?? undefined,
  refundedMicro: micro(row.refunded_balance_micro),
  refundedFeesMicro: micro(row.refunded_fees_micro),
  disputed: row.disputed,
})
