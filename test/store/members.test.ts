/** What operators set of the members of pools, with its rows of the audit log. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test"
import { loadCatalogue } from "../../src/store/catalogue.ts"
import { auditStore } from "../../src/store/operator/audit.ts"
import { type MemberStore, memberStore } from "../../src/store/operator/models.ts"
import { openTestDatabase, type TestDatabase } from "./harness.ts"

let database: TestDatabase
let store: MemberStore
beforeAll(async () => {
  database = await openTestDatabase()
  store = memberStore(database.db)
})
beforeEach(async () => {
  await database.sql`truncate member_settings`
})
afterAll(() => database.close())

const id = "openai/second/gpt-6"
let requests = 0
const act = () => ({ requestId: `req_${++requests}`, operatorId: undefined, address: "127.0.0.1" })
const settings = async () => (await database.db.run(loadCatalogue)).members
/** Of the newest acts, the last first. */
const logged = async (count: number) =>
  (await auditStore(database.db).list({ before: undefined, limit: count, subject: id })).map(
    ({ action, before, after }) => ({ action, before, after }),
  )

test("a member is as the catalogue has it until something is set", async () => {
  expect(await settings()).toEqual([])
  await store.change(id, { state: "draining" }, act())
  expect(await settings()).toEqual([{ member: id, state: "draining", weight: undefined, retriedAt: undefined }])
  await store.change(id, { weight: 0 }, act())
  expect(await settings()).toEqual([{ member: id, state: "draining", weight: 0, retriedAt: undefined }])
  await store.change(id, { state: "serving", weight: null }, act())
  expect(await settings()).toEqual([{ member: id, state: "serving", weight: undefined, retriedAt: undefined }])
  const changed = "member.changed"
  expect(await logged(3)).toEqual([
    { action: changed, before: { state: "draining", weight: 0 }, after: { state: "serving", weight: null } },
    { action: changed, before: { weight: null }, after: { weight: 0 } },
    { action: changed, before: { state: "serving" }, after: { state: "draining" } },
  ])
})

test("what is so already changes nothing and is not logged, and neither is a statement that comes twice", async () => {
  const [newest] = await logged(1)
  await store.change(id, { state: "serving", weight: null }, act())
  expect(await settings()).toEqual([])
  const again = act()
  for (const _ of [1, 2]) await store.change(id, { weight: 7 }, again)
  expect((await logged(2)).map(({ after }) => after)).toEqual([{ weight: 7 }, newest?.after])
  const at = new Date("2026-12-01T12:00:00Z")
  const retried = act()
  for (const _ of [1, 2]) await store.retry(id, at, retried)
  expect(await settings()).toEqual([{ member: id, state: "serving", weight: 7, retriedAt: at.getTime() }])
  const [last, before] = await logged(2)
  expect(last).toMatchObject({ action: "member.retried", before: null })
  expect(before?.action).toBe("member.changed")
})

test("no weight is less than nothing, or more than a catalogue can say", async () => {
  for (const weight of [-1, 100_000_001])
    expect(await store.change(id, { weight }, act()).catch(() => "refused")).toBe("refused")
  expect(await settings()).toEqual([])
  await store.change(id, { weight: 100_000_000 }, act())
  expect((await settings())[0]?.weight).toBe(100_000_000)
})
