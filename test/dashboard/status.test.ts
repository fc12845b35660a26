/** The page at `/status`: what is served now in plain words, of what the gateway knows, and nothing of who is behind a model. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { Circuit } from "../../actors/backend.ts"
import { type Health, healthOf } from "../../src/dashboard/serve/status.ts"
import { BackendHealth, type FailureClass } from "../../src/gateway/backend-health.ts"
import type { PoolMember } from "../../src/gateway/pools.ts"
import { Failure } from "../../src/failure/failure.ts"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"

const shut = () => {
  const circuit = new Circuit()
  for (let n = 0; n < 3; n++) circuit.onFailure(0, false)
  return circuit
}
const member = (own: Circuit, credential = new Circuit()) =>
  ({ own: { circuit: own }, credential: { circuit: credential } }) as unknown as PoolMember

const stateOf = (html: string, model: string) =>
  new RegExp(`<code>${model}</code></th><td><span class="health health-\\w+">([^<]+)`).exec(html)?.[1]

describe("a model's health", () => {
  const views = (answered: number, faults: number, found: FailureClass = "server_error") => [
    { answered, failures: { ...none, [found]: faults } } as never,
  ]
  const none = {
    rate_limited: 0,
    refused_request: 0,
    needs_attention: 0,
    timeout: 0,
    unreachable: 0,
    server_error: 0,
    broken_answer: 0,
  }

  test.each([
    ["without calls", [member(new Circuit())], [], "well"],
    ["without anybody to ask", [], views(100, 0), "away"],
    ["when two calls failed and none was answered", [member(new Circuit())], views(0, 2), "well"],
    ["when three failed and none was answered", [member(new Circuit())], views(0, 3), "away"],
    ["when three of sixteen failed", [member(new Circuit())], views(13, 3), "well"],
    ["when three of fifteen failed", [member(new Circuit())], views(12, 3), "troubled"],
    ["when requests were not taken", [member(new Circuit())], views(0, 50, "refused_request"), "well"],
    ["when calls are throttled", [member(new Circuit())], views(50, 50, "rate_limited"), "troubled"],
    ["with one of two shut", [member(shut()), member(new Circuit())], views(50, 3), "well"],
    ["with both shut", [member(shut()), member(new Circuit(), shut())], views(50, 3), "troubled"],
  ] satisfies [string, PoolMember[], never[], Health][])("%s", (_, members, seen, health) => {
    expect(healthOf(members, seen, 1)).toBe(health)
  })

  test("is of the last minutes alone", () => {
    let now = 0
    const health = new BackendHealth({ now: () => now, monotonic: () => now } as never)
    const fault = { failure: new Failure("internal.panic"), alert: false, opened: false, status: 500 } as never
    for (let n = 0; n < 3; n++) health.ended("a", "m", { kind: "failed", fault }, undefined)
    const seen = () => healthOf([member(new Circuit())], health.views(), now)
    expect(seen()).toBe("away")
    now = 10 * 60_000
    expect(seen()).toBe("well")
  })
})

describe("the page", () => {
  let gateway: TestGateway
  beforeAll(async () => {
    gateway = await startTestGateway({ env: { SUPPORT_CONTACT: "help@loket.example" } })
  })
  afterAll(() => gateway[Symbol.asyncDispose]())

  const page = async (language = "en") => {
    // What it shows is looked at once a second.
    await Bun.sleep(1_050)
    const response = await fetch(`${gateway.url}/status?lang=${language}`)
    expect(response.status).toBe(200)
    return await response.text()
  }
  test("names a model that does not answer, and says nothing of who is behind it", async () => {
    const person = await gateway.person(100_000)
    const { key } = await gateway.key(person)
    const model = await gateway.model({ format: "chat", script: "fault=status&status=503" })
    expect(stateOf(await page(), model)).toBe("Answers")
    for (let n = 0; n < 3; n++)
      await gateway.post("/v1/chat/completions", key, {
        model,
        max_tokens: 10,
        messages: [{ role: "user", content: "hi" }],
      })
    const html = await page()
    expect(stateOf(html, model)).toBe("Does not answer")
    expect(stateOf(html, "plain")).toBe("Answers")
    expect(html).toContain("1 of 2 models are in trouble")
    expect(stateOf(await page("id"), model)).toBe("Tidak menjawab")
    expect(html.toLowerCase()).not.toMatch(/simulated|default|503|status=|fault|server_error/)
    expect(html).toContain("mailto:help@loket.example")
  })

  test("does not say that others answer where none does", async () => {
    await using other = await startTestGateway()
    await other.sql`update models set upstream_provider = 'nobody', upstreams = null`
    await other.refreshCatalogue()
    for (const [language, told] of [
      ["en", "All models are in trouble."],
      ["id", "Semua model sedang terganggu."],
    ] as const) {
      const html = await (await fetch(`${other.url}/status?lang=${language}`)).text()
      expect(/<p class="verdict[^>]*>([^<]*)/.exec(html)?.[1]).toBe(told)
    }
  })

  test("says which model nobody can be asked for", async () => {
    const model = await gateway.model({ format: "chat", provider: "nobody" })
    expect(stateOf(await page(), model)).toBe("Does not answer")
  })

  test("tells prices to come and names that end", async () => {
    const model = await gateway.model({ format: "chat", display_name: "<i>Dearer" })
    await gateway.sql`
      insert into prices (model, input_micro, output_micro, cache_read_micro, cache_write_micro, effective_at)
      values (${model}, 2000, 6000, 1, 1, '2099-01-02T03:04:00Z')`
    await gateway.sql`
      insert into model_aliases (alias, target, until) values ('old-name', ${model}, '2099-02-03T00:00:00Z')`
    await gateway.refreshCatalogue()
    const html = await page("id")
    expect(html).toContain("<strong>&lt;i&gt;Dearer</strong>: harga baru mulai")
    expect(html).toContain("2 Januari 2099")
    expect(html).toContain("Rp\u00A01.000 → Rp\u00A02.000")
    expect(html).toContain("<code>old-name</code> sudah digantikan")
  })

  test("who asks again and again is told that it is the same", async () => {
    const first = await fetch(`${gateway.url}/status?lang=id`)
    const again = await fetch(`${gateway.url}/status?lang=id`, {
      headers: { "If-None-Match": first.headers.get("etag") ?? "" },
    })
    expect([first.status, again.status]).toEqual([200, 304])
    await first.body?.cancel()
  })
})
