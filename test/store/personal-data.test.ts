/** What is known of people: every column is in the document or is said here to tell nothing, and what is over its time goes. */
import { expect, test } from "bun:test"
import { webhookStore } from "../../src/store/account-events.ts"
import { accountStore } from "../../src/store/accounts.ts"
import { credentialStore } from "../../src/store/credentials.ts"
import type { Database } from "../../src/store/database.ts"
import { passkeyStore } from "../../src/store/passkeys.ts"
import { removeOverdue } from "../../src/store/retention.ts"
import { secondFactorStore } from "../../src/store/second-factors.ts"
import { sessionStore } from "../../src/store/sessions.ts"
import { openTestDatabase, type TestDatabase } from "./harness.ts"

/** The house's own: catalogue, prices, processes, books about books. */
const impersonal = new Set(
  "announcement_rounds announcements archived_leases archives backend_events backend_hours backend_middles call_hours call_late call_summed charges_end costs customer_days document_counters exchange_rates installation_secrets latency_summed member_settings model_aliases models prices processes profit_account_summed profit_house profit_late profit_parts proofs proven_leases reconciliations schema_migrations status_notes usage_spans_summed".split(
    " ",
  ),
)

/** Tables whose rows are named whole, because money's rows stay as they are. */
const wholeRow =
  /and (?:its counts|sums|amounts|amounts and times|times|what was done)|or `key_id`, and amounts|`figures`/

async function documented(): Promise<ReadonlyMap<string, ReadonlySet<string> | "whole">> {
  const text = await Bun.file("docs/operating/privacy.md").text()
  const known = new Map<string, Set<string> | "whole">()
  for (const row of text.split("\n").filter((line) => line.startsWith("| `"))) {
    const [data = "", purpose = "", time = ""] = row.split("|").slice(1)
    expect([row, purpose.trim() === "", time.trim() === ""]).toEqual([row, false, false])
    const [tables = "", columns = ""] = data.split(": ")
    for (const [, table = ""] of tables.matchAll(/`(\w+)`/g)) {
      const before = known.get(table)
      if (wholeRow.test(columns) || before === "whole") known.set(table, "whole")
      else
        known.set(
          table,
          new Set([...(before ?? []), ...[...columns.matchAll(/`(\w+)`/g)].map(([, name = ""]) => name)]),
        )
    }
  }
  return known
}

test("every column that may tell something of a person is in the document, with how long it is kept", async () => {
  await using database = await openTestDatabase()
  const columns = await database.sql<{ table: string; column: string }[]>`
    select c.relname as table, a.attname as column from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and a.attnum > 0 and not a.attisdropped`
  const known = await documented()
  const missing = columns
    .filter(({ table, column }) => {
      const named = known.get(table)
      return !impersonal.has(table) && named !== "whole" && named?.has(column) !== true
    })
    .map(({ table, column }) => `${table}.${column}`)
  expect(columns.length).toBeGreaterThan(200)
  expect(missing).toEqual([])
})

const account = async ({ sql }: TestDatabase, id: string, deletedDaysAgo?: number) => {
  await sql`
    insert into accounts (id, email, password_hash, low_balance_email, deleted_at) values (${id}, ${`${id}@mail.id`}, 'hash', 'x@mail.id',
      ${deletedDaysAgo === undefined ? null : new Date(Date.now() - deletedDaysAgo * 86_400_000)})`
  await sql`insert into balances (account_id) values (${id})`
  await sql`
    insert into api_keys (id, account_id, name, key_hash, prefix, last4)
    values (${`key_${id}`}, ${id}, 'of Ana', ${Buffer.from(id)}, 'sk-abc', 'wxyz')`
  await sql`insert into estimate_factors (account_id, model, part, factor, learnt_at) values (${id}, 'm', 'texts', 2, now())`
}
const nextRound = ({ sql }: TestDatabase) => sql`delete from allowances where name = 'retention'`

