/** A sign-in that is under way while its account's password or role becomes another one. */
import { expect, test } from "bun:test"
import { accountMailStore } from "../../../src/store/account-mails.ts"
import { credentialStore } from "../../../src/store/credentials.ts"
import type { Database } from "../../../src/store/database.ts"
import { changeRole } from "../../../src/store/operator/role.ts"
import { sessionStore } from "../../../src/store/sessions.ts"
import { directConnection, openTestDatabase } from "../harness.ts"

const link = new Uint8Array([2])
const act = () => ({ requestId: crypto.randomUUID(), operatorId: undefined, address: undefined })
test.each([
  [
    "the password is changed",
    (db: Database) => credentialStore(db).changePassword("acc_a", { from: "old", to: "new", network: "n" }),
  ],
  ["the password is reset by a link", (db: Database) => accountMailStore(db).resetPassword(link, "new")],
  [
    "the role is changed",
    (db: Database) => changeRole(db, { id: "acc_a" }, { role: "support", act: act(), keepsAnOwner: false }),
  ],
])("a sign-in that commits while %s leaves no session, though the process should die then", async (_, change) => {
  await using target = await openTestDatabase()
  const { sql } = target
  await sql`insert into accounts (id, email, password_hash) values ('acc_a', 'a@example.com', 'old')`
  await accountMailStore(target.db).linkFor("acc_a", link, { act: act(), reason: "a test" })
  const holder = directConnection(target.url)
  await holder.sql`begin`
  const opened = await sessionStore({ ...target.db, run: async (statement) => await statement(holder.sql) }).open({
    accountId: "acc_a",
    from: { address: "192.0.2.1", userAgent: "a test" },
    network: "n",
    passwordHash: "old",
    showedFactor: false,
    tokenHash: new Uint8Array([1]),
    replaces: undefined,
  })
  expect(opened).toBeDefined()
  const changing = change(target.db)
  const waiting = () =>
    sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  while ((await waiting()).length === 0) await Bun.sleep(10)
  await holder.sql`commit`
  await holder.end()
  expect(await changing).toBeTruthy()
  expect(await sql`select id from sessions`).toHaveLength(0)
})
