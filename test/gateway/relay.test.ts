import { describe, expect, test } from "bun:test"
import { systemClock } from "../../actors/kernel/clock.ts"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { Outbox, UnreadBytes } from "../../src/gateway/outbox.ts"
import { OutputMeter } from "../../src/gateway/call-costs.ts"
import { BodyMemory } from "../../src/gateway/read-body.ts"
import { answerBytesOf, readEvents, Relay } from "../../src/gateway/relay.ts"
import { flush } from "../kernel/world.ts"
import type { ModelRequest } from "../../src/language/request.ts"
import { RelayedStream } from "../../src/wire/backend-stream.ts"
import { backendStream } from "../../src/wire/messages/events-in.ts"

const view = { model: "m", includeUsage: false, contextWindow: null, maxOutputTokens: 100 }
const ping = `event: ping\ndata: {"type":"ping","padding":"${"x".repeat(1_000)}"}\n\n`

function relayed() {
  const heard = { events: 0, text: "", committed: 0, content: 0 }
  const client = {
    write: (text: string) => (heard.text += text),
    onBackendActivity: () => heard.events++,
    onCommit: () => heard.committed++,
  }
  const bounds = { eventLength: 100_000, streamBytes: 1_000_000, replyBytes: 0, values: 200_000 }
  const relay = new Relay(new RelayedStream(backendStream(view)), bounds, client, {
    onContent: () => heard.content++,
    output: new OutputMeter(),
  })
  const pipe = new TransformStream<Uint8Array, Uint8Array>(undefined, undefined, { highWaterMark: 0 })
  const writer = pipe.writable.getWriter()
  const end = relay.run(pipe.readable, systemClock)
  const says = (text: string) => writer.write(new TextEncoder().encode(text))
  return { heard, relay, end, says, ends: () => writer.close() }
}

/** An event of so many bytes that says nothing. */
const event = (length: number) => {
  const empty = 'data: {"type":"ping","padding":""}\n\n'
  return `data: {"type":"ping","padding":"${"x".repeat(length - empty.length)}"}\n\n`
}

describe("a relay", () => {
  test("does not hold back without end what says nothing", async () => {
    const { heard, relay, says } = relayed()
    for (let sent = 0; sent < 200 && !relay.committed; sent++) await Promise.race([says(ping), Bun.sleep(50)])
    expect(relay.committed).toBeTrue()
    expect(heard).toMatchObject({ committed: 1, content: 0 })
    expect(heard.text.length).toBeGreaterThan(131_072)
  })

  test("forgets what it held back when its stream has come to nothing", async () => {
    const { heard, relay, end, says, ends } = relayed()
    await says(ping)
    await ends()
    expect(await end).toMatchObject({ opened: true })
    expect(relay.flush()).toBeFalse()
    expect(relay.committed).toBeFalse()
    expect(heard.text).toBe("")
  })

  test("takes what its own reader throws for a bug, and a broken connection for a fault", async () => {
    const client = { write() {}, onBackendActivity() {}, onCommit() {} }
    const bounds = { eventLength: 100_000, streamBytes: 1_000_000, replyBytes: 0, values: 200_000 }
    const bug = new Error("a bug of ours")
    const reader = new RelayedStream({
      ...backendStream(view),
      meaning: () => {
        throw bug
      },
    })
    const sent = new Response(ping).body ?? undefined
    const thrown = await new Relay(reader, bounds, client, { onContent: () => {}, output: new OutputMeter() })
      .run(sent!, systemClock)
      .catch((error: unknown) => error)
    expect(thrown).toBe(bug)
    const broken = new ReadableStream<Uint8Array>({ pull: (controller) => controller.error(new Error("reset")) })
    const relay = new Relay(new RelayedStream(backendStream(view)), bounds, client, {
      onContent: () => {},
      output: new OutputMeter(),
    })
    expect(await relay.run(broken, systemClock)).toMatchObject({ opened: true })
  })

  test("counts whole events as signs of life, and not the pieces of one", async () => {
    const { heard, says, ends, end } = relayed()
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
      const { says, ends, end } = relayed()
      const sent = async () => {
        for (let left = bytes; left > 0; left -= 50_000)
          await says(event(Math.min(left, 50_000) < 100 ? 50_000 + left : 50_000))
        await ends()
      }
      sent().catch(() => {})
      expect(await end).toMatchObject({ opened: true, retryAfterMs: overlong ? undefined : 0, alert: overlong })
    }
  })

  test("takes an event that repeats the deepest request, and none that nests deeper", async () => {
    // A request nests 64 levels at the most, and the event wraps what it repeats.
    for (const [levels, overlong] of [
      [65, false],
      [66, true],
    ] as const) {
      const { says, ends, end } = relayed()
      const nested = "[".repeat(levels - 1) + "]".repeat(levels - 1)
      const sent = says(`data: {"type":"ping","padding":"${"x".repeat(20_000)}","tools":${nested}}\n\n`).then(ends)
      sent.catch(() => {})
      expect(await end).toMatchObject({ opened: true, retryAfterMs: overlong ? undefined : 0, alert: overlong })
    }
  })
})

