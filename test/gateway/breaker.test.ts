/** A ceiling that stops: a leaked key is played against it, to the micro-rupiah. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { type Person, startTestGateway, type TestGateway } from "./harness.ts"

let gateway: TestGateway
let model: string
beforeAll(async () => {
  gateway = await startTestGateway()
  // Each answer is 16 tokens of Rp 50, which is the least that is held.
  model = await gateway.model({
    format: "chat",
    script: "input=1&output=20",
    input_micro: 0,
    cache_read_micro: 0,
    cache_write_micro: 0,
    output_micro: 50_000_000,
  })
})
afterAll(() => gateway[Symbol.asyncDispose]())

const RP = 1_000_000
const CALL = 800 * RP

interface Leaked {
  readonly person: Person
  readonly id: string
  readonly key: string
}

async function leaked(breaker: object, ofAccount = false): Promise<Leaked> {
  const person = await gateway.person(1_000_000)
  const { id, key } = await gateway.key(person)
  const path = ofAccount ? "/account/breaker" : `/keys/${id}/breaker`
  const body = JSON.stringify({ action: "stop", ...breaker, ...(ofAccount && { factor: null }) })
  expect((await gateway.dashboard(person, path, { method: "PUT", body })).status).toBe(200)
  return { person, id, key }
}

async function ask({ key }: Pick<Leaked, "key">): Promise<number | string> {
  const response = await gateway.post("/v1/chat/completions", key, {
    model,
    max_tokens: 16,
    messages: [{ role: "user", content: "Hello" }],
  })
  await response.text()
  return response.status === 200 ? 200 : (response.headers.get("x-error-code") ?? "")
}

/** Fifty at once, each again and again until it is told not to. Returns all that they were told. */
async function burn(by: Pick<Leaked, "key">): Promise<ReadonlySet<number | string>> {
  const told = new Set<number | string>()
  const one = async () => {
    for (let n = 0; n < 200; n++) {
      const outcome = await ask(by)
      told.add(outcome)
      if (outcome === "quota.key_paused") return
      if (outcome !== 200) await Bun.sleep(50)
    }
    told.add("never stopped")
  }
  await Promise.all(Array.from({ length: 50 }, one))
  return told
}

const charged = async ({ person }: Leaked): Promise<number> => {
  const [row] = await gateway.sql<{ sum: bigint }[]>`
    select coalesce(sum(charge_micro), 0)::bigint as sum from usage where account_id = ${person.accountId}`
  return Number(row?.sum)
}
const minutesPass = async ({ person }: Leaked, minutes: number) => {
  const by = `${minutes} minutes`
  await gateway.sql`
    update spending_minutes set minute = minute - ${by}::interval where purse like ${`brk\\_${person.accountId}%`}`
  await gateway.sql`
    update api_keys set paused_at = paused_at - ${by}::interval, paused_until = paused_until - ${by}::interval
    where account_id = ${person.accountId}`
  await gateway.sql`
    update accounts set paused_at = paused_at - ${by}::interval, paused_until = paused_until - ${by}::interval
    where id = ${person.accountId}`
  // Beside the gateway: a change through it makes the embedded database's process look.
  for (const { id } of await gateway.sql<
    { id: string }[]
  >`select id from api_keys where account_id = ${person.accountId}`) {
    await gateway.dashboard(person, `/keys/${id}`, { method: "PATCH", body: JSON.stringify({ name: "again" }) })
  }
  // For so long a purse believes that there is no more.
  await Bun.sleep(300)
}
const resume = async ({ person, id }: Leaked) =>
  (await gateway.dashboard(person, `/keys/${id}/resume`, { method: "POST" })).status
const keyOf = async ({ person }: Leaked) =>
  ((await (await gateway.dashboard(person, "/keys")).json()) as { data: { paused: object | null }[] }).data[0]

