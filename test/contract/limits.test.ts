/** Windows, budgets, holds and bodies at their limits (gateway-api.md, "Limits"; decisions §3, §5, §12). */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { systemClock } from "../../actors/kernel/clock.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { callsOf, eventually } from "./calling.ts"
import { bugs, expectFailure } from "./expect-failure.ts"
import { covers } from "./rows.ts"

let gateway: TestGateway
let person: Person

beforeAll(async () => {
  gateway = await startTestGateway()
  person = await gateway.person(1_000_000)
})
afterAll(() => gateway[Symbol.asyncDispose]())

const hello = [{ role: "user", content: "Hello" }]
const key = async (limits: object = {}, of = person) => (await gateway.key(of, { ...limits })).key
const call = (by: string, model: string, more: object = {}) =>
  gateway.post("/v1/messages", by, { model, max_tokens: 100, messages: hello, ...more })
const chat = (by: string, model: string, more: object = {}) =>
  gateway.post("/v1/chat/completions", by, { model, messages: hello, ...more })
const look = (by: string) => fetch(`${gateway.url}/v1/models`, { headers: { "x-api-key": by } })
/** What a prompt is estimated at: the free endpoint says it. */
async function estimate(model: string, more: object = {}): Promise<number> {
  const response = await gateway.post("/v1/messages/count_tokens", await key(), { model, messages: hello, ...more })
  return ((await response.json()) as { input_tokens: number }).input_tokens
}
/** Seconds until the period ends in a time zone. */
const left = (zone: string, period: "daily" | "monthly") => {
  const now = Temporal.Now.zonedDateTimeISO(zone)
  const day = now.startOfDay()
  const end = period === "daily" ? day.add({ days: 1 }) : day.with({ day: 1 }).add({ months: 1 })
  return (end.epochMilliseconds - now.epochMilliseconds) / 1_000
}
/** The model's last call is with its backend: what it takes is taken. */
const forwarded = (model: string) =>
  eventually(
    "not forwarded",
    () => callsOf(gateway, model).at(-1)?.outcome,
    (outcome) => outcome === "running",
  )
/** A child of a key, and that: each with the limit. */
async function family(of: Person, limitRp: number) {
  const limits = { spending_limit_micro: limitRp * 1_000_000, spending_period: "daily" } as const
  const parent = await gateway.key(of, limits)
  const made = await gateway.dashboard(of, `/keys/${parent.id}/tokens`, { method: "POST", body: '{"name":"class"}' })
  const { token } = (await made.json()) as { token: string }
  const child = await fetch(`${gateway.url}/v1/keys`, {
    method: "POST",
    headers: { Authorization: `Bearer ${token}` },
    body: JSON.stringify({ name: "pupil", ...limits }),
  })
  return [((await child.json()) as { key: string }).key, parent.key] as const
}
const usage = async (by: string) => number(await look(by), "x-key-usage-micro")
/** What was forwarded last. */
const lastBody = () => gateway.simulator.calls.at(-1)?.body ?? {}
const retryAfter = (response: Response) => Number(response.headers.get("retry-after") ?? Number.NaN)
const number = (response: Response, name: string) => Number(response.headers.get(name) ?? Number.NaN)
const change = async (id: string, limits: object) => {
  const response = await gateway.dashboard(person, `/keys/${id}`, { method: "PATCH", body: JSON.stringify(limits) })
  expect(response.status).toBe(200)
}
/** Asks until the answer is so; within the second that a change may take (decisions §10). */
async function withinASecond(ask: () => Promise<Response>, isSo: (response: Response) => boolean): Promise<Response> {
  const until = systemClock.running() + 1_000
  for (;;) {
    const response = await ask()
    if (isSo(response) || systemClock.running() > until) return response
    await response.text()
    await Bun.sleep(20)
  }
}

