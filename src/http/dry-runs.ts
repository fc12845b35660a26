/**
 * `X-Dry-Run: true` on a call: the answer says what the call would come to and what would refuse it, and nothing is forwarded,
 * held, counted or billed. Free, so its key has a request window of its own for it.
 */
import { Type } from "@sinclair/typebox"
import type { KeyForecast } from "../../actors/key-record.ts"
import {
  largestMicro,
  type Micro,
  microToJson,
  microToRupiah,
  minus,
  notNegative,
  smaller,
  sumToJson,
} from "../../actors/money/micro.ts"
import type { Share } from "../../actors/lease.ts"
import type { WindowView } from "../../actors/window.ts"
import type { Accounts } from "../accounts/accounts.ts"
import type { Keys } from "../accounts/keys.ts"
import { MinuteRateLimiter } from "../accounts/rate-limits.ts"
import { Failure, noCapacity } from "../failure/failure.ts"
import { type Caller, currentRateHeaders, type KeyRefused } from "../gateway/authenticate.ts"
import type { Arrival } from "../gateway/call.ts"
import { authenticateDryRun, type DryRunContext, forecast, type Forecast, isReported } from "../gateway/dry-run.ts"
import { affordabilityByBalance } from "../gateway/plan-call.ts"
import type { GatewayPorts } from "../gateway/ports.ts"
import type { Account } from "../store/accounts.ts"
import type { ClientSide } from "../wire/format.ts"
import { DRY_RUN } from "./edge.ts"
import { field, oneOf } from "./shapes.ts"

interface DryRunsDeps {
  readonly ports: GatewayPorts
  readonly accounts: Pick<Accounts, "account">
  readonly keys: Pick<Keys, "read">
  readonly share: () => Share
}

/** A minute, of each key, all processes together. */
const DRY_RUNS_A_MINUTE = 60
/** Keys whose windows are kept; more than ask within a minute. */
const MAX_KEYS = 10_000

export const dryRunHeader = Type.Optional(
  oneOf(
    ["true", "false"],
    field(
      "`true`: nothing is forwarded, held, counted or billed, and the answer is a `DryRun`, streamed or not, also where the call would be refused. 60 a minute for each key. 403 `auth.key_not_allowed` for a child of a key, and where the key's owner has turned off asking for the balance with it (`shows_balance`).",
      "`true`: tidak ada yang diteruskan, ditahan, dihitung, atau ditagih, dan jawabannya `DryRun`, dengan aliran atau tidak, juga jika panggilannya akan ditolak. 60 per menit untuk setiap kunci. 403 `auth.key_not_allowed` untuk kunci anak, dan jika pemilik kunci mematikan pertanyaan tentang saldo (`shows_balance`).",
    ),
  ),
)

/** Whether a call is one to ask about, or says something of it that is to be refused. */
export function isDryRun({ headers }: Request): boolean {
  const value = headers.get(DRY_RUN)
  return value !== null && value !== "" && value !== "false"
}

export class DryRuns {
  readonly #deps: DryRunsDeps
  readonly #windows: MinuteRateLimiter

  constructor(deps: DryRunsDeps) {
    this.#deps = deps
    this.#windows = new MinuteRateLimiter({
      limit: DRY_RUNS_A_MINUTE,
      remembered: MAX_KEYS,
      share: deps.share,
      monotonic: () => deps.ports.clock.monotonic(),
    })
  }

  async answer(format: ClientSide, request: Request, arrival: Arrival): Promise<Response | Failure> {
    const { requestId } = arrival
    const { ports } = this.#deps
    if (ports.draining.aborted) return noCapacity()
    const caller = await authenticateDryRun(ports.actors, request.headers, arrival)
    // Whoever has the key elsewhere than it is meant for uses up nothing of it, and is told nothing.
    if (caller instanceof Failure && !isReported(caller)) return caller
    const answered = await this.#answerTo(caller, format, request, requestId)
    const rates = await currentRateHeaders(ports.actors, caller.keyHash)
    if (answered instanceof Failure) return answered.withHeaders(rates)
    for (const [name, value] of Object.entries(rates)) answered.headers.set(name, value)
    return answered
  }

  async #answerTo(
    caller: Caller | KeyRefused,
    format: ClientSide,
    request: Request,
    requestId: string,
  ): Promise<Response | Failure> {
    const { ports } = this.#deps
    const { keyId, accountId } = caller.record
    const counted = this.#count(keyId)
    if (counted instanceof Failure) return counted
    if (request.headers.get(DRY_RUN) !== "true") {
      return new Failure("request.invalid", { message: `'${DRY_RUN}' must be one of: true, false.` })
    }
    if (caller instanceof Failure) {
      const paused = caller.code === "quota.key_paused" ? caller.record.paused : undefined
      return answerOf({ requestId, refusal: caller, dryRuns: counted, paused })
    }
    const [key, account] = await Promise.all([
      this.#deps.keys.read({ accountId, keyId }),
      this.#deps.accounts.account({ accountId }),
    ])
    if (key === undefined) return new Failure("auth.api_key_invalid")
    if (account instanceof Failure) return new Failure("auth.account_deleted")
    if (key.parentId !== undefined || !key.showsBalance) {
      return new Failure("auth.key_not_allowed", {
        message: "The key's owner has turned off asking for the balance with it, which a dry run tells.",
      })
    }
    const asking = askingOf(ports, format, request, caller, availableOf(account))
    const met = await forecast(asking)
    if (met instanceof Failure) return met
    return answerOf({ requestId, refusal: met.refusal, dryRuns: counted, account, forecast: met, model: asking.model })
  }

  /** What is refused here is not counted, as in the window of calls. */
  #count(keyId: string): WindowView | Failure {
    const counted = this.#windows.count(keyId)
    if (!("retryAfterS" in counted)) return counted
    const message = `The key's limit of ${DRY_RUNS_A_MINUTE} dry runs per minute is reached.`
    return new Failure("rate_limit.rpm_exceeded", { message, retryAfterS: counted.retryAfterS })
  }
}

