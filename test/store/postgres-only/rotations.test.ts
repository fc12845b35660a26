/** Secrets of one key that are replaced by two at once. */
import { expect, test } from "bun:test"
import { replaceSecret } from "../../../src/store/key-rows.ts"
import { directConnection, openTestDatabase } from "../harness.ts"

test("of a key that is rotated twice at one moment one secret alone has no end", async () => {
  await using target = await openTestDatabase()
  const { sql } = target
  await sql`insert into accounts (id, email, password_hash) values ('acc_a', 'a@example.com', 'x')`
  await sql`
    insert into api_keys (id, account_id, name, key_hash, prefix, last4) values ('key_a', 'acc_a', 'k', '\\x00', 'sk', 'last')`
  const holder = directConnection(target.url)
  await holder.sql`begin`
  await holder.sql`select from api_keys where id = 'key_a' for update`
  const rotations = [1, 2].map((n) =>
    replaceSecret(
      target.db,
      { accountId: "acc_a", keyId: "key_a" },
      { keyHash: new Uint8Array([n]), prefix: "sk", last4: `las${n}`, overlapS: 0 },
    ),
  )
  const waiting = () =>
    sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  while ((await waiting()).length < rotations.length) await Bun.sleep(10)
  await holder.sql`commit`
  await holder.end()
  expect(await Promise.all(rotations)).toEqual(["replaced", "replaced"])
  const endless = await sql<{ secret_hash: Uint8Array }[]>`select secret_hash from key_secrets where expires_at is null`
  expect(endless).toHaveLength(1)
  const [key] = await sql<{ last4: string }[]>`select last4 from api_keys`
  expect(key?.last4).toBe(`las${endless[0]?.secret_hash[0]}`)
})