test("what was spent while the database's clock was ahead counts for some minutes more, and pauses nobody", async () => {
  const by = await leaked({ ceiling_micro: 3 * CALL })
  await gateway.sql`
    insert into spending_minutes (purse, minute, spent_micro)
    select ${`brk_${by.person.accountId}.${by.id}`}, date_trunc('minute', now()) + ahead, spent
    from (values (interval '6 hours', ${100 * CALL}::bigint), (interval '7 hours', ${CALL}::bigint)) spending (ahead, spent)`
  expect(await ask(by)).toBe("gateway.capacity")
  await Bun.sleep(300)
  expect([await ask(by), await ask(by), await ask(by)]).toEqual([200, 200, "quota.key_paused"])
})

test.each([
  ["a key", false],
  ["an account", true],
])(
  "a pause of %s that ends by itself is over where the database's clock was ahead, and comes again at the ceiling",
  async (_, ofAccount) => {
    const by = await leaked({ ceiling_micro: CALL, pause_minutes: 15 }, ofAccount)
    expect([await ask(by), await ask(by), await ask(by)]).toEqual([200, "quota.key_paused", "quota.key_paused"])
    await minutesPass(by, -7 * 60)
    const view = async () =>
      (await (await gateway.dashboard(by.person, "/account/breaker")).json()) as { paused: object | null }
    expect(ofAccount ? await view() : await keyOf(by)).toMatchObject({ paused: null })
    // What was spent in its last minutes counts still.
    expect(await ask(by)).toBe("quota.key_paused")
    expect(ofAccount ? await view() : await keyOf(by)).toMatchObject({ paused: { until: expect.any(String) } })
    await minutesPass(by, 16)
    expect([await ask(by), await ask(by)]).toEqual([200, "quota.key_paused"])
  },
)

test("a leaked key of a sleeping owner costs at most the ceiling, until it is resumed", async () => {
  const owner = await leaked({ ceiling_micro: 10 * CALL })
  const told = await burn(owner)
  expect([...told].filter((outcome) => ![200, "gateway.capacity", "quota.key_paused"].includes(outcome))).toEqual([])
  expect(told.has("quota.key_paused")).toBe(true)
  const first = await charged(owner)
  expect(first).toBe(10 * CALL)
  expect(await keyOf(owner)).toMatchObject({ paused: { until: null } })
  // The night goes by.
  for (const minutes of [11, 60, 480]) {
    await minutesPass(owner, minutes)
    expect(await ask(owner)).toBe("quota.key_paused")
  }
  expect(await charged(owner)).toBe(first)
  expect(await resume(owner)).toBe(204)
  expect(await keyOf(owner)).toMatchObject({ paused: null })
  await burn(owner)
  expect(await charged(owner)).toBeLessThanOrEqual(20 * CALL)
})

test("a key that is made with a ceiling is under it from its first call", async () => {
  const person = await gateway.person(1_000_000)
  const ceiling = { breaker_ceiling_micro: 3 * CALL, breaker_action: "stop", breaker_pause_minutes: 15 }
  const { id, key } = await gateway.key(person, ceiling)
  const owner = { person, id, key }
  expect(await keyOf(owner)).toMatchObject({ ...ceiling, paused: null })
  await burn(owner)
  expect(await charged(owner)).toBe(3 * CALL)
  expect(await keyOf(owner)).toMatchObject({ paused: { until: expect.any(String) } })
})

test("a pause that ends by itself lets through one ceiling in ten minutes, again and again", async () => {
  const owner = await leaked({ ceiling_micro: 5 * CALL, pause_minutes: 3 })
  let before = 0
  for (let round = 0; round < 3; round++) {
    await burn(owner)
    const now = await charged(owner)
    expect(now - before).toBeLessThanOrEqual(5 * CALL)
    expect(now).toBeGreaterThan(before)
    before = now
    // Awake again, within the ten minutes: there is no room yet, and it is paused again.
    await minutesPass(owner, 4)
    expect(await ask(owner)).toBe("quota.key_paused")
    expect(await charged(owner)).toBe(now)
    await minutesPass(owner, 8)
  }
})

