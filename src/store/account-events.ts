/** What was done to an account, as its owner sees it. The rows are written by triggers (`0060_account_events.sql`); here they are read. */
import type { Database } from "./database.ts"

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
