/** What can go wrong in a simulated world. Each seed leaves some classes out altogether, so that the others get deep. */
import type { Random } from "../../actors/kernel/clock.ts"

/** Of a backend's one answer. */
const firstBackendFaults = [
  "backend says 400",
  "backend says 401",
  "backend says 408",
  "backend says 413",
  "backend says 422",
  "backend says 429 without a wait",
  "backend says 429 with a short wait",
  "backend says 429 with a long wait",
  "backend says 500",
  "backend says 529",
  "backend says that the prompt is too long",
  "backend takes no connection",
  "backend hangs up after the head",
  "backend hangs up in mid-answer",
  "backend sends an error in its answer",
  "backend ends without a terminal event",
  "backend is silent before the head",
  "backend falls silent in mid-answer",
  "backend counts nothing",
  "backend counts nonsense",
  "backend counts more than was paid for",
  "backend sends damaged bytes",
  "backend is slow",
  "backend says much",
] as const

const laterBackendFaults = [
  "backend counts at the edge of what can be",
  "backend repeats the request at its end",
  "backend sends its events in pieces",
  "backend sends comments only",
  "backend never ends",
  "backend answers at length",
  "backend sends fast and hangs up on who reads slowly",
] as const

/** These after those, so that a world without them is what it was. */
export const backendFaults = [...firstBackendFaults, ...laterBackendFaults] as const

/** Of one statement on its way to the database and back. */
export const statementFaults = [
  "statement lost on its way",
  "statement done, its reply lost",
  "statement done after its caller gave it up",
  "connection reset before the statement",
  "connection reset after the statement",
  "statement slow",
] as const

/** Of one client's call. */
export const firstClientFaults = [
  "client leaves before the answer",
  "client leaves in mid-answer",
  "client reads slowly",
  "client stops reading",
  "client calls again after a failure",
] as const

export const laterClientFaults = ["client leaves late", "client asks for many answers"] as const

/** What happens to the whole. */
const worldFaults = [
  "process crashes",
  "process crashes just after it answered",
  "process is replaced by a new one",
  "process loses its session lock",
  "database is away",
  "process is deaf to its neighbours",
  "actor crashes",
  "wall clock jumps",
  "key is revoked",
  "budget is changed",
  "top-up is told twice",
] as const

/** Classes that came later: drawn by themselves, so that worlds which were remembered before them stay what they were. */
const laterFaults = [
  ...laterBackendFaults,
  ...laterClientFaults,
  "process stands still",
  "process stands still as it settles",
  "a day goes by",
] as const

/** What owners try, drawn by itself as well. */
const ownerFaults = ["time zone changes"] as const

/** What somebody does at the database itself, drawn by itself as well. */
const lockFaults = ["rows of an account are locked"] as const

/** Of a call that carries an `Idempotency-Key`, drawn by itself as well. */
export const keyFaults = ["client asks again with the same key", "client asks twice at once with the same key"] as const

/** Of a call that an SDK makes, which says how often it has sent it; drawn by itself as well. */
export const sdkFaults = [
  "SDK sends its call again",
  "SDK sends two equal calls at once",
  "SDK sends another call as if it were a repeat",
] as const

/** What befalls ceilings of ten minutes, drawn by itself as well. */
const ceilingFaults = ["owner resumes what was paused", "minutes go by"] as const

/** What owners bind their keys to, drawn by itself as well. */
const bindingFaults = ["key expires", "binding of a key is changed"] as const

const all = [
  ...firstBackendFaults,
  ...statementFaults,
  ...firstClientFaults,
  ...worldFaults,
  ...laterFaults,
  ...ownerFaults,
  ...lockFaults,
  ...keyFaults,
  ...ceilingFaults,
  ...sdkFaults,
  ...bindingFaults,
] as const
export type Fault = (typeof all)[number]
export const faultClasses: readonly Fault[] = all

/** How likely each class is where it could happen. */
export type Rates = Readonly<Record<Fault, number>>