const portsOf = (unread: UnreadBytes, readerStallMs: number) => ({
  clock: systemClock,
  limits: { heartbeatMs: 1, readerStallMs },
  unread,
})

describe("an outbox", () => {
  const silent = { onLeave: () => {} }
  const much = "x".repeat(100_000)
  const outboxes = (limit: number, stallMs = 3_600_000) => {
    const unread = new UnreadBytes(limit)
    return { unread, open: () => new Outbox(portsOf(unread, stallMs), silent) }
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

  test("hands over at once what its client waits for, and keeps nothing of it", async () => {
    const { unread, open } = outboxes(10_000_000)
    const outbox = open()
    const reader = outbox.stream().getReader()
    for (const piece of ["a", "b", "c"]) {
      const read = reader.read()
      await Promise.resolve()
      outbox.write(piece)
      expect(unread.total).toBe(0)
      expect(new TextDecoder().decode((await read).value)).toBe(piece)
    }
    const last = reader.read()
    outbox.end()
    expect((await last).done).toBeTrue()
  })

  test("hands over what is large in pieces that a connection gathers, whoever asked first", async () => {
    const large = "aé😀\n".repeat(20_000)
    for (const isAsked of [false, true]) {
      const { unread, open } = outboxes(10_000_000)
      const outbox = open()
      const reader = outbox.stream().getReader()
      const first = isAsked ? reader.read() : undefined
      await Promise.resolve()
      outbox.write(large)
      outbox.end()
      const pieces: Uint8Array[] = []
      for (let read = await (first ?? reader.read()); !read.done; read = await reader.read()) pieces.push(read.value)
      expect(Buffer.concat(pieces).toString()).toBe(large)
      expect(Math.max(...pieces.map(({ length }) => length))).toBeLessThan(15_000)
      expect(unread.total).toBe(0)
    }
  })

  test("hands over in one piece what has come to its end before its head has gone, and keeps nothing of it", () => {
    const { unread, open } = outboxes(10_000_000)
    const ends: string[] = []
    const connection = { takeEnd: () => ({ ends: () => ends.push("ends"), abandon: () => ends.push("abandoned") }) }
    for (const pieces of [["all of it"], ["a", "é", "c"], []]) {
      const outbox = new Outbox(portsOf(unread, 10), silent, connection)
      for (const piece of pieces) outbox.write(piece)
      expect(outbox.takeWhole()).toBeUndefined()
      outbox.end()
      expect(outbox.takeWhole()).toBe(pieces.join(""))
      expect(unread.total).toBe(0)
      expect(ends.splice(0)).toEqual(["ends"])
    }
    const large = open()
    large.write(much)
    large.end()
    expect(large.takeWhole()).toBeUndefined()
    const left = open()
    left.write("for nobody")
    left.leave()
    left.end()
    expect(left.takeWhole()).toBeUndefined()
  })

  test("breaks off for a client that waits, when it counts as gone", async () => {
    const outbox = outboxes(10_000_000).open()
    const read = outbox.stream().getReader().read()
    outbox.leave()
    expect(read).rejects.toThrow("took nothing")
    outbox.write("late")
    outbox.end()
    expect(outbox.unread).toBe(0)
  })

  test("hands over no more at a time than a piece, so that the rest is still counted", async () => {
    const { unread, open } = outboxes(10_000_000)
    const outbox = open()
    for (let n = 0; n < 50; n++) outbox.write(much)
    const reader = outbox.stream().getReader()
    await reader.read()
    expect(unread.total).toBeGreaterThan(45 * much.length)
  })

  test("sends heartbeats to a client that waits, and none to one that has not taken what there is", async () => {
    const clock = new VirtualClock()
    const unread = new UnreadBytes(10_000_000)
    const limits = { heartbeatMs: 8_000, readerStallMs: 300_000 }
    let beats = 0
    const outbox: Outbox = new Outbox(
      { clock, limits, unread },
      {
        onIdle() {
          beats++
          outbox.heartbeat(": heartbeat\n")
        },
        onLeave: () => {},
      },
    )
    outbox.watchIdle()
    clock.advance(7_000)
    outbox.write("")
    expect(outbox.hasBegun).toBeFalse()
    outbox.write("a")
    expect(outbox.hasBegun).toBeTrue()
    clock.advance(7_999)
    expect(beats).toBe(0)
    clock.advance(1)
    expect([beats, outbox.unread]).toEqual([1, 1 + 128])
    // One that was not sent counts as sent, or the next would come at once.
    clock.advance(7_999)
    expect(beats).toBe(1)
    const reader = outbox.stream().getReader()
    const text = async () => new TextDecoder().decode((await reader.read()).value)
    expect(await text()).toBe("a")
    const waiting = text()
    await Promise.resolve()
    clock.advance(1)
    expect(await waiting).toBe(": heartbeat\n")
    expect([beats, unread.total]).toEqual([2, 0])
    outbox.end()
    clock.advance(60_000)
    expect(beats).toBe(2)
    outbox.watchIdle()
    expect(clock.runNext()).toBeFalse()
  })

  test("takes nothing after its end or for a client that has left, who leaves once", async () => {
    const unread = new UnreadBytes(10_000_000)
    let left = 0
    const open = () => new Outbox(portsOf(unread, 10), { onLeave: () => void left++ })
    const ended = open()
    const reading = new Response(ended.stream()).text()
    ended.write("all")
    ended.end()
    ended.end()
    ended.write("late")
    ended.catchUp([new Uint8Array(5)])
    expect(await reading).toBe("all")
    const gone = open()
    gone.write("all")
    gone.leave()
    gone.leave()
    gone.write("late")
    gone.catchUp([new Uint8Array(5)])
    expect([gone.unread, unread.total, left]).toEqual([0, 0, 1])
  })

  test("hands over what others have encoded to a client that waits for it", async () => {
    const { unread, open } = outboxes(10_000_000)
    const outbox = open()
    const reader = outbox.stream().getReader()
    const read = reader.read()
    await Promise.resolve()
    outbox.catchUp([new TextEncoder().encode("all")])
    expect(new TextDecoder().decode((await read).value)).toBe("all")
    expect([outbox.hasBegun, unread.total]).toEqual([true, 0])
  })

  test("takes a client that takes nothing for one that has left, also when all was said", async () => {
    for (const ended of [false, true]) {
      const { unread, open } = outboxes(10_000_000, 30)
      const outbox = open()
      outbox.write(much)
      await Bun.sleep(60)
      // Until its head has gone it can take nothing.
      outbox
        .stream()
        .getReader()
        .closed.catch(() => {})
      if (ended) outbox.end()
      expect(outbox.hasLeft).toBeFalse()
      while (!outbox.hasLeft) await Bun.sleep(10)
      expect(unread.total).toBe(0)
    }
  })

  test("waits on for a client that takes something now and then", async () => {
    const { open } = outboxes(10_000_000, 1_500)
    const outbox = open()
    for (let n = 0; n < 20; n++) outbox.write(much)
    const reader = outbox.stream().getReader()
    for (let n = 0; n < 6; n++) {
      await Bun.sleep(300)
      await reader.read()
    }
    expect(outbox.hasLeft).toBeFalse()
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
    expect([small, large, other].map(({ hasLeft }) => hasLeft)).toEqual([false, false, false])
    other.write("!")
    expect([small, large, other].map(({ hasLeft }) => hasLeft)).toEqual([false, true, false])
    expect(unread.total).toBe(2 * kept + 129)
  })
})

const of = (request: Partial<ModelRequest>, total: number) =>
  answerBytesOf({ stream: false, inputTokens: 10, body: {}, ...request } as ModelRequest, new BodyMemory(total))
const echo = (inputTokens: number, logprobs: number | null = 5) => ({ inputTokens, body: { echo: true, logprobs } })

describe("the room of an answer in one piece", () => {
  const GIB = 1024 ** 3
  const vectors = { endpoint: "embeddings", prompts: 2_048, body: { encoding_format: "base64" } } as const

  test("is that of all that is asked for, and never more than a quarter of what there is", () => {
    expect(of(vectors, GIB)).toBe(2_048 * 16_384)
    expect(of({ ...vectors, prompts: 100, body: {} }, GIB)).toBe(100 * 49_152)
    expect(of(echo(1_000, null), GIB)).toBe(8_000)
    expect(of(echo(200_000), GIB)).toBe(200_000 * 512)
    expect(of(echo(GIB / 4 / 512), GIB)).toBe(GIB / 4)
    expect(of(echo(GIB / 4 / 512 + 1), GIB)).toBe(GIB / 4)
    expect(of(vectors, 64_000_000)).toBe(16_000_000)
  })

  test("is none where its tokens are paid for", () => {
    expect([of({}, GIB), of({ ...echo(1_000), stream: true }, GIB)]).toEqual([0, 0])
  })
})

test("a backend that keeps a stream open after its last event is left after a second, and one that ends it keeps its connection", async () => {
  const clock = new VirtualClock()
  const bounds = { eventLength: 1_000, streamBytes: 1_000, replyBytes: 0, values: 1_000 }
  const streams = await Promise.all(
    [false, true].map(async (ends) => {
      const heard = { left: false }
      const backend = Promise.withResolvers<ReadableStreamDefaultController<Uint8Array>>()
      const body = new ReadableStream<Uint8Array>({ start: backend.resolve, cancel: () => void (heard.left = true) })
      const end = readEvents(body, bounds, clock, (events) => (events.next() === undefined ? undefined : "last"))
      const sending = await backend.promise
      sending.enqueue(new TextEncoder().encode("data: last\n\n"))
      expect(await end).toBe("last")
      if (ends) sending.close()
      return heard
    }),
  )
  clock.advance(999)
  await flush()
  expect(streams).toEqual([{ left: false }, { left: false }])
  clock.advance(1)
  await flush()
  expect(streams).toEqual([{ left: true }, { left: false }])
})
