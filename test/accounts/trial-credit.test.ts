/** Trial credit: once for an address that is proved, however it is spelt, bounded for a network and a day, and in all books. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test"
import { micro } from "../../actors/money/micro.ts"
import { createSessionToken, hashSessionToken } from "../../src/accounts/bearer-tokens.ts"
import { canonical, TrialCredits } from "../../src/accounts/adjustments.ts"
import { readConfig } from "../../src/config.ts"
import { checkClaim } from "../../src/reconciliation/reconcile.ts"
import { claims } from "../../src/reconciliation/claims.ts"
import { accountMailStore } from "../../src/store/account-mails.ts"
import { trialCreditStore } from "../../src/store/allowances.ts"
import { installationSecret } from "../../src/store/processes.ts"
import { readOverview } from "../../src/store/operator/overview.ts"
import { refundStore } from "../../src/store/refunds.ts"
import { firstRequestId } from "../../src/http/edge.ts"
import { openWorld, PASSWORD, type World } from "../http/dashboard/world.ts"

const AMOUNT = 5_000_000_000n
const trial = { amountMicro: micro(AMOUNT), perNetwork: 2, perDay: 5 }

let world: World
beforeAll(async () => {
  world = await openWorld({ sendsLinks: true, addressHeader: "X-Real-IP", trial })
})
afterAll(() => world[Symbol.asyncDispose]())
beforeEach(async () => void (await world.sql`delete from allowances`))

let networks = 0
const network = () => `10.${(networks >> 8) & 255}.${networks++ & 255}.7`
const name = () => `p${crypto.randomUUID()}`

interface Someone {
  readonly id: string
  readonly token: string
  readonly email: string
}

/** The token of a link as it is in a mail. */
async function linkOf({ id, email }: Someone, kind = "prove"): Promise<string> {
  const { token, hash } = createSessionToken()
  await world.sql`
    insert into account_mails (account_id, kind, email, expires_at, token_hash)
    values (${id}, ${kind}, ${email}, now() + interval '1 hour', ${hash})`
  return token
}
async function prove(person: Someone, from = network()) {
  const token = await linkOf(person)
  return await world.call("POST", "/auth/email/prove", {
    body: { token },
    token: person.token,
    headers: { "X-Real-IP": from },
  })
}
const balanceOf = async ({ id }: Someone): Promise<bigint> => {
  const [row] = await world.sql<{ posted_micro: bigint }[]>`select posted_micro from balances where account_id = ${id}`
  return row?.posted_micro ?? -1n
}
const given = async (person: Someone, from?: string) => {
  expect((await prove(person, from)).status).toBe(200)
  return (await balanceOf(person)) === AMOUNT
}

test("who proves an address is given it, and told in the statement and the history", async () => {
  const person = await world.signUp()
  expect(await balanceOf(person)).toBe(0n)
  const { json } = await prove(person)
  expect([json.email_proved, json.balance_micro]).toEqual([true, Number(AMOUNT)])
  expect(world.credited).toContain(person.id)
  const statement = await world.call("GET", "/account/statement", { token: person.token })
  expect(statement.json.entries).toMatchObject([{ kind: "trial_credit", amount_micro: Number(AMOUNT) }])
  const events =
    await world.sql`select action, actor, after from account_events where account_id = ${person.id} and action = 'trial.credited'`
  expect([...events]).toMatchObject([{ actor: "gateway", after: { amount_micro: Number(AMOUNT) } }])
})

test("two proofs at once give it once", async () => {
  const person = await world.signUp()
  const from = network()
  await Promise.all([prove(person, from), prove(person, from), prove(person, from)])
  expect(await balanceOf(person)).toBe(AMOUNT)
})

test("two accounts of one address, at once or one after the other, get it once", async () => {
  const one = name()
  const people = [await world.signUp(`${one}@example.com`), await world.signUp(`${one.toUpperCase()}+two@Example.com`)]
  await Promise.all(people.map((person) => prove(person)))
  const balances = await Promise.all(people.map(balanceOf))
  expect(balances.filter((balance) => balance === AMOUNT)).toHaveLength(1)
  expect(await given(await world.signUp(`${one}+three@example.com`))).toBe(false)
})

