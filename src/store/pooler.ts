/**
 * Whether each connection has a session of its own, which the lock that says that a process lives needs, and LISTEN. A pooler
 * that lends sessions for a transaction or a statement has none to give.
 */
import type { Connection } from "./connection.ts"
import { DatabaseUnavailable, isLost } from "./database.ts"
import { within } from "./deadline.ts"
import type { Servers } from "./servers.ts"

/** The way to the database shares sessions between clients. */
export class SessionsShared extends Error {
  override readonly name = "SessionsShared"
  constructor() {
    super(
      "DATABASE_URL leads through a pooler that gives no client a session of its own, as PgBouncer with pool_mode = transaction or statement. Set pool_mode = session for this database, or connect to PostgreSQL itself (docs/operating/poolers.md)",
    )
  }
}

const ANSWER_MS = 5_000
const ROUNDS = 3

const REACH_MS = 15_000
const AGAIN_MS = 250

/** Throws `SessionsShared`; `DatabaseUnavailable` when it could not be found out; what Postgres says of whom it refuses. */
export async function proveSessions(servers: Servers): Promise<void> {
  const until = performance.now() + REACH_MS
  for (;;) {
    try {
      return await tryToShare(servers)
    } catch (error) {
      if (!isLost(error)) throw error
      if (performance.now() > until)
        throw new DatabaseUnavailable(`Postgres is unavailable: ${error.message}`, { cause: error })
      await Bun.sleep(AGAIN_MS)
    }
  }
}

/**
 * While one connection has a transaction open, another asks which session it has: where sessions are lent, it is another one
 * than before, or the first has it now.
 */
async function tryToShare(servers: Servers): Promise<void> {
  const connect = () => servers.connect({ timeoutMs: ANSWER_MS, statementTimeoutMs: ANSWER_MS })
  const opened: Connection[] = []
  try {
    opened.push(await connect(), await connect())
    const [one, other] = opened
    if (one === undefined || other === undefined) return
    for (let round = 0; round < ROUNDS; round++) {
      const before = await sessionOf(one)
      // Sessions that are lent for a statement allow no transaction; whoever lends them lends the one that came back last.
      if ((await sessionOf(other)) === before) throw new SessionsShared()
      await within(ANSWER_MS, other.sql.unsafe("begin").execute())
      if ((await sessionOf(other)) === before || (await sessionOf(one)) !== before) throw new SessionsShared()
      await within(ANSWER_MS, other.sql.unsafe("rollback").execute())
    }
  } finally {
    for (const connection of opened) connection.discard()
  }
}

async function sessionOf({ sql }: Connection): Promise<number | undefined> {
  const [row] = await within(ANSWER_MS, sql.unsafe<{ pid: number }[]>("select pg_backend_pid() as pid").execute())
  return row?.pid
}
