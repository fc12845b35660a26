import { afterAll, beforeAll, expect, test } from "bun:test"
import { estimateFactorStore } from "../../src/store/costs.ts"
import { openTestDatabase, type TestDatabase } from "./harness.ts"

let database: TestDatabase

beforeAll(async () => {
  database = await openTestDatabase()
  await database.sql`
    insert into accounts (id, email, password_hash) values ('acc_a', 'a@example.com', 'x'), ('acc_b', 'b@example.com', 'x')`
})
afterAll(() => database.close())

test("what was learnt last of an account, a model and a part is what is read", async () => {
  const store = estimateFactorStore(database.db)
  const learnt = {
    accountId: "acc_a",
    model: "m",
    part: "documents",
    factor: 300.5,
    learntAt: 1_795_000_000_000,
  } as const
  await store.write(learnt)
  await store.write({ ...learnt, factor: 2, learntAt: learnt.learntAt + 1_000 })
  await store.write({ ...learnt, part: "texts", factor: 1.25 })
  expect((await store.read("acc_a")).toSorted((a, b) => a.part.localeCompare(b.part))).toEqual([
    { ...learnt, factor: 2, learntAt: learnt.learntAt + 1_000 },
    { ...learnt, part: "texts", factor: 1.25 },
  ])
  expect(await store.read("acc_b")).toEqual([])
})
