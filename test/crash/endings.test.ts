/** What becomes of a call whose process is killed, wherever it is (test/contract/endings.ts, "crash"). */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { endings, type State } from "../contract/endings.ts"
import { RawClient } from "../contract/raw-client.ts"
import { type FaultProxy, openFaultProxy } from "../store/fault-proxy.ts"
import { type ChildGateway, House, modelSeed } from "./child.ts"
import { onPostgres, openEmptyDatabase } from "../store/harness.ts"

/** What a batch that charges carries in its bytes, and nothing else does. */
const SETTLING = ",true,ok,"
const calls = {
  waiting: "ttft=60000",
  trying: "ttft=60000",
  relaying: "output=4000&pace=50",
  draining: "output=4000&pace=50",
  settling: "output=3&pace=30",
} as const satisfies Record<State, string>
const names = Object.keys(calls) as State[]

let house: House
let gateway: ChildGateway
let proxy: FaultProxy | undefined
let close: (() => PromiseLike<void>) | undefined

beforeAll(async () => {
  const models = names.map((name) => ({
    ...modelSeed(name, "chat", `input=10&${calls[name]}`),
    ...(name === "waiting" && { max_concurrency: 1 }),
  }))
  // The embedded database is reached by no network, so that nothing can be held on its way: there the ledger is quick.
  if (onPostgres) {
    const database = await openEmptyDatabase()
    proxy = await openFaultProxy(database.url)
    close = () => database[Symbol.asyncDispose]()
  }
  const place = proxy === undefined ? {} : { place: { DATABASE_URL: proxy.url } }
  house = await House.build(models, { ...place, env: { HEARTBEAT_MS: "200", CAPACITY_WAIT_MS: "60000" } })
  gateway = await house.start()
})
afterAll(async () => {
  await gateway.kill()
  await house[Symbol.asyncDispose]()
  await proxy?.close()
  await close?.()
})

test("calls of a process that is killed end as the table says, wherever they are", async () => {
  const customer = await gateway.customer(10_000)
  const ask = (model: string) => new RawClient(gateway.url, customer.key, { model, stream: true })
  const others = ask("waiting")
  const said = /"content":"[^"]/
  const clients = new Map<State, RawClient>()
  for (const state of ["trying", "relaying", "draining"] as const) clients.set(state, ask(state))
  await Promise.all([clients.get("relaying")?.until(said), clients.get("draining")?.until(said)])
  clients.get("draining")?.leave()
  // The opening is durable when the head has come.
  await Promise.all([others.until(/heartbeat/), clients.get("trying")?.until(/heartbeat/)])
  clients.set("waiting", ask("waiting"))
  if (proxy !== undefined) {
    proxy.hold(SETTLING)
    const settling = ask("settling")
    clients.set("settling", settling)
    await settling.until(said)
    while (proxy.held === 0) await Bun.sleep(5)
  }
  // For the one who waits to arrive, and the one who left to be missed: nothing shows that outside of the process.
  await Bun.sleep(500)
  await gateway.kill()
  for (const client of [others, ...clients.values()]) await client.over
  proxy?.cut()
  proxy?.deliver()
  gateway = await house.start()
  await gateway.stop()
  const rows = await house.books(
    (sql) => sql<{ model: State; status: string; charge: bigint }[]>`
      select model, status, charge_micro as charge from usage where part = 0 and account_id = ${customer.accountId}`,
  )
  const found = Object.fromEntries(
    [...clients.keys()].map((state) => {
      const own = rows.filter(({ model }) => model === state)
      // Whoever had the only slot has a record; the call that waited behind it has none.
      const record = state === "waiting" ? own.slice(1) : own
      return [state, record.map(({ status, charge }) => ({ status, charge }))]
    }),
  )
  const expected = Object.fromEntries(
    [...clients.keys()].map((state) => {
      const ending = endings.crash[state]
      if (typeof ending === "string") throw new Error(ending)
      return [state, ending.record === "none" ? [] : [{ status: ending.record, charge: 0n }]]
    }),
  )
  expect(found).toEqual(expected)
  for (const { text } of clients.values()) expect(text).not.toContain("[DONE]")
})
