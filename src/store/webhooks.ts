/** Where accounts have their events posted to. One webhook an account; its secret leaves once, when it is made. */
import type { Database } from "./database.ts"
import { hasRoom } from "./outbox.ts"

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
      (sql) => sql<Row[]>`
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
          and o.kind = 'webhook.test' and o.created_at > now() - make_interval(secs => ${TEST_GAP}))
        returning 1`,
    )
    return rows.length > 0
  },
})

interface Row {
  url: string
  created_at: Date
  former_until: Date | null
  failing_since: Date | null
  disabled_at: Date | null
}
