/** What a key is asked and told, and what it says to a call that reserves. Money in micro-rupiah. */
import type { Budget } from "./budget.ts"
import type { CountedWindow, CountNews } from "./counted-window.ts"
import type { Reply } from "./kernel/actor.ts"
import type { Counting, CountReply, KeyForecast, KeyView, LoadedKey } from "./key-record.ts"
import type { KeyWindows } from "./key-windows.ts"
import type { LeaseNews } from "./lease.ts"
import type { Micro } from "./money/micro.ts"
import type { PeriodStarts } from "./period.ts"
import type { Share } from "./share.ts"

export type ReserveReply =
  /** `hold` is undefined for a key without a budget. */
  | { readonly kind: "reserved"; readonly hold: Micro | undefined; readonly starts: PeriodStarts }
  /** `retryAfterS` is undefined when no wait helps. */
  | { readonly kind: "tokens-exceeded" | "budget-exceeded"; readonly retryAfterS: number | undefined }
  /** The budget is short here, and whether there is more could not be found out. */
  | { readonly kind: "unavailable" }

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
