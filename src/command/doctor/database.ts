/** The database: whether it is reached, and if not why; its settings; what stands between it and us. */
import { join } from "node:path"
import { type Config, workersOf } from "../../config.ts"
import { Connection, type ServerState, within } from "../../store/connection.ts"
import type { Sql } from "../../store/database.ts"
import { embeddedAddress } from "../../store/embedded/open.ts"
import { hostName, hostsOf, Timelines } from "../../store/hosts.ts"
import { proveSessions, SessionsShared } from "../../store/session-lock.ts"
import { Servers } from "../../store/servers.ts"
import { isLoopback } from "../../http/dashboard/session.ts"
import { clockFinding, codeOf, type Finding, look, messageOf, ok, wrong } from "../command.ts"
import { schema } from "./schema.ts"

const ANSWER_MS = 5_000
const OLDEST_MAJOR = 14
/** Beside DATABASE_CONNECTIONS: the ledger's five, the process's lock, notices, and one to spare for a command. */
const OTHER_CONNECTIONS = 8

const connectionTo = (url: string) =>
  new Connection({ url, connectTimeoutMs: ANSWER_MS, statementTimeoutMs: ANSWER_MS })

export async function database(config: Config): Promise<readonly Finding[]> {
  const { DATABASE_URL: url, DATA_DIR } = config
  if (url === undefined) return await besideGateway(DATA_DIR)
  let addresses: string[]
  try {
    addresses = hostsOf(url)
  } catch (error) {
    return [wrong(messageOf(error), "write DATABASE_URL as postgres://user@host:port/name, hosts in a list")]
  }
  const servers = await Promise.all(addresses.map((address) => serverAt(address, DATA_DIR)))
  const primaries = servers.filter(({ writes }) => writes === "taken")
  const others = servers.flatMap(({ finding }) => (finding === undefined ? [] : [finding]))
  const [primary] = primaries
  if (primary === undefined || primaries.length > 1) {
    const names = primaries.map(({ address }) => hostName(address)).join(" and ")
    return primary === undefined
      ? others
      : [...others, wrong(`${names} both take writes`, "stop one of them, and make it a standby of the other")]
  }
  // A standby beside its primary is as it should be, and one that is away may come back.
  const beside = others.map((finding) => (finding.state === "wrong" ? look(finding.what, finding.remedy) : finding))
  return [...beside, ...(await ofPrimary(primary.address, url, config))]
}

interface Asked {
  readonly address: string
  readonly writes: ServerState["writes"] | undefined
  /** Undefined for one that is written to. */
  readonly finding: Finding | undefined
}

async function serverAt(address: string, dataDir: string): Promise<Asked> {
  const connection = connectionTo(address)
  const name = hostName(address)
  try {
    const { writes, identity } = await within(ANSWER_MS, connection.prepare())
    if (writes === "standby")
      return {
        address,
        writes,
        finding: wrong(`${name} is a standby`, "point DATABASE_URL at the primary, or at both"),
      }
    if (writes === "read-only")
      return {
        address,
        writes,
        finding: wrong(
          `${name} is set to be read only`,
          "`alter database … set default_transaction_read_only = off`, and of the role",
        ),
      }
    const highest =
      identity === undefined ? 0 : await new Timelines(join(dataDir, "timelines")).highest(identity.system)
    if (identity !== undefined && identity.timeline < highest)
      return {
        address,
        writes: undefined,
        finding: wrong(
          `${name} is on timeline ${identity.timeline}, and timeline ${highest} was seen: it is an old primary`,
          "make it a standby of the new one",
        ),
      }
    return { address, writes, finding: undefined }
  } catch (error) {
    return { address, writes: undefined, finding: unreachable(name, error) }
  } finally {
    connection.discard()
  }
}

