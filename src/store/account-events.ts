/**
 * An account's events: what was done to it, as its owner sees it, and where it has them posted to. The rows of the first are
 * written by triggers (`0060_account_events.sql`); here they are read. One webhook an account; its secret leaves once, when it
 * is made.
 */
import type { Database } from "./database.ts"
import { hasRoom } from "./outbox.ts"
import { isAhead } from "./sql.ts"

export interface AccountEvent {
  readonly id: bigint
  readonly at: Date
  /** A word such as `key.created`. */
  readonly action: string
  readonly actor: "owner" | "member" | "operator" | "gateway" | "token"
  /** Who of the members it was. */
  readonly member: { readonly id: string; readonly email: string } | undefined
  /** The id of the management token that it was. */
  readonly token: string | undefined
  /** The id of what it was done to, and its name then. */
  readonly subject: string | undefined
  readonly name: string | undefined
  /** Of a sign-in. */
  readonly address: string | undefined
  readonly userAgent: string | undefined
  /** JSON of what differs. */
  readonly before: unknown
  readonly after: unknown
  /** More of the same within the day, which have no rows of their own. */
  readonly more: number
}

export interface AccountEventPage {
  /** The last id that was seen before. */
  readonly before: bigint | undefined
  readonly limit: number
}

export interface AccountEventStore {
  /** The newest first. */
  list(accountId: string, page: AccountEventPage): Promise<readonly AccountEvent[]>
}

interface Row {
  id: bigint
  at: Date
  action: string
  actor: AccountEvent["actor"]
  member_id: string | null
  member_email: string | null
  token_id: string | null
  subject: string | null
  name: string | null
  address: string | null
  user_agent: string | null
  before: unknown
  after: unknown
  more: number
}

export const accountEventStore = (database: Database): AccountEventStore => ({
  async list(accountId, { before, limit }) {
    const rows = await database.run(
      (sql) => sql<Row[]>`
        select e.id, e.at, e.action, case when e.token_id is null then e.actor else 'token' end as actor,
          e.member_id, a.email as member_email, e.token_id, e.subject, e.name, e.address, e.user_agent,
          e.before, e.after, e.more
        from account_events e left join accounts a on a.id = e.member_id
        where e.account_id = ${accountId} and ${before === undefined ? sql`true` : sql`e.id < ${before}`}
        order by e.id desc limit ${limit}`,
      { deadlineMs: 5_000, retry: true },
    )
    return rows.map(({ subject, name, address, user_agent, member_id, member_email, token_id, ...row }) => ({
      ...row,
      member: member_id === null ? undefined : { id: member_id, email: member_email ?? "" },
      token: token_id ?? undefined,
      subject: subject ?? undefined,
      name: name ?? undefined,
      address: address ?? undefined,
      userAgent: user_agent ?? undefined,
    }))
  },
})

export interface Webhook {
  readonly url: string
  readonly createdAt: Date
  /** Until when the secret before the present one signs too. */
  readonly formerUntil: Date | null
  /** Since when no delivery was taken. */
  readonly failingSince: Date | null
  readonly disabledAt: Date | null
}

export interface WebhookStore {
  read(accountId: string): Promise<Webhook | undefined>
  /** Another address, which is tried anew; an account that had none has this secret. Returns whether it has it. */
  set(accountId: string, url: string, secret: string): Promise<boolean>
  /** False when there is none. */
  rotate(accountId: string, secret: string): Promise<boolean>
  remove(accountId: string): Promise<void>
  /** An event that says nothing but that it came. False when there is no webhook that works, or another test is a moment old. */
  test(accountId: string): Promise<boolean>
}

/** Hours for which the secret before signs too. */
export const OVERLAP_HOURS = 24
/** Seconds between two tests. */
export const TEST_GAP = 5
const again = { retry: true } as const

export const webhookStore = (database: Database): WebhookStore => ({
  async read(accountId) {
    const [row] = await database.run(
      (sql) => sql<WebhookRow[]>`
        select url, created_at, case when former_until > now() then former_until end as former_until, failing_since, disabled_at
        from webhooks where account_id = ${accountId}`,
      again,
    )
    return (
      row && {
        url: row.url,
        createdAt: row.created_at,
        formerUntil: row.former_until,
        failingSince: row.failing_since,
        disabledAt: row.disabled_at,
      }
    )
  },

  async set(accountId, url, secret) {
    const [row] = await database.run(
      (sql) => sql<{ secret: string }[]>`
        insert into webhooks (account_id, url, secret)
        select id, ${url}, ${secret} from accounts where id = ${accountId} and deleted_at is null
        on conflict (account_id) do update set url = excluded.url, failing_since = null, disabled_at = null
        returning secret`,
      again,
    )
    return row?.secret === secret
  },

  async rotate(accountId, secret) {
    const rows = await database.run(
      (sql) => sql`
        update webhooks set secret = ${secret},
          former_secret = case when secret = ${secret} then former_secret else secret end,
          former_until = now() + make_interval(hours => ${OVERLAP_HOURS})
        where account_id = ${accountId} returning 1`,
      again,
    )
    return rows.length > 0
  },

  async remove(accountId) {
    await database.run((sql) => sql`delete from webhooks where account_id = ${accountId}`, again)
  },

  async test(accountId) {
    const rows = await database.run(
      (sql) => sql`
        with present as (
          select account_id from webhooks where account_id = ${accountId} and disabled_at is null for update
        )
        insert into outbox (account_id, channel, kind, expires_at, data)
        select account_id, 'webhook', 'webhook.test', now() + interval '1 hour', '{}'::jsonb from present
        where ${hasRoom(sql, sql`account_id`)} and not exists (select from outbox o where o.account_id = ${accountId}
          and o.kind = 'webhook.test' and o.created_at > now() - make_interval(secs => ${TEST_GAP}) and not ${isAhead(sql, sql`o.created_at`)})
        returning 1`,
    )
    return rows.length > 0
  },
})

interface WebhookRow {
  url: string
  created_at: Date
  former_until: Date | null
  failing_since: Date | null
  disabled_at: Date | null
}
