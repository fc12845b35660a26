/**
 * The run that a call belongs to, as its headers say. `X-Run-Id` names it among the runs of the key; `X-Run-Budget-Rp`, whole
 * rupiah, is what its calls may spend together, fixed by the first of them.
 */
import { andThen, type MaybePromise } from "../../actors/kernel/actor.ts"
import { MICRO_PER_RUPIAH, type Micro, micro, microToRupiah } from "../../actors/money/micro.ts"
import type { EnterReply, RunRequest } from "../../actors/run.ts"
import { unreachable } from "../../actors/unreachable.ts"
import type { HoldRequest } from "../../actors/lease.ts"
import { Failure, invalid } from "../failure/failure.ts"
import { findOrOpenRun, MAX_RUNS_KEPT, MAX_RUNS_OPEN, type RunStatements } from "../store/runs.ts"
import type { Actors } from "./actors.ts"
import type { Caller } from "./authenticate.ts"
import { holdOfBreakers, probeAccount, releaseBreakers } from "./purses.ts"

/** What a path and a table can carry as it is. */
export const RUN_NAME = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$/
const MAX_RUN_BUDGET_RP = 1_000_000_000
export const MAX_RUN_BUDGET: Micro = micro(BigInt(MAX_RUN_BUDGET_RP) * MICRO_PER_RUPIAH)

/** Undefined of a call that belongs to no run. */
export function runRequestOf({ record }: Caller, headers: Headers): RunRequest | Failure | undefined {
  const name = headers.get("x-run-id")
  const budget = headers.get("x-run-budget-rp")
  if (name === null && budget === null) return undefined
  // An empty one is a variable that was never set: whoever sends it means to have a budget.
  if (name === null || !RUN_NAME.test(name)) {
    return invalid(
      name === null
        ? "'X-Run-Budget-Rp' needs an 'X-Run-Id', which names the run that it is of."
        : "'X-Run-Id' must be 1 to 64 letters, digits, '.', '_', ':' and '-', of which the first is a letter or a digit.",
    )
  }
  const { accountId, keyId } = record
  const run = { runId: runIdOf(keyId, name), accountId, keyId, name }
  if (budget === null) return { ...run, budget: undefined }
  const amount = /^[1-9]\d{0,9}$/.test(budget) ? Number(budget) : NaN
  if (!(amount <= MAX_RUN_BUDGET_RP)) {
    return invalid(`'X-Run-Budget-Rp' must be whole rupiah from 1 to ${MAX_RUN_BUDGET_RP}, in digits alone.`)
  }
  return { ...run, budget: micro(BigInt(amount) * MICRO_PER_RUPIAH) }
}

/** The same for the same name of the same key; nobody who does not know the key's id can make it up. */
export const runIdOf = (keyId: string, name: string): string =>
  `run_${new Bun.CryptoHasher("sha256").update(`${keyId} ${name}`).digest("base64url").slice(0, 22)}`

/** A name that no run has; or the same again for the same seed. */
export const newRunName = (seed: Uint8Array = crypto.getRandomValues(new Uint8Array(16))): string =>
  Buffer.from(seed.subarray(0, 16)).toString("hex")

/** The id of the run, whether it was made now or was there with the same budget, and the same end where one is asked for. */
export async function makeRun(
  statements: RunStatements,
  request: Omit<RunRequest, "runId"> & { readonly budget: Micro },
  { now, endsAt }: { readonly now: number; readonly endsAt: number | undefined },
): Promise<string | Failure> {
  const run = { ...request, runId: runIdOf(request.keyId, request.name) }
  const found = await findOrOpenRun(statements, run, now, endsAt)
  if (found === "unknown") return new Failure("internal.error")
  if (found === "too-many") return tooManyRuns()
  if (found.budget !== run.budget) return otherBudget(found.budget)
  if (endsAt !== undefined && found.endsAt !== endsAt) {
    const message = `The key has a run of this name that ends at ${new Date(found.endsAt).toISOString()}.`
    return invalid(message)
  }
  return run.runId
}

const tooManyRuns = (): Failure =>
  new Failure("quota.runs_exceeded", {
    message: `The account has ${MAX_RUNS_OPEN} runs that have not ended, or ${MAX_RUNS_KEPT} in all.`,
  })

const otherBudget = (budget: Micro): Failure =>
  new Failure("run.budget_mismatch", {
    message: `The run was made with a budget of Rp ${microToRupiah(budget)}. Send that, or no budget, or another X-Run-Id.`,
  })

/** A call of a run, and the ceilings that are asked after the run. */
interface HoldOfRun extends HoldRequest {
  readonly breakers: readonly string[]
}

/** What the run pays at the most. The run is made where there is none. */
export function holdOfRun(actors: Actors, run: RunRequest, terms: HoldOfRun): MaybePromise<Micro | Failure> {
  return andThen(enter(actors, run, terms), (reply) => {
    const refusal = refusalOf(actors, run.runId, reply)
    if (refusal !== undefined) return refusal
    return andThen(actors.runs.hold(run.runId, terms), (held) => {
      if (typeof held !== "string") return held
      return new Failure(held === "insufficient" ? "quota.run_limit_exceeded" : "dependency.database_unavailable")
    })
  })
}

