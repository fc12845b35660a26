/**
 * What is to be told, by mail or webhook. A row is taken by one process. A mail is over with its taking, unless it was surely not
 * sent; a webhook comes back when nobody has said what became of it, so its receiver may see it twice, under one id.
 */
import type { Language } from "./account-settings.ts"
import type { Database, Sql } from "./database.ts"
import { isAhead } from "./sql.ts"

/** Of a kind, with JSON that the statement which found the event has written. */
export interface OutboxItem {
  readonly id: string
  readonly accountId: string
  readonly kind: string
  readonly data: Readonly<Record<string, unknown>>
  readonly createdAt: Date
  /** With this one. */
  readonly attempts: number
}

export interface TakenMail extends OutboxItem {
  readonly email: string
  readonly language: Language
}

export interface TakenWebhook extends OutboxItem {
  readonly url: string
  /** Nothing was taken since an attempt failed. */
  readonly isAiling: boolean
  /** The one that signs; and the one before it, while that holds. */
  readonly secrets: readonly string[]
}

export interface Delivery {
  readonly id: string
  readonly kind: string
  readonly createdAt: Date
  readonly triedAt: Date | null
  readonly attempts: number
  readonly outcome: "sent" | "failed" | null
  readonly status: number | null
  readonly problem: string | null
  /** When it is tried next; null when it is over. */
  readonly dueAt: Date | null
}

export interface Attempt {
  readonly status?: number | undefined
  readonly problem?: string | undefined
}

export interface Outbox {
  /**
   * The next mail, which is over with that; or what has nobody any more to be sent to, and is over as well. Where its account has had as
   * many as it may, all of its alerts are put off until it may have another.
   */
  takeMail(): Promise<TakenMail | "no address" | "put off" | undefined>
  /** It was surely not sent, and may be a minute later, unless nothing of it is true any more. */
  putMailBack(id: string): Promise<void>
  /** `sent`, or why it was not. */
  endMail(id: string, problem: string | undefined): Promise<void>
  /** One an account at most, those first whose last delivery was taken; of the others at most `ailing`. */
  takeWebhooks(most: number, ailing: number): Promise<readonly TakenWebhook[]>
  webhookTaken(item: TakenWebhook, status: number): Promise<void>
  /** Tries again after a while; undefined: never. A webhook is disabled, and its owner told, when an event was given up after days in which
   * nothing was taken, or when it is `gone`. One that has another address by now is left as it is. */
  webhookFailed(item: TakenWebhook, attempt: Attempt, againAfterMs: number | undefined, gone: boolean): Promise<void>
  /** Of the account's webhooks, the newest first. */
  deliveries(accountId: string, limit: number): Promise<readonly Delivery[]>
  /** Ends what came too late, and what has nowhere to go. */
  sweep(): Promise<void>
}

/** Alerts of one account in a day, whatever happens: their address may be anybody's. */
const MAILS_A_DAY = 10
/** Seconds; longer than an attempt takes. */
const LEASE = 60
const DISABLED_AFTER = "3 days"
const SWEPT = 500
/**
 * What the account's owner must hear goes to its own address, however many alerts there were: in their queue it would be the last, and
 * late for good. Alerts go to the address that was set for them.
 */
const TO_OWNER = ["price.announced", "price.retracted", "model.retired", "model.restored"]
const again = { retry: true } as const

/** Of one account in a day, whatever it does with its keys' limits: a row is kept for a month. */
export const ROWS_A_DAY = 5_000

/** Whether an account has written fewer than so many in a day. */
export const hasRoom = (sql: Sql, account: ReturnType<Sql>, most = ROWS_A_DAY) => sql`
  ${most} > (select count(*) from (
    select from outbox o where o.account_id = ${account} and o.created_at > now() - interval '1 day' limit ${most}) written)`

/** Also what was written or put off by a clock that has been set back since: it would wait until that is there again. None is put off by more than a day and a tenth. */
const isDue = (sql: Sql) => sql`(o.due_at is not null and (o.due_at <= now() or o.due_at > now() + interval '27 hours'
  or ${isAhead(sql, sql`greatest(o.created_at, o.tried_at)`)}))`

