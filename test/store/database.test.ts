import { afterAll, beforeAll, expect, test } from "bun:test"
import postgres from "postgres"
import {
  type Database,
  type DatabaseOptions,
  DatabaseUnavailable,
  openDatabase,
  type Sql,
} from "../../src/store/database.ts"
import { systemClock } from "../../actors/kernel/clock.ts"
import { type FaultProxy, openFaultProxy } from "./fault-proxy.ts"
import { openTestDatabase, type TestDatabase } from "./harness.ts"

let target: TestDatabase
const unhandled: unknown[] = []
const noteUnhandled = (reason: unknown) => unhandled.push(reason)

beforeAll(async () => {
  process.on("unhandledRejection", noteUnhandled)
  target = await openTestDatabase()
  await target.sql`create table notes (id text primary key, writes integer not null default 1)`
})
afterAll(async () => {
  process.off("unhandledRejection", noteUnhandled)
  await target.close()
})

async function behindProxy(
  options: Partial<DatabaseOptions> = {},
): Promise<AsyncDisposable & { db: Database; proxy: FaultProxy }> {
  const proxy = await openFaultProxy(target.url)
  const db = openDatabase({ connections: 2, ...options, url: proxy.url })
  return {
    db,
    proxy,
    [Symbol.asyncDispose]: async () => {
      await db.close()
      await proxy.close()
    },
  }
}

/** Adds a note; one that is there already is left as it is. */
const note = (id: string) => (sql: Sql) => sql`insert into notes (id) values (${id}) on conflict do nothing`
const notesLike = async (pattern: string): Promise<string[]> =>
  (await target.sql<{ id: string }[]>`select id from notes where id like ${pattern} order by id`).map((row) => row.id)

async function failure(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error("it succeeded")
}

test("fifty callers share as many connections as there are, and none is answered for another", async () => {
  await using place = await behindProxy({ connections: 3 })
  const { db, proxy } = place
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, n) =>
      // Without a name a statement lives in the connection's one unnamed slot.
      db.run((sql) => sql.unsafe<{ n: number; literal: number }[]>(`select $1::int as n, ${n} as literal`, [n])),
    ),
  )
  expect(answers.map((rows) => ({ ...rows[0] }))).toEqual(Array.from({ length: 50 }, (_, n) => ({ n, literal: n })))
  expect(proxy.mostOpen).toBe(3)
})

test("a bigint comes back as a bigint", async () => {
  const [row] = await target.db.run((sql) => sql`select ${2n ** 62n}::bigint as big`)
  expect(row).toEqual({ big: 2n ** 62n })
})

test("what Postgres refuses is thrown as its own error, is not sent again, and costs no connection", async () => {
  await using place = await behindProxy({ connections: 1 })
  const { db, proxy } = place
  await db.run(note("refused"))
  let sent = 0
  const error = await failure(
    db.run(
      (sql) => {
        sent++
        return sql`insert into notes (id) values ('refused')`
      },
      { retry: true },
    ),
  )
  expect(error).toBeInstanceOf(postgres.PostgresError)
  expect(error).toMatchObject({ code: "23505" })
  expect(sent).toBe(1)
  await db.run((sql) => sql`select 1`)
  expect(proxy.mostOpen).toBe(1)
})

test("a statement whose answer was lost is sent again when it may be, and has happened once", async () => {
  await using place = await behindProxy()
  const { db, proxy } = place
  await db.run((sql) => sql`select 1`)
  const dropped = proxy.dropReplyTo("lost-and-sent-again")
  await db.run(note("lost-and-sent-again"), { retry: true })
  await dropped
  expect(await notesLike("lost-and-sent-again")).toHaveLength(1)
})

test("a statement whose answer was lost is not sent again unasked, though it has happened", async () => {
  await using place = await behindProxy()
  const { db, proxy } = place
  const dropped = proxy.dropReplyTo("lost-and-unknown")
  let sent = 0
  const error = await failure(
    db.run((sql) => {
      sent++
      return note("lost-and-unknown")(sql)
    }),
  )
  await dropped
  expect(error).toBeInstanceOf(DatabaseUnavailable)
  expect(sent).toBe(1)
  expect(await notesLike("lost-and-unknown")).toHaveLength(1)
})

test("an attempt without an answer is abandoned with its connection, and the next one succeeds on another", async () => {
  await using place = await behindProxy({ connections: 1 })
  const { db, proxy } = place
  await db.run((sql) => sql`select 1`)
  proxy.freeze()
  const writing = db.run(note("thawed"), { retry: true, attemptMs: 200, deadlineMs: 5000 })
  await Bun.sleep(300)
  proxy.thaw()
  await writing
  expect(await notesLike("thawed")).toHaveLength(1)
  expect(proxy.open).toBe(1)
})

