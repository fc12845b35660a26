/**
 * What statements wait for, times in milliseconds unless a name says otherwise. First a gate: at most `size` callers inside, the
 * rest in one bounded line, first come first served. It stands in front of the connections because postgres.js queues without
 * bound and never settles what it has pipelined behind a connection that dies: a caller inside the gate has a connection to
 * itself, one outside has sent nothing.
 *
 * Then who holds a lock that a statement waits for, so that the log names whom an operator has to end. Looked for on a
 * connection of its own, because those of a pool may all be waiting. And turns, by which one account leaves places to others.
 */
import { type Clock, systemClock } from "../../actors/kernel/clock.ts"
import type { Failure } from "../failure/failure.ts"
import { within } from "./connection.ts"
import type { Servers } from "./servers.ts"

/** Being inside. Disposing of it lets the next one in; doing so twice does nothing. */
export type Pass = Disposable

/** Why a caller was not let in: the line is `full`, the wait was `late`, or the gate has `closed` for good. */
export type Refusal = "full" | "late" | "closed"

/** How full it is now, and since it was made: how many have waited, how long together, and how many were refused. */
export interface GateLoad {
  readonly size: number
  readonly inside: number
  readonly waiting: number
  readonly waits: number
  /** Of those who wait no more. */
  readonly waitedMs: number
  readonly refused: number
}

interface Waiter {
  readonly admit: () => void
  readonly refuse: (why: Refusal) => void
}

export class Gate {
  readonly #size: number
  readonly #maxWaiting: number
  /** In order of arrival; a set, so that one who gives up leaves from the middle at once. */
  readonly #waiting = new Set<Waiter>()
  #inside = 0
  #closed = false
  #whenEmpty: (() => void) | undefined
  #waits = 0
  #waitedMs = 0
  #refused = 0

  constructor(options: { size: number; maxWaiting: number }) {
    this.#size = options.size
    this.#maxWaiting = options.maxWaiting
  }

  get inside(): number {
    return this.#inside
  }
  get waiting(): number {
    return this.#waiting.size
  }

  get load(): GateLoad {
    return {
      size: this.#size,
      inside: this.inside,
      waiting: this.waiting,
      waits: this.#waits,
      waitedMs: this.#waitedMs,
      refused: this.#refused,
    }
  }

