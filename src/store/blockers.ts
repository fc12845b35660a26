/**
 * Who holds a lock that a statement waits for, so that the log names whom an operator has to end. Looked for on a connection of
 * its own, because those of a pool may all be waiting. Times in milliseconds unless a name says otherwise.
 */
import { systemClock } from "../../actors/kernel/clock.ts"
import { within } from "./connection.ts"
import type { Servers } from "./servers.ts"

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
  readonly #told: (blocker: Blocker) => void
  readonly #toldAt = new Map<number, number>()
  #looking = false

  constructor(servers: Servers, told: (blocker: Blocker) => void) {
    this.#servers = servers
    this.#told = told
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
        if (now - (this.#toldAt.get(blocker.pid) ?? -Infinity) < TELL_AGAIN_MS) continue
        this.#toldAt.set(blocker.pid, now)
        this.#told(blocker)
      }
      for (const [pid, at] of this.#toldAt) if (now - at > 10 * TELL_AGAIN_MS) this.#toldAt.delete(pid)
    } catch {
      // The statement itself says what is wrong.
    } finally {
      this.#looking = false
    }
  }
}
