/** The operator's pages about the house: what it made, its accounts and payments, and who may see all that. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../../gateway/harness.ts"
import { caller, makeOperator } from "../../http/operator/operator.ts"
import { eventually, everyLook } from "../harness.ts"
import { openOperatorWorld, type OperatorWorld, payWrongly, say } from "./world.ts"

let world: OperatorWorld
let customer: Person
let key: string
let model: string
let wrongTopUp: string

beforeAll(async () => {
  world = await openOperatorWorld()
  const { gateway } = world
  model = await gateway.model({ format: "chat", model: "kapal-cepat", script: "input=1000&output=20" })
  const failing = await gateway.model({ format: "chat", model: "kapal-bocor", script: "fault=status&status=500" })
  customer = await gateway.person(100_000)
  key = (await gateway.key(customer, { name: "Produksi: asisten pelanggan" })).key
  for (const id of [model, model, failing]) await say(world, key, id)
  // Of a backend that counts more than it was asked for.
  const greedy = await gateway.model({ format: "chat", model: "kapal-rakus", script: "input=1000&counted=90000" })
  for (let call = 0; call < 6; call++) await say(world, key, greedy)
  wrongTopUp = await payWrongly(world, customer)
  await gateway.sql`
    with run as (
      insert into reconciliations (ended_at, claims, differences, not_compared) values (now(), '[]', 1, 0) returning id
    )
    insert into reconciliation_differences (reconciliation_id, claim, account_id, figures, mended)
    select id, 'a balance is the sum of its transfers', ${customer.accountId},
      '{"posted_micro":"99997800000","of_transfers_micro":"99997700000"}', true from run`
}, 60_000)
afterAll(() => world[Symbol.asyncDispose]())

const emailOf = async (person: Person): Promise<string> => {
  const account = (await (await world.gateway.dashboard(person, "/account")).json()) as { email: string }
  return account.email
}

test.each(everyLook)("the operator's pages are accessible and fit: %o", async (look) => {
  await using visit = await world.visit({ ...look, person: world.operator })
  const pages = {
    operator: "",
    "operator-accounts": "/accounts",
    "operator-account": `/accounts/${customer.accountId}`,
    "operator-top-ups": "/top-ups",
    "operator-problems": "/payment-problems",
    "operator-models": "/models",
    "operator-model": "/models/kapal-cepat",
    "operator-billing": "/billing",
    "operator-audit": "/audit",
  }
  for (const [name, path] of Object.entries(pages)) {
    await visit.open(`/operator${path}`)
    await visit.screenshot(name)
    await visit.expectAccessible()
    await visit.expectNoSidewaysScroll()
  }
})

test("a customer sees nothing of the operator's pages, and is told 403", async () => {
  await using visit = await world.visit({ person: customer, size: "phone" })
  await visit.open("/")
  await visit.page.getByRole("button", { name: "More" }).click()
  await visit.page.getByRole("link", { name: "Quick start" }).waitFor()
  expect(await visit.page.getByRole("link", { name: "Operator" }).count()).toBe(0)
  for (const path of ["/operator", "/operator/accounts", "/operator/models/plain", "/operator/audit"]) {
    await visit.page.goto(`${world.gateway.url}/dashboard${path}`)
    await visit.page.getByRole("heading", { name: "This page is for operators", level: 1 }).waitFor()
    await visit.page.getByText("403 auth.forbidden").waitFor()
  }
})

test("the overview tells the period's figures, and follows the address", async () => {
  await using visit = await world.visit({ person: world.operator, language: "id" })
  await visit.open("/")
  await visit.page.getByRole("link", { name: "Operator" }).click()
  await visit.page.getByRole("heading", { name: "Ringkasan" }).waitFor()
  const period = visit.page.getByRole("region", { name: "Dalam periode ini" })
  // Two calls of 1,000 and 20 tokens at Rp 1.10, and six of 1,000 and as many as were asked for, 50, at Rp 1.25.
  await period.getByText("Rp\u00A09,70", { exact: true }).waitFor()
  await period.getByText("1 tidak berhasil (11,1%)").waitFor()
  await visit.page.getByRole("row", { name: "dependency.upstream_unavailable" }).waitFor()
  await visit.open("/operator?from=2026-01-01&to=2026-01-31")
  await period.getByText("Tidak ada panggilan dalam periode ini").waitFor()
  expect(await visit.page.getByRole("textbox", { name: "Dari" }).inputValue()).toBe("01/01/2026")
})

test("other days leave what else a list is narrowed by, and how sums are divided", async () => {
  await using visit = await world.visit({ person: world.operator })
  for (const [path, kept] of [
    ["/operator/profit?by=model&and=account", "by=model&and=account"],
    [`/operator/accounts/${customer.accountId}/calls?status=ok`, "status=ok"],
  ] as const) {
    await visit.open(path)
    await visit.page.getByRole("radio", { name: "30 days" }).click()
    await eventually(async () => expect(new URL(visit.page.url()).search).toBe(`?${kept}&days=30`))
  }
})

test("of more days than the figures can be asked for, the end that was not chosen comes along", async () => {
  await using visit = await world.visit({ person: world.operator })
  const { page } = visit
  const day = (name: string) => page.getByRole("textbox", { name })
  await visit.open("/operator?from=2026-05-01&to=2026-05-31")
  await day("From").fill("01/01/2026")
  await day("From").press("Enter")
  await eventually(async () => expect(new URL(page.url()).search).toBe("?from=2026-01-01&to=2026-04-02"))
  await day("To").fill("31/10/2026")
  await day("To").press("Enter")
  await eventually(async () => expect(new URL(page.url()).search).toBe("?from=2026-08-01&to=2026-10-31"))
  // An account's calls have no such bound.
  await visit.open(`/operator/accounts/${customer.accountId}/calls?from=2026-05-01&to=2026-05-31`)
  await day("From").fill("01/01/2026")
  await day("From").press("Enter")
  await eventually(async () => expect(new URL(page.url()).search).toBe("?from=2026-01-01&to=2026-05-31"))
  // More than an address may count.
  await visit.open(`/operator/accounts/${customer.accountId}/calls`)
  await day("From").fill("01/01/2020")
  await day("From").press("Enter")
  await eventually(async () => expect(page.url()).toContain("?from=2020-01-01&to="))
  expect(await day("From").inputValue()).toBe("01/01/2020")
})

test.each(["desktop", "phone"] as const)(
  "revenue, calls and customers are told day by day, and nothing moves when they come: %s",
  async (size) => {
    await using visit = await world.visit({ person: world.operator, size })
    const { page } = visit
    await visit.open("/operator?days=30")
    const charts = page.getByRole("region", { name: "Day by day" })
    for (const name of ["Revenue", "Calls", "Customers"])
      await charts.getByRole("table", { name: `${name}, Day by day` }).waitFor({ state: "attached" })
    const calls = charts.getByRole("table", { name: "Calls, Day by day" }).getByRole("row")
    expect(await calls.count()).toBe(31)
    expect(await calls.last().innerText()).toContain("9")
    await visit.expectSteady()
    await page.setViewportSize({ width: 320, height: 640 })
    await visit.expectNoSidewaysScroll()
  },
)

test("while the days of another range are awaited, none is said to have been without calls", async () => {
  await using visit = await world.visit({ person: world.operator })
  const { page } = visit
  await visit.open("/operator?from=2026-01-01&to=2026-01-31")
  const calls = page.getByRole("table", { name: "Calls, Day by day" }).getByRole("row")
  await calls.first().waitFor({ state: "attached" })
  const asked = Promise.withResolvers<void>()
  const { promise: held, resolve: letGo } = Promise.withResolvers<void>()
  await page.route("**/operator/overview/days?*", async (route) => {
    asked.resolve()
    await held
    await route.continue()
  })
  await page.getByText("7 days", { exact: true }).click()
  await asked.promise
  await page.waitForURL(/days=7/)
  await page.getByText("Still 1 Jan – 31 Jan").waitFor()
  expect(await calls.last().innerText()).toContain("31 Jan")
  letGo()
  await eventually(async () => expect(await calls.last().innerText()).toMatch(/\s9$|\s1\d$/))
  expect(await calls.count()).toBe(8)
})

