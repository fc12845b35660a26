/**
 * How each member of a model's pool has done in the last minutes, as this process saw it: one slot a minute in a ring, so that it
 * takes the same room however many calls there are. Milliseconds. Nothing of what a backend said is kept, only its class.
 */
import type { Clock } from "../../actors/kernel/clock.ts"
import type { Fault } from "../upstream/client.ts"

/** How a try ended, as much of it as is looked at. */
type End = { readonly kind: "answered" } | { readonly kind: "failed"; readonly fault: Fault }

export const failureClasses = [
  "rate_limited",
  /** The backend did not take the request; nothing says that it is not well. */
  "refused_request",
  /** Our credentials, our configuration or our quota. */
  "needs_attention",
  "timeout",
  "unreachable",
  "server_error",
  /** It began to answer, and broke off or made no sense. */
  "broken_answer",
] as const
export type FailureClass = (typeof failureClasses)[number]

export interface BackendView {
  readonly member: string
  readonly model: string
  /** Tries, each one of its own. */
  readonly calls: number
  readonly answered: number
  readonly failures: Readonly<Record<FailureClass, number>>
  /** Since this process began. A request that was not taken is neither. */
  readonly everAnswered: number
  readonly everFailed: number
  /** To the first content, of tries that had some; within a tenth. Undefined without any. */
  readonly p50Ms: number | undefined
  readonly p95Ms: number | undefined
  /** Also of longer ago. */
  readonly lastFailure:
    | { readonly at: number; readonly class: FailureClass; readonly status: number | undefined }
    | undefined
}

/** One try that is under way. */
export interface Watch {
  content(): void
  /** Nothing is learnt of one that was given up because nobody wanted it any more. */
  ended(end: End, givenUp: boolean): void
}

export const HEALTH_MINUTES = 10
const MINUTE_MS = 60_000
/** Bucket n ends at FIRST_MS × STEP^n: the last at over seven minutes. */
const FIRST_MS = 5
const STEP = 1.1
const BUCKETS = 121

interface Slot {
  readonly minute: number
  answered: number
  readonly failures: Record<FailureClass, number>
  readonly firstContent: Uint32Array
}

interface Backend {
  readonly member: string
  readonly model: string
  readonly slots: Map<number, Slot>
  everAnswered: number
  everFailed: number
  lastFailure: BackendView["lastFailure"]
}

class Watched implements Watch {
  readonly #health: BackendHealth
  readonly #clock: Clock
  readonly #member: string
  readonly #model: string
  readonly #startedAt: number
  #firstMs: number | undefined

  constructor(health: BackendHealth, clock: Clock, member: string, model: string) {
    this.#health = health
    this.#clock = clock
    this.#member = member
    this.#model = model
    this.#startedAt = clock.monotonic()
  }

  content(): void {
    this.#firstMs ??= this.#clock.monotonic() - this.#startedAt
  }

  ended(end: End, givenUp: boolean): void {
    if (givenUp && end.kind === "failed") return
    this.#health.ended(this.#member, this.#model, end, this.#firstMs)
  }
}

/** Told of each try that has ended. */
type Heard = (member: string, model: string, outcome: "answered" | FailureClass, firstMs: number | undefined) => void

export class BackendHealth {
  readonly #clock: Clock
  readonly #heard: Heard
  /** As many as the catalogue has members of pools, and those that it had while their last tries were under way. */
  readonly #backends = new Map<string, Backend>()

  constructor(clock: Clock, heard: Heard = () => {}) {
    this.#clock = clock
    this.#heard = heard
  }

