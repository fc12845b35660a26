/** `/account/activity`: what was done to the account, for its owner: sign-ins, keys, settings, and what operators did. */
import { type Static, Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { Failure } from "../../failure/failure.ts"
import type { AccountEvent, AccountEventStore } from "../../store/account-events.ts"
import { csvLine } from "../csv.ts"
import { described, integer, oneOf, orNull, pageOf, text, time } from "../shapes.ts"
import { ID, pageJson, pageQuery, readPage } from "./page.ts"
import { type Authenticate, signedInBy } from "./session.ts"

export interface ActivityDeps {
  readonly events: AccountEventStore
  readonly authenticate: Authenticate
}

const Anything = Type.Unknown({ description: "JSON of the action's own; null where there was or is nothing." })
const Activity = Type.Object(
  {
    id: integer,
    at: time,
    action: described(
      text,
      "A word such as `session.started`, `key.created`, `key.paused` or `account.adjusted`; more may come.",
    ),
    actor: oneOf(
      ["owner", "member", "operator", "gateway", "token"],
      "Who did it: the account's own person, a member, an operator, nobody, or whoever had a management token.",
    ),
    member: orNull(Type.Object({ id: text, email: text }), "Which member it was."),
    token: orNull(text, "The id of the management token that it was."),
    subject: orNull(
      text,
      "The id of the key, session, passkey, run, refund, invitation, member or management token that it was done to.",
    ),
    name: orNull(text, "What that was called then."),
    address: orNull(text, "Of a sign-in."),
    user_agent: orNull(text, "Of a sign-in."),
    before: Anything,
    after: Anything,
    more: described(integer, "More of the same within the day: 300 of a kind have rows of their own."),
  },
  { $id: "Activity" },
)

const MOST_IN_A_FILE = 20_000

export const activityController = ({ events, authenticate }: ActivityDeps) => {
  const signedIn = signedInBy(authenticate)
  return new Elysia({ name: "dashboard/activity" })
    .get(
      ...signedIn(
        "/account/activity",
        {
          may: "manage",
          tag: "Account",
          summary: "What was done to the account, the newest first, for a year",
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
          return pageJson(rows, page, { item: activityJson, placeOf: ({ id }) => [String(id)] })
        },
      ),
    )
    .get(
      ...signedIn(
        "/account/activity/export.csv",
        { may: "manage", tag: "Account", summary: "What was done to the account, as CSV", media: "text/csv" },
        async ({ session }) => {
          const rows = await events.list(session.accountId, { before: undefined, limit: MOST_IN_A_FILE })
          const lines = rows.map((row) => {
            const { before, after, member, ...shown } = activityJson(row)
            const cells = { ...shown, member: member?.email ?? "", before: jsonCell(before), after: jsonCell(after) }
            return csvLine(columns.map((column) => String(cells[column] ?? "")))
          })
          return new Response(csvLine(columns) + lines.join(""), {
            headers: {
              "content-type": "text/csv; charset=utf-8",
              "content-disposition": 'attachment; filename="loket-activity.csv"',
              "cache-control": "no-store",
            },
          })
        },
      ),
    )
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