test("a deleted account's owner is forgotten at its time and not before, and its keys still answer as dead ones", async () => {
  await using database = await openTestDatabase()
  const { db, sql } = database
  await account(database, "acc_living")
  await account(database, "acc_young", 29.9)
  await account(database, "acc_old", 30.1)
  expect(await removeOverdue(db, { erasedAfterDays: 30 })).toEqual({
    keys_of_erased_accounts: 1,
    estimates_of_erased_accounts: 1,
    events_of_erased_accounts: 2,
    erased_accounts: 1,
  })
  const rows = await sql`
    select a.id, a.email, a.low_balance_email, k.name, k.prefix, k.key_hash from accounts a join api_keys k on k.account_id = a.id order by a.id`
  const kept = { low_balance_email: "x@mail.id", name: "of Ana", prefix: "sk-abc" }
  expect([...rows]).toEqual([
    { id: "acc_living", email: "acc_living@mail.id", key_hash: Buffer.from("acc_living"), ...kept },
    {
      id: "acc_old",
      email: "acc_old@deleted.invalid",
      low_balance_email: null,
      name: "",
      prefix: "",
      key_hash: Buffer.from("acc_old"),
    },
    { id: "acc_young", email: "acc_young@mail.id", key_hash: Buffer.from("acc_young"), ...kept },
  ])
  await nextRound(database)
  expect(await removeOverdue(db, { erasedAfterDays: 30 })).toEqual({})
})

/** A row of what opens an account, and of what is told of it, in each table; a member and a membership with `acc_third`. */
const rowsOf = async ({ sql }: TestDatabase, id: string) => {
  const bytes = Buffer.from(id)
  await sql`insert into sessions (token_hash, account_id, expires_at) values (${bytes}, ${id}, now() + interval '1 hour')`
  await sql`insert into account_networks (account_id, network) values (${id}, '192.0.2.1')`
  await sql`insert into account_mails (account_id, kind, email, expires_at) values (${id}, 'prove', 'a@mail.id', now() + interval '1 hour')`
  await sql`insert into second_factors (account_id, secret) values (${id}, ${bytes})`
  await sql`
    insert into passkeys (id, account_id, place, credential_id, public_key, counter, transports, name)
    values (${`pk_${id}`}, ${id}, 1, ${bytes}, '', 0, '{}', 'x')`
  await sql`insert into recovery_codes (account_id, code_hash) values (${id}, ${bytes})`
  await sql`insert into sign_in_steps (token_hash, account_id, password_hash, expires_at) values (${bytes}, ${id}, 'x', now() + interval '1 hour')`
  await sql`
    insert into refused_calls (request_id, account_id, key_id, refused_at, endpoint, code)
    values (${`req_${id}`}, ${id}, ${`key_${id}`}, now(), 'chat', 'request.invalid')`
  await sql`insert into refused_counts (account_id, hour, code, process_id, calls) values (${id}, now(), 'request.invalid', 'prc_1', 1)`
  await sql`
    insert into management_tokens (id, account_id, key_id, name, token_hash, prefix, last4)
    values (${`mgt_${id}`}, ${id}, ${`key_${id}`}, 'x', ${bytes}, 'mt-abc', 'wxyz')`
  await sql`insert into webhooks (account_id, url, secret) values (${id}, 'https://example.com/', 'whsec_x')`
  await sql`
    insert into members (account_id, member_id, role, invited_by, invitation_hash)
    values (${id}, 'acc_third', 'viewer', 'x', ''), ('acc_third', ${id}, 'viewer', 'x', '')`
  await sql`
    insert into invitations (id, account_id, email, role, invited_by, expires_at)
    select 'inv_' || ${id}::text || account, account, ${id}::text || '@mail.id', 'viewer', ${id}, now() + interval '1 day'
    from (values (${id}::text), ('acc_third')) as invited (account)`
}
const tables =
  "sessions account_networks account_mails second_factors passkeys recovery_codes sign_in_steps refused_calls refused_counts management_tokens webhooks members invitations".split(
    " ",
  )

test("with an account goes at once what opens it and what was told of it, and nothing of another's", async () => {
  await using database = await openTestDatabase()
  const { db, sql } = database
  for (const id of ["acc_gone", "acc_other", "acc_third"]) await account(database, id)
  for (const id of ["acc_gone", "acc_other"]) await rowsOf(database, id)
  await accountStore(db).delete("acc_gone")
  for (const table of tables) {
    const [row] = await sql`
      select count(*) filter (where t::text like '%acc_gone%' or t.account_id = 'acc_gone')::int as gone,
        count(*) filter (where t.account_id = 'acc_other')::int as other
      from ${sql(table)} t`
    expect([table, row]).toEqual([table, { gone: 0, other: 1 }])
  }
})

const bytes = (text: string) => new Uint8Array(Buffer.from(text))

