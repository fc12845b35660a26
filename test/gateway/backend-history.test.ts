/** What is gathered of backends: few rows however a circuit flaps, none lost while the database is away, one history of all processes. */
import { expect, test } from "bun:test"
import { endOfBucket } from "../../src/gateway/backend-health.ts"
import { BackendHistory, type Occurrence } from "../../src/gateway/backend-history.ts"
import { type BackendEvent, type BackendHour, backendHistoryStore } from "../../src/store/operator/backend-history.ts"
import { removeOverdue } from "../../src/store/retention.ts"
import { openTestDatabase } from "../store/harness.ts"

const HOUR_MS = 3_600_000
const opened: Occurrence = { event: "opened", member: "a/b/c", model: "m", class: "server_error", status: 500 }
const closed: Occurrence = { event: "closed", member: "a/b/c", model: "m", class: undefined, status: undefined }

function gatherer() {
  const state = { now: 1_000 * HOUR_MS, away: false }
  const kept: { events: readonly BackendEvent[]; hours: readonly BackendHour[] }[] = []
  const history = new BackendHistory({
    store: {
      async keep(events, hours) {
        if (state.away) throw new Error("the database is away")
        kept.push({ events, hours })
      },
    },
    now: () => state.now,
  })
  return { state, kept, history }
}

test("a circuit that flaps is a row of each kind and minute, with how often it was and the last failure", async () => {
  const { state, kept, history } = gatherer()
  for (let time = 0; time < 50; time++) {
    history.occurred({ ...opened, status: 500 + time })
    history.occurred(closed)
  }
  await history.flush()
  expect(kept[0]?.events.map(({ event, times, status }) => [event, times, status])).toEqual([
    ["opened", 50, 549],
    ["closed", 50, undefined],
  ])
  await history.flush()
  expect(kept).toHaveLength(1)
  state.now += 59_999
  history.occurred(opened)
  await history.flush()
  expect(kept[1]?.events).toMatchObject([{ event: "opened", times: 51, at: 1_000 * HOUR_MS }])
  state.now += 1
  history.occurred(opened)
  await history.flush()
  expect(kept[2]?.events).toMatchObject([{ times: 1, at: state.now }])
})

test("what cannot be written waits for the next time, up to its bound", async () => {
  const { state, kept, history } = gatherer()
  state.away = true
  for (let member = 0; member < 2_001; member++) history.occurred({ ...opened, member: `a/b/${member}` })
  for (let member = 0; member < 10_001; member++) history.tried(`a/b/${member}`, "m", "answered", undefined)
  expect(await history.flush().catch(String)).toContain("away")
  history.occurred({ ...opened, member: "a/b/0" })
  state.now += HOUR_MS
  expect(await history.flush().catch(String)).toContain("away")
  state.away = false
  await history.flush()
  expect([kept[0]?.events.length, kept[0]?.hours.length]).toEqual([2_000, 10_000])
  expect(kept[0]?.events[0]).toMatchObject({ member: "a/b/0", times: 2 })
  // What is over and written makes room.
  history.occurred(opened)
  history.tried("a/b/c", "m", "answered", undefined)
  await history.flush()
  expect([kept[1]?.events.length, kept[1]?.hours.length]).toEqual([1, 1])
})

test("two processes that see the same circuit are one entry, whose pages and filter hold all of the history", async () => {
  await using database = await openTestDatabase()
  const now = Math.floor(Date.now() / HOUR_MS) * HOUR_MS
  const processes = ["pr_1", "pr_2"].map((id) => {
    const store = backendHistoryStore(database.db, id)
    return new BackendHistory({ store, now: () => now })
  })
  for (const history of processes) {
    for (let time = 0; time < 3; time++) history.occurred(opened)
    await history.flush()
    // Written again as it grows.
    history.occurred(opened)
    await history.flush()
    history.occurred({
      event: "credential_refused",
      member: "a/b",
      model: undefined,
      class: "needs_attention",
      status: 401,
    })
    history.occurred({ ...closed, member: "a/other/c" })
    // Not the credential's, though the id begins with it.
    history.occurred({ ...closed, member: "a/b/c/d" })
    for (let time = 0; time < 10; time++) history.tried("a/b/c", "m", "answered", time < 6 ? 100 : 5_000)
    history.tried("a/b/c", "m", "server_error", undefined)
    history.tried("a/b/c", "m", "rate_limited", undefined)
    history.tried("a/b/c", "m", "refused_request", undefined)
    history.tried("a/other/c", "m", "answered", undefined)
    await history.flush()
  }
  const store = backendHistoryStore(database.db, "pr_3")
  const all = await store.list({ member: undefined, after: undefined, limit: 10 })
  const told = all.map(({ event, member, times }) => `${member} ${event} ${times}`)
  expect(new Set(told)).toEqual(
    new Set(["a/b/c/d closed 2", "a/other/c closed 2", "a/b credential_refused 2", "a/b/c opened 8"]),
  )
  expect(all.find(({ event }) => event === "opened")).toMatchObject({
    model: "m",
    class: "server_error",
    status: 500,
    processes: ["pr_1", "pr_2"],
  })
  const paged: string[] = []
  for (let after: (typeof all)[number]["place"] | undefined; ;) {
    const [one] = await store.list({ member: undefined, after, limit: 1 })
    if (one === undefined) break
    paged.push(one.event)
    after = one.place
  }
  expect(paged).toEqual(all.map(({ event }) => event))
  const own = await store.list({ member: "a/b/c", after: undefined, limit: 10 })
  expect(own.map(({ event }) => event).toSorted()).toEqual(["credential_refused", "opened"])
  const longer = await store.list({ member: "a/b/c/d", after: undefined, limit: 10 })
  expect(longer.map(({ event }) => event).toSorted()).toEqual(["closed", "credential_refused"])
  const [hour, ...more] = await store.hours(new Date(now), "a/b/c")
  expect(more).toEqual([])
  expect(hour).toMatchObject({ tries: 24, failed: 4, rateLimited: 2 })
  expect(endOfBucket(hour?.middleStep ?? 0)).toBeWithin(100, 111)
  expect(await store.hours(new Date(now), undefined)).toMatchObject([{ tries: 26, failed: 4 }])
  expect(await store.hours(new Date(now + HOUR_MS), undefined)).toEqual([])
})

test("events are kept for 90 days and hours for 30", async () => {
  await using database = await openTestDatabase()
  await database.sql`
    insert into backend_events (minute, member, model, event, at, processes)
    select now() - make_interval(days => days), 'a/b/c', 'm', 'opened', now() - make_interval(days => days), '{}' from unnest(array[89, 91]) days`
  await database.sql`
    insert into backend_hours (hour, member, model, process_id, answered, failed, rate_limited, steps, step_tries)
    select now() - make_interval(days => days), 'a/b/c', 'm', 'pr_1', 1, 0, 0, '{}', '{}' from unnest(array[29, 31]) days`
  expect(await removeOverdue(database.db, { erasedAfterDays: 30 })).toEqual({ backend_events: 1, backend_hours: 1 })
})
