import { expect, test } from "bun:test"
import { documentStore } from "../../src/store/documents.ts"
import { Books } from "../money/books.ts"
import { openTestDatabase } from "./harness.ts"

test("of the names of an account's keys those are read that are asked for, revoked ones too, and nobody else's", async () => {
  const target = await openTestDatabase()
  const books = await Books.open(target)
  const [own, other] = [await books.customer(), await books.customer()]
  const { accountId, keyId } = own
  await target.sql`
    insert into api_keys (id, account_id, name, key_hash, prefix, last4, revoked_at)
    select 'key_old' || n, ${accountId}, 'old ' || n, sha256(convert_to('old' || n, 'UTF8')), '', '', now() from generate_series(1, 50) n`
  await target.sql`update api_keys set name = 'in use' where id = ${keyId}`
  const names = await documentStore(target.db).keyNames(accountId, [keyId, "key_old7", other.keyId, "key_of_nobody"])
  expect(new Map(names)).toEqual(
    new Map([
      [keyId, "in use"],
      ["key_old7", "old 7"],
    ]),
  )
  expect([...(await documentStore(target.db).keyNames(accountId, []))]).toEqual([])
  await target.close()
})
