/**
 * Calls that carry an `Idempotency-Key`: the first is made and charged, and whoever repeats it gets its answer, as it comes or
 * as it was, and pays nothing.
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

let names = 0
const newName = () => `name-${++names}`
const named = (name: string, init: { readonly signal?: AbortSignal } = {}) => ({
  ...init,
  headers: { "Idempotency-Key": name },
})
const rows = () => gateway.sql`select 1 from idempotency_keys where scope like 'key\_%'`
const chargedTo = async ({ accountId }: Person, model: string) =>
  (await gateway.sql`select 1 from usage where account_id = ${accountId} and model = ${model} and charge_micro > 0`)
    .length

/** What is the same of an answer and its replay, apart from the date. */
const told = (response: Response) =>
  Object.fromEntries([...response.headers].filter(([name]) => /^(content-type|x-cost-rp|x-model|x-dropped)/.test(name)))

async function expectReplay(response: Response, first: Response, isStream: boolean): Promise<void> {
  expect(response.status).toBe(200)
  expect(response.headers.get("idempotency-replayed")).toBe("true")
  expect(response.headers.get("idempotency-original-request-id")).toBe(requestId(first))
  expect(requestId(response)).not.toBe(requestId(first))
  expect(first.headers.has("idempotency-replayed")).toBeFalse()
  expect(told(response)).toEqual(told(first))
  expect(response.headers.has("x-cost-rp")).toBe(!isStream)
}

describe.each(formats)("%s", (format) => {
  describe.each([false, true])("streamed: %p", (stream) => {
    const body = { stream }

    test("after its end the same bytes are given again, for nothing", async () => {
      const model = await gateway.model({ format, script: "output=20&input=10" })
      const name = newName()
      const first = await ask(gateway, key, format, model, body, named(name))
      const bytes = await first.text()
      const { balance_micro: before } = await gateway.balance(person)
      for (let n = 0; n < 6; n++) {
        const again = await ask(gateway, key, format, model, body, named(name))
        await expectReplay(again, first, stream)
        expect(await again.text()).toBe(bytes)
        expect(await rowsOf(gateway, requestId(again))).toHaveLength(0)
      }
      expect(await gateway.balance(person)).toEqual(expect.objectContaining({ balance_micro: before, held_micro: 0 }))
      expect(callsOf(gateway, model)).toHaveLength(1)
      expect(await chargedTo(person, model)).toBe(1)
    })

    test("a large answer too", async () => {
      const text = encodeURIComponent("größer ".repeat(700))
      const model = await gateway.model({ format, script: `text=${text}&input=10`, max_output_tokens: 60_000 })
      const [name, more] = [newName(), { ...body, max_tokens: 60_000, max_output_tokens: 60_000 }]
      const first = await ask(gateway, key, format, model, more, named(name))
      const bytes = await first.text()
      expect(Buffer.byteLength(bytes)).toBeGreaterThan(stream ? 20_000 : 5_000)
      const again = await ask(gateway, key, format, model, more, named(name))
      await expectReplay(again, first, stream)
      expect(await again.text()).toBe(bytes)
    })

    test.concurrent("while it runs, whoever repeats it reads along; the fifth is told to come back", async () => {
      const model = await gateway.model({ format, script: "output=40&pace=15&ttft=1000&input=10" })
      const name = newName()
      const asking = () => ask(gateway, key, format, model, body, named(name))
      const first = asking()
      await eventually(
        "the backend is asked",
        () => callsOf(gateway, model).length,
        (calls) => calls === 1,
      )
      const answers = await Promise.all(Array.from({ length: 4 }, asking))
      // Whichever of them came last.
      const refused = answers.filter(({ status }) => status !== 200)
      expect(refused).toHaveLength(1)
      for (const fifth of refused) {
        expect(fifth.headers.get("retry-after")).toBe("1")
        await expectFailure(fifth, 409, "idempotency.in_progress")
      }
      const response = await first
      const bytes = await response.text()
      for (const other of answers.filter(({ status }) => status === 200)) {
        await expectReplay(other, response, stream)
        expect((await other.text()).replaceAll(": heartbeat\n", "").trim()).toBe(
          bytes.replaceAll(": heartbeat\n", "").trim(),
        )
      }
      expect(callsOf(gateway, model)).toHaveLength(1)
      expect(await chargedTo(person, model)).toBe(1)
    })

    test.concurrent("whoever lost the connection asks again and gets all of it, billed once", async () => {
      const model = await gateway.model({ format, script: "output=40&pace=10&ttft=50&input=10" })
      const name = newName()
      const cut = new AbortController()
      const first = ask(gateway, key, format, model, body, named(name, { signal: cut.signal }))
      first.catch(() => {})
      await eventually(
        "the backend is asked",
        () => callsOf(gateway, model).length,
        (calls) => calls === 1,
      )
      let seen = ""
      if (stream) {
        const reading = new Reading(await first)
        seen = (await reading.until(content[format])).replaceAll(": heartbeat\n", "")
      }
      cut.abort()
      await Bun.sleep(20)
      const again = await ask(gateway, key, format, model, body, named(name))
      const text = await again.text()
      expect(again.status).toBe(200)
      expect(again.headers.get("idempotency-replayed")).toBe("true")
      expect(text.startsWith(seen)).toBeTrue()
      if (stream) expect(text).toMatch(ending[format])
      expect(await chargedTo(person, model)).toBe(1)
      const original = again.headers.get("idempotency-original-request-id") ?? ""
      expect(await rowsOf(gateway, original)).toMatchObject([{ status: "ok" }])
    })

    test.concurrent("whoever left before anything came too, and others can still be served", async () => {
      const model = await gateway.model({ format, script: "output=20&pace=10&ttft=300&input=10" })
      const name = newName()
      const cut = new AbortController()
      ask(gateway, key, format, model, body, named(name, { signal: cut.signal })).catch(() => {})
      await eventually(
        "the backend is asked",
        () => callsOf(gateway, model).length,
        (calls) => calls === 1,
      )
      cut.abort()
      await Bun.sleep(50)
      const again = await ask(gateway, key, format, model, body, named(name))
      if (stream) expect(await again.text()).toMatch(ending[format])
      else expect(await again.json()).toBeObject()
      expect(again.headers.get("idempotency-replayed")).toBe("true")
      // Nobody has come back for this one before its end.
      const alone = newName()
      const gone = new AbortController()
      ask(gateway, key, format, model, body, named(alone, { signal: gone.signal })).catch(() => {})
      await eventually(
        "the backend is asked again",
        () => callsOf(gateway, model).length,
        (calls) => calls === 2,
      )
      gone.abort()
      await Bun.sleep(700)
      const late = await ask(gateway, key, format, model, body, named(alone))
      expect([late.status, late.headers.get("idempotency-replayed")]).toEqual([200, "true"])
      await late.text()
      expect(await chargedTo(person, model)).toBe(2)
    })

    test("a failure frees the key", async () => {
      const model = await gateway.model({ format, script: "fault=status&status=400&times=1&output=5" })
      const name = newName()
      const before = (await rows()).length
      await expectFailure(await ask(gateway, key, format, model, body, named(name)), 400, "upstream.invalid_request")
      await eventually("its row is gone", rows, ({ length }) => length === before)
      const again = await ask(gateway, key, format, model, body, named(name))
      expect(again.status).toBe(200)
      expect(again.headers.has("idempotency-replayed")).toBeFalse()
      await again.text()
      expect(await rows()).toHaveLength(before + 1)
    })
  })

  test("another body, or another endpoint, is a mismatch", async () => {
    const model = await gateway.model({ format, script: "output=5" })
    const name = newName()
    await (await ask(gateway, key, format, model, {}, named(name))).text()
    await expectFailure(
      await ask(gateway, key, format, model, { stream: true }, named(name)),
      409,
      "idempotency.mismatch",
    )
    expect(callsOf(gateway, model)).toHaveLength(1)
  })
})

