/** Several processes and one Redis: what they admit together, and what they do without it (src/redis/counts.ts). */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { CountedWindow, type Taken } from "../../actors/counted-window.ts"
import { systemClock } from "../../actors/kernel/clock.ts"
import { SlidingWindow } from "../../actors/window.ts"
import type { Log } from "../../src/log.ts"
import { RedisCounts } from "../../src/redis/counts.ts"
import type { FallReason } from "../../src/redis/connection.ts"
import { noRedis, startRedis, type TestRedis, type Way, wayTo } from "./server.ts"
import { until } from "../eventually.ts"

const waits = { connectMs: 200, beatMs: 30, pauseMs: 30, tellingMs: 600 }
/** Where nobody is to be late on a machine that is busy with other things; and what it is. */
const PATIENT_MS = 5_000
const ANSWER_MS = 80

/** One process's windows of one key: so many of several, each on a way of its own to Redis. */
class Process implements Disposable {
  readonly counts: RedisCounts
  readonly requests: CountedWindow
  readonly tokens: CountedWindow
  readonly log: string[] = []
  admitted = 0

  constructor(url: string, prefix: string, index: number, count: number, limit: number, answerMs = PATIENT_MS) {
    const note = (event: string, fields?: object) => void this.log.push(`${event} ${JSON.stringify(fields ?? {})}`)
    const log: Log = { debug: note, info: note, warn: note, error: note }
    this.counts = new RedisCounts({
      url,
      prefix,
      clock: systemClock,
      random: Math.random,
      log,
      waits: { ...waits, answerMs },
    })
    this.requests = this.#window("requests", { index, count }, limit)
    this.tokens = this.#window("tokens", { index, count }, limit)
    this.counts.start(() => {
      this.requests.tell(performance.now())
      this.tokens.tell(performance.now())
    })
  }

  #window(kind: string, share: { index: number; count: number }, limit: number): CountedWindow {
    const counter = {
      counts: this.counts,
      window: `key:${kind}`,
      self: (news: Parameters<CountedWindow["receive"]>[0]) => window.receive(news, performance.now()),
    }
    const window: CountedWindow = new CountedWindow(new SlidingWindow(limit, share), counter, kind === "requests")
    return window
  }

  async take(amount = 1, window = this.requests): Promise<Taken> {
    const taken = await new Promise<Taken>((resolve) => window.take(amount, performance.now(), resolve))
    if (taken.fits) this.admitted += amount
    return taken
  }

  get isExact() {
    return this.counts.state === "exact"
  }

  [Symbol.dispose]() {
    this.counts.stop()
  }
}

let redis: TestRedis
let prefixes = 0
beforeAll(async () => {
  if (noRedis === undefined) redis = await startRedis()
})
afterAll(async () => await redis?.[Symbol.asyncDispose]())

interface World extends Disposable {
  readonly processes: readonly Process[]
  readonly ways: readonly Way[]
  readonly all: () => number
}

async function world(count: number, limit: number, { answerMs = PATIENT_MS, port = redis.port } = {}): Promise<World> {
  const prefix = `w${++prefixes}`
  const ways = await Promise.all(Array.from({ length: count }, () => wayTo(port)))
  const processes = ways.map(({ url }, index) => new Process(url, prefix, index, count, limit, answerMs))
  await until(() => processes.every(({ isExact }) => isExact))
  return {
    processes,
    ways,
    all: () => processes.reduce((sum, { admitted }) => sum + admitted, 0),
    [Symbol.dispose]() {
      for (const each of [...processes, ...ways]) each[Symbol.dispose]()
    },
  }
}

const flood = async (processes: readonly Process[], each = 20) => {
  await Promise.all(processes.flatMap((process) => Array.from({ length: each }, () => process.take())))
}

