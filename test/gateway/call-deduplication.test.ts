/** What calls with an `Idempotency-Key` take of the database and of the memory, and what becomes of those that find no more. */
import { fullGC } from "bun:jsc"
import { expect, test } from "bun:test"
import { systemClock } from "../../actors/kernel/clock.ts"
import type { KeyRecord } from "../../actors/key-record.ts"
import type { UsageRecord } from "../../actors/ledger.ts"
import { micro } from "../../actors/money/micro.ts"
import { Failure } from "../../src/failure/failure.ts"
import { CallDeduplication } from "../../src/gateway/call-deduplication.ts"
import { type Answer, type StreamConnection, UnreadBytes } from "../../src/gateway/outbox.ts"
import type { IncomingCall, OriginalCall } from "../../src/gateway/replayable-call.ts"
import type { CallKeyStatements } from "../../src/store/call-keys.ts"

const caller = { keyHash: "", record: { accountId: "acc", keyId: "key" } as KeyRecord }
const nothing = async () => {
  throw new Error("each key is new")
}

function callsOn(store: Partial<CallKeyStatements>, replayBytes: number) {
  const calls = new CallDeduplication({
    clock: systemClock,
    store: { takeCallKey: nothing, readCallKey: nothing, takeCallKeyOver: nothing, freeCallKey: nothing, ...store },
    processId: "p",
    limits: { heartbeatMs: 8_000, readerStallMs: 300_000, replayBytes },
    unread: new UnreadBytes(2 ** 30),
    onError: () => {},
  })
  const send = (key: string, work: (first: OriginalCall) => Promise<Answer | Failure>) =>
    calls.runOnce(
      {
        endpoint: "chat",
        body: new TextEncoder().encode("{}"),
        caller,
        requestId: `req_${key}`,
        signal: new AbortController().signal,
        connection: undefined,
        key,
      },
      work,
    )
  return { calls, send }
}

test("nobody claims keys faster than they are freed", async () => {
  const CLIENTS = 20
  const CALLS = 50
  const rows = new Set<string>()
  let most = 0
  const { send } = callsOn(
    {
      async takeCallKey({ requestId }) {
        await Bun.sleep(1)
        most = Math.max(most, rows.add(requestId).size)
        return true
      },
      async freeCallKey({ requestId }) {
        await Bun.sleep(5)
        rows.delete(requestId)
      },
    },
    16_000_000,
  )
  const client = async (_: unknown, name: number) => {
    for (let n = 0; n < CALLS; n++)
      await send(`${name}-${n}`, async (first) => (await first.claim()) ?? new Failure("billing.insufficient_balance"))
  }
  await Promise.all(Array.from({ length: CLIENTS }, client))
  expect(most).toBeLessThan(3 * CLIENTS)
  while (rows.size > 0) await Bun.sleep(5)
})

test("a call that finds no memory for its answer is made all the same, and once", async () => {
  const { calls, send } = callsOn({ takeCallKey: async () => true }, 8_000)
  const { promise: mayEnd, resolve: end } = Promise.withResolvers<void>()
  const answering = send("one", async (first) => {
    expect(await first.claim()).toBeUndefined()
    await mayEnd
    first.ended({ status: "ok", charge: micro(1n) } as UsageRecord, true)
    return { body: "all", headers: {} }
  })
  const again = await send("one", async () => {
    throw new Error("it was made twice")
  })
  expect(again).toMatchObject({ code: "idempotency.in_progress" })
  end()
  expect(await answering).toMatchObject({ body: "all" })
  expect(calls.replayBytes).toBe(0)
})

type Work = (first?: OriginalCall) => Promise<Answer | Failure>

const record = { status: "ok", charge: micro(1n) } as UsageRecord
const hearing = { onIdle: () => {}, onLeave: () => {} }
const json = { "Content-Type": "application/json" }
const heard: Work = async (first) => {
  await first?.claim()
  first?.shared.begin(hearing)
  first?.ended(record, true)
  return { body: "all", headers: json }
}
const lost: Work = async (first) => {
  await first?.claim()
  const shared = first?.shared.begin(hearing)
  const body = shared?.stream() ?? ""
  shared?.leave()
  shared?.write("all")
  shared?.end()
  first?.ended(record, true)
  return { body, headers: json }
}

test.each([
  ["with a key, whose client has its answer", "key", heard],
  ["with a key, whose client has left", "key", lost],
  ["of an SDK, whose client has left", "retries", lost],
] as const)("of a call %s the answer is kept, and nothing of its request", async (_, what, work) => {
  const CALLS = 20
  const { calls } = callsOn({ takeCallKey: async () => true }, 16_000_000)
  const requests: WeakRef<object>[] = []
  const send = async (n: number) => {
    const body = new TextEncoder().encode(`{"n":${n}}`)
    const connection: StreamConnection = { takeEnd: () => ({ ends: () => {}, abandon: () => {} }) }
    const { signal } = new AbortController()
    const incoming: IncomingCall = { endpoint: "chat", body, caller, requestId: `req_${n}`, signal, connection }
    requests.push(new WeakRef(body), new WeakRef(connection), new WeakRef(signal))
    await (what === "key" ? calls.runOnce({ ...incoming, key: `k${n}` }, work) : calls.runOrReplay(incoming, 0, work))
  }
  for (let n = 0; n < CALLS; n++) await send(n)
  const bytes = calls.replayBytes
  expect(bytes).toBeGreaterThan(CALLS * 2_048)
  // What the stack still seems to point to stays.
  await Bun.sleep(0)
  fullGC()
  expect(requests.filter((request) => request.deref() !== undefined).length).toBeLessThan(CALLS / 2)
  expect(calls.replayBytes).toBe(bytes)
  calls.stop()
})