describe("the key", () => {
  test.each([
    ["empty", ""],
    ["too long", "k".repeat(256)],
    ["with a space", "a b"],
    ["not ASCII", "schlüssel"],
    ["twice", "a, b"],
  ])("%s is refused", async (_, name) => {
    const response = await ask(gateway, key, "chat", "plain", {}, named(name))
    expect((await expectFailure(response, 400, "request.invalid")).message).toContain("1 to 255 visible ASCII")
  })

  test("of 255 characters is taken", async () => {
    const response = await ask(gateway, key, "chat", "plain", {}, named("~".repeat(255)))
    expect(response.status).toBe(200)
    await response.text()
  })

  test("belongs to its API key", async () => {
    const model = await gateway.model({ format: "chat", script: "output=5" })
    const name = newName()
    const other = await gateway.person(1_000_000)
    const keys = [key, (await gateway.key(person)).key, (await gateway.key(other)).key]
    for (const mine of keys) {
      const response = await ask(gateway, mine, "chat", model, {}, named(name))
      expect(response.headers.has("idempotency-replayed")).toBeFalse()
      await response.text()
    }
    expect(callsOf(gateway, model)).toHaveLength(3)
  })

  test("is no way around a revocation", async () => {
    const mine = await gateway.key(person)
    const name = newName()
    await (await ask(gateway, mine.key, "chat", "plain", {}, named(name))).text()
    await gateway.dashboard(person, `/keys/${mine.id}/revoke`, { method: "POST" })
    await expectFailure(await ask(gateway, mine.key, "chat", "plain", {}, named(name)), 401, "auth.api_key_revoked")
  })
})