/** Of a call that was let in and has waited: who ended its run meanwhile was told that it never goes on. */
export const refusalOfRun = (actors: Actors, run: RunRequest | undefined): MaybePromise<Failure | undefined> =>
  run && andThen(actors.runs.enter(run), (reply) => refusalOf(actors, run.runId, reply))

/**
 * Runs are few, and last for days. Whoever goes on asking without money, each time under a new name, would be out of them when
 * there is money again. So a run is made for a call that the ceilings and the account can pay.
 */
function enter(actors: Actors, run: RunRequest, terms: HoldOfRun): MaybePromise<EnterReply | Failure> {
  const { budget } = run
  if (budget === undefined) return actors.runs.enter(run)
  return andThen(actors.runs.enter({ ...run, budget: undefined }), (found) => {
    if (found instanceof Failure) return found
    if (found.kind !== "unknown") return actors.runs.enter(run)
    // A run that cannot pay the call is made all the same, with a receipt. Ceilings come after runs, so they are not asked.
    const ofRun = budget < terms.least ? new Failure("quota.run_limit_exceeded") : undefined
    const asked = ofRun === undefined ? terms : { ...terms, breakers: [] }
    return andThen(payable(actors, run, asked), (refusal) =>
      refusal === undefined ? actors.runs.enter(run) : refusalOfUnmade(actors, run, ofRun ?? refusal),
    )
  })
}

/** Asked in the order in which a call asks them, so that it is refused as it is where the run is there. */
function payable(
  actors: Actors,
  { accountId }: RunRequest,
  { requestId, least, breakers }: HoldOfRun,
): MaybePromise<Failure | undefined> {
  const terms = { requestId: `${requestId}-run`, least, target: least }
  return andThen(holdOfBreakers(actors, breakers, terms), (ofBreakers) => {
    releaseBreakers(actors, breakers, terms.requestId)
    if (ofBreakers instanceof Failure) return ofBreakers
    return probeAccount(actors, accountId, terms)
  })
}

/** That the account has no room for another run is said before, as it is where the call can be paid. */
async function refusalOfUnmade(actors: Actors, { runId, accountId }: RunRequest, refusal: Failure): Promise<Failure> {
  actors.runs.passivate(runId)
  const mayOpen = await actors.runs.mayOpen(accountId).catch(() => undefined)
  if (mayOpen === undefined) return new Failure("dependency.database_unavailable")
  return mayOpen ? refusal : tooManyRuns()
}

/** The run as a call would find it. */
export interface RunForecast {
  readonly limit: Micro
  readonly remaining: Micro
  /** `new`: the call would make it. */
  readonly state: "new" | "open" | "ended"
  /** Undefined of a new one. */
  readonly endsAt: number | undefined
}

/** Forecasts a run without making it: the run as it is, or as it would be, and the failure that would refuse its calls at any cost. */
export async function forecastRun(
  actors: Actors,
  run: RunRequest,
): Promise<{ readonly run: RunForecast | undefined; readonly refusal: Failure | undefined }> {
  const found = await actors.runs.enter({ ...run, budget: undefined })
  if (!(found instanceof Failure) && found.kind === "unknown" && run.budget !== undefined) {
    actors.runs.passivate(run.runId)
    if (!(await actors.runs.mayOpen(run.accountId))) return { run: undefined, refusal: tooManyRuns() }
    const { budget } = run
    return { run: { limit: budget, remaining: budget, state: "new", endsAt: undefined }, refusal: undefined }
  }
  const kind = found instanceof Failure ? undefined : found.kind
  const isThere = kind === "entered" || kind === "ended"
  const refusal = refusalOf(actors, run.runId, isThere ? await actors.runs.enter(run) : found)
  const view = isThere ? await actors.runs.viewIfActive(run.runId) : undefined
  if (view === undefined) {
    return { run: undefined, refusal: refusal ?? new Failure("dependency.database_unavailable") }
  }
  const { budget: limit, remaining, endsAt } = view
  return { run: { limit, remaining, state: kind === "ended" ? "ended" : "open", endsAt }, refusal }
}

function refusalOf(actors: Actors, runId: string, reply: EnterReply | Failure): Failure | undefined {
  if (reply instanceof Failure) return reply
  switch (reply.kind) {
    case "entered":
      return undefined
    case "unknown":
      // Made-up names must not fill the memory.
      actors.runs.passivate(runId)
      return new Failure("run.unknown")
    case "other-budget":
      return otherBudget(reply.budget)
    case "ended":
      return new Failure("quota.run_limit_exceeded", {
        message: "The run has ended. Begin another one with an X-Run-Id of its own.",
      })
    case "too-many":
      actors.runs.passivate(runId)
      return tooManyRuns()
    case "unavailable":
      return new Failure("dependency.database_unavailable")
    default:
      return unreachable(reply)
  }
}

/** What is left of a run's budget, as its calls are told. */
export async function runLimitHeaders(actors: Actors, runId: string): Promise<Record<string, string>> {
  const view = await actors.runs.viewIfActive(runId)
  if (view === undefined) return {}
  return {
    "X-Run-Limit-Micro": String(view.budget),
    "X-Run-Usage-Micro": String(view.usage),
    "X-Run-Remaining-Micro": String(view.remaining),
  }
}
