/**
 * Calls that an SDK sends again by itself (`x-stainless-retry-count`): the answer that did not come through, for nothing; any other is
 * a call of its own.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { ask, callsOf, content, ending, eventually, formats, Reading, requestId, rowsOf } from "./calling.ts"
import { expectFailure } from "./expect-failure.ts"

let gateway: TestGateway
let person: Person
let key: string

beforeAll(async () => {
  gateway = await startTestGateway()
  person = await gateway.person(10_000_000)
  key = (await gateway.key(person)).key
})
afterAll(() => gateway[Symbol.asyncDispose]())

const sent = (times: number, init: { readonly signal?: AbortSignal } = {}) => ({
  ...init,
  headers: { "X-Stainless-Retry-Count": String(times) },
})
const charged = async (model: string) =>
  (await gateway.sql`select 1 from usage where model = ${model} and charge_micro > 0`).length
const isReplayed = (response: Response) => response.headers.has("idempotency-replayed")
const asked = (model: string, times = 1) =>
  eventually(
    "the backend is asked",
    () => callsOf(gateway, model).length,
    (calls) => calls === times,
  )
/** Sends it, and waits for its end. */
async function whole(...asking: Parameters<typeof ask>): Promise<Response> {
  const response = await ask(...asking)
  expect(response.status).toBe(200)
  await response.text()
  return response
}

describe.each(formats)("%s", (format) => {
  describe.each([false, true])("streamed: %p", (stream) => {
    const body = { stream }
    /** A first call whose client goes away once the backend is at work. */
    async function cut(model: string, as = key): Promise<string> {
      const gone = new AbortController()
      const first = ask(gateway, as, format, model, body, sent(0, { signal: gone.signal }))
      first.catch(() => {})
      await asked(model)
      const seen = stream ? await new Reading(await first).until(content[format]) : ""
      gone.abort()
      return seen.replaceAll(": heartbeat\n", "")
    }

    test("one whose connection was cut is asked for again: the whole answer, one charge", async () => {
      const model = await gateway.model({ format, script: "output=40&pace=10&ttft=50&input=10" })
      const seen = await cut(model)
      const again = await ask(gateway, key, format, model, body, sent(1))
      const text = await again.text()
      expect([again.status, isReplayed(again)]).toEqual([200, true])
      expect(text.startsWith(seen)).toBeTrue()
      if (stream) expect(text).toMatch(ending[format])
      const original = again.headers.get("idempotency-original-request-id") ?? ""
      expect(await rowsOf(gateway, original)).toMatchObject([{ status: "ok" }])
      expect(await rowsOf(gateway, requestId(again))).toHaveLength(0)
      expect(await charged(model)).toBe(1)
      // It has come through now.
      expect(isReplayed(await whole(gateway, key, format, model, body, sent(2)))).toBeFalse()
      expect(await charged(model)).toBe(2)
    })

    test("after its end too, where nobody has read it", async () => {
      const model = await gateway.model({ format, script: "output=20&pace=5&ttft=200&input=10" })
      await cut(model)
      await eventually(
        "it is charged",
        () => charged(model),
        (charges) => charges === 1,
      )
      expect(isReplayed(await whole(gateway, key, format, model, body, sent(3)))).toBeTrue()
      expect([callsOf(gateway, model).length, await charged(model)]).toEqual([1, 1])
    })

    test("one that came through, or that was not sent again, is made anew", async () => {
      const model = await gateway.model({ format, script: "output=5&input=10" })
      for (const times of [0, 0, 1, 1, 0])
        expect(isReplayed(await whole(gateway, key, format, model, body, sent(times)))).toBeFalse()
      expect([callsOf(gateway, model).length, await charged(model)]).toEqual([5, 5])
    })

    test("one that was cut is not for whoever makes the same call on purpose", async () => {
      const model = await gateway.model({ format, script: "output=20&pace=5&ttft=50&input=10" })
      await cut(model)
      expect(isReplayed(await whole(gateway, key, format, model, body, sent(0)))).toBeFalse()
      expect(isReplayed(await whole(gateway, key, format, model, body))).toBeFalse()
      expect(callsOf(gateway, model)).toHaveLength(3)
      expect(isReplayed(await whole(gateway, key, format, model, body, sent(1)))).toBeTrue()
    })

    test("one that failed is made anew", async () => {
      const mine = (await gateway.key(person)).key
      const model = await gateway.model({ format, script: "fault=status&status=400&times=1&output=5" })
      await expectFailure(await ask(gateway, mine, format, model, body, sent(0)), 400, "upstream.invalid_request")
      expect(isReplayed(await whole(gateway, mine, format, model, body, sent(1)))).toBeFalse()
      expect(await charged(model)).toBe(1)
    })

    test("a key for which that is turned off makes each anew", async () => {
      const mine = await gateway.key(person, { replays_retries: false })
      const model = await gateway.model({ format, script: "output=20&pace=5&ttft=50&input=10" })
      await cut(model, mine.key)
      expect(isReplayed(await whole(gateway, mine.key, format, model, body, sent(1)))).toBeFalse()
      expect(callsOf(gateway, model)).toHaveLength(2)
      const on = { method: "PATCH", body: JSON.stringify({ replays_retries: true }) }
      expect((await gateway.dashboard(person, `/keys/${mine.id}`, on)).status).toBe(200)
      const other = await gateway.model({ format, script: "output=20&pace=5&ttft=50&input=10" })
      await cut(other, mine.key)
      expect(isReplayed(await whole(gateway, mine.key, format, other, body, sent(1)))).toBeTrue()
    })
  })

  test("another body or another key is another call", async () => {
    const model = await gateway.model({ format, script: "output=30&pace=10&ttft=50&input=10" })
    const gone = new AbortController()
    ask(gateway, key, format, model, {}, sent(0, { signal: gone.signal })).catch(() => {})
    await asked(model)
    gone.abort()
    const other = (await gateway.key(person)).key
    const others = [
      ask(gateway, other, format, model, {}, sent(1)),
      ask(gateway, key, format, model, { temperature: 0.5 }, sent(1)),
    ]
    for (const response of await Promise.all(others)) {
      expect([response.status, isReplayed(response)]).toEqual([200, false])
      await response.text()
    }
    expect(isReplayed(await whole(gateway, key, format, model, {}, sent(1)))).toBeTrue()
    expect(await charged(model)).toBe(3)
  })
})