test("an account is found by part of its address, credited once, and the ledger tells it", async () => {
  const person = await world.gateway.person(20_000)
  const email = await emailOf(person)
  await using visit = await world.visit({ person: world.operator })
  await visit.open("/operator/accounts")
  await visit.page.getByLabel("Search accounts").fill(email.slice(1, 20).toUpperCase())
  await visit.page.keyboard.press("Enter")
  await visit.page.waitForURL(/query=/)
  await visit.page.getByRole("button", { name: email }).click()
  await visit.page.getByRole("heading", { name: email }).waitFor()
  await visit.page.getByRole("button", { name: "Adjust balance" }).click()
  const dialog = visit.page.getByRole("dialog", { name: "Adjust balance" })
  await dialog.getByRole("button", { name: "Adjust" }).click()
  await dialog.getByText("Enter an amount of rupiah above zero.").waitFor()
  await dialog.getByLabel("Amount").fill("1,250.50")
  await dialog.getByText("The balance goes from Rp\u00A020,000 to Rp\u00A021,250.5.").waitFor()
  await dialog.getByLabel("Reason").fill("A payment that came twice")
  await dialog.getByRole("button", { name: "Credit Rp\u00A01,250.5" }).click()
  await visit.page.getByText("The balance is now Rp\u00A021,250.5.").waitFor()
  const ledger = visit.page.getByRole("region", { name: "Ledger" })
  const row = ledger.getByRole("row", { name: /Adjustment/ })
  await row.getByText("A payment that came twice").waitFor()
  await row.getByText("Rp\u00A021,250.50").waitFor()
  await ledger
    .getByRole("row", { name: /Top-up/ })
    .getByRole("cell", { name: "Rp\u00A020,000" })
    .last()
    .waitFor()
  expect((await world.gateway.balance(person)).balance_micro).toBe(21_250_500_000)
})