describe(covers("limit.rpm", "5.window", "12.1"), () => {
  test("every call counts, a refused one by the window does not, and the wait is until this same call would pass", async () => {
    const by = await key({ requests_per_minute: 2 })
    const began = performance.now()
    const passedS = () => Math.ceil((performance.now() - began) / 1_000)
    const first = await look(by)
    expect(number(first, "x-ratelimit-limit")).toBe(2)
    expect(number(first, "x-ratelimit-remaining")).toBe(1)
    expect(number(first, "x-ratelimit-reset")).toBeWithin(60 - passedS(), 61)
    await Bun.sleep(1_100)
    const second = await look(by)
    expect(number(second, "x-ratelimit-remaining")).toBe(0)
    const gapS = passedS()
    const waits: number[] = []
    for (let refused = 0; refused < 3; refused++) {
      const response = await look(by)
      const { retryAfterS = Number.NaN } = await expectFailure(response.clone(), 429, "rate_limit.rpm_exceeded")
      waits.push(retryAfterS)
      expect(number(response, "x-ratelimit-remaining")).toBe(0)
      // The window is empty when the second call has left it, and has room when the first one has.
      expect(number(response, "x-ratelimit-reset") - retryAfterS).toBeWithin(1, gapS + 2)
      await Bun.sleep(400)
    }
    expect(waits[0]).toBeWithin(58 - passedS(), 60)
    // Had a refused call been counted, the wait would have grown.
    expect(waits).toEqual(waits.toSorted((a, b) => b - a))
  })
  test("many at once are let in up to the limit and no further", async () => {
    const by = await key({ requests_per_minute: 20 })
    const statuses = await Promise.all(Array.from({ length: 50 }, async () => (await look(by)).status))
    expect(statuses.filter((status) => status === 200)).toHaveLength(20)
    expect(statuses.filter((status) => status === 429)).toHaveLength(30)
  })
  test(`${covers("auth.revoked-counts")} a revoked key still counts against its minute`, async () => {
    const made = await gateway.key(person, { requests_per_minute: 3 })
    await look(made.key)
    await gateway.dashboard(person, `/keys/${made.id}/revoke`, { method: "POST" })
    const revoked = () => gateway.post("/v1/messages/count_tokens", made.key, {})
    await eventually(
      "not revoked",
      async () => (await revoked()).status,
      (status) => status === 401,
    )
    const refused = await look(made.key)
    expect(number(refused, "x-ratelimit-remaining")).toBe(1)
    await expectFailure(refused, 401, "auth.api_key_revoked")
    await expectFailure(await call(made.key, "plain"), 401, "auth.api_key_revoked")
    await expectFailure(await look(made.key), 429, "rate_limit.rpm_exceeded")
  })
})

