/**
 * What is to happen in one world, drawn from its seed: a list that can be cut down until only the story of a violation is
 * left. What is drawn later (how long a statement takes, what becomes of it) comes from the seed as well.
 */
import type { Random } from "../../actors/kernel/clock.ts"
import { seededRandom } from "../kernel/virtual-time.ts"
import { type Translated, TRANSLATED } from "../../src/language/request.ts"
import {
  drawFault,
  drawRates,
  firstClientFaults,
  keyFaults,
  type laterClientFaults,
  type Rates,
  sdkFaults,
  standstill,
  withBindings,
  withCeilings,
  withKeys,
  withLater,
  withLocks,
  withOwners,
  withSdks,
} from "./faults.ts"
import { AMPLE_BYTES, SCARCE_BYTES } from "./limits.ts"
import { accounts, keys, models, ownKeys, zones } from "./shop.ts"

export interface Plan {
  readonly seed: number
  /** Makes another course of chance from the same seed: 0, but where a story is being cut down. */
  readonly salt: number
  /** Events of the simulation until its faults stop and all must come to rest. */
  readonly steps: number
  readonly processes: number
  /** Actors take turns in an order drawn from the seed, and not at once. */
  readonly shuffled: boolean
  readonly rates: Rates
  /** Set before anybody calls, and for good. */
  readonly ceilings: readonly PlannedCeiling[]
  /** What keys are bound to before anybody calls. */
  readonly bounds: readonly PlannedBound[]
  /** What processes may keep of answers that may be asked for again. */
  readonly replayBytes: number
  readonly events: readonly PlannedEvent[]
}

/** What an account, or one of its keys, may spend within ten minutes. */
export interface PlannedCeiling {
  readonly account: number
  /** Index in `keys`. */
  readonly key: number | undefined
  readonly micro: number
  readonly pauseMinutes: number | undefined
}

/** What a key may be used for from now on; what is undefined is not bound. */
export interface PlannedBound {
  /** Index in `keys`. */
  readonly key: number
  readonly models: readonly string[] | undefined
  readonly endpoints: readonly Translated[] | undefined
  readonly maxRate: number | undefined
  readonly expiresInMs: number | undefined
}

export interface PlannedCall {
  readonly type: "call"
  readonly number: number
  /** Index in `keys`. */
  readonly key: number
  readonly format: Translated
  readonly model: string
  readonly stream: boolean
  readonly choices: number
  readonly maxTokens: number
  /** In characters. */
  readonly promptLength: number
  readonly searches: boolean
  readonly manners: (typeof firstClientFaults | typeof laterClientFaults)[number] | undefined
  /** How it repeats itself, if it carries an `Idempotency-Key`. */
  readonly keyed?: (typeof keyFaults)[number] | undefined
  /** How it is sent again, if an SDK makes it. */
  readonly sdk?: (typeof sdkFaults)[number] | undefined
  /** It asks for something else in as many bytes. */
  readonly asksOther?: boolean
  /** Milliseconds after which its process learns that it has left. */
  readonly unseenMs?: number
  /** Milliseconds until it leaves, or between two reads. */
  readonly paceMs: number
  /** Of what its backends do. */
  readonly seed: number
  /** Whether it is asked about in a dry run first. */
  readonly asksFirst?: boolean
  /** What it says of a run. */
  readonly run?: { readonly name: string; readonly budgetRp: number | undefined }
}

export type PlannedEvent = { readonly afterMs: number } & (
  | PlannedCall
  | { readonly type: "top-up"; readonly account: number; readonly micro: number; readonly twice: boolean }
  | { readonly type: "budget"; readonly key: number; readonly micro: number | undefined; readonly period: number }
  | { readonly type: "revoke"; readonly key: number }
  | { readonly type: "move"; readonly account: number; readonly zone: number }
  | {
      readonly type: "poison"
      readonly process: number
      readonly key: number
      readonly kind: "key" | "account" | "run" | "breaker"
    }
  | { readonly type: "crash" | "replace" | "lose-lock"; readonly process: number }
  | { readonly type: "deafen"; readonly process: number; readonly forMs: number }
  | { readonly type: "outage"; readonly forMs: number }
  | { readonly type: "stand"; readonly process: number; readonly forMs: number; readonly losesLock: boolean }
  | { readonly type: "jump" | "day" | "minutes"; readonly byMs: number }
  | { readonly type: "resume"; readonly ceiling: number }
  | { readonly type: "bind"; readonly bound: PlannedBound }
)

