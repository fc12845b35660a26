/** For how long, and of how many, it is known what SDKs may send again. */
import { expect, test } from "bun:test"
import { VirtualClock } from "../kernel/virtual-time.ts"
import type { KeyRecord } from "../../actors/key-record.ts"
import type { UsageRecord } from "../../actors/ledger.ts"
import { micro } from "../../actors/money/micro.ts"
import { Failure } from "../../src/failure/failure.ts"
import { type Answer, UnreadBytes } from "../../src/gateway/outbox.ts"
import type { OriginalCall } from "../../src/gateway/replayable-call.ts"
import { CallDeduplication } from "../../src/gateway/call-deduplication.ts"

const MINUTE = 60_000
/** Half of it is for retries, and an eighth of that for one account. */
const KEPT_BYTES = 1_600_000
const SHARE = KEPT_BYTES / 16

const caller = { keyHash: "", record: { accountId: "acc", keyId: "key" } as KeyRecord }

const nothing = async () => {
  throw new Error("a retry has no row")
}

function world() {
  const clock = new VirtualClock()
  const repeats = new CallDeduplication({
    clock,
    store: { takeCallKey: nothing, readCallKey: nothing, takeCallKeyOver: nothing, freeCallKey: nothing },
    processId: "p",
    limits: { heartbeatMs: 8_000, readerStallMs: 300_000, replayBytes: KEPT_BYTES },
    unread: new UnreadBytes(2 ** 30),
    onError: () => {},
  })
  let made = 0
  const send = async (
    text: string,
    retries: number,
    work: (first?: OriginalCall) => Promise<Answer | Failure>,
    endpoint = "chat",
  ) => {
    const answer = await repeats.runOrReplay(
      {
        endpoint,
        body: new TextEncoder().encode(text),
        caller,
        requestId: `req_${++made}`,
        signal: new AbortController().signal,
        connection: undefined,
      },
      retries,
      work,
    )
    return answer instanceof Failure ? answer.code : answer.headers["Idempotency-Original-Request-Id"]
  }
  return { clock, repeats, send }
}

const record = { status: "ok", charge: micro(1n) } as UsageRecord
const hearing = { onIdle: () => {}, onLeave: () => {} }
const json = { "Content-Type": "application/json" }

/** Its client has left when the answer comes, which is kept. */
const lost =
  (bytes = 10) =>
  async (first?: OriginalCall): Promise<Answer> => {
    const shared = first?.shared.begin(hearing)
    shared?.leave()
    shared?.write("x".repeat(bytes))
    shared?.end()
    first?.ended(record, true)
    return { body: shared?.stream() ?? "", headers: json }
  }
/** Its client is told all of it in one piece. */
const heard = async (first?: OriginalCall): Promise<Answer> => {
  first?.shared.begin(hearing)
  first?.ended(record, true)
  return { body: "all", headers: json }
}

test("an answer that did not come through is kept for two minutes", async () => {
  const { clock, repeats, send } = world()
  expect(await send("one", 0, lost())).toBeUndefined()
  clock.advance(2 * MINUTE - 1)
  const retry = { caller, endpoint: "chat", key: undefined, retries: 1 }
  expect([repeats.isKnown(retry, 3), repeats.isKnown({ ...retry, retries: 0 }, 3)]).toEqual([true, false])
  expect([repeats.isKnown(retry, 4), repeats.isKnown({ ...retry, endpoint: "responses" }, 3)]).toEqual([false, false])
  await send("two", 0, lost())
  clock.advance(1)
  expect(await send("one", 1, heard)).toBeUndefined()
  expect(await send("two", 1, heard)).toBe("req_2")
  clock.advance(2 * MINUTE)
  expect(repeats.replayBytes).toBe(0)
})

test("of what came through nothing is kept", async () => {
  const { repeats, send } = world()
  for (let n = 0; n < 1_000; n++) await send("same", n % 2, heard)
  expect(repeats.replayBytes).toBe(0)
  await send("other", 0, lost())
  expect(repeats.replayBytes).toBeGreaterThan(0)
  expect(await send("other", 1, heard)).toBe("req_1001")
  expect(repeats.replayBytes).toBe(0)
})