test("an adjustment whose answer got lost is made once, also by who closes the dialog and writes it again", async () => {
  const person = await world.gateway.person(20_000)
  await using visit = await world.visit({ person: world.operator })
  const { page } = visit
  let isLost = true
  await page.route("**/adjustments", async (route) => {
    if (!isLost) return await route.continue()
    await route.fetch()
    return await route.fulfill({ status: 503, json: {} })
  })
  await visit.open(`/operator/accounts/${person.accountId}`)
  const dialog = page.getByRole("dialog")
  const credit = async (amount: string) => {
    await page.getByRole("button", { name: "Adjust balance" }).click()
    await dialog.getByLabel("Amount").fill(amount)
    await dialog.getByLabel("Reason").fill("A wrong charge")
    await dialog.getByRole("button", { name: `Credit Rp\u00A0${amount}` }).click()
  }
  await credit("5,000")
  await dialog.getByRole("alert").waitFor()
  await dialog.getByRole("button", { name: "Cancel" }).click()
  // The page behind tells what was done.
  await page
    .getByRole("row", { name: /Adjustment/ })
    .getByText("Rp\u00A025,000")
    .waitFor()
  isLost = false
  await credit("6,000")
  await dialog.getByText(/was used for an adjustment of 5000000000/).waitFor()
  await dialog.getByText(/What you sent before was booked, although its answer got lost/).waitFor()
  await dialog.getByRole("button", { name: "Cancel" }).click()
  expect((await world.gateway.balance(person)).balance_micro).toBe(25_000_000_000)
  isLost = true
  await credit("7,000")
  await dialog.getByRole("alert").waitFor()
  await dialog.getByRole("button", { name: "Cancel" }).click()
  isLost = false
  await credit("7,000")
  await page.getByText("The balance is now Rp\u00A032,000.").waitFor()
  visit.complaints.length = 0
  expect((await world.gateway.balance(person)).balance_micro).toBe(32_000_000_000)
})

