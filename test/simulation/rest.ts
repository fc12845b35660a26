/**
 * What must hold of a world in which nothing goes wrong any more: the dead have been closed, nothing is held, all that is
 * left can be spent, and the books and what clients were told agree. What does not is told to the stage.
 */
import { sleep } from "../../actors/kernel/clock.ts"
import type { MaybePromise } from "../../actors/kernel/actor.ts"
import type { ReserveReply } from "../../actors/key-record.ts"
import { micro } from "../../actors/money/micro.ts"
import type { HoldOutcome } from "../../actors/lease.ts"
import { Failure } from "../../src/failure/failure.ts"
import type { CallStory } from "./client.ts"
import { miscosted } from "./costs.ts"
import type { SimulatedDatabase } from "./database.ts"
import type { Fault } from "./faults.ts"
import { toldOf, violations } from "./invariants.ts"
import { ceilingsPassed } from "./invariants-of-breakers.ts"
import { AMPLE_BYTES, limits } from "./limits.ts"
import type { SimulatedProcess } from "./process.ts"
import { brokenPromises } from "./promises.ts"
import { type Bounds, brokenBindings } from "./promises-of-bindings.ts"
import { hashOf, keys, models } from "./shop.ts"
import type { CostTerms } from "./shop-costs.ts"
import type { Stage } from "./stage.ts"

/** A world as the looks see it. */
export interface Scene {
  readonly stage: Stage
  readonly database: SimulatedDatabase
  /** All that ever were. */
  readonly processes: readonly SimulatedProcess[]
  readonly stories: readonly CallStory[]
  readonly costs: CostTerms
  /** By the index of a key: what it was bound to, one after the other. */
  readonly bounds: Bounds
  /** No key's budget is changed on the way. */
  readonly limitsStay: boolean
  /** The wall clock is never set. */
  readonly clockGoesOn: boolean
  /** A process is about to take the place of another. */
  readonly isReplacing: () => boolean
}

/**
 * How long until a dead process is closed: the server has to see that it is gone (6 s), and a living one to look (each 5 s),
 * which it does not for 5 s once it has noticed (6 s) that its own lock was lost.
 */
const SUCCESSION_MS = 20_000

/** Who is starting or stopping has done so; who is gone is closed by one who lives, and who is closed has seen it. */
export async function awaitSuccession(scene: Scene): Promise<void> {
  const { stage, processes } = scene
  const { clock } = stage
  const until = clock.monotonic() + SUCCESSION_MS
  for (;;) {
    const found = await restless(scene)
    if (found.length === 0) return
    // With nobody there who could close them they are the auditor's to close, once the server knows.
    if (processes.every(({ alive }) => !alive)) return await sleep(clock, SUCCESSION_MS)
    if (clock.monotonic() > until) return stage.violate(`not at rest after ${SUCCESSION_MS} ms: ${found.join(", ")}`)
    await sleep(clock, 200)
  }
}

async function restless({ database, processes: all, isReplacing }: Scene): Promise<string[]> {
  if (isReplacing()) return ["a process is being replaced"]
  if (database.onTheirWay > 0) return ["a statement is on its way"]
  const { processes, openings, leases, budgetLeases } = await database.books.dump()
  const left = [...openings, ...budgetLeases, ...leases.filter((lease) => !lease.closed)]
  const open = new Set(left.map(({ processId }) => processId))
  const closed = new Map(processes.map((row) => [row.processId, row.closed]))
  return all.flatMap(({ id, alive, serving, missed, locked }) => {
    if (!missed) return [`${id} is gone and not missed`]
    if (alive && closed.get(id) === true) return [`${id} was closed and does not know it`]
    if (alive && !locked) return [`${id} has lost its lock and not taken it again`]
    if (alive && !serving) return [`${id} neither serves nor is gone`]
    return !alive && (closed.get(id) === false || open.has(id)) ? [`${id} is gone and was not closed`] : []
  })
}

/** What clients have not taken is within its share of memory, and nobody stands for what is not there. */
export function checkUnread({ stage, processes }: Scene): void {
  for (const { id, alive, gateway } of processes) {
    const total = alive ? (gateway?.ports.unread.total ?? 0) : 0
    if (total < 0 || total > limits.unreadBytes)
      stage.violate(`${id} keeps ${total} bytes for clients that do not read`)
    const kept = alive ? (gateway?.ports.deduplication.replayBytes ?? 0) : 0
    if (kept < 0 || kept > 1.5 * stage.replayBytes) stage.violate(`${id} keeps ${kept} bytes of answers`)
  }
}