test("a replay counts in the request window", async () => {
  const mine = await gateway.key(person, { requests_per_minute: 2 })
  const name = newName()
  for (const left of ["1", "0"]) {
    const response = await ask(gateway, mine.key, "chat", "plain", {}, named(name))
    expect(response.headers.get("x-ratelimit-remaining")).toBe(left)
    await response.text()
  }
  await expectFailure(await ask(gateway, mine.key, "chat", "plain", {}, named(name)), 429, "rate_limit.rpm_exceeded")
})

test("a call whose client left, and that was stopped before its end, is made anew", async () => {
  await using own = await startTestGateway({ env: { DRAIN_LEFT_MS: "300" } })
  const mine = await own.key(await own.person(1_000_000))
  const model = await own.model({ format: "chat", script: "output=4000&pace=20" })
  const name = newName()
  const leaving = new AbortController()
  const asked = (signal?: AbortSignal) =>
    ask(own, mine.key, "chat", model, { stream: true }, named(name, signal && { signal }))
  await new Reading(await asked(leaving.signal)).until(content.chat)
  leaving.abort()
  const records = () => own.sql`select status from usage where model = ${model}`
  await eventually("it is stopped", records, (rows) => rows[0]?.["status"] === "usage_missing")
  const again = await asked()
  expect(again.headers.has("idempotency-replayed")).toBeFalse()
  expect(callsOf(own, model)).toHaveLength(2)
  await again.body?.cancel()
})

test("a call whose client left, came again to read most of it, and left once more, is read to its end and charged", async () => {
  await using own = await startTestGateway({ env: { DRAIN_LEFT_MS: "3000" } })
  const someone = await own.person(1_000_000)
  const mine = await own.key(someone)
  const model = await own.model({ format: "chat", script: "output=175&pace=20" })
  const name = newName()
  const asked = async (signal: AbortSignal) => {
    const answer = await ask(own, mine.key, "chat", model, { stream: true }, named(name, { signal }))
    return { id: requestId(answer), reading: new Reading(answer) }
  }
  const [leaving, leavingAgain] = [new AbortController(), new AbortController()]
  const first = await asked(leaving.signal)
  await first.reading.until(content.chat)
  leaving.abort()
  const again = await asked(leavingAgain.signal)
  const until = performance.now() + 2_500
  while (performance.now() < until) await again.reading.until(new RegExp(`[^]{${again.reading.text.length + 1}}`))
  leavingAgain.abort()
  expect(await own.usage(someone, first.id)).toMatchObject({ status: "ok", output_tokens: 175 })
  const [{ paid } = {}] = await own.sql<{ paid: boolean }[]>`
    select charge_micro > 0 as paid from usage where request_id = ${first.id}`
  expect(paid).toBe(true)
})

test("a replay needs no money", async () => {
  const poor = await gateway.person(10_000)
  const mine = await gateway.key(poor)
  const model = await gateway.model({ format: "chat", script: "output=16&input=10", context_window: 2_000_000 })
  const name = newName()
  const content = "x".repeat(400_000)
  const body = { messages: [{ role: "user", content }], max_tokens: 16 }
  expect((await ask(gateway, mine.key, "chat", model, body, named(name))).status).toBe(200)
  await gateway.sql`update balances set posted_micro = leased_micro where account_id = ${poor.accountId}`
  const again = await ask(gateway, mine.key, "chat", model, body, named(name))
  expect([again.status, again.headers.get("idempotency-replayed")]).toEqual([200, "true"])
})

test("sent twenty times at one moment, a call is made once", async () => {
  const model = await gateway.model({ format: "chat", script: "output=5&ttft=2000" })
  const name = newName()
  const answers = await Promise.all(Array.from({ length: 20 }, () => ask(gateway, key, "chat", model, {}, named(name))))
  const statuses = Map.groupBy(answers, ({ status }) => status)
  expect([statuses.get(200)?.length, statuses.get(409)?.length]).toEqual([4, 16])
  expect(callsOf(gateway, model)).toHaveLength(1)
  expect(await chargedTo(person, model)).toBe(1)
})

test("what is refused before it is forwarded takes no key", async () => {
  const before = (await rows()).length
  const poor = await gateway.key(await gateway.person())
  await expectFailure(await ask(gateway, key, "chat", "unheard-of", {}, named(newName())), 400, "model.unknown")
  await expectFailure(
    await ask(gateway, poor.key, "chat", "plain", {}, named(newName())),
    402,
    "billing.insufficient_balance",
  )
  await eventually("no row is left", rows, ({ length }) => length === before)
})
