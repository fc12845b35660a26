/**
 * This process among those that share a database: a row in `processes`, and on a PostgreSQL server a session lock that the
 * server drops when the process dies. Only a free lock says that a process is gone; time alone never does (decisions
 * §12.23). A gone process is closed by any living one: it is fenced, its leases are given back, and each of its calls
 * gets the final record that it could not write.
 */
import { nanoid } from "nanoid"
import type { Share } from "../../actors/share.ts"
import type { Database } from "./database.ts"
import { type ClosingStatements, processStatements } from "./process-statements.ts"
import type { Servers } from "./servers.ts"
import { SessionLock } from "./session-lock.ts"

export interface ProcessOptions {
  readonly db: Database
  /**
   * For the session lock's own connection; not through a pooler that shares sessions. Undefined on the embedded database,
   * whose sessions are one, and whose data directory admits one process: any other is dead.
   */
  readonly lockOn: Servers | undefined
  /** Another process took this one for dead and closed it. Nothing it leased is its own any more; it should end. */
  readonly onFenced: (why: string) => void
  /** The session lock was lost, and is taken again unless this process is closed by then. */
  readonly onLost?: () => void
}

export interface RegisteredProcess {
  readonly id: string
  /** From now on it takes calls, and what all processes keep together is shared with it. */
  serve(): Promise<void>
  /** It takes no calls any more; what it had a share in is the others'. */
  drain(): Promise<void>
  /** Its place among the processes that take calls; undefined when it is none of them. */
  share(): Promise<Share | undefined>
  /** Other processes that are gone and not wholly closed yet. */
  deadProcesses(): Promise<string[]>
  /** Closes a process that is gone. Does nothing to one that lives, and nothing the second time. */
  closeProcess(id: string): Promise<Closed>
  /** Closes this process itself, after its last statement. */
  close(): Promise<void>
}

/** What closing a process came to. */
interface Closed {
  readonly leases: number
  readonly openings: number
}

/** After its own lock was lost, a process judges no other for so long: a server's restart frees everybody's at once. */
const REPRIEVE_MS = 5000

export async function registerProcess({ db, lockOn, onFenced, onLost }: ProcessOptions): Promise<RegisteredProcess> {
  const id = `prc_${nanoid()}`
  const statements = processStatements(db)
  // The lock before the row, so that nobody ever sees the row of a living process with its lock free.
  const lock =
    lockOn && (await SessionLock.take({ servers: lockOn, processId: id, onFenced, ...(onLost && { onLost }) }))
  const exclusive = lock !== undefined
  await statements.registerProcess(id)
  lock?.registered()
  return {
    id,
    serve: () => statements.serve(id),
    drain: () => statements.drain(id),
    share: () => statements.share(id),
    deadProcesses: async () => {
      if (lock && performance.now() - lock.lostAt < REPRIEVE_MS) return []
      return await statements.findDead(id, exclusive)
    },
    closeProcess: (other) => closeProcess(statements, other, exclusive),
    close: async () => {
      await lock?.release()
      await closeProcess(statements, id, false)
    },
  }
}

/**
 * In four statements, each idempotent. The fence waits for what the process has under way (leasing locks its row, settling
 * its leases); what it waited for is seen only by a statement that begins after it. The lock is tried in the fence itself,
 * so that the owner cannot take it again in between.
 */
export async function closeProcess(statements: ClosingStatements, id: string, exclusive: boolean): Promise<Closed> {
  await statements.fence(id, exclusive)
  const leases = await statements.returnLeases(id)
  await statements.returnBudgets(id)
  const openings = await statements.recordOpenings(id)
  return { leases, openings }
}
