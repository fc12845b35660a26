/** Top-ups are compared one after the other, which takes hours where there are many or their provider is slow: what the books say is acted on before. */
import { expect, test } from "bun:test"
import { firstRequestId } from "../../src/http/edge.ts"
import { reconcile } from "../../src/reconciliation/reconcile.ts"
import { accountStore } from "../../src/store/accounts.ts"
import { reconciliationStore } from "../../src/store/reconciliations.ts"
import { topUpStore } from "../../src/store/top-ups.ts"
import { directConnection } from "../store/harness.ts"
import { openBooks } from "./world.ts"

test("an account whose books do not agree is frozen before the first top-up is compared", async () => {
  const world = await openBooks()
  const { accountId } = world.victim
  await world.sql`update balances set posted_micro = posted_micro + 1500000 where account_id = ${accountId}`
  await world.sql`insert into processes (id) values ('proc_slow')`
  const store = reconciliationStore(world.db)
  const id = await store.beginDay("2026-11-21", "proc_slow")
  let frozenThen: readonly string[] = []
  const parts = {
    store,
    connect: async () => directConnection(world.url),
    payments: {
      store: {
        find: (topUpId: string) => topUpStore(world.db).find(topUpId),
        createdSince: async () => {
          frozenThen = await world.frozen()
          throw new Error("the database was away")
        },
      },
      providers: [],
      topUps: { settle: async () => {}, isHandled: async () => false },
      refunds: { reverse: async () => false },
      days: 7,
      now: Date.now,
    },
    freeze: (frozen: string, reason: string) => accountStore(world.db).freeze(frozen, reason),
    firstId: firstRequestId,
    now: Date.now,
  }
  const { signal } = new AbortController()
  const ended = await reconcile(parts, id ?? 0n, { signal }).catch(String)
  expect(ended).toBe("Error: the database was away")
  expect(frozenThen).toEqual([accountId])
  await world.close()
})
