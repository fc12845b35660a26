/** Calls whose records are in files of old months, as their owner asks for them. */
import { expect, test } from "bun:test"
import { mkdtempSync, renameSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { firstRequestId } from "../../../src/http/edge.ts"
import { archiveMonth, monthsBefore } from "../../../src/store/archives.ts"
import { openUsageWorld } from "./usage-world.ts"

const AT = "2026-05-20T05:00:00Z"

test("an archived call is told as before, with its receipt, markers and key; without the file it is 503, and no call that is not there", async () => {
  const archives = mkdtempSync(join(tmpdir(), "loket-archives-"))
  await using world = await openUsageWorld({ archives })
  const { token, keys, id: accountId } = await world.owner()
  const stranger = await world.signUp()
  const id = await world.called(accountId, { at: AT, keyId: keys[0] })
  await world.called(accountId, { at: AT, requestId: id, part: 1, status: "fallback_429" })
  const ask = (session = token) => world.call("GET", `/usage/${id}`, { token: session })
  const lastUsed = async () =>
    (await world.call("GET", "/keys", { token })).json.data.find(({ id: key }: { id: string }) => key === keys[0])
      ?.last_used_at
  const [before, usedBefore] = [await ask(), await lastUsed()]
  expect([before.status, before.json.charge_micro, before.json.amounts.output_micro]).toEqual([200, 780, 100])

  const [month] = await monthsBefore(world.sql, firstRequestId(Date.now()))
  await archiveMonth(world.sql, month!, { directory: archives, step() {} })
  expect(await world.sql`select from usage`).toHaveLength(0)
  const after = await ask()
  expect([after.status, after.json]).toEqual([200, before.json])
  expect([usedBefore, await lastUsed()]).toEqual([expect.stringContaining("2026-05-20"), usedBefore])
  expect((await ask(stranger.token)).status).toBe(404)
  expect((await world.call("GET", `/usage/${firstRequestId(Date.parse(AT))}`, { token })).status).toBe(404)

  const file = join(archives, `${month!.name}.csv.gz`)
  renameSync(file, `${file}.away`)
  const gone = await ask()
  expect([gone.status, gone.json.code, gone.json.error]).toEqual([
    503,
    "dependency.database_unavailable",
    "The call's record is archived, and the archive cannot be read at the moment.",
  ])
  expect(gone.text).not.toContain(archives)
  // The log says which file it was.
  const said = { request_id: gone.headers.get("x-request-id"), error: expect.stringContaining(`${month!.name}.csv.gz`) }
  expect(world.bugs).toEqual([["archive not read", said]])
  renameSync(`${file}.away`, file)
  expect((await ask()).json).toEqual(before.json)
  rmSync(archives, { recursive: true })
})

test.each(["Asia/Jakarta", "Asia/Kolkata"])(
  "an archived month's statement and days add up as before in %s",
  async (zone) => {
    const archives = mkdtempSync(join(tmpdir(), "loket-archives-"))
    await using world = await openUsageWorld({ archives })
    const { token, id } = await world.owner()
    await world.call("PATCH", "/account", { token, body: { time_zone: zone } })
    // Days of the one zone begin at 17:00, of the other at 18:30.
    for (const time of [
      "2026-05-20T05:00",
      "2026-05-31T16:59",
      "2026-05-31T18:10",
      "2026-05-31T19:10",
      "2026-06-02T05:00",
    ])
      await world.called(id, { at: `${time}:00Z` })
    const told = async () => {
      const months = await Promise.all(
        ["2026-05", "2026-06", "2026-07"].map(async (month) => {
          const { json } = await world.call("GET", `/account/statement?month=${month}`, { token })
          return [json.opening_micro, json.out_micro, json.closing_micro]
        }),
      )
      const days = await world.call("GET", "/usage/summary?from=2026-05-01&to=2026-06-30", { token })
      return { months, days: days.json.data.map((day: { requests: number }) => day.requests) }
    }
    const before = await told()
    expect(before.months[2]).toEqual([-3_900, 0, -3_900])
    const [month] = await monthsBefore(world.sql, firstRequestId(Date.now()))
    await archiveMonth(world.sql, month!, { directory: archives, step() {} })
    expect(await told()).toEqual(before)
    rmSync(archives, { recursive: true })
  },
)

test("a list and a file of a WIB month whose first hours are archived say which calls are not in them", async () => {
  const archives = mkdtempSync(join(tmpdir(), "loket-archives-"))
  await using world = await openUsageWorld({ archives })
  const { token, id, keys } = await world.owner()
  const newcomer = await world.owner()
  const [month] = await monthsBefore(world.sql, firstRequestId(Date.now()))
  const until = month!.untilAt.getTime()
  const hours = (count: number) => new Date(until + count * 3_600_000).toISOString()
  for (const at of [hours(-30), hours(-3), hours(12)]) await world.called(id, { at, keyId: keys[0] })
  await world.called(newcomer.id, { at: hours(12), keyId: newcomer.keys[0] })
  const ask = async (session: string, query: string) => {
    const list = (await world.call("GET", `/usage?${query}`, { token: session })).json
    const file = await world.call("GET", `/usage/export.csv?${query}`, { token: session })
    const lines = file.text.trimEnd().split("\r\n").length - 1
    return [list.data.length, list.archived_until ?? null, lines, file.headers.get("x-archived-until")]
  }
  // As a month of a zone seven hours ahead of UTC.
  const range = `from=${hours(-7)}&to=${hours(24 * 30 - 7)}`
  expect(await ask(token, range)).toEqual([2, null, 2, null])
  await archiveMonth(world.sql, month!, { directory: archives, step() {} })
  const told = new Date(until).toISOString()
  expect(await ask(token, range)).toEqual([1, told, 1, told])
  expect(await ask(token, "")).toEqual([1, told, 1, told])
  // Of a time without archived calls, or of an account without any, nothing is missing.
  expect(await ask(token, `from=${hours(-2)}`)).toEqual([1, null, 1, null])
  expect(await ask(token, `from=${hours(1)}`)).toEqual([1, null, 1, null])
  expect(await ask(token, `to=${hours(-31)}`)).toEqual([0, null, 0, null])
  expect(await ask(newcomer.token, "")).toEqual([1, null, 1, null])
  rmSync(archives, { recursive: true })
})

test("the first hour after an archived month may lack a call that arrived before it", async () => {
  const archives = mkdtempSync(join(tmpdir(), "loket-archives-"))
  await using world = await openUsageWorld({ archives })
  const { token, id, keys } = await world.owner()
  const [month] = await monthsBefore(world.sql, firstRequestId(Date.now()))
  const until = month!.untilAt
  const requestId = `${firstRequestId(until.getTime() - 1)}a`
  await world.called(id, { at: new Date(until.getTime() + 1).toISOString(), requestId, keyId: keys[0] })
  await archiveMonth(world.sql, month!, { directory: archives, step() {} })
  const { json } = await world.call("GET", `/usage?from=${until.toISOString()}`, { token })
  expect([json.data, json.archived_until]).toEqual([[], until.toISOString()])
  rmSync(archives, { recursive: true })
})
