/** Which server a connection is handed out of. What several servers do is in test/crash/postgres-only/failover.test.ts. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { proveSessions, SessionsShared } from "../../src/store/session-lock.ts"
import { Servers } from "../../src/store/servers.ts"
import { Timelines } from "../../src/store/hosts.ts"
import { createLog } from "../../src/log.ts"
import { openStore } from "../../src/store/open.ts"
import { openFaultProxy } from "./fault-proxy.ts"
import { directConnection, onPostgres, openTestDatabase, type TestDatabase } from "./harness.ts"

let target: TestDatabase
beforeEach(async () => {
  target = await openTestDatabase()
})
afterEach(() => target.close())

const options = { timeoutMs: 5_000, statementTimeoutMs: 5_000 }

const identityOf = async (url: string) => {
  const connection = directConnection(url)
  const { identity } = await connection.prepare()
  await connection.end()
  if (identity === undefined) throw new Error("the server does not tell its identity")
  return identity
}

test("what was promoted beside it makes a server an old primary, and what it was itself does not", async () => {
  const { system, timeline } = await identityOf(target.url)
  const timelines = new Timelines()
  await timelines.saw(`${system}0`, timeline + 1)
  const servers = new Servers(target.url, { timelines })
  const connection = await servers.connect(options)
  expect(await timelines.highest(system)).toBe(timeline)
  await connection.end()
  await timelines.saw(system, timeline + 1)
  const refused = servers.connect(options).then(String, (error: Error) => error.message)
  expect(await refused).toContain(`timeline ${timeline + 1} of the same database was seen: it is an old primary`)
  await servers.close()
})

test("a server that is set to be read only is refused", async () => {
  if (!onPostgres) return
  const name = new URL(target.url).pathname.slice(1)
  await target.sql.unsafe(`alter database ${name} set default_transaction_read_only = on`)
  const servers = new Servers(target.url)
  const refused = servers.connect(options).then(String, (error: Error) => error.message)
  expect(await refused).toContain("is set to be read only")
  await target.sql.unsafe(`alter database ${name} reset default_transaction_read_only`)
  await (await servers.connect(options)).end()
})

test("sessions that are shared are found out, as those of the embedded database, and others are not", async () => {
  const proof = proveSessions(new Servers(target.url)).then(
    () => "proved",
    (error: unknown) => error,
  )
  if (onPostgres) expect(await proof).toBe("proved")
  else expect(await proof).toBeInstanceOf(SessionsShared)
})

test("a start that reaches no server says where it tries and why, without the password, and goes on when there is one", async () => {
  if (!onPostgres) return
  const proxy = await openFaultProxy(target.url)
  proxy.refuse()
  const url = new URL(proxy.url)
  url.password = "hunter2"
  const dataDir = mkdtempSync(join(tmpdir(), "loket-start-"))
  const told = Promise.withResolvers<string>()
  const config = { DATABASE_URL: url.href, DATA_DIR: dataDir, DATABASE_CONNECTIONS: 2, EMBEDDED_SYNC: true }
  const starting = openStore({ config, log: createLog("warn", told.resolve), fatal() {} })
  try {
    const line = await Promise.race([told.promise, starting.then(() => "nothing was told")])
    expect(JSON.parse(line)).toMatchObject({
      level: "warn",
      event: "waits for the database",
      servers: url.host,
      because: expect.stringContaining("connection"),
    })
    expect(line).not.toContain("hunter2")
    proxy.accept()
    await (await starting).close()
  } finally {
    await starting.catch(() => {})
    await proxy.close()
    rmSync(dataDir, { recursive: true })
  }
})

test("a server may be at an address of IPv6, alone and among others", async () => {
  const proxy = await openFaultProxy(target.url, "::1")
  const address = new URL(proxy.url).host
  for (const hosts of [address, `${address},[::1]:1`]) {
    const servers = new Servers(proxy.url.replace(address, hosts))
    const connection = await servers.connect(options)
    expect([...(await connection.sql`select 1 as one`)]).toEqual([{ one: 1 }])
    await connection.end()
    await servers.close()
  }
  await proxy.close()
})
