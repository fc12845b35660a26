/**
 * `X-Dry-Run: true` on a call: the answer says what the call would come to and what would refuse it, and nothing is forwarded,
 * held, counted or billed. Free, so its key has a request window of its own for it.
 */
import { Type } from "@sinclair/typebox"
import type { Micro } from "../../actors/money/micro.ts"
import type { Share } from "../../actors/share.ts"
import type { WindowView } from "../../actors/window.ts"
import type { Accounts } from "../accounts/accounts.ts"
import type { Keys } from "../accounts/keys.ts"
import { Failure } from "../failure/failure.ts"
import { affordabilityByBalance } from "../gateway/afford.ts"
import type { Caller } from "../gateway/authenticate.ts"
import type { Arrival } from "../gateway/call.ts"
import { authenticateDryRun, type DryRunContext, forecast, isReported } from "../gateway/dry-run.ts"
import type { GatewayPorts } from "../gateway/ports.ts"
import type { ClientSide } from "../wire/format.ts"
import { answerOf, availableOf } from "./dry-run-answer.ts"
import { DRY_RUN } from "./edge.ts"
import { MinuteWindows } from "./minute-windows.ts"
import { field, oneOf } from "./shapes.ts"

export interface DryRunsDeps {
  readonly ports: GatewayPorts
  readonly accounts: Pick<Accounts, "account">
  readonly keys: Pick<Keys, "read">
  readonly share: () => Share
}

/** A minute, of each key, all processes together. */
const DRY_RUNS_A_MINUTE = 60
/** Keys whose windows are kept; more than ask within a minute. */
const MOST_KEYS = 10_000

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
  readonly #windows: MinuteWindows

  constructor(deps: DryRunsDeps) {
    this.#deps = deps
    this.#windows = new MinuteWindows({
      limit: DRY_RUNS_A_MINUTE,
      remembered: MOST_KEYS,
      share: deps.share,
      monotonic: () => deps.ports.clock.monotonic(),
    })
  }

  async answer(format: ClientSide, request: Request, arrival: Arrival): Promise<Response | Failure> {
    const { requestId } = arrival
    const { ports } = this.#deps
    if (ports.draining.aborted) return new Failure("gateway.capacity", { retryAfterS: 1 })
    const caller = await authenticateDryRun(ports.actors, request.headers, arrival)
    // Whoever has the key elsewhere than it is meant for uses up nothing of it, and is told nothing.
    if (caller instanceof Failure && !isReported(caller)) return caller
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