test("what is done to an account's password, factors, sessions and webhook changes nothing of another's", async () => {
  await using database = await openTestDatabase()
  const { db, sql } = database
  for (const id of ["acc_own", "acc_other", "acc_third"]) await account(database, id)
  for (const id of ["acc_own", "acc_other"]) await rowsOf(database, id)
  await sql`update second_factors set confirmed_at = now() where account_id = 'acc_other'`
  for (const [id, hours] of [
    ["acc_own", -1],
    ["acc_other", -1],
    ["acc_other", 2],
  ] as const)
    await sql`insert into sessions (token_hash, account_id, expires_at, address)
      values (${Buffer.from(`${id} ${hours}`)}, ${id}, now() + make_interval(hours => ${hours}), 'x')`
  await sql`insert into account_mails (account_id, kind, email, expires_at) values ('acc_other', 'reset', 'a@mail.id', now() + interval '1 hour')`
  await sql`
    insert into account_networks (account_id, network, signed_in_at)
    select id, '203.0.113.' || n, now() + make_interval(secs => n) from generate_series(1, 25) n, (values ('acc_own'), ('acc_other')) a (id)`
  await sql`insert into sign_in_steps (token_hash, account_id, password_hash, expires_at)
    select n::text::bytea, 'acc_own', 'x', now() + interval '2 hours' from generate_series(1, 18) n`
  const rowsIn = async (table: string, id: string) =>
    (await sql`select to_jsonb(t) as row from ${sql(table)} t where account_id = ${id} order by 1`).map(
      ({ row }) => row as Record<string, unknown>,
    )
  const others = () => Promise.all(tables.map((table) => rowsIn(table, "acc_other")))
  const before = await others()
  expect(before.flat()).toHaveLength(41)
  /** How much the account itself has after it. */
  const after = async (act: Promise<unknown>) => {
    await act
    expect(await others()).toEqual(before)
    const of = async (table: string) => (await rowsIn(table, "acc_own")).length
    const sessions = await rowsIn("sessions", "acc_own")
    return {
      codes: await of("recovery_codes"),
      steps: await of("sign_in_steps"),
      networks: await of("account_networks"),
      webhooks: await of("webhooks"),
      sessions: sessions.length,
      shown: sessions.filter((session) => session["factor_at"] !== null).length,
    }
  }
  const [own] = await sql`select id from sessions where account_id = 'acc_own' and expires_at > now()`
  const sessionId = String(own?.["id"])
  const [factors, passkeys, sessions] = [secondFactorStore(db), passkeyStore(db), sessionStore(db)]
  const webhooks = webhookStore(db)
  const first = { sessionId, codeHashes: [bytes("code")] }
  const app = { ...first, secret: bytes("acc_own"), step: 1 }
  const passkey = { ...first, accountId: "acc_own", name: "x", publicKey: bytes(""), counter: 0, transports: [] }
  const signIn = { accountId: "acc_own", passwordHash: "hash", showedFactor: false, replaces: undefined }
  const from = { from: { address: "192.0.2.1", userAgent: "" }, network: "192.0.2.1" }
  const act = { requestId: "req_1", operatorId: undefined, address: undefined }

  expect(await after(factors.confirm("acc_own", app))).toMatchObject({ codes: 1, sessions: 1, shown: 1 })
  expect(await after(factors.replaceCodes("acc_own", [bytes("1"), bytes("2")]))).toMatchObject({ codes: 2 })
  const step = { accountId: "acc_own", email: "", passwordHash: "hash", tokenHash: bytes("step") }
  expect(await after(factors.openStep(step))).toMatchObject({ steps: 20 })
  expect(await after(passkeys.remove("acc_own", "pk_acc_own", sessionId))).toMatchObject({ codes: 2, shown: 1 })
  expect(await after(factors.removeApp("acc_own", sessionId))).toMatchObject({ codes: 0, steps: 0, shown: 0 })
  const added = passkeys.add({ ...passkey, id: "pk_own", credentialId: bytes("own") })
  expect(await after(added)).toMatchObject({ codes: 1, shown: 1 })
  expect(await after(passkeys.remove("acc_own", "pk_own", sessionId))).toMatchObject({ codes: 0, shown: 0 })
  expect(await after(sessions.open({ ...signIn, ...from, tokenHash: bytes("new") }))).toMatchObject({
    networks: 20,
    sessions: 2,
  })
  expect(await after(sessions.endAll("acc_own", sessionId))).toMatchObject({ sessions: 1 })
  expect(await after(factors.remove("acc_own", { act, reason: "lost" }))).toMatchObject({ sessions: 1 })
  const password = { from: "hash", to: "another", network: "192.0.2.2" }
  expect(await after(credentialStore(db).changePassword("acc_own", password))).toMatchObject({ networks: 0 })
  for (const id of ["acc_own", "acc_other"]) expect(await webhooks.test(id)).toBe(true)
  expect(await after(webhooks.set("acc_own", "https://example.net/", "whsec_y"))).toMatchObject({ webhooks: 1 })
  expect(await after(webhooks.rotate("acc_own", "whsec_z"))).toMatchObject({ webhooks: 1 })
  for (const [id, url] of [
    ["acc_own", "https://example.net/"],
    ["acc_other", "https://example.com/"],
  ] as const)
    expect(await webhooks.read(id)).toMatchObject({ url })
  expect(await after(webhooks.remove("acc_own"))).toMatchObject({ webhooks: 0 })
})