describe(covers("limit.tpm", "5.tokens", "12.16"), () => {
  test("the estimate and a minimal answer are taken at admission, and all four buckets at settlement", async () => {
    const model = await gateway.model({
      format: "messages",
      script: "ttft=2500&input=100&cached=40&written=20&output=7",
    })
    const estimated = await estimate(model)
    const by = await key({ tokens_per_minute: 10_000 })
    const began = performance.now()
    const running = call(by, model)
    await forwarded(model)
    expect(number(await look(by), "x-ratelimit-remaining-tokens")).toBe(10_000 - estimated - 16)
    const response = await running
    expect(response.status).toBe(200)
    expect(number(response, "x-ratelimit-limit-tokens")).toBe(10_000)
    expect(number(response, "x-ratelimit-remaining-tokens")).toBe(10_000 - 167)
    // What is counted leaves the window a minute after the call was admitted.
    const passedS = Math.ceil((performance.now() - began) / 1_000)
    expect(number(response, "x-ratelimit-reset-tokens")).toBeWithin(60 - passedS, 59)
  })
  test("a call that failed has used none", async () => {
    const model = await gateway.model({ format: "messages", script: "fault=status&status=400" })
    const by = await key({ tokens_per_minute: 10_000 })
    const response = await call(by, model)
    await expectFailure(response.clone(), 400, "upstream.invalid_request")
    expect(number(response, "x-ratelimit-remaining-tokens")).toBe(10_000)
    expect(number(response, "x-ratelimit-reset-tokens")).toBe(0)
  })
  test(`${covers("12.2")} the minimal answer is the client's limit where that is under 16, and n of them for n answers`, async () => {
    const model = await gateway.model({ format: "messages" })
    const estimated = await estimate(model)
    const short = await key({ tokens_per_minute: estimated + 3 })
    await expectFailure(await call(short, model, { max_tokens: 4 }), 429, "rate_limit.tpm_exceeded")
    expect((await call(short, model, { max_tokens: 3 })).status).toBe(200)

    const onChat = await gateway.model({ format: "chat", script: "ttft=1500" })
    const left = async (more: object) => {
      const by = await key({ tokens_per_minute: 10_000 })
      const running = chat(by, onChat, more)
      await forwarded(onChat)
      const remaining = number(await look(by), "x-ratelimit-remaining-tokens")
      await running
      return remaining
    }
    expect((await left({ n: 1 })) - (await left({ n: 3 }))).toBe(2 * 16)
  })
  test("the wait is until the tokens of this same call have left the window", async () => {
    const model = await gateway.model({ format: "messages", script: "input=150&output=20" })
    const by = await key({ tokens_per_minute: 180 })
    expect((await call(by, model)).status).toBe(200)
    const response = await call(by, model)
    const { retryAfterS } = await expectFailure(response.clone(), 429, "rate_limit.tpm_exceeded")
    expect(retryAfterS).toBe(number(response, "x-ratelimit-reset-tokens"))
    expect(number(response, "x-ratelimit-remaining-tokens")).toBe(10)
  })
  test(`${covers("12.21")} a call that is over the limit by itself is given no wait`, async () => {
    const by = await key({ tokens_per_minute: 10 })
    const { retryAfterS } = await expectFailure(
      await call(by, await gateway.model({ format: "messages" })),
      429,
      "rate_limit.tpm_exceeded",
    )
    expect(retryAfterS).toBeUndefined()
  })
})

