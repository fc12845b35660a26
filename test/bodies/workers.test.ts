import { afterAll, describe, expect, spyOn, test } from "bun:test"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { LargeBodies, RecentUse } from "../../src/bodies/bodies.ts"
import { BodyWorkers } from "../../src/bodies/workers.ts"
import { Failure } from "../../src/failure/failure.ts"
import { createLog } from "../../src/log.ts"

const lines: string[] = []
const must = <T>(value: T | Failure): T => {
  if (value instanceof Failure) throw new Error(`${value.code}: ${value.message}`)
  return value
}
const log = createLog("error", (line) => lines.push(line))
const workers = new BodyWorkers({ log, workers: 1, waitMs: 5_000 })
const bodies = new LargeBodies(workers)
afterAll(() => workers.stop())

const hello = (content: string) => JSON.stringify({ model: "m", messages: [{ role: "user", content }] })
const bytes = (text: string) => new TextEncoder().encode(text)
const read = (account: string, text = hello("Hello"), from = bodies) => from.read(bytes(text), account, "chat")
const never = () => Promise.reject(new Error("not asked"))
/** Keeps the one worker busy for some tens of milliseconds. */
const heavy = hello("x ".repeat(4_000_000))

test("a body is read, written and let go of on another thread", async () => {
  const body = must(await read("a"))
  const request = must(await body.decode({}))
  expect(request).toMatchObject({ model: "m", inputTokens: expect.any(Number) })
  const exchange = must(await body.exchange(request, { format: "chat", model: "there" }, { strip: [] }))
  const written = await exchange.encodeRequest(7, null)
  if (written instanceof Failure || !(written["blob"] instanceof Blob)) throw new Error("not written")
  expect(await written["blob"].json()).toMatchObject({ ...JSON.parse(hello("Hello")), model: "there", max_tokens: 7 })
  body[Symbol.dispose]()
  expect(await exchange.encodeRequest(7, null)).toMatchObject({ code: "gateway.capacity" })
})

test("its bytes are no copy", async () => {
  const own = bytes(hello("Hello"))
  await bodies.read(own, "a", "chat")
  expect(own.length).toBe(0)
})

test("whoever has used less of the worker's time goes first, in all questions, however many bodies another sends", async () => {
  const order: string[] = []
  const all = async (account: string, text?: string) => {
    const body = must(await read(account, text))
    order.push(`${account} read`)
    must(await body.decode({}))
    order.push(`${account} decoded`)
    body[Symbol.dispose]()
  }
  const hogs = [heavy, heavy, heavy, heavy, heavy].map((text) => all("hog", text))
  await Bun.sleep(1)
  const before = order.length
  await all("b")
  const meanwhile = order.slice(before).filter((said) => said.startsWith("hog"))
  await Promise.all(hogs)
  // The question that was being answered, before each of its two.
  expect(meanwhile.length).toBeLessThanOrEqual(2)
  // What was used a moment ago still counts.
  order.length = 0
  await Promise.all([all("hog", heavy), all("hog", heavy), all("hog"), all("b"), all("c")])
  expect(order.findIndex((said) => said === "c decoded")).toBeLessThan(order.lastIndexOf("hog decoded"))
})

describe("the time that accounts have used", () => {
  test("counts half after ten seconds, and nothing after long", () => {
    const clock = new VirtualClock()
    const used = new RecentUse(clock)
    used.add("a", 1_000)
    clock.advance(10_000)
    expect(used.by("a")).toBeCloseTo(500)
    used.add("a", 100)
    expect(used.by("a")).toBeCloseTo(600)
    clock.advance(200_000)
    expect([used.by("a"), used.by("b")]).toEqual([0, 0])
  })

  test("of ten thousand accounts is known, and of those that used some last", () => {
    const used = new RecentUse(new VirtualClock())
    for (let n = 0; n <= 10_000; n++) used.add(`a${n}`, 1_000)
    expect([used.by("a0"), used.by("a1"), used.by("a10000")]).toEqual([0, 1_000, 1_000])
  })
})

test("a body that cannot be read is let go of, by whatever it failed", async () => {
  const freed: number[] = []
  const outcomes = [Promise.reject(new Error("a bug")), Promise.resolve(new Failure("gateway.capacity"))]
  const from = new LargeBodies({ ask: () => outcomes.shift() ?? never(), free: (id) => freed.push(id) })
  expect(await read("a", "", from).catch((error: Error) => error.message)).toBe("a bug")
  expect(await read("a", "", from)).toBeInstanceOf(Failure)
  expect(freed).toEqual([1, 2])
})

test("64 bodies may wait, and no more", async () => {
  const first = read("hog", heavy)
  const found = await Promise.all(Array.from({ length: 65 }, () => read("hog")))
  const refused = found.filter((body) => body instanceof Failure)
  expect(refused).toHaveLength(1)
  expect(refused[0]).toMatchObject({ code: "gateway.capacity", detail: { retryAfterS: 1 } })
  await first
  expect(workers.waiting).toBe(0)
})

test("a body that waits for too long is given up, and a worker that takes ten seconds for one is replaced", async () => {
  const clock = new VirtualClock()
  const hasty = new BodyWorkers({ log, workers: 1, waitMs: 10, clock })
  const impatient = new LargeBodies(hasty)
  const ended = read("a", heavy, impatient)
  const waited = read("a", hello("Hello"), impatient)
  expect(hasty.waiting).toBe(1)
  clock.advance(10)
  expect(await waited).toMatchObject({ code: "gateway.capacity" })
  clock.advance(9_989)
  expect(lines).toHaveLength(0)
  clock.advance(1)
  expect(await ended).toMatchObject({ code: "gateway.capacity" })
  expect(lines.at(-1)).toContain('"why":"late"')
  expect(await read("a", hello("Hello"), impatient)).toHaveProperty("model", "m")
  hasty.stop()
})

test("a worker is ended half a minute after its last body, unless another has come", async () => {
  using ends = spyOn(Worker.prototype, "terminate")
  const clock = new VirtualClock()
  const idle = new BodyWorkers({ log, workers: 1, waitMs: 10, clock })
  const from = new LargeBodies(idle)
  must(await read("a", hello("Hello"), from))[Symbol.dispose]()
  clock.advance(29_999)
  const second = must(await read("a", hello("Hello"), from))
  clock.advance(60_000)
  second[Symbol.dispose]()
  clock.advance(29_999)
  expect(ends).toHaveBeenCalledTimes(0)
  clock.advance(1)
  expect(ends).toHaveBeenCalledTimes(1)
  idle.stop()
})

test("what is no JSON, or no request, is refused with the model that it names", async () => {
  expect(await read("a", "{")).toMatchObject({ code: "request.invalid" })
  const shapeless = must(await read("a", '{"model":"m"}'))
  expect(shapeless.model).toBe("m")
  expect(await shapeless.decode({})).toMatchObject({ code: "request.invalid_request" })
  const long = JSON.stringify({ model: "m".repeat(513) })
  expect(await read("a", long)).toMatchObject({ code: "model.unknown" })
})