test("nothing of a forgotten owner is left in the rows that stay", async () => {
  await using database = await openTestDatabase()
  const { db, sql } = database
  await account(database, "acc_old", 30.1)
  await sql`
    update accounts set password_hash = 'of Ana', buyer_name = 'Ana', buyer_address = 'of Ana', buyer_npwp = '012345678901000',
      low_balance_threshold_micro = 1, low_balance_told_at = now(), frozen_at = now(), frozen_reason = 'of Ana'`
  await sql`update api_keys set networks = '{203.0.113.7/32}', origins = '{https://ana.example}'`
  await removeOverdue(db, { erasedAfterDays: 30 })
  const rows = await sql<
    { row: string }[]
  >`select a::text as row from accounts a union all select k::text from api_keys k`
  const text = rows.map(({ row }) => row).join()
  for (const word of ["Ana", "ana.example", "203.0.113.7", "012345678901000", "mail.id"])
    expect(text).not.toContain(word)
  const [kept] =
    await sql`select low_balance_threshold_micro, low_balance_told_at, frozen_at is not null as frozen from accounts`
  expect(kept).toEqual({ low_balance_threshold_micro: null, low_balance_told_at: null, frozen: true })
})

const waiting = (id: string) => [id, `${id}@mail.id`, "Ana"]
const erased = (id: string) => [id, `${id}@deleted.invalid`, null]

test("to whom a refund is to be paid is known until it has ended", async () => {
  await using database = await openTestDatabase()
  const { db, sql } = database
  for (const status of ["booked", "sending", "paid_out", "cancelled"]) {
    const id = `acc_${status}`
    await account(database, id, 31)
    await sql`update accounts set buyer_name = 'Ana' where id = ${id}`
    await sql`insert into top_ups (id, account_id, provider, balance_purchased_micro, service_fee_micro, payment_fee_micro, network_fee_micro, status, qr_payload, expires_at)
      values (${`top_${status}`}, ${id}, 'midtrans', 5, 0, 0, 0, 'pending', '', now())`
    await sql`insert into refunds (id, account_id, top_up_id, kind, idempotency_key, balance_micro, service_fee_micro, payment_fee_micro, claimed_micro, reason, status,
        next_attempt_at, paid_out_at, cancelled_at)
      values (${`ref_${status}`}, ${id}, ${`top_${status}`}, 'refund', 'operator:1', 1, 0, 0, 0, 'closed', ${status}, now(),
        ${status === "paid_out" ? new Date() : null}, ${status === "cancelled" ? new Date() : null})`
  }
  const known = async () =>
    (await sql`select id, email, buyer_name from accounts order by id`).map(({ id, email, buyer_name: buyer }) => [
      id,
      email,
      buyer,
    ])
  expect(await removeOverdue(db, { erasedAfterDays: 30 })).toMatchObject({ erased_accounts: 2 })
  expect(await known()).toEqual([
    waiting("acc_booked"),
    erased("acc_cancelled"),
    erased("acc_paid_out"),
    waiting("acc_sending"),
  ])
  await nextRound(database)
  expect(await removeOverdue(db, { erasedAfterDays: 30 })).toEqual({})

  await sql`update refunds set status = 'paid_out', paid_out_at = now() where id = 'ref_booked'`
  await nextRound(database)
  expect(await removeOverdue(db, { erasedAfterDays: 30 })).toMatchObject({ erased_accounts: 1 })
  expect(await known()).toContainEqual(erased("acc_booked"))
  expect(await known()).toContainEqual(waiting("acc_sending"))
})