test("who deletes the account and signs up again is given nothing", async () => {
  const person = await world.signUp()
  expect(await given(person)).toBe(true)
  const left = await world.call("DELETE", "/account", { token: person.token, body: { password: PASSWORD } })
  expect(left.status).toBe(204)
  expect(await given(await world.signUp(person.email))).toBe(false)
  const [row] = await world.sql<{ text: string }[]>`select string_agg(t::text, ' ') as text from trial_credits t`
  expect(row?.text).not.toContain("@")
})

test("an account that moves to another address is given nothing more", async () => {
  const person = await world.signUp()
  expect(await given(person)).toBe(true)
  const other = { ...person, email: `${name()}@example.com` }
  const token = await linkOf(other, "change")
  expect((await world.call("POST", "/auth/email/prove", { body: { token }, token: person.token })).status).toBe(200)
  expect(await balanceOf(person)).toBe(AMOUNT)
  await world.sql`update accounts set email_unproved = true where id = ${person.id}`
  expect((await prove(other)).status).toBe(200)
  expect(await balanceOf(person)).toBe(AMOUNT)
})

test("a network gets so many, of IPv6 its /64, and others go on", async () => {
  const at = ["2001:db8:1:2::1", "2001:db8:1:2:ffff::2", "2001:db8:1:2::3"]
  const given1 = []
  for (const from of at) given1.push(await given(await world.signUp(), from))
  expect(given1).toEqual([true, true, false])
  expect(await given(await world.signUp(), "2001:db8:1:3::1")).toBe(true)
})

test("a network asked at once gets no more than its share", async () => {
  const people = await Promise.all(Array.from({ length: 5 }, () => world.signUp()))
  const from = network()
  await Promise.all(people.map((person) => prove(person, from)))
  const balances = await Promise.all(people.map(balanceOf))
  expect(balances.filter((balance) => balance === AMOUNT)).toHaveLength(trial.perNetwork)
})

test("a day gives so many, and a network that has had its share takes nothing of it", async () => {
  const full = network()
  for (let n = 0; n < 4; n++) await given(await world.signUp(), full)
  const others = []
  for (let n = 0; n < 4; n++) others.push(await given(await world.signUp()))
  // Two of the first network, and three of others.
  expect(others).toEqual([true, true, true, false])
  await world.sql`update allowances set ends_at = now() - interval '1 second' where name = 'trial day'`
  expect(await given(await world.signUp())).toBe(true)
})

test("a day that has none left takes nothing of a network's share", async () => {
  for (let n = 0; n < trial.perDay; n++) expect(await given(await world.signUp())).toBe(true)
  const from = network()
  for (let n = 0; n < trial.perNetwork; n++) expect(await given(await world.signUp(), from)).toBe(false)
  await world.sql`update allowances set ends_at = now() - interval '1 second' where name = 'trial day'`
  expect(await given(await world.signUp(), from)).toBe(true)
})

test("a frozen account is given nothing", async () => {
  const person = await world.signUp()
  await world.sql`update accounts set frozen_at = now(), frozen_reason = 'a test' where id = ${person.id}`
  expect(await given(person)).toBe(false)
})

/** As the gateway has it, which a test can let fail. */
const credits = (failing: { give?: () => never } = {}) => {
  const failures: unknown[] = []
  const parts = {
    terms: trial,
    store: { ...trialCreditStore(world.db), ...failing },
    secret: () => installationSecret(world.db, "trial-credits"),
    credited: () => {},
    failed: (error: unknown) => void failures.push(error),
  }
  return { trial: new TrialCredits(parts), failures }
}
const duesOf = async ({ id }: Someone) => (await world.sql`select from trial_dues where account_id = ${id}`).length
const overdue = () => world.sql`update trial_dues set next_try_at = now() - interval '1 second'`