test("an adjustment that is made is told while the page behind it is still being read", async () => {
  const person = await world.gateway.person(20_000)
  await using visit = await world.visit({ person: world.operator })
  const { page } = visit
  await visit.open(`/operator/accounts/${person.accountId}`)
  const { promise: held, resolve: letGo } = Promise.withResolvers<void>()
  await page.route("**/transfers*", async (route) => {
    await held
    await route.continue()
  })
  await page.getByRole("button", { name: "Adjust balance" }).click()
  const dialog = page.getByRole("dialog")
  await dialog.getByLabel("Amount").fill("1,000")
  await dialog.getByLabel("Reason").fill("A test")
  await dialog.getByRole("button", { name: "Credit Rp\u00A01,000" }).click()
  await page.getByText("The balance is now Rp\u00A021,000.").waitFor()
  await dialog.waitFor({ state: "detached" })
  letGo()
  await page
    .getByRole("region", { name: "Ledger" })
    .getByRole("row", { name: /Adjustment/ })
    .waitFor()
})

test("an account's page has all of its top-ups, and an old one can be refunded", async () => {
  const person = await world.gateway.person(20_000)
  const { sql } = world.gateway
  const [paid] = await sql<{ id: string }[]>`select id from top_ups where account_id = ${person.accountId}`
  if (paid === undefined) throw new Error("no top-up")
  await sql`
    insert into top_ups (id, account_id, provider, status, balance_purchased_micro, service_fee_micro, payment_fee_micro,
      network_fee_micro, qr_payload, created_at, expires_at)
    select ${`top_${person.accountId}`} || n, ${person.accountId}, 'simulated', 'expired', 1000000, 0, 0, 0, 'x', now(), now()
    from generate_series(1, 100) n`
  await using visit = await world.visit({ person: world.operator })
  const { page } = visit
  await visit.open(`/operator/accounts/${person.accountId}`)
  const topUps = page.getByRole("region", { name: "Top-ups" })
  for (const rows of [50, 100]) {
    await eventually(async () => expect(await topUps.getByRole("rowheader").count()).toBe(rows))
    await topUps.getByRole("button", { name: "Load more" }).click()
  }
  await topUps.getByRole("button", { name: `Refund ${paid.id}` }).click()
  const dialog = page.getByRole("dialog")
  expect(await dialog.getByLabel("Of", { exact: true }).locator("option:checked").innerText()).toEndWith(paid.id)
  await dialog.getByLabel("Amount").fill("5,000")
  await dialog.getByLabel("Reason").fill("Asked for by mail")
  await visit.expectAccessible()
  await dialog.getByRole("button", { name: /^Refund Rp/ }).click()
  await dialog.waitFor({ state: "detached" })
  const back = topUps.getByRole("row", { name: new RegExp(`${paid.id}.*5,000 went back`) }).getByText("went back")
  // Beneath the amount that was paid, which stands at the end of its column like all numbers.
  expect(await back.evaluate((one) => getComputedStyle(one).textAlign)).toBe("end")
})

test("a debit takes no more than there is", async () => {
  const person = await world.gateway.person(20_000)
  await using visit = await world.visit({ person: world.operator, size: "phone" })
  await visit.open(`/operator/accounts/${person.accountId}`)
  await visit.page.getByRole("button", { name: "Adjust balance" }).click()
  const dialog = visit.page.getByRole("dialog")
  await dialog.getByText("Debit", { exact: true }).click()
  await dialog.getByLabel("Amount").fill("20,001")
  await dialog.getByLabel("Reason").fill("A test")
  await dialog.getByRole("button", { name: "Debit Rp\u00A020,001" }).click()
  await dialog.getByText("More than the balance.").waitFor()
  await dialog.getByLabel("Amount").fill("20,000")
  await dialog.getByRole("button", { name: "Debit Rp\u00A020,000" }).click()
  await visit.page.getByText("The balance is now Rp\u00A00.").waitFor()
})

