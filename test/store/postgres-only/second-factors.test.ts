/** Second factors of one account that are changed by several at once. */
import { expect, test } from "bun:test"
import type { Database } from "../../../src/store/database.ts"
import { passkeyStore } from "../../../src/store/passkeys.ts"
import { secondFactorStore } from "../../../src/store/second-factors.ts"
import { directConnection, openTestDatabase } from "../harness.ts"

test("of recovery codes that are renewed by two at once only the last ones are good", async () => {
  await using target = await openTestDatabase()
  const { sql } = target
  await sql`insert into accounts (id, email, password_hash) values ('acc_a', 'a@example.com', 'x')`
  await sql`insert into second_factors (account_id, secret, confirmed_at, last_step) values ('acc_a', '\\x00', now(), 1)`
  await sql`insert into recovery_codes (account_id, code_hash) values ('acc_a', 'old')`
  const holder = directConnection(target.url)
  await holder.sql`begin`
  await holder.sql`select from accounts where id = 'acc_a' for update`
  const store = secondFactorStore(target.db)
  const codes = [1, 2, 3]
  const renewals = codes.map((n) => store.replaceCodes("acc_a", [new Uint8Array([n]), new Uint8Array([n, n])]))
  const waiting = () =>
    sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  while ((await waiting()).length < codes.length) await Bun.sleep(10)
  await holder.sql`commit`
  await holder.end()
  await Promise.all(renewals)
  const left = await sql<{ code_hash: Uint8Array }[]>`select code_hash from recovery_codes`
  expect([left.length, new Set(left.map(({ code_hash: hash }) => hash[0])).size]).toEqual([2, 1])
})

const passkey = (n: number) => ({
  id: `pas_${n}`,
  accountId: "acc_a",
  name: "a test",
  credentialId: new Uint8Array([n]),
  publicKey: new Uint8Array([n]),
  counter: 0,
  transports: [],
  sessionId: "ses_a",
  codeHashes: [new Uint8Array([n])],
})

test("codes that stayed when the app and the last passkey were removed at one moment do not count for a passkey that is added later", async () => {
  await using target = await openTestDatabase()
  const { sql } = target
  await sql`insert into accounts (id, email, password_hash) values ('acc_a', 'a@example.com', 'x')`
  await sql`insert into second_factors (account_id, secret, confirmed_at, last_step) values ('acc_a', '\\x00', now(), 1)`
  const passkeys = passkeyStore(target.db)
  expect(await passkeys.add(passkey(1))).toEqual({ isFirst: false, codesCount: true })
  const holder = directConnection(target.url)
  await holder.sql`begin`
  const here: Database = { ...target.db, run: async (statement) => await statement(holder.sql) }
  expect(await secondFactorStore(here).removeApp("acc_a", "ses_a")).toBe(true)
  expect(await passkeys.remove("acc_a", "pas_1", "ses_a")).toBe(true)
  await holder.sql`commit`
  await holder.end()
  expect(await passkeys.add(passkey(2))).toEqual({ isFirst: true, codesCount: true })
  const left = await sql<{ code_hash: Uint8Array }[]>`select code_hash from recovery_codes`
  expect(left.map(({ code_hash: hash }) => [...hash])).toEqual([[2]])
})
