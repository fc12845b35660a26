/** The rows of the error catalogue that take a broken gateway: a database that is away, and bugs. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { createApiKey } from "../../src/accounts/bearer-tokens.ts"
import { hasOwnDatabase } from "../gateway/binary.ts"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { type FaultProxy, openFaultProxy } from "../store/fault-proxy.ts"
import { eventually } from "./calling.ts"
import { expectFailure } from "./expect-failure.ts"
import { covers } from "./rows.ts"

const hello = [{ role: "user", content: "Hello" }]

/** A gateway whose database can go away. */
async function house() {
  let opened: FaultProxy | undefined
  const gateway = await startTestGateway({
    env: { SETTLE_DEADLINE_MS: "700" },
    databaseUrl: async (url) => (opened = await openFaultProxy(url)).url,
  })
  if (opened === undefined) throw new Error("the gateway has asked for no database")
  const proxy = opened
  return {
    gateway,
    proxy,
    comeBack: () => {
      proxy.thaw()
      proxy.accept()
      proxy.cut()
    },
    [Symbol.asyncDispose]: async () => {
      await gateway[Symbol.asyncDispose]()
      await proxy.close()
    },
  }
}

/** Each has a gateway of its own: a statement's whole deadline is waited for, in both at once. */
describe.skipIf(hasOwnDatabase)("with a database that is away", () => {
  test.concurrent.each(["silent", "refusing"] as const)(
    `${covers("error.dependency.database_unavailable")} a %s database is told on every endpoint that asks it`,
    async (how) => {
      await using own = await house()
      const { gateway, proxy, comeBack } = own
      const person = await gateway.person(10_000)
      const keys = await Promise.all([1, 2].map(() => gateway.key(person)))
      if (how === "silent") proxy.freeze()
      else proxy.refuse()
      proxy.cut()
      const [fresh, other] = keys
      const responses = await Promise.all([
        gateway.post("/v1/chat/completions", fresh?.key ?? "", { model: "plain", messages: hello }),
        fetch(`${gateway.url}/v1/models`, { headers: { "x-api-key": other?.key ?? "" } }),
        gateway.dashboard(person, "/usage/req_1"),
        gateway.dashboard(person, "/account"),
      ])
      comeBack()
      for (const response of responses) await expectFailure(response, 503, "dependency.database_unavailable")
    },
  )
})

describe.skipIf(hasOwnDatabase)("with a database that goes away", () => {
  let own: Awaited<ReturnType<typeof house>>
  beforeAll(async () => {
    own = await house()
  })
  afterAll(() => own[Symbol.asyncDispose]())

  test(`${covers("auth.checksum", "endpoint.models", "11.health")} what needs no database is answered without it`, async () => {
    const { gateway, proxy, comeBack } = own
    const madeUp = createApiKey()
    const mistyped = madeUp.slice(0, -1) + (madeUp.endsWith("0") ? "1" : "0")
    proxy.refuse()
    proxy.cut()
    const [refused, catalogue, health, ready] = await Promise.all([
      fetch(`${gateway.url}/v1/models`, { headers: { "x-api-key": mistyped } }),
      fetch(`${gateway.url}/models`),
      fetch(`${gateway.url}/healthz`),
      fetch(`${gateway.url}/readyz`),
    ])
    comeBack()
    await expectFailure(refused, 401, "auth.api_key_invalid")
    expect(catalogue.status).toBe(200)
    expect(health.status).toBe(200)
    expect(ready.status).toBe(503)
    expect(await ready.json()).toMatchObject({ status: "not ready", database: false })
  })

  test(`${covers("error.billing.reconcile_failed")} an answer that cannot be booked costs nothing`, async () => {
    const { gateway, proxy, comeBack } = own
    const person = await gateway.person(10_000)
    const { key } = await gateway.key(person)
    const model = await gateway.model({ format: "chat", script: "ttft=800" })
    const call = gateway.post("/v1/chat/completions", key, { model, messages: hello })
    await eventually(
      "not opened",
      () => gateway.sql`select 1 from openings`,
      (rows) => rows.length > 0,
    )
    proxy.freeze()
    proxy.cut()
    const response = await call
    await expectFailure(response.clone(), 503, "billing.reconcile_failed")
    comeBack()
    const record = await gateway.usage(person, response.headers.get("x-request-id") ?? "")
    expect(record).toMatchObject({ status: "billing_error", charge_micro: 0 })
    expect(await gateway.balance(person)).toMatchObject({ balance_micro: 10_000_000_000, held_micro: 0 })
  })
})

describe("with state that should not be", () => {
  let gateway: TestGateway
  beforeAll(async () => {
    gateway = await startTestGateway()
  })
  afterAll(() => gateway[Symbol.asyncDispose]())

  test(`${covers("error.internal.panic")} a bug is recorded, and nothing of it is told`, async () => {
    const person = await gateway.person()
    await gateway.sql`alter table usage rename to mislaid`
    const response = await gateway.dashboard(person, "/usage/req_1")
    await gateway.sql`alter table mislaid rename to usage`
    const { message } = await expectFailure(response.clone(), 500, "internal.panic")
    expect(message).not.toContain("relation")
    const id = response.headers.get("x-request-id") ?? ""
    expect(gateway.complaints.filter((line) => line.includes(id) && line.includes("relation"))).toHaveLength(1)
  })

  test(`${covers("error.internal.error")} an account whose actor cannot start for a bug`, async () => {
    const person = await gateway.person(10_000)
    const { key } = await gateway.key(person)
    await gateway.sql`alter table leases rename to mislaid`
    const response = await gateway.post("/v1/chat/completions", key, { model: "plain", messages: hello })
    await gateway.sql`alter table mislaid rename to leases`
    await expectFailure(response, 500, "internal.error")
  })

  test("a process that another one has closed sends its clients on", async () => {
    const person = await gateway.person(10_000)
    const { key } = await gateway.key(person)
    await gateway.sql`update processes set closed_at = now() where closed_at is null`
    const response = await gateway.post("/v1/chat/completions", key, { model: "plain", messages: hello })
    await gateway.sql`update processes set closed_at = null`
    await expectFailure(response, 503, "dependency.database_unavailable")
  })
})
