/** A key as it is in durable state, and what has been spent of it. Money in micro-rupiah. */
import type { KeyLimits } from "./key-windows.ts"
import type { Micro } from "./money/micro.ts"
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
  /** This is the hash of a later secret of a key that was rotated; the key's own actor is found by this one. */
  readonly movedTo?: string | undefined
  /** When secrets that were replaced stop to work, by their hash; wall clock. */
  readonly secretEnds?: Readonly<Record<string, number>> | undefined
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