describe(covers("limit.budget", "5.period", "13.5", "errors.rule1"), () => {
  const charge = 100 * 1_000 + 10 * 5_000
  const script = "input=100&output=10"

  test("limit, usage, remaining and period are told, what is held included", async () => {
    const model = await gateway.model({ format: "messages", script: `ttft=800&${script}` })
    const by = await key({ spending_limit_micro: 10_000_000, spending_period: "daily" })
    const running = call(by, model)
    await forwarded(model)
    expect(number(await look(by), "x-key-usage-micro")).toBeWithin(100 * 5_000, 1_000_000)
    const response = await running
    expect(number(response, "x-key-limit-micro")).toBe(10_000_000)
    expect(number(response, "x-key-usage-micro")).toBe(charge)
    expect(number(response, "x-key-remaining-micro")).toBe(10_000_000 - charge)
    expect(response.headers.get("x-key-limit-period")).toBe("daily")
  })

  // A whole answer is Rp 10,000. Of what has no more than that the half is held.
  const costly = { format: "messages", script: "ttft=2000&output=1", output_micro: 100_000_000 } as const
  const half = 5_000 * 1_000_000

  test("no more is held of a key, its parent and a run than of the account", async () => {
    const model = await gateway.model(costly)
    const keys = await family(await gateway.person(10_000), 1_000_000)
    const headers = { "X-Run-Id": "held", "X-Run-Budget-Rp": "1000000" }
    const body = { model, max_tokens: 100, messages: hello }
    const running = gateway.post("/v1/messages", keys[0], body, { headers })
    await forwarded(model)
    const run = await fetch(`${gateway.url}/v1/runs/held`, { headers: { "x-api-key": keys[0] } })
    expect(await run.json()).toMatchObject({ held_micro: half })
    for (const one of keys) expect(await usage(one)).toBe(half)
    expect((await running).status).toBe(200)
  })

  test("no more is held of a child than of its parent", async () => {
    const model = await gateway.model(costly)
    const [child, parent] = await family(await gateway.person(1_000_000), 20_000)
    const first = call(parent, model)
    await forwarded(model)
    const second = call(child, model)
    await eventually(
      "both are forwarded",
      () => callsOf(gateway, model).length,
      (calls) => calls === 2,
    )
    expect([await usage(child), await usage(parent)]).toEqual([half, 3 * half])
    expect([(await first).status, (await second).status]).toEqual([200, 200])
  })

  test.each(["Asia/Jakarta", "America/St_Johns", "Pacific/Kiritimati"])(
    "a period ends by the calendar of %s",
    async (zone) => {
      const owner = await gateway.person(10_000)
      // Asia/Jakarta is what an account has that was never asked.
      if (zone !== "Asia/Jakarta") {
        const body = JSON.stringify({ time_zone: zone })
        expect((await gateway.dashboard(owner, "/account", { method: "PATCH", body })).status).toBe(200)
      }
      for (const period of ["daily", "monthly"] as const) {
        const by = await key({ spending_limit_micro: 0, spending_period: period }, owner)
        const { retryAfterS } = await expectFailure(await chat(by, "plain"), 429, "quota.key_limit_exceeded")
        expect(retryAfterS).toBeWithin(left(zone, period) - 2, left(zone, period) + 3)
      }
      const total = await key({ spending_limit_micro: 0, spending_period: "total" }, owner)
      const { retryAfterS } = await expectFailure(await chat(total, "plain"), 429, "quota.key_limit_exceeded")
      expect(retryAfterS).toBeUndefined()
    },
  )

  test("a new time zone begins no new period: twelve of them spend one budget, and Retry-After tells its end", async () => {
    const owner = await gateway.person(100_000)
    const model = await gateway.model({ format: "messages", script })
    const periods = ["daily", "monthly", "total"] as const
    const keys = await Promise.all(
      periods.map((period) => key({ spending_limit_micro: charge, spending_period: period }, owner)),
    )
    const spent = keys.map(() => 0)
    const before = { daily: left("Asia/Jakarta", "daily"), monthly: left("Asia/Jakarta", "monthly") }
    const began = performance.now()
    for (let hours = -12; hours < 12; hours += 2) {
      for (const [index, by] of keys.entries()) {
        const response = await call(by, model, { max_tokens: 10 })
        if (response.ok) spent[index]! += Number(response.headers.get("x-cost-rp")) * 1_000_000
        else await expectFailure(response, 429, "quota.key_limit_exceeded")
      }
      const zone = `Etc/GMT${hours < 0 ? hours : `+${hours}`}`
      const body = JSON.stringify({ time_zone: zone })
      expect((await gateway.dashboard(owner, "/account", { method: "PATCH", body })).status).toBe(200)
      for (const [index, period] of periods.entries()) {
        const answer = await withinASecond(
          () => call(keys[index]!, model, { max_tokens: 10 }),
          (response) =>
            period === "total" || retryAfter(response) >= firstBound(zone, period, before[period]) - passed() - 2,
        )
        const { retryAfterS } = await expectFailure(answer, 429, "quota.key_limit_exceeded")
        if (period === "total") expect(retryAfterS).toBeUndefined()
        else {
          const ends = firstBound(zone, period, before[period]) - passed()
          expect(retryAfterS).toBeWithin(Math.floor(ends) - 2, Math.ceil(ends) + 3)
        }
      }
    }
    expect(spent).toEqual([charge, charge, charge])
    const shown = (await (await gateway.dashboard(owner, "/keys")).json()) as {
      data: { spending_period: "daily" | "monthly" | "total"; usage: { budget: { resets_at: string | null } } }[]
    }
    for (const { spending_period: period, usage } of shown.data) {
      if (period === "total") expect(usage.budget.resets_at).toBeNull()
      else {
        const endsS = (Date.parse(usage.budget.resets_at ?? "") - Date.now()) / 1_000
        const ends = firstBound("Etc/GMT+10", period, before[period]) - passed()
        expect(endsS).toBeWithin(ends - 2, ends + 2)
      }
    }

    function passed() {
      return (performance.now() - began) / 1_000
    }
    /** Seconds from when this began to the zone's first midnight, or month's first midnight, not before so many. */
    function firstBound(zone: string, period: "daily" | "monthly", notBefore: number): number {
      const now = Temporal.Now.instant().subtract({ milliseconds: Math.round(performance.now() - began) })
      const start = now.toZonedDateTimeISO(zone).startOfDay()
      let bound = period === "daily" ? start : start.with({ day: 1 })
      const seconds = () => (bound.epochMilliseconds - now.epochMilliseconds) / 1_000
      while (seconds() < notBefore - 1) bound = bound.add(period === "daily" ? { days: 1 } : { months: 1 })
      return seconds()
    }
  })

  test("a budget is spent to its end and no further, however many calls there are at once", async () => {
    const model = await gateway.model({ format: "messages", script })
    const limit = 4 * charge
    const by = await key({ spending_limit_micro: limit, spending_period: "total" })
    const answers = await Promise.all(Array.from({ length: 20 }, () => call(by, model, { max_tokens: 10 })))
    for (let more = 0; more < 6; more++) answers.push(await call(by, model, { max_tokens: 10 }))
    const codes = answers.map((answer) => answer.headers.get("x-error-code") ?? "ok")
    expect(new Set(codes)).toEqual(new Set(["ok", "quota.key_limit_exceeded"]))
    const last = answers.at(-1)
    if (last === undefined) throw new Error("there is no last answer")
    expect(number(last, "x-key-usage-micro")).toBeLessThanOrEqual(limit)
    expect(number(last, "x-key-remaining-micro")).toBe(limit - number(last, "x-key-usage-micro"))
  })
})

