import { describe, expect, test } from "bun:test"
import { systemClock } from "../../actors/kernel/clock.ts"
import { Outbox } from "../../src/gateway/outbox.ts"
import { Patience } from "../../src/gateway/patience.ts"
import { Relay } from "../../src/gateway/relay.ts"
import { UnreadBytes } from "../../src/gateway/unread.ts"
import { RelayedStream } from "../../src/wire/backend-stream.ts"
import { backendEvents } from "../../src/wire/messages/events-in.ts"

const view = { model: "m", includeUsage: false, contextWindow: null, maxOutputTokens: 100 }
const ping = `event: ping\ndata: {"type":"ping","padding":"${"x".repeat(1_000)}"}\n\n`

function relayed() {
  const outbox = new Outbox({
    clock: systemClock,
    heartbeat: ": heartbeat\n",
    heartbeatMs: 3_600_000,
    stallMs: 3_600_000,
    unread: new UnreadBytes(1_000_000),
    beforeHeartbeat: () => {},
  })
  const patience = new Patience({
    clock: systemClock,
    startMs: 3_600_000,
    idleMs: 3_600_000,
    wholeMs: 3_600_000,
  })
  const relay = new Relay({
    reader: new RelayedStream(backendEvents(view)),
    outbox,
    bounds: { eventLength: 100_000, streamBytes: 1_000_000, replyBytes: 0 },
    onEvent: () => heard.events++,
    onContent: () => {},
  })
  const heard = { events: 0 }
  const pipe = new TransformStream<Uint8Array, Uint8Array>(undefined, undefined, { highWaterMark: 0 })
  const writer = pipe.writable.getWriter()
  const end = relay.run(patience.source(pipe.readable))
  const says = (text: string) => writer.write(new TextEncoder().encode(text))
  return { heard, outbox, relay, end, says, ends: () => writer.close(), patience }
}

/** An event of so many bytes that says nothing. */
const event = (length: number) => {
  const empty = 'data: {"type":"ping","padding":""}\n\n'
  return `data: {"type":"ping","padding":"${"x".repeat(length - empty.length)}"}\n\n`
}

describe("a relay", () => {
  test("does not hold back without end what says nothing", async () => {
    const { outbox, relay, says, patience } = relayed()
    using _ = patience
    for (let sent = 0; sent < 200 && !relay.told; sent++) await Promise.race([says(ping), Bun.sleep(50)])
    expect(relay.told).toBeTrue()
    expect(outbox.isStarted).toBeTrue()
  })

  test("forgets what it held back when its stream has come to nothing", async () => {
    const { outbox, relay, end, says, ends, patience } = relayed()
    using _ = patience
    await says(ping)
    await ends()
    expect(await end).toMatchObject({ opened: true })
    relay.release()
    expect(relay.told).toBeFalse()
    expect(outbox.isStarted).toBeFalse()
  })

  test("counts whole events as signs of life, and not the pieces of one", async () => {
    const { heard, says, ends, end, patience } = relayed()
    using _ = patience
    for (const piece of ["event: ping\n", "data: {", '"type":"ping"}\n', ": a comment\n"]) await says(piece)
    expect(heard.events).toBe(0)
    await says("\n")
    await ends()
    await end
    expect(heard.events).toBe(1)
  })

  test("gives a stream up that is longer than any answer, and asks for no other", async () => {
    for (const [bytes, overlong] of [
      [1_000_000, false],
      [1_000_001, true],
    ] as const) {
      const { says, ends, end, patience } = relayed()
      using _ = patience
      const sent = async () => {
        for (let left = bytes; left > 0; left -= 50_000)
          await says(event(Math.min(left, 50_000) < 100 ? 50_000 + left : 50_000))
        await ends()
      }
      sent().catch(() => {})
      expect(await end).toMatchObject({ opened: true, retryAfterMs: overlong ? undefined : 0, alert: overlong })
    }
  })
})

describe("an outbox", () => {
  const options = { clock: systemClock, heartbeat: undefined, heartbeatMs: 1, beforeHeartbeat: () => {} }
  const much = "x".repeat(100_000)
  const outboxes = (limit: number, stallMs = 3_600_000) => {
    const unread = new UnreadBytes(limit)
    return { unread, open: () => new Outbox({ ...options, stallMs, unread }) }
  }

  test("keeps what its client does not take, and hands over every byte of it in order", async () => {
    const { unread, open } = outboxes(10_000_000)
    const outbox = open()
    const pieces = Array.from({ length: 3_000 }, (_, n) => `${n} ${"y".repeat(n % 700)};`)
    for (const piece of pieces) outbox.write(piece)
    expect(unread.total).toBeGreaterThan(pieces.join("").length)
    outbox.end()
    expect(await new Response(outbox.stream()).text()).toBe(pieces.join(""))
    expect(unread.total).toBe(0)
  })

  test("hands over no more at a time than a piece, so that the rest is still counted", async () => {
    const { unread, open } = outboxes(10_000_000)
    const outbox = open()
    for (let n = 0; n < 50; n++) outbox.write(much)
    const reader = outbox.stream().getReader()
    await reader.read()
    expect(unread.total).toBeGreaterThan(45 * much.length)
  })

  test("takes a client that takes nothing for one that has left, also when all was said", async () => {
    for (const ended of [false, true]) {
      const { unread, open } = outboxes(10_000_000, 30)
      const outbox = open()
      outbox.write(much)
      if (ended) outbox.end()
      expect(outbox.left.aborted).toBeFalse()
      await Bun.sleep(60)
      expect(outbox.left.aborted).toBeTrue()
      expect(unread.total).toBe(0)
    }
  })

  test("waits on for a client that takes something now and then", async () => {
    const { open } = outboxes(10_000_000, 200)
    const outbox = open()
    for (let n = 0; n < 20; n++) outbox.write(much)
    const reader = outbox.stream().getReader()
    for (let n = 0; n < 6; n++) {
      await Bun.sleep(80)
      await reader.read()
    }
    expect(outbox.left.aborted).toBeFalse()
  })

  test("is cut when all streams together leave too much unread: the largest first, at the byte", () => {
    const kept = 1_000 + 128
    const { unread, open } = outboxes(5 * kept)
    const [small, large, other] = [open(), open(), open()]
    const thousand = "z".repeat(1_000)
    small.write(thousand)
    for (let n = 0; n < 3; n++) large.write(thousand)
    other.write(thousand)
    expect(unread.total).toBe(5 * kept)
    expect([small, large, other].map(({ left }) => left.aborted)).toEqual([false, false, false])
    other.write("!")
    expect([small, large, other].map(({ left }) => left.aborted)).toEqual([false, true, false])
    expect(unread.total).toBe(2 * kept + 129)
  })
})
