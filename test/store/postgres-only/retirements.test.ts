/** Models retired at one moment, by several operators: none is left as a model that is not sold either. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import type { Connection } from "../../../src/store/connection.ts"
import { modelStore } from "../../../src/store/operator/models.ts"
import { directConnection, openTestDatabase, type TestDatabase } from "../harness.ts"

let target: TestDatabase
let holder: Connection
beforeEach(async () => {
  target = await openTestDatabase({ connections: 4 })
  holder = directConnection(target.url)
  for (const model of ["a", "b", "c"]) {
    await target.sql`
      insert into models (model, position, display_name, tier, provider, modality, supports_vision, supports_tools,
        max_output_tokens, endpoints, upstream_provider, upstream_format, upstream_model, max_concurrency, fallback, strip,
        unsupported, features)
      values (${model}, 1, ${model}, 'standard', 'someone', 'text', false, false, 100, '{chat}', 'first', 'chat', ${model}, 4,
        '{}', '{}', '{}', '{}')`
  }
})
afterEach(async () => {
  await holder.end()
  await target.close()
})

const until = new Date("2099-01-01T00:00:00Z")
const act = (requestId: string) => ({ requestId, operatorId: undefined, address: undefined })
const waiting = async () =>
  (await target.sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)
    .length
const aliases = async () => {
  const rows = await target.sql<{ alias: string; target: string }[]>`
    select alias, target from model_aliases order by alias`
  return rows.map(({ alias, target: to }) => `${alias} as ${to}`)
}

/** Both have begun before either is done: another session has a model of both locked meanwhile. The first is done first. */
async function atOneMoment(first: readonly [string, string], second: readonly [string, string]) {
  const models = modelStore(target.db)
  await holder.sql`begin`
  await holder.sql`select from models where model = 'b' for update`
  const made: Promise<unknown>[] = []
  for (const [model, to] of [first, second]) {
    made.push(models.retire(model, { target: to, until }, act(`req_${model}`)))
    for (let looks = 0; (await waiting()) < made.length && looks < 100; looks++) await Bun.sleep(10)
  }
  await holder.sql`commit`
  return await Promise.all(made)
}

test("of two models retired into each other, one is", async () => {
  expect(await atOneMoment(["a", "b"], ["b", "a"])).toEqual([true, false])
  expect(await aliases()).toEqual(["a as b"])
  const logged = await target.sql<{ subject: string }[]>`select subject from audit_log`
  expect(logged.map(({ subject }) => subject)).toEqual(["a"])
}, 60_000)

test("a model retired into one that is retired itself is served as what that one is", async () => {
  expect(await atOneMoment(["a", "b"], ["b", "c"])).toEqual([true, true])
  expect(await aliases()).toEqual(["a as c", "b as c"])
}, 60_000)

test("a model retired into one that was retired before it is refused", async () => {
  expect(await atOneMoment(["b", "c"], ["a", "b"])).toEqual([true, false])
  expect(await aliases()).toEqual(["b as c"])
}, 60_000)
