/** `/account`: the signed-in person's own account, its summary, and where it is signed in (decisions §10). */
import { type Static, type TSchema, Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { type Micro, micro, microToJson } from "../../../actors/money/micro.ts"
import { calendarAt } from "../../../actors/period.ts"
import type { Accounts, Session } from "../../accounts/accounts.ts"
import { Email, SomePassword, TimeZone } from "../../accounts/fields.ts"
import { Failure } from "../../failure/failure.ts"
import { present } from "../../language/json.ts"
import type { AccountChange } from "../../store/account-settings.ts"
import type { Account } from "../../store/accounts.ts"
import type { SessionRecord } from "../../store/sessions.ts"
import type { UsageSumStore } from "../../store/usage-sums.ts"
import { described, flag, integer, listOf, micro as microShape, oneOf, orNull, text, time } from "../shapes.ts"
import { type Authenticate, sessionCookie, signedInBy, whereabouts } from "./session.ts"

export interface AccountDeps {
  readonly accounts: Accounts
  readonly sums: UsageSumStore
  readonly authenticate: Authenticate
  readonly now?: () => number
}

export const accountShape = Type.Object(
  {
    id: text,
    email: text,
    role: oneOf(["customer", "operator"], "Operators also have the routes of `/operator`."),
    balance_micro: microShape,
    held_micro: described(microShape, "Held for calls under way; what can be spent is the difference."),
    time_zone: text,
    language: oneOf(["id", "en"]),
    low_balance_email: orNull(text),
    low_balance_threshold_micro: orNull(microShape, "A mail is sent when the balance falls below it."),
    frozen: described(flag, "Its keys are refused until an operator has looked at it."),
    created_at: time,
  },
  { $id: "Account" },
)

/** Null leaves a time zone and a language as they are, and takes the rest away. */
const changeable = <T extends TSchema>(schema: T) => Type.Optional(orNull(schema, `${schema.description}, or null`))
const Change = Type.Object({
  time_zone: changeable(TimeZone),
  language: changeable(oneOf(["id", "en"], "'id' or 'en'")),
  low_balance_email: changeable(Email),
  low_balance_threshold_micro: changeable(
    Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: "an integer of micro-rupiah, 0 or more",
    }),
  ),
})

const Summary = Type.Object(
  {
    balance_micro: microShape,
    held_micro: microShape,
    spent_today_micro: described(microShape, "Since midnight of the account's time zone."),
    spent_month_micro: microShape,
    calls_today: integer,
    days_left: orNull(Type.Number(), "At the pace of the last seven days; null when nothing was spent."),
    first_steps: Type.Object({ topped_up: flag, key_made: flag, call_made: flag }),
  },
  { $id: "Summary" },
)

const SessionShape = Type.Object(
  {
    id: text,
    created_at: time,
    last_seen_at: described(time, "Right to a minute."),
    expires_at: time,
    user_agent: text,
    address: text,
    current: described(flag, "Whether it is the one that asks."),
  },
  { $id: "Session" },
)

const SESSION_ID = /^ses_[A-Za-z0-9_-]{1,40}$/
const DAY_MS = 24 * 60 * 60 * 1000
/** What the pace is taken from. */
const PACE_DAYS = 7

