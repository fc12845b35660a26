import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Locator, Page } from "playwright-core"
import type { Person } from "../gateway/harness.ts"
import { type BrowserWorld, eventually, everyLook, openBrowser, type Visit } from "./harness.ts"

let world: BrowserWorld
let everyKind: Person
let everyBound: Person

beforeAll(async () => {
  world = await openBrowser()
  everyKind = await owner()
  everyBound = await bound()
})
afterAll(() => world[Symbol.asyncDispose]())

const hello = { model: "plain", messages: [{ role: "user", content: "Halo" }], max_tokens: 40 }

/** Somebody with keys of every kind. */
async function owner(): Promise<Person> {
  const { gateway } = world
  const model = await gateway.model({ format: "chat", output_micro: 2_000_000_000 })
  const person = await gateway.person(1_250_000)
  await gateway.key(person, { name: "Skrip lama" })
  const ended = await gateway.key(person, { name: "Laptop Budi" })
  await gateway.dashboard(person, `/keys/${ended.id}/revoke`, { method: "POST" })
  const small = await gateway.key(person, {
    name: "Uji coba",
    spending_limit_micro: 35_000_000_000,
    spending_period: "daily",
  })
  const whole = await gateway.key(person, {
    name: "Produksi: asisten pelanggan",
    requests_per_minute: 20,
    tokens_per_minute: 2_000,
    spending_limit_micro: 100_000_000_000,
    spending_period: "monthly",
  })
  await gateway.dashboard(person, `/keys/${whole.id}/rotate`, { method: "POST", body: "{}" })
  for (const { key } of [small, whole, whole, whole]) {
    const response = await gateway.post("/v1/chat/completions", key, { ...hello, model })
    expect(response.status).toBe(200)
    await response.text()
  }
  return person
}

const field = (dialog: Locator, name: string) => dialog.getByRole("textbox", { name })
/** The form's first field has the focus, so that what is typed goes there. */
const focused = (page: Page) =>
  page.getByRole("dialog").getByRole("textbox").first().and(page.locator(":focus")).waitFor()
const card = (visit: Visit, name: string) => visit.openKey(name)

test.each(everyLook)("keys are accessible and fit: %o", async (look) => {
  await using visit = await world.visit({ ...look, person: everyKind })
  await visit.open("/keys")
  await visit.screenshot("keys")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  await visit.page.locator("summary", { hasText: look.language === "id" ? "1 kunci" : "1 revoked" }).click()
  await visit.page.getByText("Laptop Budi").waitFor()
  await visit.page.getByRole("button", { name: look.language === "id" ? "Buat kunci" : "Create key" }).click()
  await visit.page.getByRole("dialog").waitFor()
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
})

test("a key that cannot be made is told of in Indonesian, and so is one that cannot be rotated", async () => {
  const person = await world.gateway.person()
  await world.gateway.key(person, { name: "Toko" })
  await using visit = await world.visit({ person, language: "id" })
  const { page } = visit
  const json = {
    error: "An account has at most",
    code: "request.invalid",
    type: "invalid",
    request_id: "req_1",
    retryable: false,
  }
  await page.route(/:\d+\/keys(?:\/.*)?$/, (route) =>
    route.request().method() === "POST" ? route.fulfill({ status: 400, json }) : route.fallback(),
  )
  await visit.open("/keys")
  await page.getByRole("button", { name: "Buat kunci" }).first().click()
  const dialog = page.getByRole("dialog")
  await dialog.getByLabel("Nama", { exact: true }).fill("Kasir")
  await dialog.getByRole("button", { name: "Buat kunci" }).click()
  await dialog.getByRole("alert").getByText("batas jumlah kunci sudah tercapai").waitFor()
  await page.keyboard.press("Escape")
  await (await visit.openKey("Toko")).getByRole("button", { name: "Rotasi" }).click()
  await dialog.getByRole("button", { name: "Rotasi kunci" }).click()
  await dialog.getByRole("alert").getByText("Kunci ini sudah dicabut, atau").waitFor()
  expect(await page.getByText("An account has").count()).toBe(0)
})

test("on a screen of 320 px a budget stays in its cell, and a switch whole beside a long label", async () => {
  await using visit = await world.visit({ person: everyKind, size: "narrow", language: "id" })
  await visit.open("/keys")
  const over = await visit
    .keyRow("Produksi: asisten pelanggan")
    .getByRole("meter")
    .evaluateAll((bars) =>
      bars.map((bar) => bar.getBoundingClientRect().right - (bar.closest("td")?.getBoundingClientRect().right ?? 0)),
    )
  expect(over.length).toBeGreaterThan(0)
  expect(Math.max(...over)).toBeLessThanOrEqual(0)
  await visit.page.getByRole("button", { name: "Buat kunci" }).click()
  const seesBalance = visit.page.getByRole("dialog").getByRole("switch", { name: "sisa saldo" })
  expect((await seesBalance.boundingBox())?.width).toBe(40)
})

