/**
 * `bun bench/growth.ts [records]`: a year of records on the PostgreSQL at `DATABASE_URL`, an account for every hundred, and what is
 * asked of them: each question of the dashboard and of operators over HTTP, the start of a process, `reconcile`, commits beside those
 * of an empty database, and bytes a call. `KEEP=name` leaves the database, and asks one of that name that is there. `ONLY=questions`
 * asks alone. Exits with 1 where a question took over 100 ms.
 */
import { Connection } from "../src/store/connection.ts"
import { createSessionToken } from "../src/accounts/bearer-tokens.ts"
import type { Sql } from "../src/store/database.ts"
import { migrate } from "../src/store/migrate.ts"
import { beginCommits, cpuOf } from "./commits.ts"
import { simulated, startGateway } from "./gateway.ts"
import { BIG, fillYear, MODELS } from "./growth-data.ts"
import { type Question, questions } from "./growth-questions.ts"
import { median, percentile } from "./load.ts"

const SERVER = process.env["DATABASE_URL"] ?? "postgres://root@127.0.0.1:5432/postgres"
const RECORDS = Number(process.argv[2] ?? 10_000_000)
const TIMES = 5
const GOAL_MS = 100
const CALLS_A_COMMIT = 24
const COMMITS = 200
const OPERATOR = "acc_goperator"
const KEPT = process.env["KEEP"]
const ONLY = process.env["ONLY"]

const connect = (url: string) => new Connection({ url, connectTimeoutMs: 10_000, statementTimeoutMs: 0 })

function addressOf(name: string): string {
  const url = new URL(SERVER)
  url.pathname = `/${name}`
  return url.href
}

async function newDatabase(
  server: Sql,
  names: string[],
  name = `loket_growth_${crypto.randomUUID().replaceAll("-", "")}`,
): Promise<string> {
  names.push(name)
  await server.unsafe(`create database ${name}`)
  return addressOf(name)
}

/** The address of a full database: the one that was kept, or a new one. */
async function fullDatabase(server: Sql, names: string[]): Promise<string> {
  if (KEPT !== undefined && (await server`select from pg_database where datname = ${KEPT}`).length > 0)
    return addressOf(KEPT)
  const full = await newDatabase(server, names, KEPT)
  // The catalogue is read where there is none.
  await (await startOn(full)).stop()
  const beganAt = performance.now()
  await fillYear(() => connect(full).sql, RECORDS)
  console.log(`${RECORDS.toLocaleString("en")} records in ${((performance.now() - beganAt) / 1_000).toFixed(0)} s`)
  return full
}

const startOn = (url: string) =>
  startGateway(simulated("http://127.0.0.1:9", Object.fromEntries(MODELS.map((model) => [model, ""]))), {
    DATABASE_URL: url,
    OPERATOR_SECOND_FACTOR: "false",
  })

async function sessionOf(sql: Sql, accountId: string): Promise<string> {
  const { token, hash } = createSessionToken()
  await sql`insert into sessions (token_hash, account_id, expires_at) values (${hash}, ${accountId}, now() + interval '1 day')`
  return token
}

interface Asked {
  readonly ms: number
  /** CPU of the database's sessions, where they are on this machine: what other work does not lengthen. */
  readonly cpuMs: number
}

/** Milliseconds of CPU that the sessions of a database have taken, those of the bench left out. */
async function cpuOfSessions(sql: Sql): Promise<number> {
  const sessions = await sql<{ pid: number }[]>`
    select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`
  const us = await Promise.all(sessions.map(({ pid }) => cpuOf(pid).catch(() => 0)))
  return us.reduce((sum, one) => sum + one, 0) / 1_000
}

/** Each asking; the first finds nothing in the server's memory that the others did not need. Undefined where it has no answer in time. */
async function ask(url: string, token: string, sql: Sql, { path }: Question): Promise<readonly Asked[] | undefined> {
  const asked: Asked[] = []
  for (let n = 0; n < TIMES; n++) {
    const before = await cpuOfSessions(sql)
    const startedAt = performance.now()
    const response = await fetch(url + path, { headers: { Authorization: `Bearer ${token}` } })
    // Of a file what comes first, which is its first thousand rows.
    const reader = response.body?.getReader()
    const first = await reader?.read()
    if (!path.includes(".csv")) while ((await reader?.read())?.done === false);
    const ms = performance.now() - startedAt
    await reader?.cancel()
    if (response.status === 503) return undefined
    if (response.status !== 200)
      throw new Error(`${path}: ${response.status} ${Buffer.from(first?.value ?? []).toString()}`)
    asked.push({ ms, cpuMs: (await cpuOfSessions(sql)) - before })
  }
  return asked
}

