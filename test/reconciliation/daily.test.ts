/** The reconciliation of each day: one process does it, whoever it is, and it is done to its end. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { firstRequestId } from "../../src/http/edge.ts"
import { createLog } from "../../src/log.ts"
import { Daily, reconcile, type ReconcileParts } from "../../src/reconciliation/reconcile.ts"
import { accountStore } from "../../src/store/accounts.ts"
import { auditStore } from "../../src/store/operator/audit.ts"
import { reconciliationStore } from "../../src/store/reconciliations.ts"
import { topUpStore } from "../../src/store/top-ups.ts"
import { directConnection } from "../store/harness.ts"
import { type BrokenBooks, openBooks } from "./world.ts"

let world: BrokenBooks
let time: number
let lines: { event: string; differences?: number; frozen?: string }[]
beforeEach(async () => {
  world = await openBooks()
  time = Date.parse("2026-11-21T20:00:00Z")
  lines = []
})
afterEach(() => world.close())

/** The daily one of a process that is registered; `connect` may be made to fail. */
async function daily(processId: string, connect: ReconcileParts["connect"] = async () => directConnection(world.url)) {
  await world.sql`insert into processes (id) values (${processId}) on conflict do nothing`
  const { db } = world
  const store = reconciliationStore(db)
  const accounts = accountStore(db)
  const parts: ReconcileParts = {
    store,
    connect,
    payments: {
      store: topUpStore(db),
      providers: [],
      topUps: { settle: async () => {}, isHandled: async () => false },
      refunds: { reverse: async () => false },
      days: 0,
      now: () => time,
    },
    freeze: (accountId, reason) => accounts.freeze(accountId, reason),
    firstId: firstRequestId,
    now: () => time,
  }
  return new Daily({
    hour: 20,
    processId,
    store,
    reconcile: (id, signal) => reconcile(parts, id, { signal }),
    now: () => time,
    log: createLog("info", (line) => lines.push(JSON.parse(line))),
  })
}

test("a freeze is in the audit log: by Loket itself, why, and with the difference", async () => {
  const { accountId } = world.victim
  await world.sql`update balances set posted_micro = posted_micro + 1500000 where account_id = ${accountId}`
  const { report } = await world.command()
  expect(report.frozen).toEqual([accountId])
  await world.command()
  const audit = await auditStore(world.db).list({ before: undefined, limit: 10, subject: accountId })
  const rows = audit.filter(({ action }) => action === "account.frozen")
  const isOfVictim = (row: Readonly<Record<string, unknown>>) => row["account_id"] === accountId
  const { claim, shown } = report.claims.findLast((each) => each.shown.some(isOfVictim))!
  const { account_id: _, mended: __, ...figures } = shown.find(isOfVictim)!
  expect(rows).toMatchObject([
    {
      action: "account.frozen",
      operator: undefined,
      address: undefined,
      requestId: expect.stringMatching(/^reconciliation_/),
      reason: `reconciliation ${report.reconciliation}: it does not hold that ${claim}`,
      before: { frozen: false },
      after: { frozen: true, claim, ...figures },
    },
  ])
  expect(Object.keys(figures).length).toBeGreaterThan(1)
  // Its owner reads that no operator did it.
  expect([...(await world.sql`select actor from account_events where action = 'account.frozen'`)]).toEqual([
    { actor: "gateway" },
  ])
})

const days = async () => {
  const rows = await world.sql<{ day: string; process_id: string; ended: boolean }[]>`
    select day::text, process_id, ended_at is not null as ended from reconciliations order by id`
  return rows.map(({ day, process_id, ended }) => `${day} ${process_id}${ended ? "" : " not ended"}`)
}
const events = () => lines.map(({ event }) => event)
const HOUR_MS = 3_600_000

test("it is done once a day, from its hour on", async () => {
  const one = await daily("prc_one")
  time -= 1
  await one.look()
  expect(await days()).toEqual(["2026-11-20 prc_one"])
  await one.look()
  time += 1
  await one.look()
  time += 23 * HOUR_MS
  await one.look()
  expect(await days()).toEqual(["2026-11-20 prc_one", "2026-11-21 prc_one"])
  expect(events()).toEqual(["books reconciled", "books reconciled"])
})

test("of several processes one does it, and each knows what came of it", async () => {
  const all = await Promise.all(["prc_one", "prc_two", "prc_three"].map((id) => daily(id)))
  await Promise.all(all.map((one) => one.look()))
  expect(await days()).toHaveLength(1)
  expect(events()).toEqual(["books reconciled"])
  for (const one of all) await one.look()
  for (const one of all) expect(one.last).toMatchObject({ differences: 0, notCompared: 0 })
  expect(await days()).toHaveLength(1)
})

test("what differs is one line of the log, with whom it froze", async () => {
  const { accountId } = world.victim
  await world.sql`update balances set posted_micro = posted_micro + 1 where account_id = ${accountId}`
  const one = await daily("prc_one")
  await one.look()
  expect(lines).toEqual([
    expect.objectContaining({
      level: "error",
      event: "books do not agree",
      differences: 2,
      claims: "a balance is the sum of its transfers; what customers have, the house owes",
      frozen: accountId,
    }),
  ])
  expect(one.last?.differences).toBe(2)
  expect(await world.frozen()).toEqual([accountId])
})

test("one that was broken off is not done, and is taken up again by its own process alone", async () => {
  let fit = false
  const connect = async () => {
    const connection = directConnection(world.url)
    if (!fit) connection.discard()
    return connection
  }
  const one = await daily("prc_one", connect)
  const two = await daily("prc_two")
  await one.look()
  expect(events()).toEqual(["books not reconciled"])
  expect(await days()).toEqual(["2026-11-21 prc_one not ended"])
  await two.look()
  expect(await days()).toEqual(["2026-11-21 prc_one not ended"])
  fit = true
  await one.look()
  expect(await days()).toEqual(["2026-11-21 prc_one"])
})

test("what a process that died had begun is done by another, once it is known to be dead", async () => {
  const connect = async () => {
    const connection = directConnection(world.url)
    connection.discard()
    return connection
  }
  await (await daily("prc_dead", connect)).look()
  const two = await daily("prc_two")
  await two.look()
  expect(await days()).toEqual(["2026-11-21 prc_dead not ended"])
  await world.sql`update processes set closed_at = now() where id = 'prc_dead'`
  await two.look()
  expect(await days()).toEqual(["2026-11-21 prc_two"])
})

test("one that is stopped breaks off and complains of nothing", async () => {
  const one = await daily("prc_one")
  const looking = one.look()
  await one.stop()
  await looking
  expect(events().filter((event) => event !== "books reconciled")).toEqual([])
  await one.look()
  expect((await days()).length).toBeLessThanOrEqual(1)
})