test("on a screen of 320 px a new secret is whole, and so are the buttons below it", async () => {
  await using visit = await world.visit({ person: await world.gateway.person(), size: "narrow", language: "id" })
  const { page } = visit
  await visit.open("/keys")
  await page.getByRole("button", { name: "Buat kunci" }).click()
  await field(page.getByRole("dialog"), "Nama").fill("x".repeat(60))
  await page.keyboard.press("Enter")
  const shown = page.getByRole("dialog").filter({ has: page.getByRole("button", { name: "Sudah saya simpan" }) })
  await shown.waitFor()
  expect(await shown.evaluate((dialog) => dialog.scrollWidth - dialog.clientWidth)).toBe(0)
})

test("a new secret stays on the page, however often Escape is pressed, until it is said to be kept", async () => {
  await using visit = await world.visit({ person: await world.gateway.person(), language: "en" })
  const { page } = visit
  await visit.open("/keys")
  await page.getByRole("button", { name: "Create key" }).first().click()
  await field(page.getByRole("dialog"), "Name").fill("laptop")
  await page.keyboard.press("Enter")
  const secret = page.getByRole("dialog").getByText(/^sk-loket-/)
  await secret.waitFor()
  for (let press = 0; press < 5; press++) await page.keyboard.press("Escape")
  // The browser tells of the closing a moment later.
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 100)))
  expect(await secret.isVisible()).toBe(true)
  await page.getByRole("button", { name: "I have saved it" }).click()
  await secret.waitFor({ state: "detached" })
})

test("a key is made with limits, shown once, works, and is never shown again", async () => {
  const person = await world.gateway.person(100_000)
  await using visit = await world.visit({ person, language: "id" })
  const { page } = visit
  await visit.open("/keys")
  await page.getByRole("button", { name: "Buat kunci" }).click()
  const dialog = page.getByRole("dialog", { name: "Buat kunci API" })
  // The name has the focus.
  await field(dialog, "Nama").and(page.locator(":focus")).waitFor()
  await page.keyboard.type("Produksi")
  await dialog
    .getByRole("group", { name: "Pilihan untuk Batas pengeluaran" })
    .getByRole("button", { name: "50.000" })
    .click()
  await dialog.getByText("Tiap hari").click()
  await field(dialog, "Permintaan per menit").fill("60")
  const sees = dialog.getByRole("switch", { name: "sisa saldo" })
  expect(await sees.isChecked()).toBe(true)
  await visit.screenshot("key-dialog")
  await sees.click()
  await dialog.getByRole("button", { name: "Buat kunci" }).click()
  const once = page.getByRole("dialog", { name: "Salin kunci Anda sekarang" })
  await once.getByRole("button", { name: "Salin Kunci API" }).click()
  await once.getByRole("button", { name: "Tersalin" }).waitFor()
  const key = await page.evaluate(() => navigator.clipboard.readText())
  expect(key).toMatch(/^sk-loket-[A-Za-z0-9]{46}$/)
  await page.keyboard.press("Escape")
  await once.getByRole("button", { name: "Sudah saya simpan" }).click()
  await once.waitFor({ state: "hidden" })
  expect(await page.content()).not.toContain(key)
  await visit.keyRow("Produksi").getByText("Rp\u00A00 dari Rp\u00A050.000").waitFor()
  await visit.open("/keys")
  expect(await page.content()).not.toContain(key)

  const response = await world.gateway.post("/v1/chat/completions", key, hello)
  expect(response.headers.get("x-key-limit-period")).toBe("daily")
  expect(response.headers.get("x-ratelimit-limit")).toBe("60")
  const balance = await fetch(`${world.gateway.url}/v1/balance`, { headers: { authorization: `Bearer ${key}` } })
  expect(balance.headers.get("x-error-code")).toBe("auth.key_not_allowed")
})

/** Presses a button again after each of these waits, in milliseconds, also while it is busy. */
const pressed = (button: Locator, waits: readonly number[]) =>
  button.evaluate(async (element: HTMLElement, pauses) => {
    element.click()
    for (const pause of pauses) {
      if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause))
      element.click()
    }
  }, waits)

