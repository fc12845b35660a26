/** `loket reconcile` as it is run: its exit code, what it prints, and what a gateway that runs beside it makes of it. */
import { expect, test } from "bun:test"
import { join } from "node:path"
import { eventually } from "../contract/calling.ts"
import { bareEnvironment, DevProcess, scratchDirectory } from "./dev-process.ts"
import { startTestGateway } from "../gateway/harness.ts"
import { micro, zero } from "../../actors/money/micro.ts"
import { paymentProblemStore } from "../../src/store/payment-problems.ts"
import { topUpStore } from "../../src/store/top-ups.ts"
import { embeddedAddress } from "../../src/store/embedded/open.ts"
import { directConnection } from "../store/harness.ts"
import { openBooks } from "../reconciliation/world.ts"

const root = join(import.meta.dir, "../..")

async function command(env: Readonly<Record<string, string>>, ...args: string[]) {
  const child = Bun.spawn([process.execPath, "src/main.ts", "reconcile", ...args], {
    cwd: root,
    env: { ...bareEnvironment, ...env },
    stdout: "pipe",
    stderr: "pipe",
  })
  const [said, complaint, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { code, said: said.trim(), complaint: complaint.trim() }
}

test("0 when all agrees, 1 with each difference in rupiah, 2 when it could not be done", async () => {
  await using world = await openBooks()
  const env = { DATABASE_URL: world.url }
  const agreed = await command(env)
  expect(agreed).toMatchObject({ code: 0, complaint: "" })
  expect(agreed.said).toMatch(/^a balance is the sum of its transfers +2 +0$/m)
  expect(agreed.said).toEndWith("all agrees")

  const { accountId } = world.victim
  await world.sql`update balances set posted_micro = posted_micro + 1500000 where account_id = ${accountId}`
  const differed = await command(env)
  expect(differed.code).toBe(1)
  expect(differed.said).toContain(`not so: a balance is the sum of its transfers
  ${accountId}:
    posted_micro 10002300000 (Rp 10002.3)
    of_transfers_micro 10000800000 (Rp 10000.8)
`)
  expect(differed.said).toContain(`frozen: ${accountId}`)
  expect(differed.said).toEndWith("2 differences")
  expect(JSON.parse((await command(env, "--json")).said)).toMatchObject({ differences: 2, frozen: [accountId] })

  expect((await command(env, "--fast")).code).toBe(2)
  const away = await command({ DATABASE_URL: "postgres://root@127.0.0.1:1/nothing" })
  expect(away).toMatchObject({ code: 2, said: "" })
  expect(away.complaint).toMatch(/^not reconciled: /m)
  using directory = scratchDirectory()
  const empty = await command({ DATA_DIR: join(directory.path, "data") })
  expect(empty).toMatchObject({ code: 2, complaint: expect.stringContaining("there is no database in ") })
})

test("payment problems that it finds, and those that wait, are printed with what is to be done", async () => {
  await using world = await openBooks()
  using midtrans = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: (request) =>
      Response.json({
        status_code: "200",
        order_id: new URL(request.url).pathname.split("/")[2],
        gross_amount: "9000.00",
        currency: "IDR",
        transaction_status: "settlement",
      }),
  })
  const { accountId } = world.bystander
  const breakdown = {
    balancePurchasedMicro: micro(10_000_000_000n),
    serviceFeeMicro: zero,
    paymentFeeMicro: zero,
    networkFeeMicro: zero,
  }
  await topUpStore(world.db).create({ id: "top_paid", accountId, provider: "midtrans", breakdown, validMinutes: -1 })
  await paymentProblemStore(world.db).record({
    provider: "midtrans",
    kind: "over_refunded",
    reference: "top_old:refund-1",
    topUpId: undefined,
    paid: "7000 IDR",
  })
  const env = { DATABASE_URL: world.url, MIDTRANS_SERVER_KEY: "a key", MIDTRANS_BASE_URL: midtrans.url.origin }
  const { code, said } = await command(env)
  expect(code).toBe(1)
  expect(said).toMatch(/^2 payment problems wait to be resolved:$/m)
  expect(said).toMatch(new RegExp(`^ +2: wrong_amount, 9000 IDR, midtrans top_paid of ${accountId}$`, "m"))
  expect(said).toMatch(/^ +1: over_refunded, 7000 IDR, midtrans top_old:refund-1$/m)
  expect(said).toContain("nothing was credited: pay it back at the provider, or give it with `loket account adjust`")
  expect(said).toContain(
    "cancel a refund of the top-up that waits to be paid out, which books it, and take what is left with `loket account adjust`",
  )
  expect(said).toEndWith("loket topup resolve <number> --note <what was done>")
  const { payment_problems: problems } = JSON.parse((await command(env, "--json")).said)
  expect(problems).toMatchObject([
    { id: 2, kind: "wrong_amount", account_id: accountId, resolved_at: null },
    { id: 1, kind: "over_refunded" },
  ])
  const more = (from: number, to: number) => world.sql`
    insert into payment_problems (provider, kind, reference, paid) select 'midtrans', 'unknown_order', n::text, '1 IDR' from generate_series(${from}::int, ${to}::int) n`
  await more(3, 100)
  expect((await command(env)).said).toMatch(/^100 payment problems wait to be resolved:$/m)
  await more(101, 101)
  const long = (await command(env)).said
  expect(long).toMatch(/^more than 100 payment problems wait to be resolved:$/m)
  expect(long.match(/unknown_order/g)).toHaveLength(99)
  await world.sql`update payment_problems set resolved_at = now()`
  expect((await command(env)).said).not.toContain("payment problem")
})

