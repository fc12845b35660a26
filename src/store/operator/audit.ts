/**
 * What operators did, as rows. Who changes something writes its row in the same statement, with `signature`; here it is
 * read. A statement that is sent again finds its request id taken and does nothing.
 */
import type { Database, Sql } from "../database.ts"

/** Who acts, and through which request. */
export interface Act {
  readonly requestId: string
  /** Undefined for the command line. */
  readonly operatorId: string | undefined
  /** Of the network; for the command line its user and machine, as in `ana@gateway-1`. */
  readonly address: string | undefined
}

export interface AuditRow {
  readonly id: bigint
  readonly at: Date
  readonly requestId: string
  readonly operator: { readonly id: string; readonly email: string } | undefined
  readonly address: string | undefined
  readonly action: string
  readonly subject: string
  /** JSON; null where there was or is nothing. */
  readonly before: unknown
  readonly after: unknown
  readonly reason: string | undefined
}

export interface AuditPage {
  /** The last id that was seen before. */
  readonly before: bigint | undefined
  readonly limit: number
  readonly subject: string | undefined
}

export interface AuditStore {
  /** The newest first. */
  list(page: AuditPage): Promise<readonly AuditRow[]>
  /** Before the file of a list leaves: of an account, or of all, which is named as the list is. `filters`: names, without what was looked for. */
  exported(
    act: Act,
    file: { readonly list: string; readonly accountId?: string; readonly filters: object },
  ): Promise<void>
  /** What the act of this request changed; undefined when it changed nothing. */
  find(requestId: string): Promise<AuditRow | undefined>
}

const once = { deadlineMs: 5_000, retry: true } as const

export function auditStore(database: Database): AuditStore {
  return {
    async list({ before, limit, subject }) {
      const rows = await database.run(
        (sql) => sql<Row[]>`
          ${selectRows(sql)} where ${before === undefined ? sql`true` : sql`l.id < ${before}`}
            and ${subject === undefined ? sql`true` : sql`l.subject = ${subject}`}
          order by l.id desc limit ${limit}`,
        once,
      )
      return rows.map(toRow)
    },

    async exported(act, { list, accountId, filters }) {
      const after = {
        list,
        filters: Object.entries(filters).flatMap(([name, value]) => (value === undefined ? [] : [name])),
      }
      await database.run(
        (sql) => sql`
          insert into audit_log (${signatureColumns(sql)}, action, subject, after)
          values (${signature(sql, act)}, 'list.exported', ${accountId ?? list}, ${JSON.stringify(after)}::text::jsonb)
          on conflict (request_id) do nothing`,
        once,
      )
    },

    async find(requestId) {
      const [row] = await database.run((sql) => sql<Row[]>`${selectRows(sql)} where l.request_id = ${requestId}`, once)
      return row && toRow(row)
    },
  }
}

/** The columns of `audit_log` that `signature` fills; those of the change follow. */
export const signatureColumns = (sql: Sql) => sql`request_id, operator_id, address`
export const signature = (sql: Sql, { requestId, operatorId, address }: Act) =>
  sql`${requestId}::text, ${operatorId ?? null}::text, ${address ?? null}::text`

const selectRows = (sql: Sql) => sql`
  select l.id, l.at, l.request_id, l.operator_id, a.email, l.address, l.action, l.subject, l.before, l.after, l.reason
  from audit_log l left join accounts a on a.id = l.operator_id`

interface Row {
  id: bigint
  at: Date
  request_id: string
  operator_id: string | null
  email: string | null
  address: string | null
  action: string
  subject: string
  before: unknown
  after: unknown
  reason: string | null
}

const toRow = (row: Row): AuditRow => ({
  id: row.id,
  at: row.at,
  requestId: row.request_id,
  operator: row.operator_id === null ? undefined : { id: row.operator_id, email: row.email ?? "" },
  address: row.address ?? undefined,
  action: row.action,
  subject: row.subject,
  before: row.before,
  after: row.after,
  reason: row.reason ?? undefined,
})