test.each([[[0]], [[10]], [[30]], [[80]], [[0, 0, 0]], [[5, 30, 60]]])(
  "presses %p ms apart make one key, and one new secret",
  async (waits) => {
    const person = await world.gateway.person(10_000)
    await using visit = await world.visit({ person })
    const { page } = visit
    await visit.open("/keys")
    await page.getByRole("button", { name: "Create key" }).click()
    await focused(page)
    await page.keyboard.type("Once")
    const posted: string[] = []
    page.on("request", (request) => request.method() === "POST" && posted.push(new URL(request.url()).pathname))
    await pressed(page.getByRole("dialog").getByRole("button", { name: "Create key" }), waits)
    await page.getByRole("dialog", { name: "Copy your key now" }).waitFor()
    await page.getByRole("button", { name: "I have saved it" }).click()
    await (await card(visit, "Once")).getByRole("button", { name: "Rotate" }).click()
    await pressed(page.getByRole("dialog").getByRole("button", { name: "Rotate key" }), waits)
    await page.getByRole("dialog", { name: "Copy your key now" }).waitFor()
    expect(posted.map((path) => path.replace(/key_[^/]+/, "key"))).toEqual(["/keys", "/keys/key/rotate"])
  },
)

test("Enter pressed three times makes one key", async () => {
  const person = await world.gateway.person(10_000)
  await using visit = await world.visit({ person })
  await visit.open("/keys")
  await visit.page.getByRole("button", { name: "Create key" }).click()
  await focused(visit.page)
  await visit.page.keyboard.type("Once")
  const enter = () => visit.page.keyboard.press("Enter")
  await Promise.all([enter(), enter(), enter()])
  await visit.page.getByRole("dialog", { name: "Copy your key now" }).waitFor()
  const keys = (await (await world.gateway.dashboard(person, "/keys")).json()) as { data: unknown[] }
  expect(keys.data).toHaveLength(1)
})

test.each(["once", "until the page gives up, and the button is pressed again"] as const)(
  "an answer is lost %s after the key was made: there is one key, and its secret is shown",
  async (how) => {
    const person = await world.gateway.person(10_000)
    await using visit = await world.visit({ person })
    const { page } = visit
    await visit.open("/keys")
    let left = how === "once" ? 1 : 3
    await page.route("**/keys", async (route) => {
      if (route.request().method() !== "POST" || left === 0) return await route.continue()
      left--
      await route.fetch()
      return await route.abort("connectionreset")
    })
    await page.getByRole("button", { name: "Create key" }).click()
    await focused(page)
    await page.keyboard.type("Once")
    const button = page.getByRole("dialog").getByRole("button", { name: "Create key" })
    await button.click()
    const shown = page.getByRole("dialog", { name: "Copy your key now" })
    if (how !== "once") {
      await page.getByRole("dialog").getByRole("alert").waitFor()
      await button.click()
    }
    await shown.waitFor()
    const keys = (await (await world.gateway.dashboard(person, "/keys")).json()) as { data: { last4: string }[] }
    expect(keys.data).toHaveLength(1)
    expect(await shown.textContent()).toContain(keys.data[0]?.last4 ?? "none")
    // The browser's own words of the connections that were cut.
    expect(visit.complaints.every((words) => words.includes("ERR_CONNECTION_RESET"))).toBe(true)
    visit.complaints.length = 0
  },
)

test("of many keys all that work are shown, and the revoked ones as they are asked for", async () => {
  const { gateway } = world
  const person = await gateway.person()
  await gateway.sql`
    insert into api_keys (id, account_id, name, key_hash, prefix, last4, revoked_at)
    select 'key_' || n || ${person.accountId}, ${person.accountId}, 'Kunci ' || n, sha256((${person.accountId} || n)::bytea), 'sk-loket-many', 'last',
      case when n > 130 then now() end
    from generate_series(1, 420) n`
  await using visit = await world.visit({ person })
  await visit.open("/keys")
  await eventually(async () =>
    expect(await visit.page.getByRole("table", { name: "Active keys" }).getByRole("rowheader").count()).toBe(130),
  )
  const summary = visit.page.locator("summary")
  await visit.page.getByText("70+ revoked keys").first().waitFor()
  await summary.click()
  for (const shown of ["170+ revoked keys", "270+ revoked keys", "290 revoked keys"]) {
    await visit.page.getByRole("button", { name: "Load more" }).click()
    await summary.getByText(shown).waitFor()
  }
  await eventually(async () => expect(await visit.page.getByRole("button", { name: "Load more" }).count()).toBe(0))
  await visit.open("/usage")
  await visit.page.getByRole("option", { name: "Kunci 420" }).waitFor({ state: "attached" })
  await eventually(async () => expect(await visit.page.getByRole("option", { name: /^Kunci \d+$/ }).count()).toBe(420))
})

test("what is written wrongly is said at its field, and nothing is made", async () => {
  const person = await world.gateway.person()
  await using visit = await world.visit({ person })
  const { page } = visit
  await visit.open("/keys")
  await page.getByRole("button", { name: "Create key" }).click()
  const dialog = page.getByRole("dialog", { name: "Create an API key" })
  await field(dialog, "Spending limit").fill("ten")
  await field(dialog, "Tokens per minute").fill("0")
  await dialog.getByRole("button", { name: "Create key" }).click()
  await dialog.getByText("Enter an amount of rupiah").waitFor()
  for (const label of ["Name", "Spending limit", "Tokens per minute"]) {
    await eventually(async () => expect(await field(dialog, label).getAttribute("aria-invalid")).toBe("true"))
  }
  expect(await (await world.gateway.dashboard(person, "/keys")).json()).toEqual({ data: [], next_cursor: null })
})

