/** What can go wrong in a simulated world. Each seed leaves some classes out altogether, so that the others get deep. */
import type { Random } from "../../actors/kernel/random.ts"

/** Of a backend's one answer. */
export const backendFaults = [
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
export const clientFaults = [
  "client leaves before the answer",
  "client leaves in mid-answer",
  "client reads slowly",
  "client stops reading",
  "client calls again after a failure",
] as const

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

const all = [...backendFaults, ...statementFaults, ...clientFaults, ...worldFaults] as const
export type Fault = (typeof all)[number]
export const faultClasses: readonly Fault[] = all

/** How likely each class is where it could happen. */
export type Rates = Readonly<Record<Fault, number>>

export function drawRates(random: Random): Rates {
  const calm = random() < 0.05
  const share = random()
  const draw = (most: number) => (!calm && random() < share ? random() * most : 0)
  const entries = [
    ...backendFaults.map((fault) => [fault, draw(0.12)] as const),
    ...statementFaults.map((fault) => [fault, draw(0.1)] as const),
    ...clientFaults.map((fault) => [fault, draw(0.25)] as const),
    ...worldFaults.map((fault) => [fault, draw(0.1)] as const),
  ]
  return Object.fromEntries(entries) as Rates
}

/** One of these classes, or none: each as likely as its rate. */
export function drawFault<F extends Fault>(random: Random, faults: readonly F[], rates: Rates): F | undefined {
  let left = random()
  for (const fault of faults) {
    left -= rates[fault]
    if (left < 0) return fault
  }
  return undefined
}