const MAX_PROCESSES = 3
const HOUR_MS = 3_600_000
const MINUTE_MS = 60_000
/** About so many steps come of one event. */
const STEPS_AN_EVENT = 12

export function drawPlan(seed: number, steps: number): Plan {
  const plan = drawFirstPlan(seed, steps)
  const random = seededRandom(seed ^ 0x2545f491)
  const owners = seededRandom(seed ^ 0x51ed270b)
  const locks = seededRandom(seed ^ 0x6a09e667)
  const keyed = seededRandom(seed ^ 0x3c6ef372)
  const rates = withKeys(withLocks(withOwners(withLater(plan.rates, random), owners), locks), keyed)
  const runs = seededRandom(seed ^ 0x1f83d9ab)
  const events = plan.events.flatMap((event) => [
    event.type === "call" ? withKey(withLaterManners(event, random, rates), keyed, rates) : event,
    ...drawLater(random, rates, plan.processes),
    ...drawMove(owners, rates),
  ])
  const children = seededRandom(seed ^ 0x5be0cd19)
  const withRuns = events.map((event) => withRun(event, runs))
  const withChildren = withRuns.map((event) => withChild(event, children))
  const asking = seededRandom(seed ^ 0x510e527f)
  const share = asking() ** 3
  const asked = withChildren.map((event) => (event.type === "call" ? { ...event, asksFirst: asking() < share } : event))
  return drawBounds(drawSdks(drawCeilings({ ...plan, rates, events: asked }, seededRandom(seed ^ 0x1b873593))))
}

/** Without the classes of faults that came later. */
export function drawFirstPlan(seed: number, steps: number): Plan {
  const random = seededRandom(seed)
  const rates = drawRates(random)
  const processes = 1 + whole(random, MAX_PROCESSES)
  const shuffled = random() < 0.3
  const hurry = 2 + random() ** 3 * 800
  const events: PlannedEvent[] = []
  for (let number = 0; number < Math.ceil(steps / STEPS_AN_EVENT); number++) {
    const afterMs = Math.floor(-Math.log(1 - random()) * hurry)
    events.push({ afterMs, ...drawEvent(random, rates, number, processes) })
  }
  return {
    seed,
    salt: 0,
    steps,
    processes,
    shuffled,
    rates,
    ceilings: [],
    bounds: [],
    replayBytes: SCARCE_BYTES,
    events,
  }
}

function drawEvent(random: Random, rates: Rates, number: number, processes: number): PlannedEventBody {
  const process = whole(random, processes)
  const key = whole(random, ownKeys)
  if (random() < rates["process crashes"]) return { type: "crash", process }
  if (random() < rates["process is replaced by a new one"]) return { type: "replace", process }
  if (random() < rates["actor crashes"])
    return { type: "poison", process, key, kind: random() < 0.5 ? "key" : "account" }
  if (random() < rates["process loses its session lock"]) return { type: "lose-lock", process }
  if (random() < rates["process is deaf to its neighbours"])
    return { type: "deafen", process, forMs: whole(random, 3_000) }
  if (random() < rates["database is away"]) return { type: "outage", forMs: Math.floor(random() ** 3 * 30_000) }
  if (random() < rates["wall clock jumps"])
    return { type: "jump", byMs: Math.floor((random() - 0.3) * 10 ** (3 + 6 * random())) }
  if (random() < rates["key is revoked"] / 4) return { type: "revoke", key }
  if (random() < rates["budget is changed"]) {
    const micro = random() < 0.2 ? undefined : Math.floor(random() ** 2 * 8_000_000)
    return { type: "budget", key, micro, period: whole(random, 3) }
  }
  if (random() < 0.06) {
    const micro = 10_000 + Math.floor(random() ** 2 * 6_000_000)
    const twice = random() < rates["top-up is told twice"] * 4
    return { type: "top-up", account: whole(random, accounts.length), micro, twice }
  }
  return drawCall(random, rates, number, key)
}