/** Somebody whose keys are bound, one of them past its time. */
async function bound(): Promise<Person> {
  const { gateway } = world
  const person = await gateway.person(250_000)
  const model = await gateway.model({ format: "chat", model: "deepseek-v3.2" })
  const { id } = await gateway.key(person, { name: "Lomba pekan lalu" })
  await gateway.dashboard(person, `/keys/${id}`, {
    method: "PATCH",
    body: JSON.stringify({ expires_at: "2026-11-15T10:00:00Z" }),
  })
  await gateway.key(person, {
    name: "Kelas 9B",
    expires_at: "2030-06-30T16:59:59Z",
    models: ["plain", model],
    endpoints: ["chat", "messages"],
    networks: ["203.0.113.0/24", "2001:db8:12::/48"],
    origins: ["https://kelas.example.com"],
    max_rate_micro: 75_000,
    spending_limit_micro: 50_000_000_000,
    spending_period: "monthly",
  })
  return person
}

test.each(everyLook)(
  "keys that are bound are accessible and fit, on cards and in the form, also at 320 px: %o",
  async (look) => {
    await using visit = await world.visit({ ...look, person: everyBound })
    const { page } = visit
    const isIndonesian = look.language === "id"
    await visit.open("/keys")
    await page.getByText(isIndonesian ? "Kedaluwarsa" : "Expired", { exact: true }).waitFor()
    await (await visit.openKey("Kelas 9B")).getByText("203.0.113.0/24, 2001:db8:12::/48").waitFor()
    await visit.screenshot("keys-bound")
    await visit.expectAccessible()
    await visit.expectNoSidewaysScroll()
    await (await card(visit, "Kelas 9B")).getByRole("button", { name: isIndonesian ? "Ubah" : "Edit" }).click()
    const dialog = page.getByRole("dialog")
    await dialog.getByRole("checkbox", { name: "plain" }).waitFor()
    await dialog.getByRole("textbox", { name: isIndonesian ? "Jaringan" : "Networks" }).scrollIntoViewIfNeeded()
    await visit.screenshot("key-bindings")
    await visit.expectAccessible()
    if (look.size === "phone") await page.setViewportSize({ width: 320, height: 700 })
    await visit.expectNoSidewaysScroll()
  },
)

test("a key is bound in its form, to what it then keeps to, and let go of again", async () => {
  const person = await world.gateway.person(100_000)
  const other = await world.gateway.model({ format: "chat" })
  const { id, key } = await world.gateway.key(person, { name: "Class" })
  await using visit = await world.visit({ person, timeZone: "Asia/Jakarta" })
  const { page } = visit
  await visit.open("/keys")
  await (await card(visit, "Class")).getByRole("button", { name: "Edit" }).click()
  const dialog = page.getByRole("dialog", { name: "Edit Class" })
  await dialog.getByText("Expiry and what it is bound to").click()
  await dialog.getByRole("textbox", { name: "Works until" }).fill("2030-01-31T23:59:30")
  await dialog.getByText("Only those chosen").click()
  await dialog.getByRole("button", { name: "Save" }).click()
  await dialog.getByText("Choose from 1 to 64 models.").waitFor()
  await dialog.getByRole("checkbox", { name: "plain" }).check()
  await dialog.getByRole("checkbox", { name: "Responses" }).uncheck()
  await dialog.getByRole("textbox", { name: "Networks" }).fill("127.0.0.0/8\n203.0.113.7/24")
  await dialog.getByRole("textbox", { name: "Highest rate" }).fill("5,000")
  await dialog.getByRole("button", { name: "Save" }).click()
  await dialog.getByText("203.0.113.7/24 is no address or network").waitFor()
  await dialog.getByRole("textbox", { name: "Networks" }).fill("127.0.0.0/8\n::1")
  await dialog.getByRole("textbox", { name: "Web pages" }).fill("https://app.example.com/path")
  await dialog.getByRole("button", { name: "Save" }).click()
  await dialog.getByText("https://app.example.com/path is no origin of a page").waitFor()
  await dialog.getByRole("textbox", { name: "Web pages" }).fill("https://App.example.com")
  await dialog.getByRole("textbox", { name: "Networks" }).fill("127.0.0.0/8\n203.0.113.7/24")
  await dialog.getByRole("button", { name: "Save" }).click()
  await dialog.getByText("203.0.113.7/24 is no address or network").waitFor()
  await eventually(async () =>
    expect(await dialog.getByRole("textbox", { name: "Networks" }).getAttribute("aria-invalid")).toBe("true"),
  )
  await dialog.getByRole("textbox", { name: "Networks" }).fill("127.0.0.0/8\n::1")
  await dialog.getByRole("button", { name: "Save" }).click()
  await (await card(visit, "Class")).getByText("127.0.0.0/8, ::1/128").waitFor()
  const record = async () => {
    const keys = (await (await world.gateway.dashboard(person, "/keys")).json()) as { data: object[] }
    return keys.data[0]
  }
  expect(await record()).toMatchObject({
    id,
    expires_at: "2030-01-31T16:59:30.000Z",
    models: ["plain"],
    endpoints: ["chat", "messages", "completions", "embeddings"],
    networks: ["127.0.0.0/8", "::1/128"],
    origins: ["https://app.example.com"],
    max_rate_micro: 5_000,
  })
  expect((await world.gateway.post("/v1/chat/completions", key, hello)).status).toBe(200)
  const refused = await world.gateway.post("/v1/chat/completions", key, { ...hello, model: other })
  expect(refused.headers.get("x-error-code")).toBe("auth.key_not_allowed")
  await (await card(visit, "Class")).getByRole("button", { name: "Edit" }).click()
  await dialog.getByText("No end").click()
  await dialog.getByText("All", { exact: true }).click()
  await dialog.getByRole("checkbox", { name: "Responses" }).check()
  await dialog.getByRole("textbox", { name: "Networks" }).fill("")
  await dialog.getByRole("textbox", { name: "Web pages" }).fill("")
  await dialog.getByRole("textbox", { name: "Highest rate" }).fill("")
  await dialog.getByRole("button", { name: "Save" }).click()
  await dialog.waitFor({ state: "hidden" })
  const free = { expires_at: null, models: null, endpoints: null, networks: null, origins: null, max_rate_micro: null }
  expect(await record()).toMatchObject(free)
})

