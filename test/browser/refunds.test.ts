/** Money back, as an operator gives it and as its owner sees it. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../gateway/harness.ts"
import { caller, makeOperator } from "../http/operator/operator.ts"
import { reconcile } from "../money/reconcile.ts"
import { type BrowserWorld, everyLook, openBrowser } from "./harness.ts"

let world: BrowserWorld
let operator: Person
let customer: Person
let topUpId: string

beforeAll(async () => {
  world = await openBrowser()
  operator = await makeOperator(world.gateway)
  customer = await world.gateway.person()
  topUpId = await paid(customer, 50_000)
}, 60_000)
afterAll(() => world[Symbol.asyncDispose]())

const simulate = async (id: string, play = "") => {
  const response = await fetch(`${world.gateway.url}/simulated-pay/${id}${play}`, { method: "POST" })
  expect(response.status).toBe(200)
}
async function paid(person: Person, amountRp: number): Promise<string> {
  const { json } = await caller(world.gateway, person)("/top-ups", { amount_rp: amountRp })
  await simulate(json.id)
  return json.id
}

async function waitingRefund(person: Person, amountRp: number, topUp: string): Promise<string> {
  const ask = caller(world.gateway, operator)
  const { json } = await ask(`/operator/accounts/${person.accountId}/refunds`, {
    top_up_id: topUp,
    amount_micro: amountRp * 1_000_000,
    payout: "by_hand",
    reason: "a test",
    idempotency_key: crypto.randomUUID(),
  })
  return json.id
}

test("an operator refunds a part of a top-up, and writes down its transfer", async () => {
  await using visit = await world.visit({ person: operator })
  const { page } = visit
  await visit.open(`/operator/accounts/${customer.accountId}`)
  await page.getByRole("button", { name: "Refund", exact: true }).click()
  const dialog = page.getByRole("dialog")
  // Nothing is offered that a press would send; what could go back is said.
  expect(await dialog.getByLabel("Amount").inputValue()).toBe("")
  await dialog.getByText("At most Rp 50,000").waitFor()
  expect(await dialog.getByLabel("Of", { exact: true }).locator("option:checked").innerText()).toEndWith(topUpId)
  await dialog.getByLabel("Reason").fill("too soon")
  await dialog.getByRole("button", { name: "Refund", exact: true }).click()
  await dialog.getByText("Enter an amount of rupiah above zero.").waitFor()
  for (const most of ["50,001", "99,999,999,999,999"]) {
    await dialog.getByLabel("Amount").fill(most)
    await dialog.getByRole("button", { name: `Refund Rp\u00A0${most}` }).click()
    await dialog.getByText("More than can go back.").waitFor()
  }
  await dialog.getByLabel("Amount").fill("12,500")
  await dialog.getByLabel("Reason").fill("Paid twice by mistake")
  await visit.expectAccessible()
  await dialog.getByRole("button", { name: /^Refund Rp/ }).click()
  await dialog.waitFor({ state: "detached" })
  const row = page.getByRole("row", { name: /Paid twice by mistake.*To be paid out/ })
  await row.getByRole("button", { name: "Record transfer" }).click()
  await dialog.getByLabel("Transfer number").fill("  ")
  await dialog.getByLabel("Reason").fill("Sent by the bank")
  await dialog.getByRole("button", { name: "Record transfer" }).click()
  await dialog.getByText("This field is required.").waitFor()
  await dialog.getByLabel("Transfer number").fill("BCA 20261122-001")
  await dialog.getByRole("button", { name: "Record transfer" }).click()
  await page.getByRole("row", { name: /BCA 20261122-001.*Paid out/ }).waitFor()
  const { json } = await caller(world.gateway, customer)(`/top-ups/${topUpId}`)
  expect(json).toMatchObject({ refund_status: "partly_refunded", refunded_micro: 12_500_000_000 })
  await reconcile(world.gateway.sql, { busy: true })
  await visit.open("/operator/top-ups")
  await page.getByRole("row", { name: new RegExp(`${topUpId}.*Partly refunded.*12,500 went back`) }).waitFor()
  await visit.expectAccessible()
})

test("what calls under way hold is not offered for a refund", async () => {
  const { gateway } = world
  const person = await gateway.person()
  await paid(person, 20_000)
  await using visit = await world.visit({ person: operator })
  const { page } = visit
  const path = `/operator/accounts/${person.accountId}`
  await page.route(`**${path}`, async (route) => {
    if (route.request().resourceType() === "document") return await route.fallback()
    const response = await route.fetch()
    await route.fulfill({ response, json: { ...(await response.json()), held_micro: 7_500_000_000 } })
  })
  await visit.open(path)
  await page.getByRole("button", { name: "Refund", exact: true }).click()
  const dialog = page.getByRole("dialog")
  await dialog.getByText("At most Rp\u00A012,500.").waitFor()
  await dialog.getByText("Rp\u00A07,500 is held for calls under way.").waitFor()
  await dialog.getByLabel("Amount").fill("15,000")
  await dialog.getByLabel("Reason").fill("too much")
  await dialog.getByRole("button", { name: /^Refund Rp/ }).click()
  await dialog.getByText("More than can go back.").waitFor()
})

test.each(everyLook)("refunds that wait are one list, whoever's they are: %o", async (look) => {
  const names = {
    en: { title: "Refunds", booked: "To be paid out" },
    id: { title: "Pengembalian dana", booked: "Belum dibayarkan" },
  }
  const { title, booked } = names[look.language]
  const person = await world.gateway.person()
  await waitingRefund(person, 3_000, await paid(person, 20_000))
  await using visit = await world.visit({ ...look, person: operator })
  const { page } = visit
  await visit.open("/operator/refunds")
  await page.getByRole("heading", { name: title, level: 1 }).waitFor()
  await page.getByRole("radio", { name: booked }).check()
  await page.waitForURL(/status=booked/)
  await page.getByRole("table", { name: title }).waitFor()
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  await visit.screenshot("operator-waiting-refunds")
})

test("a refund leaves the list of those that wait when it is paid out, and one that waits longest is there too", async () => {
  await world.gateway.sql`
    insert into refunds (id, account_id, kind, idempotency_key, balance_micro, service_fee_micro, payment_fee_micro,
      claimed_micro, reason, status, created_at)
    select 'ref_later_' || n, ${customer.accountId}, 'refund', 'later ' || n, 1, 0, 0, 0, 'a test', 'booked', now() + n * interval '1 second'
    from generate_series(1, 60) n`
  const other = await world.gateway.person()
  await using visit = await world.visit({ person: operator })
  const { page } = visit
  const { email } = (await caller(world.gateway, other)("/account")).json
  const id = await waitingRefund(other, 4_000, await paid(other, 20_000))
  await visit.open("/operator/refunds")
  await page.getByRole("button", { name: "Load more" }).click()
  const row = page.getByRole("row").filter({ hasText: email })
  await row.getByText("Rp\u00A04,000").waitFor()
  await row.getByRole("button", { name: "Record transfer" }).press("Enter")
  const dialog = page.getByRole("dialog")
  await dialog.getByLabel("Transfer number").fill("BCA 7")
  await dialog.getByLabel("Reason").fill("Sent by the bank")
  await dialog.getByRole("button", { name: "Record transfer" }).click()
  await dialog.waitFor({ state: "detached" })
  await row.waitFor({ state: "detached" })
  const [paidOut] = await world.gateway.sql`select status, reference from refunds where id = ${id}`
  expect(paidOut).toMatchObject({ status: "paid_out", reference: "BCA 7" })
  await world.gateway.sql`delete from refunds where id like 'ref\\_later%'`
})

test.each(everyLook)("a chargeback and its claim are shown where its owner and an operator look: %o", async (look) => {
  const { json } = await caller(world.gateway, customer)("/account")
  if (json.claim_micro === 0) {
    // All was spent, and then the bank takes the payment back.
    await caller(world.gateway, operator)(`/operator/accounts/${customer.accountId}/adjustments`, {
      amount_micro: -json.balance_micro,
      reason: "spent",
      idempotency_key: "spent",
    })
    await simulate(topUpId, "?play=chargeback")
  }
  const pages = {
    "wallet-claim": ["/wallet", customer],
    "statement-claim": ["/wallet/statement", customer],
    "top-up-disputed": [`/wallet/${topUpId}`, customer],
    "operator-refunds": [`/operator/accounts/${customer.accountId}`, operator],
  } as const
  for (const [name, [path, person]] of Object.entries(pages)) {
    await using visit = await world.visit({ ...look, person })
    await visit.open(path)
    await visit.page.getByText("37.500").or(visit.page.getByText("37,500")).first().waitFor()
    await visit.expectAccessible()
    await visit.expectNoSidewaysScroll()
    await visit.screenshot(name)
  }
})