function withLaterManners(call: PlannedEvent & PlannedCall, random: Random, rates: Rates): PlannedEvent & PlannedCall {
  const manners = drawFault(random, ["client leaves late", "client asks for many answers"], rates)
  const much = random()
  if (manners === "client leaves late" && call.stream) return { ...call, manners, paceMs: Math.floor(much * 40_000) }
  if (manners === "client asks for many answers" && call.format === "chat")
    return { ...call, manners, choices: 2 + Math.floor(much * 7) }
  return call
}

const withKey = (call: PlannedEvent & PlannedCall, random: Random, rates: Rates): PlannedEvent => ({
  ...call,
  keyed: drawFault(random, keyFaults, rates),
})

/** The runs of each key. In rupiah; a key's balance and budget may be less. */
const runBudgets: Readonly<Record<string, number>> = { r0: 1, r1: 2, r2: 5 }

/** Some calls are of a run; most of them say its budget, and a few another one. */
function withRun(event: PlannedEvent, random: Random): PlannedEvent {
  const [chance, pick, says] = [random(), Math.floor(random() * 3), random()]
  if (event.type === "poison" && chance < 0.3) return { ...event, kind: "run" }
  if (event.type !== "call" || chance >= 0.3) return event
  const name = `r${pick}`
  const budgetRp = says < 0.25 ? undefined : says < 0.3 ? 3 : runBudgets[name]
  return { ...event, run: { name, budgetRp } }
}

/** What was meant for a key may be meant for one of its children. */
function withChild(event: PlannedEvent, random: Random): PlannedEvent {
  const [chance, pick] = [random(), random()]
  if (!("key" in event) || chance >= 0.5) return event
  const of = keys[event.key]?.keyId
  const children = keys.flatMap(({ parentId }, key) => (parentId === of ? [key] : []))
  const child = children[Math.floor(pick * children.length)]
  return child === undefined ? event : { ...event, key: child }
}

/** Half of the worlds have none. Ceilings are of a few calls, some of less than one. */
function drawCeilings(plan: Plan, random: Random): Plan {
  if (random() < 0.5) return plan
  const rates = withCeilings(plan.rates, random)
  const ceilings: PlannedCeiling[] = []
  const draw = (chance: number, account: number, key: number | undefined) => {
    const [is, much, pauses] = [random() < chance, random(), random()]
    const pauseMinutes = pauses < 0.5 ? undefined : 1 + Math.floor(pauses * 10)
    if (is) ceilings.push({ account, key, micro: 20_000 + Math.floor(much ** 2 * 8_000_000), pauseMinutes })
  }
  for (const account of accounts.keys()) draw(0.4, account, undefined)
  for (const [key, { accountId }] of keys.entries()) {
    draw(
      0.5,
      accounts.findIndex((account) => account.accountId === accountId),
      key,
    )
  }
  const events = plan.events.flatMap((event): PlannedEvent[] => {
    const isPoison = event.type === "poison" && random() < 0.3
    const drawn: PlannedEvent[] = [isPoison ? { ...event, kind: "breaker" } : event]
    if (ceilings.length > 0 && random() < rates["owner resumes what was paused"])
      drawn.push({ afterMs: 0, type: "resume", ceiling: whole(random, ceilings.length) })
    if (random() < rates["minutes go by"])
      drawn.push({ afterMs: 0, type: "minutes", byMs: whole(random, 15 * MINUTE_MS) })
    return drawn
  })
  return { ...plan, rates, ceilings, events }
}

/** Half of the worlds have none. */
function drawSdks(plan: Plan): Plan {
  const random = seededRandom(plan.seed ^ 0x2f0b4a47)
  if (random() < 0.5) return plan
  const rates = withSdks(plan.rates, random)
  const replayBytes = random() < 0.3 ? SCARCE_BYTES : AMPLE_BYTES
  const events = plan.events.map((event) => (event.type === "call" ? withSdk(event, random, rates) : event))
  return { ...plan, rates, replayBytes, events }
}

const cuts = ["client leaves before the answer", "client leaves in mid-answer", "client leaves late"] as const