const slow = "output=20&pace=5&ttft=400&input=10"
/** Longer than what is done meanwhile may take. */
const verySlow = "output=20&pace=5&ttft=3000&input=10"

test.concurrent("while its first client seems to be there, the only such call is read along; of two neither is", async () => {
  const mine = (await gateway.key(person)).key
  const [one, two] = [
    await gateway.model({ format: "chat", script: verySlow }),
    await gateway.model({ format: "chat", script: verySlow }),
  ]
  const first = ask(gateway, mine, "chat", one, {}, sent(0))
  await asked(one)
  const again = await whole(gateway, mine, "chat", one, {}, sent(1))
  expect(again.headers.get("idempotency-original-request-id")).toBe(requestId(await first))
  const both = [ask(gateway, mine, "chat", two, {}, sent(0)), ask(gateway, mine, "chat", two, {}, sent(0))]
  await asked(two, 2)
  expect(isReplayed(await whole(gateway, mine, "chat", two, {}, sent(1)))).toBeFalse()
  await Promise.all(both)
  expect([await charged(one), await charged(two)]).toEqual([1, 3])
})

test.concurrent("who was refused gets a call of its own, and not that of somebody who is still there", async () => {
  const mine = (await gateway.key(person)).key
  const model = await gateway.model({ format: "chat", script: verySlow })
  const failing = await gateway.model({ format: "chat", script: "fault=status&status=401&output=5" })
  const first = ask(gateway, mine, "chat", model, {}, sent(0))
  await asked(model)
  await expectFailure(await ask(gateway, mine, "chat", failing, {}, sent(0)), 502, "dependency.upstream_unavailable")
  expect(isReplayed(await whole(gateway, mine, "chat", model, {}, sent(1)))).toBeFalse()
  await (await first).text()
  expect(await charged(model)).toBe(2)
})

test.concurrent("it needs no money", async () => {
  const poor = await gateway.person(10_000)
  const mine = await gateway.key(poor)
  const model = await gateway.model({ format: "chat", script: `${slow}&output=16`, context_window: 2_000_000 })
  const body = { messages: [{ role: "user", content: "x".repeat(400_000) }], max_tokens: 16 }
  const gone = new AbortController()
  ask(gateway, mine.key, "chat", model, body, sent(0, { signal: gone.signal })).catch(() => {})
  await asked(model)
  gone.abort()
  await eventually(
    "it is charged",
    () => charged(model),
    (charges) => charges === 1,
  )
  await gateway.sql`update balances set posted_micro = leased_micro where account_id = ${poor.accountId}`
  expect(isReplayed(await whole(gateway, mine.key, "chat", model, body, sent(1)))).toBeTrue()
})

test.concurrent("a count that is none is as if there was none", async () => {
  const model = await gateway.model({ format: "chat", script: slow })
  const gone = new AbortController()
  ask(gateway, key, "chat", model, {}, sent(0, { signal: gone.signal })).catch(() => {})
  await asked(model)
  gone.abort()
  for (const count of ["-1", "1.5", "one", "", "10000"]) {
    const response = await ask(gateway, key, "chat", model, {}, { headers: { "X-Stainless-Retry-Count": count } })
    expect([count, response.status, isReplayed(response)]).toEqual([count, 200, false])
    await response.text()
  }
  expect(isReplayed(await whole(gateway, key, "chat", model, {}, sent(9_999)))).toBeTrue()
})

test.concurrent("a key goes before it: what carries one is known by that", async () => {
  const model = await gateway.model({ format: "chat", script: slow })
  const gone = new AbortController()
  ask(gateway, key, "chat", model, {}, sent(0, { signal: gone.signal })).catch(() => {})
  await asked(model)
  gone.abort()
  const keyed = { headers: { "X-Stainless-Retry-Count": "1", "Idempotency-Key": "of-its-own" } }
  expect(isReplayed(await whole(gateway, key, "chat", model, {}, keyed))).toBeFalse()
})