test("a large adjustment wants to be confirmed, for the very amount", async () => {
  const person = await world.gateway.person(20_000)
  await using visit = await world.visit({ person: world.operator })
  await visit.open(`/operator/accounts/${person.accountId}`)
  await visit.page.getByRole("button", { name: "Adjust balance" }).click()
  const dialog = visit.page.getByRole("dialog")
  await dialog.getByLabel("Reason").fill("A test")
  await dialog.getByRole("textbox", { name: "Amount" }).fill("5,000,000")
  await eventually(async () =>
    expect(await dialog.getByRole("button", { name: "Credit Rp\u00A05,000,000" }).isEnabled()).toBe(true),
  )
  await dialog.getByRole("textbox", { name: "Amount" }).fill("5,000,001")
  const act = dialog.getByRole("button", { name: "Credit Rp\u00A05,000,001" })
  await eventually(async () => expect(await act.isDisabled()).toBe(true))
  await dialog.getByRole("checkbox").check()
  await dialog.getByRole("textbox", { name: "Amount" }).fill("50,000,010")
  await eventually(async () =>
    expect(await dialog.getByRole("button", { name: "Credit Rp\u00A050,000,010" }).isDisabled()).toBe(true),
  )
  await dialog.getByRole("textbox", { name: "Amount" }).fill("5,000,001")
  await dialog.getByRole("checkbox").check()
  await act.click()
  await visit.page.getByText("The balance is now Rp\u00A05,020,001.").waitFor()
})

test("whom the house bore something for is named, frozen and let go again", async () => {
  const { gateway } = world
  const model = await gateway.model({ format: "chat", model: "kapal-lapar", script: "counted=70000" })
  const person = await gateway.person(20_000)
  const email = await emailOf(person)
  const own = (await gateway.key(person)).key
  const request = (await say(world, own, model)).headers.get("x-request-id") ?? ""
  await using visit = await world.visit({ person: world.operator })
  await visit.open("/operator/billing")
  const list = visit.page.getByRole("region", { name: "Absorbed by account" })
  const row = list.getByRole("row", { name: email })
  await row.getByText("Rp\u00A0349.75").waitFor()
  await row.getByText(request).waitFor()
  await row.getByRole("button", { name: "Freeze" }).click()
  const dialog = visit.page.getByRole("dialog", { name: `Freeze ${email}?` })
  await dialog.getByText("403 auth.account_frozen").waitFor()
  await dialog.getByLabel("Reason").fill("Costs more than it pays")
  await dialog.getByRole("button", { name: "Freeze account" }).click()
  await row.getByText("Frozen").waitFor()
  expect((await say(world, own, model)).status).toBe(403)
  await row.getByRole("button", { name: "Unfreeze" }).click()
  const undo = visit.page.getByRole("dialog", { name: `Unfreeze ${email}?` })
  await undo.getByLabel("Reason").fill("A test")
  await undo.getByRole("button", { name: "Unfreeze account" }).click()
  await row.getByText("Active").waitFor()
  expect((await say(world, own, model)).status).toBe(200)
  await list.getByText("24 hours").click()
  await row.getByText(request).waitFor()
})

