/** `/usage/refused`: calls that were refused before they were forwarded (decisions §13.15). They have no usage record. */
import { type Static, Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { Failure } from "../../failure/failure.ts"
import { failureCodes, failureRow } from "../../failure/table.ts"
import type { RefusedCall, RefusedCallStore } from "../../store/refused-calls.ts"
import { csvAnswer, csvQuery, inDays, pageJson, pageQuery, readPage } from "./page.ts"
import { described, field, flag, integer, orNull, pageOf, text, time } from "../shapes.ts"
import { type Authenticate, signedInBy } from "./session.ts"
import { refusedFilter, refusedQuery } from "./usage-query.ts"

export interface RefusedDeps {
  readonly refused: RefusedCallStore
  readonly authenticate: Authenticate
}

const REQUEST_ID = /^[A-Za-z0-9_-]{1,40}$/
/** All that an account has. */
const MAX_IN_A_FILE = 10_000

const RefusedShape = Type.Object(
  {
    request_id: text,
    refused_at: time,
    key_id: text,
    endpoint: text,
    model: orNull(
      text,
      field(
        "As it was asked for; null where the body named none.",
        "Seperti yang diminta; null jika badan tidak menyebutnya.",
      ),
    ),
    status: described(integer, field("The HTTP status of the answer.", "Status HTTP jawabannya.")),
    code: text,
    error: described(
      text,
      field(
        "The catalogue's message of this code; the answer may have said more.",
        "Pesan umum untuk kode ini; jawabannya mungkin menyebut lebih banyak.",
      ),
    ),
    hint: orNull(text, field("What to do.", "Apa yang perlu dilakukan.")),
    retryable: described(
      flag,
      field("Whether the same request may succeed later.", "Apakah permintaan yang sama mungkin berhasil nanti."),
    ),
  },
  { $id: "RefusedCall" },
)
const Listed = Type.Intersect([
  pageOf(RefusedShape),
  Type.Object({
    counts: Type.Array(Type.Object({ code: text, calls: integer, last_hour: time }), {
      description: field(
        "How many of the account's calls were refused in the hours that the range touches, whatever else is asked for: the list is a sample, of a code ten in a minute and process and of all a thousand a day.",
        "Berapa panggilan akun yang ditolak dalam jam-jam yang tersentuh rentangnya, apa pun saringan lainnya: daftarnya hanya contoh, paling banyak sepuluh per kode dalam satu menit dan proses, dan seribu sehari untuk semuanya.",
      ),
    }),
  }),
])

export const refusedController = ({ refused, authenticate }: RefusedDeps) => {
  const signedIn = signedInBy(authenticate)
  return new Elysia({ name: "dashboard/refused" })
    .get(
      ...signedIn(
        "/usage/refused",
        {
          may: "read",
          tag: "Usage",
          summary: {
            en: "Calls that were refused before they were forwarded, the newest first; kept for seven days",
            id: "Panggilan yang ditolak sebelum diteruskan, dari yang terbaru; disimpan tujuh hari",
          },
          description: {
            en: "Of keys that are known: 400, 401 of a revoked key, 402, 403, 413, 429 and 503. A call appears here within a few seconds.",
            id: "Dari kunci yang dikenal: 400, 401 untuk kunci yang dicabut, 402, 403, 413, 429, dan 503. Panggilan muncul di sini dalam beberapa detik.",
          },
          query: Type.Object({ ...refusedQuery.properties, ...pageQuery }),
          answer: Listed,
        },
        async ({ session, query }) => {
          const asked = refusedFilter(session, query)
          if (asked instanceof Failure) return asked
          const page = readPage(query, [REQUEST_ID])
          if (page instanceof Failure) return page
          const rows = await refused.list(asked, { after: page.after?.[0], limit: page.limit + 1 })
          // After the rows, with which they are written: a call that is listed is counted.
          const counts = await refused.counts(session.accountId, asked.from, asked.to)
          return {
            ...pageJson(rows, page, { item: refusedJson, placeOf: ({ requestId }) => [requestId] }),
            counts: counts.map(({ code, calls, lastHour }) => ({ code, calls, last_hour: lastHour.toISOString() })),
          }
        },
      ),
    )
    .get(
      ...signedIn(
        "/usage/refused/export.csv",
        {
          may: "read",
          tag: "Usage",
          summary: { en: "Refused calls as CSV", id: "Panggilan yang ditolak, sebagai CSV" },
          query: Type.Object({ ...refusedQuery.properties, ...csvQuery }),
          media: "text/csv",
        },
        async ({ session, query }) => {
          const asked = refusedFilter(session, query)
          if (asked instanceof Failure) return asked
          const rows = (await refused.list(asked, { after: undefined, limit: MAX_IN_A_FILE })).map(refusedJson)
          const lines = rows.map((row) => columns.map((column) => String(row[column] ?? "")))
          const name = `loket-refused${inDays(asked, session.timeZone)}`
          return csvAnswer({ name, rows: [columns, ...lines], notation: query.lang })
        },
      ),
    )
    .get(
      ...signedIn(
        "/usage/refused/:request_id",
        {
          may: "read",
          tag: "Usage",
          summary: { en: "One refused call, where it was kept", id: "Satu panggilan yang ditolak, jika disimpan" },
          answer: RefusedShape,
        },
        async ({ session, params }) => {
          const id = params.request_id
          const found = REQUEST_ID.test(id) ? await refused.find(session.accountId, id) : undefined
          return found === undefined ? new Failure("usage.not_found") : refusedJson(found)
        },
      ),
    )
}

const columns = ["request_id", "refused_at", "key_id", "endpoint", "model", "status", "code", "error", "hint"] as const

/** A code that an older or a newer version has written is shown as what it is. */
function refusedJson(call: RefusedCall): Static<typeof RefusedShape> {
  const known = failureCodes.find((code) => code === call.code)
  const row = failureRow(known ?? "internal.error")
  return {
    request_id: call.requestId,
    refused_at: new Date(call.at).toISOString(),
    key_id: call.keyId,
    endpoint: call.endpoint,
    model: call.model ?? null,
    status: row.status,
    code: call.code,
    error: row.message,
    hint: row.hint ?? null,
    retryable: row.retryable,
  }
}