test("with patience a statement and its attempts may take as many times as long", async () => {
  let patience = 100
  await using place = await behindProxy({ connections: 1, patience: () => patience })
  const { db, proxy } = place
  proxy.hold("waited-for")
  const writing = db.run(note("waited-for"), { retry: true, attemptMs: 100, deadlineMs: 200 })
  while (proxy.held === 0) await Bun.sleep(10)
  await Bun.sleep(600)
  expect(proxy.held).toBe(1)
  proxy.deliver()
  await writing
  expect(await notesLike("waited-for")).toHaveLength(1)
  expect(proxy.mostOpen).toBe(1)
  patience = 1
  proxy.hold("given-up")
  expect(await failure(db.run(note("given-up"), { deadlineMs: 200 }))).toBeInstanceOf(DatabaseUnavailable)
})

test("a frozen network is unavailable by the deadline, and no later", async () => {
  await using place = await behindProxy({ connections: 1 })
  const { db, proxy } = place
  proxy.freeze()
  const started = systemClock.running()
  const outcomes = await Promise.all([
    failure(db.run(note("frozen"), { deadlineMs: 300 })),
    failure(db.run(note("frozen"), { deadlineMs: 300, attemptMs: 100, retry: true })),
    // Behind the others at the gate, its time runs too.
    failure(db.run(note("frozen"), { deadlineMs: 200 })),
    db.ping(),
  ])
  expect(systemClock.running() - started).toBeLessThan(4000)
  for (const outcome of outcomes.slice(0, 3)) expect(outcome).toBeInstanceOf(DatabaseUnavailable)
  expect(outcomes[3]).toBe(false)
  proxy.thaw()
  expect(await db.ping()).toBe(true)
})

test("a database that is not there yet is reached as soon as it is", async () => {
  await using place = await behindProxy()
  const { db, proxy } = place
  proxy.refuse()
  expect(await failure(db.run((sql) => sql`select 1`))).toBeInstanceOf(DatabaseUnavailable)
  const waiting = db.run(note("late-arrival"), { retry: true })
  await Bun.sleep(100)
  proxy.accept()
  await waiting
  expect(await notesLike("late-arrival")).toHaveLength(1)
})

test("nobody listening is unavailable at once, unless the statement may be sent again", async () => {
  const proxy = await openFaultProxy(target.url)
  await proxy.close()
  const db = openDatabase({ url: proxy.url, connections: 1 })
  const refused = await failure(db.run((sql) => sql`select 1`))
  expect(refused).toBeInstanceOf(DatabaseUnavailable)
  expect((refused as Error).message).toStartWith(`Postgres is not reached at ${new URL(proxy.url).host}: `)
  expect(await db.ping()).toBe(false)
  await db.close()
})

test("a server that says nothing is named as it is, with its port", async () => {
  const proxy = await openFaultProxy(target.url)
  proxy.freeze()
  const db = openDatabase({ url: proxy.url, connections: 1, maxAttemptMs: 5_000 })
  const { host } = new URL(proxy.url)
  const late = await failure(db.run((sql) => sql`select 1`, { deadlineMs: 10_000 }))
  expect((late as Error).message.replace(/ [45]\d{3} ms$/, "")).toBe(
    `Postgres is not reached at ${host}: no answer within`,
  )
  await db.close()
  await proxy.close()
})

test("one more caller than may wait is refused at once, and the others are served", async () => {
  await using place = await behindProxy({ connections: 1, maxWaiting: 1 })
  const { db, proxy } = place
  proxy.freeze()
  const first = db.run(note("in-line-1"), { attemptMs: 200, retry: true })
  const second = db.run(note("in-line-2"), { attemptMs: 200, retry: true })
  expect(await failure(db.run(note("in-line-3"), { retry: true }))).toBeInstanceOf(DatabaseUnavailable)
  proxy.thaw()
  await Promise.all([first, second])
  expect(await notesLike("in-line-%")).toEqual(["in-line-1", "in-line-2"])
})

test("however many ask whether it answers, one question is under way, and others have their turn", async () => {
  await using place = await behindProxy({ connections: 1, maxWaiting: 2 })
  const { db, proxy } = place
  proxy.freeze()
  const asked = Array.from({ length: 50 }, () => db.ping())
  expect(db.load).toMatchObject({ inside: 1, waiting: 0 })
  const other = db.run(note("beside-questions"), { deadlineMs: 10_000, attemptMs: 200, retry: true })
  proxy.thaw()
  expect(new Set(await Promise.all(asked))).toEqual(new Set([true]))
  await other
  // The next one is asked anew.
  proxy.freeze()
  expect(await db.ping()).toBe(false)
  proxy.thaw()
})

