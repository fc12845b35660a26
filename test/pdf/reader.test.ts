import { afterAll, expect, test } from "bun:test"
import { systemClock } from "../../actors/kernel/clock.ts"
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