test("a process that dies between the proof and the credit loses nothing: another one gives it, once", async () => {
  const person = await world.signUp()
  const hash = hashSessionToken(await linkOf(person))
  const { trial: gives } = credits()
  const mails = accountMailStore(world.db)
  expect(await mails.prove(hash ?? new Uint8Array(), person.id, await gives.network("10.9.9.9"))).toBe("proved")
  expect([await balanceOf(person), await duesOf(person)]).toEqual([0n, 1])
  // Whoever proved it has its time first.
  await gives.give()
  expect([await balanceOf(person), await duesOf(person)]).toEqual([0n, 1])
  await overdue()
  await Promise.all([gives.give(), credits().trial.give()])
  expect([await balanceOf(person), await duesOf(person)]).toEqual([AMOUNT, 0])
})

test("what fails at the proof is due, and tried again; what is refused is not", async () => {
  const person = await world.signUp()
  const hash = hashSessionToken(await linkOf(person)) ?? new Uint8Array()
  const down = credits({
    give: () => {
      throw new Error("away")
    },
  })
  await accountMailStore(world.db).prove(hash, person.id, await down.trial.network("10.9.9.10"))
  await down.trial.give(person.id)
  expect([down.failures.length, await balanceOf(person), await duesOf(person)]).toEqual([1, 0n, 1])
  await overdue()
  await credits().trial.give()
  expect([await balanceOf(person), await duesOf(person)]).toEqual([AMOUNT, 0])
  const frozen = await world.signUp()
  await world.sql`update accounts set frozen_at = now(), frozen_reason = 'a test' where id = ${frozen.id}`
  expect([await given(frozen), await duesOf(frozen)]).toEqual([false, 0])
})

test("what a clock of the database has put off that was ahead is due once it is set back", async () => {
  const person = await world.signUp()
  const hash = hashSessionToken(await linkOf(person)) ?? new Uint8Array()
  const { trial: gives } = credits()
  await accountMailStore(world.db).prove(hash, person.id, await gives.network("10.9.9.12"))
  await world.sql`update trial_dues set next_try_at = now() + interval '7 hours'`
  await gives.give()
  expect([await balanceOf(person), await duesOf(person)]).toEqual([AMOUNT, 0])
})

test("what was counted and not given counts for nobody, and one that cannot be given keeps no other waiting", async () => {
  const [person, next] = [await world.signUp(), await world.signUp()]
  const { trial: gives, failures } = credits()
  for (const each of [person, next]) {
    const hash = hashSessionToken(await linkOf(each)) ?? new Uint8Array()
    await accountMailStore(world.db).prove(hash, each.id, await gives.network("10.9.9.11"))
  }
  await world.sql.unsafe(
    `alter table trial_credits add constraint not_now check (account_id <> '${person.id}') not valid`,
  )
  for (let times = 0; times < trial.perNetwork; times++) {
    await overdue()
    await gives.give()
  }
  expect([failures.length, await balanceOf(person), await duesOf(person)]).toEqual([trial.perNetwork, 0n, 1])
  expect([await balanceOf(next), await duesOf(next)]).toEqual([AMOUNT, 0])
  await world.sql`alter table trial_credits drop constraint not_now`
  await overdue()
  await gives.give()
  expect([await balanceOf(person), await duesOf(person)]).toEqual([AMOUNT, 0])
  expect(await given(await world.signUp(), "10.9.9.11")).toBe(false)
})

test.each([
  ["Ana.B+x@Gmail.com", "anab@gmail.com"],
  ["ana.b@googlemail.com", "anab@gmail.com"],
  ["ana.b@example.com", "ana.b@example.com"],
  ["Ana+a+b@Example.com.", "ana@example.com"],
  ["+x@example.com", "+x@example.com"],
  ["ａna@example.com", "ana@example.com"],
  ['"ana"@example.com', "ana@example.com"],
  ['"a\\\\na+x"@example.com', "ana@example.com"],
  ["ana@Büro.example", "ana@xn--bro-hoa.example"],
  ["ana@xn--bro-hoa.example", "ana@xn--bro-hoa.example"],
  ["ana@example。com", "ana@example.com"],
  ["<<ana@example.com", "ana@example.com"],
  ["ana@example.com>", "ana@example.com"],
  ["\u0130r\u0130s@example.com", "iris@example.com"],
])("%s is %s", (email, one) => {
  expect(canonical(email)).toBe(one)
})