test("freezing names what will happen, wants a reason, stops the keys, and is undone", async () => {
  const person = await world.gateway.person(20_000)
  const own = (await world.gateway.key(person)).key
  await using visit = await world.visit({ person: world.operator, language: "id" })
  await visit.open(`/operator/accounts/${person.accountId}`)
  await visit.page.getByRole("button", { name: "Bekukan" }).click()
  const dialog = visit.page.getByRole("dialog")
  await dialog.getByText(/Semua kuncinya \(1\) langsung ditolak/).waitFor()
  await dialog.getByRole("button", { name: "Bekukan akun" }).click()
  await dialog.getByText("Wajib diisi: satu baris, paling banyak 500 karakter.").waitFor()
  await dialog.getByLabel("Alasan").fill("Diduga bocor")
  await visit.screenshot("operator-freeze")
  await visit.expectAccessible()
  await dialog.getByRole("button", { name: "Bekukan akun" }).click()
  await visit.page.getByText(/^Dibekukan sejak .*: Diduga bocor$/).waitFor()
  expect((await say(world, own, model)).status).toBe(403)
  await visit.page.getByRole("button", { name: "Buka kembali" }).click()
  await dialog.getByLabel("Alasan").fill("Kunci sudah diganti")
  await dialog.getByRole("button", { name: "Buka kembali akun" }).click()
  await visit.page.getByRole("button", { name: "Bekukan", exact: true }).waitFor()
  expect((await say(world, own, model)).status).toBe(200)
  await visit.page.getByRole("link", { name: "Log audit akun ini" }).click()
  await visit.page.getByRole("heading", { name: "Log audit" }).waitFor()
  const names = visit.page.getByRole("rowheader")
  await names.first().waitFor()
  await eventually(async () => expect(await names.allInnerTexts()).toEqual(["Akun dibuka kembali", "Akun dibekukan"]))
})

test("top-ups are narrowed by their state, and a payment problem is resolved with a note", async () => {
  await world.gateway.sql`update payment_problems set resolved_at = null, resolved_by = null, note = null`
  await using visit = await world.visit({ person: world.operator })
  await visit.open("/operator/top-ups")
  await visit.page.getByText("Pending", { exact: true }).first().click()
  await visit.page.waitForURL(/status=pending/)
  await visit.page.getByRole("row", { name: wrongTopUp }).waitFor()
  await eventually(async () => expect(await visit.page.getByRole("rowheader").count()).toBe(1))
  await visit.open("/operator/payment-problems")
  const row = visit.page.getByRole("row", { name: /Wrong amount/ })
  await row.getByText(wrongTopUp).last().waitFor()
  expect(await row.getByRole("link", { name: "Open account" }).getAttribute("href")).toBe(
    `/dashboard/operator/accounts/${customer.accountId}`,
  )
  await row.getByRole("button", { name: "Resolve" }).click()
  const dialog = visit.page.getByRole("dialog")
  await dialog.getByText("This credits nothing").waitFor()
  await dialog.getByLabel("What was done").fill("Returned by hand")
  await dialog.getByRole("button", { name: "Mark as resolved" }).click()
  await visit.page.getByText("No payment problems").waitFor()
  await visit.page.getByText("Show resolved ones too").click()
  await visit.page.waitForURL(/resolved=true/)
  await visit.page.getByRole("row", { name: /Returned by hand/ }).waitFor()
})