async function ofPrimary(address: string, url: string, config: Config): Promise<readonly Finding[]> {
  const connection = connectionTo(address)
  try {
    const began = performance.now()
    const [found] = await within(ANSWER_MS, readSettings(connection.sql))
    if (found === undefined) throw new Error("no answer")
    return [
      ...server(found, performance.now() - began),
      ...((await pooling(url)) ?? between(found, connection)),
      ...connections(found, config),
      ...encryption(found, address),
      clockFinding("the database", found.now.getTime() / 1_000 - Date.now() / 1_000),
      ...(await within(ANSWER_MS, schema(connection.sql, found.user, config.DATA_DIR))),
    ]
  } catch (error) {
    return [unreachable(hostName(address), error)]
  } finally {
    connection.discard()
  }
}

/** The embedded database is not opened here: that would write to it. */
async function besideGateway(dataDir: string): Promise<readonly Finding[]> {
  const address = embeddedAddress(dataDir)
  if (address === undefined)
    return [
      ok("the embedded database; no gateway runs, so only its files were looked at (set DATABASE_URL for a server)"),
    ]
  const connection = connectionTo(address)
  try {
    return [
      ok("the embedded database, through its gateway"),
      ...(await within(ANSWER_MS, schema(connection.sql, "postgres", dataDir))),
    ]
  } catch (error) {
    return [
      look(
        `the gateway that has the embedded database does not answer: ${messageOf(error)}`,
        "if no gateway runs, this is left from one that was killed, and the next start clears it away",
      ),
    ]
  } finally {
    connection.discard()
  }
}

interface Settings {
  readonly user: string
  readonly version: number
  readonly encoding: string
  readonly encrypted: boolean | null
  readonly client_port: number | null
  readonly now: Date
  readonly most: number
  readonly role_most: number
  readonly used: number
  readonly role_used: number
  readonly set: Readonly<Record<string, string>>
}

/** Of others' sessions a role without `pg_read_all_stats` is not told the kind, and so it counts as a client's. */
const readSettings = (sql: Sql) => sql<Settings[]>`
  select current_user::text as user, current_setting('server_version_num')::int as version,
    pg_encoding_to_char(encoding) as encoding,
    (select ssl from pg_stat_ssl where pid = pg_backend_pid()) as encrypted, inet_client_port() as client_port, clock_timestamp() as now,
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as most,
    (select rolconnlimit from pg_roles where rolname = current_user) as role_most,
    sessions.used, sessions.role_used,
    (select jsonb_object_agg(name, setting) from pg_settings where name in ('fsync', 'full_page_writes',
      'synchronous_commit', 'default_transaction_isolation', 'autovacuum')) as set
  from pg_database, (
    select count(*)::int as used, (count(*) filter (where usename = current_user))::int as role_used from pg_stat_activity
    where usesysid is not null and datid is not null and coalesce(backend_type, 'client backend') = 'client backend'
  ) sessions
  where datname = current_database()`

function server({ version, encoding, set }: Settings, tookMs: number): Finding[] {
  const major = Math.floor(version / 10_000)
  const found: Finding[] = []
  if (major < OLDEST_MAJOR)
    found.push(wrong(`the server is PostgreSQL ${major}`, `upgrade it to PostgreSQL ${OLDEST_MAJOR} or newer`))
  if (encoding !== "UTF8")
    found.push(wrong(`the database's encoding is ${encoding}`, "`createdb -E UTF8 -T template0 …`, and move to it"))
  if (set["default_transaction_isolation"] !== "read committed")
    found.push(
      wrong(
        `default_transaction_isolation is ${set["default_transaction_isolation"]}`,
        "`alter database … set default_transaction_isolation = 'read committed'`: the statements are made for it",
      ),
    )
  for (const name of ["fsync", "full_page_writes"])
    if (set[name] === "off")
      found.push(
        wrong(`${name} is off: a power cut may destroy the database`, `\`alter system set ${name} = on\`, and reload`),
      )
  if (set["synchronous_commit"] === "off")
    found.push(
      wrong(
        "synchronous_commit is off: a power cut loses charges and payments that were confirmed",
        "`alter database … set synchronous_commit = on`",
      ),
    )
  if (set["autovacuum"] === "off")
    found.push(look("autovacuum is off: balances grow slow", "`alter system set autovacuum = on`, and reload"))
  if (tookMs > 1_000)
    found.push(
      look(
        `the database took ${Math.round(tookMs)} ms to answer`,
        "put the gateway near it: each call waits for two commits",
      ),
    )
  return found.length > 0 ? found : [ok(`PostgreSQL ${major}, with settings that keep what is acknowledged`)]
}

