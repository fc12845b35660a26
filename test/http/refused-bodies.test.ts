/** Bodies that are not read because their request is refused: anybody sends them. How many of their bytes are read on, and for how long. */
import { afterEach, beforeEach, expect, type Mock, spyOn, test } from "bun:test"
import { systemClock } from "../../actors/kernel/clock.ts"
import { VirtualClock } from "../kernel/virtual-time.ts"
import type * as connections from "../../src/http/connection.ts"
import { flush } from "../kernel/world.ts"

/** With a budget of its own: what is sent here, at times to come, takes nothing of what other tests send. */
const OWN = "?refused-bodies"
const { discardingBody }: typeof connections = await import(`../../src/http/connection.ts${OWN}`)

const MIB = 1024 * 1024

/** Each test begins when what the one before has sent is forgotten. */
let clock = new VirtualClock()
let spies: Pick<Mock<() => void>, "mockRestore">[] = []
let begunMs = systemClock.monotonic()
beforeEach(() => {
  clock = new VirtualClock()
  begunMs += 3_600_000
  const zero = clock.monotonic()
  const now = () => begunMs + clock.monotonic() - zero
  spies = [
    spyOn(systemClock, "monotonic").mockImplementation(now),
    spyOn(systemClock, "after").mockImplementation((ms, run) => clock.after(ms, run)),
  ]
})
afterEach(() => {
  for (const spy of spies) spy.mockRestore()
})

interface Sent {
  readonly pieces: number
  readonly pauseMs?: number
  readonly size?: "small" | "large"
}

/** A refused request whose body has so many pieces of a mebibyte, the last of them after a pause. */
function refused({ pieces, pauseMs = 0, size = "large" }: Sent) {
  const piece = new Uint8Array(MIB)
  const heard = { pieces: 0, closes: undefined as boolean | undefined, isOver: false }
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        if (heard.pieces === pieces - 1 && pauseMs > 0)
          await new Promise<void>((resolve) => void clock.after(pauseMs, resolve))
        if (heard.pieces === pieces) return controller.close()
        heard.pieces++
        controller.enqueue(piece)
      },
    },
    { highWaterMark: 0 },
  )
  const request = new Request("http://loket", { method: "POST", body })
  const answering = (async () => {
    const response = await discardingBody(request, new Response("refused", { status: 401 }), size)
    heard.closes = response.headers.get("connection") === "close"
    expect(await response.text()).toBe("refused")
    heard.isOver = true
  })()
  return { heard, answering }
}

/** A millisecond at a time, with what goes on in each. */
async function pass(ms: number) {
  for (let n = 0; n < ms; n++) {
    clock.advance(1)
    await flush()
  }
}
const settle = async () => {
  for (let n = 0; n < 300; n++) await flush()
}

test("a second's worth is read at once for all together, and then 64 KiB in each millisecond", async () => {
  const first = refused({ pieces: 60 })
  await settle()
  expect(first.heard).toEqual({ pieces: 60, closes: true, isOver: true })
  const others = [refused({ pieces: 20 }), refused({ pieces: 20 })]
  const read = () => others.reduce((sum, { heard }) => sum + heard.pieces, 0)
  await settle()
  // The burst is 62.5 MiB, and each of them has a piece that waits.
  expect(read()).toBeWithin(3, 6)
  const before = read()
  await pass(160)
  expect(read() - before).toBeWithin(9, 12)
  await pass(1_000)
  await Promise.all(others.map(({ answering }) => answering))
  expect(read()).toBe(40)
})

test("of one body 64 MiB are read, and its connection is closed then", async () => {
  const { heard, answering } = refused({ pieces: 1_000 })
  await settle()
  await pass(100)
  await answering
  expect(heard).toEqual({ pieces: 64, closes: true, isOver: true })
})

test("one that stops is waited for five seconds", async () => {
  const { heard, answering } = refused({ pieces: 2, pauseMs: 60_000 })
  await settle()
  clock.advance(4_999)
  await settle()
  expect(heard.isOver).toBeFalse()
  clock.advance(1)
  await answering
  expect(heard.closes).toBeTrue()
})

test.each([
  [49, "leaves the connection as it is", false],
  [50, "takes it with it", true],
])("a small one that has ended after %d ms %s", async (pauseMs, _, closes) => {
  const { heard, answering } = refused({ pieces: 1, pauseMs, size: "small" })
  await settle()
  await pass(60)
  await answering
  expect(heard.closes).toBe(closes)
})