test("the books agree, and what is given by hand in its name is seen", async () => {
  await given(await world.signUp())
  const findings = async () => {
    const found = []
    for (const claim of claims) found.push(await checkClaim(world.sql, claim))
    return found.filter(({ differences }) => differences > 0).map(({ claim }) => claim)
  }
  expect(await findings()).toEqual([])
  const overview = await readOverview(
    world.db,
    { from: new Date(Date.now() - 3_600_000), to: new Date(Date.now() + 3_600_000) },
    firstRequestId,
  )
  const [sum] = await world.sql<{ sum: bigint }[]>`select sum(posted_micro)::bigint as sum from balances`
  expect<bigint>(overview.trialMicro).toBe(sum?.sum ?? -1n)
  const thief = await world.signUp()
  await world.sql`
    insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
    values (${`trial:${thief.id}`}, 'house:trial_credits', ${thief.id}, 7, 'trial_credit')`
  await world.sql`update balances set posted_micro = posted_micro + 7 where account_id = ${thief.id}`
  expect(await findings()).toEqual(["a transfer is of a known kind, and an adjustment is an operator's"])
})

// After the books: its calls have no records.
test("what is left of a closed account goes back without its trial credit, which is spent first", async () => {
  const person = await world.signUp()
  expect(await given(person)).toBe(true)
  const move = async (amount: bigint, reason: "adjustment" | "charge") => {
    const house = { adjustment: "house:adjustments", charge: "house:revenue" }[reason]
    await world.sql`
      insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
      values (${`${reason}:${crypto.randomUUID()}`}, ${amount > 0n ? house : person.id}, ${amount > 0n ? person.id : house},
        ${amount > 0n ? amount : -amount}, ${reason})`
    await world.sql`update balances set posted_micro = posted_micro + ${amount} where account_id = ${person.id}`
  }
  const back = async (amount: bigint) => {
    const id = `ref_${crypto.randomUUID().slice(0, 20)}`
    const refund = {
      id,
      accountId: person.id,
      topUpId: undefined,
      reason: "a test",
      idempotencyKey: id,
      byProvider: false,
    }
    const act = { requestId: id, operatorId: undefined, address: undefined }
    const { outcome, refundableMicro } = await refundStore(world.db).book(
      { ...refund, amountMicro: micro(amount) },
      act,
    )
    return [outcome, BigInt(refundableMicro)] as const
  }
  // Trial credit alone.
  expect(await back(1n)).toEqual(["over", 0n])
  await move(10_000_000_000n, "adjustment")
  expect(await back(10_000_000_001n)).toEqual(["over", 10_000_000_000n])
  // Less was spent than was given.
  await move(-4_999_999_999n, "charge")
  expect(await back(10_000_000_001n)).toEqual(["over", 10_000_000_000n])
  // And then more.
  await move(-3_000_000_001n, "charge")
  expect(await back(7_000_000_001n)).toEqual(["over", 7_000_000_000n])
  expect(await back(6_999_999_999n)).toEqual(["booked", 1n])
  expect(await back(2n)).toEqual(["over", 1n])
  expect(await back(1n)).toEqual(["booked", 0n])
  expect(await balanceOf(person)).toBe(0n)
})

test("it is off unless it is said, and refused where no address is proved", async () => {
  const off = readConfig({})
  expect(Array.isArray(off) ? off : off.TRIAL_CREDIT_RP).toBe(0)
  const mail = { SMTP_URL: "smtp://mail.example", MAIL_FROM: "a@b.example", PUBLIC_URL: "https://loket.example" }
  for (const without of ["SMTP_URL", "PUBLIC_URL"] as const)
    expect(readConfig({ ...mail, [without]: "", TRIAL_CREDIT_RP: "5000" })).toEqual([
      expect.stringContaining("TRIAL_CREDIT_RP is set; it needs SMTP_URL and PUBLIC_URL"),
    ])
  expect(Array.isArray(readConfig({ ...mail, TRIAL_CREDIT_RP: "5000" }))).toBe(false)
  await using none = await openWorld({ sendsLinks: true })
  const [before, person] = [world, await none.signUp()]
  world = none
  try {
    expect(await given(person)).toBe(false)
    expect([...(await none.sql`select from trial_credits`)]).toEqual([])
  } finally {
    world = before
  }
})