test(`${covers("limit.only-own")} a key without limits is told of none`, async () => {
  const by = await key()
  const response = await chat(by, "plain")
  expect(response.status).toBe(200)
  expect([...response.headers.keys()].filter((name) => /^x-(ratelimit|key)-/.test(name))).toEqual([])
  const onlyTokens = await chat(await key({ tokens_per_minute: 1_000 }), "plain")
  expect([...onlyTokens.headers.keys()].filter((name) => /^x-(ratelimit|key)-/.test(name)).toSorted()).toEqual([
    "x-ratelimit-limit-tokens",
    "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset-tokens",
  ])
})

describe(covers("10.live"), () => {
  test("a raised limit lets the next call pass, a lowered one stops it, and what was counted stays counted", async () => {
    const made = await gateway.key(person, { requests_per_minute: 1 })
    await look(made.key)
    await expectFailure(await look(made.key), 429, "rate_limit.rpm_exceeded")
    await change(made.id, { requests_per_minute: 5 })
    const passed = await withinASecond(
      () => look(made.key),
      (response) => response.ok,
    )
    expect(passed.status).toBe(200)
    expect(number(passed, "x-ratelimit-remaining")).toBe(3)
    await change(made.id, { requests_per_minute: 2 })
    const stopped = await withinASecond(
      () => look(made.key),
      (response) => !response.ok,
    )
    await expectFailure(stopped, 429, "rate_limit.rpm_exceeded")
    await change(made.id, { requests_per_minute: null })
    const free = await withinASecond(
      () => look(made.key),
      (response) => response.ok,
    )
    expect(free.headers.has("x-ratelimit-limit")).toBeFalse()
  })
  test("a budget is changed and taken away", async () => {
    const made = await gateway.key(person, { spending_limit_micro: 0, spending_period: "total" })
    await expectFailure(await chat(made.key, "plain"), 429, "quota.key_limit_exceeded")
    await change(made.id, { spending_limit_micro: 1_000_000_000 })
    expect(
      (
        await withinASecond(
          () => chat(made.key, "plain"),
          (response) => response.ok,
        )
      ).status,
    ).toBe(200)
    await change(made.id, { spending_limit_micro: null })
    const free = await withinASecond(
      () => look(made.key),
      (response) => !response.headers.has("x-key-limit-micro"),
    )
    expect(free.headers.has("x-key-limit-micro")).toBeFalse()
  })
  test("a revocation reaches the live key", async () => {
    const made = await gateway.key(person)
    expect((await look(made.key)).status).toBe(200)
    await gateway.dashboard(person, `/keys/${made.id}/revoke`, { method: "POST" })
    const response = await withinASecond(
      () => look(made.key),
      (answer) => !answer.ok,
    )
    await expectFailure(response, 401, "auth.api_key_revoked")
  })
  test("money that comes in reaches a live account", async () => {
    const poor = await gateway.person()
    const by = await key({}, poor)
    await expectFailure(await chat(by, "plain"), 402, "billing.insufficient_balance")
    await gateway.topUp(poor, 10_000)
    expect(
      (
        await withinASecond(
          () => chat(by, "plain"),
          (response) => response.ok,
        )
      ).status,
    ).toBe(200)
  })
})

