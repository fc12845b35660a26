/** A stranger who signed up with somebody's address, and makes a key while the address's owner takes the account over. */
import { expect, test } from "bun:test"
import { accountMailStore } from "../../../src/store/account-mails.ts"
import { webhookStore } from "../../../src/store/account-events.ts"
import { apiKeyStore } from "../../../src/store/api-keys.ts"
import type { Database } from "../../../src/store/database.ts"
import { unbound } from "../../../src/store/key-rows.ts"
import { directConnection, openTestDatabase } from "../harness.ts"

test("a key and a webhook that commit while the password of an unproved address is reset go with the others", async () => {
  await using target = await openTestDatabase()
  const { sql } = target
  await sql`insert into accounts (id, email, email_unproved, password_hash) values ('acc_a', 'a@example.com', true, 'old')`
  const link = new Uint8Array([2])
  const act = { requestId: crypto.randomUUID(), operatorId: undefined, address: undefined }
  await accountMailStore(target.db).linkFor("acc_a", link, { act, reason: "a test" })
  const holder = directConnection(target.url)
  await holder.sql`begin`
  const here: Database = { ...target.db, run: async (statement) => await statement(holder.sql) }
  await webhookStore(here).set("acc_a", "https://stranger.example/", "whsec_x")
  const made = await apiKeyStore(here).create(
    {
      id: "key_a",
      accountId: "acc_a",
      name: "a stranger's",
      keyHash: new Uint8Array([1]),
      prefix: "sk",
      last4: "last",
      requestsPerMinute: null,
      tokensPerMinute: null,
      spendingLimitMicro: null,
      spendingPeriod: null,
      fallback: "never_dearer",
      showsBalance: false,
      replaysRetries: true,
      ...unbound,
    },
    { active: 5, aDay: 5 },
  )
  expect(made).toMatchObject({ id: "key_a" })
  const resetting = accountMailStore(target.db).resetPassword(link, "new")
  const waiting = () =>
    sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  while ((await waiting()).length === 0) await Bun.sleep(10)
  await holder.sql`commit`
  await holder.end()
  expect(await resetting).toMatchObject([{ id: "key_a" }])
  expect(await sql`select from api_keys where revoked_at is null`).toHaveLength(0)
  expect(await sql`select from webhooks`).toHaveLength(0)
})
