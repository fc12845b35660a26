/** `GET /account/summary`: the first page of the dashboard in one answer. */
import { Elysia } from "elysia"
import { type Micro, microToJson } from "../../../actors/money/micro.ts"
import { calendarAt } from "../../../actors/period.ts"
import type { Accounts } from "../../accounts/accounts.ts"
import { Failure } from "../../failure/failure.ts"
import type { UsageSumStore } from "../../store/usage-sums.ts"
import type { Authenticate } from "./session.ts"

export interface SummaryDeps {
  readonly accounts: Accounts
  readonly sums: UsageSumStore
  readonly authenticate: Authenticate
  readonly now?: () => number
}

const DAY_MS = 24 * 60 * 60 * 1000
/** What the pace is taken from. */
const PACE_DAYS = 7

export const summaryController = ({ accounts, sums, authenticate, now = Date.now }: SummaryDeps) =>
  new Elysia({ name: "dashboard/summary" }).get("/account/summary", async ({ request }) => {
    const session = await authenticate(request)
    if (session instanceof Failure) return session
    const { accountId, timeZone } = session
    const at = now()
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
  })

/**
 * For how many days the balance lasts, to a tenth, when what was spent in the last seven days goes on; null when nothing was.
 * A younger account's pace is over its own days, one at least.
 */
export function daysLeft(balance: Micro, spent: Micro, ageMs: number): number | null {
  if (spent <= 0n) return null
  const days = Math.min(PACE_DAYS, Math.max(1, ageMs / DAY_MS))
  return Math.max(0, Math.round(((10 * Number(balance)) / Number(spent)) * days) / 10)
}
