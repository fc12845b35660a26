/**
 * `/account/statement`: every change of the balance in one month of the account's time zone, and the balance after each. Calls
 * are summed by day and key, of which `/usage` has each one; all else is a row of its own.
 */
import { type Static, Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { type Micro, micro, microToJson, minus, plus, zero, sumToJson } from "../../../actors/money/micro.ts"
import type { Accounts, Session } from "../../accounts/accounts.ts"
import { Failure } from "../../failure/failure.ts"
import type { Movement, MovementStore } from "../../store/movements.ts"
import type { UsageSum, UsageSumStore } from "../../store/usage-sums.ts"
import { csvAnswer, csvQuery, Rupiah } from "./page.ts"
import { refused } from "../route.ts"
import { described, field, flag, integer, micro as microShape, oneOf, orNull, text, time } from "../shapes.ts"
import { type Authenticate, signedInBy } from "./session.ts"
import { summaryQuestion } from "./usage-query.ts"

export interface StatementDeps {
  readonly accounts: Pick<Accounts, "account">
  readonly movements: MovementStore
  readonly sums: UsageSumStore
  readonly authenticate: Authenticate
  readonly now?: () => number
}

const MONTH = field("a month such as 2026-11", "bulan seperti 2026-11")
export const statementQuery = Type.Object({ month: Type.Optional(Type.String({ description: MONTH })) })

const kinds = [
  "top_up",
  "calls",
  "adjustment",
  "trial_credit",
  "refund",
  "refund_cancelled",
  "provider_refund",
  "chargeback",
  "claim",
  "other",
] as const
/** A month of more rows than this has its calls summed by the day alone. */
export const MAX_ROWS = 2_000

const Entry = Type.Object(
  {
    kind: oneOf(kinds),
    day: described(text, field("The day of the account's time zone.", "Hari menurut zona waktu akun.")),
    at: orNull(
      time,
      field("Null of calls, which are of the whole day.", "Null untuk panggilan, yang dijumlahkan sehari penuh."),
    ),
    amount_micro: described(microShape, field("Positive for what came.", "Positif untuk yang masuk.")),
    balance_micro: described(microShape, field("After it.", "Sesudahnya.")),
    claim_micro: described(
      microShape,
      field(
        "What it adds to the claim on the account; negative where `claim` settles some of it.",
        "Yang ditambahkannya pada tagihan kepada akun; negatif jika `claim` melunasi sebagian.",
      ),
    ),
    calls: orNull(integer),
    key_id: orNull(text),
    top_up_id: orNull(text),
    note: orNull(
      text,
      field(
        "Of an adjustment or a refund, what was written to it.",
        "Untuk penyesuaian atau pengembalian dana: catatannya.",
      ),
    ),
  },
  { $id: "StatementEntry" },
)
type Entry = Static<typeof Entry>
export type StatementEntry = Entry

const Statement = Type.Object(
  {
    month: text,
    time_zone: text,
    from: time,
    to: time,
    first_month: described(text, field("That of the account's first day.", "Bulan dari hari pertama akun.")),
    opening_micro: microShape,
    in_micro: described(microShape, field("All that came.", "Semua yang masuk.")),
    out_micro: described(
      microShape,
      field("All that went, as a positive number.", "Semua yang keluar, sebagai bilangan positif."),
    ),
    closing_micro: described(microShape, field("At the month's end, or now.", "Pada akhir bulan, atau sekarang.")),
    claim_micro: described(
      microShape,
      field(
        "What is claimed of the account at the month's end, or now.",
        "Tagihan kepada akun pada akhir bulan, atau sekarang.",
      ),
    ),
    by_key: described(
      flag,
      field(
        "False where calls are summed by the day alone, because there would be too many rows.",
        "False jika panggilan hanya dijumlahkan per hari, karena barisnya akan terlalu banyak.",
      ),
    ),
    entries: Type.Array(Entry, { description: field("The newest first.", "Yang terbaru dulu.") }),
  },
  { $id: "Statement" },
)

export const statementController = (deps: StatementDeps) => {
  const signedIn = signedInBy(deps.authenticate)
  return new Elysia({ name: "dashboard/statement" })
    .get(
      ...signedIn(
        "/account/statement",
        {
          may: "books",
          tag: "Account",
          summary: {
            en: "Every change of the balance in one month, the current one by default",
            id: "Setiap perubahan saldo dalam satu bulan, bulan berjalan jika tidak disebut",
          },
          description: {
            en: "Calls count in the day in which they began, as everywhere in `/usage`.",
            id: "Panggilan dihitung pada hari mulainya, seperti di seluruh `/usage`.",
          },
          query: statementQuery,
          answer: Statement,
        },
        ({ session, query }) => statement(deps, session, query.month),
      ),
    )
    .get(
      ...signedIn(
        "/account/statement.csv",
        {
          may: "books",
          tag: "Account",
          summary: { en: "The same as CSV", id: "Yang sama sebagai CSV" },
          query: Type.Object({ ...statementQuery.properties, ...csvQuery }),
          media: "text/csv",
        },
        async ({ session, query }) => {
          const month = await statement(deps, session, query.month)
          if (month instanceof Failure) return month
          return csvAnswer({ name: `loket-statement-${month.month}`, rows: rowsOf(month), notation: query.lang })
        },
      ),
    )
}

export async function statement(
  { accounts, movements, sums, now = Date.now }: StatementDeps,
  session: Session,
  asked: string | undefined,
): Promise<Static<typeof Statement> | Failure> {
  const { accountId, timeZone } = session
  const month = monthOf(asked, timeZone, now())
  if (month instanceof Failure) return month
  const from = new Date(startOf(month, timeZone))
  const to = new Date(startOf(month.add({ months: 1 }), timeZone))
  const question = summaryQuestion(
    session,
    { from: from.toISOString(), to: to.toISOString(), group_by: "day", split_by: "key" },
    now(),
  )
  if (question instanceof Failure) return question
  const [account, moved, before, byKey] = await Promise.all([
    accounts.account(session),
    movements.within({ accountId, from, to }),
    sums.total({ accountId, from: new Date(0), to: from, timeZone }),
    sums.summarise(question, MAX_ROWS + 1),
  ])
  if (account instanceof Failure) return account
  const isShort = byKey.length <= MAX_ROWS
  const calls = isShort ? byKey : await sums.summarise({ ...question, splitBy: undefined })
  const opening = minus(moved.beforeMicro, before.chargeMicro)
  const entries = entriesOf(opening, moved.list, calls, timeZone)
  const amounts = entries.map(({ amount_micro: amount }) => amount)
  return {
    month: month.toString(),
    time_zone: timeZone,
    from: from.toISOString(),
    to: to.toISOString(),
    first_month: dayIn(account.createdAt, timeZone).slice(0, 7),
    opening_micro: sumToJson(opening),
    in_micro: amounts.reduce((sum, amount) => sum + Math.max(0, amount), 0),
    out_micro: amounts.reduce((sum, amount) => sum + Math.max(0, -amount), 0),
    closing_micro: entries.at(-1)?.balance_micro ?? sumToJson(opening),
    claim_micro: sumToJson(moved.list.reduce((sum, { claimMicro }) => plus(sum, claimMicro), moved.claimBeforeMicro)),
    by_key: isShort,
    entries: entries.toReversed(),
  }
}

/** From the oldest: of each day first what moved by itself, and at its end the calls. */
function entriesOf(
  opening: Micro,
  moved: readonly Movement[],
  calls: readonly UsageSum[],
  timeZone: string,
): readonly Entry[] {
  let balance = opening
  const after = (amount: Micro) => {
    balance = plus(balance, amount)
    return { amount_micro: microToJson(amount), balance_micro: sumToJson(balance) }
  }
  const movedBy = Map.groupBy(moved, ({ at }) => dayIn(at, timeZone))
  const callsBy = Map.groupBy(
    calls.filter(({ chargeMicro }) => chargeMicro !== 0n),
    ({ group }) => group,
  )
  const days = [...new Set([...movedBy.keys(), ...callsBy.keys()])].toSorted()
  return days.flatMap((day) => [
    ...(movedBy.get(day) ?? []).map((movement) => ({
      kind: kinds.find((kind) => kind === movement.reason) ?? ("other" as const),
      day,
      at: movement.at.toISOString(),
      ...after(movement.amountMicro),
      claim_micro: microToJson(movement.claimMicro),
      calls: null,
      key_id: null,
      top_up_id: movement.topUpId ?? null,
      note: movement.note ?? null,
    })),
    ...(callsBy.get(day) ?? []).map((sum) => ({
      kind: "calls" as const,
      day,
      at: null,
      ...after(minus(zero, sum.chargeMicro)),
      claim_micro: 0,
      calls: sum.requests,
      key_id: sum.split ?? null,
      top_up_id: null,
      note: null,
    })),
  ])
}

const rowsOf = ({ entries }: Static<typeof Statement>) => [
  ["day", "time", "kind", "amount_rp", "balance_rp", "calls", "key_id", "top_up_id", "note", "claim_rp"],
  ...entries
    .toReversed()
    .map((entry) => [
      entry.day,
      entry.at ?? "",
      entry.kind,
      rupiahOf(entry.amount_micro),
      rupiahOf(entry.balance_micro),
      entry.calls ?? "",
      entry.key_id ?? "",
      entry.top_up_id ?? "",
      entry.note ?? "",
      rupiahOf(entry.claim_micro),
    ]),
]

const rupiahOf = (amount: number) => new Rupiah(micro(BigInt(amount)))

function monthOf(asked: string | undefined, timeZone: string, now: number): Temporal.PlainYearMonth | Failure {
  const current = Temporal.Instant.fromEpochMilliseconds(now).toZonedDateTimeISO(timeZone).toPlainDate()
  if (asked === undefined) return current.toPlainYearMonth()
  return /^(?:19[7-9]\d|[2-9]\d{3})-(?:0[1-9]|1[0-2])$/.test(asked)
    ? Temporal.PlainYearMonth.from(asked)
    : refused("month", MONTH)
}

const startOf = (month: Temporal.PlainYearMonth, timeZone: string): number =>
  month.toPlainDate({ day: 1 }).toZonedDateTime(timeZone).epochMilliseconds

const dayIn = (at: Date, timeZone: string): string =>
  Temporal.Instant.fromEpochMilliseconds(at.getTime()).toZonedDateTimeISO(timeZone).toPlainDate().toString()
