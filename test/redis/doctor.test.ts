/** What `loket doctor` says of Redis: one thing that is wrong a row. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { redis as look } from "../../src/command/doctor/neighbours.ts"
import { configuration } from "../../src/command/command.ts"
import { noRedis, startRedis, type TestRedis } from "./server.ts"

let redis: TestRedis
let locked: TestRedis
const stranger = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() })
beforeAll(async () => {
  if (noRedis !== undefined) return
  redis = await startRedis()
  locked = await startRedis([], undefined, "hunter2")
  await locked.send("ACL", "SETUSER", "poor", "on", ">hunter3", "~other:*", "+@all")
})
afterAll(async () => {
  await stranger.stop(true)
  await redis?.[Symbol.asyncDispose]()
  await locked?.[Symbol.asyncDispose]()
})

const said = async (url: string) => await look(configuration({ REDIS_URL: url }))
const at = (words: string) => `redis://${words}@127.0.0.1:${locked.port}`

interface Row {
  readonly seeded: string
  readonly url: () => string
  readonly says: RegExp
  readonly before?: () => Promise<unknown>
  readonly after?: () => Promise<unknown>
}

const rows: readonly Row[] = [
  {
    seeded: "nothing that listens",
    url: () => "redis://127.0.0.1:1",
    says: /^wrong Redis 127\.0\.0\.1:1 is not reached/,
  },
  {
    seeded: "a server that is no Redis",
    url: () => `redis://127.0.0.1:${stranger.port}`,
    says: /^wrong what answers .* is no Redis/,
  },
  {
    seeded: "no TLS where it is asked for",
    url: () => `rediss://127.0.0.1:${redis.port}`,
    says: /^wrong Redis .* is not reached/,
  },
  {
    seeded: "a wrong password",
    url: () => at(":hunter4"),
    says: /^wrong .*refuses the user or the password \(WRONGPASS\)/,
  },
  {
    seeded: "no password",
    url: () => `redis://127.0.0.1:${locked.port}`,
    says: /^wrong .*refuses the user or the password \(NOAUTH\)/,
  },
  { seeded: "a user without rights", url: () => at("poor:hunter3"), says: /^wrong .*refuses what limits need: NOPERM/ },
  {
    seeded: "a replica",
    url: () => redis.url,
    before: () => redis.send("REPLICAOF", "127.0.0.1", "1"),
    after: () => redis.send("REPLICAOF", "NO", "ONE"),
    says: /^wrong .*is a replica/,
  },
  {
    seeded: "a server that is full",
    url: () => redis.url,
    before: () => redis.send("CONFIG", "SET", "maxmemory", "1"),
    after: () => redis.send("CONFIG", "SET", "maxmemory", "0"),
    says: /^wrong .*has no memory left/,
  },
  {
    seeded: "a server that evicts",
    url: () => redis.url,
    before: () => redis.send("CONFIG", "SET", "maxmemory", "1gb", "maxmemory-policy", "allkeys-lru"),
    after: () => redis.send("CONFIG", "SET", "maxmemory", "0", "maxmemory-policy", "noeviction"),
    says: /^look .*forgets windows when it is full \(maxmemory-policy allkeys-lru\)/,
  },
]

describe.skipIf(noRedis !== undefined)("doctor", () => {
  test.each(rows)("names $seeded, with what to do, and no password", async ({ url, says, before, after }) => {
    await before?.()
    const found = await said(url())
    await after?.()
    expect(found.map(({ state, what }) => `${state} ${what}`).join("\n")).toMatch(new RegExp(says, "m"))
    for (const each of found) expect(each.state === "ok" || each.remedy.length > 10).toBe(true)
    expect(JSON.stringify(found)).not.toContain("hunter")
  })

  test("leaves a server that is in order as it is, and says nothing where there is none", async () => {
    // A machine that is busy may be slow to answer, which is told as well.
    expect((await said(redis.url)).map(({ state }) => state)).not.toContain("wrong")
    expect((await said(at(":hunter2"))).map(({ state }) => state)).not.toContain("wrong")
    expect(await redis.send("DBSIZE")).toBe(0)
    expect(await look(configuration({}))).toEqual([])
  })
})
