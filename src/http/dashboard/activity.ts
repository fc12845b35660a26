/** `/account/activity` and `POST /account/export`: what was done to the account, and all that is known of it. */
import { type Static, Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import type { Session, Accounts } from "../../accounts/accounts.ts"
import { SomePassword } from "../../accounts/fields.ts"
import { Failure } from "../../failure/failure.ts"
import type { AccountEvent, AccountEventStore } from "../../store/account-events.ts"
import type { AllowanceStore } from "../../store/allowances.ts"
import { csvFile, csvQuery, filesAtOnce, ID, pageJson, pageQuery, readPage } from "./page.ts"
import { described, field, integer, ofAct, oneOf, orNull, pageOf, text, time } from "../shapes.ts"
import { type Authenticate, isSeen, signedInBy, tooOften, withoutPath, clientInfoOf } from "./session.ts"

interface ActivityDeps {
  readonly events: AccountEventStore
  readonly authenticate: Authenticate
}

const Activity = Type.Object(
  {
    id: integer,
    at: time,
    action: described(
      text,
      field(
        "A word such as `session.started`, `key.created`, `key.paused` or `account.adjusted`; more may come.",
        "Kata seperti `session.started`, `key.created`, `key.paused`, atau `account.adjusted`; dapat bertambah.",
      ),
    ),
    actor: oneOf(
      ["owner", "member", "operator", "gateway", "token"],
      field(
        "Who did it: the account's own person, a member, an operator, nobody, or whoever had a management token.",
        "Siapa yang melakukannya: pemilik akun, anggota, operator, bukan siapa-siapa, atau pemegang token pengelola.",
      ),
    ),
    member: orNull(Type.Object({ id: text, email: text }), field("Which member it was.", "Anggota yang mana.")),
    token: orNull(text, field("The id of the management token that it was.", "Id token pengelola yang melakukannya.")),
    subject: orNull(
      text,
      field(
        "The id of the key, session, passkey, run, refund, invitation, member or management token that it was done to.",
        "Id kunci, sesi, passkey, run, pengembalian dana, undangan, anggota, atau token pengelola yang dikenai tindakan itu.",
      ),
    ),
    name: orNull(text, field("What that was called then.", "Namanya saat itu.")),
    address: orNull(text, field("Of a sign-in.", "Untuk masuk.")),
    user_agent: orNull(text, field("Of a sign-in.", "Untuk masuk.")),
    before: ofAct,
    after: ofAct,
    more: described(
      integer,
      field(
        "More of the same within the day: 300 of a kind have rows of their own.",
        "Jumlah yang sama dalam sehari: 300 per jenis punya baris sendiri.",
      ),
    ),
  },
  { $id: "Activity" },
)

/** For the account's owner: sign-ins, keys, settings, and what operators did. */
export const activityController = ({ events, authenticate }: ActivityDeps) => {
  const signedIn = signedInBy(authenticate)
  const files = filesAtOnce()
  return new Elysia({ name: "dashboard/activity" })
    .get(
      ...signedIn(
        "/account/activity",
        {
          may: "manage",
          tag: "Account",
          summary: {
            en: "What was done to the account, the newest first, for a year",
            id: "Apa yang dilakukan pada akun ini selama setahun, dari yang terbaru",
          },
          query: Type.Object(pageQuery),
          answer: pageOf(Activity),
        },
        async ({ session, query }) => {
          const page = readPage(query, [ID])
          if (page instanceof Failure) return page
          const [before] = page.after ?? []
          const rows = await events.list(session.accountId, {
            before: before === undefined ? undefined : BigInt(before),
            limit: page.limit + 1,
          })
          return pageJson(rows, page, { item: shownTo(session), placeOf: ({ id }) => [String(id)] })
        },
      ),
    )
    .get(
      ...signedIn(
        "/account/activity/export.csv",
        {
          may: "manage",
          tag: "Account",
          summary: { en: "What was done to the account, as CSV", id: "Apa yang dilakukan pada akun ini, sebagai CSV" },
          query: Type.Object(csvQuery),
          media: "text/csv",
        },
        async ({ session, query }) => {
          const onEnd = files(session.accountId)
          if (onEnd instanceof Failure) return onEnd
          return await csvFile<AccountEvent>({
            name: "loket-activity",
            columns,
            notation: query.lang,
            cells(row) {
              const { before, after, member, ...shown } = shownTo(session)(row)
              const cells = { ...shown, member: member?.email ?? "", before: jsonCell(before), after: jsonCell(after) }
              return columns.map((column) => String(cells[column] ?? ""))
            },
            read: ({ limit, after }) => events.list(session.accountId, { before: after?.id, limit }),
            onEnd,
          })
        },
      ),
    )
}

/** The name of a webhook is its address. */
const shownTo = (session: Session) => (row: AccountEvent) => {
  const activity = activityJson(row)
  const isSecret = isSeen(session) && activity.name !== null && row.action.startsWith("webhook.")
  return isSecret ? { ...activity, name: withoutPath(activity.name ?? "") } : activity
}

const columns = [
  "at",
  "action",
  "actor",
  "member",
  "token",
  "subject",
  "name",
  "address",
  "user_agent",
  "before",
  "after",
  "more",
] as const

const jsonCell = (value: unknown): string => (value === null ? "" : JSON.stringify(value))

const activityJson = ({
  at,
  id,
  subject,
  name,
  address,
  userAgent,
  member,
  token,
  ...row
}: AccountEvent): Static<typeof Activity> => ({
  id: Number(id),
  at: at.toISOString(),
  subject: subject ?? null,
  name: name ?? null,
  address: address ?? null,
  user_agent: userAgent ?? null,
  member: member ?? null,
  token: token ?? null,
  ...row,
})

interface ExportDeps {
  readonly accounts: Pick<Accounts, "confirm">
  readonly allowances: Pick<AllowanceStore, "take">
  readonly personalExport: (accountId: string) => AsyncGenerator<string>
  readonly authenticate: Authenticate
}

const DAY_S = 24 * 60 * 60
/** Of one account in a day: each reads its whole history. */
export const EXPORTS_A_DAY = 5

/** All that is known of an account, for whoever has its password. */
export const exportController = ({ accounts, allowances, personalExport, authenticate }: ExportDeps) =>
  new Elysia({ name: "dashboard/export" }).post(
    ...signedInBy(authenticate)(
      "/account/export",
      {
        may: "self",
        tag: "Account",
        summary: {
          en: "All that is known of the account, as one JSON file",
          id: "Semua yang diketahui tentang akun ini, dalam satu berkas JSON",
        },
        description: {
          en: `The account and its settings, sessions, networks, mails, keys without their secrets, top-ups, refunds, movements of the balance, and calls. At most ${EXPORTS_A_DAY} a day.`,
          id: `Akun dan pengaturannya, sesi, jaringan, e-mail, kunci tanpa rahasianya, isi saldo, pengembalian dana, perubahan saldo, dan panggilan. Paling banyak ${EXPORTS_A_DAY} kali sehari.`,
        },
        body: Type.Object({ password: SomePassword }),
        media: "application/json",
      },
      async ({ request, session, body }) => {
        const confirmed = await accounts.confirm(session, body.password, clientInfoOf(request))
        if (confirmed instanceof Failure) return confirmed
        const { accountId } = session
        const tooMany = await tooOften(
          allowances,
          { name: `export ${accountId}`, most: EXPORTS_A_DAY, seconds: DAY_S },
          (retryAfterS) => new Failure("rate_limit.export", { retryAfterS }),
        )
        if (tooMany !== undefined) return tooMany
        return new Response(streamed(personalExport(accountId)), {
          headers: {
            "content-type": "application/json",
            "content-disposition": 'attachment; filename="loket-account.json"',
            "cache-control": "no-store",
          },
        })
      },
    ),
  )

/** Reads on only when the client has taken what there is, and stops when it goes away. */
function streamed(pieces: AsyncGenerator<string>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await pieces.next()
      if (done === true) controller.close()
      else controller.enqueue(encoder.encode(value))
    },
    async cancel() {
      await pieces.return(undefined)
    },
  })
}