test("no more goes at once than a batch, also of a table that was empty when the planner looked last", async () => {
  await using database = await openTestDatabase()
  const { db, sql } = database
  await account(database, "acc_1")
  const fill = () => sql`
    insert into sessions (token_hash, account_id, expires_at)
    select ('over ' || n)::bytea, 'acc_1', now() - interval '1 second' from generate_series(1, 1100) n`
  await fill()
  await sql`delete from sessions`
  await sql`analyze sessions`
  await fill()
  const batches: number[] = []
  const counting: Database = Object.assign(Object.create(db) as Database, {
    async run<T>(...asked: Parameters<Database["run"]>): Promise<T> {
      const rows = (await db.run(...asked)) as T
      if (Array.isArray(rows) && rows.length > 1) batches.push(rows.length)
      return rows
    },
  })
  expect(await removeOverdue(counting, { erasedAfterDays: 30 })).toEqual({ sessions: 1_100 })
  expect(batches).toEqual([500, 500, 100])
})

test("sessions, networks, sign-ups and mails go when they are over, and many at once", async () => {
  await using database = await openTestDatabase()
  const { db, sql } = database
  await account(database, "acc_1")
  await sql`
    insert into sessions (token_hash, account_id, expires_at)
    select ('over ' || n)::bytea, 'acc_1', now() - interval '1 second' from generate_series(1, 1100) n`
  await sql`insert into sessions (token_hash, account_id, expires_at) values ('good', 'acc_1', now() + interval '1 minute')`
  await sql`
    insert into account_networks (account_id, network, signed_in_at)
    values ('acc_1', '1.1.1.1', now() - interval '91 days'), ('acc_1', '2.2.2.2', now() - interval '89 days')`
  await sql`insert into sign_ups (network, day_began_at) values ('1.1.1.1', now() - interval '25 hours'), ('2.2.2.2', now())`
  await sql`
    insert into account_mails (account_id, kind, email, expires_at)
    values ('acc_1', 'prove', 'a@mail.id', now() - interval '1 second'), ('acc_1', 'prove', 'a@mail.id', now() + interval '1 hour')`
  await sql`
    insert into sign_in_steps (token_hash, account_id, password_hash, expires_at)
    values ('over', 'acc_1', 'x', now() - interval '1 second'), ('good', 'acc_1', 'x', now() + interval '1 minute')`
  await sql`
    insert into invitations (id, account_id, email, role, invited_by, expires_at)
    select 'inv_' || name, 'acc_1', name || '@mail.id', 'viewer', 'acc_1', until
    from (values ('over', now() - interval '1 second'), ('good', now() + interval '1 minute')) as made (name, until)`
  await sql`
    insert into passkey_challenges (challenge, purpose, bound_to, expires_at)
    values ('over', 'sign-in', '', now() - interval '1 second'), ('good', 'sign-in', '', now() + interval '1 minute')`
  await sql`
    insert into allowances (name, used, ends_at)
    values ('over', 1, now() - interval '1 second'), ('good', 1, now() + interval '1 minute')`
  await sql`
    insert into outbox (account_id, channel, kind, data, expires_at, due_at, created_at)
    select 'acc_1', 'mail', 'balance.low', '{}', now(), due, now() - make_interval(days => age)
    from (values (null::timestamptz, 31), (null, 29), (now(), 31)) as told (due, age)`
  expect(await removeOverdue(db, { erasedAfterDays: 30 })).toEqual({
    sessions: 1_100,
    account_networks: 1,
    sign_ups: 1,
    account_mails: 1,
    invitations: 1,
    sign_in_steps: 1,
    passkey_challenges: 1,
    outbox: 1,
  })
  const [left] = await sql`
    select (select count(*)::int from sessions) as sessions, (select network from account_networks) as known,
      (select network from sign_ups) as network, (select count(*)::int from account_mails) as mails,
      (select id from invitations) as invitation, (select encode(token_hash, 'escape') from sign_in_steps) as step,
      (select encode(challenge, 'escape') from passkey_challenges) as challenge,
      (select name from allowances where name <> 'retention') as allowance`
  expect(left).toEqual({
    sessions: 1,
    known: "2.2.2.2",
    network: "2.2.2.2",
    mails: 1,
    invitation: "inv_good",
    step: "good",
    challenge: "good",
    allowance: "good",
  })
})

