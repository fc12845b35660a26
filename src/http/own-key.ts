/**
 * What an API key may ask and do about itself: what is left of its limits and of its account's balance, its own calls' records, and its own
 * run.
 */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { minus, notNegative, sumToJson } from "../../actors/money/micro.ts"
import { calendarAt } from "../../actors/period.ts"
import type { Accounts } from "../accounts/accounts.ts"
import type { Keys } from "../accounts/keys.ts"
import { Failure } from "../failure/failure.ts"
import { authenticate, type Caller, currentRateHeaders } from "../gateway/authenticate.ts"
import type { GatewayPorts } from "../gateway/ports.ts"
import { RUN_NAME, runIdOf } from "../gateway/runs.ts"
import type { KeptRun } from "../store/runs.ts"
import type { UsageSumStore } from "../store/usage-sums.ts"
import type { UsageStore } from "../store/usage.ts"
import { keyUsage, usageJson } from "./dashboard/key-json.ts"
import { endRun, ENDING, receiptOf, RUN_ID, runReceipt, type RunsDeps } from "./dashboard/runs.ts"
import { inTurn } from "./dashboard/session.ts"
import { usageDetail } from "./dashboard/usage-rows.ts"
import { callOf } from "./dashboard/usage.ts"
import { contextOf, edge } from "./edge.ts"
import { documented } from "./route.ts"
import { described, field, micro, text, together } from "./shapes.ts"

interface BalanceDeps {
  readonly ports: Pick<GatewayPorts, "actors" | "clock">
  readonly accounts: Accounts
  readonly keys: Keys
  readonly sums: UsageSumStore
}

const Balance = Type.Object(
  {
    object: Type.Literal("balance"),
    balance_micro: micro,
    held_micro: described(
      micro,
      field(
        "Held for calls under way, of all keys.",
        "Ditahan untuk panggilan yang sedang berjalan, dari semua kunci.",
      ),
    ),
    available_micro: described(
      micro,
      field(
        "What can be spent: the balance without what is held.",
        "Yang dapat dipakai: saldo dikurangi yang ditahan.",
      ),
    ),
    spent_today_micro: described(
      micro,
      field("Of the account, since midnight of its time zone.", "Oleh akun, sejak tengah malam zona waktunya."),
    ),
    spent_month_micro: micro,
    key: Type.Object({ id: text, name: text, usage: keyUsage }),
  },
  { $id: "Balance" },
)

interface Context {
  readonly request: Request
  readonly set: { headers: object }
}

/** Answers a key's holder when it is the key's turn, and says in headers what is left of the key's limits. */
async function answered(
  { ports: { actors } }: Pick<BalanceDeps, "ports">,
  { request, set }: Context,
  answerOf: (caller: Caller) => Promise<object | Failure>,
): Promise<object | Failure> {
  const origin = contextOf(request)
  const caller = await authenticate(actors, request.headers, origin)
  if (caller instanceof Failure) return caller
  const { accountId, keyId } = caller.record
  const answer = await inTurn({ accountId, id: keyId }, request, async () => {
    // Whoever had to wait may have been revoked meanwhile.
    const still = await authenticate(actors, request.headers, origin, false)
    return still instanceof Failure ? still : await answerOf(still)
  })
  const headers = await currentRateHeaders(actors, caller.keyHash)
  if (answer instanceof Failure) return answer.withHeaders(headers)
  Object.assign(set.headers, headers, { "cache-control": "no-store" })
  return answer
}

/** Keys without a limit of requests may ask without end; of those that ask the same at once the database is asked once. */
class Asked {
  readonly #pending = new Map<string, Promise<object | Failure>>()

  once(what: string, ask: () => Promise<object | Failure>): Promise<object | Failure> {
    const pending = this.#pending.get(what) ?? ask().finally(() => this.#pending.delete(what))
    this.#pending.set(what, pending)
    return pending
  }
}

/** Micro-rupiah. An owner can turn it off for a key that others hold. */
export const balanceController = (deps: BalanceDeps) => {
  const asked = new Asked()
  return new Elysia({ name: "balance" }).use(edge).get(
    "/v1/balance",
    ({ request, set }) =>
      answered(deps, { request, set }, (caller) => asked.once(caller.keyHash, () => balanceOf(caller, deps))),
    documented("key", {
      tag: "Usage",
      summary: { en: "What is left of the balance and of the key's limits", id: "Sisa saldo dan sisa batas kunci" },
      description: {
        en: "Free, and one request of the key's window. 403 `auth.key_not_allowed` for a child of a key, and where the key's owner has turned it off (`shows_balance`).",
        id: "Gratis, dan dihitung satu permintaan di jendela kunci. 403 `auth.key_not_allowed` untuk kunci anak, dan jika pemilik kunci mematikannya (`shows_balance`).",
      },
      answer: Balance,
    }),
  )
}