async function askAll(url: string, sql: Sql): Promise<readonly string[]> {
  await sql`insert into accounts (id, email, password_hash, role) values (${OPERATOR}, 'operator@example.test', 'x', 'operator')
    on conflict do nothing`
  const tokens = { customer: await sessionOf(sql, BIG), operator: await sessionOf(sql, OPERATOR) }
  const slow: string[] = []
  console.log(`\n| question | median, ms | worst, ms | PostgreSQL's CPU, median, ms |\n| --- | --- | --- | --- |`)
  for (const question of await questions(sql)) {
    const asked = await ask(url, tokens[question.of], sql, question)
    const middle = asked === undefined ? Number.POSITIVE_INFINITY : median(asked.map(({ ms }) => ms))
    if (middle > GOAL_MS) slow.push(question.name)
    const figures =
      asked === undefined
        ? ["no answer", "", ""]
        : [middle, Math.max(...asked.map(({ ms }) => ms)), median(asked.map(({ cpuMs }) => cpuMs))]
    console.log(
      `| ${[`${question.of}: ${question.name}`, ...figures.map((one) => (typeof one === "number" ? one.toFixed(0) : one))].join(" | ")} |`,
    )
  }
  return slow
}

async function reconcileOn(url: string, ...options: readonly string[]): Promise<void> {
  const startedAt = performance.now()
  const done = Bun.spawn(["bun", "src/main.ts", "reconcile", ...options], {
    cwd: `${import.meta.dir}/..`,
    env: { ...process.env, DATABASE_URL: url },
    stdout: "pipe",
    stderr: "inherit",
  })
  const text = await new Response(done.stdout).text()
  if ((await done.exited) !== 0) throw new Error(`reconcile: ${text}`)
  console.log(`| ${["reconcile", ...options].join(" ")} | ${((performance.now() - startedAt) / 1_000).toFixed(1)} s |`)
}

const prepare = async () => {}
const quarter = (values: readonly number[]): number =>
  percentile(
    values.toSorted((a, b) => a - b),
    0.25,
  )

/** In turns, so that what else the machine does falls on both. */
async function commits(full: string, empty: string): Promise<void> {
  const sessions = [
    await beginCommits({ state: "empty", url: empty, cpu: cpuOf, prepare }),
    await beginCommits({ state: `${RECORDS.toLocaleString("en")} records`, url: full, cpu: cpuOf, prepare }),
  ]
  const samples = sessions.map((session) => ({ session, ms: [] as number[], cpu: [] as number[] }))
  for (const { session } of samples) for (let n = 0; n < 20; n++) await session.commit(CALLS_A_COMMIT)
  for (let n = 0; n < COMMITS; n++) {
    for (const { session, ms, cpu } of samples) {
      const [before, startedAt] = [await session.cpu(), performance.now()]
      await session.commit(CALLS_A_COMMIT)
      ms.push(performance.now() - startedAt)
      cpu.push((await session.cpu()) - before)
    }
  }
  for (const { session, ms, cpu } of samples) {
    console.log(
      `| a commit of ${CALLS_A_COMMIT} calls, ${session.state} | ${quarter(ms).toFixed(2)} ms, ${quarter(cpu).toFixed(0)} µs of CPU |`,
    )
    await session.close()
  }
}

async function sizes(sql: Sql): Promise<void> {
  const rows = await sql<{ name: string; bytes: number; indexes: number }[]>`
    select coalesce(parent.relname, c.relname) as name, sum(pg_table_size(c.oid))::float8 as bytes, sum(pg_indexes_size(c.oid))::float8 as indexes
    from pg_class c left join pg_inherits i on i.inhrelid = c.oid left join pg_class parent on parent.oid = i.inhparent
    where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace
    group by 1 having sum(pg_total_relation_size(c.oid)) > 10 * ${RECORDS} order by sum(pg_total_relation_size(c.oid)) desc`
  console.log(`\n| table | bytes a call | of them indexes |\n| --- | --- | --- |`)
  for (const { name, bytes, indexes } of rows)
    console.log(`| \`${name}\` | ${((bytes + indexes) / RECORDS).toFixed(0)} | ${(indexes / RECORDS).toFixed(0)} |`)
}

const server = connect(SERVER)
const names: string[] = []
try {
  const full = await fullDatabase(server.sql, names)
  const { sql } = connect(full)
  if (ONLY === undefined) await sizes(sql)
  console.log(`\n| | |\n| --- | --- |`)
  const startedAt = performance.now()
  const gateway = await startOn(full)
  console.log(`| start of a process | ${((performance.now() - startedAt) / 1_000).toFixed(2)} s |`)
  const slow: string[] = []
  try {
    if (ONLY === undefined) {
      await reconcileOn(full)
      await reconcileOn(full)
    }
    slow.push(...(await askAll(gateway.url, sql)))
  } finally {
    await gateway.stop()
  }
  if (ONLY === undefined) {
    const empty = await newDatabase(server.sql, names)
    await migrate(empty)
    console.log(`\n| | |\n| --- | --- |`)
    await commits(full, empty)
  }
  if (slow.length > 0) console.log(`\nover ${GOAL_MS} ms: ${slow.join("; ")}`)
  process.exitCode = slow.length > 0 ? 1 : 0
} finally {
  for (const name of names) if (name !== KEPT) await server.sql.unsafe(`drop database ${name} with (force)`)
}
process.exit()
