/**
 * A key as it is in durable state, what has been spent of it, what that says of a call, and the messages of its actor. Money in
 * micro-rupiah.
 *
 * Then reads of durable state that may change at any time. One is under way at a time, so that an older answer never overtakes a
 * newer one; a change that is announced meanwhile is read after it. Whoever announced one is answered when what was read
 * after that is in force.
 */
import type { Budget, KeyLimits, KeyWindows, WindowViews, WindowWaits } from "./key-limits.ts"
import type { CountedWindow, CountNews } from "./counted-window.ts"
import type { Reply } from "./kernel/actor.ts"
import type { Clock } from "./kernel/clock.ts"
import type { LeaseNews, Share } from "./lease.ts"
import type { Micro } from "./money/micro.ts"
import type { Network } from "./network.ts"
import type { PeriodStarts, RunningPeriods, SpendingPeriod } from "./period.ts"

export interface KeyRecord extends KeyLimits {
  readonly keyId: string
  readonly accountId: string
  readonly revoked: boolean
  readonly accountDeleted: boolean
  readonly accountFrozen: boolean
  readonly timeZone: string
  /** What was running when the time zone last changed. */
  readonly running?: RunningPeriods | undefined
  readonly budget: { readonly limit: Micro; readonly period: SpendingPeriod } | undefined
  readonly fallback: Fallback
  /** False where a call that an SDK sends again by itself is a call like any other. */
  readonly replaysRetries?: boolean | undefined
  /** From when on it makes no calls, by the wall clock; undefined for one that does not expire. */
  readonly expiresAt?: number | undefined
  /** The key that this one is a child of: its calls are the parent's too. */
  readonly parent?: ParentKey | undefined
  /** Undefined for a key that may be used for everything from everywhere. */
  readonly binding?: KeyBinding | undefined
  /** The purses of the ceilings of ten minutes that stop it: its own, and its account's. */
  readonly breakers?: readonly string[] | undefined
  /** It was stopped by one of them. Until then, by the wall clock; endless until its owner resumes it. */
  readonly paused?: { readonly until: number } | undefined
  /** This is the hash of a later secret of a key that was rotated; the key's own actor is found by this one. */
  readonly movedTo?: string | undefined
  /** When secrets that were replaced stop to work, by their hash; wall clock. */
  readonly secretEnds?: Readonly<Record<string, number>> | undefined
}

/** Of a child; it never changes. */
export interface ParentKey {
  readonly keyId: string
  /** The id of its actor. */
  readonly keyHash: string
}

/** What a key may be used for, and from where; what is undefined is not bound. */
export interface KeyBinding {
  readonly models?: ReadonlySet<string> | undefined
  /** Wire formats that clients speak. */
  readonly endpoints?: ReadonlySet<string> | undefined
  readonly networks?: readonly Network[] | undefined
  /** Of the pages that may call with it from a browser; without them none may, and no call is asked where it comes from. */
  readonly origins?: ReadonlySet<string> | undefined
  /** For one token: no rate of a model may be above it. */
  readonly maxRate?: Micro | undefined
  /** What is bound as well: of a child's call, its parent's as it is when the call comes. */
  readonly within?: KeyBinding | undefined
}

/** Which models of a chain may answer for the one that was asked for: any, those that cost no more, or none. */
export type Fallback = "any" | "never_dearer" | "off"

/** A key as it is in durable state: what it has spent is of the periods that begin at `starts`. */
export interface LoadedKey {
  readonly record: KeyRecord
  readonly starts: PeriodStarts
  readonly spent: Spent
}

export type Spent = Readonly<Record<SpendingPeriod, Micro>>

/** The limits that a key has, as its rate headers tell them. */
export interface KeyView extends WindowViews {
  readonly budget:
    | { readonly limit: Micro; readonly usage: Micro; readonly remaining: Micro; readonly period: SpendingPeriod }
    | undefined
}

/** What the key would say to a call now. */
export interface KeyForecast extends WindowWaits {
  readonly view: KeyView
  /** Undefined without a budget, and of one that never begins anew. */
  readonly budgetEndsInS: number | undefined
}

export type CountReply =
  | { readonly kind: "unknown" }
  | { readonly kind: "moved"; readonly to: string }
  /** The secret was replaced, and its time is over. */
  | { readonly kind: "ended"; readonly record: KeyRecord }
  /** The key is bound to networks, and this is none of them. */
  | { readonly kind: "elsewhere"; readonly record: KeyRecord }
  | {
      readonly kind: "requests-exceeded"
      readonly retryAfterS: number
      readonly view: KeyView
      readonly record: KeyRecord
    }
  | {
      readonly kind: Refusal
      readonly pauseEndsInS: number | undefined
      readonly view: KeyView
      readonly record: KeyRecord
    }
  /** `countedAtMs`: on the monotonic clock; undefined where nothing was counted. */
  | { readonly kind: "active"; readonly record: KeyRecord; readonly countedAtMs: number | undefined }

/** Why no call of a key is taken, whatever it asks for. */
type Refusal = "revoked" | "expired" | "account-deleted" | "account-frozen" | "paused"

/**
 * What a key says to a call that comes with it, before the call is looked at. In the order of decisions §4.4. Wall
 * clock, in milliseconds.
 */
export function refusalOf(record: KeyRecord, nowMs: number): Refusal | undefined {
  if (record.revoked) return "revoked"
  if (record.expiresAt !== undefined && nowMs >= record.expiresAt) return "expired"
  if (record.accountDeleted) return "account-deleted"
  if (record.accountFrozen) return "account-frozen"
  return record.paused !== undefined && nowMs < record.paused.until ? "paused" : undefined
}

