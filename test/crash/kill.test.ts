/**
 * SIGKILL in the midst of calls, again and again, and SIGTERM. The seed of the moments is in the test's name;
 * `LOKET_TEST_SEED` repeats one.
 */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { reconcile } from "../money/reconcile.ts"
import { type ChildGateway, type Customer, House, modelSeed } from "./child.ts"

const seed = Number(Bun.env["LOKET_TEST_SEED"] ?? Math.floor(Math.random() * 1e9))
const ROUNDS = 4
const formats = ["chat", "messages", "responses"] as const
type Format = (typeof formats)[number]
const paths = { chat: "/v1/chat/completions", messages: "/v1/messages", responses: "/v1/responses" }
const terminals = { chat: "data: [DONE]", messages: "event: message_stop", responses: "event: response.completed" }
const hello = [{ role: "user", content: "Hello" }]
const bodyOf = (format: Format, stream: boolean) => ({
  model: format,
  stream,
  ...(format === "responses" ? { input: "Hello" } : { messages: hello, max_tokens: 100 }),
})
/** Of every answer: 30 input tokens at 1,000, 20 output tokens at 5,000. */
const CHARGE_MICRO = 130_000

let house: House
let gateway: ChildGateway
beforeEach(async () => {
  house = await House.build([
    ...formats.map((format) => modelSeed(format, format, "input=30&output=20&pace=8&head=5")),
    ...formats.map((format) => modelSeed(`slow-${format}`, format, "input=30&output=20&pace=50")),
    // Its answer limit shows what half of the spendable balance is, in steps of 1,000.
    modelSeed("probe", "chat", "output=1", { input_micro: 0, output_micro: 1_000, max_output_tokens: 2 ** 31 - 1 }),
  ])
  gateway = await house.start()
})
afterEach(async () => {
  await gateway.kill()
  await house[Symbol.asyncDispose]()
})

/** What a client saw of a call. */
interface Seen {
  readonly requestId: string
  readonly format: Format
  ended: boolean
  costRp: string | null
}

/** Calls one after the other until told to stop, or nobody answers. */
async function callOn(customer: Customer, format: Format, stream: boolean, seen: Seen[], over: () => boolean) {
  while (!over()) {
    try {
      const response = await fetch(gateway.url + paths[format], {
        method: "POST",
        headers: { Authorization: `Bearer ${customer.key}` },
        body: JSON.stringify(bodyOf(format, stream)),
      })
      expect(response.status).toBe(200)
      const call = { requestId: response.headers.get("x-request-id") ?? "", format, ended: false, costRp: null } as Seen
      seen.push(call)
      let text = ""
      const decoder = new TextDecoder()
      for await (const bytes of response.body!) {
        text += decoder.decode(bytes, { stream: true })
        if (stream && text.includes(terminals[format])) call.ended = true
      }
      if (!stream) {
        JSON.parse(text)
        call.ended = true
        call.costRp = response.headers.get("x-cost-rp")
      }
    } catch (error) {
      if (error instanceof SyntaxError || !over()) throw error
    }
  }
}

/**
 * Whether the whole balance can be spent, told by how far a call's answer limit is lowered. The lock of a process that
 * died is free only when the server has noticed, and somebody looks every five seconds.
 */
async function allIsSpendable(customer: Customer): Promise<boolean> {
  for (let n = 0; n < 150; n++) {
    const balance = await gateway.balanceMicro(customer)
    house.simulator.reset()
    const response = await fetch(gateway.url + paths.chat, {
      method: "POST",
      headers: { Authorization: `Bearer ${customer.key}` },
      body: JSON.stringify({ model: "probe", messages: hello }),
    })
    await response.text()
    // Half of what is available is held, at 1,000 micro for a token.
    if (house.simulator.calls[0]?.body?.["max_tokens"] === Math.floor(balance / 2_000)) return true
    await Bun.sleep(100)
  }
  return false
}

