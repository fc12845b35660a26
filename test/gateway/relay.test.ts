import { describe, expect, test } from "bun:test"
import { systemClock } from "../../actors/kernel/clock.ts"
import { Outbox } from "../../src/gateway/outbox.ts"
import { Patience } from "../../src/gateway/patience.ts"
import { Relay } from "../../src/gateway/relay.ts"
import { streamReader } from "../../src/wire/messages/stream.ts"

const view = { model: "m", includeUsage: false, contextWindow: null, maxOutputTokens: 100 }
const ping = `event: ping\ndata: {"type":"ping","padding":"${"x".repeat(1_000)}"}\n\n`

function relayed() {
  const outbox = new Outbox({
    clock: systemClock,
    heartbeat: ": heartbeat\n",
    heartbeatMs: 3_600_000,
    stallMs: 3_600_000,
    beforeHeartbeat: () => {},
  })
  const relay = new Relay(streamReader(view), outbox, () => {})
  const patience = new Patience({ clock: systemClock, startMs: 3_600_000, idleMs: 3_600_000 })
  const pipe = new TransformStream<Uint8Array, Uint8Array>(undefined, undefined, { highWaterMark: 0 })
  const writer = pipe.writable.getWriter()
  const end = relay.run(patience.watch(pipe.readable))
  const says = (text: string) => writer.write(new TextEncoder().encode(text))
  return { outbox, relay, end, says, ends: () => writer.close(), patience }
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
})

describe("an outbox", () => {
  const options = { clock: systemClock, heartbeat: undefined, heartbeatMs: 1, beforeHeartbeat: () => {} }
  const much = "x".repeat(100_000)

  test("lets all who wait write on when the client leaves", async () => {
    const outbox = new Outbox({ ...options, stallMs: 3_600_000 })
    const writes = [outbox.write(much), outbox.write("more")]
    outbox.leave()
    await Promise.all(writes)
  })

  test("takes a client that takes nothing for one that has left", async () => {
    const outbox = new Outbox({ ...options, stallMs: 10 })
    await outbox.write(much)
    expect(outbox.left.aborted).toBeTrue()
  })

  test("that hurries waits for no client", async () => {
    const outbox = new Outbox({ ...options, stallMs: 3_600_000 })
    const write = outbox.write(much)
    outbox.hurry()
    await write
    await outbox.write(much)
    expect(outbox.left.aborted).toBeFalse()
  })
})
