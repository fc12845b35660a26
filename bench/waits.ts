/** Who of PostgreSQL's sessions waited for a lock, and for how long: what its log says of waits of a millisecond and more. */
import postgres from "postgres"
import { percentile } from "./load.ts"
import type { Postgres } from "./postgres.ts"

export interface LockWaits {
  /** Of so many commits, those that did not wait included; milliseconds. Those under a millisecond count as none. */
  p99(commits: number): number
  /** How many waited longer than so many milliseconds. */
  over(ms: number): number
}

/** From here on. The server logs waits for locks, and counts what functions are called (`log_lock_waits`, `track_functions`). */
export async function since(server: Postgres, url: string) {
  const before = (await server.log()).length
  const commitsBefore = await commitsOf(url)
  return async (): Promise<{ readonly waits: LockWaits; readonly commits: number }> => {
    // A session tells what it has counted once a second.
    await Bun.sleep(1_500)
    const log = (await server.log()).slice(before)
    const times = [...log.matchAll(/ acquired \w+ on (?:transaction|tuple) .* after ([\d.]+) ms/g)]
    const sorted = times.map(([, ms]) => Number(ms)).toSorted((a, b) => a - b)
    return {
      commits: (await commitsOf(url)) - commitsBefore,
      waits: {
        p99: (commits) => {
          const none = Array.from({ length: Math.max(0, commits - sorted.length) }, () => 0)
          return percentile([...none, ...sorted], 0.99)
        },
        over: (limit) => sorted.filter((ms) => ms > limit).length,
      },
    }
  }
}

/** Batches of the ledger so far. */
async function commitsOf(url: string): Promise<number> {
  const sql = postgres(url, { max: 1 })
  const [row] = await sql<{ calls: string }[]>`
    select coalesce(sum(calls), 0) as calls from pg_stat_user_functions where funcname ~ '^book_[0-9]+$'`
  await sql.end()
  return Number(row?.calls ?? 0)
}
