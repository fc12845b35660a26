/**
 * All that is known of an account, for its owner, as JSON text a batch at a time. Nothing that opens anything is in it (hashes,
 * secrets), and nothing of what calls cost the house. A section is read from place to place, so that however long an account's
 * history is, one batch of it is in memory. Money is in micro-rupiah.
 */
import { afterCall, atLeastOldest, callsOf } from "./usage-spans.ts"
import { credits, oldestCharges } from "./movements.ts"
import type { Database, Sql } from "./database.ts"

const BATCH = 500
/** Of documents, of which one may have thousands of lines. */
const DOCUMENTS = 20

/** Rows after a place in the order of places, each with its own. */
type Section = (sql: Sql, accountId: string, after: string) => ReturnType<Sql>

/** Of whole tables of which an account has few rows, in one batch: `after` is empty only for the first. */
const few = (rows: (sql: Sql, accountId: string) => ReturnType<Sql>): Section => {
  return (sql, accountId, after) => sql`select 'all' as place, r.* from (${rows(sql, accountId)}) r where ${after} = ''`
}

const sections: Readonly<Record<string, Section>> = {
  account: few(
    (sql, id) => sql`
      select id, email, not email_unproved as email_proved, role, operator_role, time_zone, language, low_balance_email,
        low_balance_threshold_micro, budget_mails, buyer_name, buyer_address, buyer_npwp, frozen_at, agreed_version, agreed_at, created_at
      from accounts where id = ${id}`,
  ),
  balance: few(
    (sql, id) => sql`select posted_micro as balance_micro, claim_micro from balances where account_id = ${id}`,
  ),
  sessions: few(
    (sql, id) =>
      sql`select id, created_at, last_seen_at, expires_at, user_agent, address from sessions where account_id = ${id}`,
  ),
  passkeys: few((sql, id) => sql`select id, name, created_at, last_used_at from passkeys where account_id = ${id}`),
  sign_in_networks: few((sql, id) => sql`select network, signed_in_at from account_networks where account_id = ${id}`),
  mails: few(
    (sql, id) => sql`
      select kind, email, next_try_at is null as sent, expires_at as link_ends_at from account_mails where account_id = ${id}`,
  ),
  two_step_verification: few(
    (sql, id) => sql`
      select f.confirmed_at, (select count(*)::int from recovery_codes where account_id = ${id}) as recovery_codes_left
      from second_factors f where f.account_id = ${id}`,
  ),
  members: few(
    (sql, id) => sql`
      select m.member_id, a.email, m.role, m.since from members m join accounts a on a.id = m.member_id where m.account_id = ${id}`,
  ),
  memberships: few((sql, id) => sql`select account_id, role, since from members where member_id = ${id}`),
  invitations: few(
    (sql, id) => sql`select id, email, role, created_at, expires_at from invitations where account_id = ${id}`,
  ),
  management_tokens: few(
    (sql, id) =>
      sql`select id, key_id, name, prefix, last4, created_at from management_tokens where account_id = ${id}`,
  ),
  webhooks: few(
    (sql, id) => sql`select url, created_at, failing_since, disabled_at from webhooks where account_id = ${id}`,
  ),
  alerts: (sql, id, after) => sql`
    select id as place, id, channel, kind, data, created_at, tried_at, attempts, outcome, status from outbox
    where account_id = ${id} and id > ${after} order by id limit ${BATCH}`,
  keys: (sql, id, after) => sql`
    select id as place, id, name, prefix, last4, requests_per_minute, tokens_per_minute, spending_limit_micro, spending_period,
      fallback, expires_at, models, endpoints, networks, origins, max_rate_micro, parent_id, created_at, revoked_at from api_keys where account_id = ${id} and id > ${after} order by id limit ${BATCH}`,
  runs: (sql, id, after) => sql`
    select id as place, id, key_id, name, budget_micro, created_at, ends_at
    from runs where account_id = ${id} and id > ${after} order by id limit ${BATCH}`,
  top_ups: (sql, id, after) => sql`
    select id as place, id, provider, status, balance_purchased_micro, service_fee_micro, payment_fee_micro, network_fee_micro,
      reference, created_at, expires_at, paid_at from top_ups where account_id = ${id} and id > ${after} order by id limit ${BATCH}`,
  refunds: (sql, id, after) => sql`
    select id as place, id, top_up_id, kind, status, balance_micro, service_fee_micro, payment_fee_micro, reason, created_at,
      paid_out_at from refunds where account_id = ${id} and id > ${after} order by id limit ${BATCH}`,
  documents: (sql, id, after) => sql`
    select number as place, number, kind, subject, content, issued_at
    from documents where account_id = ${id} and number > ${after} order by number limit ${DOCUMENTS}`,
  movements: (sql, id, after) => {
    const from = after === "" ? "0" : after
    const side = (isOfAccount: ReturnType<typeof credits>, sign: number) => sql`
      (select id, created_at, ${sign}::bigint * amount_micro as amount_micro, reason from transfers
        where ${isOfAccount} and id > ${from}::bigint order by id limit ${BATCH})`
    return sql`
      select m.id::text as place, m.created_at as at, m.amount_micro, m.reason
      from (${side(sql`debit_account = ${id}`, -1)} union all ${side(credits(sql, id), 1)}) m order by m.id limit ${BATCH}`
  },
  charges: (sql, id, after) => sql`
    select request_id as place, case when archive is null then request_id end as request_id, archive, at, amount_micro
    from (${oldestCharges(sql, id, after, BATCH)}) m order by m.request_id limit ${BATCH}`,
  calls: (sql, id, after) => sql`
    select request_id as place, request_id, key_id, run_id, opened_at, model, endpoint, streamed, status, input_tokens, output_tokens,
      cache_read_tokens, cache_write_tokens, charge_micro, error_code, first_token_ms, duration_ms
    from (select * from usage u where ${callsOf(sql, id)} and ${afterCall(sql, after)} ${atLeastOldest(sql, BATCH)}) u
    order by request_id limit ${BATCH}`,
  activity: (sql, id, after) => sql`
    select id::text as place, at, action, actor, member_id, subject, name, address, user_agent, before, after, more from account_events
    where account_id = ${id} and id > ${after === "" ? "0" : after}::bigint order by id limit ${BATCH}`,
  refused_calls: (sql, id, after) => sql`
    select request_id as place, request_id, key_id, refused_at, endpoint, model, code from refused_calls
    where account_id = ${id} and request_id > ${after} order by request_id limit ${BATCH}`,
}

/** One JSON object, whose fields are the sections; in pieces. */
export async function* personalExport(database: Database, accountId: string): AsyncGenerator<string> {
  yield `{"format":"loket-account-1","made_at":${JSON.stringify(new Date())}`
  for (const [name, section] of Object.entries(sections)) {
    yield `,\n${JSON.stringify(name)}:[`
    let after = ""
    let isFirst = true
    for (;;) {
      const place = after
      const rows = await database.run(
        (sql) => sql<{ place: string; row: string }[]>`
          select place, (to_jsonb(s) - 'place')::text as row from (${section(sql, accountId, place)}) s`,
        { deadlineMs: 10_000, retry: true },
      )
      const last = rows.at(-1)
      if (last === undefined) break
      yield (isFirst ? "\n" : ",\n") + rows.map(({ row }) => row).join(",\n")
      isFirst = false
      if (rows.length < DOCUMENTS) break
      after = last.place
    }
    yield "]"
  }
  yield "}\n"
}