test("usage bars follow calls while the page is open", async () => {
  const person = await world.gateway.person(100_000)
  const { key } = await world.gateway.key(person, { name: "Live", requests_per_minute: 5 })
  await using visit = await world.visit({ person })
  await visit.open("/keys")
  await (await card(visit, "Live")).getByText("0 of 5").waitFor()
  await visit.keyRow("Live").getByText("Never", { exact: true }).waitFor()
  await (await world.gateway.post("/v1/chat/completions", key, hello)).text()
  await (await card(visit, "Live")).getByText("1 of 5").waitFor()
  await visit.keyRow("Live").getByText("Never", { exact: true }).waitFor({ state: "detached" })
  await (await card(visit, "Live")).getByText(/^Empty again in \d+ s$/).waitFor()
})

test("a change of limits is felt by the running application", async () => {
  const person = await world.gateway.person(100_000)
  const { key } = await world.gateway.key(person, {
    name: "Agent",
    spending_limit_micro: 1_500_000,
    spending_period: "total",
  })
  await using visit = await world.visit({ person })
  const { page } = visit
  await visit.open("/keys")
  await (await card(visit, "Agent")).getByRole("button", { name: "Edit" }).click()
  const dialog = page.getByRole("dialog", { name: "Edit Agent" })
  expect(await field(dialog, "Spending limit").inputValue()).toBe("1.5")
  await field(dialog, "Name").fill("Agent two")
  await dialog
    .getByRole("group", { name: "Choices for Spending limit" })
    .getByRole("button", { name: "No limit" })
    .click()
  await field(dialog, "Requests per minute").fill("7")
  await dialog.getByText("none of its rates is higher").waitFor()
  await dialog.getByRole("radio", { name: "None" }).check({ force: true })
  await dialog.getByText("Only the model that was asked for answers").waitFor()
  await dialog.getByRole("button", { name: "Save" }).click()
  await (await card(visit, "Agent two")).getByText("0 of 7").waitFor()
  await (await card(visit, "Agent two")).getByText("No fallback").waitFor()
  const { headers } = await world.gateway.post("/v1/chat/completions", key, hello)
  expect(headers.get("x-ratelimit-limit")).toBe("7")
  expect(headers.get("x-key-limit-micro")).toBeNull()
})

test("before a key is revoked it is said what will stop; then it has stopped", async () => {
  const person = await world.gateway.person(100_000)
  const { key } = await world.gateway.key(person, { name: "Old script" })
  await (await world.gateway.post("/v1/chat/completions", key, hello)).text()
  await using visit = await world.visit({ person })
  const { page } = visit
  await visit.open("/keys")
  await (await card(visit, "Old script")).getByRole("button", { name: "Revoke" }).click()
  const dialog = page.getByRole("dialog", { name: "Revoke Old script?" })
  await dialog.getByText("1 call", { exact: true }).waitFor()
  await dialog.getByText("plain").waitFor()
  await dialog.getByText(`${key.slice(0, 13)}…${key.slice(-4)}`, { exact: false }).waitFor()
  await dialog.getByRole("button", { name: "Revoke key" }).click()
  await page.getByText("Old script revoked").waitFor()
  await page.getByText("No keys yet").waitFor()
  const refused = await world.gateway.post("/v1/chat/completions", key, hello)
  expect(await refused.json()).toMatchObject({ code: "auth.api_key_revoked" })
})

