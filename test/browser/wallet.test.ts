/** Topping up, as a person does it: amount, QR code, payment, receipt. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import type { Route } from "playwright-core"
import { formatRupiah } from "../../src/dashboard/i18n/figures.ts"
import type { Person } from "../gateway/harness.ts"
import { caller, makeOperator } from "../http/operator/operator.ts"
import { type BrowserWorld, eventually, everyLook, openBrowser, type Visit } from "./harness.ts"

let world: BrowserWorld
/** Has a top-up of every state. */
let customer: Person
let paidId: string
let pendingId: string
let lateId: string

beforeAll(async () => {
  world = await openBrowser({
    env: {
      PAYMENT_SERVICE_FEE_RP: "1000",
      PAYMENT_FEE_BPS: "70",
      SUPPORT_CONTACT: "help@example.com",
      SELLER_NAME: "PT Loket Contoh",
    },
  })
  customer = await world.gateway.person()
  paidId = await begin(customer, 50_000)
  await pay(paidId)
  lateId = await begin(customer, 1_250_000)
  await expire(lateId)
  pendingId = await begin(customer, 100_000)
})
afterAll(() => world[Symbol.asyncDispose]())

async function begin(person: Person, amountRp: number): Promise<string> {
  const body = JSON.stringify({ amount_rp: amountRp })
  const response = await world.gateway.dashboard(person, "/top-ups", { method: "POST", body })
  expect(response.status).toBe(201)
  return ((await response.json()) as { id: string }).id
}

async function pay(id: string): Promise<void> {
  const response = await fetch(`${world.gateway.url}/simulated-pay/${id}`, { method: "POST" })
  expect(response.status).toBe(200)
}

const expire = (id: string) =>
  world.gateway.sql`update top_ups set expires_at = now() - interval '1 second' where id = ${id}`

/** The list of top-ups, each to be paid within three seconds. */
async function soonOver(route: Route): Promise<void> {
  const response = await route.fetch()
  const { data, ...rest } = (await response.json()) as { data: object[] }
  const soon = new Date(Date.now() + 3_000).toISOString()
  await route.fulfill({ response, json: { ...rest, data: data.map((each) => ({ ...each, expires_at: soon })) } })
}

const breakdown = async (visit: Visit) => {
  const lines = visit.page.getByRole("region", { name: "Payment breakdown" }).getByRole("definition")
  return (await lines.allInnerTexts()).map((line) => line.replace("\u00A0", " "))
}

test.each(everyLook)("the wallet, a payment and a receipt are accessible and fit: %o", async (look) => {
  await using visit = await world.visit({ ...look, person: customer })
  const pages = {
    wallet: "/wallet",
    "wallet-pay": `/wallet/${pendingId}`,
    "wallet-expired": `/wallet/${lateId}`,
    "wallet-paid": `/wallet/${paidId}`,
    "wallet-receipt": `/wallet/${paidId}/receipt`,
  }
  for (const [name, path] of Object.entries(pages)) {
    await visit.open(path)
    await visit.screenshot(name)
    await visit.expectAccessible()
    await visit.expectNoSidewaysScroll()
  }
})

test("on a phone, who scrolled down to pay is shown that the payment has come", async () => {
  const person = await world.gateway.person()
  const id = await begin(person, 25_000)
  await using visit = await world.visit({ person, size: "phone" })
  const { page } = visit
  await visit.open(`/wallet/${id}`)
  const asked = page.getByRole("button", { name: "I have paid" })
  await asked.focus()
  await page.evaluate(() => window.scrollTo(0, document.documentElement.scrollHeight))
  await pay(id)
  const told = page.getByRole("heading", { name: "Payment received" })
  await told.waitFor()
  await eventually(async () => expect((await told.boundingBox())?.y).toBeGreaterThan(60))
  expect((await told.boundingBox())?.y).toBeLessThan(700)
  await page.locator("main:focus").waitFor()
})

test.each(["id", "en"] as const)("on a screen of 320 px amounts and the payment fit (%s)", async (language) => {
  await using visit = await world.visit({ person: customer, size: "narrow", language })
  await visit.open("/wallet")
  const amounts = visit.page.getByRole("group").filter({ hasText: "500" }).getByRole("button")
  expect(await amounts.count()).toBe(6)
  const insides = await amounts.evaluateAll((buttons) =>
    buttons.map((button) => {
      const words = document.createRange()
      words.selectNodeContents(button)
      const [inner, outer] = [words.getBoundingClientRect(), button.getBoundingClientRect()]
      return Math.min(inner.left - outer.left, outer.right - inner.right)
    }),
  )
  expect(Math.min(...insides)).toBeGreaterThanOrEqual(8)
  await visit.open(`/wallet/${pendingId}`)
  await visit.expectNoSidewaysScroll()
})

