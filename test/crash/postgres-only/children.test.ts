/**
 * The budget of a key holds for its children too, across processes on one database, and what a process that is killed had of it is
 * there for the others.
 */
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
let token: string
beforeEach(async () => {
  house = await House.build([
    ...formats.map((format) => modelSeed(`quick-${format}`, format, "input=30&output=20&pace=1")),
    modelSeed("slow", "chat", "input=30&output=20&ttft=20000"),
  ])
  gateways = [await house.start(), await house.start()]
  customer = await gateways[0].customer(1_000_000)
  const owner = { Authorization: `Bearer ${customer.token}` }
  const limits = { spending_limit_micro: BUDGET, spending_period: "monthly" }
  await sent(gateways[0], `/keys/${customer.keyId}`, owner, "PATCH", limits)
  token = (await sent(gateways[0], `/keys/${customer.keyId}/tokens`, owner, "POST", { name: "class" }))["token"] ?? ""
})
afterEach(async () => {
  await Promise.all(gateways.map((gateway) => gateway.kill()))
  await house[Symbol.asyncDispose]()
})

async function sent(
  { url }: ChildGateway,
  path: string,
  headers: Readonly<Record<string, string>>,
  method: string,
  body: object,
): Promise<Readonly<Record<string, string>>> {
  const response = await fetch(url + path, { method, headers, body: JSON.stringify(body) })
  const answer = (await response.json()) as Readonly<Record<string, string>>
  if (!response.ok) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`)
  return answer
}

const child = async (name: string, limits: object = {}) =>
  (await sent(gateways[1], "/v1/keys", { Authorization: `Bearer ${token}` }, "POST", { name, ...limits }))["key"] ?? ""

async function call({ url }: ChildGateway, key: string, format: Format, model: string, stream: boolean) {
  const response = await fetch(url + paths[format], {
    method: "POST",
    headers: { Authorization: `Bearer ${key}` },
    body: JSON.stringify(bodyOf(format, model, stream)),
  })
  await response.text()
  return response.headers.get("x-error-code") ?? "ok"
}

/** Of each key, the parent first. */
const spent = async () =>
  await house.books(async (sql) => {
    const rows = await sql<{ spent: bigint; charged: bigint; limit: bigint | null }[]>`
      select s.spent_micro as spent, k.spending_limit_micro as limit, (select coalesce(sum(charge_micro), 0)::bigint from usage u
        join api_keys c on c.id = u.key_id where k.id in (c.id, c.parent_id)) as charged
      from api_keys k join key_spend s on s.key_id = k.id and s.period = 'monthly'
      order by k.parent_id is not null, k.name`
    return rows.map((row) => ({
      spent: Number(row.spent),
      charged: Number(row.charged),
      limit: row.limit === null ? Infinity : Number(row.limit),
    }))
  })

async function expectWithin() {
  const rows = await spent()
  expect(rows.filter((row) => row.spent !== row.charged || row.spent > row.limit)).toEqual([])
  await house.books((sql) => reconcile(sql))
  return rows
}

test("sixty calls at once of a key and its children, on two processes, in all formats, spend no more than its budget", async () => {
  const bounded = await child("bounded", { spending_limit_micro: 400_000, spending_period: "monthly" })
  const keys = [customer.key, bounded, await child("b"), await child("c")]
  const asked = Array.from({ length: 60 }, (_, n) => {
    const format = formats[n % 3] ?? "chat"
    return call(gateways[n % 2 === 0 ? 0 : 1], keys[(n >> 1) % 4] ?? "", format, `quick-${format}`, n % 4 < 2)
  })
  const codes = await Promise.all(asked)
  expect(new Set(codes)).toEqual(new Set(["ok", "quota.key_limit_exceeded"]))
  let ok = codes.filter((code) => code === "ok").length
  // What they held at once is free again, and is spent from either side.
  for (const gateway of gateways) while ((await call(gateway, customer.key, "chat", "quick-chat", false)) === "ok") ok++
  const [parent] = await expectWithin()
  // Towards the end answers are shorter, for what is left pays for less.
  expect(parent?.spent).toBeGreaterThan(BUDGET / 2)
  expect(parent?.spent).toBeLessThanOrEqual(ok * COST)
  expect(ok).toBeGreaterThan(5)
})

test("what a killed process held of a key for its children comes back, and no more", async () => {
  const [living, killed] = gateways
  const keys = [await child("a"), await child("b"), customer.key]
  const held = Array.from({ length: 6 }, (_, n) =>
    call(killed, keys[n % 3] ?? "", "chat", "slow", n % 2 === 0).catch(() => "cut"),
  )
  while (house.simulator.calls.filter(({ model }) => model.startsWith("slow")).length < held.length) await Bun.sleep(5)
  // They hold what there is, so that the other process has too little.
  const one = keys[0] ?? ""
  while ((await call(living, one, "chat", "quick-chat", false)) === "ok") await Bun.sleep(20)
  await killed.kill()
  expect(new Set(await Promise.all(held))).toEqual(new Set(["cut"]))
  let [parent] = await spent()
  for (let n = 0; parent === undefined || parent.spent < BUDGET - 2 * COST; n++) {
    await call(living, keys[n % 3] ?? "", "chat", "quick-chat", n % 2 === 0)
    ;[parent] = await spent()
  }
  while ((await call(living, one, "chat", "quick-chat", false)) === "ok");
  await expectWithin()
})

test("a key that is revoked, paused or has expired stops its children in every process, and one that is given less stops them there", async () => {
  const one = await child("one")
  const owner = { Authorization: `Bearer ${customer.token}` }
  const ask = (gateway: ChildGateway) => call(gateway, one, "chat", "quick-chat", false)
  const until = async (code: string) => {
    // Told by the process that was asked at once; by the other once it has heard.
    expect(await ask(gateways[0])).toBe(code)
    while ((await ask(gateways[1])) !== code) await Bun.sleep(20)
  }
  await until("ok")
  const change = (body: object) => sent(gateways[0], `/keys/${customer.keyId}`, owner, "PATCH", body)
  await change({ expires_at: "2026-01-01T00:00:00Z" })
  await until("auth.api_key_expired")
  await change({ expires_at: null, models: ["slow"] })
  await until("auth.key_not_allowed")
  await change({ models: null, spending_limit_micro: 1, spending_period: "monthly" })
  await until("quota.key_limit_exceeded")
  await change({ spending_limit_micro: BUDGET, spending_period: "monthly" })
  await until("ok")
  await sent(gateways[0], `/keys/${customer.keyId}/revoke`, owner, "POST", {})
  await until("auth.api_key_revoked")
  await house.books((sql) => reconcile(sql))
})