/** Nothing is held, nobody waits. */
export async function checkIdle({ stage, stories, database }: Scene, { id, gateway }: SimulatedProcess): Promise<void> {
  if (gateway === undefined) return
  const { actors, pools } = gateway.ports
  const { unread } = gateway.ports
  if (unread.total !== 0) stage.violate(`at rest ${unread.total} bytes are kept by ${id} for clients`)
  const gate = await actors.gate.view()
  if (gate instanceof Failure || gate.taken > 0 || gate.waiting > 0)
    stage.violate(`at rest the gate of ${id} is not empty: ${JSON.stringify(gate)}`)
  for (const model of models) {
    const slots = await actors.models.viewIfActive(model.id)
    if (slots !== undefined && (slots.taken > 0 || slots.waiting > 0))
      stage.violate(`at rest the slots of ${model.id} in ${id} are not empty: ${JSON.stringify(slots)}`)
    for (const { member, own, credential } of pools.of(model).members) {
      if (own.capacity.inFlight !== 0 || credential.capacity.inFlight !== 0)
        stage.violate(`at rest there are calls at the member ${member.id} of ${model.id} in ${id}`)
      if (!own.circuit.allows(Infinity) || !credential.circuit.allows(Infinity))
        stage.violate(`at rest the member ${member.id} of ${model.id} in ${id} is never asked again`)
    }
  }
  const purses = (await database.books.dump()).breakers.map(({ purse }) => purse)
  const used = new Set(
    stories.filter(({ process }) => process.id === id).map(({ planned }) => keys[planned.key]!.accountId),
  )
  for (const accountId of used) {
    let view = await actors.accounts.view(accountId)
    // A start that fails refuses everyone who waits, and the next ask starts anew.
    for (let tries = 1; view instanceof Failure && tries < 5; tries++) {
      await sleep(stage.clock, 500)
      view = await actors.accounts.view(accountId)
    }
    if (view instanceof Failure) stage.violate(`at rest ${accountId} of ${id} does not answer: ${view.code}`)
    else if (view.held !== 0n) stage.violate(`at rest ${view.held} is held of ${accountId} in ${id}`)
  }
  for (const purse of purses) {
    const view = await actors.breakers.view(purse)
    if (!(view instanceof Failure) && view.held !== 0n)
      stage.violate(`at rest ${view.held} is held under ${purse} in ${id}`)
  }
}

/** All that is left of a ceiling can be held by one call. */
export async function checkCeilings({ stage, database, processes }: Scene): Promise<void> {
  const { breakers } = await database.books.dump()
  const actors = processes.find(({ serving }) => serving)?.gateway?.ports.actors
  for (const { purse, ceiling = 0n, stops, lately } of breakers) {
    const left = ceiling - lately
    if (actors === undefined || !stops || left <= 0n) continue
    const terms = { requestId: `last_${purse}`, least: micro(left), target: micro(left) }
    const answer = await insisted(stage, () => actors.breakers.hold(purse, terms))
    if (answer !== undefined) stage.violate(`the last ${left} under ${purse} cannot be held: ${answer}`)
    actors.breakers.release(purse, terms.requestId)
  }
}

/** Undefined once it is held, or why it is not at the fifth time. */
async function insisted(
  stage: Stage,
  hold: () => MaybePromise<{ readonly kind: string } | Failure>,
): Promise<string | undefined> {
  for (let tries = 1; ; tries++) {
    const held = await hold()
    const answer = held instanceof Failure ? held.code : held.kind
    if (answer === "held" || answer === "reserved") return undefined
    if (tries === 5) return answer
    await sleep(stage.clock, 500)
  }
}

/** All that is left of an account can be held by one call, whoever leased it before. */
export async function checkSpendable({ stage, database, processes }: Scene): Promise<void> {
  const { balances } = await database.books.dump()
  const process = processes.find(({ serving }) => serving)
  const accountsOf = process?.gateway?.ports.actors.accounts
  if (accountsOf === undefined) return
  for (const { accountId, posted } of balances) {
    if (posted <= 0n) continue
    const requestId = `last_${accountId}`
    const terms = { requestId, least: micro(posted), target: micro(posted) }
    const answer = await insisted(stage, () => accountsOf.hold(accountId, terms))
    if (answer !== undefined) return stage.violate(`the last ${posted} of ${accountId} cannot be held: ${answer}`)
    accountsOf.release(accountId, requestId)
  }
}

