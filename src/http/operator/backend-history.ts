/** `/operator/backends/history` and `/hours`: what became of the members of pools, and their tries by the hour. Of all processes. */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { Failure } from "../../failure/failure.ts"
import { endOfBucket, failureClasses } from "../../gateway/backend-health.ts"
import {
  backendEvents,
  type BackendHistoryStore,
  type HistoryEntry,
  type HourSums,
  memberActs,
} from "../../store/operator/backend-history.ts"
import { ID, pageJson, pageQuery, readPage } from "../dashboard/page.ts"
import { type Authenticate, operatorBy } from "../dashboard/session.ts"
import { described, field, integer, listOf, oneOf, orNull, pageOf, text, time } from "../shapes.ts"

const HOUR_MS = 3_600_000
const HOURS = 7 * 24

const Anything = Type.Unknown({
  description: field(
    "Of an act: what was and what is, of what it changed; else null.",
    "Untuk tindakan: yang diubahnya, sebelum dan sesudahnya; selain itu null.",
  ),
})
const Entry = Type.Object(
  {
    at: described(time, field("Of the first within the minute.", "Waktu yang pertama dalam menit itu.")),
    event: described(
      oneOf([...backendEvents, ...memberActs]),
      field(
        "`opened`: it failed, and is not asked while another one is well; `closed`: it has answered again. `member.…`: an operator's act.",
        "`opened`: gagal, dan tidak ditanya selama ada yang lain yang sehat; `closed`: sudah menjawab lagi. `member.…`: tindakan operator.",
      ),
    ),
    member: described(
      text,
      field(
        "As in `GET /operator/backends`; of a credential `provider/credential`.",
        "Seperti di `GET /operator/backends`; untuk kredensial `provider/credential`.",
      ),
    ),
    model: orNull(
      text,
      field(
        "Whose pool it is; null of a credential and of an act, which hold for all.",
        "Model pemilik kumpulannya; null untuk kredensial dan untuk tindakan, yang berlaku untuk semua.",
      ),
    ),
    times: described(integer, field("Within the minute, of all processes.", "Dalam menit itu, dari semua proses.")),
    processes: Type.Array(text, { description: field("Ids of those that saw it.", "Id proses yang melihatnya.") }),
    class: orNull(
      oneOf(failureClasses),
      field("What failed, the last time within the minute.", "Apa yang gagal, terakhir kali dalam menit itu."),
    ),
    status: orNull(
      integer,
      field("The HTTP status of that failure, where one came.", "Status HTTP kegagalan itu, jika ada."),
    ),
    operator: orNull(
      Type.Object({ id: text, email: text }),
      field("Of an act; null for the command line.", "Untuk tindakan; null untuk baris perintah."),
    ),
    request_id: orNull(text, field("Of an act, as in the audit log.", "Untuk tindakan, seperti di log audit.")),
    before: Anything,
    after: Anything,
  },
  { $id: "BackendEvent" },
)
const Hour = Type.Object(
  {
    hour: described(time, field("Its beginning.", "Awal jam itu.")),
    tries: described(
      integer,
      field("Without requests that the backend did not take.", "Tanpa permintaan yang tidak diterima backend."),
    ),
    failures: integer,
    rate_limited: described(integer, field("The part of the failures.", "Bagian dari kegagalannya.")),
    first_token_p50_ms: orNull(
      integer,
      field(
        "Within a tenth; null where nothing had content.",
        "Tepat sampai sepersepuluh; null jika tidak ada yang berisi.",
      ),
    ),
  },
  { $id: "BackendHour" },
)
const member = Type.Optional(
  Type.RegExp(/^[^\p{Cc}]{1,400}$/u, { description: field("the id of a member", "id sebuah anggota kumpulan") }),
)

/** Where an entry stands. */
const WORDS = [/^\d{1,17}$/, /^[ae]$/, ID]

export interface BackendHistoryDeps {
  readonly authenticate: Authenticate
  readonly history: Pick<BackendHistoryStore, "list" | "hours">
  readonly now: () => number
}

export const backendHistoryController = ({ authenticate, history, now }: BackendHistoryDeps) =>
  new Elysia({ name: "operator/backend-history" })
    .get(
      ...operatorBy(authenticate)(
        "/operator/backends/history",
        {
          tag: "Operator",
          role: "support",
          summary: {
            en: "What became of members of pools, and what operators did to them, the newest first",
            id: "Apa yang terjadi pada anggota kumpulan, dan apa yang dilakukan operator padanya, dari yang terbaru",
          },
          description: {
            en: "All of the same within a minute are one entry. Kept for 90 days; operators' acts for ever. Of a member, what became of its credential too.",
            id: "Yang sama dalam semenit menjadi satu entri. Disimpan 90 hari; tindakan operator selamanya. Untuk satu anggota, juga yang terjadi pada kredensialnya.",
          },
          query: Type.Object({ ...pageQuery, member }),
          answer: pageOf(Entry),
        },
        async ({ query }) => {
          const page = readPage(query, WORDS)
          if (page instanceof Failure) return page
          const [micros = "", kind = "", id = ""] = page.after ?? []
          const rows = await history.list({
            member: query.member,
            after: page.after === undefined ? undefined : [micros, kind, id],
            limit: page.limit + 1,
          })
          return pageJson(rows, page, { item: entryJson, placeOf: ({ place }) => place })
        },
      ),
    )
    .get(
      ...operatorBy(authenticate)(
        "/operator/backends/hours",
        {
          tag: "Operator",
          role: "support",
          summary: {
            en: "Tries at members of pools by the hour, of the last seven days",
            id: "Percobaan ke anggota kumpulan per jam, tujuh hari terakhir",
          },
          description: {
            en: "Of one member, or of all together. Hours without tries are left out; the newest one goes on.",
            id: "Untuk satu anggota, atau semuanya bersama-sama. Jam tanpa percobaan tidak disebut; jam terbaru masih berjalan.",
          },
          query: Type.Object({ member }),
          answer: listOf(Hour),
        },
        async ({ query }) => {
          const from = (Math.floor(now() / HOUR_MS) + 1 - HOURS) * HOUR_MS
          return { data: (await history.hours(new Date(from), query.member)).map(hourJson) }
        },
      ),
    )

const entryJson = ({ at, event, member: id, model, times, processes, ...entry }: HistoryEntry) => ({
  at: at.toISOString(),
  event,
  member: id,
  model: model ?? null,
  times,
  processes: [...processes],
  class: failureClasses.find((name) => name === entry.class) ?? null,
  status: entry.status ?? null,
  operator: entry.operator ?? null,
  request_id: entry.requestId ?? null,
  before: entry.before,
  after: entry.after,
})

const hourJson = ({ hour, tries, failed, rateLimited, middleStep }: HourSums) => ({
  hour: hour.toISOString(),
  tries,
  failures: failed,
  rate_limited: rateLimited,
  first_token_p50_ms: middleStep === undefined ? null : endOfBucket(middleStep),
})
