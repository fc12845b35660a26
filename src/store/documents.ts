/**
 * Receipts and statements as they were issued. A number is given by the one statement that keeps the document, in the function
 * `issue_document_1` of the database (migrations/0044_documents.sql), so that there are no gaps.
 */
import type { Database } from "./database.ts"

/** What numbers of a kind begin with: kuitansi, pengembalian dana, rekening koran. */
const codes = { receipt: "KW", refund: "PD", statement: "RK" } as const
export type DocumentKind = keyof typeof codes

export interface DocumentName {
  readonly kind: DocumentKind
  readonly accountId: string
  /** The id of a top-up or a refund, or a month such as 2026-11. */
  readonly subject: string
}

export interface IssuedDocument {
  /** Such as KW-2026-000001. */
  readonly number: string
  /** What was given when it was issued. */
  readonly content: unknown
  readonly issuedAt: Date
}

export interface DocumentStore {
  find(name: DocumentName): Promise<IssuedDocument | undefined>
  /** With this content and the next number, unless it was issued before: then as it was. */
  issue(name: DocumentName, content: object): Promise<IssuedDocument>
  /** The zone by which the account's first numbered statement has its month; undefined where there is none. */
  statementZone(accountId: string): Promise<string | undefined>
  /** The names of these keys of an account, of which it may have revoked any number. */
  keyNames(accountId: string, keyIds: readonly string[]): Promise<ReadonlyMap<string, string>>
}

const once = { deadlineMs: 5_000, retry: true } as const

interface Row {
  number: string
  content: unknown
  issued_at: Date
}

export const documentStore = (database: Database): DocumentStore => ({
  async find({ kind, accountId, subject }) {
    const [row] = await database.run(
      (sql) => sql<Row[]>`
        select number, content, issued_at from documents
        where account_id = ${accountId} and kind = ${kind} and subject = ${subject}`,
      once,
    )
    return row && toDocument(row)
  },

  async issue({ kind, accountId, subject }, content) {
    const [row] = await database.run(
      (sql) => sql<Row[]>`
        select number, content, issued_at
        from issue_document_1(${kind}, ${codes[kind]}, ${accountId}, ${subject}, ${JSON.stringify(content)}::text::jsonb)`,
      once,
    )
    if (row === undefined) throw new Error("a document was not issued")
    return toDocument(row)
  },

  async statementZone(accountId) {
    const [row] = await database.run(
      (sql) => sql<{ zone: string | null }[]>`
        select content ->> 'time_zone' as zone from documents
        where account_id = ${accountId} and kind = 'statement' order by issued_at limit 1`,
      once,
    )
    return row?.zone ?? undefined
  },

  async keyNames(accountId, keyIds) {
    const rows = await database.run(
      (sql) => sql<{ id: string; name: string }[]>`
        select id, name from api_keys where id = any(${sql.array([...keyIds])}::text[]) and account_id = ${accountId}`,
      once,
    )
    return new Map(rows.map(({ id, name }) => [id, name]))
  },
})

const toDocument = (row: Row): IssuedDocument => ({ number: row.number, content: row.content, issuedAt: row.issued_at })
