/**
 * Keys that a process on the embedded database has to look for, because no notice comes of what is written beside it; and the
 * origins that keys are for.
 */
import { expect, test } from "bun:test"
import { frozenKeys, pageOriginStore } from "../../src/store/live-keys.ts"
import { onPostgres, openTestDatabase } from "./harness.ts"

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

/** The later ones stand before the earlier ones in the alphabet. */
const originsOf = (from: number, count: number) =>
  Array.from({ length: count }, (_, n) => `https://${999 - from - n}.example`)

test("200 origins of an account are found, those that its keys had first, each counted once, and all of another's", async () => {
  await using database = await openTestDatabase()
  const { sql, db } = database
  await sql`
    insert into accounts (id, email, password_hash)
    values ('acc_many', 'many@example.test', 'x'), ('acc_few', 'few@example.test', 'x')`
  let made = 0
  const key = (accountId: string, origins: readonly string[]) => sql`
    insert into api_keys (id, account_id, name, key_hash, prefix, last4, origins, created_at)
    values (${`key_${++made}`}, ${accountId}, 'a key', sha256(${`key_${made}`}::bytea), ${`sk-loket-${made}`}, 'last',
      ${sql.array([...origins], 1009)}, now() + ${made} * interval '1 second')`
  for (let n = 0; n < 14; n++) await key("acc_many", originsOf(0, 15))
  for (let n = 15; n < 195; n += 15) await key("acc_many", originsOf(n, 15))
  const read = async () => [...(await pageOriginStore(db).read())].toSorted()
  expect(await read()).toEqual(originsOf(0, 195).toSorted())
  await key("acc_many", originsOf(195, 5))
  await key("acc_many", originsOf(200, 1))
  await key("acc_few", ["https://few.example", ...originsOf(201, 1)])
  expect(await read()).toEqual([...originsOf(0, 200), ...originsOf(201, 1), "https://few.example"].toSorted())
})

// The embedded database takes a second for so many.
test.if(onPostgres)("where accounts have more origins than are kept, each has its first ones", async () => {
  await using database = await openTestDatabase()
  const { sql, db } = database
  await sql`
    insert into accounts (id, email, password_hash)
    select 'acc_' || n, n || '@example.test', 'x' from generate_series(0, 260) n`
  // The last of them has one, and came after all others.
  await sql`
    insert into api_keys (id, account_id, name, key_hash, prefix, last4, origins, created_at)
    select format('key_%s_%s', account, key), 'acc_' || account, 'a key', sha256(format('key_%s_%s', account, key)::bytea),
      format('sk-loket-%s-%s', account, key), 'last', origins, now() + (key * 1000 + account) * interval '1 second'
    from generate_series(0, 260) account, generate_series(0, 12) key, lateral (
      select array_agg(format('https://%s.of-%s.example', n, account)) as origins
      from generate_series(16 * key, least(16 * key + 15, 199)) n where account < 260 or n = 0) listed
    where origins is not null`
  const found = await pageOriginStore(db).read()
  expect([found.length, new Set(found).size]).toEqual([50_000, 50_000])
  expect(found).toContain("https://0.of-260.example")
  const numberOf = Map.groupBy(found, (origin) => origin.split(".of-")[1])
  expect(new Set([...numberOf].map(([, of]) => of.length))).toEqual(new Set([1, 192, 193]))
})