describe.skipIf(noRedis !== undefined)("while Redis answers", () => {
  test("four processes admit a key's limit together, whichever is asked", async () => {
    using it = await world(4, 10)
    const [first] = it.processes
    for (let call = 0; call < 9; call++) expect((await first!.take()).fits).toBe(true)
    expect(first!.requests.view(performance.now())).toMatchObject({ limit: 10, remaining: 1 })
    await flood(it.processes, 10)
    expect(it.all()).toBe(10)
    const refused = await first!.take()
    expect(refused).toMatchObject({ fits: false })
    expect(!refused.fits && refused.retryAfterS).toBeWithin(1, 61)
    expect(first!.requests.view(performance.now())).toMatchObject({ remaining: 0 })
  })

  test("a full window of requests is not asked for again before there is room", async () => {
    using it = await world(2, 3)
    const [first] = it.processes
    await flood(it.processes)
    await first!.take()
    const { count } = first!.counts.answers
    const beats = systemClock.monotonic()
    for (let call = 0; call < 1_000; call++) expect(await first!.take()).toMatchObject({ fits: false })
    // Only beats.
    expect(first!.counts.answers.count - count).toBeLessThanOrEqual(2 + (systemClock.monotonic() - beats) / 30)
  })

  test("what was given back or used over the estimate counts everywhere", async () => {
    using it = await world(2, 100)
    const [one, two] = it.processes
    const taken = await one!.take(80, one!.tokens)
    expect(await two!.take(30, two!.tokens)).toMatchObject({ fits: false })
    if (!taken.fits) throw new Error("refused")
    one!.tokens.correct(-60, taken.atMs, performance.now())
    await until(async () => (await two!.take(80, two!.tokens)).fits)
    one!.tokens.correct(5, taken.atMs, performance.now())
    const left = () =>
      new Promise<number>((resolve) => {
        two!.tokens.look(0, performance.now(), () => resolve(two!.tokens.view(performance.now()).remaining))
      })
    await until(async () => (await left()) === 0)
    one!.tokens.correct(-20, taken.atMs, performance.now())
    await until(async () => (await left()) === 15)
  })

  test("a process that is late itself does not take Redis for late", async () => {
    using it = await world(1, 1_000, { answerMs: 300 })
    const [only] = it.processes
    const taking = only!.take()
    Bun.sleepSync(600)
    expect(await taking).toMatchObject({ fits: true })
    expect(only!.isExact).toBe(true)
    expect(Object.values(only!.counts.falls)).toEqual(Object.values(only!.counts.falls).map(() => 0))
  })

  test("two gateways with prefixes of their own share nothing on one server, and no key outlives its minute", async () => {
    using one = await world(1, 5)
    using two = await world(1, 5)
    await flood([...one.processes, ...two.processes])
    expect([one.all(), two.all()]).toEqual([5, 5])
    for (const key of (await redis.send("KEYS", "*")) as string[]) {
      expect(key).toMatch(/^w\d+:(epoch|key:(requests|tokens))$/)
      expect(await redis.send("PTTL", key)).toBeWithin(1, 3_600_001)
    }
  })
})

interface Trouble {
  readonly name: string
  readonly reason: FallReason
  readonly begin: (it: World) => unknown
  readonly end: (it: World) => unknown
}

const onAll = (go: (way: Way) => void) => (it: World) => it.ways.forEach(go)
const troubles: readonly Trouble[] = [
  { name: "refuses", reason: "closed", begin: onAll((way) => way.cut()), end: onAll((way) => way.mend()) },
  { name: "hangs", reason: "late", begin: onAll((way) => way.hold()), end: onAll((way) => way.letGo()) },
  { name: "is slow", reason: "late", begin: onAll((way) => way.delay(400)), end: onAll((way) => way.delay(0)) },
  {
    name: "is cut off in the middle of an answer",
    reason: "closed",
    begin: onAll((way) => (way.breakOff(7), way.hold(), way.letGo())),
    end: () => {},
  },
  {
    name: "is a replica",
    reason: "readonly",
    begin: () => redis.send("REPLICAOF", "127.0.0.1", "1"),
    end: () => redis.send("REPLICAOF", "NO", "ONE"),
  },
  {
    name: "has no memory left",
    reason: "oom",
    begin: () => redis.send("CONFIG", "SET", "maxmemory", "1"),
    end: () => redis.send("CONFIG", "SET", "maxmemory", "0"),
  },
  { name: "was emptied", reason: "emptied", begin: () => redis.send("FLUSHALL"), end: () => {} },
]