test("a rotated key shows its new secret once, and when the old one ends", async () => {
  const person = await world.gateway.person(100_000)
  const { key: old } = await world.gateway.key(person, { name: "Shop" })
  await using visit = await world.visit({ person })
  const { page } = visit
  await visit.open("/keys")
  await (await card(visit, "Shop")).getByRole("button", { name: "Rotate" }).click()
  const dialog = page.getByRole("dialog", { name: "Rotate Shop" })
  await dialog.getByText("7 days").click()
  await dialog.getByRole("button", { name: "Rotate key" }).click()
  const once = page.getByRole("dialog", { name: "Copy your key now" })
  await once.getByText(/^The old secret still works until .+ Replace it/).waitFor()
  const key = await once.locator("code").innerText()
  expect(key).not.toBe(old)
  await once.getByRole("button", { name: "I have saved it" }).click()
  await (await card(visit, "Shop")).getByText(/^The old secret still works until/).waitFor()
  for (const secret of [old, key]) {
    expect((await world.gateway.post("/v1/chat/completions", secret, hello)).status).toBe(200)
  }
})

test("a snippet with the key's beginning leads on to quick start", async () => {
  const person = await world.gateway.person()
  const { key } = await world.gateway.key(person, { name: "Snippet" })
  await using visit = await world.visit({ person, size: "phone" })
  const { page } = visit
  await visit.open("/keys")
  await (await card(visit, "Snippet")).getByRole("button", { name: "Try it" }).click()
  const dialog = page.getByRole("dialog", { name: "Try Snippet" })
  await dialog.getByText(key.slice(0, 13), { exact: false }).waitFor()
  expect(await dialog.locator("pre").innerText()).toContain(`${world.gateway.url}/v1/chat/completions`)
  await visit.expectAccessible()
  await dialog.getByRole("link", { name: "How to use it" }).click()
  await page.getByRole("heading", { name: "Quick start", level: 1 }).waitFor()
})

/** Somebody with as many keys as an account may have, which have been spending for a month. */
async function many(): Promise<Person> {
  const { gateway } = world
  const person = await gateway.person(9_000_000)
  await gateway.sql`
    insert into api_keys (id, account_id, name, key_hash, prefix, last4, spending_limit_micro, spending_period, expires_at, created_at)
    select 'key_' || ${person.accountId}::text || n,
      ${person.accountId}, (array['Asisten toko', 'Bot WhatsApp', 'Skrip malam', 'Kelas 9B', 'Laptop Budi'])[n % 5 + 1] || ' ' || n,
      sha256((${person.accountId}::text || n)::bytea), 'sk-loket-aB' || chr(97 + n % 26), lpad(n::text, 4, 'k'),
      case when n % 3 = 0 then 40000000000 end, case when n % 3 = 0 then 'monthly' end,
      case when n % 7 = 0 then now() + make_interval(days => n) end, now() - make_interval(hours => n)
    from generate_series(1, 200) n`
  await gateway.sql`
    insert into key_spend (key_id, period, period_start, spent_micro)
    select k.id, 'daily', date_trunc('day', now(), 'Asia/Jakarta') - make_interval(days => d),
      (abs(hashint4(d * 31 + length(k.name) + ascii(right(k.last4, 1)))) % 2000)::bigint * 1000000 + 250000
    from api_keys k, generate_series(0, 29) d where k.account_id = ${person.accountId} and right(k.last4, 1) not in ('3', '8')
      and d % (1 + ascii(right(k.last4, 1)) % 4) = 0`
  await gateway.sql`
    insert into key_spend (key_id, period, period_start, spent_micro)
    select key_id, 'monthly', date_trunc('month', now(), 'Asia/Jakarta'), sum(spent_micro)
    from key_spend where key_id like ${`key_${person.accountId}%`} and period_start >= date_trunc('month', now(), 'Asia/Jakarta') group by 1`
  return person
}

test.each(everyLook)(
  "as many keys as there may be stand in a table that is accessible, fits and does not move: %o",
  async (look) => {
    await using visit = await world.visit({ ...look, person: await many() })
    const { page } = visit
    await visit.open("/keys")
    await page.getByText(look.language === "id" ? "200 kunci" : "200 keys").waitFor()
    await visit.expectSteady()
    await visit.screenshot("keys-many")
    await visit.expectAccessible()
    await visit.expectNoSidewaysScroll()
    if (look.size === "phone") {
      await page.setViewportSize({ width: 320, height: 700 })
      await visit.expectNoSidewaysScroll()
      await visit.screenshot("keys-many-320")
    } else {
      for (const width of [768, 1024]) {
        await page.setViewportSize({ width, height: 800 })
        await visit.expectNoSidewaysScroll()
        expect(
          await page
            .locator(".card-flush")
            .first()
            .evaluate((card) => card.scrollWidth - card.clientWidth),
        ).toBe(0)
        await visit.screenshot(`keys-many-${width}`)
      }
    }
  },
)