  watch(member: string, model: string): Watch {
    return new Watched(this, this.#clock, member, model)
  }

  /** A try has ended. `firstMs`: when its first content came; undefined where none did. */
  ended(member: string, model: string, end: End, firstMs: number | undefined): void {
    const backend = this.#backend(member, model)
    const slot = this.#slot(backend)
    if (firstMs !== undefined) add(slot.firstContent, bucketOf(firstMs), 1)
    if (end.kind === "answered") {
      slot.answered += 1
      backend.everAnswered += 1
      this.#heard(member, model, "answered", firstMs)
    } else {
      const found = classOf(end.fault)
      if (found !== "refused_request") backend.everFailed += 1
      slot.failures[found] += 1
      backend.lastFailure = { at: this.#clock.now(), class: found, status: end.fault.status }
      this.#heard(member, model, found, firstMs)
    }
  }

  /** The catalogue has changed, and has these. What is known of members that are gone is forgotten. */
  replace(members: readonly { readonly model: string; readonly member: { readonly id: string } }[]): void {
    const names = new Set(members.map(({ model, member }) => nameOf(member.id, model)))
    for (const name of this.#backends.keys()) if (!names.has(name)) this.#backends.delete(name)
  }

  views(): BackendView[] {
    return [...this.#backends.values()].map((backend) => this.#view(backend))
  }

  #view({ member, model, slots, everAnswered, everFailed, lastFailure }: Backend): BackendView {
    const since = this.#minute() - HEALTH_MINUTES
    const failures = none()
    const firstContent = new Uint32Array(BUCKETS)
    let answered = 0
    for (const slot of slots.values()) {
      if (slot.minute <= since) continue
      answered += slot.answered
      for (const name of failureClasses) failures[name] += slot.failures[name]
      for (const [bucket, count] of slot.firstContent.entries()) add(firstContent, bucket, count)
    }
    const failed = failureClasses.reduce((sum, name) => sum + failures[name], 0)
    const at = (share: number) => quantile(firstContent, share)
    return {
      member,
      model,
      calls: answered + failed,
      answered,
      failures,
      everAnswered,
      everFailed,
      p50Ms: at(0.5),
      p95Ms: at(0.95),
      lastFailure,
    }
  }

  #backend(member: string, model: string): Backend {
    const name = nameOf(member, model)
    const known = this.#backends.get(name)
    if (known !== undefined) return known
    const backend = { member, model, slots: new Map(), everAnswered: 0, everFailed: 0, lastFailure: undefined }
    this.#backends.set(name, backend)
    return backend
  }

  #slot({ slots }: Backend): Slot {
    const minute = this.#minute()
    const place = minute % HEALTH_MINUTES
    const known = slots.get(place)
    if (known?.minute === minute) return known
    const slot = { minute, answered: 0, failures: none(), firstContent: new Uint32Array(BUCKETS) }
    slots.set(place, slot)
    return slot
  }

  #minute(): number {
    return Math.floor(this.#clock.now() / MINUTE_MS)
  }
}

const nameOf = (member: string, model: string): string => JSON.stringify([member, model])

export function classOf(fault: Fault): FailureClass {
  const { failure } = fault
  if (failure.code === "upstream.rate_limited") return "rate_limited"
  if (fault.alert) return "needs_attention"
  if (failure.code.startsWith("upstream.")) return "refused_request"
  if (failure.detail.stream === "upstream_timeout") return "timeout"
  if (fault.opened) return "broken_answer"
  return fault.status === undefined ? "unreachable" : "server_error"
}

const none = (): Record<FailureClass, number> => ({
  rate_limited: 0,
  refused_request: 0,
  needs_attention: 0,
  timeout: 0,
  unreachable: 0,
  server_error: 0,
  broken_answer: 0,
})

const add = (counts: Uint32Array, bucket: number, count: number): void => {
  counts[bucket] = (counts[bucket] ?? 0) + count
}

/** The step of a ring that a time falls into. */
export const bucketOf = (ms: number): number =>
  Math.min(BUCKETS - 1, Math.max(0, Math.ceil(Math.log(ms / FIRST_MS) / Math.log(STEP))))

/** A step's end, in milliseconds. */
export const endOfBucket = (bucket: number): number => Math.round(FIRST_MS * STEP ** bucket)

/** The end of the bucket in which the share is reached. */
function quantile(counts: Uint32Array, share: number): number | undefined {
  const total = counts.reduce((sum, count) => sum + count, 0)
  let seen = 0
  for (const [bucket, count] of counts.entries()) {
    seen += count
    if (count > 0 && seen >= share * total) return endOfBucket(bucket)
  }
  return undefined
}
