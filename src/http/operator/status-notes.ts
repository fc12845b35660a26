/** `/operator/status-notes`: what visitors of `/status` are told in an operator's own words, in both languages. */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { Failure } from "../../failure/failure.ts"
import { MOST_OPEN, type NoteText, type StatusNote, type StatusNoteStore } from "../../store/operator/status-notes.ts"
import { type Authenticate, operatorBy } from "../dashboard/session.ts"
import { refused } from "../route.ts"
import { described, field, listOf, orNull, text, time } from "../shapes.ts"

export interface StatusNotesDeps {
  readonly authenticate: Authenticate
  readonly notes: StatusNoteStore
}

const NOTE_ID = /^note_\w{1,64}$/
/** Of those that are over, too. */
const LISTED = 50

const Words = Type.RegExp(/^(?=\s*\S)(?:[^\p{Cc}\p{Cs}]|\n){1,1000}$/u, {
  description: field("a text of 1 to 1000 characters", "teks 1 sampai 1000 karakter"),
})
const Texts = Type.Object({ id: Words, en: Words })
const Note = Type.Object(
  {
    id: text,
    text: Type.Object(
      { id: text, en: text },
      {
        description: field(
          "In Indonesian and in English; shown as text, with its line breaks.",
          "Dalam bahasa Indonesia dan Inggris; ditampilkan sebagai teks, dengan pergantian barisnya.",
        ),
      },
    ),
    created_at: time,
    updated_at: described(time, field("Of the last change of its words.", "Saat kata-katanya terakhir diubah.")),
    resolved_at: orNull(time, field("Null while it is open.", "Null selama masih berlangsung.")),
  },
  { $id: "StatusNote" },
)

export const statusNotesController = ({ authenticate, notes }: StatusNotesDeps) => {
  const operators = operatorBy(authenticate)
  return new Elysia({ name: "operator/status-notes" })
    .get(
      ...operators(
        "/operator/status-notes",
        {
          tag: "Operator",
          role: "support",
          summary: {
            en: "Notes on the status page, the newest first",
            id: "Catatan di halaman status, dari yang terbaru",
          },
          answer: listOf(Note),
        },
        async () => ({ data: (await notes.list(new Date(0), LISTED)).map(noteJson) }),
      ),
    )
    .post(
      ...operators(
        "/operator/status-notes",
        {
          tag: "Operator",
          role: "support",
          summary: { en: "Post a note on the status page", id: "Tulis catatan di halaman status" },
          description: {
            en: `Visitors see it within seconds. At most ${MOST_OPEN} are open.`,
            id: `Pengunjung melihatnya dalam hitungan detik. Paling banyak ${MOST_OPEN} yang masih berlangsung.`,
          },
          body: Type.Object({ text: Texts }),
          answer: Note,
          status: 201,
        },
        async ({ body, operator }) => {
          const note = await notes.post(trimmed(body.text), operator.act)
          if (note !== undefined) return noteJson(note)
          const message = `${MOST_OPEN} notes are open already.`
          return new Failure("request.invalid", { message, hint: "Resolve one of them first." })
        },
      ),
    )
    .patch(
      ...operators(
        "/operator/status-notes/:note",
        {
          tag: "Operator",
          role: "support",
          summary: { en: "Change a note's words, or resolve it", id: "Ubah kata-kata catatan, atau nyatakan selesai" },
          description: {
            en: "A resolved note is shown for seven more days.",
            id: "Catatan yang selesai masih ditampilkan tujuh hari.",
          },
          body: Type.Object({
            text: Type.Optional(Texts),
            was: Type.Optional(
              Type.Object(
                { id: Words, en: Words },
                {
                  description: field(
                    "the words that were read; if they are others by now, nothing is changed",
                    "kata-kata yang dibaca; jika sekarang sudah lain, tidak ada yang diubah",
                  ),
                },
              ),
            ),
            resolved: Type.Optional(
              Type.Literal(true, { description: field("true, or nothing", "true, atau tidak disebut") }),
            ),
          }),
          answer: Note,
        },
        async ({ params, body, operator }) => {
          const { text: words, resolved: isOver = false } = body
          if (words === undefined && !isOver)
            return refused("text", field("there unless 'resolved' is true", "ada, kecuali 'resolved' bernilai true"))
          // What no id can be, the database could not even look for.
          if (!NOTE_ID.test(params.note)) return new Failure("resource.not_found")
          const change = { text: words && trimmed(words), was: body.was, isOver }
          const note = await notes.change(params.note, change, operator.act)
          if (note === undefined) return new Failure("resource.not_found")
          const hasWords = change.text === undefined || same(note.text, change.text)
          if (hasWords && (!isOver || note.resolvedAt !== undefined)) return noteJson(note)
          const message = "The note is not as it was read: somebody else has changed its words."
          return new Failure("request.invalid", { message, hint: "Read it again, and then change it." })
        },
      ),
    )
}

const trimmed = ({ id, en }: NoteText): NoteText => ({ id: id.trim(), en: en.trim() })

const same = (a: NoteText, b: NoteText): boolean => a.id === b.id && a.en === b.en

const noteJson = ({ createdAt, updatedAt, resolvedAt, ...note }: StatusNote) => ({
  ...note,
  created_at: createdAt.toISOString(),
  updated_at: updatedAt.toISOString(),
  resolved_at: resolvedAt?.toISOString() ?? null,
})