export const accountController = ({ accounts, sums, authenticate, now = Date.now }: AccountDeps) => {
  const signedIn = signedInBy(authenticate)
  return new Elysia({ name: "dashboard/account" })
    .get(
      ...signedIn(
        "/account",
        { tag: "Account", summary: "The account and its balance", answer: accountShape },
        async ({ session }) => shown(await accounts.account(session)),
      ),
    )
    .patch(
      ...signedIn(
        "/account",
        {
          tag: "Account",
          summary: "Change the time zone, in which budgets and days begin, the language, and the mail of a low balance",
          body: Change,
          answer: accountShape,
        },
        async ({ session, body }) => shown(await accounts.change(session, toChange(body))),
      ),
    )
    .delete(
      ...signedIn(
        "/account",
        {
          tag: "Account",
          summary: "Delete the account; its keys answer 403 from then on",
          body: Type.Object({ password: SomePassword }),
          status: 204,
        },
        async ({ request, session, body, set }) => {
          const deleted = await accounts.delete(session, body.password, whereabouts(request))
          if (deleted instanceof Failure) return deleted
          set.headers["set-cookie"] = sessionCookie(request, "")
          return undefined
        },
      ),
    )
    .get(
      ...signedIn(
        "/account/summary",
        {
          tag: "Account",
          summary: "The balance, what was spent of it, and for how long it lasts",
          answer: Summary,
        },
        ({ session }) => summaryOf(session, { accounts, sums }, now()),
      ),
    )
    .get(
      ...signedIn(
        "/account/sessions",
        { tag: "Account", summary: "Where the account is signed in", answer: listOf(SessionShape) },
        async ({ session }) => ({
          data: (await accounts.sessions(session)).map((each) => sessionJson(each, session.id)),
        }),
      ),
    )
    .delete(
      ...signedIn(
        "/account/sessions",
        { tag: "Account", summary: "End all other sessions", status: 204 },
        async ({ session }) => {
          await accounts.endOtherSessions(session)
          return undefined
        },
      ),
    )
    .delete(
      ...signedIn(
        "/account/sessions/:id",
        { tag: "Account", summary: "End one session", status: 204 },
        async ({ session, params }) => {
          if (!SESSION_ID.test(params.id)) return new Failure("resource.not_found")
          const ended = await accounts.endSession(session, params.id)
          return ended instanceof Failure ? ended : undefined
        },
      ),
    )
}

async function summaryOf(session: Session, { accounts, sums }: Pick<AccountDeps, "accounts" | "sums">, at: number) {
  const { accountId, timeZone } = session
  const { starts } = calendarAt(at, timeZone)
  // A clock of another machine may be a little ahead of this one's.
  const to = new Date(at + DAY_MS)
  const since = (from: number) => sums.total({ accountId, timeZone, from: new Date(from), to })
  const [account, today, month, lately, steps] = await Promise.all([
    accounts.account(session),
    since(starts.daily),
    since(starts.monthly),
    since(at - PACE_DAYS * DAY_MS),
    accounts.firstSteps(session),
  ])
  if (account instanceof Failure) return account
  return {
    balance_micro: microToJson(account.balanceMicro),
    held_micro: microToJson(account.heldMicro),
    spent_today_micro: microToJson(today.chargeMicro),
    spent_month_micro: microToJson(month.chargeMicro),
    calls_today: today.requests,
    days_left: daysLeft(account.balanceMicro, lately.chargeMicro, at - account.createdAt.getTime()),
    first_steps: { topped_up: steps.toppedUp, key_made: steps.keyMade, call_made: steps.callMade },
  }
}

/**
 * For how many days the balance lasts, to a tenth, when what was spent in the last seven days goes on; null when nothing was.
 * A younger account's pace is over its own days, one at least.
 */
export function daysLeft(balance: Micro, spent: Micro, ageMs: number): number | null {
  if (spent <= 0n) return null
  const days = Math.min(PACE_DAYS, Math.max(1, ageMs / DAY_MS))
  return Math.max(0, Math.round(((10 * Number(balance)) / Number(spent)) * days) / 10)
}

const toChange = (change: Static<typeof Change>): AccountChange => ({
  timeZone: change.time_zone ?? undefined,
  language: change.language ?? undefined,
  lowBalanceEmail: change.low_balance_email,
  lowBalanceThresholdMicro: present(change.low_balance_threshold_micro)
    ? micro(BigInt(change.low_balance_threshold_micro))
    : change.low_balance_threshold_micro,
})

const shown = (account: Account | Failure) => (account instanceof Failure ? account : accountJson(account))

export const accountJson = (account: Account): Static<typeof accountShape> => ({
  id: account.id,
  email: account.email,
  role: account.role,
  balance_micro: microToJson(account.balanceMicro),
  held_micro: microToJson(account.heldMicro),
  time_zone: account.timeZone,
  language: account.language,
  low_balance_email: account.lowBalanceEmail ?? null,
  low_balance_threshold_micro:
    account.lowBalanceThresholdMicro === undefined ? null : microToJson(account.lowBalanceThresholdMicro),
  frozen: account.frozen,
  created_at: account.createdAt.toISOString(),
})

const sessionJson = (session: SessionRecord, current: string) => ({
  id: session.id,
  created_at: session.createdAt.toISOString(),
  last_seen_at: session.lastSeenAt.toISOString(),
  expires_at: session.expiresAt.toISOString(),
  user_agent: session.userAgent,
  address: session.address,
  current: session.id === current,
})
