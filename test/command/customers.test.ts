/** `account`, `key` and `topup` on books of two customers: what they show, what they change, and what is left of it in the audit log. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { hostname } from "node:os"
import { micro } from "../../actors/money/micro.ts"
import { Adjustments } from "../../src/accounts/adjustments.ts"
import { hashSessionToken } from "../../src/accounts/bearer-tokens.ts"
import { accountMailStore } from "../../src/store/account-mails.ts"
import { openBooks } from "../reconciliation/world.ts"
import { directConnection, openPlace } from "../store/scratch.ts"
import { auditStore } from "../../src/store/operator/audit.ts"
import { loket } from "./loket.ts"

let world: Awaited<ReturnType<typeof openBooks>>
beforeAll(async () => {
  world = await openBooks()
})
afterAll(() => world.close())

const run = (...args: string[]) => loket({ DATABASE_URL: world.url }, ...args)
const json = async (...args: string[]): Promise<Record<string, unknown>> => {
  const ran = await run(...args, "--json")
  if (ran.code !== 0) throw new Error(ran.complaint)
  return JSON.parse(ran.said) as Record<string, unknown>
}
const audited = async (subject: string) =>
  (await auditStore(world.db).list({ subject, before: undefined, limit: 10 })).map(({ action, reason, operator }) => ({
    action,
    reason,
    operator,
  }))

async function victim() {
  const id = world.victim.accountId
  const [{ email } = { email: "" }] = await world.sql<{ email: string }[]>`select email from accounts where id = ${id}`
  const [{ id: keyId } = { id: "" }] = await world.sql<{ id: string }[]>`
    select id from api_keys where account_id = ${id} limit 1`
  return { id, email, keyId, topUpId: world.victim.topUpId }
}

test("an account is found by part of its address, and shown by its whole address or its id", async () => {
  const { id, email } = await victim()
  for (const part of [email.slice(1), `  ${email.slice(1)} `])
    expect((await run("account", "list", part)).said).toContain(id)
  const list = (await json("account", "list", "--limit", "1")) as { data: unknown[]; next_cursor: string }
  expect(list.data.length).toBe(1)
  const more = await run("account", "list", "--limit", "1", "--cursor", list.next_cursor)
  expect(more.said.split("\n").length).toBeGreaterThan(1)
  for (const name of [id, email, email.toUpperCase()]) {
    const shown = await run("account", "show", name)
    expect(shown).toMatchObject({ code: 0, complaint: "" })
    expect(shown.said).toMatch(new RegExp(`^id +${id}$`, "m"))
    expect(shown.said).toMatch(/^balance +Rp 10000\.8$/m)
  }
  const ofApi = await json("account", "show", id)
  expect(ofApi).toMatchObject({ id, balance_micro: 10_000_800_000, frozen: false, top_ups: [{ status: "paid" }] })
  expect(await run("account", "show", "nobody@mail.id")).toMatchObject({
    code: 1,
    said: "",
    complaint: "there is no account nobody@mail.id; look for it with `loket account list nobody@m`",
  })
  // What is looked for finds no more than is meant, and a whole key is told no further.
  for (const [name, said, list] of [
    ["sk-loket-abcdefghijklmnop", "sk-loket-abcd…", "sk-loket-abcd"],
    ["req_0mx1mf2rwDNpMsVRgzxrASQMp9t", "req_0mx1mf2rwDNpMsVRgzxrASQMp9t", "req_0mx1mf2rwDNpMsVRgzxrASQMp9t"],
    ["key_yHAIQ66HJPOTco-xoSa_U", "key_yHAIQ66HJPOTco-xoSa_U", "key_yHAIQ66HJPOTco-xoSa_U"],
  ])
    expect((await run("key", "list", name!)).complaint).toBe(
      `there is no account ${said}; look for it with \`loket account list ${list}\``,
    )
})

test("the next page that a list names is of the same list, as it can be typed", async () => {
  const lists = [
    ["account", "list", "@example.test", "--limit", "1"],
    ["topup", "list", "--status", "paid", "--limit", "1"],
  ]
  for (const words of lists) {
    const more = /^more: loket (.+)$/m.exec((await run(...words)).said)?.[1]?.split(" ") ?? []
    expect(more.slice(0, -1)).toEqual([...words, "--cursor"])
    const next = await run(...more)
    expect(next).toMatchObject({ code: 0, complaint: "" })
    expect(next.said).not.toContain("more:")
  }
})

test("what an account owes for payments that were taken back is shown, since its calls are refused for it", async () => {
  const { id } = await victim()
  expect((await run("account", "show", id)).said).not.toContain("owes")
  await world.sql`insert into accounts select r.* from accounts a,
    lateral jsonb_populate_record(a, jsonb_build_object('id', 'acc_owes', 'email', 'owes@example.test')) r where a.id = ${id}`
  await world.sql`insert into balances (account_id, claim_micro) values ('acc_owes', 30000000000)
    on conflict (account_id) do update set claim_micro = excluded.claim_micro`
  const { said } = await run("account", "show", "acc_owes")
  expect(said).toMatch(/^owes +Rp 30000 for payments that were taken back: .* calls get 402$/m)
  await world.sql`delete from balances where account_id = 'acc_owes'`
  await world.sql`delete from accounts where id = 'acc_owes'`
})

test("who else works on an account is shown", async () => {
  const { id, email } = await victim()
  expect((await run("account", "show", id)).said).not.toContain("member")
  await world.sql`insert into accounts select r.* from accounts a,
    lateral jsonb_populate_record(a, '{"id":"acc_works","email":"works@example.test"}') r where a.id = ${id}`
  await world.sql`insert into members (account_id, member_id, role, invited_by, invitation_hash) values (${id}, 'acc_works', 'viewer', ${id}, '')`
  expect((await run("account", "show", id)).said).toMatch(
    new RegExp(`^works@example.test +acc_works +viewer .* ${email}$`, "m"),
  )
  expect(await json("account", "show", id)).toMatchObject({ members: [{ id: "acc_works", role: "viewer" }] })
  await world.sql`delete from members where member_id = 'acc_works'`
  await world.sql`delete from accounts where id = 'acc_works'`
})

test("where an account has more keys and top-ups than are shown, the commands that list all are named", async () => {
  const { id, keyId, topUpId } = await victim()
  expect((await run("account", "show", id)).said).not.toContain("all:")
  const rows = async (table: string, like: string, set: string) =>
    await world.sql.unsafe(`insert into ${table} select r.* from ${table} t, generate_series(1, 100) n,
      lateral jsonb_populate_record(t, jsonb_build_object(${set})) r where t.id = '${like}'`)
  await rows("api_keys", keyId, "'id', 'key_more' || n, 'key_hash', 'more' || n")
  await rows("top_ups", topUpId, "'id', 'top_more' || n, 'reference', 'more' || n")
  const { said } = await run("account", "show", id)
  expect(said).toContain(`all: loket key list ${id}\n`)
  expect(said).toEndWith(`all: loket topup list --account ${id}`)
  expect((await json("account", "show", id))["keys"]).toHaveLength(100)
  await world.sql`delete from api_keys where id like 'key_more%'`
  await world.sql`delete from top_ups where id like 'top_more%'`
})

test("a freeze and its end are one row of the audit log each, with the reason, and come once", async () => {
  const { id, email } = await victim()
  const before = await audited(id)
  expect((await run("account", "freeze", email, "--reason", "chargeback")).said).toBe(
    `${email} (${id}): frozen: its keys are refused`,
  )
  expect(await json("account", "freeze", email, "--reason", "again")).toMatchObject({ frozen_reason: "chargeback" })
  expect((await run("account", "freeze", email, "--reason", "again")).said).toMatch(
    /: frozen already since [-\d]+ [\d:]+, for the reason that stays: chargeback$/,
  )
  expect(await json("account", "unfreeze", id, "--reason", "paid")).toMatchObject({ frozen: false })
  expect(await audited(id)).toEqual([
    { action: "account.unfrozen", reason: "paid", operator: undefined },
    { action: "account.frozen", reason: "chargeback", operator: undefined },
    ...before,
  ])
})

test("balance is given and taken in rupiah, once under a key, and never more than there is", async () => {
  const { id } = await victim()
  const before = (await json("account", "show", id))["balance_micro"] as number
  const balance = async () => (await json("account", "show", id))["balance_micro"]
  const adjust = (...args: string[]) => run("account", "adjust", id, ...args, "--reason", "goodwill")
  const adjusted = async () => (await audited(id)).filter(({ action }) => action === "account.adjusted").length
  const adjustedBefore = await adjusted()
  expect((await adjust("2500.5", "--once", "a")).code).toBe(0)
  expect((await adjust("2500.5", "--once", "a")).code).toBe(0)
  expect(await balance()).toBe(before + 2_500_500_000)
  expect(await adjust("7", "--once", "a")).toMatchObject({
    code: 1,
    complaint: expect.stringContaining("was used for"),
  })
  expect((await adjust("-2500.5")).said).toContain("Rp -2500.5; the balance is")
  expect(await balance()).toBe(before)
  expect(await adjusted()).toBe(adjustedBefore + 2)
  expect(await adjust("-999999999")).toMatchObject({
    code: 1,
    complaint: `the balance is Rp ${before / 1_000_000}, and Rp ${(before - 999_999_999_000_000) / 1_000_000} would be left: nothing was changed`,
  })
  expect(await balance()).toBe(before)
  for (const wrong of ["25.000", "25,000", "0", "1e9", "Rp5", "", "99999999999"])
    expect(await adjust(wrong)).toMatchObject({ code: 2, complaint: expect.stringContaining("argument 'rupiah'") })
  expect(await run("account", "adjust", id, "5")).toMatchObject({
    code: 2,
    complaint: expect.stringContaining("required option '--reason <text>'"),
  })
  expect((await run("account", "adjust", id, "5", "--reason", " ")).code).toBe(2)
})

test("why a balance is not adjusted is a kind, whatever its words are", async () => {
  const { id: accountId } = await victim()
  const adjustments = new Adjustments({ database: world.db, recall() {}, credited() {} })
  const act = { requestId: "cmd_why", operatorId: undefined, address: undefined }
  const ask = (rupiah: bigint, account = accountId) =>
    adjustments.make(
      { accountId: account, amountMicro: micro(rupiah * 1_000_000n), reason: "goodwill", idempotencyKey: `k${rupiah}` },
      act,
    )
  expect(await ask(-999_999_999n)).toMatchObject({ why: "over balance" })
  expect(await ask(9_007_199_254n)).toMatchObject({ why: "too large" })
  expect(await ask(1n)).toBeGreaterThan(0n)
})

test("who adjusts a balance is told that the customer reads why", async () => {
  const help = (await run("account", "adjust", "--help")).said.replaceAll(/\s+/g, " ")
  expect(help).toContain("--reason <text> for the customer, who reads it on the statement, and for the log")
})

test("a large adjustment needs a yes where nobody can be asked, and nothing is changed without it", async () => {
  const { id } = await victim()
  const balance = async () => (await json("account", "show", id))["balance_micro"] as number
  const before = await balance()
  const adjust = (...args: string[]) => run("account", "adjust", id, ...args, "--reason", "goodwill")
  expect(await adjust("5000000.5")).toMatchObject({
    code: 2,
    said: "",
    complaint: expect.stringContaining("needs --yes"),
  })
  expect(await balance()).toBe(before)
  expect((await adjust("5000000")).code).toBe(0)
  expect((await adjust("5000000.5", "--yes")).code).toBe(0)
  expect((await adjust("-10000000.5")).code).toBe(2)
  expect(await balance()).toBe(before + 10_000_000_500_000)
  expect((await adjust("-10000000.5", "--yes")).code).toBe(0)
  expect(await balance()).toBe(before)
})

test("on a terminal an adjustment is made after a yes alone", async () => {
  const { id } = await victim()
  const balance = async () => (await json("account", "show", id))["balance_micro"] as number
  const before = await balance()
  const answered = async (answer: string, ...options: string[]) => {
    let shown = ""
    const child = Bun.spawn(
      [process.execPath, "src/main.ts", "account", "adjust", id, "25", "--reason", "goodwill", ...options],
      {
        env: { PATH: process.env["PATH"], DATABASE_URL: world.url },
        terminal: {
          data(terminal, piece) {
            const asked = shown.includes("[y/N]")
            shown += new TextDecoder().decode(piece)
            if (!asked && shown.includes("[y/N]")) terminal.write(answer)
          },
        },
      },
    )
    const code = await child.exited
    return { code, shown, asked: shown.includes("[y/N]"), given: (await balance()) - before }
  }
  for (const no of ["n\n", "\n", "yesterday\n", "\u0004", "\u0003"])
    expect(await answered(no)).toMatchObject({
      code: 1,
      asked: true,
      given: 0,
      shown: expect.stringContaining("give Rp 25: "),
    })
  expect(await answered("y\n")).toMatchObject({ code: 0, asked: true, given: 25_000_000 })
  expect(await answered("", "--yes")).toMatchObject({ code: 0, asked: false, given: 50_000_000 })
  expect((await run("account", "adjust", id, "-50", "--reason", "back")).code).toBe(0)
})

test("a key or an account that its owner's ceiling has paused is not told as one that works", async () => {
  const { id, keyId } = await victim()
  const pause = async (since: string) => {
    await world.sql.unsafe(`update api_keys set paused_at = ${since} where id = '${keyId}'`)
    await world.sql.unsafe(`update accounts set paused_at = ${since} where id = '${id}'`)
  }
  await pause("now()")
  expect((await run("key", "list", id)).said).toMatch(/ paused$/m)
  expect((await run("account", "list", id)).said).toMatch(/ paused$/m)
  expect((await run("key", "show", keyId)).said).toMatch(/^status +paused$/m)
  const { said } = await run("account", "show", id)
  expect(said).toMatch(/^paused +\d{4}-.* until its owner resumes it, by its owner's ceiling$/m)
  await pause("null")
  expect((await run("account", "show", id)).said).not.toContain("paused")
})

test("a key is listed, shown and revoked once, with a row of the audit log", async () => {
  const { id, keyId } = await victim()
  expect((await run("key", "list", id)).said).toMatch(new RegExp(`^${keyId} .*active$`, "m"))
  expect((await run("key", "show", keyId)).said).toMatch(/^status +active$/m)
  expect(await json("key", "revoke", keyId, "--reason", "leaked")).toMatchObject({ status: "revoked", account_id: id })
  const [first] = await world.sql<{ revoked_at: Date }[]>`select revoked_at from api_keys where id = ${keyId}`
  expect((await run("key", "revoke", keyId, "--reason", "again")).code).toBe(0)
  const [second] = await world.sql<{ revoked_at: Date }[]>`select revoked_at from api_keys where id = ${keyId}`
  expect(second).toEqual(first)
  expect(await audited(keyId)).toEqual([{ action: "key.revoked", reason: "leaked", operator: undefined }])
  const unknown = await run("key", "revoke", "key_nothing", "--reason", "x")
  expect(unknown).toMatchObject({ code: 1, complaint: expect.stringContaining("loket key list <account>") })
  const whole = await run("key", "show", "sk-loket-abcdefghijklmnop")
  expect(whole.complaint).toContain("that is a key and not its id")
  expect(whole.complaint).not.toContain("ghijklmnop")
})

test("top-ups are listed and shown; one whose provider keeps no list cannot be asked about", async () => {
  const { id, topUpId } = await victim()
  expect((await run("topup", "list", "--status", "paid")).said).toContain(topUpId)
  expect((await run("topup", "list", "--account", id)).said).toContain(topUpId)
  const [other] = await world.sql<{ id: string; account_id: string }[]>`
    select id, account_id from top_ups where account_id <> ${id} limit 1`
  const { said } = await run("topup", "list", "--account", other?.account_id ?? "")
  expect([said.includes(topUpId), said.includes(other?.id ?? "none")]).toEqual([false, true])
  expect(await run("topup", "list", "--account", "nobody@example.test")).toMatchObject({ code: 1 })
  // As a shell gives it that has no such variable.
  expect(await run("topup", "list", "--account", "")).toMatchObject({ code: 1, said: "" })
  expect(await run("topup", "list", "--status", "lost")).toMatchObject({
    code: 2,
    complaint: expect.stringContaining("pending, paid, expired"),
  })
  expect(await json("topup", "show", topUpId)).toMatchObject({ account_id: id, status: "paid" })
  expect((await run("topup", "show", topUpId)).said).toMatch(/^to be paid +Rp 10500, fees included$/m)
  expect(await run("topup", "check", topUpId)).toMatchObject({
    code: 1,
    complaint: "simulated cannot be asked: it keeps no list of payments",
  })
})

test("of a top-up it is told what went back, and that a bank took it", async () => {
  const { id, topUpId } = await victim()
  const list = () => run("topup", "list", "--account", id)
  expect((await list()).said).not.toContain("disputed")
  expect((await run("topup", "show", topUpId)).said).toMatch(/^went back +-$/m)
  await world.sql`update top_ups set refunded_balance_micro = 2500000000, disputed_at = now() where id = ${topUpId}`
  try {
    expect((await list()).said).toMatch(new RegExp(`^${topUpId} .* paid, disputed +Rp 2500 +simulated `, "m"))
    expect((await run("topup", "show", topUpId)).said).toMatch(/^went back +Rp 2500$/m)
    expect((await run("account", "show", id)).said).toMatch(new RegExp(`^${topUpId} .* Rp 2500 `, "m"))
  } finally {
    await world.sql`update top_ups set refunded_balance_micro = 0, disputed_at = null where id = ${topUpId}`
  }
})

test("a payment problem is listed until somebody says what was done about it", async () => {
  expect((await run("topup", "problems")).said).toBe("none")
  await world.sql`insert into payment_problems (provider, kind, reference, paid)
    values ('midtrans', 'unknown_order', 'order-9', '5000 IDR')`
  const number = /^ *(\d+) .*order-9/m.exec((await run("topup", "problems")).said)?.[1] ?? ""
  expect((await run("topup", "resolve", number, "--note", "refunded")).said).toBe(`${number}: resolved: refunded`)
  expect((await run("topup", "resolve", number, "--note", "adjusted")).said).toBe(
    `${number}: resolved before, and this note is not kept; look whether it was credited twice: refunded`,
  )
  expect((await run("topup", "problems")).said).toBe("none")
  expect((await run("topup", "problems", "--all")).said).toContain("order-9")
  await world.sql`insert into payment_problems (provider, kind, reference, paid)
    select 'midtrans', 'unknown_order', 'many-' || n, '5000 IDR' from generate_series(1, 101) n`
  const listed: string[] = []
  for (let words = ["topup", "problems", "--all", "--limit", "60"]; words.length > 0;) {
    const { said, complaint } = await run(...words)
    expect(complaint).toBe("")
    listed.push(...(said.match(/many-\d+|order-9/g) ?? []))
    words = /^more: loket (.+)$/m.exec(said)?.[1]?.split(" ") ?? []
  }
  expect(listed).toEqual([...Array.from({ length: 101 }, (_, n) => `many-${101 - n}`), "order-9"])
  const { data, next_cursor: cursor } = await json("topup", "problems", "--limit", "100")
  expect([data, typeof cursor]).toEqual([expect.objectContaining({ length: 100 }), "string"])
  await world.sql`delete from payment_problems where reference like 'many-%'`
  expect((await run("topup", "resolve", "9999", "--note", "x")).complaint).toContain("loket topup problems")
  expect((await audited(number)).map(({ action }) => action)).toEqual(["payment_problem.resolved"])
})

test("a database that is not there is a sentence and not an empty database", async () => {
  for (const line of ["account list", "exchange-rate", "exchange-rate USD 16250.50"])
    expect(await loket({ DATA_DIR: "/nowhere/data" }, ...line.split(" "))).toEqual({
      code: 1,
      said: "",
      complaint: "there is no database in /nowhere/data: set DATA_DIR or DATABASE_URL to where it is",
    })
})

test("a database without tables is told, and gets none: reconciliation has not found that all agrees", async () => {
  const empty = await openPlace([])
  const complaint = "the database has no tables of a gateway's: set DATABASE_URL to one that has, or `loket migrate` it"
  for (const line of ["account list", "topup list --json", "operator a@b.id", "exchange-rate"])
    expect(await loket({ DATABASE_URL: empty.url }, ...line.split(" "))).toEqual({ code: 1, said: "", complaint })
  const reconciled = await loket({ DATABASE_URL: empty.url }, "reconcile")
  expect(reconciled).toEqual({ code: 2, said: "", complaint: `not reconciled: ${complaint}` })
  const connection = directConnection(empty.url)
  expect(await connection.sql`select from pg_class where relnamespace = 'public'::regnamespace`).toHaveLength(0)
  await connection.end()
  await empty.remove()
})

test("a link for a forgotten password is printed, once good, and in the audit log without its token", async () => {
  const { id, email } = await victim()
  const { said, code } = await run("account", "reset-password", email, "--reason", "she called")
  expect(code).toBe(0)
  const token =
    /^http:\/\/127\.0\.0\.1:8787\/dashboard\/reset-password#([A-Za-z0-9_-]{43})$/.exec(said.trim())?.[1] ?? ""
  const hash = hashSessionToken(token) ?? new Uint8Array()
  expect(await accountMailStore(world.db).read(hash)).toEqual({ accountId: id, kind: "reset", email })
  expect((await audited(id))[0]).toMatchObject({ action: "account.password_link", reason: "she called" })
  expect(await run("account", "reset-password", "nobody@mail.id", "--reason", "x")).toMatchObject({ code: 1, said: "" })
})

/** The newest act on a subject, and what it says of who did it. */
const newest = async (subject: string) => {
  const [row] = await auditStore(world.db).list({ subject, before: undefined, limit: 1 })
  return [row?.action, row?.operator, row?.address]
}

