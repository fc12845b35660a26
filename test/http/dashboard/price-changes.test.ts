import { afterAll, beforeAll, expect, test } from "bun:test"
import { newRequestId } from "../../../src/http/edge.ts"
import { openWorld, type World } from "./world.ts"

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world[Symbol.asyncDispose]())

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
type Rates = readonly [input: number, output: number, cacheRead: number, cacheWrite: number]

const price = (model: string, [input, output, cacheRead, cacheWrite]: Rates, inMs: number) => world.sql`
  insert into prices (model, input_micro, output_micro, cache_read_micro, cache_write_micro, effective_at)
  values (${model}, ${input}, ${output}, ${cacheRead}, ${cacheWrite}, ${new Date(Date.now() + inMs)})`

/** With a price in force, and the ones to come. */
async function model(...coming: readonly (readonly [Rates, number])[]): Promise<string> {
  const id = `model-${crypto.randomUUID()}`
  await world.sql`
    insert into models values (${id}, 1, 'A model', 't', 'first', 'text', true, true, 1000, 100, '{chat}', 'first', 'chat', 'a',
      1, '{}', '{}', '{}', '{}')`
  await price(id, [3, 5, 7, 11], -60 * DAY_MS)
  for (const [rates, inMs] of coming) await price(id, rates, inMs)
  return id
}

/** 10, 20, 30 and 40 tokens. */
async function called(accountId: string, of: string, { ago = 0, status = "ok", tokens = 10 } = {}): Promise<void> {
  const at = new Date(Date.now() - ago)
  await world.sql`
    insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens,
      output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts,
      error_code, flagged, opened_at, first_token_ms, duration_ms)
    values (${newRequestId(at.getTime())}, 0, ${accountId}, 'key_x', 1, ${of}, 'chat', true, ${status}, ${tokens}, 20, 30, 40,
      ${status === "ok" ? 780 : 0}, 0, 1, 1, 1, ${status === "ok" ? null : "dependency.upstream_unavailable"}, false, ${at}, 5, 900)`
}

const changes = async (token: string) => (await world.call("GET", "/account/price-changes", { token })).json.data
const short = (rows: Record<string, unknown>[]) =>
  rows.map((row) => [row["model"], row["calls"], row["difference_micro"]])

test("a coming price is told with what it makes of one's own last thirty days, to the micro-rupiah", async () => {
  const { id, token } = await world.signUp()
  const other = await world.signUp()
  const dearer = await model([[4, 7, 10, 15], DAY_MS])
  const cheaper = await model([[2, 5, 7, 11], 2 * DAY_MS])
  await called(id, dearer)
  await called(id, dearer, { ago: 29 * DAY_MS })
  await called(id, cheaper)
  // Neither charged, nor in time, nor one's own.
  await called(id, dearer, { status: "upstream_error" })
  await called(id, dearer, { ago: 30 * DAY_MS + HOUR_MS })
  await called(other.id, dearer, { tokens: 1_000_000 })
  const rows = await changes(token)
  const once = 10 * 1 + 20 * 2 + 30 * 3 + 40 * 4
  expect(short(rows)).toEqual([
    [dearer, 2, 2 * once],
    [cheaper, 1, -10],
  ])
  expect(rows[0].display_name).toBe("A model")
  expect(Date.parse(rows[0].effective_at)).toBeCloseTo(Date.now() + DAY_MS, -5)
  expect(short(await changes(other.token))).toEqual([[dearer, 1, 1_000_000 + once - 10]])
  expect(await changes((await world.signUp()).token)).toEqual([])
})

test("what is not to be told: no other rates, what is over, what is retired, and what nobody used", async () => {
  const { id, token } = await world.signUp()
  const unchanged = await model([[3, 5, 7, 11], DAY_MS])
  const held = await model([[4, 5, 7, 11], -HOUR_MS])
  const retired = await model([[4, 5, 7, 11], DAY_MS])
  await model([[4, 5, 7, 11], DAY_MS])
  await world.sql`insert into model_aliases (alias, target, until) values (${retired}, ${held}, now() + interval '1 day')`
  for (const of of [unchanged, held, retired]) await called(id, of)
  expect(await changes(token)).toEqual([])
})

test("of several coming prices the next with other rates is told, and one that is deleted is not any more", async () => {
  const { id, token } = await world.signUp()
  const twice = await model([[3, 5, 7, 11], HOUR_MS], [[4, 5, 7, 11], DAY_MS], [[9, 5, 7, 11], 2 * DAY_MS])
  await called(id, twice)
  expect(short(await changes(token))).toEqual([[twice, 1, 10]])
  await world.sql`delete from prices where model = ${twice} and input_micro = 4`
  expect(short(await changes(token))).toEqual([[twice, 1, 60]])
})

test.each([1, -1])("a difference that no JSON integer holds is told as the most that one holds (%d)", async (sign) => {
  const { id, token } = await world.signUp()
  const most = Number.MAX_SAFE_INTEGER
  const huge = await model([[most, 5, 7, 11], DAY_MS])
  await called(id, huge, { tokens: 2 })
  if (sign < 0) {
    await price(huge, [most, 5, 7, 11], -HOUR_MS)
    await world.sql`update prices set input_micro = 0 where model = ${huge} and effective_at > now()`
  }
  expect(short(await changes(token))).toEqual([[huge, 1, sign * most]])
})
