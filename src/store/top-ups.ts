/**
 * Top-ups as rows, and the one statement that turns a payment into balance.
 */
import { type Micro, micro } from "../../actors/money/micro.ts"
import type { Database } from "./database.ts"

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
}

export interface NewTopUp {
  readonly id: string
  readonly accountId: string
  readonly provider: string
  readonly breakdown: Breakdown
  readonly validMinutes: number
}

export interface TopUpStore {
  create(topUp: NewTopUp): Promise<void>
  showQr(id: string, qrPayload: string): Promise<TopUp>
  /** No QR code could be made, so it is over before it began. */
  abandon(id: string): Promise<void>
  find(id: string): Promise<TopUp | undefined>
  /** Of one account, the newest first. */
  list(accountId: string): Promise<readonly TopUp[]>
  /** Credits the top-up once for each idempotency key. */
  credit(id: string, idempotencyKey: string): Promise<void>
}

/** How many of an account's top-ups are listed. */
const LISTED = 100
const once = { deadlineMs: 5_000, retry: true } as const

export function topUpStore(database: Database): TopUpStore {
  const find = async (id: string): Promise<TopUp | undefined> => {
    const [row] = await database.run(
      (sql) => sql<TopUpRow[]>`select ${sql.unsafe(COLUMNS)} from top_ups where id = ${id}`,
      once,
    )
    return row === undefined ? undefined : toTopUp(row)
  }

  return {
    find,

    async create({ id, accountId, provider, breakdown, validMinutes }) {
      await database.run(
        (sql) => sql`
          insert into top_ups (id, account_id, provider, balance_purchased_micro, service_fee_micro, payment_fee_micro,
            network_fee_micro, qr_payload, expires_at)
          values (${id}, ${accountId}, ${provider}, ${breakdown.balancePurchasedMicro},
            ${breakdown.serviceFeeMicro}, ${breakdown.paymentFeeMicro},
            ${breakdown.networkFeeMicro}, '', now() + make_interval(mins => ${validMinutes}))
          on conflict (id) do nothing`,
        once,
      )
    },

    async showQr(id, qrPayload) {
      const [row] = await database.run(
        (sql) => sql<TopUpRow[]>`
          update top_ups set qr_payload = ${qrPayload} where id = ${id} returning ${sql.unsafe(COLUMNS)}`,
        once,
      )
      if (row === undefined) throw new Error(`top-up ${id} is not there after its creation`)
      return toTopUp(row)
    },

    async abandon(id) {
      await database.run((sql) => sql`update top_ups set expires_at = least(expires_at, now()) where id = ${id}`, once)
    },

    async list(accountId) {
      const rows = await database.run(
        (sql) => sql<TopUpRow[]>`
          select ${sql.unsafe(COLUMNS)} from top_ups where account_id = ${accountId}
          order by created_at desc, id desc limit ${LISTED}`,
        once,
      )
      return rows.map(toTopUp)
    },

    async credit(id, idempotencyKey) {
      // All hangs on the transfer being fresh: whoever comes second waits for the first to commit, and then does nothing.
      await database.run(
        (sql) => sql`
          with top_up as (
            select id, account_id, balance_purchased_micro, service_fee_micro from top_ups where id = ${id}
          ), fresh as (
            insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
            select ${idempotencyKey}, 'house:cash_clearing', account_id, balance_purchased_micro, 'top_up' from top_up
            on conflict (idempotency_key) do nothing
            returning credit_account, amount_micro
          ), credited as (
            insert into balances (account_id, posted_micro) select credit_account, amount_micro from fresh
            on conflict (account_id) do update set posted_micro = balances.posted_micro + excluded.posted_micro
          ), fee as (
            insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
            select ${`${idempotencyKey}:service_fee`}, 'house:cash_clearing', 'house:revenue', service_fee_micro,
              'service_fee'
            from top_up where service_fee_micro > 0 and exists (select from fresh)
          )
          update top_ups set status = 'paid', paid_at = now()
          where id = ${id} and exists (select from fresh)`,
        once,
      )
    },
  }
}

const COLUMNS = `id, account_id, provider,
  case when status = 'pending' and expires_at <= now() then 'expired' else status end as status,
  balance_purchased_micro, service_fee_micro, payment_fee_micro, network_fee_micro,
  qr_payload, created_at, expires_at, paid_at`

interface TopUpRow {
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
}

const toTopUp = (row: TopUpRow): TopUp => ({
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
})
