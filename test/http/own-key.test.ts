/** What keys ask about themselves waits in the lines of their accounts, as what sessions and tokens ask does. */
import { afterAll, beforeAll, expect, spyOn, test } from "bun:test"
import { KeyActors, RunActors } from "../../src/gateway/leasing-actors.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"

let gateway: TestGateway
beforeAll(async () => void (gateway = await startTestGateway()))
afterAll(() => gateway[Symbol.asyncDispose]())

const ask = (key: string, path: string, method = "GET") =>
  fetch(`${gateway.url}${path}`, { method, headers: { authorization: `Bearer ${key}` } })

const keysOf = (person: Person, count: number) =>
  Promise.all(Array.from({ length: count }, async () => (await gateway.key(person)).key))

/** Makes runs of a key, and returns their ids. */
const runsOf = (person: Person, keyId: string, count: number) =>
  Promise.all(
    Array.from({ length: count }, async () => {
      const body = JSON.stringify({ key_id: keyId, budget_micro: 1_000_000 })
      return (await (await gateway.dashboard(person, "/runs", { method: "POST", body })).json()).id as string
    }),
  )

/** Keeps what is asked of an actor for an answer from being answered until it is opened. */
function holding(actors: { viewIfActive(name: string): Promise<unknown> }) {
  const gate = Promise.withResolvers<void>()
  const views = spyOn(actors, "viewIfActive").mockImplementation(async () => await gate.promise)
  return {
    open: () => gate.resolve(),
    /** Resolves with how many have begun, when no more of those who were sent do. */
    async begun(atLeast: number) {
      while (views.mock.calls.length < atLeast) await Bun.sleep(5)
      await Bun.sleep(300)
      return views.mock.calls.length
    },
    [Symbol.dispose]: () => views.mockRestore(),
  }
}

test("of an account few balances are looked up at once, however many keys ask; another account waits for none of them", async () => {
  const [crowd, other] = [await gateway.person(), await gateway.person()]
  const [keys, [own = ""]] = [await keysOf(crowd, 24), await keysOf(other, 1)]
  using held = holding(KeyActors.prototype)
  const asking = keys.map((key) => ask(key, "/v1/balance"))
  expect(await held.begun(16)).toBe(16)
  const others = ask(own, "/v1/balance")
  expect(await held.begun(17)).toBe(17)
  held.open()
  for (const answer of await Promise.all([...asking, others])) expect(answer.status).toBe(200)
})

test("of an account two receipts of runs are added up at once, its owner's too, and others are not waited for", async () => {
  const [person, other] = [await gateway.person(), await gateway.person()]
  const [key, foreign] = [await gateway.key(person), await gateway.key(other)]
  const [runs, [theirs = ""]] = [await runsOf(person, key.id, 6), await runsOf(other, foreign.id, 1)]
  using held = holding(RunActors.prototype)
  const asking = [
    ...runs.map((run) => ask(key.key, `/v1/runs/${run}`)),
    ...runs.map((run) => gateway.dashboard(person, `/runs/${run}`)),
  ]
  expect(await held.begun(2)).toBe(2)
  asking.push(ask(foreign.key, `/v1/runs/${theirs}`))
  expect(await held.begun(3)).toBe(3)
  held.open()
  for (const answer of await Promise.all(asking)) expect(answer.status).toBe(200)
})

test("a key that ends its runs by the dozen has two of them ended at once, and none any more once it is revoked", async () => {
  const person = await gateway.person()
  const key = await gateway.key(person)
  const runs = await runsOf(person, key.id, 12)
  using ended = spyOn(RunActors.prototype, "ended")
  using held = holding(RunActors.prototype)
  const asking = runs.map((run) => ask(key.key, `/v1/runs/${run}/end`, "POST"))
  expect(await held.begun(2)).toBe(2)
  expect(ended).toHaveBeenCalledTimes(2)
  expect((await gateway.dashboard(person, `/keys/${key.id}/revoke`, { method: "POST" })).status).toBe(200)
  held.open()
  const statuses = (await Promise.all(asking)).map(({ status }) => status)
  expect(statuses.toSorted()).toEqual([200, 200, ...Array.from({ length: 10 }, () => 401)])
  const [open] = await gateway.sql<{ count: number }[]>`
    select count(*)::int as count from runs where key_id = ${key.id} and ends_at > now()`
  expect(open?.count).toBe(10)
})