/** All that is left of a budget that does not begin anew can be held by one call, whoever leased it before: of keys and of runs. */
export async function checkBudgets({ stage, database, processes }: Scene): Promise<void> {
  const { keys: known, runs, keySpend } = await database.books.dump()
  const actors = processes.find(({ serving }) => serving)?.gateway?.ports.actors
  if (actors === undefined) return
  const spent = new Map(keySpend.flatMap((row) => (row.period === "total" ? [[row.keyId, row.spent]] : [])))
  for (const { runId, budget } of runs) {
    const left = micro(budget - (spent.get(runId) ?? 0n))
    if (left <= 0n) continue
    const terms = { requestId: `last_${runId}`, least: left, target: left }
    const answer = await insisted(stage, async () => heldOf(await actors.runs.hold(runId, terms)))
    if (answer !== undefined) stage.violate(`the last ${left} of ${runId} cannot be held: ${answer}`)
    actors.runs.release(runId, terms.requestId)
  }
  for (const { keyId, limit = 0n, period } of known) {
    const left = micro(limit - (spent.get(keyId) ?? 0n))
    const keyHash = hashOf(keys.find((key) => key.keyId === keyId)?.secret ?? "")
    if (period !== "total" || left <= 0n) continue
    const asked = { requestId: `last_${keyId}`, tokens: 0, least: left, worst: left }
    const answer = await insisted(stage, async () => heldOf(await actors.keys.reserve(keyHash, asked)))
    // A key that has ended holds nothing more, and lets no call in.
    if (answer === "refused") {
      const counted = await actors.keys.count(keyHash, { secret: keyHash, counted: false, origin: { address: "" } })
      if (!(counted instanceof Failure) && ENDED.includes(counted.kind)) continue
    }
    if (answer !== undefined) stage.violate(`the last ${left} of ${keyId} cannot be held: ${answer}`)
    actors.keys.release(keyHash, asked.requestId)
  }
}

const ENDED: readonly string[] = ["revoked", "expired", "account-deleted", "account-frozen"]

/** Whoever has it in full answers so. */
function heldOf(reply: HoldOutcome | ReserveReply | Failure): { readonly kind: string } | Failure {
  if (reply instanceof Failure || typeof reply === "object") return reply
  return { kind: typeof reply === "bigint" ? "held" : reply }
}

/** What is left can be spent to the last rupiah, and the books are as they must be. */
export async function audit(scene: Scene): Promise<void> {
  const { stage, stories } = scene
  const { books } = scene.database
  await checkBooks(scene, true)
  const before = await books.dump()
  for (const { keyId, leased } of before.keySpend) {
    if (leased !== 0n) stage.violate(`with all processes stopped ${leased} of ${keyId} is leased`)
  }
  for (const { accountId, posted, leased } of before.balances) {
    if (leased !== 0n) stage.violate(`with all processes stopped ${leased} of ${accountId} is leased`)
    const grown = await books.growLease("prc_auditor", accountId, micro(posted), 0)
    const free = grown === undefined ? undefined : grown.lease.granted
    if (free !== posted) stage.violate(`of the ${posted} of ${accountId} only ${free} can be spent`)
  }
  const { said, counts } = stage
  const hasRoom = stage.replayBytes === AMPLE_BYTES
  const holdsLast = !counts.has("actor crashes" satisfies Fault)
  for (const broken of brokenPromises(before, stories, { said, holdsLast, hasRoom })) stage.violate(broken)
  const { bounds, clockGoesOn } = scene
  for (const broken of brokenBindings(before, stories, { bounds, said, clockGoesOn })) stage.violate(broken)
  for (const wrong of miscosted(before.usage, stage, scene.costs)) stage.violate(wrong)
}

/** Also on the way, while all is under way. */
export async function checkBooks(scene: Scene, quiet: boolean): Promise<void> {
  const { stage, database, limitsStay, clockGoesOn } = scene
  // Ceilings are set before anybody calls.
  const circumstances = { quiet, limitsStay, clockGoesOn, ceilingsStay: true }
  const dump = await database.books.dump()
  for (const found of violations(dump, circumstances)) stage.violate(toldOf(found))
  for (const passed of ceilingsPassed(dump, database.books.purseCharges, database.now())) stage.violate(passed)
}
