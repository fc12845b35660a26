/** What operators tell visitors on `/status`, in both languages: what goes wrong, and that it is over. */
import type { Database, Sql } from "../database.ts"
import { type Act, signature, signatureColumns } from "./audit.ts"

export interface StatusNote {
  readonly id: string
  readonly text: NoteText
  readonly createdAt: Date
  /** Of the last change of its words. */
  readonly updatedAt: Date
  /** Undefined while it is open. */
  readonly resolvedAt: Date | undefined
}

export type NoteText = Readonly<Record<"id" | "en", string>>

export interface StatusNoteStore {
  /** Those that are open, and those that were resolved since; the newest first, at most so many. */
  list(resolvedSince: Date, limit: number): Promise<readonly StatusNote[]>
  /** Undefined where as many as may be are open. */
  post(text: NoteText, act: Act): Promise<StatusNote | undefined>
  /** Other words, or that it is over: what was resolved before stays so. Undefined where there is none of this id. */
  change(
    id: string,
    change: {
      readonly text: NoteText | undefined
      /** Where its words are others than these, it stays as it is. */
      readonly was: NoteText | undefined
      readonly isOver: boolean
    },
    act: Act,
  ): Promise<StatusNote | undefined>
}

/** A page of more says nothing any more. */
export const MOST_OPEN = 5
const once = { deadlineMs: 2_000, retry: true } as const

export const statusNoteStore = (database: Database): StatusNoteStore => ({
  async list(resolvedSince, limit) {
    const rows = await database.run(
      (sql) => sql<Row[]>`
        select * from status_notes where resolved_at is null or resolved_at > ${resolvedSince}
        order by created_at desc, id limit ${limit}`,
      { deadlineMs: 1_000, retry: false },
    )
    return rows.map(toNote)
  },

  async post(text, act) {
    // By its request's id a statement that is sent again finds its own note.
    const id = `note_${act.requestId}`
    const rows = await database.run(
      (sql) => sql<Row[]>`
        with added as (
          insert into status_notes (id, indonesian, english)
          select ${id}, ${text.id}, ${text.en}
          where (select count(*) from status_notes where resolved_at is null) < ${MOST_OPEN}
          on conflict (id) do nothing returning *
        ), logged as (
          insert into audit_log (${signatureColumns(sql)}, action, subject, after)
          select ${signature(sql, act)}, 'status_note.posted', a.id, ${words(sql)} from added a
        )
        select * from added union all select * from status_notes where id = ${id}`,
      once,
    )
    return rows[0] && toNote(rows[0])
  },

  async change(id, { text, was, isOver }, act) {
    const rows = await database.run(
      (sql) => sql<Row[]>`
        with before as (
          select * from status_notes where id = ${id}
            and indonesian = coalesce(${was?.id ?? null}, indonesian) and english = coalesce(${was?.en ?? null}, english)
            and not exists (select from audit_log where request_id = ${act.requestId}) for update
        ), changed as (
          update status_notes n set indonesian = coalesce(${text?.id ?? null}, n.indonesian),
            english = coalesce(${text?.en ?? null}, n.english),
            updated_at = case when ${text !== undefined} then now() else n.updated_at end,
            resolved_at = case when ${isOver} then coalesce(n.resolved_at, now()) else n.resolved_at end
          from before b where n.id = b.id returning n.*
        ), logged as (
          insert into audit_log (${signatureColumns(sql)}, action, subject, before, after)
          select ${signature(sql, act)}, ${isOver ? "status_note.resolved" : "status_note.changed"}, a.id,
            (select ${words(sql)} from before a), ${words(sql)} from changed a
        )
        select * from changed union all
        select * from status_notes where id = ${id} and not exists (select from changed)`,
      once,
    )
    return rows[0] && toNote(rows[0])
  },
})

/** What of a note, `a`, the audit log keeps. */
const words = (sql: Sql) => sql`jsonb_build_object('id', a.indonesian, 'en', a.english, 'resolved_at', a.resolved_at)`

interface Row {
  id: string
  indonesian: string
  english: string
  created_at: Date
  updated_at: Date
  resolved_at: Date | null
}

const toNote = (row: Row): StatusNote => ({
  id: row.id,
  text: { id: row.indonesian, en: row.english },
  createdAt: row.created_at,
  updatedAt: row.updated_at,
  resolvedAt: row.resolved_at ?? undefined,
})