export const outbox = (database: Database, sendsMail: boolean): Outbox => ({
  async takeMail() {
    const [row] = await database.run(
      (sql) => sql<(MailRow | { id: null })[]>`
        with next as (
          select o.id, o.account_id, o.kind from outbox o
          where o.channel = 'mail' and ${isDue(sql)} and o.expires_at > now()
          order by o.expires_at, o.id limit 1 for update skip locked
        ), enough as (
          select s.account_id, s.tried_at + interval '1 day' as until from outbox s join next n on n.account_id = s.account_id
          where n.kind not in ${sql(TO_OWNER)} and s.created_at > now() - interval '4 days'
            and s.channel = 'mail' and s.outcome = 'sent' and s.tried_at > now() - interval '1 day' and not ${isAhead(sql, sql`s.tried_at`)}
          order by s.tried_at desc offset ${MAILS_A_DAY - 1} limit 1
        ), waiting as (
          -- All at once: thousands may wait, and whoever takes the next mail would read them all, and count for each.
          select o.id, e.until from outbox o join enough e on e.account_id = o.account_id
          where o.channel = 'mail' and ${isDue(sql)} and o.kind not in ${sql(TO_OWNER)} for update of o skip locked
        ), put_off as (
          update outbox o set due_at = w.until, created_at = least(o.created_at, now()) from waiting w where o.id = w.id
        ), taken as (
          update outbox o set due_at = null, outcome = 'failed', problem = 'unknown', attempts = attempts + 1, tried_at = now(),
            created_at = least(o.created_at, now())
          from next n where o.id = n.id and not exists (select from enough) returning o.*
        )
        select t.id, t.account_id, t.kind, t.data, t.created_at, t.attempts, a.language,
          case when a.deleted_at is not null or a.email_unproved then null
            when t.kind in ${sql(TO_OWNER)} then a.email else coalesce(a.low_balance_email, a.email) end as email
        from next n left join taken t on t.id = n.id left join accounts a on a.id = t.account_id`,
    )
    if (row === undefined) return undefined
    if (row.id === null) return "put off"
    return row.email === null ? "no address" : { ...toItem(row), email: row.email, language: row.language }
  },

  async putMailBack(id) {
    await database.run(
      (sql) => sql`
        update outbox set due_at = now() + interval '1 minute', outcome = null, problem = 'later'
        where id = ${id} and data->'changes' is distinct from '[]'`,
      again,
    )
  },

  async endMail(id, problem) {
    await database.run(
      (sql) => sql`
        update outbox set outcome = ${problem === undefined ? "sent" : "failed"}, problem = ${problem ?? null} where id = ${id}`,
      again,
    )
  },

  async takeWebhooks(most, ailing) {
    const rows = await database.run(
      (sql) => sql<WebhookRow[]>`
        with recursive waiting (account_id) as (
          -- From one account to the next by the index outbox_webhooks: an account may have thousands of events, and is looked at once.
          (select account_id from outbox where channel = 'webhook' and due_at is not null order by account_id limit 1)
          union all
          select (select o.account_id from outbox o where o.channel = 'webhook' and o.due_at is not null and o.account_id > q.account_id
            order by o.account_id limit 1)
          from waiting q where q.account_id is not null
        ), first as materialized (
          -- An event that is being posted was due first, and is still: its account has no other until it is done.
          select f.id, w.failing_since is not null as ailing
          from waiting q join webhooks w on w.account_id = q.account_id and w.disabled_at is null
            join accounts a on a.id = q.account_id and a.deleted_at is null
            cross join lateral (
              select o.id from outbox o where o.account_id = q.account_id and o.channel = 'webhook' and o.due_at is not null
              order by o.due_at, o.id limit 1) f
        ), due as (
          select o.id, o.due_at, f.ailing from first f join outbox o on o.id = f.id
          where ${isDue(sql)} and (coalesce(o.taken_until, now()) <= now() or ${isAhead(sql, sql`o.tried_at`)})
          order by f.ailing, o.due_at limit ${most} for update of o skip locked
        ), ranked as (
          select id, row_number() over (partition by ailing order by due_at) as place, ailing from due
        ), taken as (
          update outbox o set taken_until = now() + make_interval(secs => ${LEASE}), attempts = attempts + 1, tried_at = now(),
            created_at = least(o.created_at, now())
          from ranked r where o.id = r.id and (not r.ailing or r.place <= ${ailing}) returning o.*, r.ailing
        )
        select t.id, t.account_id, t.kind, t.data, t.created_at, t.attempts, t.ailing, w.url, w.secret,
          case when w.former_until > now() then w.former_secret end as former_secret
        from taken t join webhooks w on w.account_id = t.account_id`,
    )
    return rows.map((row) => ({
      ...toItem(row),
      url: row.url,
      isAiling: row.ailing,
      secrets: row.former_secret === null ? [row.secret] : [row.secret, row.former_secret],
    }))
  },

  async webhookTaken({ id, accountId, attempts, url }, status) {
    await database.run(
      (sql) => sql`
        with ended as (
          update outbox set due_at = null, taken_until = null, outcome = 'sent', status = ${status}, problem = null
          where id = ${id} and due_at is not null and attempts = ${attempts} returning 1
        )
        update webhooks set failing_since = null
        where account_id = ${accountId} and url = ${url} and failing_since is not null and exists (select from ended)`,
      again,
    )
  },

  async webhookFailed({ id, attempts, url }, { status, problem }, againAfterMs, gone) {
    await database.run(
      (sql) => sql`
        with tried as (
          update outbox set taken_until = null, status = ${status ?? null}, problem = ${problem ?? null},
            due_at = case when ${againAfterMs === undefined} then null
              else now() + make_interval(secs => ${(againAfterMs ?? 0) / 1000}) end,
            outcome = case when ${againAfterMs === undefined} then 'failed' end
          where id = ${id} and due_at is not null and attempts = ${attempts} returning account_id, outcome = 'failed' and kind <> 'webhook.test' as given_up
        ), failing as (
          update webhooks w set failing_since = coalesce(w.failing_since, now()),
            disabled_at = case when ${gone} or t.given_up and w.failing_since < now() - ${DISABLED_AFTER}::interval then now() end
          from tried t where w.account_id = t.account_id and w.url = ${url} and w.disabled_at is null
          returning w.account_id, w.disabled_at, w.url
        ), dropped as (
          update outbox o set due_at = null, outcome = 'failed', problem = 'disabled' from failing f
          where f.disabled_at is not null and o.account_id = f.account_id and o.channel = 'webhook' and o.due_at is not null
            and o.id <> ${id}
        )
        insert into outbox (account_id, channel, kind, expires_at, data)
        select account_id, 'mail', 'webhook.disabled', now() + interval '3 days', jsonb_build_object('url', url)
        from failing where disabled_at is not null and ${sendsMail}`,
      again,
    )
  },

  async deliveries(accountId, limit) {
    const rows = await database.run(
      (sql) => sql<DeliveryRow[]>`
        select id, kind, created_at, tried_at, attempts, outcome, status, problem, due_at from outbox
        where account_id = ${accountId} and channel = 'webhook' order by created_at desc, id desc limit ${limit}`,
      again,
    )
    return rows.map((row) => ({
      id: row.id,
      kind: row.kind,
      createdAt: row.created_at,
      triedAt: row.tried_at,
      attempts: row.attempts,
      outcome: row.outcome,
      status: row.status,
      problem: row.problem,
      dueAt: row.due_at,
    }))
  },

  async sweep() {
    await database.run(
      (sql) => sql`
        with over as materialized (
          select o.id from outbox o left join webhooks w on w.account_id = o.account_id
          where o.due_at is not null and coalesce(o.taken_until, now()) <= now()
            and (o.expires_at < now() or o.channel = 'webhook' and (w.account_id is null or w.disabled_at is not null))
          limit ${SWEPT} for update of o skip locked
        )
        update outbox set due_at = null, outcome = 'failed', problem = coalesce(problem, 'late') where id in (select * from over)`,
      again,
    )
  },
})

const toItem = (row: ItemRow): OutboxItem => ({
  id: row.id,
  accountId: row.account_id,
  kind: row.kind,
  data: row.data,
  createdAt: row.created_at,
  attempts: row.attempts,
})

interface ItemRow {
  id: string
  account_id: string
  kind: string
  data: Record<string, unknown>
  created_at: Date
  attempts: number
}
interface MailRow extends ItemRow {
  email: string | null
  language: Language
}
interface WebhookRow extends ItemRow {
  url: string
  ailing: boolean
  secret: string
  former_secret: string | null
}
interface DeliveryRow {
  id: string
  kind: string
  created_at: Date
  tried_at: Date | null
  attempts: number
  outcome: "sent" | "failed" | null
  status: number | null
  problem: string | null
  due_at: Date | null
}
