/**
 * Trial credit: an ordinary transfer from `house:trial_credits`. Micro-rupiah. One statement: the row that says that an address and an
 * account have had it, the transfer and the balance are there together or not at all, so of two at once one gives and the other does not.
 */
import type { Micro } from "../../actors/money/micro.ts"
import type { Database } from "./database.ts"

export interface TrialCredit {
  readonly accountId: string
  /** Keyed, of the address as everybody writes it. */
  readonly addressHash: Uint8Array
  readonly amountMicro: Micro
}

/** Since its address was proved. */
export interface TrialDue {
  readonly accountId: string
  /** Undefined where the account is deleted. */
  readonly email: string | undefined
  /** The name of the network's allowance. */
  readonly network: string
}

export interface TrialCreditStore {
  /** Of the account; or without one some of those that nobody has settled for a while, each put off for everybody. */
  dues(accountId: string | undefined): Promise<readonly TrialDue[]>
  /** It was given, or is not to be. */
  settled(accountId: string): Promise<void>
  /** Whether the address or the account has had it. */
  wasGiven(credit: Pick<TrialCredit, "accountId" | "addressHash">): Promise<boolean>
  /** False where either has had it before, or the account is frozen, deleted or not proved. Of one that was sent twice, true. */
  give(credit: TrialCredit): Promise<boolean>
}

/** Dues of one round. */
const ROUND = 20
const once = { deadlineMs: 5_000, retry: true } as const

export const trialCreditStore = (database: Database): TrialCreditStore => ({
  async dues(accountId) {
    const rows = await database.run(
      (sql) => sql<{ account_id: string; network: string; email: string | null }[]>`
        with due as (
          select account_id as due_id from trial_dues
          where ${accountId === undefined ? sql`next_try_at <= now()` : sql`account_id = ${accountId}`}
          order by next_try_at limit ${ROUND} for update skip locked
        ), put_off as (
          update trial_dues set next_try_at = now() + interval '1 minute' from due where account_id = due_id
          returning account_id, network
        )
        select p.account_id, p.network, a.email from put_off p
        left join accounts a on a.id = p.account_id and a.deleted_at is null`,
      once,
    )
    return rows.map((row) => ({ accountId: row.account_id, email: row.email ?? undefined, network: row.network }))
  },

  async settled(accountId) {
    await database.run((sql) => sql`delete from trial_dues where account_id = ${accountId}`, once)
  },

  async wasGiven({ accountId, addressHash }) {
    const rows = await database.run(
      (sql) => sql`select from trial_credits where account_id = ${accountId} or address_hash = ${addressHash}`,
      once,
    )
    return rows.length > 0
  },

  async give({ accountId, addressHash, amountMicro: amount }) {
    const [row] = await database.run(
      (sql) => sql<{ given: boolean }[]>`
        with account as materialized (
          select a.id from accounts a join balances b on b.account_id = a.id
          where a.id = ${accountId} and a.deleted_at is null and a.frozen_at is null and not a.email_unproved for update
        ), first as (
          insert into trial_credits (address_hash, account_id, amount_micro)
          select ${addressHash}, id, ${amount}::bigint from account
          on conflict do nothing returning account_id
        ), fresh as (
          insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
          select 'trial:' || account_id, 'house:trial_credits', account_id, ${amount}::bigint, 'trial_credit' from first
          returning credit_account
        )
        select apply_1(null, array(
            select ('account', f.credit_account, null, null, null, -${amount}::bigint)::change_1 from fresh f)),
          exists (select from fresh) or exists (
            select from trial_credits t where t.account_id = ${accountId} and t.address_hash = ${addressHash}) as given
        from account`,
      once,
    )
    return row?.given === true
  },
})
