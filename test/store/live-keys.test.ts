/** Keys that a process on the embedded database has to look for, because no notice comes of what is written beside it. */
import { expect, test } from "bun:test"
import { frozenKeys } from "../../src/store/live-keys.ts"
import { openTestDatabase } from "./harness.ts"

const hashOf = (id: string) => new Bun.CryptoHasher("sha256").update(id).digest("hex")

test("all keys of frozen accounts are found, and of others those that were revoked within the last minute", async () => {
  await using database = await openTestDatabase()
  const { sql, db } = database
  await sql`
    insert into accounts (id, email, password_hash, frozen_at, frozen_reason) values
      ('acc_frozen', 'frozen@example.test', 'x', now() - interval '1 year', 'reconciliation'),
      ('acc_free', 'free@example.test', 'x', null, null)`
  await sql`
    insert into api_keys (id, account_id, name, key_hash, prefix, last4, revoked_at)
    select id, account, id, sha256(id::bytea), 'sk-loket-' || id, 'last', now() - ago
    from (values
      ('key_frozen', 'acc_frozen', null), ('key_frozen_gone', 'acc_frozen', interval '1 year'), ('key_free', 'acc_free', null),
      ('key_just_now', 'acc_free', interval '30 seconds'), ('key_long_ago', 'acc_free', interval '61 seconds')
    ) as keys (id, account, ago)`

  const found = await frozenKeys(db)
  expect([...found].toSorted()).toEqual(["key_frozen", "key_frozen_gone", "key_just_now"].map(hashOf).toSorted())

  await sql`update accounts set frozen_at = null, frozen_reason = null`
  expect([...(await frozenKeys(db))]).toEqual([hashOf("key_just_now")])
})
