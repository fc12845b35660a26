/**
 * What a client was told stays true when the process that told it dies before its database is back: the charge whose
 * commit was answered to nobody, and the call of which the database knows nothing at all.
 */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { existsSync, readdirSync } from "node:fs"
import { reconcile } from "../../money/reconcile.ts"
import { type FaultProxy, openFaultProxy } from "../../store/fault-proxy.ts"
import { openEmptyDatabase, type Place } from "../../store/harness.ts"
import { freePort } from "../../free-port.ts"
import { bodyOf, COUNTS, type Format, formats, paths } from "../asking.ts"
import { type ChildGateway, type Customer, House, modelSeed } from "../child.ts"

const SETTLING = ",ok,"

const metricsPort = freePort()

let database: Place & AsyncDisposable
let proxy: FaultProxy
let house: House
let gateway: ChildGateway
let customer: Customer
beforeEach(async () => {
  database = await openEmptyDatabase()
  proxy = await openFaultProxy(database.url)
  house = await House.build(
    formats.flatMap((format) => [
      modelSeed(format, format, COUNTS),
      modelSeed(`late-${format}`, format, `${COUNTS}&ttft=5000`),
    ]),
    { place: { DATABASE_URL: proxy.url }, env: { SETTLE_DEADLINE_MS: "500", METRICS_PORT: String(metricsPort) } },
  )
  gateway = await house.start()
  customer = await gateway.customer(10_000)
})
afterEach(async () => {
  await gateway.kill()
  await house[Symbol.asyncDispose]()
  await proxy.close()
  await database.remove()
})

async function ask(format: Format, model: string, stream: boolean) {
  const response = await fetch(gateway.url + paths[format], {
    method: "POST",
    headers: { Authorization: `Bearer ${customer.key}` },
    body: JSON.stringify(bodyOf(format, model, stream)),
  })
  await response.text()
  return { requestId: response.headers.get("x-request-id") ?? "", code: response.headers.get("x-error-code") }
}

const keptFiles = () => (existsSync(house.withdrawals) ? readdirSync(house.withdrawals) : [])

/** What Prometheus is told of them. */
async function keptCalls(): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()
  return Number(/^loket_withdrawals_kept (\d+)$/m.exec(text)?.[1])
}

/** Dies with the database away, and starts anew when it is back. */
async function dieAndRestart(): Promise<void> {
  await gateway.kill()
  proxy.accept()
  gateway = await house.start()
}

async function record(requestId: string) {
  const response = await gateway.get(`/usage/${requestId}`, customer)
  return { found: response.status, ...((await response.json()) as { status?: string; charge_micro?: number }) }
}

test("a charge that was booked, whose commit nobody heard of, is taken back by the next process", async () => {
  const lost = proxy.dropReplyTo(SETTLING)
  const asked = ask("chat", "chat", false)
  await lost
  proxy.refuse()
  proxy.cut()
  const told = await asked
  expect(told.code).toBe("billing.reconcile_failed")
  await gateway.kill()
  const booked = await house.books((sql) => sql`select request_id from usage where charge_micro > 0`, database.url)
  expect(booked.map((row) => row["request_id"])).toEqual([told.requestId])

  await dieAndRestart()
  expect(await record(told.requestId)).toMatchObject({ found: 200, status: "billing_error", charge_micro: 0 })
  expect(await gateway.balanceMicro(customer)).toBe(10_000_000_000)
  while (keptFiles().length > 0) await Bun.sleep(10)
  expect(await gateway.stop()).toBe(0)
  await house.books((sql) => reconcile(sql))
})

test("a call that the database never heard of has its record after the process has died", async () => {
  await ask("chat", "chat", false)
  const calls = formats.flatMap((format) => [true, false].map((stream) => ask(format, `late-${format}`, stream)))
  // None has ended, and the database has heard of all of them that they began.
  while (house.simulator.calls.filter(({ model }) => model.startsWith("late-")).length < calls.length)
    await Bun.sleep(5)
  proxy.refuse()
  proxy.cut()
  const told = await Promise.all(calls)
  for (const { code } of told) {
    expect(code).toBeOneOf(["billing.reconcile_failed", "dependency.database_unavailable", null])
  }
  expect(keptFiles().length).toBeGreaterThan(0)
  expect(await keptCalls()).toBeGreaterThan(0)

  await dieAndRestart()
  for (const { requestId } of told) {
    expect(await record(requestId)).toMatchObject({ found: 200, status: "billing_error", charge_micro: 0 })
  }
  while (keptFiles().length > 0) await Bun.sleep(10)
  expect(await keptCalls()).toBe(0)
  expect(await gateway.stop()).toBe(0)
  await house.books((sql) => reconcile(sql))
})