/** Mostly its connection is cut, and that is not always seen at once. */
function withSdk(call: PlannedEvent & PlannedCall, random: Random, rates: Rates): PlannedEvent & PlannedCall {
  const sdk = drawFault(random, sdkFaults, rates)
  const [cut, pace, isUnseen, unseen] = [random(), random(), random(), random()]
  if (sdk === undefined || call.keyed !== undefined) return call
  const manners = cuts[Math.floor(cut * 4)] ?? call.manners
  const unseenMs = isUnseen < 0.5 ? Math.floor(unseen ** 2 * 20_000) : 0
  return { ...call, sdk, manners, paceMs: Math.floor(pace ** 2 * 3_000), unseenMs }
}

/** Half of the worlds have none. */
function drawBounds(plan: Plan): Plan {
  const random = seededRandom(plan.seed ^ 0x7137449f)
  if (random() < 0.5) return plan
  const rates = withBindings(plan.rates, random)
  const draw = (key: number) => drawBound(random, rates, key)
  const bounds = [...keys.keys()].filter(() => random() < 0.4).map(draw)
  const events = plan.events.flatMap((event): PlannedEvent[] =>
    random() < rates["binding of a key is changed"]
      ? [event, { afterMs: 0, type: "bind", bound: draw(whole(random, keys.length)) }]
      : [event],
  )
  return { ...plan, rates, bounds, events }
}

/** Formats and models are mostly few; the rates are those of the middle of the catalogue. */
function drawBound(random: Random, rates: Rates, key: number): PlannedBound {
  const some = <T>(all: readonly T[]): T[] | undefined => {
    const found = all.filter(() => random() < 0.5)
    return random() < 0.4 && found.length > 0 ? found : undefined
  }
  const ofModels = some(models.map(({ id }) => id))
  const endpoints = some(["chat", "messages", "responses"] as const)
  const [isCheap, rate, expires, when] = [random() < 0.4, random(), random(), random()]
  return {
    key,
    models: ofModels,
    endpoints,
    maxRate: isCheap ? Math.floor(400 * 40 ** rate) : undefined,
    expiresInMs: expires < rates["key expires"] ? Math.floor(when ** 2 * 40_000) : undefined,
  }
}

/** What happens just after another event. */
function drawLater(random: Random, rates: Rates, processes: number): PlannedEvent[] {
  const events: PlannedEvent[] = []
  if (random() < rates["process stands still"]) {
    const process = whole(random, processes)
    events.push({ afterMs: 0, type: "stand", process, forMs: standstill(random), losesLock: random() < 0.2 })
  }
  if (random() < rates["a day goes by"]) events.push({ afterMs: 0, type: "day", byMs: whole(random, 40 * HOUR_MS) })
  return events
}

/** An owner who looks for a zone in which the day is fresh. */
function drawMove(random: Random, rates: Rates): PlannedEvent[] {
  if (random() >= rates["time zone changes"]) return []
  return [{ afterMs: 0, type: "move", account: whole(random, accounts.length), zone: whole(random, zones.length) }]
}

type PlannedEventBody = PlannedEvent extends infer E
  ? E extends { afterMs: number }
    ? Omit<E, "afterMs">
    : never
  : never

function drawCall(random: Random, rates: Rates, number: number, key: number): PlannedCall {
  const model = models[whole(random, models.length)]!
  const endpoints = TRANSLATED.filter((one) => model.endpoints.has(one))
  const format = endpoints[whole(random, endpoints.length)]!
  return {
    type: "call",
    number,
    key,
    format,
    model: model.id,
    stream: random() < 0.6,
    choices: format === "chat" && random() < 0.1 ? 2 : 1,
    maxTokens: 1 + Math.floor(random() ** 3 * 300),
    promptLength: 10 + Math.floor(random() ** 4 * 4_000),
    searches: format === "messages" && model.features.length > 0 && random() < 0.4,
    manners: drawFault(random, firstClientFaults, rates),
    paceMs: Math.floor(random() ** 3 * 4_000),
    seed: whole(random, 2 ** 31),
  }
}

const whole = (random: Random, below: number): number => Math.floor(random() * below)