const as = (env: Readonly<Record<string, string>>, ...args: string[]) =>
  loket({ DATABASE_URL: world.url, ...env }, ...args)

test("what is changed from the command line is in the audit log with who did it, and on which machine", async () => {
  const { id, email } = await victim()
  const here = `${Bun.spawnSync(["id", "-un"]).stdout.toString().trim()}@${hostname()}`
  await as({}, "account", "freeze", email, "--reason", "chargeback")
  expect(await newest(id)).toEqual(["account.frozen", undefined, here])
  await as({ SUDO_USER: "wayan" }, "account", "unfreeze", email, "--reason", "paid")
  expect(await newest(id)).toEqual(["account.unfrozen", undefined, `wayan@${hostname()}`])
  await as({ SUDO_USER: "wayan" }, "account", "adjust", email, "1", "--reason", "goodwill")
  expect(await newest(id)).toEqual(["account.adjusted", undefined, `wayan@${hostname()}`])
  await as({ SUDO_USER: `=1${"x".repeat(99)}` }, "account", "adjust", email, "-1", "--reason", "a slip")
  expect(await newest(id)).toEqual(["account.adjusted", undefined, `_1${"x".repeat(62)}@${hostname()}`])
  await as({ SUDO_USER: "wayan" }, "operator", email, "--role", "support")
  expect(await newest(id)).toEqual(["account.role", undefined, `wayan@${hostname()}`])
  await as({ SUDO_USER: "wayan" }, "operator", email, "--revoke")
  await as({ SUDO_USER: "wayan" }, "exchange-rate", "SGD", "13000")
  expect(await newest("SGD")).toEqual(["exchange_rate.set", undefined, `wayan@${hostname()}`])
})