async function balanceOf({ record }: Caller, { accounts, keys, sums, ports }: BalanceDeps): Promise<object | Failure> {
  const { accountId, keyId, timeZone } = record
  const key = await keys.read({ accountId, keyId })
  if (key === undefined) return new Failure("auth.api_key_invalid")
  if (key.parentId !== undefined || !key.showsBalance) {
    const message =
      key.parentId === undefined
        ? "The key's owner has turned off asking for the balance with it."
        : "The key is a child of another, and is told nothing of the account's balance."
    return new Failure("auth.key_not_allowed", { message })
  }
  const now = ports.clock.now()
  const { starts } = calendarAt(now, timeZone)
  const since = (from: number) => sums.total({ accountId, timeZone, from: new Date(from), to: new Date(now + DAY_MS) })
  const [account, today, month, view] = await Promise.all([
    accounts.account({ accountId }),
    since(starts.daily),
    since(starts.monthly),
    keys.live(key.keyHash),
  ])
  if (account instanceof Failure) return new Failure("auth.account_deleted")
  const { balanceMicro, heldMicro } = account
  return {
    object: "balance",
    balance_micro: sumToJson(balanceMicro),
    held_micro: sumToJson(heldMicro),
    available_micro: sumToJson(notNegative(minus(balanceMicro, heldMicro))),
    spent_today_micro: sumToJson(today.chargeMicro),
    spent_month_micro: sumToJson(month.chargeMicro),
    key: { id: key.id, name: key.name, usage: usageJson(key, view) },
  }
}

/** A clock of another machine may be a little ahead of this one's. */
const DAY_MS = 24 * 60 * 60 * 1000

interface RecordDeps {
  readonly ports: Pick<GatewayPorts, "actors" | "clock">
  readonly usage: UsageStore
}

/** Also where the key may not see the balance: what its calls cost their heads tell it anyway. */
export const recordController = (deps: RecordDeps) => {
  const asked = new Asked()
  return new Elysia({ name: "record" }).use(edge).get(
    "/v1/usage/:request_id",
    ({ request, set, params }) =>
      answered(deps, { request, set }, (caller) =>
        asked.once(`${caller.keyHash} ${params.request_id}`, () => recordOf(caller, params.request_id, deps)),
      ),
    documented("key", {
      tag: "Usage",
      summary: { en: "The final record of a call of this key", id: "Catatan final satu panggilan kunci ini" },
      description: {
        en: "As `GET /usage/{request_id}`, for what a stream cost and read. Free, and one request of the key's window. 404 `usage.not_found` until the call has ended, and for calls of other keys, of the same account too.",
        id: "Seperti `GET /usage/{request_id}`, untuk biaya dan token sebuah stream. Gratis, dan dihitung satu permintaan di jendela kunci. 404 `usage.not_found` sampai panggilannya berakhir, dan untuk panggilan kunci lain, di akun yang sama juga.",
      },
      answer: usageDetail,
    }),
  )
}

async function recordOf({ record }: Caller, requestId: string, { usage }: RecordDeps): Promise<object | Failure> {
  const call = await callOf(usage, record.accountId, requestId)
  return call instanceof Failure || call.key_id === record.keyId ? call : new Failure("usage.not_found")
}

type Deps = Pick<RunsDeps, "runs" | "ports">

/** A run's key reads its receipt, for an agent that wants to know what it has left, and ends it. */
export const runController = (deps: Deps) => {
  const asked = new Asked()
  return new Elysia({ name: "run" })
    .use(edge)
    .get(
      "/v1/runs/:id",
      ({ request, set, params }) =>
        answered(deps, { request, set }, (caller) =>
          asked.once(`${caller.keyHash} ${params.id}`, () => receipt(caller, params.id, deps)),
        ),
      documented("key", {
        tag: "Usage",
        summary: { en: "The receipt of a run of this key, as it is now", id: "Rincian run kunci ini saat ini" },
        description: {
          en: "`id` is the run's `X-Run-Id`, or its `id`. Free, and one request of the key's window. Runs of other keys, of the same account too, are 404.",
          id: "`id` adalah `X-Run-Id` run itu, atau `id`-nya. Gratis, dan dihitung satu permintaan di jendela kunci. Run milik kunci lain, di akun yang sama juga, dijawab 404.",
        },
        answer: runReceipt,
      }),
    )
    .post(
      "/v1/runs/:id/end",
      ({ request, set, params }) => answered(deps, { request, set }, (caller) => ended(caller, params.id, deps)),
      documented("key", {
        tag: "Usage",
        summary: { en: "End a run of this key before its time", id: "Akhiri run kunci ini sebelum waktunya" },
        description: together(
          { en: "`id` is the run's `X-Run-Id`, or its `id`.", id: "`id` adalah `X-Run-Id` run itu, atau `id`-nya." },
          ENDING,
          {
            en: "Its receipt is answered. Free, and one request of the key's window.",
            id: "Jawabannya adalah rinciannya. Gratis, dan dihitung satu permintaan di jendela kunci.",
          },
        ),
        answer: runReceipt,
      }),
    )
}

async function receipt(caller: Caller, named: string, deps: Deps): Promise<object | Failure> {
  const run = await runOf(caller, named, deps)
  return run === undefined ? new Failure("resource.not_found") : await receiptOf(run, deps)
}

async function ended(caller: Caller, named: string, deps: Deps): Promise<object | Failure> {
  const run = await runOf(caller, named, deps)
  const after = run && (await endRun(run, deps))
  return after === undefined ? new Failure("resource.not_found") : await receiptOf(after, deps)
}

async function runOf({ record }: Caller, named: string, { runs }: Deps): Promise<KeptRun | undefined> {
  const { accountId, keyId } = record
  const ids = [...(RUN_NAME.test(named) ? [runIdOf(keyId, named)] : []), ...(RUN_ID.test(named) ? [named] : [])]
  for (const id of ids) {
    const run = await runs.find(accountId, id)
    if (run?.keyId === keyId) return run
  }
  return undefined
}