test("a word finds keys, a column sorts them, and both are in the address and said", async () => {
  const { gateway } = world
  const person = await gateway.person(1_000_000)
  const model = await gateway.model({ format: "chat", output_micro: 2_000_000_000 })
  const made = []
  for (const name of ["Toko 1", "Toko 2", "Skrip"]) made.push(await gateway.key(person, { name }))
  // Each spends more than the one before.
  for (const [index, { key }] of made.entries()) {
    for (let n = 0; n < index; n++) {
      expect((await gateway.post("/v1/chat/completions", key, { ...hello, model })).status).toBe(200)
    }
  }
  await using visit = await world.visit({ person })
  const { page } = visit
  await visit.open("/keys")
  const names = () => page.getByRole("rowheader").getByRole("button").allInnerTexts()
  const reads = (expected: readonly string[]) => eventually(async () => expect(await names()).toEqual([...expected]))
  await reads(["Skrip", "Toko 2", "Toko 1"])
  const head = page.getByRole("columnheader", { name: "Today" })
  await head.getByRole("button").focus()
  await page.keyboard.press("Enter")
  await reads(["Skrip", "Toko 2", "Toko 1"])
  expect(await head.getAttribute("aria-sort")).toBe("descending")
  await page.getByRole("status").getByText("Sorted by Today, descending").waitFor({ state: "attached" })
  await page.keyboard.press("Enter")
  await reads(["Toko 1", "Toko 2", "Skrip"])
  expect(await head.getAttribute("aria-sort")).toBe("ascending")
  await page.getByRole("searchbox", { name: "Find a key" }).fill("TOKO")
  await reads(["Toko 1", "Toko 2"])
  await page.getByRole("status").getByText("2 of 3 keys").waitFor()
  expect(new URL(page.url()).search).toBe("?sort=today&way=up&q=TOKO")
  await page.reload()
  await reads(["Toko 1", "Toko 2"])
  const spent = visit.keyRow("Toko 2").getByRole("cell")
  expect((await spent.allInnerTexts()).slice(0, 2)).toEqual(["Rp\u00A014,000", "Rp\u00A014,000"])
  await visit
    .keyRow("Toko 2")
    .getByRole("img", { name: /^Last 30 days: Rp.14,000, at most Rp.14,000 in a day$/ })
    .waitFor()
  await page.getByRole("searchbox", { name: "Find a key" }).fill("nothing")
  await page.getByText("No key with “nothing”.").waitFor()
  await visit.expectAccessible()
})

const looksOf = (button: Locator | undefined) =>
  button?.evaluate((element) => {
    const { x, y, width, height } = element.getBoundingClientRect()
    const top = document.elementFromPoint(x + width / 2, y + height / 2)
    return { isSeen: element.contains(top), isFocused: element === document.activeElement }
  })

test("on a screen of 320 px what sorts a table is seen by whoever comes to it with the keyboard", async () => {
  await using visit = await world.visit({ size: "narrow", person: everyKind })
  const { page } = visit
  await visit.open("/keys")
  const [name, budget] = ["Name", "Budget"].map((head) => page.getByRole("button", { name: head, exact: true }))
  await page.getByRole("combobox", { name: "Sort" }).focus()
  await page.keyboard.press("Tab")
  expect(await looksOf(name)).toEqual({ isSeen: true, isFocused: true })
  for (let presses = 0; presses < 4; presses++) await page.keyboard.press("Tab")
  expect(await looksOf(budget)).toEqual({ isSeen: true, isFocused: true })
  await visit.expectNoSidewaysScroll()
})

test.each([
  [1_280, 800],
  [320, 640],
  [320, 400],
])(
  "with the keys alone, each field of a new key is seen when the focus is there: %i × %i px",
  async (width, height) => {
    await using visit = await world.visit({ person: everyKind })
    const { page } = visit
    await page.setViewportSize({ width, height })
    await visit.open("/keys")
    await page.getByRole("button", { name: "Create key" }).click()
    await focused(page)
    const hidden: string[] = []
    for (let presses = 0; presses < 22; presses++) {
      await page.keyboard.press("Tab")
      await page.evaluate(() => new Promise(requestAnimationFrame))
      const behind = await page.locator(":focus").evaluate((element) => {
        const [head, foot] = [".modal-head", ".modal-foot"].map((part) => document.querySelector(part))
        const { top, bottom } = element.getBoundingClientRect()
        const isBetween =
          top >= (head?.getBoundingClientRect().bottom ?? 0) && bottom <= (foot?.getBoundingClientRect().top ?? 0)
        return element.closest(".modal-body") === null || isBetween ? [] : [element.outerHTML]
      })
      hidden.push(...behind)
    }
    expect(hidden).toEqual([])
  },
)

