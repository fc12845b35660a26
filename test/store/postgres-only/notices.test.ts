/** What one process writes, others hear of, whoever wrote it; and a listener that was away says so. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { micro } from "../../../actors/money/micro.ts"
import { besideGateways } from "../../../src/payments/top-ups.ts"
import { growLease, returnLease } from "../../../src/store/leases.ts"
import { type Notice, Notices } from "../../../src/store/notices.ts"
import { Servers } from "../../../src/store/servers.ts"
import { Books } from "../../money/books.ts"
import { type FaultProxy, openFaultProxy } from "../fault-proxy.ts"
import { openTestDatabase, type TestDatabase } from "../harness.ts"
import { until } from "../../eventually.ts"

let target: TestDatabase
let proxy: FaultProxy
let books: Books
let notices: Notices
let heard: Notice[]
let missed: number
beforeEach(async () => {
  target = await openTestDatabase()
  proxy = await openFaultProxy(target.url)
  books = await Books.open(target)
  heard = []
  missed = 0
  notices = await Notices.listen({
    servers: new Servers(proxy.url),
    heard: (notice) => void heard.push(notice),
    missed: () => void missed++,
  })
})
afterEach(async () => {
  await notices.stop()
  await proxy.close()
  await target.close()
})

const changed = (key: string) => ({ what: "changed", about: "key", id: Buffer.from(key).toString("hex") }) as const

test("a change of a key, and of the account that it belongs to", async () => {
  const { keyId, accountId } = await books.account(0n)
  await target.sql`update accounts set deleted_at = now() where id = ${accountId}`
  await until(() => heard.length === 1)
  // Not the keys' business.
  await target.sql`update accounts set password_hash = 'y' where id = ${accountId}`
  await target.sql`update accounts set time_zone = 'UTC' where id = ${accountId}`
  await until(() => heard.length === 2)
  await target.sql`update api_keys set revoked_at = now() where id = ${keyId}`
  await until(() => heard.length === 3)
  // A revoked key is refused whatever its account is: nobody needs to hear of it again.
  await target.sql`update accounts set time_zone = 'Asia/Tokyo' where id = ${accountId}`
  const other = await books.account(0n)
  await target.sql`update api_keys set revoked_at = now() where id = ${other.keyId}`
  await until(() => heard.length === 4)
  expect(heard).toEqual([changed(keyId), changed(keyId), changed(keyId), changed(other.keyId)])
})

test("a change of a model, of a price, of a retired id and of a pool's member", async () => {
  const { sql } = target
  await sql`update models set tier = 'gold'`
  await until(() => heard.length === 1)
  await sql`update prices set effective_at = effective_at + interval '1 second'`
  await until(() => heard.length === 2)
  await sql`insert into model_aliases (alias, target, until) values ('old', 'm', now())`
  await until(() => heard.length === 3)
  await sql`insert into member_settings (member, state) values ('p/default/m', 'draining')`
  await until(() => heard.length === 4)
  expect(heard).toEqual(Array.from({ length: 4 }, () => ({ what: "changed", about: "catalogue" })))
})

test("money that is credited or given back, and not money that is leased or spent", async () => {
  const customer = await books.customer(1_000_000n)
  await until(() => heard.length === 1)
  await books.commit(customer.processId, { settlements: [books.settlement(customer)] })
  await returnLease(target.db, customer.lease.id, micro(100_000n))
  await until(() => heard.length === 2)
  const freed = { what: "freed", about: "account", id: customer.accountId } as const
  expect(heard).toEqual([freed, freed])
})

test("by how much a process is short, while another has some left", async () => {
  const { accountId, processId } = await books.customer(1_000n)
  const other = await books.process()
  await growLease(target.db, other, accountId, micro(300n), 0)
  await until(() => heard.length === 2)
  expect(heard[1]).toEqual({ what: "short", about: "account", id: accountId, processId: other, amount: micro(300n) })
  expect(processId).not.toBe(other)
  // One that was overtaken asks nobody: whoever sent it may have what it asks for.
  await growLease(target.db, other, accountId, micro(300n), 0)
  await books.credit(accountId, 1n)
  await until(() => heard.length === 3)
  expect(heard[2]).toMatchObject({ what: "freed" })
})

test("by how much a command is short, which has leased nothing itself", async () => {
  const { accountId } = await books.account(0n)
  besideGateways(target.db).recall(accountId, micro(300n))
  await until(() => heard.length === 1)
  expect(heard).toEqual([{ what: "short", about: "account", id: accountId, processId: "-", amount: micro(300n) }])
})

test("a listener whose connection was lost listens again, and says that it may have missed something", async () => {
  const { accountId } = await books.account(0n)
  proxy.refuse()
  proxy.cut()
  await books.credit(accountId, 1n)
  expect([heard, missed]).toEqual([[], 0])
  proxy.accept()
  await until(() => missed === 1)
  await books.credit(accountId, 1n)
  await until(() => heard.length === 1)
})