/** Whole seconds until a pause ends by itself; undefined where there is none, or it lasts until the key is resumed. */
export const pauseEndsInS = ({ paused }: KeyRecord, nowMs: number): number | undefined =>
  paused === undefined || paused.until === Infinity ? undefined : Math.ceil((paused.until - nowMs) / 1_000)

/** Where a call comes from. */
export interface Origin {
  /** The client's network address, looked up when it is asked for; empty where there is none any more. */
  readonly address: string
}

/** A call that has come. */
export interface Counting {
  /** The hash of the secret that it has; undefined of a call that has a child's. */
  readonly secret: string | undefined
  /** One that is free of the request window is looked at, not counted. */
  readonly counted: boolean
  /** Undefined of a call that was let in from there before. */
  readonly origin: Origin | undefined
}

/** Why a call that was let in when it came is not taken any more. A pause is said by the ceilings, which are asked themselves. */
export type LateRefusal = Exclude<Refusal, "paused">

export type ReserveReply =
  /** `hold` is undefined for a key without a budget. */
  | { readonly kind: "reserved"; readonly hold: Micro | undefined; readonly starts: PeriodStarts }
  /** `retryAfterS` is undefined when no wait helps. */
  | { readonly kind: "tokens-exceeded" | "budget-exceeded"; readonly retryAfterS: number | undefined }
  /** The budget is short here, and whether there is more could not be found out. */
  | { readonly kind: "unavailable" }
  /** The key has ended while the call's body was on its way. */
  | { readonly kind: "refused"; readonly refusal: LateRefusal }

export interface Reservation {
  readonly requestId: string
  /** Estimated input and minimal answer. */
  readonly tokens: number
  readonly least: Micro
  readonly worst: Micro
}

/** What a call has come to. */
export interface CallUsage {
  readonly requestId: string
  /** Of all four buckets. */
  readonly tokens: number
  readonly actual: Micro
  /** The periods that the call was admitted in, for a key that was started again since. */
  readonly starts: PeriodStarts
}

export type KeyCommand =
  | { readonly type: "count"; readonly call: Counting; readonly reply: Reply<CountReply> }
  /** The call was refused by another key's window of requests. */
  | { readonly type: "uncount"; readonly countedAtMs: number }
  | { readonly type: "reserve"; readonly reservation: Reservation; readonly reply: Reply<ReserveReply> }
  /** The account held less than the key did; the key needs no more. */
  | { readonly type: "trim"; readonly requestId: string; readonly hold: Micro }
  /** Answers with what the budget pays of what the call costs. */
  | { readonly type: "settle"; readonly usage: CallUsage; readonly reply: Reply<Micro> }
  | { readonly type: "release"; readonly requestId: string }
  /** Some of a charge, or all of it, that was not booked after all. */
  | { readonly type: "unsettle"; readonly charge: Micro; readonly starts: PeriodStarts }
  | { readonly type: "view"; readonly reply: Reply<KeyView> }
  /** What would be said to a call of so many tokens now; nothing is counted or held. */
  | { readonly type: "forecast"; readonly tokens: number; readonly reply: Reply<KeyForecast> }
  /** Of one budget's lease. */
  | { readonly type: "budget"; readonly budget: Budget; readonly news: LeaseNews }
  /** Of the current budget, if there is one. */
  | { readonly type: "lease"; readonly news: LeaseNews }
  /** This process's part of the windows is another from now on. */
  | { readonly type: "share"; readonly share: Share }
  /** What the count of all processes says of a window. */
  | {
      readonly type: "window"
      readonly windows: KeyWindows
      readonly window: CountedWindow
      readonly news: CountNews
    }
  /** It is there again, or has begun anew: what it does not know is told. */
  | { readonly type: "tell" }
  /** Durable state has changed: read it again. Answered when what was read after this is in force. */
  | { readonly type: "changed"; readonly reply?: Reply<"in force"> }
  | { readonly type: "loaded"; readonly loaded: LoadedKey | undefined }
  | { readonly type: "not-loaded" }

/** A change that could not be read is tried again after so long: a revoked key must not live on. */
const AGAIN_MS = 500

export interface ReadPorts {
  readonly clock: Clock
  /** Begins a read; its outcome is told to `ended` or `failed`. */
  readonly read: () => void
  /** Announces the change again, as a command of the actor. */
  readonly again: () => void
}

export class Reads {
  readonly #ports: ReadPorts
  #isReading = false
  #isStale = false
  /** Who is answered after the read under way, and after the one that follows it. */
  #waiting: Reply<"in force">[] = []
  #waitingForNext: Reply<"in force">[] = []

  constructor(ports: ReadPorts) {
    this.#ports = ports
  }

  get isIdle(): boolean {
    return !this.#isReading && this.#waitingForNext.length === 0
  }

  changed(reply?: Reply<"in force">): void {
    if (reply !== undefined) this.#waitingForNext.push(reply)
    if (this.#isReading) {
      // The read under way may be older than the change.
      this.#isStale = true
      return
    }
    this.#isReading = true
    this.#waiting = this.#waitingForNext.splice(0)
    this.#ports.read()
  }

  /** What was read is in force. */
  ended(): void {
    for (const reply of this.#waiting.splice(0)) reply("in force")
    this.#next()
  }

  failed(): void {
    this.#ports.clock.after(AGAIN_MS, this.#ports.again)
    this.#waitingForNext.unshift(...this.#waiting.splice(0))
    this.#next()
  }

  #next(): void {
    this.#isReading = false
    if (!this.#isStale) return
    this.#isStale = false
    this.changed()
  }
}
