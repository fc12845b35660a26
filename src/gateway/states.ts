/**
 * The states of a call, and the transition of each event. Pure: what an event does to the client, the backend and the ledger is in
 * call-actor.ts. README.md draws this table.
 */
import type { Settled } from "../../actors/ledger.ts"
import type { Failure } from "../failure/failure.ts"
import type { Admission } from "./admit.ts"
import type { End } from "./attempt.ts"
import type { TimeoutReason } from "./timeouts.ts"

export const states = {
  waiting: "It waits for money and for a slot. Nothing is recorded of it.",
  trying: "A backend is asked. The client has nothing of an answer, so it can still be asked again, or another one.",
  relaying: "The client has a part of the answer, so only this backend can end it.",
  draining: "The client has left. The backend is read on, for what it counts; no other is asked.",
  settling: "The backend's part is over and priced. The last bytes wait until the ledger is durable.",
  withdrawing: "Nothing is charged. Nothing is said until that is kept on disk.",
  done: "All is said.",
} as const
export type State = keyof typeof states

export type CallEvent =
  | { readonly type: "admitted"; readonly admission: Admission }
  | { readonly type: "refused"; readonly failure: Failure }
  /** The ledger has made the opening durable, or has not in time. */
  | { readonly type: "opened" }
  | { readonly type: "not-opened" }
  /** The first usable output has come. */
  | { readonly type: "content" }
  /** The client is about to be sent a part of the answer. */
  | { readonly type: "committed" }
  /** The client has been sent nothing for a while. */
  | { readonly type: "heartbeat" }
  | { readonly type: "client-left" }
  /** The backend is not waited for any longer. The broken connection ends the answer. */
  | { readonly type: "timed-out"; readonly reason: TimeoutReason }
  /** No backend is asked any more. */
  | { readonly type: "ended"; readonly end: End }
  | { readonly type: "settled"; readonly settled: Settled }
  | { readonly type: "not-settled" }
  /** It is on disk that nothing is charged. */
  | { readonly type: "withdrawn" }
  /** A bug of ours. */
  | { readonly type: "crashed"; readonly error: unknown }

type Row = Readonly<Record<State, State | "impossible">>

const impossible = "impossible"
const unchanged: Row = {
  waiting: impossible,
  trying: "trying",
  relaying: "relaying",
  draining: "draining",
  settling: "settling",
  withdrawing: "withdrawing",
  done: "done",
}
const nowhere: Row = {
  waiting: impossible,
  trying: impossible,
  relaying: impossible,
  draining: impossible,
  settling: impossible,
  withdrawing: impossible,
  done: impossible,
}

/** A row for each event. An event that comes late, from what was begun before, changes nothing; an impossible one is a bug. */
export const table: Readonly<Record<CallEvent["type"], Row>> = {
  admitted: { ...nowhere, waiting: "trying" },
  refused: { ...nowhere, waiting: "done" },
  opened: unchanged,
  // Raised once the client is owed a head. A charge that is durable stands.
  "not-opened": {
    ...unchanged,
    trying: "withdrawing",
    relaying: "withdrawing",
    draining: "withdrawing",
    settling: "withdrawing",
  },
  content: unchanged,
  committed: { ...unchanged, trying: "relaying" },
  heartbeat: unchanged,
  "client-left": { ...unchanged, waiting: "waiting", trying: "draining", relaying: "draining" },
  "timed-out": unchanged,
  ended: {
    ...unchanged,
    trying: "settling",
    relaying: "settling",
    draining: "settling",
    settling: impossible,
  },
  settled: { ...nowhere, settling: "done", withdrawing: "withdrawing", done: "done" },
  "not-settled": { ...nowhere, settling: "withdrawing", withdrawing: "withdrawing", done: "done" },
  withdrawn: { ...nowhere, withdrawing: "done", done: "done" },
  crashed: {
    waiting: "done",
    trying: "withdrawing",
    relaying: "withdrawing",
    draining: "withdrawing",
    settling: "withdrawing",
    withdrawing: "done",
    done: "done",
  },
}

export function next(state: State, event: CallEvent["type"]): State {
  const to = table[event][state]
  if (to === impossible) throw new Error(`a call that is ${state} heard of ${event}`)
  return to
}

/** Is told of each event after its turn, and of the state that it led to. */
interface Observer {
  onEvent(event: CallEvent, state: State): void
}

/** A call that crashes while it handles its crashes is left as it is, so that it does not block the thread. */
const MAX_CRASHES = 5

/** Processes one event at a time: an event that is raised in a turn waits for the end of that turn. */
export class StateMachine {
  readonly #onEvent: (event: CallEvent, before: State) => void
  readonly #observer: Observer | undefined
  readonly #events: CallEvent[] = []
  #isRunning = false
  #crashes = 0
  #state: State = "waiting"

  constructor(onEvent: (event: CallEvent, before: State) => void, observer?: Observer) {
    this.#onEvent = onEvent
    this.#observer = observer
  }

  get state(): State {
    return this.#state
  }

  receive(event: CallEvent): void {
    this.#events.push(event)
    if (this.#isRunning) return
    this.#isRunning = true
    for (let current = this.#events.shift(); current !== undefined; current = this.#events.shift()) {
      try {
        const before = this.#state
        this.#state = next(before, current.type)
        this.#onEvent(current, before)
        this.#observer?.onEvent(current, this.#state)
      } catch (error) {
        if (++this.#crashes <= MAX_CRASHES) this.#events.unshift({ type: "crashed", error })
      }
    }
    this.#isRunning = false
  }
}
