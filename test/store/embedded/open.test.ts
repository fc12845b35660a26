import { expect, test } from "bun:test"
import { existsSync, mkdirSync, rmSync, statSync, writeFileSync } from "node:fs"
import { connect } from "node:net"
import { join } from "node:path"
import { DatabaseUnavailable, openDatabase } from "../../../src/store/database.ts"
import { DataDirectoryInUse } from "../../../src/store/embedded/database-files.ts"
import { openEmbedded } from "../../../src/store/embedded/open.ts"
import { directConnection, templateCopy } from "../harness.ts"

const writer = join(import.meta.dir, "writer.ts")

/** The writer, and the numbers that it has been told are written. */
function startWriter(dataDir: string, round: number, checkpoints = "") {
  const child = Bun.spawn([process.execPath, writer, dataDir, String(round), checkpoints], {
    stdout: "pipe",
    stderr: "pipe",
  })
  let printed = ""
  const reading = (async () => {
    const decoder = new TextDecoder()
    for await (const chunk of child.stdout) printed += decoder.decode(chunk, { stream: true })
  })()
  const acknowledged = () => printed.split("\n").slice(0, -1).map(Number)
  return {
    child,
    acknowledged,
    hasWritten: async (count: number) => {
      while (acknowledged().length < count) {
        if (child.exitCode !== null) throw new Error(await new Response(child.stderr).text())
        await Bun.sleep(5)
      }
    },
    kill: async () => {
      child.kill("SIGKILL")
      await child.exited
      await reading
    },
  }
}

for (const [checkpoints, when] of [
  ["", "each of several times"],
  ["often", "also in the midst of checkpoints"],
] as const) {
  test(
    `every row that was acknowledged is there after SIGKILL, ${when}`,
    () => killedAgainAndAgain(checkpoints),
    120_000,
  )
}

async function killedAgainAndAgain(checkpoints: string): Promise<void> {
  const dataDir = await templateCopy()
  const told: number[][] = []
  for (let round = 0; round < 4; round++) {
    const running = startWriter(dataDir, round, checkpoints)
    await running.hasWritten(30 + 40 * round)
    await running.kill()
    told.push(running.acknowledged())
  }
  const embedded = await openEmbedded({ dataDir })
  const connection = directConnection(embedded.url)
  for (const [round, numbers] of told.entries()) {
    const rows = await connection.sql<{ n: number }[]>`select n from written where round = ${round} order by n`
    const written = rows.map((row) => row.n)
    // The last one may have been written without its acknowledgement having been printed.
    expect(written.slice(0, numbers.length)).toEqual(numbers)
    expect(written.length).toBeLessThanOrEqual(numbers.length + 1)
  }
  await connection.end()
  await embedded.close()
  rmSync(dataDir, { recursive: true })
}

test("a data directory in use is refused to a second process by name, and free again once the first is dead", async () => {
  const dataDir = await templateCopy()
  const first = startWriter(dataDir, 0)
  await first.hasWritten(1)
  const second = startWriter(dataDir, 1)
  expect(await second.child.exited).not.toBe(0)
  expect(await new Response(second.child.stderr).text()).toContain(`The data directory ${dataDir} is in use`)
  const here = await openEmbedded({ dataDir }).catch((thrown: unknown) => thrown)
  expect(here).toBeInstanceOf(DataDirectoryInUse)
  await first.kill()
  const embedded = await openEmbedded({ dataDir })
  const again = await openEmbedded({ dataDir }).catch((thrown: unknown) => thrown)
  expect(again).toBeInstanceOf(DataDirectoryInUse)
  await embedded.close()
  await (await openEmbedded({ dataDir })).close()
  rmSync(dataDir, { recursive: true })
})

test("a data directory stays in use though nobody refers to what opened it any more", async () => {
  const dataDir = await templateCopy()
  const lock = join(import.meta.dir, "../../../src/store/embedded/database-files.ts")
  const take = `import { lockDataDirectory } from ${JSON.stringify(lock)}
    lockDataDirectory(${JSON.stringify(dataDir)})`
  const first = Bun.spawn(
    [
      process.execPath,
      "-e",
      `${take}
      for (let turn = 0; turn < 5; turn++) { Bun.gc(true); await Bun.sleep(5) }
      console.log("collected")
      await Bun.sleep(60_000)`,
    ],
    { stdout: "pipe" },
  )
  const { value } = await first.stdout.getReader().read()
  expect(Buffer.from(value ?? []).toString()).toBe("collected\n")
  const second = Bun.spawnSync([process.execPath, "-e", take])
  expect(second.stderr.toString()).toContain(`The data directory ${dataDir} is in use`)
  first.kill()
  await first.exited
  rmSync(dataDir, { recursive: true })
})

test("only this user can reach the socket, and it goes when the database is closed", async () => {
  const embedded = await openEmbedded({ dataDir: "memory" })
  const directory = new URL(embedded.url).searchParams.get("host") ?? ""
  expect(statSync(directory).mode & 0o777).toBe(0o700)
  await embedded.close()
  expect(existsSync(directory)).toBe(false)
  await embedded.close()
})

test("a database that cannot be opened is an error, and lets go of the directory", async () => {
  const dataDir = await templateCopy()
  rmSync(join(dataDir, "pg"), { recursive: true })
  mkdirSync(join(dataDir, "pg"))
  writeFileSync(join(dataDir, "pg", "PG_VERSION"), "9\n")
  const error = await openEmbedded({ dataDir }).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(Error)
  expect(error).not.toBeInstanceOf(DataDirectoryInUse)
  rmSync(join(dataDir, "pg"), { recursive: true })
  await (await openEmbedded({ dataDir })).close()
  rmSync(dataDir, { recursive: true })
})