test("an account keeps its share: the oldest that did not come through gives way, and a call without room is made", async () => {
  const { repeats, send } = world()
  for (let n = 0; n < 20; n++) await send(`body ${10 + n}`, 0, lost(13_000))
  expect(repeats.replayBytes).toBeLessThanOrEqual(SHARE)
  expect(await send("body 10", 1, heard)).toBeUndefined()
  expect(await send("body 29", 1, heard)).toBe("req_20")
  expect(await send("large", 0, lost(SHARE))).toBeUndefined()
  expect(await send("large", 1, heard)).toBeUndefined()
  expect(repeats.replayBytes).toBeLessThanOrEqual(SHARE)
})

test("the same body is another call at another endpoint", async () => {
  const { send } = world()
  await send("one", 0, lost())
  expect(await send("one", 1, heard, "responses")).toBeUndefined()
  expect(await send("one", 1, heard)).toBe("req_1")
})

test("a call whose answer found no room is made anew while the first one runs", async () => {
  const { send } = world()
  const { promise: mayEnd, resolve: end } = Promise.withResolvers<void>()
  const first = send("one", 0, async (original) => {
    const shared = original?.shared.begin(hearing)
    shared?.leave()
    shared?.write("x".repeat(SHARE))
    await mayEnd
    return await lost()(original)
  })
  expect(await send("one", 1, heard)).toBeUndefined()
  end()
  expect(await first).toBeUndefined()
})

test("an answer whose end is told twice is kept once", async () => {
  const { clock, repeats, send } = world()
  await send("one", 0, async (first) => {
    const answer = await lost()(first)
    first?.ended(record, true)
    return answer
  })
  clock.advance(2 * MINUTE)
  expect(repeats.replayBytes).toBe(0)
  await send("two", 0, lost())
  clock.advance(2 * MINUTE)
  expect(repeats.replayBytes).toBe(0)
})

test.each([
  ["gateway.capacity", true],
  ["idempotency.in_progress", true],
  ["internal.error", true],
  ["dependency.database_unavailable", true],
  ["billing.insufficient_balance", false],
  ["request.too_large", false],
] as const)("SDKs send a call again after %s: %p", async (code, isSentAgain) => {
  const { repeats, send } = world()
  const { promise: mayEnd, resolve: finish } = Promise.withResolvers<void>()
  const first = send("one", 0, async (original) => {
    original?.shared.begin(hearing)
    await mayEnd
    return await heard(original)
  })
  repeats.noteRefusal("key", 0, new Failure(code))
  const again = send("one", 1, heard)
  await Bun.sleep(0)
  finish()
  await first
  // The first client seems to be there, so the retry may belong to the call that was refused.
  expect(await again).toBe(isSentAgain ? undefined : "req_1")
  await send("lost", 0, lost())
  expect(await send("lost", 1, heard)).toBe("req_3")
})

test("a refusal is remembered for two minutes, and 4,096 of them", async () => {
  const { clock, repeats, send } = world()
  const busy = new Failure("rate_limit.rpm_exceeded")
  /** One whose client seems to be there, which a retry reads along where none was refused. */
  const finishes: (() => void)[] = []
  const slow = (first?: OriginalCall): Promise<Answer> => {
    first?.shared.begin(hearing)
    return new Promise((resolve) => finishes.push(() => void heard(first).then(resolve)))
  }
  const retry = async (text: string) => {
    const first = send(text, 0, slow)
    await Promise.resolve()
    const again = send(text, 1, heard)
    await Bun.sleep(0)
    finishes.shift()?.()
    await first
    return await again
  }
  expect(await retry("a")).toBe("req_1")
  repeats.noteRefusal("key", 0, new Failure("request.invalid"))
  repeats.noteRefusal("key", undefined, busy)
  expect(await retry("b")).toBe("req_3")
  repeats.noteRefusal("key", 0, busy)
  clock.advance(2 * MINUTE - 1)
  expect(await retry("c")).toBeUndefined()
  clock.advance(1)
  expect(await retry("d")).toBe("req_7")
  repeats.noteRefusal("key", 0, busy)
  for (let n = 0; n < 4_095; n++) repeats.noteRefusal(`other_${n}`, 0, busy)
  expect(await retry("e")).toBeUndefined()
  repeats.noteRefusal("one too many", 0, busy)
  expect(await retry("f")).toBe("req_11")
})
