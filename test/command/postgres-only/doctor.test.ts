/** `loket doctor` against a server whose settings, privileges or limits are not as they should be. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Connection } from "../../../src/store/connection.ts"
import { directConnection, openPlace, type Place } from "../../store/scratch.ts"
import { openFaultProxy } from "../../store/fault-proxy.ts"
import { loket } from "../loket.ts"

const dataDir = mkdtempSync(join(tmpdir(), "loket-doctor-"))
const role = `loket_doctor_${process.pid}`
let place: Place
let direct: Connection
let name = ""
beforeAll(async () => {
  place = await openPlace()
  direct = directConnection(place.url)
  name = new URL(place.url).pathname.slice(1)
  await direct.sql.unsafe(`create role ${role} login`)
})
afterAll(async () => {
  await direct.sql.unsafe(`drop owned by ${role}; drop role ${role}`)
  await direct.end()
  await place.remove()
  rmSync(dataDir, { recursive: true })
})

const at = (change: (url: URL) => void): string => {
  const url = new URL(place.url)
  change(url)
  return url.href
}
const asRole = () => at((url) => void (url.username = role))

async function said(url = place.url): Promise<string> {
  const ran = await loket({ DATABASE_URL: url, DATA_DIR: dataDir, PORT: "0" }, "doctor")
  return ran.said.replaceAll(/\s+→ /g, " → ")
}

/** What is set on the database holds for the next connection to it. */
async function withSetting<T>(setting: string, value: string, work: () => Promise<T>): Promise<T> {
  await direct.sql.unsafe(`alter database ${name} set ${setting} = ${value}`)
  try {
    return await work()
  } finally {
    const other = directConnection(at((url) => void (url.pathname = "/postgres")))
    await other.sql.unsafe(`alter database ${name} reset ${setting}`)
    await other.end()
  }
}

test("a server in order is said to be", async () => {
  const found = await said()
  expect(found).toMatch(/ok +PostgreSQL \d+, with settings|look +autovacuum is off/)
  expect(found).toContain("ok     the schema is up to date")
})

test("a database whose language sorts ids in another order than their time is named", async () => {
  const danish = `${name}_danish`
  await direct.sql.unsafe(
    `create database ${danish} template template0 encoding 'UTF8' locale_provider icu icu_locale 'da' locale 'C.UTF-8'`,
  )
  const url = at((other) => void (other.pathname = `/${danish}`))
  try {
    expect((await loket({ DATABASE_URL: url }, "migrate")).code).toBe(0)
    expect(await said(url)).toContain(
      "WRONG  the database's collation does not sort request ids by their time → dump it",
    )
    expect(await said()).not.toContain("collation")
  } finally {
    await direct.sql.unsafe(`drop database ${danish} with (force)`)
  }
})

test("settings that lose or refuse what is written are named", async () => {
  const cases = [
    ["synchronous_commit", "off", /synchronous_commit is off: a power cut loses .* → `alter database/],
    ["default_transaction_read_only", "on", /WRONG +\S+ is set to be read only → `alter database/],
    ["default_transaction_isolation", "serializable", /WRONG +default_transaction_isolation is serializable → `alter/],
  ] as const
  for (const [setting, value, finding] of cases)
    expect(await withSetting(setting, value, () => said())).toMatch(finding)
})

test("a role, a database and an encoding that are not there are named", async () => {
  expect(await said(at((url) => void (url.pathname = "/nowhere")))).toMatch(/not reached: .*"nowhere".* → .*createdb/)
  expect(await said(at((url) => void (url.username = "nobody")))).toMatch(/not reached: .*nobody.* → .*create the role/)
  const ascii = `${name}_ascii`
  await direct.sql.unsafe(`create database ${ascii} encoding 'SQL_ASCII' locale 'C' template template0`)
  try {
    expect(await said(at((url) => void (url.pathname = `/${ascii}`)))).toMatch(
      /encoding is SQL_ASCII → `createdb -E UTF8/,
    )
  } finally {
    await direct.sql.unsafe(`drop database ${ascii} with (force)`)
  }
})

test("privileges that are missing are named, with the grant", async () => {
  expect(await said(asRole())).toMatch(
    new RegExp(
      `${role} may not read and write \\w+, \\w+, \\w+ and \\d+ more tables → .*loket migrate --grant ${role}`,
    ),
  )
  expect((await loket({ DATABASE_URL: place.url }, "migrate", "--grant", role)).code).toBe(0)
  expect(await said(asRole())).toMatch(
    new RegExp(`ok +the schema is up to date\\n.*ok +${role} may add to the books, and not change them`),
  )
  await direct.sql`delete from schema_migrations where name = '0030_gathered_answers.sql'`
  const found = await said(asRole())
  expect(found).toMatch(new RegExp(`${role} may not create tables.* → as the owner of the tables: \`loket migrate`))
  expect(found).toMatch(new RegExp(`belong to another role.* → as that role: \`loket migrate --grant ${role}`))
})

test("too few connections are named", async () => {
  await direct.sql.unsafe(`alter role ${role} connection limit 9`)
  expect(await said(asRole())).toMatch(/\d+ connections are free .* a process takes up to 18 → raise max_connections/)
})

test("sessions of other roles take of the server's connections, and none of the role's own", async () => {
  const [server] = await direct.sql<{ most: number }[]>`
    select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as most`
  const others = Array.from({ length: 12 }, () => directConnection(place.url))
  try {
    await Promise.all(others.map(({ sql }) => sql`select 1`))
    await direct.sql.unsafe(`alter role ${role} connection limit -1`)
    const DATABASE_CONNECTIONS = String((server?.most ?? 0) - 10 - 8)
    const { said: crowded } = await loket(
      { DATABASE_URL: asRole(), DATA_DIR: dataDir, PORT: "0", DATABASE_CONNECTIONS },
      "doctor",
    )
    expect(crowded).toMatch(/WRONG +\d+ connections are free/)
    await direct.sql.unsafe(`alter role ${role} connection limit 22; grant pg_read_all_stats to ${role}`)
    expect(await said(asRole())).toMatch(/ok +\d+ connections are free, of which a process takes up to 18/)
  } finally {
    await Promise.all(others.map((each) => each.end()))
  }
})

test("of several servers one has to take writes; a standby or one that is away beside it is no fault", async () => {
  const { host } = new URL(place.url)
  const two = place.url.replace(host, `${host},127.0.0.1:1`)
  const found = await said(two)
  expect(found).toMatch(/look +127\.0\.0\.1:1 is not reached: .* → nothing listens there/)
  expect(found).toContain("connections are free")
  expect(await said("postgres://a@one,,two/db")).toMatch(
    /WRONG +DATABASE_URL names the host "".* → write DATABASE_URL as/,
  )
})

test("what stands between this machine and the server is named, with what keepalives mean there", async () => {
  expect(await said()).not.toContain("stands between")
  const proxy = await openFaultProxy(place.url)
  expect(await said(proxy.url)).toMatch(/look +a pooler, a proxy .* stands between.* → .*tcp_user_timeout=8000/)
  await proxy.close()
})