test("a receipt and a statement are files for a bookkeeper", async () => {
  await using visit = await world.visit({ person: customer })
  const downloaded = async (path: string) => {
    await visit.open(path)
    const [download] = await Promise.all([
      visit.page.waitForEvent("download"),
      visit.page.getByRole("link", { name: "Download PDF" }).click(),
    ])
    expect((await Bun.file(await download.path()).text()).slice(0, 5)).toBe("%PDF-")
    return download.suggestedFilename()
  }
  expect(await downloaded(`/wallet/${paidId}/receipt`)).toMatch(/^KW-\d{4}-\d{6}\.pdf$/)
  expect(await downloaded("/wallet/statement")).toBe("loket-draft-statement.pdf")
})

test("what a top-up costs is shown before there is one, for a preset and for an amount of one's own", async () => {
  const person = await world.gateway.person()
  await using visit = await world.visit({ person })
  await visit.open("/wallet")
  await visit.page.getByText("No top-ups yet").waitFor()
  await visit.page.getByRole("button", { name: "Rp\u00A0100,000" }).click()
  await visit.page.getByRole("button", { name: "Pay Rp\u00A0101,700 with QRIS" }).waitFor()
  await eventually(async () =>
    expect(await breakdown(visit)).toEqual(["Rp 100,000", "Rp 1,000", "Rp 700", "Rp 101,700"]),
  )
  const field = visit.page.getByLabel("Another amount")
  await field.fill("1234567")
  await visit.page.getByRole("button", { name: "Pay Rp\u00A01,244,209 with QRIS" }).waitFor()
  await eventually(async () =>
    expect(await breakdown(visit)).toEqual(["Rp 1,234,567", "Rp 1,000", "Rp 8,642", "Rp 1,244,209"]),
  )
  await field.blur()
  await eventually(async () => expect(await field.inputValue()).toBe("1,234,567"))
  const { data } = (await (await world.gateway.dashboard(person, "/top-ups")).json()) as { data: unknown[] }
  expect(data).toEqual([])
})

test("what an amount costs is asked for once it is written, and what another costs is never shown", async () => {
  await using visit = await world.visit({ person: customer })
  const { page } = visit
  await visit.open("/wallet?amount=50000")
  await page.getByRole("button", { name: "Pay Rp\u00A051,350 with QRIS" }).waitFor()
  const asked: string[] = []
  const { promise: answered, resolve: answer } = Promise.withResolvers<undefined>()
  await page.route("**/top-ups/quote?*", async (route) => {
    asked.push(new URL(route.request().url()).search)
    await answered
    return route.continue()
  })
  const field = page.getByLabel("Another amount")
  await field.fill("")
  await field.pressSequentially("1234567", { delay: 20 })
  await eventually(async () => expect(asked).not.toEqual([]))
  expect(await breakdown(visit)).toEqual([])
  await page.getByRole("button", { name: "Pay with QRIS" }).waitFor()
  answer(undefined)
  await page.getByRole("button", { name: "Pay Rp\u00A01,244,209 with QRIS" }).waitFor()
  expect(asked).toEqual(["?amount_rp=1234567"])
})

test.each([
  ["9,999", "Rp 10,000 at least."],
  ["100,000,001", "Rp 100,000,000 at most."],
  ["10,000.50", "Enter whole rupiah, such as 50,000."],
  ["ten", "Enter whole rupiah, such as 50,000."],
])("an amount of %s is refused beside its field, with no bill, and nothing is sent", async (amount, told) => {
  await using visit = await world.visit({ person: customer })
  await visit.open("/wallet")
  const sent: string[] = []
  visit.page.on("request", (request) => sent.push(`${request.method()} ${new URL(request.url()).pathname}`))
  const field = visit.page.getByLabel("Another amount")
  await eventually(async () => expect(await breakdown(visit)).not.toEqual([]))
  await field.fill(amount)
  await field.press("Enter")
  await visit.page.getByText(told).waitFor()
  expect(await breakdown(visit)).toEqual([])
  await eventually(async () => expect(await field.getAttribute("aria-invalid")).toBe("true"))
  expect(sent).not.toContain("POST /top-ups")
})

