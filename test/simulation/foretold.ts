/**
 * Dry runs in a simulated world. At rest nothing else runs: there a dry run leaves every row as it was, and the call that follows
 * is refused as it said, or not at all.
 */
import { sleep } from "../../actors/kernel/clock.ts"
import { Failure } from "../../src/failure/failure.ts"
import { callOnce, type CallStory, requestOf } from "./client.ts"
import type { ModelBooks } from "./model-books.ts"
import type { PlannedCall } from "./plan.ts"
import type { SimulatedProcess } from "./process.ts"
import { keys } from "./shop.ts"
import type { Stage } from "./stage.ts"

/** The code of the refusal; `passes` where there would be none. */
export async function askDryly(
  stage: Stage,
  planned: PlannedCall,
  process: SimulatedProcess,
  requestId: string,
): Promise<string> {
  const [format, request] = requestOf(planned, requestId)
  const answer = await Promise.race([process.dryRun(format, request), process.gone.then(() => "gone")])
  const code = answer instanceof Failure ? answer.code : answer
  stage.count(code === "passes" ? "dry run foretells that a call passes" : "dry run foretells a refusal")
  stage.trace(`${requestId} is asked about: ${code}`)
  return code
}

/** What a call is refused for before it is forwarded: what comes later a dry run does not know. */
const FORETOLD =
  /^(auth|billing|model|quota|rate_limit|request|run)\.|^gateway\.capacity$|^upstream\.context_length_exceeded$/

/** A call is refused for its key's budget, or for what is asked after that: its run, ceilings, balance, room, and all that is not foretold. */
const isOfBudgetOrLater = (code: string): boolean =>
  /^(quota|run|billing)\.|^gateway\.capacity$/.test(code) || !FORETOLD.test(code)

const NONE_ANY_MORE = /^auth\.api_key_(revoked|expired)$/

const SETTLED_MS = 1_500

interface Scene {
  readonly stage: Stage
  readonly books: Pick<ModelBooks, "dump">
  readonly process: SimulatedProcess
  /** Of a call that is made now. */
  readonly story: (planned: PlannedCall) => CallStory
}

/** For each key, the call that it made last is asked about, and made. */
export async function checkForetold(
  { stage, books, process, story }: Scene,
  calls: readonly PlannedCall[],
): Promise<void> {
  for (const [key, { parentId }] of keys.entries()) {
    // A child may not ask.
    if (parentId !== undefined) continue
    const last = calls.findLast((planned) => planned.key === key)
    if (last === undefined) continue
    const planned: PlannedCall = { ...last, manners: undefined, keyed: undefined, sdk: undefined, paceMs: 0 }
    const made = story(planned)
    // What the call before has moved to this process, or is given back by a neighbour, has arrived.
    await sleep(stage.clock, SETTLED_MS)
    const before = takenOf(await books.dump())
    const foretold = await askDryly(stage, planned, process, made.requestId)
    const after = takenOf(await books.dump())
    const changed = [...after.keys()].filter((table) => after.get(table) !== before.get(table))
    if (changed.length > 0) stage.violate(`a dry run of ${made.requestId} has changed ${changed.join(", ")}`)
    await callOnce(stage, made)
    const { told } = made
    const met = told?.kind === "failure" ? told.code : "passes"
    const isForetold = foretold === "passes" ? !FORETOLD.test(met) : met === foretold
    // Of a budget it is told what is left as far as this process knows: others may have spent of it, or have leased it, since.
    // What refuses it then may be what is asked after the budget, or nothing.
    const codes = [foretold, met]
    if (codes.some((code) => code.endsWith("_limit_exceeded")) && codes.every(isOfBudgetOrLater)) continue
    // A key that is none any more is 401, however full its window is.
    if (NONE_ANY_MORE.test(foretold) && met === "rate_limit.rpm_exceeded") continue
    // It may come to its end while the call waits: then it is told so from now on.
    if (NONE_ANY_MORE.test(met) && (await askDryly(stage, planned, process, made.requestId)) === met) continue
    if (!isForetold) stage.violate(`${made.requestId} is foretold ${foretold}, and told ${met}`)
  }
}

/** Rows by table, without what is only let go: a key that is looked at gives back what it has of a day that is over. */
const takenOf = (dump: object): Map<string, string> =>
  new Map(Object.entries(dump).map(([table, rows]) => [table, JSON.stringify(rows, plain)]))

const LET_GO: ReadonlySet<string> = new Set(["leased", "returned", "version"])

function plain(column: string, value: unknown): unknown {
  if (LET_GO.has(column)) return undefined
  return typeof value === "bigint" ? String(value) : value
}
