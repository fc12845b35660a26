/** Adjustments of one account that are made by several at once. */
import { expect, test } from "bun:test"
import { micro } from "../../../actors/money/micro.ts"
import { adjust } from "../../../src/store/operator/adjustments.ts"
import { directConnection, openTestDatabase } from "../harness.ts"

const act = () => ({ requestId: crypto.randomUUID(), operatorId: undefined, address: undefined })

test("an adjustment of all that is free, which comes twice at once, is made once and said to be made both times", async () => {
  await using target = await openTestDatabase()
  const { sql } = target
  await sql`insert into accounts (id, email, password_hash) values ('acc_a', 'a@example.com', 'x')`
  await sql`insert into balances (account_id, posted_micro) values ('acc_a', 1000)`
  const holder = directConnection(target.url)
  await holder.sql`begin`
  await holder.sql`select from balances where account_id = 'acc_a' for update`
  const asked = { accountId: "acc_a", amountMicro: micro(-1000n), reason: "a test", idempotencyKey: "once" }
  const both = [1, 2].map(() => adjust(target.db, asked, act()))
  const waiting = () =>
    sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  while ((await waiting()).length < both.length) await Bun.sleep(10)
  await holder.sql`commit`
  await holder.end()
  expect(await Promise.all(both)).toEqual([
    { outcome: "adjusted", balanceMicro: micro(0n) },
    { outcome: "adjusted", balanceMicro: micro(0n) },
  ])
})