test("a payment shows on the page by itself, and leaves a receipt for the printer", async () => {
  const person = await world.gateway.person()
  await using visit = await world.visit({ person, size: "phone", language: "id" })
  await visit.open("/wallet")
  await visit.page.getByRole("button", { name: "Rp\u00A025.000" }).click()
  await visit.page.getByRole("button", { name: "Bayar Rp\u00A026.175 dengan QRIS" }).click()
  await visit.page.getByRole("img", { name: "Kode QRIS untuk membayar Rp\u00A026.175" }).waitFor()
  // A page that was closed in the middle leads back to the payment.
  await visit.open("/wallet")
  await visit.page.getByRole("link", { name: "Lanjutkan pembayaran" }).click()
  await visit.page.getByRole("timer").waitFor()
  const opened = visit.page.waitForEvent("popup")
  await visit.page.getByRole("link", { name: "Buka halaman bayar simulasi" }).click()
  const simulated = await opened
  await simulated.getByRole("button", { name: "Bayar" }).click()
  await simulated.getByText("sudah dibayar").waitFor()
  await visit.page.getByRole("heading", { name: "Pembayaran diterima" }).waitFor()
  await visit.page.getByText("Saldo tersedia sekarang Rp\u00A025.000.").waitFor()
  await visit.page.getByRole("banner").getByText("Rp\u00A025.000").first().waitFor()
  await visit.page.getByRole("link", { name: "Lihat kuitansi" }).click()
  const receipt = visit.page.getByRole("article", { name: "Kuitansi isi saldo" })
  await receipt.getByText("Rp\u00A026.175").waitFor()
  await visit.page.emulateMedia({ media: "print" })
  expect(await receipt.isVisible()).toBe(true)
  for (const name of ["Cetak", "Lainnya"]) {
    expect([name, await visit.page.getByRole("button", { name }).isVisible()]).toEqual([name, false])
  }
})

test("a payment whose events do not come through is told with the balance that it made", async () => {
  const person = await world.gateway.person()
  await pay(await begin(person, 20_000))
  const id = await begin(person, 30_000)
  await using visit = await world.visit({ person })
  await visit.page.route("**/events", () => new Promise(() => {}))
  await visit.open(`/wallet/${id}`)
  await pay(id)
  await visit.page.getByRole("heading", { name: "Payment received" }).waitFor()
  await visit.page.getByText(/available balance is now Rp\s50,000/i).waitFor({ timeout: 10_000 })
})

test("who may only look at a payment is not offered to ask for it", async () => {
  const person = await world.gateway.person()
  await world.gateway.sql`
    insert into members (account_id, member_id, role, invited_by, invitation_hash)
    values (${customer.accountId}, ${person.accountId}, 'viewer', ${customer.accountId}, ''::bytea)`
  const body = JSON.stringify({ account_id: customer.accountId })
  const looked = await world.gateway.dashboard(person, "/auth/look-at", { method: "POST", body })
  expect(looked.status).toBe(204)
  await using visit = await world.visit({ person })
  for (const id of [pendingId, lateId]) {
    await visit.open(`/wallet/${id}`)
    await visit.page.getByRole("region", { name: "Payment breakdown" }).waitFor()
    expect(await visit.page.getByRole("button", { name: "I have paid" }).count()).toBe(0)
  }
  expect(await visit.page.getByRole("link", { name: "Top up again" }).count()).toBe(0)
})

test("who says to have paid is told that nothing has come yet", async () => {
  await using visit = await world.visit({ person: customer })
  await visit.open(`/wallet/${pendingId}`)
  await visit.page.getByRole("button", { name: "I have paid" }).click()
  await visit.page.getByRole("status").getByText("We have not received the payment yet.").waitFor()
})

test("a code whose time is up is taken away, and a payment that comes late is credited all the same", async () => {
  const person = await world.gateway.person()
  const id = await begin(person, 20_000)
  await using visit = await world.visit({ person })
  await visit.open(`/wallet/${id}`)
  await visit.page.getByRole("img", { name: /^QRIS code/ }).waitFor()
  await expire(id)
  await visit.page.getByRole("heading", { name: "The time to pay is up" }).waitFor()
  await eventually(async () => expect(await visit.page.getByRole("img", { name: /^QRIS code/ }).count()).toBe(0))
  await visit.page.getByRole("link", { name: "Contact the operator" }).waitFor()
  await pay(id)
  await visit.page.getByRole("heading", { name: "Payment received" }).waitFor()
  await visit.page.getByText("after its time was up; credited all the same").waitFor()
  await visit.page.getByRole("complementary").getByText("Rp\u00A020,000").waitFor()
})