test("closing waits for what is under way, and refuses what comes later", async () => {
  const proxy = await openFaultProxy(target.url)
  const db = openDatabase({ url: proxy.url, connections: 1 })
  const underWay = db.run(note("under-way"))
  await db.close()
  await underWay
  // The server may be saying goodbye still.
  while (proxy.open > 0) await Bun.sleep(1)
  expect(await failure(db.run(note("too-late")))).toBeInstanceOf(DatabaseUnavailable)
  await proxy.close()
})

test("a bug in building a statement is thrown as it is, and gives its place back", async () => {
  await using place = await behindProxy({ connections: 1 })
  const { db } = place
  const bug = new TypeError("a bug")
  const statement = () => {
    throw bug
  }
  expect(await failure(db.run(statement, { retry: true }))).toBe(bug)
  expect(await db.ping()).toBe(true)
})

test("with the network cut thirty times a second every acknowledged row is there once, and nothing hangs", async () => {
  await using place = await behindProxy({ connections: 4 })
  const { db, proxy } = place
  const acknowledged: string[] = []
  const over = new AbortController()
  const cutting = (async () => {
    for (let cuts = 0; cuts < 60; cuts++) {
      const before = acknowledged.length
      await Bun.sleep(33)
      // A slow machine gets nothing through in that time.
      while (acknowledged.length === before) await Bun.sleep(5)
      proxy.cut()
    }
    over.abort()
  })()
  const writers = Array.from({ length: 8 }, async (_, writer) => {
    for (let n = 0; !over.signal.aborted; n++) {
      const id = `storm-${writer}-${n}`
      await db.run(note(id), { retry: true, deadlineMs: 10_000 })
      acknowledged.push(id)
    }
  })
  await Promise.all([...writers, cutting])
  expect(acknowledged.length).toBeGreaterThanOrEqual(60)
  expect(await notesLike("storm-%")).toEqual(acknowledged.sort())
  expect(proxy.mostOpen).toBeLessThanOrEqual(4)
  // Given a moment to surface, and none did.
  await Bun.sleep(50)
  expect(unhandled).toEqual([])
})

/** What a server says that begins no session. */
function refusalOf(code: string, message: string): Buffer {
  const fields = ["SFATAL", "VFATAL", `C${code}`, `M${message}`, ""].map((field) => `${field}\0`).join("")
  const length = Buffer.alloc(4)
  length.writeInt32BE(4 + fields.length)
  return Buffer.concat([Buffer.from("E"), length, Buffer.from(fields)])
}

test("a server that takes no connections for a while is unavailable to whom it has let in before, and nothing is lost", async () => {
  const closed = refusalOf("55000", "the database is not currently accepting connections")
  await using place = await behindProxy({ connections: 1 })
  const { db, proxy } = place
  // To a stranger it is the wrong address, and said at once.
  proxy.refuse(closed)
  expect(await failure(db.run((sql) => sql`select 1`, { retry: true }))).toMatchObject({ code: "55000" })
  proxy.accept()
  await db.run((sql) => sql`select 1`)
  proxy.refuse(closed)
  proxy.cut()
  for (const retry of [false, true])
    expect(await failure(db.run(note("not-let-in"), { deadlineMs: 300, retry }))).toBeInstanceOf(DatabaseUnavailable)
  const waiting = db.run(note("let-in-again"), { retry: true })
  proxy.accept()
  await waiting
  expect([await notesLike("not-let-in"), await notesLike("let-in-again")]).toEqual([[], ["let-in-again"]])
})

test("a server that cannot begin a session for a trouble of its own is unavailable", async () => {
  const answer = refusalOf("XX000", "could not write init file")
  using server = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      data(socket) {
        socket.end(answer)
      },
    },
  })
  const db = openDatabase({ url: `postgres://nobody@127.0.0.1:${server.port}/none`, connections: 1 })
  const asked = db.run((sql) => sql`select 1`, { deadlineMs: 300 })
  expect(await asked.catch((error: unknown) => error)).toBeInstanceOf(DatabaseUnavailable)
  await db.close()
})

test("the server compiles no statement of ours", async () => {
  await using target = await openTestDatabase()
  const [row] = await target.db.run((sql) => sql<{ jit: string }[]>`select current_setting('jit') as jit`)
  expect(row?.jit).toBe("off")
})
