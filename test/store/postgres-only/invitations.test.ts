/** Who is removed from an account while they invite somebody to it. */
import { expect, test } from "bun:test"
import { memberStore } from "../../../src/store/members.ts"
import { directConnection, openTestDatabase } from "../harness.ts"

test("an invitation that was on its way when its maker was removed leads nowhere", async () => {
  await using target = await openTestDatabase({ connections: 4 })
  const { sql } = target
  for (const name of ["firm", "leaver", "friend"])
    await sql`insert into accounts (id, email, password_hash) values (${`acc_${name}`}, ${`${name}@example.com`}, 'x')`
  await sql`
    insert into members (account_id, member_id, role, invited_by, invitation_hash)
    values ('acc_firm', 'acc_leaver', 'owner', 'acc_firm', 'x')`
  // One that is over, and is removed by whoever invites next.
  await sql`
    insert into invitations (id, account_id, email, role, invited_by, expires_at)
    values ('inv_over', 'acc_firm', 'over@example.com', 'viewer', 'acc_firm', now() - interval '1 day')`
  const holder = directConnection(target.url)
  await holder.sql`begin`
  await holder.sql`select from invitations where id = 'inv_over' for update`
  const store = memberStore(target.db)
  const tokenHash = new Uint8Array(32).fill(7)
  const invited = store.invite({
    id: "inv_late",
    accountId: "acc_firm",
    email: "friend@example.com",
    role: "owner",
    invitedBy: "acc_leaver",
    tokenHash,
  })
  const waiting = () =>
    sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  while ((await waiting()).length === 0) await Bun.sleep(10)
  expect(await store.remove({ accountId: "acc_firm", memberId: "acc_leaver" }, "acc_firm")).toBe(true)
  await holder.sql`commit`
  await holder.end()
  expect(await invited).toBeUndefined()
  expect(await store.open(tokenHash)).toBeUndefined()
  expect(await store.invitations("acc_firm")).toEqual([])
  expect(await store.accept(tokenHash, "acc_friend")).toBe("no link")
  expect(await store.list("acc_firm")).toEqual([])
}, 60_000)
