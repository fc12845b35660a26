/** Who asks for much: how many questions and files of one account are under way, and what becomes of files that nobody reads. */
import { describe, expect, test } from "bun:test"
import { Elysia } from "elysia"
import { Failure } from "../../../src/failure/failure.ts"
import type { Outcome } from "../../../src/http/changes.ts"
import { activityController } from "../../../src/http/dashboard/activity.ts"
import { csvFile } from "../../../src/http/dashboard/page.ts"
import { usageController } from "../../../src/http/dashboard/usage.ts"
import { edge, edgeHandler } from "../../../src/http/edge.ts"
import { createLog } from "../../../src/log.ts"
import { ownerSession } from "./session.ts"
import { noTokens } from "../../../actors/money/price.ts"
import { micro, zero } from "../../../actors/money/micro.ts"
import { turns } from "../../../src/store/gate.ts"
import type { AccountEvent } from "../../../src/store/account-events.ts"
import type { UsageRow } from "../../../src/store/usage.ts"

const refused = () => new Failure("gateway.capacity")
const open = () => Promise.withResolvers<string>()

describe("work in turns", () => {
  test("runs so many at once under a name, in their order, and refuses who is one too many", async () => {
    const inTurn = turns({ atOnce: 2, most: 3, refused })
    const begun: string[] = []
    const work = { a: open(), b: open(), c: open(), other: open() }
    const run = (name: string, which: keyof typeof work) =>
      inTurn(name, () => {
        begun.push(which)
        return work[which].promise
      })
    const all = [run("x", "a"), run("x", "b"), run("x", "c"), run("y", "other")]
    expect(await run("x", "a")).toBeInstanceOf(Failure)
    expect(begun).toEqual(["a", "b", "other"])
    work.b.reject(new Error("gone"))
    expect(await all[1]?.catch((error: Error) => error.message)).toBe("gone")
    expect(begun).toEqual(["a", "b", "other", "c"])
    for (const each of Object.values(work)) each.resolve("done")
    expect([await all[0], await all[2], await all[3]]).toEqual(["done", "done", "done"])
    const again = Array.from({ length: 3 }, () => inTurn("x", () => Promise.resolve("again")))
    expect(await Promise.all(again)).toEqual(["again", "again", "again"])
  })
})

const file = async (pages: number, more: { stalledMs?: number; fails?: boolean } = {}) => {
  let read = 0
  let ends = 0
  const response = await csvFile<number>({
    name: "f",
    columns: ["n"],
    notation: undefined,
    cells: (n) => [n],
    page: 2,
    read: () => {
      if (more.fails === true && read > 0) return Promise.reject(new Error("the database is away"))
      return Promise.resolve(read++ < pages ? [read, read] : [])
    },
    onEnd: () => ends++,
    ...more,
  })
  return { response, ends: () => ends }
}

describe("a file", () => {
  test("is over once, when all of it was read", async () => {
    const { response, ends } = await file(3)
    expect(ends()).toBe(0)
    expect(await response.text()).toBe("n\r\n1\r\n1\r\n2\r\n2\r\n3\r\n3\r\n")
    expect(ends()).toBe(1)
  })
  test("asks for a hundred rows first, so that it begins at once, and then for whole pages to its last row", async () => {
    for (const rows of [99, 100, 101, 1_100, 1_101]) {
      const limits: number[] = []
      const response = await csvFile<number>({
        name: "f",
        columns: ["n"],
        notation: undefined,
        cells: (n) => [n],
        read: async ({ limit, after = 0 }) => {
          limits.push(limit)
          return Array.from({ length: Math.min(limit, rows - after) }, (_, n) => after + n + 1)
        },
      })
      const lines = (await response.text()).trimEnd().split("\r\n")
      expect(lines).toEqual(["n", ...Array.from({ length: rows }, (_, n) => String(n + 1))])
      expect(limits).toEqual(rows < 100 ? [100] : rows < 1_100 ? [100, 1_000] : [100, 1_000, 1_000])
    }
  })
  test("is over once, when its reader leaves", async () => {
    const { response, ends } = await file(Infinity)
    const reader = response.body?.getReader()
    await reader?.read()
    await reader?.cancel()
    expect(ends()).toBe(1)
  })
  test("is over once, when it cannot be read on", async () => {
    const { response, ends } = await file(Infinity, { fails: true })
    expect(await response.text().catch((error: Error) => error.message)).toBe("the database is away")
    expect(ends()).toBe(1)
  })
  test("breaks off when nobody reads it, or never did", async () => {
    const begun = await file(Infinity, { stalledMs: 30 })
    const reader = begun.response.body?.getReader()
    expect(new TextDecoder().decode((await reader?.read())?.value)).toStartWith("n\r\n1")
    const unread = await file(Infinity, { stalledMs: 30 })
    while (begun.ends() + unread.ends() < 2) await Bun.sleep(5)
    const rest = async () => {
      while (!(await reader?.read())?.done);
    }
    expect(await rest().catch((error: Error) => error.message)).toBe("nobody reads the file")
  })
})

const row: UsageRow = {
  requestId: "req_1",
  part: 0,
  keyId: "key_1",
  keyName: undefined,
  runId: undefined,
  model: "m",
  endpoint: "chat",
  streamed: false,
  status: "ok",
  tokens: noTokens,
  chargeMicro: zero,
  absorbedMicro: zero,
  priceId: 1n,
  rates: { input: micro(1n), output: micro(1n), cacheRead: micro(1n), cacheWrite: micro(1n) },
  priceEffectiveAt: undefined,
  turns: 1,
  attempts: 1,
  errorCode: undefined,
  createdAt: new Date(0),
  firstTokenMs: undefined,
  durationMs: 1,
}