test("a payment whose time is up is not offered to be continued on an open wallet", async () => {
  const person = await world.gateway.person()
  const id = await begin(person, 20_000)
  await using visit = await world.visit({ person })
  await visit.page.route(/\/top-ups$/, soonOver, { times: 1 })
  await visit.open("/wallet")
  const go = visit.page.getByRole("link", { name: "Continue payment" })
  await go.waitFor()
  await expire(id)
  await go.waitFor({ state: "detached", timeout: 20_000 })
  await visit.page.getByRole("table", { name: "Top-up history" }).getByText("Expired").waitFor()
})

test("the time that is left is the server's to say, whatever the payer's clock shows", async () => {
  const person = await world.gateway.person()
  const id = await begin(person, 20_000)
  await using visit = await world.visit({ person })
  await visit.page.clock.install({ time: Date.now() + 86_400_000 })
  await visit.open(`/wallet/${id}`)
  expect(await visit.page.getByRole("timer").innerText()).toMatch(/^1[0-5]:\d\d$/)
})

test("the QR code is saved and copied as a picture that a bank's app can read", async () => {
  await using visit = await world.visit({ person: customer })
  await visit.open(`/wallet/${pendingId}`)
  const saving = visit.page.waitForEvent("download")
  await visit.page.getByRole("button", { name: "Save image" }).click()
  const download = await saving
  expect(download.suggestedFilename()).toBe("loket-qris-101700.png")
  const bytes = Buffer.from(await Bun.file(await download.path()).arrayBuffer())
  expect(bytes.subarray(1, 4).toString()).toBe("PNG")
  expect([bytes.readUInt32BE(16), bytes.readUInt32BE(20)]).toEqual([1_024, 1_024])
  await visit.page.getByRole("button", { name: "Copy image" }).click()
  await visit.page.getByText("QR image copied").waitFor()
  const types = await visit.page.evaluate(async () => (await navigator.clipboard.read()).flatMap(({ types: of }) => of))
  expect(types).toContain("image/png")
})

test("the history opens each top-up, a link asks for an amount, and another's top-up is nobody's", async () => {
  await using visit = await world.visit({ person: customer })
  await visit.open("/wallet?amount=75000")
  expect(await visit.page.getByLabel("Another amount").inputValue()).toBe("75,000")
  const rows = visit.page.getByRole("table", { name: "Top-up history" }).getByRole("row")
  expect((await rows.allInnerTexts()).slice(1).map((row) => /Paid|Expired|Pending/.exec(row)?.[0])).toEqual([
    "Pending",
    "Expired",
    "Paid",
  ])
  await rows.nth(3).getByRole("button").click()
  await visit.page.getByRole("heading", { name: "Payment received" }).waitFor()

  const stranger = await world.gateway.person()
  await using other = await world.visit({ person: stranger })
  await other.open(`/wallet/${paidId}`)
  await other.page.getByText("Page not found").waitFor()
})

test("a top-up that no code could be made for says that nothing was charged", async () => {
  const person = await world.gateway.person()
  const id = await begin(person, 30_000)
  await world.gateway.sql`update top_ups set qr_payload = '', expires_at = now() where id = ${id}`
  await using visit = await world.visit({ person })
  await visit.open(`/wallet/${id}`)
  await visit.page.getByText("The QR code could not be made").waitFor()
  await visit.page.getByRole("link", { name: "Top up again" }).click()
  expect(await visit.page.getByLabel("Another amount").inputValue()).toBe("30,000")
})

test("where top-ups could not be had, it is told once, and an amount that is being written stays", async () => {
  await using visit = await world.visit({ person: customer })
  const { page } = visit
  let asked = 0
  await page.route(/\/top-ups$/, (route) => {
    asked++
    return route.fulfill({ status: 400, body: "no" })
  })
  await visit.open("/wallet")
  await page.getByRole("alert").first().waitFor()
  await page.getByLabel("Another amount").fill("77,000")
  await Bun.sleep(2_000)
  // Once for itself, and once when the connection for events stands.
  expect(asked).toBeLessThanOrEqual(3)
  await page.unroute(/\/top-ups$/)
  await page.getByRole("button", { name: "Try again" }).click()
  await page.getByRole("table", { name: "Top-up history" }).waitFor()
  expect(await page.getByLabel("Another amount").inputValue()).toBe("77,000")
})