const askingOf = (
  ports: GatewayPorts,
  format: ClientSide,
  request: Request,
  caller: Caller,
  available: Micro,
): DryRunContext => ({
  ports,
  format,
  request,
  caller,
  available,
  affordability: affordabilityByBalance(ports, available),
  model: undefined,
})

interface DryRunResult {
  readonly requestId: string
  readonly refusal: Failure | undefined
  readonly dryRuns: WindowView
  /** Of a key that is paused: in milliseconds since the epoch, `Infinity` until it is resumed. */
  readonly paused?: { readonly until: number } | undefined
  /** Undefined of an account that is closed to the key. */
  readonly account?: Account
  readonly forecast?: Forecast
  readonly model?: string | undefined
}

function answerOf({ requestId, refusal, dryRuns, account, forecast, model, paused }: DryRunResult): Response {
  const course = forecast?.route
  const body = {
    object: "dry_run",
    request_id: requestId,
    refused_by: refusal === undefined ? null : refusalJson(refusal, requestId),
    model: model ?? null,
    answered_by: course?.model ?? null,
    may_be_answered_by: course?.others ?? [],
    cost: course === undefined ? null : costJson(course),
    limits: {
      ...keyLimitsJson(forecast?.key),
      ...(forecast?.run && { run: runJson(forecast.run) }),
      ...(forecast?.breakers !== undefined &&
        forecast.breakers.length > 0 && { ten_minutes: forecast.breakers.map(breakerJson) }),
      ...(paused && { paused: { until: paused.until === Infinity ? null : new Date(paused.until).toISOString() } }),
      balance: account === undefined ? null : balanceJson(account),
      model: course === undefined ? null : modelJson(course),
      dry_runs: windowJson(dryRuns),
    },
  }
  return Response.json(body, { headers: forecast?.headers ?? {} })
}

const refusalJson = (refusal: Failure, requestId: string) => ({
  status: refusal.status,
  ...refusal.body(requestId),
  retry_after_s: refusal.detail.retryAfterS ?? null,
})

const runJson = ({ state, limit, remaining, endsAt }: NonNullable<Forecast["run"]>) => ({
  status: state,
  limit_micro: microToJson(limit),
  remaining_micro: microToJson(remaining),
  ends_at: endsAt === undefined ? null : new Date(endsAt).toISOString(),
})

const breakerJson = (breaker: NonNullable<Forecast["breakers"]>[number]) => ({
  of: breaker.of,
  ceiling_micro: microToJson(breaker.ceiling),
  spent_micro: microToJson(breaker.spent),
  held_micro: microToJson(breaker.held),
  remaining_micro: microToJson(breaker.remaining),
  resets_in_s: breaker.resetS,
})

type Course = NonNullable<Forecast["route"]>

/** A price may be so high that not even the least can be said; no balance is as large. */
const costJson = ({ inputTokens, mostInputTokens, answerLimit, least, hold, most }: Course) => ({
  input_tokens: inputTokens,
  most_input_tokens: mostInputTokens,
  output_token_limit: answerLimit,
  least_micro: sumToJson(least),
  hold_micro: hold === undefined ? null : microToJson(hold),
  hold_rp: hold === undefined ? null : microToRupiah(hold),
  most_micro: sumToJson(most),
  most_rp: microToRupiah(smaller(most, largestMicro)),
})

function keyLimitsJson(key: KeyForecast | undefined) {
  const { requests, tokens, budget } = key?.view ?? {}
  return {
    requests: requests === undefined ? null : windowJson(requests),
    tokens: tokens === undefined ? null : windowJson(tokens),
    budget:
      budget === undefined
        ? null
        : {
            period: budget.period,
            limit_micro: microToJson(budget.limit),
            remaining_micro: microToJson(budget.remaining),
            resets_in_s: key?.budgetEndsInS ?? null,
          },
  }
}

const windowJson = ({ limit, remaining, resetS }: WindowView) => ({ limit, remaining, resets_in_s: resetS })

/** What an account has that no call holds. */
const availableOf = ({ balanceMicro, heldMicro }: Account): Micro => notNegative(minus(balanceMicro, heldMicro))

const balanceJson = (account: Account) => ({
  balance_micro: sumToJson(account.balanceMicro),
  held_micro: sumToJson(account.heldMicro),
  available_micro: sumToJson(availableOf(account)),
})

const modelJson = ({ slots: { cap, taken, waiting }, waits }: Course) => ({
  concurrency: cap,
  free: Math.max(0, cap - taken),
  waiting,
  would_wait: waits,
})