test("an amount in a key's form stays what it is when the language changes in another tab", async () => {
  const person = await world.gateway.person(1_000_000)
  await using visit = await world.visit({ person, language: "id" })
  const { page } = visit
  await visit.open("/keys")
  await page.getByRole("button", { name: "Buat kunci" }).first().click()
  await focused(page)
  await field(page.getByRole("dialog"), "Batas pengeluaran").fill("500.000")
  await field(page.getByRole("dialog"), "Permintaan per menit").fill("1.000")

  await world.gateway.dashboard(person, "/account", { method: "PATCH", body: JSON.stringify({ language: "en" }) })
  // A look at the page after one at another tab, a minute later.
  await page.evaluate(() => {
    const now = Date.now
    Date.now = () => now() + 60_000
    document.dispatchEvent(new Event("visibilitychange"))
  })
  const limit = field(page.getByRole("dialog"), "Spending limit")
  await limit.waitFor()
  expect(await limit.inputValue()).toBe("500,000")
  expect(await field(page.getByRole("dialog"), "Requests per minute").inputValue()).toBe("1,000")
})

test("a limit that a colleague lowers while a key's name is being edited stays lowered", async () => {
  const person = await world.gateway.person(1_000_000)
  const { id } = await world.gateway.key(person, {
    name: "Dua tangan",
    spending_limit_micro: 500_000_000_000,
    spending_period: "monthly",
    requests_per_minute: 300,
  })
  await using visit = await world.visit({ person })
  const { page } = visit
  await visit.open("/keys")
  await (await visit.openKey("Dua tangan")).getByRole("button", { name: "Edit" }).click()
  const dialog = page.getByRole("dialog")
  await field(dialog, "Name").fill("Satu tangan")
  await field(dialog, "Tokens per minute").fill("9,000")

  const lowered = {
    spending_limit_micro: 10_000_000_000,
    requests_per_minute: 5,
    expires_at: "2099-01-01T00:00:00.000Z",
  }
  const changed = await world.gateway.dashboard(person, `/keys/${id}`, {
    method: "PATCH",
    body: JSON.stringify(lowered),
  })
  expect(changed.status).toBe(200)

  await dialog.getByRole("button", { name: "Save" }).click()
  await dialog.waitFor({ state: "detached" })
  const { data } = (await (await world.gateway.dashboard(person, "/keys")).json()) as { data: object[] }
  expect(data).toMatchObject([
    { ...lowered, name: "Satu tangan", tokens_per_minute: 9_000, spending_period: "monthly", fallback: "never_dearer" },
  ])
})

test("a key that a colleague revokes while its dialog is open is said to be revoked, and the form is gone", async () => {
  const person = await world.gateway.person(1_000_000)
  await world.gateway.key(person, { name: "Stays" })
  const { id } = await world.gateway.key(person, { name: "Goes" })
  await using visit = await world.visit({ person })
  const { page } = visit
  await visit.open("/keys")
  await (await visit.openKey("Goes")).getByRole("button", { name: "Edit" }).click()
  await field(page.getByRole("dialog", { name: "Edit Goes" }), "Name").fill("Went")
  await world.gateway.dashboard(person, `/keys/${id}/revoke`, { method: "POST" })

  const dialog = page.getByRole("dialog", { name: "Goes was revoked" })
  await dialog.getByText("somebody else revoked sk-", { exact: false }).waitFor()
  await dialog.getByRole("button", { name: "Close" }).last().click()
  await dialog.waitFor({ state: "detached" })
  await (await visit.openKey("Stays")).getByRole("button", { name: "Edit" }).click()
  await page.getByRole("dialog", { name: "Edit Stays" }).waitFor()
})

test("how long ago a key was last used grows while the page is open", async () => {
  const { gateway } = world
  const model = await gateway.model({ format: "chat" })
  const person = await gateway.person(100_000)
  const { key } = await gateway.key(person, { name: "Dipakai" })
  await (await gateway.post("/v1/chat/completions", key, { ...hello, model })).text()
  await using visit = await world.visit({ person })
  const { page } = visit
  await page.route("**/events", () => undefined)
  await page.clock.install()
  await visit.open("/keys")
  const used = visit.keyRow("Dipakai").locator("time")
  await used.getByText(/now|second|^1 minute/).waitFor()
  await page.clock.fastForward("03:00:00")
  await used.getByText("3 hours ago").waitFor({ timeout: 15_000 })
})