test("an amount that is more than the provider takes at once is told before it is paid", async () => {
  await using visit = await world.visit({ person: customer, language: "id" })
  // The server's answer for Midtrans; how it comes to it is tested there (test/http/dashboard/top-ups.test.ts).
  await visit.page.route("**/top-ups/quote?*", (route) =>
    route.fulfill({
      status: 400,
      json: {
        error: "A payment is at most Rp 10000000, fees included.",
        code: "request.invalid",
        type: "invalid",
        request_id: "req_1",
        retryable: false,
      },
    }),
  )
  await visit.open("/wallet?amount=10000000")
  await visit.page.getByRole("alert").getByText("lebih besar daripada yang dapat dibayar sekali").waitFor()
})

test("an amount that was chosen stays chosen when the language changes", async () => {
  const person = await world.gateway.person()
  await using visit = await world.visit({ person, language: "id" })
  const { page } = visit
  await visit.open("/wallet")
  await page.getByRole("button", { name: "Rp\u00A0250.000", exact: true }).click()
  await page.getByRole("button", { name: /^Akun: / }).click()
  await page.locator(":popover-open").getByText("English", { exact: true }).click()
  await page.getByRole("button", { name: "Rp\u00A0250,000", exact: true }).waitFor({ state: "attached" })
  expect(await page.locator(".top-up-form input").inputValue()).toBe("250,000")
})

test("what the server refuses is told with what to tell its operator", async () => {
  await using visit = await world.visit({ person: customer })
  await visit.open("/wallet")
  await visit.page.route("**/top-ups", (route) =>
    route.request().method() === "POST"
      ? route.fulfill({
          status: 502,
          json: {
            error: "The payment provider could not be reached.",
            code: "dependency.upstream_unavailable",
            type: "upstream_unavailable",
            request_id: "req_1",
            retryable: true,
          },
        })
      : route.continue(),
  )
  await visit.page.getByRole("button", { name: /^Pay Rp/ }).click()
  const alert = visit.page.getByRole("alert")
  await alert.getByText("dependency.upstream_unavailable").waitFor()
  await alert.getByText("req_1").waitFor()
  visit.complaints.length = 0
})