test("a run goes thirty days after its end, with what it has spent and leased; its calls' records stay", async () => {
  await using database = await openTestDatabase()
  const { db, sql } = database
  await account(database, "acc_1")
  await sql`insert into processes (id) values ('prc_1')`
  await sql`
    insert into runs (id, account_id, key_id, name, budget_micro, created_at, ends_at)
    select 'run_' || n, 'acc_1', 'key_acc_1', n, 9, now() - interval '99 days', now() - make_interval(days => ended)
    from (values ('over', 31), ('held', 31), ('young', 29), ('open', -1)) as made (n, ended)`
  await sql`insert into key_spend (key_id, period, period_start, spent_micro) select id, 'total', 'epoch', 5 from runs`
  await sql`
    insert into budget_leases (key_id, period, period_start, process_id, granted_micro, settled_micro)
    select id, 'total', 'epoch', 'prc_1', case id when 'run_held' then 6 else 5 end, 5 from runs`
  expect(await removeOverdue(db, { erasedAfterDays: 30 })).toEqual({ runs: 1 })
  const left =
    await sql`select id, (select spent_micro from key_spend where key_id = id) as spent from runs order by id`
  expect([...left]).toEqual([
    { id: "run_held", spent: 5n },
    { id: "run_open", spent: 5n },
    { id: "run_young", spent: 5n },
  ])
  expect((await sql`select from key_spend where key_id = 'run_over'`).length).toBe(0)
  const leased = await sql`select key_id from budget_leases order by key_id`
  expect(leased.map(({ key_id: id }) => id)).toEqual(["run_held", "run_open", "run_young"])
})

test("a rule that cannot be carried out is told, and keeps nothing else from going", async () => {
  await using database = await openTestDatabase()
  const { db, sql } = database
  await account(database, "acc_old", 30.1)
  // As where a table is too large for the time that a statement has, or the role may not remove its rows.
  await sql`alter table account_networks rename to hidden`
  expect(await removeOverdue(db, { erasedAfterDays: 30 }).catch(String)).toContain("account_networks")
  expect([...(await sql`select email from accounts`)]).toEqual([{ email: "acc_old@deleted.invalid" }])
})

test("of several processes one does it in an hour", async () => {
  await using database = await openTestDatabase()
  const rounds = await Promise.all([1, 2, 3].map(() => removeOverdue(database.db, { erasedAfterDays: 30 })))
  expect(rounds.filter((removed) => removed !== undefined)).toHaveLength(1)
  const later = (time: string) =>
    database.sql`update allowances set ends_at = ends_at - ${time}::interval where name = 'retention'`
  await later("00:59:30")
  expect(await removeOverdue(database.db, { erasedAfterDays: 30 })).toBeUndefined()
  await later("00:00:30")
  expect(await removeOverdue(database.db, { erasedAfterDays: 30 })).toEqual({})
})

/** How many rows of each kind a round removes where each statement finds so many. */
const round = async (rows: number) => {
  const database = { run: async () => Array.from({ length: rows }, () => ({})) } as unknown as Database
  const removed = await removeOverdue(database, { erasedAfterDays: 30 })
  return new Set(Object.values(removed ?? {}))
}

test("a round removes fifty thousand rows of a kind at most, five hundred at a time", async () => {
  expect(await round(500)).toEqual(new Set([50_000]))
  // There is no more.
  expect(await round(499)).toEqual(new Set([499]))
})

test("what was done to an account is told for a year, and is forgotten with its owner", async () => {
  await using database = await openTestDatabase()
  const { db, sql } = database
  await account(database, "acc_living")
  await account(database, "acc_old", 30.1)
  await sql`delete from account_events where account_id = 'acc_living'`
  await sql`
    insert into account_events (account_id, action, at) values
      ('acc_living', 'older', now() - interval '365 days 1 minute'), ('acc_living', 'younger', now() - interval '364 days 23 hours')`
  expect(await removeOverdue(db, { erasedAfterDays: 30 })).toMatchObject({
    account_events: 1,
    events_of_erased_accounts: 2,
  })
  expect([...(await sql`select account_id, action from account_events`)]).toEqual([
    { account_id: "acc_living", action: "younger" },
  ])
})