describe.skipIf(noRedis !== undefined)("when Redis", () => {
  test.each(troubles)(
    "$name, each goes by its share, and nothing more is admitted when it is back",
    async (trouble) => {
      using it = await world(2, 10, { answerMs: trouble.reason === "late" ? ANSWER_MS : PATIENT_MS })
      const [one] = it.processes
      // Of one alone: the other has not been told of it.
      for (let call = 0; call < 2; call++) expect(await one!.take()).toMatchObject({ fits: true })
      await trouble.begin(it)
      const began = systemClock.running()
      await flood(it.processes, 3)
      // Nobody was refused, and nobody waited.
      expect(it.all()).toBe(8)
      expect(systemClock.running() - began).toBeLessThan(1_000)
      await until(() => it.processes.every(({ log }) => log.some((line) => line.includes(`"${trouble.reason}"`))))
      await flood(it.processes)
      expect(it.all()).toBe(10)
      await trouble.end(it)
      await until(() => it.processes.every(({ isExact }) => isExact))
      await flood(it.processes)
      expect(it.all()).toBe(10)
      // On a busy machine an answer of the very last ones may be late again.
      await until(() => it.processes.every(({ log }) => log.at(-1) === "limits exact {}"))
      for (const { log } of it.processes) {
        const lines = log.filter((line) => line.startsWith("limits by shares"))
        expect(lines.length).toBeWithin(1, 4)
        expect(lines.join("\n")).toContain(`"reason":"${trouble.reason}"`)
        expect(log.at(-1)).toBe("limits exact {}")
      }
    },
  )

  test("is out of one process's reach, they admit no more than its share beyond the limit, and what it did counts after that", async () => {
    using it = await world(2, 10)
    const [one, two] = it.processes
    it.ways[0]!.cut()
    await until(() => !one!.isExact)
    await flood([two!])
    expect(two!.admitted).toBe(10)
    await flood([one!])
    expect(one!.admitted).toBe(5)
    it.ways[0]!.mend()
    await until(() => one!.isExact)
    await flood(it.processes)
    expect(it.all()).toBe(15)
    // As if all had come by it.
    const counted = await redis.send("HVALS", `w${prefixes}:key:requests`)
    expect((counted as string[]).reduce((sum, bucket) => sum + Math.floor(Number(bucket) / 1_000), 0)).toBe(15)
  })

  test("goes away just after it said what the others have used, no share goes beyond the limit", async () => {
    using it = await world(2, 10)
    const [one, two] = it.processes
    for (let call = 0; call < 8; call++) await one!.take()
    await two!.take()
    for (const way of it.ways) way.cut()
    await until(() => it.processes.every(({ isExact }) => !isExact))
    await flood(it.processes)
    expect(it.all()).toBe(10)
    expect(two!.requests.view(performance.now())).toMatchObject({ limit: 10, remaining: 0 })
  })
})

describe.skipIf(noRedis !== undefined)("a server of its own", () => {
  test("that dies and begins with nothing is told what was admitted in the last minute", async () => {
    let own = await startRedis()
    using it = await world(2, 10, { port: own.port })
    await flood(it.processes, 2)
    await own.kill()
    await until(() => it.processes.every(({ isExact }) => !isExact))
    own = await startRedis([], own.port)
    await until(() => it.processes.every(({ isExact }) => isExact))
    await flood(it.processes)
    expect(it.all()).toBe(10)
    await own.kill()
  })

  test("that stands still is left within moments, and what it does later with what was asked opens nothing", async () => {
    await using own = await startRedis()
    using it = await world(2, 10, { port: own.port, answerMs: ANSWER_MS })
    own.pause()
    await flood(it.processes)
    expect(it.all()).toBe(10)
    own.resume()
    await until(() => it.processes.every(({ isExact }) => isExact))
    await flood(it.processes)
    expect(it.all()).toBe(10)
  })

  test("that stands still has ten thousand questions to answer, whatever one more is", async () => {
    await using own = await startRedis()
    using it = await world(1, 10, { port: own.port })
    const { counts } = it.processes[0]!
    own.pause()
    let answers = 0
    let shares = 0
    const ask = () =>
      counts.look("key:requests", { amount: 1, limit: 10 }, (counted) => {
        answers++
        if (counted === undefined) shares++
      })
    // A beat may be one of them.
    for (let waiting = counts.waiting; waiting < 10_000; waiting++) ask()
    expect(answers).toBe(0)
    ask()
    expect([counts.waiting, answers, shares]).toEqual([10_000, 1, 1])
    own.resume()
    await until(() => counts.waiting === 0)
    expect(answers).toBeGreaterThan(9_999)
    expect([shares, counts.state]).toEqual([1, "exact"])
  })

  test("with a wrong password is one that is away, and the password is in no log", async () => {
    await using own = await startRedis([], undefined, "right-word")
    const [right, wrong] = ["right-word", "wrong-word"].map(
      (word) => new Process(`redis://:${word}@127.0.0.1:${own.port}`, "p", 0, 2, 10),
    )
    await until(() => right!.isExact && wrong!.log.length > 0)
    expect(await wrong!.take()).toMatchObject({ fits: true })
    expect([...right!.log, ...wrong!.log].join("\n")).not.toContain("word")
    expect(wrong!.log).toEqual([`limits by shares {"reason":"closed"}`])
    for (const each of [right!, wrong!]) each[Symbol.dispose]()
  })
})