describe("the statement", () => {
  let owner: Person
  let keyId: string

  beforeAll(async () => {
    const { gateway } = world
    const model = await gateway.model({ format: "chat", output_micro: 40_000_000 })
    owner = await gateway.person()
    await pay(await begin(owner, 75_000))
    const { id, key } = await gateway.key(owner, { name: "Produksi" })
    keyId = id
    for (let n = 0; n < 3; n++) {
      const body = { model, messages: [{ role: "user", content: "Halo" }], max_tokens: 40 }
      await (await gateway.post("/v1/chat/completions", key, body)).text()
    }
    const ask = caller(gateway, await makeOperator(gateway))
    const adjustment = {
      amount_micro: 123_456_780_000,
      reason: "ganti rugi gangguan 20 November",
      idempotency_key: "1",
    }
    const { status } = await ask(`/operator/accounts/${owner.accountId}/adjustments`, adjustment)
    expect(status).toBe(201)
  })

  test.each(everyLook)("is accessible and fits: %o", async (look) => {
    await using visit = await world.visit({ ...look, person: owner })
    await visit.open("/wallet/statement")
    await visit.screenshot("statement")
    await visit.expectAccessible()
    await visit.expectNoSidewaysScroll()
  })

  test("is reached from the wallet, and has every change with its reason and the balance after it", async () => {
    await using visit = await world.visit({ person: owner })
    const { page } = visit
    await visit.open("/wallet")
    await page.getByRole("link", { name: "Statement" }).click()
    const rows = page.getByRole("table", { name: "Changes of the balance" }).getByRole("row")
    await rows.nth(3).waitFor()
    // Names of keys come by a question of their own.
    await rows.filter({ hasText: "Produksi" }).waitFor()
    const { balance_micro: balance } = await world.gateway.balance(owner)
    const spent = 75_000_000_000 + 123_456_780_000 - balance
    const shown = (await rows.allInnerTexts()).map((row) => row.replaceAll(/\s+/g, " "))
    expect(shown[1]).toStartWith("Calls Produksi · 3 calls")
    expect(shown[1]).toContain(formatRupiah(-spent, "en", "column").replace("\u00A0", " "))
    expect(shown[1]).toEndWith(formatRupiah(balance, "en", "column").replace("\u00A0", " "))
    expect(shown[2]).toContain("ganti rugi gangguan 20 November")
    expect(shown[2]).toContain("+Rp 123,456.78")
    expect(shown[3]).toContain("+Rp 75,000.00")
    const figures = await page.locator("dl.stats dd.stat-value").allInnerTexts()
    expect(figures.map((figure) => figure.replace("\u00A0", " "))).toEqual([
      "Rp 0",
      "Rp 198,456.78",
      formatRupiah(spent, "en").replace("\u00A0", " "),
      formatRupiah(balance, "en").replace("\u00A0", " "),
    ])
    await page.getByText("Top-ups", { exact: true }).click()
    await rows.nth(2).waitFor({ state: "detached" })
    await page.getByText("All", { exact: true }).click()
    await rows.nth(1).getByRole("link", { name: "Calls" }).click()
    await page.getByRole("heading", { name: "Usage", level: 1 }).waitFor()
    await page.waitForURL((url) => url.searchParams.get("key") === keyId)
  })

  test("follows a call while it is open", async () => {
    await using visit = await world.visit({ person: owner })
    await visit.open("/wallet/statement")
    await visit.page.getByText("Produksi · 3 calls").waitFor()
    const { key } = await world.gateway.key(owner, { name: "Lain" })
    const model = await world.gateway.model({ format: "chat", output_micro: 40_000_000 })
    const body = { model, messages: [{ role: "user", content: "Halo" }], max_tokens: 40 }
    await (await world.gateway.post("/v1/chat/completions", key, body)).text()
    await visit.page.getByText("Lain · 1 call").waitFor()
  })

  test("has the number of a key's calls behind its name, whichever way that runs", async () => {
    const { gateway } = world
    const person = await gateway.person()
    await pay(await begin(person, 75_000))
    const { key } = await gateway.key(person, { name: "מפתח ראשי" })
    const model = await gateway.model({ format: "chat", output_micro: 40_000_000 })
    const body = { model, messages: [{ role: "user", content: "Halo" }], max_tokens: 40 }
    await (await gateway.post("/v1/chat/completions", key, body)).text()
    await using visit = await world.visit({ person })
    await visit.open("/wallet/statement")
    const line = visit.page.getByRole("table", { name: "Changes of the balance" }).getByText("מפתח ראשי · 1 call")
    await line.waitFor()
    const [name = 0, count = 0] = await line.evaluate((element) =>
      ["מפתח", "1"].map((word) => {
        const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT)
        while (texts.nextNode()) {
          const at = texts.currentNode.textContent?.indexOf(word) ?? -1
          if (at < 0) continue
          const range = document.createRange()
          range.setStart(texts.currentNode, at)
          range.setEnd(texts.currentNode, at + word.length)
          return range.getBoundingClientRect().right
        }
        return undefined
      }),
    )
    expect(count).toBeGreaterThan(name)
  })

  test("goes back to the account's first month and no further, and is a file", async () => {
    await world.gateway.sql`update accounts set created_at = now() where id = ${owner.accountId}`
    await using visit = await world.visit({ person: owner })
    await visit.open("/wallet/statement")
    await eventually(async () =>
      expect(await visit.page.getByRole("button", { name: "Month before" }).isDisabled()).toBe(true),
    )
    expect(await visit.page.getByRole("button", { name: "Month after" }).isDisabled()).toBe(true)
    await world.gateway
      .sql`update accounts set created_at = created_at - interval '60 days' where id = ${owner.accountId}`
    await visit.page.reload()
    await visit.page.getByRole("button", { name: "Month before" }).click()
    await visit.page.getByText("No change of the balance").waitFor()
    // With the keys alone: at its end the arrow keeps the focus.
    const after = visit.page.getByRole("button", { name: "Month after" })
    await after.press("Enter")
    await eventually(async () => expect(await after.isDisabled()).toBe(true))
    expect(await after.evaluate((arrow) => arrow === document.activeElement)).toBe(true)
    await after.press("Enter")
    const [download] = await Promise.all([
      visit.page.waitForEvent("download"),
      visit.page.getByRole("link", { name: "Download CSV" }).click(),
    ])
    expect(await Bun.file(await download.path()).text()).toContain("ganti rugi gangguan 20 November")
  })
})