  /** Waits for a place, at most `timeoutMs`. */
  async enter(timeoutMs: number): Promise<Pass | Refusal> {
    if (this.#closed) return "closed"
    if (this.#inside < this.#size) return this.#admit()
    if (this.#waiting.size >= this.#maxWaiting) return this.#refuse("full")
    if (timeoutMs <= 0) return this.#refuse("late")
    this.#waits++
    const since = systemClock.running()
    return new Promise((resolve) => {
      const leaveLine = () => {
        timer.cancel()
        this.#waiting.delete(waiter)
        this.#waitedMs += systemClock.running() - since
      }
      const waiter: Waiter = {
        admit: () => {
          leaveLine()
          resolve(this.#admit())
        },
        refuse: (why) => {
          leaveLine()
          resolve(this.#refuse(why))
        },
      }
      const timer = systemClock.after(timeoutMs, () => waiter.refuse("late"))
      this.#waiting.add(waiter)
    })
  }

  /** Refuses everybody outside, now and from now on; resolves once the last one inside has left. */
  async close(): Promise<void> {
    this.#closed = true
    for (const waiter of this.#waiting) waiter.refuse("closed")
    if (this.#inside === 0) return
    await new Promise<void>((resolve) => {
      this.#whenEmpty = resolve
    })
  }

  #refuse(why: Refusal): Refusal {
    this.#refused++
    return why
  }

  #admit(): Pass {
    this.#inside++
    let left = false
    return {
      [Symbol.dispose]: () => {
        if (left) return
        left = true
        this.#leave()
      },
    }
  }

  #leave(): void {
    this.#inside--
    const [next] = this.#waiting
    if (next) next.admit()
    else if (this.#inside === 0) this.#whenEmpty?.()
  }
}

/** A session that holds a lock, and waits for none itself. */
export interface Blocker {
  /** For `pg_terminate_backend`. */
  readonly pid: number
  readonly user: string | null
  readonly application: string | null
  /** Null of a unix socket. */
  readonly address: string | null
  /** As `idle in transaction`. */
  readonly state: string | null
  /** For how long its transaction has been open. */
  readonly transactionS: number | null
}

/** How long a statement may take before it is asked what it waits for: less than a batch waits for its locks. */
const LOOK_AFTER_MS = 400
/** The same one is told of so often at most. */
const TELL_AGAIN_MS = 10_000
const ANSWER_MS = 2_000

export class Blockers {
  readonly #servers: Servers
  readonly #onBlocker: (blocker: Blocker) => void
  readonly #reportedAt = new Map<number, number>()
  #looking = false

  constructor(servers: Servers, onBlocker: (blocker: Blocker) => void) {
    this.#servers = servers
    this.#onBlocker = onBlocker
  }

  /** Looks what the session waits for, if its statement takes long. Disposed of when it has ended. */
  watch(session: number | undefined): Disposable {
    const timer = systemClock.after(LOOK_AFTER_MS, () => {
      if (session !== undefined && !this.#looking) void this.#look(session)
    })
    return { [Symbol.dispose]: () => timer.cancel() }
  }

  /** Never throws: where nobody can be asked, nobody is named. */
  async #look(session: number): Promise<void> {
    this.#looking = true
    try {
      const connection = await this.#servers.connect({ timeoutMs: ANSWER_MS, statementTimeoutMs: ANSWER_MS })
      using _dropped = { [Symbol.dispose]: () => void connection.end() }
      const found = await within(
        ANSWER_MS,
        connection.sql<Blocker[]>`
          with recursive ahead(pid) as (
            select unnest(pg_blocking_pids(${session}))
            union
            -- Whoever waits for the same row waits in a line, and only the first for the holder.
            select next from ahead, unnest(pg_blocking_pids(ahead.pid)) next
          )
          select pid, usename as user, application_name as application, client_addr::text as address, state,
            extract(epoch from now() - xact_start)::float8 as "transactionS"
          from pg_stat_activity join ahead using (pid) where wait_event_type is distinct from 'Lock'`,
      )
      const now = performance.now()
      for (const blocker of found) {
        if (now - (this.#reportedAt.get(blocker.pid) ?? -Infinity) < TELL_AGAIN_MS) continue
        this.#reportedAt.set(blocker.pid, now)
        this.#onBlocker(blocker)
      }
      for (const [pid, at] of this.#reportedAt) if (now - at > 10 * TELL_AGAIN_MS) this.#reportedAt.delete(pid)
    } catch {
      // The statement itself says what is wrong.
    } finally {
      this.#looking = false
    }
  }
}

export interface TurnsOptions {
  /** How many run at once under one name. */
  readonly atOnce: number
  /** How many there may be, those that wait included; one over that is refused. */
  readonly most: number
  /** Whoever has waited for so long is refused; milliseconds. Unless said, nobody is. */
  readonly waitMs?: number
  /** What it is waited by: the system's unless said. */
  readonly clock?: Pick<Clock, "after">
  readonly refused: () => Failure
}

/** Work of which little is done at once under each name, in the order in which it came. What `isOwed` is never refused. */
export function turns({ atOnce, most, waitMs, clock = systemClock, refused }: TurnsOptions) {
  const lines = new Map<string, { running: number; readonly waiting: Set<() => void> }>()
  return async <T>(name: string, work: () => Promise<T | Failure>, isOwed = false): Promise<T | Failure> => {
    const line = lines.get(name) ?? { running: 0, waiting: new Set() }
    if (!isOwed && line.running + line.waiting.size >= most) return refused()
    lines.set(name, line)
    // Whoever is done gives its place to the next one.
    if (line.running < atOnce) line.running++
    else if (!(await placeIn(line.waiting, clock, isOwed ? undefined : waitMs))) return refused()
    try {
      return await work()
    } finally {
      const [next] = line.waiting
      if (next !== undefined) next()
      else if (--line.running === 0) lines.delete(name)
    }
  }
}

/** Resolves with whether it came to be one's turn in time. */
const placeIn = (waiting: Set<() => void>, clock: Pick<Clock, "after">, waitMs?: number): Promise<boolean> =>
  new Promise((resolve) => {
    const leave = (hasPlace: boolean) => {
      waiting.delete(take)
      timer?.cancel()
      resolve(hasPlace)
    }
    const take = () => leave(true)
    const timer = waitMs === undefined ? undefined : clock.after(waitMs, () => leave(false))
    waiting.add(take)
  })
