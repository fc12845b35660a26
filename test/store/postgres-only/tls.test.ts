/** TLS to a real server: which certificates are taken, and that nothing is sent in the clear where it was asked for. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { copyFileSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openDatabase } from "../../../src/store/database.ts"
import { noServer, PostgresServer } from "../../crash/torture/server.ts"

if (noServer !== undefined) process.stderr.write(`left out: TLS (${noServer})\n`)
const here = test.skipIf(noServer !== undefined)

let server: PostgresServer | undefined
const directory = mkdtempSync(join(tmpdir(), "loket-tls-"))
const file = (name: string) => join(directory, name)

function run(command: string): void {
  const { success, stderr } = Bun.spawnSync(["sh", "-c", command], { cwd: directory })
  if (!success) throw new Error(`${command}: ${stderr.toString()}`)
}

beforeAll(async () => {
  const ask = "openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
  run(`${ask} -x509 -days 2 -subj /CN=ours -keyout ca.key -out ca.pem`)
  run(`${ask} -x509 -days 2 -subj /CN=theirs -keyout other.key -out other.pem`)
  run(`${ask} -subj /CN=localhost -keyout server.key -out server.csr`)
  run(
    `printf 'subjectAltName=DNS:localhost' > names && openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.pem`,
  )
  if (noServer !== undefined) return
  server = await PostgresServer.build()
  await server!.admin(async (sql) => {
    const [{ place } = { place: "" }] = await sql<
      { place: string }[]
    >`select current_setting('data_directory') as place`
    for (const name of ["server.key", "server.pem"]) {
      copyFileSync(file(name), join(place, name))
      if (process.getuid?.() === 0) run(`chown postgres ${join(place, name)}`)
    }
    run(`chmod 0600 ${join(place, "server.key")}`)
    await sql.unsafe("alter system set ssl_cert_file = 'server.pem'")
    await sql.unsafe("alter system set ssl_key_file = 'server.key'")
    await sql.unsafe("alter system set ssl = on")
    await sql`select pg_reload_conf()`
  })
  while ((await outcome("localhost", "sslmode=require")) !== "TLS") await Bun.sleep(50)
})
afterAll(async () => {
  await server?.[Symbol.asyncDispose]()
  rmSync(directory, { recursive: true, force: true })
})

/** Whether the session is in TLS, as the server sees it, or why there is none. */
async function outcome(host: string, parameters: string): Promise<string> {
  const url = new URL(server?.url ?? "")
  url.hostname = host
  const db = openDatabase({ url: `${url.href}?${parameters}`, connections: 1 })
  try {
    const [row] = await db.run(
      (sql) => sql<{ ssl: boolean }[]>`select ssl from pg_stat_ssl where pid = pg_backend_pid()`,
    )
    return row?.ssl === true ? "TLS" : "in the clear"
  } catch (error) {
    return String(error)
  } finally {
    await db.close()
  }
}

const rows: readonly (readonly [host: string, parameters: string, says: RegExp])[] = [
  ["localhost", "", /^in the clear$/],
  ["localhost", "sslmode=disable", /^in the clear$/],
  ["localhost", "sslmode=prefer", /^TLS$/],
  ["127.0.0.1", "sslmode=require", /^TLS$/],
  ["localhost", "sslmode=verify-full&sslrootcert=ca.pem", /^TLS$/],
  ["127.0.0.1", "sslmode=verify-ca&sslrootcert=ca.pem", /^TLS$/],
  ["localhost", "sslmode=require&sslrootcert=ca.pem", /^TLS$/],
  // Signed by another one, by nobody whom the machine knows, and for another name.
  ["localhost", "sslmode=verify-full&sslrootcert=other.pem", /certificate/],
  ["localhost", "sslmode=require&sslrootcert=other.pem", /certificate/],
  ["localhost", "sslmode=verify-ca&sslrootcert=other.pem", /certificate/],
  ["localhost", "sslmode=verify-full", /certificate/],
  ["127.0.0.1", "sslmode=verify-full&sslrootcert=ca.pem", /certificate|altnames/],
  ["localhost", "sslmode=verify-full&sslrootcert=absent.pem", /sslrootcert in DATABASE_URL: .*no such file/i],
]
for (const [host, parameters, says] of rows)
  here(`${host}, ${parameters || "nothing said"}: ${says.source}`, async () => {
    expect(
      await outcome(
        host,
        parameters.replace(/sslrootcert=(\S+)/, (_, name) => `sslrootcert=${file(name)}`),
      ),
    ).toMatch(says)
  })

here("where the server has no TLS, nothing is sent in the clear that was to be encrypted", async () => {
  await server!.admin(async (sql) => {
    await sql.unsafe("alter system set ssl = off")
    await sql`select pg_reload_conf()`
  })
  while ((await outcome("localhost", "sslmode=prefer")) !== "in the clear") await Bun.sleep(50)
  for (const mode of ["require", "verify-ca", "verify-full"])
    expect(await outcome("localhost", `sslmode=${mode}&sslrootcert=${file("ca.pem")}`)).toContain(
      "before secure TLS connection was established",
    )
})