async function pooling(url: string): Promise<Finding[] | undefined> {
  const servers = new Servers(url)
  try {
    await proveSessions(servers)
    return undefined
  } catch (error) {
    if (!(error instanceof SessionsShared)) throw error
    const remedy = "set pool_mode = session for this database in the pooler, or connect past it"
    return [wrong("a pooler shares sessions among connections (transaction mode), and a start refuses that", remedy)]
  } finally {
    await servers.close()
  }
}

/** What stands between has another port at the server than we have here. */
const between = ({ client_port: seen }: Settings, { localPort }: Connection): Finding[] =>
  localPort === undefined || seen === null || seen <= 0 || seen === localPort
    ? []
    : [
        look(
          "a pooler, a proxy or address translation stands between: the server's keepalives watch that, and not this machine",
          "in a pooler set tcp_keepidle=4, tcp_keepintvl=2, tcp_keepcnt=2 and tcp_user_timeout=8000 (docs/operating/poolers.md); else a machine that vanishes keeps its money for two hours",
        ),
      ]

function connections({ most, used, role_most: ofRole, role_used: usedByRole }: Settings, config: Config): Finding[] {
  const needed = workersOf(config) * (config.DATABASE_CONNECTIONS + OTHER_CONNECTIONS)
  const whose = workersOf(config) === 1 ? "a process takes" : "the workers take"
  const free = Math.min(most - used, ofRole < 0 ? most : ofRole - usedByRole)
  return free >= needed
    ? [ok(`${free} connections are free, of which ${whose} up to ${needed}`)]
    : [
        wrong(
          `${Math.max(0, free)} connections are free (${used} are in use), and ${whose} up to ${needed}`,
          "raise max_connections (and the role's connection limit), or lower DATABASE_CONNECTIONS",
        ),
      ]
}

function encryption({ encrypted }: Settings, url: string): Finding[] {
  const host = URL.parse(url)?.hostname ?? ""
  if (encrypted !== false || host === "" || isLoopback(host) || url.includes("host=%2F")) return []
  return [
    look(
      `the connection to ${host} is not encrypted`,
      "add ?sslmode=require to DATABASE_URL, or keep the network private",
    ),
  ]
}

/** What the server, the resolver and poolers say, and what to do then. */
const remedies: readonly (readonly [RegExp, string])[] = [
  [/^28P01$/, "the password in DATABASE_URL is wrong: set it, or `alter role … password …`"],
  [
    /^28000$/,
    "the role may not connect: look at pg_hba.conf, or create the role; where encryption is asked for, add ?sslmode=require",
  ],
  [/^3D000$/, "the database does not exist: `createdb -O <role> <name>`"],
  [/^42501$/, "the role lacks a privilege: `grant connect on database … to …`"],
  [/^53300$/, "the server has no connection left: raise max_connections, or stop what holds them"],
  [/^57P03$/, "the server starts, stops or recovers: wait, or look at its log"],
  [/^08P01$/, "a pooler refuses a start-up parameter: name it in ignore_startup_parameters of pgbouncer.ini"],
  [
    /^ECONNREFUSED$/,
    "nothing listens there: start the server, or correct host and port of DATABASE_URL; listen_addresses must admit this machine",
  ],
  [/^(?:ENOTFOUND|EAI_AGAIN)$/, "the host's name is not known: correct it in DATABASE_URL, or the name server"],
  [/^ENOENT$/, "there is no socket in that directory: correct ?host= in DATABASE_URL"],
]

function unreachable(name: string, error: unknown): Finding {
  const code = codeOf(error) ?? ""
  const remedy = remedies.find(([pattern]) => pattern.test(code))?.[1]
  return wrong(
    `${name} is not reached: ${messageOf(error)}`,
    remedy ?? "check host, port, firewall and TLS: `psql` with DATABASE_URL from this machine says more",
  )
}
