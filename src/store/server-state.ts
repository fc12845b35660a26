/**
 * What a fresh connection is told, and what it is asked, before anybody has it. All of it is sent at once, so that it costs
 * one round trip. Times in milliseconds.
 *
 * Nothing is a start-up parameter, because poolers refuse those that they do not know.
 */
import postgres from "postgres"
import type { Sql } from "./sql.ts"

export interface ServerState {
  /** The session's own process on the server. */
  readonly pid: number
  /** Whether the server takes writes, and why not. */
  readonly writes: "taken" | "standby" | "read-only"
  /** Undefined where the server does not tell it, as some that only speak PostgreSQL's protocol. */
  readonly identity: ServerIdentity | undefined
}

export interface ServerIdentity {
  /** Given by `initdb`, and shared by a primary and its standbys. */
  readonly system: string
  /** One more with each promotion; 0 of a standby. */
  readonly timeline: number
  /** Tells two servers apart that have the rest in common. */
  readonly startedAt: string
}

/** After so many milliseconds the server gives a silent machine up. With the look of its neighbours they are under 15 s. */
const GONE_MS = 8_000
const PROBE_S = 2

/** The limit rules keepalives too where it is known; elsewhere two probes are as long. No server need know them. */
const noticeTheDead = [
  `select set_config('tcp_keepalives_idle', '${GONE_MS / 1000 - 2 * PROBE_S}', false),
    set_config('tcp_keepalives_interval', '${PROBE_S}', false), set_config('tcp_keepalives_count', '2', false)`,
  `select set_config('tcp_user_timeout', '${GONE_MS}', false)`,
]

const askState = `select pg_backend_pid() as pid,
  case when pg_is_in_recovery() then 'standby' when current_setting('transaction_read_only') = 'on' then 'read-only'
    else 'taken' end as writes`

/** The timeline is that of the log which is being written: the control file knows it only from the next checkpoint on. */
const askIdentity = `select (select system_identifier from pg_control_system())::text as system,
  case when pg_is_in_recovery() then 0
    else ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int end as timeline,
  pg_postmaster_start_time()::text as "startedAt"`

interface PrepareOptions {
  /** After this the server itself ends a statement that was abandoned here. 0 is never. */
  readonly statementTimeoutMs: number
  /** How long a statement waits for a lock at most; then it fails and the session goes on. 0 is as long as it may take at all. */
  readonly lockWaitMs: number
  /**
   * The server is to notice soon when this machine is gone, and with it whatever would end the connection: by keepalives while
   * it is silent, by a limit on what stays unacknowledged. A server's own patience is hours, and so long it would keep locks.
   */
  readonly overNetwork: boolean
}

/** Throws what postgres.js throws; may stay pending where the connection is lost. */
export async function prepareSession(sql: Sql, options: PrepareOptions): Promise<ServerState> {
  const { statementTimeoutMs, lockWaitMs } = options
  // The server would compile sums over years of records, which it thinks dear: seconds for what is read in milliseconds.
  const limited = sql
    .unsafe(`set statement_timeout = ${statementTimeoutMs}; set lock_timeout = ${lockWaitMs}; set jit = off`)
    .execute()
  if (options.overNetwork) for (const statement of noticeTheDead) void sql.unsafe(statement).catch(() => {})
  const state = sql.unsafe<Pick<ServerState, "pid" | "writes">[]>(askState).execute()
  const identity = sql
    .unsafe<ServerIdentity[]>(askIdentity)
    .execute()
    .catch((error: unknown) => {
      if (error instanceof postgres.PostgresError) return []
      throw error
    })
  const [, [told], [who]] = await Promise.all([limited, state, identity])
  if (told === undefined) throw new Error("the server did not say what it is")
  return { ...told, identity: who }
}