test("beside a gateway that has the embedded database, which goes on and hears of a freeze", async () => {
  using directory = scratchDirectory()
  const dataDir = join(directory.path, "data")
  await using dev = await DevProcess.start([process.execPath, "src/main.ts"], root, dataDir)
  expect((await dev.tryIt()).trimEnd()).toEndWith("data: [DONE]")
  expect(await command({ DATA_DIR: dataDir })).toMatchObject({ code: 0, complaint: "" })
  expect((await dev.tryIt()).trimEnd()).toEndWith("data: [DONE]")

  const beside = directConnection(embeddedAddress(dataDir) ?? "")
  await beside.sql`update balances set posted_micro = posted_micro + 1`
  expect((await command({ DATA_DIR: dataDir })).code).toBe(1)
  const models = () => fetch(`${dev.banner.url}/v1/models`, { headers: { "x-api-key": dev.banner.key } })
  await eventually("not refused", models, ({ status }) => status === 403)
  await beside.sql`update balances set posted_micro = posted_micro - 1`
  await beside.sql`update accounts set frozen_at = null, frozen_reason = null`
  await eventually("not let in again", models, ({ status }) => status === 200)
  await beside.end()

  expect(await dev.stop()).toBe(0)
  const later = await command({ DATA_DIR: dataDir }, "--json")
  expect(later.code).toBe(0)
  expect(JSON.parse(later.said)).toMatchObject({ reconciliation: 3, differences: 0 })
})

test("a gateway does it daily: the account is refused, the metric is up, and the log has a line", async () => {
  await using gateway = await startTestGateway({ env: { METRICS_PORT: "0", RECONCILE_HOUR: "0" } })
  const metrics = async () => await (await fetch(gateway.server.metricsUrl ?? "")).text()
  const person = await gateway.person(10_000)
  const bystander = await gateway.person(10_000)
  const [key, other] = [(await gateway.key(person)).key, (await gateway.key(bystander)).key]
  const ask = (by: string) =>
    gateway.post("/v1/chat/completions", by, { model: "plain", messages: [{ role: "user", content: "Hello" }] })
  expect((await ask(key)).status).toBe(200)
  expect(await metrics()).toMatch(/^loket_reconciliation_success_timestamp_seconds 0$/m)

  await gateway.sql`update balances set posted_micro = posted_micro + 1 where account_id = ${person.accountId}`
  await gateway.server.reconcileIfDue()
  await eventually(
    "not refused",
    () => ask(key),
    ({ status }) => status === 403,
  )
  expect((await ask(other)).status).toBe(200)
  expect(await metrics()).toMatch(/^loket_reconciliation_differences 2$/m)
  expect(await metrics()).toMatch(/^loket_reconciliation_not_compared 2$/m)
  expect(await metrics()).toMatch(/^loket_reconciliation_success_timestamp_seconds 1[.\d]+/m)
  const logged = await gateway.sql`
    select operator_id, subject, starts_with(reason, 'reconciliation ') as has_reason, after -> 'frozen' as frozen, after ? 'claim' as names_claim
    from audit_log where action = 'account.frozen'`
  expect([...logged]).toEqual([
    { operator_id: null, subject: person.accountId, has_reason: true, frozen: true, names_claim: true },
  ])
  const lines = gateway.complaints.filter((line) => line.includes("books do not agree"))
  expect(lines).toEqual([expect.stringContaining(person.accountId)])
})