test.each([
  ["fits to the micro-rupiah", 3 * CALL, 200],
  ["is one short", 3 * CALL - 1, "quota.key_paused"],
])("the third call %s", async (_, ceiling, outcome) => {
  const owner = await leaked({ ceiling_micro: ceiling })
  expect([await ask(owner), await ask(owner), await ask(owner)]).toEqual([200, 200, outcome])
  expect(await charged(owner)).toBeLessThanOrEqual(ceiling)
})

test("what is ten minutes old is free again, and not a minute before", async () => {
  const owner = await leaked({ ceiling_micro: 2 * CALL })
  expect([await ask(owner), await ask(owner)]).toEqual([200, 200])
  await minutesPass(owner, 12)
  expect([await ask(owner), await ask(owner)]).toEqual([200, 200])
  await minutesPass(owner, 9)
  expect(await ask(owner)).toBe("quota.key_paused")
  expect(await charged(owner)).toBe(4 * CALL)
})

test("an account's ceiling is of all its keys together, and pauses them all", async () => {
  const owner = await leaked({ ceiling_micro: 6 * CALL }, true)
  const other = { ...owner, ...(await gateway.key(owner.person)) }
  await Promise.all([burn(owner), burn(other)])
  expect(await charged(owner)).toBeLessThanOrEqual(6 * CALL)
  expect([await ask(owner), await ask(other)]).toEqual(["quota.key_paused", "quota.key_paused"])
  const view = async () =>
    (await (await gateway.dashboard(owner.person, "/account/breaker")).json()) as { paused: unknown }
  expect((await view()).paused).toMatchObject({ until: null })
  expect((await gateway.dashboard(owner.person, "/account/breaker/resume", { method: "POST" })).status).toBe(204)
  expect((await view()).paused).toBeNull()
  expect(await ask(other)).toBe(200)
})

test("a ceiling that is lowered holds at once; one that only warns, or is taken away, refuses nothing", async () => {
  const owner = await leaked({ ceiling_micro: 100 * CALL })
  expect([await ask(owner), await ask(owner)]).toEqual([200, 200])
  const set = async (body: object) =>
    await gateway.dashboard(owner.person, `/keys/${owner.id}/breaker`, { method: "PUT", body: JSON.stringify(body) })
  await set({ ceiling_micro: 2 * CALL, action: "stop" })
  expect(await ask(owner)).toBe("quota.key_paused")
  await set({ ceiling_micro: 2 * CALL, action: "warn" })
  await resume(owner)
  expect([await ask(owner), await ask(owner), await ask(owner)]).toEqual([200, 200, 200])
  await set({ ceiling_micro: null, action: "stop" })
  expect(await ask(owner)).toBe(200)
})

test("the owner is told once, by webhook too; a stranger resumes nothing", async () => {
  const owner = await leaked({ ceiling_micro: CALL, pause_minutes: 30 })
  const { person } = owner
  await gateway.dashboard(person, "/account/webhook", { method: "PUT", body: '{"url":"https://hooks.example.com/"}' })
  await burn(owner)
  const rows = await gateway.sql<{ data: object }[]>`
    select data from outbox where account_id = ${person.accountId} and kind = 'key.paused'`
  expect(rows.map(({ data }) => data)).toMatchObject([{ key_id: owner.id, ceiling_micro: CALL, spent_micro: CALL }])
  const stranger = await gateway.person(10_000)
  expect(await resume({ ...owner, person: stranger })).toBe(404)
  expect(await ask(owner)).toBe("quota.key_paused")
})

test("without a ceiling a call has no purse, and nothing of one is in the database", async () => {
  const person = await gateway.person(10_000)
  expect(await ask(await gateway.key(person))).toBe(200)
  const rows = await gateway.sql`select 1 from key_spend where key_id like ${`brk\\_${person.accountId}%`}`
  expect(rows).toHaveLength(0)
})
