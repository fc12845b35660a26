/** A key as it is in durable state, and what has been spent of it. Money in micro-rupiah. */
import type { KeyLimits } from "./key-windows.ts"
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