test(`what clients saw before a SIGKILL is what the books say after it (seed ${seed})`, async () => {
  let state = seed
  // A linear congruential generator: the moments need to differ, not to be unforeseeable.
  const random = () => (state = (state * 1_103_515_245 + 12_345) % 2 ** 31) / 2 ** 31
  const customer = await gateway.customer(1_000_000)
  const all: Seen[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const seen: Seen[] = []
    let over = false
    const load = Promise.all(
      Array.from({ length: 12 }, (_, n) => callOn(customer, formats[n % 3]!, n % 2 === 0, seen, () => over)),
    )
    await Bun.sleep(100 + random() * 900)
    over = true
    await gateway.kill()
    await load
    expect(seen.length).toBeGreaterThan(0)
    all.push(...seen)

    gateway = await house.start()
    expect(await allIsSpendable(customer)).toBeTrue()
    for (const call of all) {
      const response = await gateway.get(`/usage/${call.requestId}`, customer)
      const record = (await response.json()) as { status: string; charge_micro: number }
      expect([call.requestId, response.status]).toEqual([call.requestId, 200])
      if (call.ended) expect(record).toMatchObject({ status: "ok", charge_micro: CHARGE_MICRO })
      else expect(record.charge_micro).toBe(record.status === "ok" ? CHARGE_MICRO : 0)
      if (call.costRp !== null) expect(call.costRp).toBe("0.13")
    }
  }
  expect(all.some((call) => call.ended)).toBeTrue()
  expect(all.some((call) => !call.ended)).toBeTrue()

  gateway.terminate()
  expect(await gateway.exited).toBe(0)
  await house.books(async (sql) => {
    await reconcile(sql)
    const records = await sql<{ request_id: string }[]>`select request_id from usage where part = 0`
    const recorded = new Set(records.map((record) => record.request_id))
    expect(all.filter((call) => !recorded.has(call.requestId))).toEqual([])
    expect(await sql`select from leases where closed_at is null`).toHaveLength(0)
  })
}, 120_000)

test("SIGTERM lets streams end, takes no new calls, gives the leases back and ends with 0", async () => {
  const customer = await gateway.customer(10_000)
  const streams = await Promise.all(
    formats.map(async (format) => {
      const response = await fetch(gateway.url + paths[format], {
        method: "POST",
        headers: { Authorization: `Bearer ${customer.key}` },
        body: JSON.stringify({ ...bodyOf(format, true), model: `slow-${format}` }),
      })
      expect(response.status).toBe(200)
      return { format, response }
    }),
  )
  gateway.terminate()
  let draining: Response
  do draining = await gateway.get("/readyz")
  while (draining.status === 200)
  expect(draining.status).toBe(503)
  expect(await draining.json()).toMatchObject({ draining: true, database: true })
  const refused = await fetch(gateway.url + paths.chat, {
    method: "POST",
    headers: { Authorization: `Bearer ${customer.key}` },
    body: JSON.stringify(bodyOf("chat", false)),
  })
  expect([refused.status, refused.headers.get("x-error-code")]).toEqual([429, "gateway.capacity"])
  const requestIds = await Promise.all(
    streams.map(async ({ format, response }) => {
      expect(await response.text()).toInclude(terminals[format])
      return response.headers.get("x-request-id") ?? ""
    }),
  )
  expect(await gateway.exited).toBe(0)
  await house.books(async (sql) => {
    await reconcile(sql)
    const records = await sql<{ request_id: string; status: string; charge_micro: bigint }[]>`
      select request_id, status, charge_micro from usage`
    expect(records).toHaveLength(3)
    for (const record of records) expect(record).toMatchObject({ status: "ok", charge_micro: BigInt(CHARGE_MICRO) })
    expect(records.map((record) => record.request_id).sort()).toEqual(requestIds.sort())
    expect(await sql`select from leases where closed_at is null`).toHaveLength(0)
    const [balance] = await sql`select leased_micro, posted_micro from balances`
    expect(balance).toEqual({ leased_micro: 0n, posted_micro: 10_000_000_000n - 3n * BigInt(CHARGE_MICRO) })
  })
}, 60_000)
