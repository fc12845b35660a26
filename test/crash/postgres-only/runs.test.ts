/** A run's budget holds across processes on one database, and what a process that is killed had of it is there for the others. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { reconcile } from "../../money/reconcile.ts"
import { bodyOf, type Format, formats, paths } from "../asking.ts"
import { type ChildGateway, type Customer, House, modelSeed } from "../child.ts"

/** 30 tokens in, 20 out: 130,000 micro-rupiah. */
const COST = 30 * 1_000 + 20 * 5_000
const BUDGET = 3_000_000

let house: House
let gateways: readonly [ChildGateway, ChildGateway]
let customer: Customer
beforeEach(async () => {
  house = await House.build([
    ...formats.map((format) => modelSeed(`quick-${format}`, format, "input=30&output=20&pace=1")),
    modelSeed("slow", "chat", "input=30&output=20&ttft=20000"),
  ])
  gateways = [await house.start(), await house.start()]
  customer = await gateways[0].customer(1_000_000)
})
afterEach(async () => {
  await Promise.all(gateways.map((gateway) => gateway.kill()))
  await house[Symbol.asyncDispose]()
})

async function call({ url }: ChildGateway, run: string, format: Format, model: string, stream: boolean) {
  const response = await fetch(url + paths[format], {
    method: "POST",
    headers: {
      Authorization: `Bearer ${customer.key}`,
      "X-Run-Id": run,
      "X-Run-Budget-Rp": String(BUDGET / 1_000_000),
    },
    body: JSON.stringify(bodyOf(format, model, stream)),
  })
  await response.text()
  return response.headers.get("x-error-code") ?? "ok"
}

const spent = async () =>
  await house.books(async (sql) => {
    const rows = await sql<{ name: string; spent: bigint; charged: bigint }[]>`
      select r.name, s.spent_micro as spent, (select sum(charge_micro)::bigint from usage u where u.run_id = r.id) as charged
      from runs r join key_spend s on s.key_id = r.id order by r.name`
    return rows.map((row) => ({ ...row, spent: Number(row.spent), charged: Number(row.charged) }))
  })

test("fifty calls at once, on two processes, streamed and not, in all formats, spend no more than the budget", async () => {
  const asked = Array.from({ length: 50 }, (_, n) => {
    const format = formats[n % 3] ?? "chat"
    return call(gateways[n % 2 === 0 ? 0 : 1], "many", format, `quick-${format}`, n % 4 < 2)
  })
  const codes = await Promise.all(asked)
  expect(new Set(codes)).toEqual(new Set(["ok", "quota.run_limit_exceeded"]))
  let ok = codes.filter((code) => code === "ok").length
  // What they held at once is free again, and is spent from either side.
  for (const gateway of gateways) while ((await call(gateway, "many", "chat", "quick-chat", false)) === "ok") ok++
  const [row] = await spent()
  expect(row?.charged).toBe(row?.spent ?? -1)
  expect(row?.spent).toBeLessThanOrEqual(BUDGET)
  // Towards the end answers are shorter, for what is left pays for less.
  expect(row?.spent).toBeGreaterThan(BUDGET / 2)
  expect(row?.spent).toBeLessThanOrEqual(ok * COST)
  expect(ok).toBeGreaterThan(5)
  await house.books((sql) => reconcile(sql))
})

test("what a killed process held of a run comes back to it, and no more", async () => {
  const [living, killed] = gateways
  const held = Array.from({ length: 6 }, (_, n) =>
    call(killed, "killed", "chat", "slow", n % 2 === 0).catch(() => "cut"),
  )
  while (house.simulator.calls.filter(({ model }) => model.startsWith("slow")).length < held.length) await Bun.sleep(5)
  // They hold what there is, so that the other process has too little.
  while ((await call(living, "killed", "chat", "quick-chat", false)) === "ok") await Bun.sleep(20)
  await killed.kill()
  expect(new Set(await Promise.all(held))).toEqual(new Set(["cut"]))
  let [row] = await spent()
  for (let n = 0; row === undefined || row.spent < BUDGET - 2 * COST; n++) {
    await call(living, "killed", "chat", "quick-chat", n % 2 === 0)
    ;[row] = await spent()
  }
  while ((await call(living, "killed", "chat", "quick-chat", false)) === "ok");
  const [last] = await spent()
  expect(last?.spent).toBeLessThanOrEqual(BUDGET)
  expect(last?.charged).toBe(last?.spent ?? -1)
  await house.books((sql) => reconcile(sql))
})

test("a run that is ended at one process is ended at the other, which knew it", async () => {
  const [here, there] = gateways
  expect(await call(there, "short", "chat", "quick-chat", false)).toBe("ok")
  const ended = await fetch(`${here.url}/v1/runs/short/end`, {
    method: "POST",
    headers: { Authorization: `Bearer ${customer.key}` },
  })
  expect([ended.status, await ended.json()]).toMatchObject([200, { status: "ended", calls: 1 }])
  expect(await call(here, "short", "chat", "quick-chat", false)).toBe("quota.run_limit_exceeded")
  // A notice is on its way for a moment.
  while ((await call(there, "short", "chat", "quick-chat", false)) !== "quota.run_limit_exceeded") await Bun.sleep(20)
})
