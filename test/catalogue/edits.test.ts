import { afterAll, beforeAll, expect, test } from "bun:test"
import { micro } from "../../actors/money/micro.ts"
import { inForce } from "../../actors/money/price.ts"
import { LiveCatalogue } from "../../src/catalogue/model.ts"
import { keepEdits } from "../../src/catalogue/references.ts"
import { jumps } from "../../src/http/operator/model-json.ts"
import { loadCatalogue, seedCatalogue } from "../../src/store/catalogue.ts"
import { forgetEdits, modelStore, readEdits } from "../../src/store/operator/models.ts"
import { loket } from "../command/loket.ts"
import { modelSeed } from "../crash/child.ts"
import { openTestDatabase, type TestDatabase } from "../store/harness.ts"

let database: TestDatabase
beforeAll(async () => void (database = await openTestDatabase()))
afterAll(() => database.close())

const act = () => ({ requestId: crypto.randomUUID(), operatorId: undefined, address: undefined })
const rates = (input: bigint) => ({
  input: micro(input),
  output: micro(5_000n),
  cacheRead: micro(0n),
  cacheWrite: micro(0n),
})
const file = {
  models: ["one", "two", "three"].map((id) => modelSeed(id, "chat", "")),
  aliases: [],
}
const seed = async () => {
  const kept = keepEdits(file, await readEdits(database.db, new Date()))
  await database.db.run((sql) => seedCatalogue(sql, kept.file, new Date()))
  return kept.passedOver
}
const now = async (id: string) => {
  const { models, prices } = await database.db.run(loadCatalogue)
  const price = inForce(
    prices.filter(({ model }) => model === id),
    Date.now(),
  )
  const model = models.find((one) => one.id === id)
  return [model?.tier, model?.maxConcurrency, price?.rates.input]
}

test("what operators set stays when the file is applied, and is told; --overwrite applies the file whole", async () => {
  expect(await seed()).toEqual([])
  const models = modelStore(database.db)
  await models.change("one", { max_concurrency: 3 }, act())
  await models.schedule({ model: "one", rates: rates(1_111n), effectiveAt: new Date(), before: null }, act())
  await models.retire("two", { target: "three", until: new Date(Date.now() + 60_000) }, act())

  const passedOver = [
    "two: retired by an operator, on sale in the file",
    "one: max_concurrency is 3 by an operator, 64 in the file",
    "one: input_micro is 1111 by an operator, 1000 in the file",
  ]
  expect([...(await seed())].sort()).toEqual(passedOver.sort())
  expect(await now("one")).toEqual(["standard", 3, micro(1_111n)])
  expect(await now("two")).toEqual([undefined, undefined, micro(1_000n)])

  await forgetEdits(database.db, act())
  expect(await seed()).toEqual([])
  expect(await now("one")).toEqual(["standard", 64, micro(1_000n)])
  expect(await now("two")).toEqual(["standard", 64, micro(1_000n)])
  const [row] = await database.sql`select subject, before from audit_log where action = 'catalogue.overwritten'`
  expect(row).toMatchObject({ subject: "catalogue", before: { two: ["retired"] } })
})

test("what operators set is not forgotten by an overwriting that did not apply the file", async () => {
  await using target = await openTestDatabase()
  const command = (...words: string[]) => loket({ DATABASE_URL: target.url }, "seed", ...words)
  expect(await command()).toMatchObject({ code: 0 })
  await modelStore(target.db).change("deepseek-v3.2", { max_concurrency: 3 }, act())
  const kept = "kept: deepseek-v3.2: max_concurrency is 3 by an operator"
  await target.sql`alter table models rename column features to away`
  expect((await command("--overwrite")).code).toBe(1)
  await target.sql`alter table models rename column away to features`
  expect((await command()).said).toContain(kept)
  expect(await command("--overwrite")).toMatchObject({ code: 0, said: expect.stringContaining("1 changed") })
  expect((await command()).said).not.toContain(kept)
})

test("an id that the file retires to a model which an operator has retired goes on to that one's target", async () => {
  const until = new Date(Date.now() + 60_000)
  const aliases = [{ model: "before-two", target: "two", until: until.toISOString() }]
  const seedOld = async () => {
    const kept = keepEdits({ ...file, aliases }, await readEdits(database.db, new Date()))
    await database.db.run((sql) => seedCatalogue(sql, kept.file, new Date()))
  }
  const targetOfOld = async () => {
    const catalogue = new LiveCatalogue(await database.db.run(loadCatalogue))
    return catalogue.find("before-two", Date.now())?.model.id
  }
  const models = modelStore(database.db)
  await seedOld()
  expect(await targetOfOld()).toBe("two")
  await models.retire("two", { target: "three", until }, act())
  expect(await targetOfOld()).toBe("three")
  await seedOld()
  expect(await targetOfOld()).toBe("three")
  await models.retire("three", { target: "one", until }, act())
  await seedOld()
  expect(await targetOfOld()).toBe("one")
  await forgetEdits(database.db, act())
  await seedOld()
  expect(await targetOfOld()).toBe("two")
})

test("a statement that is sent twice changes and logs once", async () => {
  const models = modelStore(database.db)
  const twice = act()
  const plan = { model: "three", rates: rates(1_200n), effectiveAt: new Date(Date.now() + 60_000), before: null }
  const id = await models.schedule(plan, twice)
  expect(id).toBeDefined()
  expect(await models.schedule(plan, twice)).toBe(id)
  const again = act()
  expect(await models.unschedule("three", id ?? 0n, new Date(), again)).toBe(true)
  expect(await models.unschedule("three", id ?? 0n, new Date(), again)).toBe(true)
  expect(await models.unschedule("three", id ?? 0n, new Date(), act())).toBe(false)
  const rows =
    await database.sql`select action from audit_log where request_id in (${twice.requestId}, ${again.requestId})`
  expect(rows).toHaveLength(2)
})

const step = (from: bigint, to: bigint) => jumps(rates(from), rates(to)).map(({ rate, factor }) => [rate, factor])
test("a rate jumps when it more than doubles or halves, and from or to nothing", () => {
  expect(step(100n, 200n)).toEqual([])
  expect(step(200n, 100n)).toEqual([])
  expect(step(0n, 0n)).toEqual([])
  expect(step(100n, 201n)).toEqual([["input", 2.01]])
  expect(step(1_000n, 100n)).toEqual([["input", 10]])
  expect(step(0n, 1n)).toEqual([["input", Infinity]])
  expect(step(1n, 0n)).toEqual([["input", Infinity]])
})