describe(covers("3.large-limit", "12.2", "12.3"), () => {
  const RP_10_000 = 10_000_000_000

  test("a large max_tokens alone gives no 402: the limit that is forwarded is what half of the balance pays for", async () => {
    const model = await gateway.model({ format: "messages", output_micro: 100_000_000, script: "input=10&output=5" })
    const estimated = await estimate(model)
    const owner = await gateway.person(10_000)
    const by = await key({}, owner)
    const response = await call(by, model, { max_tokens: 1_000_000_000 })
    expect(response.status).toBe(200)
    expect(lastBody()["max_tokens"]).toBe(Math.floor((RP_10_000 / 2 - estimated * 1_250) / 100_000_000))
  })
  test("half of a key's budget counts where that is the smaller one", async () => {
    const model = await gateway.model({ format: "messages", output_micro: 100_000_000, script: "input=10&output=5" })
    const estimated = await estimate(model)
    const by = await key({ spending_limit_micro: 6_000_000_000, spending_period: "total" })
    expect((await call(by, model, { max_tokens: 8_192 })).status).toBe(200)
    expect(lastBody()["max_tokens"]).toBe(Math.floor((3_000_000_000 - estimated * 1_250) / 100_000_000))
  })
  test("a limit that is paid for is forwarded as it is, and none over the model's own", async () => {
    const model = await gateway.model({ format: "messages" })
    const by = await key()
    for (const [asked, forwarded] of [
      [50, 50],
      [8_192, 8_192],
      [100_000, 8_192],
    ]) {
      expect((await call(by, model, { max_tokens: asked })).status).toBe(200)
      expect(lastBody()["max_tokens"]).toBe(forwarded)
    }
  })
  test("the estimated input and a minimal answer are what 402 is about, and it costs nothing", async () => {
    // Sixteen tokens cost Rp 16,000.
    const model = await gateway.model({ format: "messages", output_micro: 1_000_000_000, script: "input=1&output=2" })
    const owner = await gateway.person(10_000)
    const by = await key({}, owner)
    await expectFailure(await call(by, model, { max_tokens: 16 }), 402, "billing.insufficient_balance")
    expect(await gateway.balance(owner)).toMatchObject({ balance_micro: RP_10_000, held_micro: 0 })
    expect((await call(by, model, { max_tokens: 9 })).status).toBe(200)
    expect(await gateway.balance(owner)).toMatchObject({ balance_micro: RP_10_000 - 2_000_001_000, held_micro: 0 })
  })
  test("n answers are paid for, each with the lowered limit", async () => {
    const model = await gateway.model({ format: "chat", output_micro: 100_000_000, script: "input=10&output=5" })
    const owner = await gateway.person(10_000)
    const by = await key({}, owner)
    expect((await chat(by, model, { n: 1 })).status).toBe(200)
    const one = Number(lastBody()["max_tokens"])
    await gateway.topUp(owner, 10_000)
    await expectFailure(await chat(by, model, { n: 128 }), 402, "billing.insufficient_balance")
    const other = await gateway.person(10_000)
    expect((await chat(await key({}, other), model, { n: 2 })).status).toBe(200)
    expect(lastBody()["n"]).toBe(2)
    expect(Number(lastBody()["max_tokens"])).toBe(Math.floor(one / 2))
  })
})

test("none of this was a bug", () => {
  expect(bugs(gateway)).toEqual([])
})