test("of two operators at one problem or one account, the later is told what the first wrote", async () => {
  const person = await world.gateway.person()
  await payWrongly(world, person)
  const other = caller(world.gateway, await makeOperator(world.gateway))
  await using visit = await world.visit({ person: world.operator })
  const { page } = visit
  const dialog = page.getByRole("dialog")
  await visit.open("/operator/payment-problems")
  await page.getByRole("button", { name: "Resolve" }).first().click()
  const [problem] = (await other("/operator/payment-problems")).json.data
  await other(`/operator/payment-problems/${problem.id}/resolve`, { note: "Credited by the other" })
  await dialog.getByLabel("What was done").fill("Credited by me")
  await dialog.getByRole("button", { name: "Mark as resolved" }).click()
  await page.getByText(/had resolved it: “Credited by the other”.*credited twice/).waitFor()
  await dialog.waitFor({ state: "detached" })
  await visit.open(`/operator/accounts/${person.accountId}`)
  await page.getByRole("button", { name: "Freeze" }).click()
  await other(`/operator/accounts/${person.accountId}/freeze`, { reason: "The other's reason" })
  await dialog.getByLabel("Reason").fill("Mine")
  await dialog.getByRole("button", { name: "Freeze" }).click()
  await page.getByText(/had frozen it, with the reason: “The other's reason”/).waitFor()
  await dialog.waitFor({ state: "detached" })
})

test("an operator's filter, tags and heads use the product's words", async () => {
  await using visit = await world.visit({ person: world.operator, language: "id" })
  await visit.open("/operator/top-ups")
  await visit.page.getByRole("radio", { name: "Lunas" }).check()
  await visit.page.waitForURL(/status=paid/)
  await visit.page.getByRole("cell", { name: "Lunas", exact: true }).first().waitFor()
  await visit.open("/operator/accounts")
  await visit.page.getByRole("columnheader", { name: "E-mail", exact: true }).waitFor()
  await visit.page.getByText(/^Bagian dari alamat e-mail/).waitFor()
})

test("a long reason in the audit log leaves room for who gave it and for what it is about", async () => {
  await world.gateway.sql`
    insert into audit_log (request_id, operator_id, action, subject, reason)
    values (${`req_${crypto.randomUUID()}`}, ${world.operator.accountId}, 'model.changed', 'kapal-panjang', ${"because ".repeat(60)})`
  await using visit = await world.visit({ person: world.operator })
  await visit.open("/operator/audit?subject=kapal-panjang")
  for (const words of ["kapal-panjang", "operator@example.com"]) {
    const cell = visit.page.getByRole("row").nth(1).getByText(words, { exact: true })
    expect((await cell.boundingBox())?.width).toBeGreaterThan(100)
  }
  for (const width of [1024, 768, 320]) {
    await visit.page.setViewportSize({ width, height: 800 })
    await visit.expectNoSidewaysScroll()
  }
})

test("a long value in the audit log does not break the names of fields", async () => {
  const transfer = `adjustment:acc_${"W".repeat(21)}:cmd_${"W".repeat(21)}`
  await world.gateway.sql`
    insert into audit_log (request_id, action, subject, before, after) values (${`req_${crypto.randomUUID()}`}, 'account.adjusted', 'acc_wide',
      '{"balance_micro":0}', jsonb_build_object('balance_micro', 5000000, 'transfer', ${transfer}::text))`
  await using visit = await world.visit({ person: world.operator, language: "id" })
  await visit.open("/operator/audit?subject=acc_wide")
  await visit.page.getByRole("row").nth(1).click()
  const drawer = visit.page.getByRole("dialog")
  const heads = [...(await drawer.getByRole("columnheader").all()), ...(await drawer.getByRole("rowheader").all())]
  expect(heads.length).toBe(5)
  for (const head of heads) {
    const lines = await head.evaluate((cell) => {
      const range = document.createRange()
      range.selectNodeContents(cell)
      return range.getClientRects().length
    })
    expect([await head.innerText(), lines]).toEqual([await head.innerText(), 1])
  }
  await visit.page.setViewportSize({ width: 320, height: 800 })
  await visit.expectNoSidewaysScroll()
})

test("the audit log's times are written as all others are", async () => {
  await using visit = await world.visit({ person: world.operator, language: "id" })
  await visit.open("/operator/audit")
  const entry = visit.page.getByRole("row").nth(1)
  const time = /\d{1,2} \w{3} \d{4}, \d\d\.\d\d\.\d\d/
  await entry.getByText(time).waitFor()
  await entry.click()
  await visit.page.getByRole("dialog").getByText(time).waitFor()
})

test("an account that is not there is told as the API tells it, with its request id", async () => {
  await using visit = await world.visit({ person: world.operator })
  await visit.open("/operator/accounts/acc_nobody")
  const told = visit.page.getByRole("alert")
  await told.getByText("resource.not_found").waitFor()
  await told.getByText(/^req_/).waitFor()
})
