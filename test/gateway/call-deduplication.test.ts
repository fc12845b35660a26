/** What calls with an `Idempotency-Key` take of the database and of the memory, and what becomes of those that find no more. */
import { fullGC } from "bun:jsc"
import { expect, test } from "bun:test"
import { type Clock, systemClock } from "../../actors/kernel/clock.ts"
import { VirtualClock } from "../kernel/virtual-time.ts"
import type { KeyRecord } from "../../actors/key-record.ts"
import type { UsageRecord } from "../../actors/ledger.ts"
import { micro } from "../../actors/money/micro.ts"
import { Failure } from "../../src/failure/failure.ts"
import type { FailureCode } from "../../src/failure/table.ts"
import { CallDeduplication } from "../../src/gateway/call-deduplication.ts"
import { type Answer, type StreamConnection, UnreadBytes } from "../../src/gateway/outbox.ts"
import type { IncomingCall, OriginalCall } from "../../src/gateway/replayable-call.ts"
import type { CallClaim, CallKeyStatements } from "../../src/store/call-keys.ts"
import { DatabaseUnavailable } from "../../src/store/database.ts"

const caller = { keyHash: "", record: { accountId: "acc", keyId: "key" } as KeyRecord }
const nothing = async () => {
  throw new Error("each key is new")
}

