/** `/account`: the signed-in person's own account, and its summary (decisions §10). */
import { type Static, type TSchema, Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { type Micro, micro, sumToJson } from "../../../actors/money/micro.ts"
import { calendarAt } from "../../../actors/period.ts"
import type { Accounts, Session } from "../../accounts/accounts.ts"
import {
  agreeable,
  AgreedVersion,
  BuyerAddress,
  BuyerName,
  Email,
  Npwp,
  SomePassword,
  knownTimeZone,
  TimeZone,
} from "../../accounts/fields.ts"
import { mayDo, type Permission, permissions, refusalOf } from "../../accounts/members.ts"
import { Failure } from "../../failure/failure.ts"
import { present } from "../../language/json.ts"
import type { AccountChange } from "../../store/account-settings.ts"
import type { AllowanceStore } from "../../store/allowances.ts"
import type { UsageSumStore } from "../../store/usage-sums.ts"
import { refused } from "../route.ts"
import { accountJson, accountShape, shown } from "./account-json.ts"
import { described, exactly, field, fieldAnd, flag, integer, micro as microShape, oneOf, orNull } from "../shapes.ts"
import { type Authenticate, sessionCookie, signedInBy, clientInfoOf, tooOften } from "./session.ts"

export interface AccountDeps {
  readonly accounts: Accounts
  readonly sums: UsageSumStore
  readonly allowances: Pick<AllowanceStore, "take">
  readonly authenticate: Authenticate
  readonly legalVersion: string
  readonly now?: () => number
}

/** What a member's role must allow to change each. The language is always that of whoever is signed in. */
const mayChange: Readonly<Record<keyof Static<typeof Change>, Permission>> = {
  time_zone: "manage",
  language: "read",
  low_balance_email: "pay",
  low_balance_threshold_micro: "pay",
  budget_mails: "pay",
  buyer_name: "pay",
  buyer_address: "pay",
  buyer_npwp: "pay",
}

/** Null leaves a time zone, a language and `budget_mails` as they are, and takes the rest away. */
const changeable = <T extends TSchema>(schema: T) =>
  Type.Optional(orNull(schema, fieldAnd(schema.description, { en: ", or null", id: ", atau null" })))
const Change = exactly({
  time_zone: changeable(TimeZone),
  language: changeable(oneOf(["id", "en"], field("'id' or 'en'", "'id' atau 'en'"))),
  low_balance_email: changeable(Email),
  low_balance_threshold_micro: changeable(
    Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: field("an integer of micro-rupiah, 0 or more", "bilangan bulat mikro-rupiah, 0 atau lebih"),
    }),
  ),
  budget_mails: changeable(Type.Boolean({ description: field("true or false", "true atau false") })),
  buyer_name: changeable(BuyerName),
  buyer_address: changeable(BuyerAddress),
  buyer_npwp: changeable(Npwp),
})

const Summary = Type.Object(
  {
    balance_micro: microShape,
    held_micro: microShape,
    spent_today_micro: described(
      microShape,
      field("Since midnight of the account's time zone.", "Sejak tengah malam zona waktu akun."),
    ),
    spent_month_micro: microShape,
    calls_today: integer,
    days_left: orNull(
      Type.Number(),
      field(
        "At the pace of the last seven days; null when nothing was spent.",
        "Menurut laju tujuh hari terakhir; null jika tidak ada yang dipakai.",
      ),
    ),
    first_steps: Type.Object({ topped_up: flag, key_made: flag, call_made: flag }),
  },
  { $id: "Summary" },
)

const DAY_MS = 24 * 60 * 60 * 1000
/** What the pace is taken from. */
const PACE_DAYS = 7
/** Of one account: each carries the running periods of all its keys over, of which there may be thousands. */
const ZONES_A_DAY = 50