const event: AccountEvent = {
  id: 1n,
  at: new Date(0),
  action: "key.created",
  actor: "owner",
  member: undefined,
  token: undefined,
  subject: undefined,
  name: undefined,
  address: undefined,
  userAgent: undefined,
  before: null,
  after: null,
  more: 0,
}

const never = () => Promise.reject(new Error("not asked"))

/** Whose sessions have ended. */
const ended = new Set<string>()

const sessionOf = (who: string, id: string) =>
  ended.has(who) ? new Failure("auth.unauthorized") : { ...ownerSession(who), id }
const authenticate = Object.assign(
  ({ headers }: Request) => Promise.resolve(sessionOf(headers.get("x-who") ?? "", headers.get("x-session") ?? "ses_1")),
  { changes: { once: (_: unknown, work: (change: undefined) => Promise<Outcome | Failure>) => work(undefined) } },
)
const controllers = {
  "/usage/export.csv": () =>
    usageController({
      usage: {
        list: (_, { limit }) => Promise.resolve(Array.from({ length: limit }, () => row)),
        find: never,
        archivedUntil: () => Promise.resolve(undefined),
      },
      sums: { summarise: never, total: never, errors: never },
      firstTokens: never,
      authenticate,
      stalledMs: 60_000,
    }),
  "/account/activity/export.csv": () =>
    activityController({
      events: { list: (_, { limit }) => Promise.resolve(Array.from({ length: limit }, () => event)) },
      authenticate,
    }),
}

test.each(Object.entries(controllers))(
  "four files of one account are sent at once, and the next when one of them is over (%s)",
  async (path, controller) => {
    const handle = edgeHandler(new Elysia().use(edge).use(controller()), {
      log: createLog("error", () => {}),
      now: Date.now,
    })
    const ask = async (who: string) =>
      await handle(new Request(`http://gateway${path}`, { headers: { "x-who": who } }), () => "")
    const sent = await Promise.all(Array.from({ length: 4 }, () => ask("acc_1")))
    expect(sent.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    const fifth = await ask("acc_1")
    expect([fifth.status, fifth.headers.get("x-error-code"), fifth.headers.get("retry-after")]).toEqual([
      429,
      "gateway.capacity",
      "1",
    ])
    const other = await ask("acc_2")
    expect(other.status).toBe(200)
    await sent[0]?.body?.cancel()
    const next = await ask("acc_1")
    expect(next.status).toBe(200)
    for (const each of [...sent.slice(1), next, other]) await each.body?.cancel()
  },
)

test("two questions of one account are answered at once, the others wait for theirs, however many there are", async () => {
  const asked: string[] = []
  const { promise: held, resolve: answer } = Promise.withResolvers<void>()
  let most = 0
  const controller = usageController({
    usage: {
      async list({ accountId }) {
        most = Math.max(most, asked.push(accountId))
        await held
        asked.splice(asked.indexOf(accountId), 1)
        return []
      },
      find: never,
      archivedUntil: () => Promise.resolve(undefined),
    },
    sums: { summarise: never, total: never, errors: never },
    firstTokens: never,
    authenticate,
  })
  const handle = edgeHandler(new Elysia().use(edge).use(controller), {
    log: createLog("error", () => {}),
    now: Date.now,
  })
  const ask = async (who: string, session: string) =>
    await handle(new Request("http://gateway/usage", { headers: { "x-who": who, "x-session": session } }), () => "")
  const sessions = Array.from({ length: 150 }, (_, n) => `ses_4_${n}`)
  const all = sessions.map((session) => ask("acc_4", session))
  await Bun.sleep(0)
  all.push(ask("acc_5", "ses_5"))
  await Bun.sleep(0)
  expect([asked, most]).toEqual([["acc_4", "acc_4", "acc_5"], 3])
  answer()
  for (const each of await Promise.all(all)) expect(each.status).toBe(200)
  expect([asked, most]).toEqual([[], 3])
})

test("HEAD of a file without an end is answered at once, and takes no place", async () => {
  const handle = edgeHandler(new Elysia().use(edge).use(controllers["/usage/export.csv"]()), {
    log: createLog("error", () => {}),
    now: Date.now,
  })
  const ask = (method: string) =>
    handle(new Request("http://gateway/usage/export.csv", { method, headers: { "x-who": "acc_1" } }), () => "")
  for (let each = 0; each < 5; each++) {
    const head = await ask("HEAD")
    expect([head.status, head.headers.get("content-type")]).toEqual([200, "text/csv; charset=utf-8"])
  }
  const file = await ask("GET")
  expect(file.status).toBe(200)
  await file.body?.cancel()
})

test.each(Object.entries(controllers))(
  "a file whose reader may not read it any more breaks off within a second or two, and gives its place back (%s)",
  async (path, controller) => {
    const handle = edgeHandler(new Elysia().use(edge).use(controller()), {
      log: createLog("error", () => {}),
      now: Date.now,
    })
    const ask = async () =>
      await handle(new Request(`http://gateway${path}`, { headers: { "x-who": "acc_3" } }), () => "")
    const files = await Promise.all(Array.from({ length: 4 }, ask))
    const readers = files.map((file) => file.body?.getReader())
    const since = performance.now()
    ended.add("acc_3")
    for (const reader of readers) {
      const rest = async () => {
        while (!(await reader?.read())?.done) await Bun.sleep(1)
      }
      expect(await rest().catch((error: Error) => error.message)).toBe(
        "whoever reads the file may not read it any more",
      )
    }
    expect(performance.now() - since).toBeLessThan(10_000)
    ended.delete("acc_3")
    const next = await ask()
    expect(next.status).toBe(200)
    await next.body?.cancel()
  },
)
