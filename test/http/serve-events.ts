import { Elysia } from "elysia"
import { micro } from "../../actors/money/micro.ts"
import { Failure } from "../../src/failure/failure.ts"
import type { Outcome } from "../../src/http/changes.ts"
import { edgeHandler } from "../../src/http/edge.ts"
import { Events, eventsController } from "../../src/http/events.ts"
import { createLog } from "../../src/log.ts"
import { ownerSession } from "./dashboard/session.ts"

/** The controller alone, on a session that can end and with short times; of the account's own person, or of a member. */
export function serveEvents(lookMs = 20, member?: string) {
  const state = { signedIn: true, read: Promise.resolve(), reads: 0, looks: 0, isThere: true, accountId: "acc_1" }
  const events = new Events()
  const looksAt = { accountId: "acc_1", timeZone: "UTC", role: "viewer" as const, seenUntil: undefined }
  const session = () => (member === undefined ? ownerSession(state.accountId) : { ...ownerSession(member), looksAt })
  const account = {
    id: "acc_1",
    email: "a@example.com",
    emailProved: true,
    role: "customer" as const,
    operatorRole: undefined,
    timeZone: "Asia/Jakarta",
    language: "id" as const,
    lowBalanceEmail: undefined,
    lowBalanceThresholdMicro: undefined,
    budgetMails: false,
    frozen: false,
    agreed: undefined,
    createdAt: new Date(),
    balanceMicro: micro(5n),
    heldMicro: micro(0n),
    claimMicro: micro(0n),
    buyerName: undefined,
    buyerAddress: undefined,
    buyerNpwp: undefined,
  }
  const app = new Elysia().use(
    eventsController({
      events,
      accounts: {
        account: () => {
          state.reads++
          return state.read.then(() => (state.isThere ? account : new Failure("auth.unauthorized")))
        },
      },
      authenticate: Object.assign(
        () => {
          state.looks++
          return Promise.resolve(state.signedIn ? session() : new Failure("auth.unauthorized"))
        },
        {
          changes: { once: (_: unknown, work: (change: undefined) => Promise<Outcome | Failure>) => work(undefined) },
        },
      ),
      lookMs,
    }),
  )
  const handle = edgeHandler(app, { log: createLog("error", () => {}), now: Date.now })
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: (request) => handle(request, () => "") })
  return { state, events, server }
}