test("a database that was left half made by a process that died is made anew", async () => {
  const dataDir = await templateCopy()
  rmSync(join(dataDir, "pg"), { recursive: true })
  mkdirSync(join(dataDir, "pg.unfinished"))
  writeFileSync(join(dataDir, "pg.unfinished", "PG_VERSION"), "18\n")
  const embedded = await openEmbedded({ dataDir })
  const db = openDatabase({ url: embedded.url, connections: 1 })
  expect(await db.ping()).toBe(true)
  await db.close()
  await embedded.close()
  expect(existsSync(join(dataDir, "pg.unfinished"))).toBe(false)
  rmSync(dataDir, { recursive: true })
})

test("a client that vanishes in the middle of a transaction leaves nothing behind, and the others go on", async () => {
  const dataDir = await templateCopy()
  const embedded = await openEmbedded({ dataDir })
  const first = directConnection(embedded.url)
  const second = directConnection(embedded.url)
  await second.sql`create table half (n integer)`
  await first.sql.unsafe("begin; insert into half values (1)")
  const counted = second.sql`select count(*)::int as n from half`
  counted.catch(() => {})
  await Bun.sleep(20)
  first.discard()
  expect(await counted).toMatchObject([{ n: 0 }])
  await second.end()
  await embedded.close()
  rmSync(dataDir, { recursive: true })
})

test("a database that fails for good is told to the process, once, and nobody waits for it", async () => {
  const exits: string[] = []
  const { promise: exited, resolve } = Promise.withResolvers<void>()
  const embedded = await openEmbedded({
    dataDir: "memory",
    onExit: (error) => {
      exits.push(error.message)
      resolve()
    },
  })
  const db = openDatabase({ url: embedded.url, connections: 1 })
  expect(await db.ping()).toBe(true)
  // PGlite throws at a start-up message of a protocol that never was.
  const socket = connect(`${new URL(embedded.url).searchParams.get("host")}/.s.PGSQL.5432`)
  socket.on("error", () => {})
  socket.write(Buffer.from([0, 0, 0, 9, 0, 1, 0, 0, 0]))
  await exited
  expect(exits).toEqual([expect.stringContaining("The embedded database failed")])
  const error = await db.run((sql) => sql`select 1`, { deadlineMs: 1000 }).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(DatabaseUnavailable)
  await db.close()
  await embedded.close()
  expect(exits).toHaveLength(1)
})

test("many clients with statements without a name, errors and large values are each answered with their own", async () => {
  const dataDir = await templateCopy()
  const embedded = await openEmbedded({ dataDir })
  const clients = Array.from({ length: 40 }, () => directConnection(embedded.url))
  await Promise.all(
    clients.map(async ({ sql }, client) => {
      for (let n = 0; n < 20; n++) {
        const text = "x".repeat(n % 5 === 0 ? 300_000 + client : client)
        const [row] = await sql.unsafe<Record<string, number>[]>(
          `select ${client * 100 + n} as literal, $1::int as n, length($2) as length`,
          [n, text],
        )
        expect({ ...row }).toEqual({ literal: client * 100 + n, n, length: text.length })
        const error = await sql`select 1 / ${0}::int`.catch((thrown: unknown) => thrown)
        expect(error).toMatchObject({ code: "22012" })
      }
    }),
  )
  await Promise.all(clients.map((client) => client.end()))
  await embedded.close()
  rmSync(dataDir, { recursive: true })
})

test("an answer of megabytes arrives whole at a client that reads late, and others are answered meanwhile", async () => {
  const dataDir = await templateCopy()
  const embedded = await openEmbedded({ dataDir })
  const socket = connect(`${new URL(embedded.url).searchParams.get("host")}/.s.PGSQL.5432`)
  const startUp = Buffer.from("\0\0\0\0\0\u0003\0\0user\0postgres\0database\0postgres\0\0", "latin1")
  startUp.writeUInt32BE(startUp.length)
  let answered = Buffer.alloc(0)
  const isReady = () => answered.subarray(-6).equals(Buffer.from("Z\0\0\0\u0005I", "latin1"))
  const ready = () =>
    new Promise<void>((resolve) => {
      socket.on("data", (bytes: Buffer) => {
        answered = Buffer.concat([answered, bytes])
        if (isReady()) resolve(void socket.removeAllListeners("data"))
      })
    })
  socket.write(startUp)
  await ready()
  socket.pause()
  const query = "\0\0\0\0select string_agg(n::text, ',') as all from generate_series(1, 1000000) n\0"
  const asked = Buffer.from(`Q${query}`, "latin1")
  asked.writeUInt32BE(query.length, 1)
  socket.write(asked)
  await Bun.sleep(50)

  const other = directConnection(embedded.url)
  expect((await other.sql`select 1 as n`)[0]).toEqual({ n: 1 })
  // As much again, to one that reads at once.
  const [large] = await other.sql<{ text: string }[]>`select repeat('x', 20000000) as text`
  expect(large?.text === "x".repeat(20_000_000)).toBe(true)

  answered = Buffer.alloc(0)
  const whole = ready()
  socket.resume()
  await whole
  const numbers = Array.from({ length: 1_000_000 }, (_, n) => n + 1).join(",")
  expect(answered.includes(numbers)).toBe(true)
  socket.destroy()
  await other.end()
  await embedded.close()
  rmSync(dataDir, { recursive: true })
})