export const accountController = (deps: AccountDeps) => {
  const { accounts, sums, authenticate, legalVersion, now = Date.now } = deps
  const signedIn = signedInBy(authenticate)
  return new Elysia({ name: "dashboard/account" })
    .get(
      ...signedIn(
        "/account",
        {
          may: "read",
          tag: "Account",
          summary: { en: "The account and its balance", id: "Akun dan saldonya" },
          answer: accountShape,
        },
        ({ session }) => accountOf(session, accounts),
      ),
    )
    .patch(
      ...signedIn(
        "/account",
        {
          may: "read",
          tag: "Account",
          summary: {
            en: "Change the time zone, in which budgets and days begin, the language, the mail of a low balance, and to whom receipts are made out",
            id: "Ubah zona waktu (awal hari dan awal anggaran), bahasa, e-mail saldo rendah, dan nama penerima kuitansi",
          },
          description: {
            en: `The time zone changes at most ${ZONES_A_DAY} times a day; beyond, 429 \`gateway.capacity\`.`,
            id: `Zona waktu berubah paling banyak ${ZONES_A_DAY} kali sehari; selebihnya 429 \`gateway.capacity\`.`,
          },
          body: Change,
          answer: accountShape,
        },
        async ({ session, body }) => {
          for (const [field, permission] of Object.entries(mayChange)) {
            const refusal = field in body ? refusalOf(session.memberRole, permission) : undefined
            if (refusal !== undefined) return refusal
          }
          const tooOften = present(body.time_zone) ? await zoneRefusal(session, body.time_zone, deps) : undefined
          if (tooOften !== undefined) return tooOften
          const { language, ...change } = toChange(body)
          const own = { ...session, accountId: session.personId }
          const changed = [
            () => accounts.change(session, change),
            ...(language === undefined ? [] : [() => accounts.change(own, { language })]),
          ]
          for (const make of changed) {
            const made = await make()
            if (made instanceof Failure) return made
          }
          return await accountOf(session, accounts)
        },
      ),
    )
    .post(
      ...signedIn(
        "/account/agreement",
        {
          may: "self",
          tag: "Account",
          summary: {
            en: "Agree to the terms, privacy and refund texts that are in force",
            id: "Setujui ketentuan, kebijakan privasi, dan ketentuan pengembalian dana yang berlaku",
          },
          body: Type.Object({ version: AgreedVersion }),
          answer: accountShape,
        },
        async ({ session, body }) =>
          body.version === legalVersion
            ? shown(await accounts.agree(session, body.version))
            : refused("version", agreeable),
      ),
    )
    .delete(
      ...signedIn(
        "/account",
        {
          may: "self",
          tag: "Account",
          summary: {
            en: "Delete the account; its keys answer 403 from then on",
            id: "Hapus akun; sejak itu kuncinya dijawab 403",
          },
          body: Type.Object({ password: SomePassword }),
          status: 204,
        },
        async ({ request, session, body, set }) => {
          const deleted = await accounts.delete(session, body.password, clientInfoOf(request))
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
          may: "read",
          tag: "Account",
          summary: {
            en: "The balance, what was spent of it, and for how long it lasts",
            id: "Saldo, berapa yang sudah dipakai, dan cukup untuk berapa lama",
          },
          answer: Summary,
        },
        ({ session }) => summaryOf(session, { accounts, sums }, now()),
      ),
    )
}

/** One that is none is refused later, and counts for nothing. */
async function zoneRefusal({ accountId }: Session, zone: TimeZone, { allowances }: Pick<AccountDeps, "allowances">) {
  if (!knownTimeZone(zone)) return undefined
  const allowed = { name: `time zone of ${accountId}`, most: ZONES_A_DAY, seconds: DAY_MS / 1_000 }
  const message = `An account changes its time zone at most ${ZONES_A_DAY} times a day.`
  return await tooOften(allowances, allowed, (retryAfterS) => new Failure("gateway.capacity", { message, retryAfterS }))
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
    balance_micro: sumToJson(account.balanceMicro),
    held_micro: sumToJson(account.heldMicro),
    spent_today_micro: sumToJson(today.chargeMicro),
    spent_month_micro: sumToJson(month.chargeMicro),
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
  budgetMails: change.budget_mails ?? undefined,
  buyerName: change.buyer_name,
  buyerAddress: change.buyer_address,
  buyerNpwp: change.buyer_npwp?.replaceAll(/\D/g, "") ?? change.buyer_npwp,
  lowBalanceThresholdMicro: present(change.low_balance_threshold_micro)
    ? micro(BigInt(change.low_balance_threshold_micro))
    : change.low_balance_threshold_micro,
})

/** The account that a session is about, as whoever is signed in may see it. */
async function accountOf(session: Session, accounts: Accounts): Promise<Static<typeof accountShape> | Failure> {
  const account = await accounts.account(session)
  if (account instanceof Failure || session.accountId === session.personId) return shown(account)
  const person = await accounts.account({ accountId: session.personId })
  if (person instanceof Failure) return person
  const { id, email, language } = person
  const seenUntil = session.looksAt?.seenUntil
  // What the customer sees; who it is that looks, and until when, is said beside it.
  if (seenUntil !== undefined)
    return { ...accountJson(account), signed_in: { id, email, language }, seen: { until: seenUntil.toISOString() } }
  return {
    ...accountJson(account),
    role: person.role,
    operator_role: person.operatorRole ?? null,
    member_role: session.memberRole,
    may: permissions.filter((permission) => mayDo(session.memberRole, permission)),
    signed_in: { id, email, language },
    ...(!mayDo(session.memberRole, "books") && { low_balance_email: null, ...noBuyer }),
  }
}

const noBuyer = { buyer_name: null, buyer_address: null, buyer_npwp: null }
