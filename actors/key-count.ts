/** What a key says to a call that comes with it, before the call is looked at. */
import type { KeyRecord } from "./key-record.ts"
import type { WindowViews, WindowWaits } from "./key-windows.ts"
import type { Micro } from "./money/micro.ts"
import type { SpendingPeriod } from "./period.ts"

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
  | { readonly kind: Refusal; readonly view: KeyView; readonly record: KeyRecord }
  | { readonly kind: "active"; readonly record: KeyRecord }

/** Why no call of a key is taken, whatever it asks for. */
type Refusal = "revoked" | "expired" | "account-deleted" | "account-frozen" | "paused"

/** In the order of decisions §4.4. Wall clock, in milliseconds. */
export function refusalOf(record: KeyRecord, nowMs: number): Refusal | undefined {
  if (record.revoked) return "revoked"
  if (record.expiresAt !== undefined && nowMs >= record.expiresAt) return "expired"
  if (record.accountDeleted) return "account-deleted"
  if (record.accountFrozen) return "account-frozen"
  return record.paused !== undefined && nowMs < record.paused.until ? "paused" : undefined
}

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
  readonly origin: Origin
}
