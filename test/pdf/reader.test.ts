import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test"
import { systemClock } from "../../actors/kernel/clock.ts"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { flush } from "../kernel/world.ts"
import { PdfWorker } from "../../src/pdf/reader.ts"
import { lying, pagesOf } from "./files.ts"

const reader = new PdfWorker(systemClock)
afterAll(() => reader[Symbol.dispose]())

const base64 = (bytes: Buffer): string => bytes.toString("base64")
const twoPages = base64(pagesOf(["a", "b"]))
const endless = base64(lying(3_000_000))

test("a file is read in another thread, and read again", async () => {
  for (let time = 0; time < 2; time++) expect(await reader.read(twoPages, "a")).toEqual({ pages: 2, textBytes: 2 })
  expect(await reader.read(base64(Buffer.from("%PDF-1.7")), "a")).toBeUndefined()
})

test("a file without end is ended, the event loop runs meanwhile, and others' files are read", async () => {
  // What this thread has worked between two ticks: how long a busy machine kept it waiting says nothing of it.
  let longestMs = 0
  let at = process.threadCpuUsage()
  const ticking = setInterval(() => {
    const { user, system } = process.threadCpuUsage(at)
    longestMs = Math.max(longestMs, (user + system) / 1_000)
    at = process.threadCpuUsage()
  }, 5)
  const [first, second] = await Promise.all([reader.read(endless, "endless"), reader.read(twoPages, "b")])
  clearInterval(ticking)
  expect(first).toBe("endless")
  expect(second).toEqual({ pages: 2, textBytes: 2 })
  expect(longestMs).toBeLessThan(500)
})

test("whoever sends one has none read for a minute, also of those that wait", async () => {
  const attacks = Array.from({ length: 20 }, () => reader.read(endless, "attacker"))
  expect(await reader.read(twoPages, "honest")).toEqual({ pages: 2, textBytes: 2 })
  expect((await Promise.all(attacks)).filter((reading) => reading !== undefined)).toEqual(["endless"])
  expect(await reader.read(twoPages, "attacker")).toBeUndefined()
})

test("owners take turns", async () => {
  const done: string[] = []
  const read = async (owner: string) => done.push((await reader.read(twoPages, owner)) && owner ? owner : "nobody")
  await Promise.all([...Array.from({ length: 10 }, () => read("many")), read("one")])
  expect(done.indexOf("one")).toBeLessThanOrEqual(2)
})

test("more than 128 of one owner do not wait at all, and others' still do", async () => {
  const first = reader.read(twoPages, "a")
  const waiting = Array.from({ length: 128 }, () => reader.read(twoPages, "a"))
  // Answered before the first of them, which is being read.
  expect(await Promise.race([first, reader.read(twoPages, "a")])).toBeUndefined()
  expect(await reader.read(twoPages, "c")).toEqual({ pages: 2, textBytes: 2 })
  for (const reading of await Promise.all([first, ...waiting])) expect(reading).toEqual({ pages: 2, textBytes: 2 })
})

test("a file that was read before is known to its owner, and the time that it takes tells nobody else", async () => {
  const large = base64(pagesOf(Array.from({ length: 3_000 }, (_, page) => `page ${page} `.repeat(20))))
  const tookMs = async (owner: string) => {
    const at = performance.now()
    expect(await reader.read(large, owner)).toMatchObject({ pages: 3_000 })
    return performance.now() - at
  }
  await tookMs("first")
  const known = Math.min(await tookMs("first"), await tookMs("first"))
  expect(await tookMs("second")).toBeGreaterThan(20 * known)
})

/** What a reading has come to, as far as that is known now. */
const outcomeOf = (reading: ReturnType<PdfWorker["read"]>) => {
  const found: { outcome: unknown } = { outcome: "waiting" }
  void reading.then((outcome) => (found.outcome = outcome))
  return found
}

describe("in a time that is moved by hand", () => {
  let clock: VirtualClock
  let worker: PdfWorker
  beforeEach(() => {
    clock = new VirtualClock()
    worker = new PdfWorker(clock)
  })
  afterEach(() => worker[Symbol.dispose]())

  const after = async (ms: number) => {
    clock.advance(ms)
    await flush()
  }

  test("1,024 files of all owners wait, whatever one more is", async () => {
    const readings = Array.from({ length: 1 + 1_024 }, (_, at) => worker.read(twoPages, `owner ${at % 9}`))
    const [first] = readings
    // Answered before the first of them, which is being read.
    expect(await Promise.race([first, worker.read(twoPages, "another")])).toBeUndefined()
    for (const reading of await Promise.all(readings)) expect(reading).toEqual({ pages: 2, textBytes: 2 })
    expect(await worker.read(twoPages, "another")).toEqual({ pages: 2, textBytes: 2 })
  })

  test("a file is read for two seconds and waits for five, and whoever sent an endless one is barred for sixty", async () => {
    const attacks = ["a", "b", "c"].map((owner) => outcomeOf(worker.read(endless, owner)))
    const honest = outcomeOf(worker.read(twoPages, "honest"))
    const outcomes = () => [...attacks, honest].map(({ outcome }) => outcome)
    await after(1_999)
    expect(outcomes()).toEqual(Array(4).fill("waiting"))
    await after(1)
    expect(outcomes()).toEqual(["endless", "waiting", "waiting", "waiting"])
    await after(2_000)
    expect(outcomes()).toEqual(["endless", "endless", "waiting", "waiting"])
    await after(999)
    expect(outcomes()).toEqual(["endless", "endless", "waiting", "waiting"])
    await after(1)
    expect(outcomes()).toEqual(["endless", "endless", "waiting", undefined])
    await after(1_000)
    expect(outcomes()).toEqual(["endless", "endless", "endless", undefined])

    await after(59_999)
    expect(await worker.read(twoPages, "b")).toEqual({ pages: 2, textBytes: 2 })
    expect(await worker.read(twoPages, "c")).toBeUndefined()
    await after(1)
    expect(await worker.read(twoPages, "c")).toEqual({ pages: 2, textBytes: 2 })
  })

  test("a file that takes half a second and 256 MiB meanwhile is endless", async () => {
    // The thread's own memory is there before.
    await worker.read(twoPages, "a")
    const before = process.memoryUsage.rss()
    const taken: Buffer[] = []
    // What others gave back is taken first, and does not count.
    const growTo = (mebibytes: number) => {
      while (process.memoryUsage.rss() - before < mebibytes * 2 ** 20) taken.push(Buffer.alloc(4_000_000, 1))
    }
    const reading = outcomeOf(worker.read(endless, "a"))
    growTo(240)
    await after(500)
    expect(reading.outcome).toBe("waiting")
    growTo(270)
    await after(99)
    expect(reading.outcome).toBe("waiting")
    await after(1)
    expect(reading.outcome).toBe("endless")
    expect(taken).not.toBeEmpty()
  })
})