export function drawRates(random: Random): Rates {
  const calm = random() < 0.05
  const share = random()
  const draw = (most: number) => (!calm && random() < share ? random() * most : 0)
  const entries = [
    ...firstBackendFaults.map((fault) => [fault, draw(0.12)] as const),
    ...statementFaults.map((fault) => [fault, draw(0.1)] as const),
    ...firstClientFaults.map((fault) => [fault, draw(0.25)] as const),
    ...worldFaults.map((fault) => [fault, draw(0.1)] as const),
  ]
  const later = [
    ...laterFaults,
    ...ownerFaults,
    ...lockFaults,
    ...keyFaults,
    ...ceilingFaults,
    ...sdkFaults,
    ...bindingFaults,
  ]
  const none = later.map((fault) => [fault, 0] as const)
  return Object.fromEntries([...entries, ...none]) as Rates
}

/** `random` is another than the one that the others were drawn from. */
export function withLater(rates: Rates, random: Random): Rates {
  const share = random()
  const drawn = laterFaults.map((fault) => [fault, random() < share ? random() * laterMost[fault] : 0] as const)
  return { ...rates, ...(Object.fromEntries(drawn) as Pick<Rates, (typeof laterFaults)[number]>) }
}

/** `random` is another one still. */
export const withOwners = (rates: Rates, random: Random): Rates => ({
  ...rates,
  "time zone changes": random() < 0.5 ? random() ** 2 * 0.3 : 0,
})

/** `random` is yet another one. */
export const withLocks = (rates: Rates, random: Random): Rates => ({
  ...rates,
  "rows of an account are locked": random() < 0.5 ? random() ** 2 * 0.5 : 0,
})

/** `random` is another one again. */
export const withKeys = (rates: Rates, random: Random): Rates => {
  const share = random()
  const drawn = keyFaults.map((fault) => [fault, random() < share ? random() ** 2 * 0.4 : 0] as const)
  return { ...rates, ...(Object.fromEntries(drawn) as Pick<Rates, (typeof keyFaults)[number]>) }
}

/** `random` is another one for itself. */
export const withSdks = (rates: Rates, random: Random): Rates => {
  const share = random()
  const drawn = sdkFaults.map((fault) => [fault, random() < share ? random() * 0.3 : 0] as const)
  return { ...rates, ...(Object.fromEntries(drawn) as Pick<Rates, (typeof sdkFaults)[number]>) }
}

/** `random` is another one for itself too. */
export const withBindings = (rates: Rates, random: Random): Rates => ({
  ...rates,
  "key expires": random(),
  "binding of a key is changed": random() < 0.5 ? 0 : random() * 0.15,
})

/** `random` is another one once more. */
export const withCeilings = (rates: Rates, random: Random): Rates => ({
  ...rates,
  "owner resumes what was paused": random() * 0.1,
  "minutes go by": random() ** 2 * 0.2,
})

const laterMost: Readonly<Record<(typeof laterFaults)[number], number>> = {
  "backend counts at the edge of what can be": 0.2,
  "backend repeats the request at its end": 0.05,
  "backend sends its events in pieces": 0.03,
  "backend sends comments only": 0.03,
  "backend never ends": 0.02,
  "backend answers at length": 0.1,
  "backend sends fast and hangs up on who reads slowly": 0.15,
  "client leaves late": 0.2,
  "client asks for many answers": 0.3,
  "a day goes by": 0.08,
  "process stands still": 0.1,
  "process stands still as it settles": 0.1,
}

/** How long a process stands still: 0.2 to 40 s, longer than any of its deadlines. */
export const standstill = (random: Random): number => Math.floor(200 * 200 ** random())

/** One of these classes, or none: each as likely as its rate. */
export function drawFault<F extends Fault>(random: Random, faults: readonly F[], rates: Rates): F | undefined {
  let left = random()
  for (const fault of faults) {
    left -= rates[fault]
    if (left < 0) return fault
  }
  return undefined
}

/** How long after the database, or an actor, is well again its absence may be felt, while the process runs. */
export const TROUBLE_LASTS_MS = 10_000