function callsOn(store: Partial<CallKeyStatements>, replayBytes: number, clock: Clock = systemClock) {
  const errors: unknown[] = []
  const calls = new CallDeduplication({
    clock,
    store: { takeCallKey: nothing, readCallKey: nothing, takeCallKeyOver: nothing, freeCallKey: nothing, ...store },
    processId: "p",
    limits: { heartbeatMs: 8_000, readerStallMs: 300_000, replayBytes },
    unread: new UnreadBytes(2 ** 30),
    onError: (error) => errors.push(error),
  })
  const send = (key: string, work: (first: OriginalCall) => Promise<Answer | Failure>, by = caller) =>
    calls.runOnce(
      {
        endpoint: "chat",
        body: new TextEncoder().encode("{}"),
        caller: by,
        requestId: `req_${key}`,
        signal: new AbortController().signal,
        connection: undefined,
        key,
      },
      work,
    )
  return { calls, send, errors }
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

test("2,000 statements of an account wait or run, four at once; one more claim is refused, no other account's, and every key is freed", async () => {
  const { promise: mayRun, resolve: run } = Promise.withResolvers<void>()
  const own = caller.record.accountId
  let running = 0
  let most = 0
  let freed = 0
  const statement = async ({ accountId }: { readonly accountId: string }) => {
    if (accountId !== own) return true
    most = Math.max(most, ++running)
    await mayRun
    running--
    return true
  }
  const freeCallKey = async (claim: CallClaim) => void ((await statement(claim)) && freed++)
  const { send } = callsOn({ takeCallKey: statement, freeCallKey }, 16_000_000)
  const sent = Array.from({ length: 2_000 }, (_, n) => send(`k${n}`, claimed(false)))
  await Bun.sleep(0)
  expect([running, most]).toEqual([4, 4])
  const refused = { code: "gateway.capacity", detail: { retryAfterS: 1 } }
  expect(await send("more", claims)).toMatchObject(refused)
  const other = { keyHash: "", record: { accountId: "acc_other", keyId: "key_other" } as KeyRecord }
  expect(await send("other", claimed(false), other)).toMatchObject({ code: "internal.panic" })
  freed = 0
  run()
  for (const answer of await Promise.all(sent)) expect(answer).toMatchObject({ code: "internal.panic" })
  expect(await send("more", claimed(false))).toMatchObject({ code: "internal.panic" })
  await Bun.sleep(0)
  expect([freed, running, most]).toEqual([2_001, 0, 4])
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

const refusals = (code: FailureCode) => async (): Promise<Answer | Failure> => new Failure(code)

test.each([
  ["is ok", "ok", false],
  ["could not be counted", "usage_missing", false],
  ["could not be booked", "billing_error", false],
  ["failed", "upstream_error", true],
  ["broke off", "aborted_stream", true],
] as const)(
  "a claimed key whose call %s is taken for good, or free again, as its record says",
  async (_, status, isFreed) => {
    // With memory for its answer, and without.
    for (const replayBytes of [16_000_000, 8_000]) {
      let freed = 0
      const store = { takeCallKey: async () => true, freeCallKey: async () => void freed++ }
      const { calls, send } = callsOn(store, replayBytes)
      const end = { status, charge: micro(1n) } as UsageRecord
      const answer = await send("one", async (first) => {
        expect(await first.claim()).toBeUndefined()
        first.ended(end, true)
        return new Failure("internal.error")
      })
      expect(answer).toMatchObject({ code: "internal.error" })
      await Bun.sleep(0)
      expect(freed).toBe(isFreed ? 1 : 0)
      // A failure is not kept.
      expect(calls.replayBytes).toBe(0)
    }
  },
)

const claimed = (isBooked: boolean) => async (first: OriginalCall) => {
  expect(await first.claim()).toBeUndefined()
  first.ended(undefined, isBooked)
  return new Failure("internal.panic")
}

test("a claimed key is free again after a refusal, not where a crash left the record unknown, and another's is left alone", async () => {
  const freed: string[] = []
  const freeCallKey = async ({ requestId }: { readonly requestId: string }) => void freed.push(requestId)
  const mine = callsOn({ takeCallKey: async () => true, freeCallKey }, 16_000_000)
  await mine.send("refused", claimed(false))
  await mine.send("crashed", claimed(true))
  await mine.send("not-claimed", refusals("billing.insufficient_balance"))
  const taken = callsOn({ takeCallKey: async () => false, readCallKey: async () => undefined, freeCallKey }, 16_000_000)
  await taken.send("taken", async (first) => (await first.claim()) ?? new Failure("internal.error"))
  await Bun.sleep(0)
  expect(freed).toEqual(["req_refused"])
})

test("a key that could not be freed is freed later, and that is told each time", async () => {
  const clock = new VirtualClock()
  let tries = 0
  const freeCallKey = async () => {
    if (++tries < 3) throw new DatabaseUnavailable("away")
  }
  const { send, errors } = callsOn({ takeCallKey: async () => true, freeCallKey }, 16_000_000, clock)
  await send("one", claimed(false))
  for (const done of [1, 2, 3, 3]) {
    await Bun.sleep(0)
    expect(tries).toBe(done)
    clock.advance(4_999)
    await Bun.sleep(0)
    expect(tries).toBe(done)
    clock.advance(1)
  }
  expect(errors).toHaveLength(2)
})

test.each([
  ["the last time in an hour", 719, 720],
  ["no more after an hour", Infinity, 720],
])("a key that could not be freed is tried %s", async (_, failures, tried) => {
  const clock = new VirtualClock()
  let tries = 0
  const freeCallKey = async () => {
    if (++tries <= failures) throw new DatabaseUnavailable("away")
  }
  const { send, errors } = callsOn({ takeCallKey: async () => true, freeCallKey }, 16_000_000, clock)
  await send("one", claimed(false))
  for (let time = 0; time < 1_000; time++) {
    await Bun.sleep(0)
    clock.advance(5_000)
  }
  expect([tries, errors.length]).toEqual([tried, Math.min(failures, tried)])
})

const claims = async (first: OriginalCall) => {
  await Bun.sleep(1)
  return (await first.claim()) ?? new Failure("internal.error")
}

test("whoever waits beside a call whose key another process has is told the same, and the next one asks again", async () => {
  let reads = 0
  const readCallKey = async () => {
    reads++
    return undefined
  }
  const { calls, send } = callsOn({ takeCallKey: async () => false, readCallKey }, 16_000_000)
  const both = await Promise.all([send("one", claims), send("one", claims)])
  expect(both).toMatchObject([{ code: "idempotency.in_progress" }, { code: "idempotency.in_progress" }])
  expect([reads, calls.replayBytes]).toEqual([1, 0])
  await send("one", claims)
  expect(reads).toBe(2)
})

test("whoever waits beside a call that finds the database away hears that, as its first client does", async () => {
  const { send } = callsOn({}, 16_000_000)
  const first = send("one", async () => {
    await Bun.sleep(1)
    throw new DatabaseUnavailable("gone")
  })
  const second = send("one", refusals("internal.error"))
  expect(first).rejects.toThrow(DatabaseUnavailable)
  expect(await second).toMatchObject({ code: "dependency.database_unavailable" })
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

test("a call with a key is known by its size before its body is read, as long as its answer is kept: ten minutes", async () => {
  const clock = new VirtualClock()
  const { calls, send } = callsOn({ takeCallKey: async () => true }, 16_000_000, clock)
  await send("one", heard)
  const isKnown = (key: string, bytes: number) =>
    calls.isKnown({ caller, endpoint: "chat", key, retries: undefined }, bytes)
  expect([isKnown("one", 2), isKnown("one", 3), isKnown("two", 2)]).toEqual([true, false, false])
  clock.advance(599_999)
  expect([isKnown("one", 2), calls.replayBytes > 0]).toEqual([true, true])
  clock.advance(1)
  expect([isKnown("one", 2), calls.replayBytes]).toEqual([false, 0])
})
