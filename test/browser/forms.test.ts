/** What a field says and takes is in the page's language, whatever the browser's is. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../gateway/harness.ts"
import { type BrowserWorld, eventually, openBrowser } from "./harness.ts"

let world: BrowserWorld
let person: Person

beforeAll(async () => {
  world = await openBrowser()
  person = await world.gateway.person(100_000)
})
afterAll(() => world[Symbol.asyncDispose]())

test("an empty or broken address is told below its field in the page's language, and nothing is sent", async () => {
  await using visit = await world.visit({ language: "en" })
  const { page } = visit
  await visit.open("/sign-in")
  await page.getByText("Indonesia", { exact: true }).click()
  const asked: string[] = []
  page.on("request", (request) => request.method() === "POST" && asked.push(request.url()))
  const send = page.getByRole("button", { name: "Masuk", exact: true })
  await send.click()
  expect(await page.getByText("Kolom ini wajib diisi.").count()).toBe(2)
  const email = page.getByLabel("Alamat e-mail")
  expect(await email.evaluate((field) => field === document.activeElement)).toBe(true)
  expect(await email.getAttribute("aria-invalid")).toBe("true")
  await visit.expectAccessible()
  await email.fill("nama")
  expect(await page.getByText("Kolom ini wajib diisi.").count()).toBe(1)
  await send.click()
  await page.getByText("Tulis alamat e-mail lengkap").waitFor()
  expect(asked).toEqual([])
})

test("a day is typed or picked in the page's language, and the figures follow", async () => {
  await using visit = await world.visit({ person, language: "id" })
  const { page } = visit
  await visit.open("/usage?from=2026-11-01&to=2026-11-10")
  const from = page.getByRole("textbox", { name: "Dari" })
  expect(await from.inputValue()).toBe("01/11/2026")
  await from.fill("5/11/2026")
  await eventually(async () => expect(new URL(page.url()).searchParams.get("from")).toBe("2026-11-05"))
  await from.fill("31/11/2026")
  await from.blur()
  await page.getByText("Tulis seperti").waitFor()
  expect(new URL(page.url()).searchParams.get("from")).toBe("2026-11-05")
  await from.fill("11/11/2026")
  await from.blur()
  await page.getByText("Paling akhir 10/11/2026.").waitFor()
  expect(new URL(page.url()).searchParams.get("from")).toBe("2026-11-05")
  await from.fill("05/11/2026")

  await page.getByRole("button", { name: "Pilih tanggal: Dari" }).click()
  await page.getByText("November 2026", { exact: true }).waitFor()
  expect(await page.locator(".calendar:popover-open th").first().innerText()).toBe("Sen")
  expect(await page.getByRole("button", { name: "Rabu, 11 November 2026" }).isDisabled()).toBe(true)
  await visit.expectAccessible()
  await visit.screenshot("calendar")
  await page.keyboard.press("ArrowUp")
  await page.keyboard.press("Enter")
  await eventually(async () => expect(new URL(page.url()).searchParams.get("from")).toBe("2026-10-29"))
  expect(await from.inputValue()).toBe("29/10/2026")
  expect(await from.evaluate((field) => field === document.activeElement)).toBe(true)
})

test("a range that begins years ago is the one that is shown, and one of a hundred years is told to be too long", async () => {
  await using visit = await world.visit({ person, language: "en" })
  const { page } = visit
  await visit.open("/usage")
  const from = page.getByRole("textbox", { name: "From" })
  await from.fill("01/01/2020")
  await from.press("Tab")
  await page.waitForURL(/from=2020-01-01/)
  expect(await from.inputValue()).toBe("01/01/2020")
  await from.fill("01/01/1926")
  await from.press("Tab")
  await page.getByText(/at the earliest/).waitFor()
  expect(page.url()).toContain("from=2020-01-01")
})

test("with the keys alone, months are turned one after the other, up to the one that has only its first day to choose", async () => {
  await using visit = await world.visit({ person, language: "id" })
  const { page } = visit
  await visit.open("/usage?from=2025-10-20&to=2026-02-01")
  await page.getByRole("button", { name: "Pilih tanggal: Dari" }).press("Enter")
  await page.getByRole("button", { name: "Senin, 20 Oktober 2025" }).and(page.locator(":focus")).waitFor()
  const after = page.getByRole("button", { name: "Bulan berikutnya" })
  await after.focus()
  for (const month of ["November 2025", "Desember 2025", "Januari 2026", "Februari 2026"]) {
    await page.keyboard.press("Enter")
    await page.getByText(month, { exact: true }).waitFor()
  }
  expect(await after.isDisabled()).toBe(true)
  expect(await after.evaluate((arrow) => arrow === document.activeElement)).toBe(true)
  // From a month of 30 days too.
  await visit.open("/usage?from=2025-11-20&to=2025-12-01")
  await page.getByRole("button", { name: "Pilih tanggal: Dari" }).press("Enter")
  await page.getByRole("button", { name: "Kamis, 20 November 2025" }).and(page.locator(":focus")).waitFor()
  await after.press("Enter")
  await page.getByRole("button", { name: "Senin, 01 Desember 2025" }).click()
  await eventually(async () => expect(new URL(page.url()).searchParams.get("from")).toBe("2025-12-01"))
})

test("on a phone the month lies within the screen, and Escape closes it", async () => {
  await using visit = await world.visit({ person, language: "id", size: "phone", theme: "dark" })
  const { page } = visit
  await visit.open("/usage")
  const [from, to] = await Promise.all(
    ["Dari", "Sampai"].map((name) => page.getByRole("textbox", { name }).boundingBox()),
  )
  expect(to?.y).toBe(from?.y ?? 0)
  await page.getByRole("button", { name: "Pilih tanggal: Sampai" }).click()
  const month = page.locator(".calendar:popover-open")
  await month.locator("td").first().waitFor()
  await visit.screenshot("calendar")
  const box = await month.boundingBox()
  expect(box?.x).toBeGreaterThanOrEqual(0)
  expect((box?.x ?? 0) + (box?.width ?? 0)).toBeLessThanOrEqual(390)
  expect((box?.y ?? 0) + (box?.height ?? 0)).toBeLessThanOrEqual(844)
  await page.keyboard.press("Escape")
  await month.waitFor({ state: "detached" })
})

test("a time that is none keeps a dialog's form from being sent: a key does not lose its expiry by a slip", async () => {
  const { id } = await world.gateway.key(person, { name: "tamu" })
  await world.gateway.dashboard(person, `/keys/${id}`, {
    method: "PATCH",
    body: JSON.stringify({ expires_at: "2030-06-30T17:00:00Z" }),
  })
  await using visit = await world.visit({ person, language: "id" })
  const { page } = visit
  await visit.open("/keys")
  await (await visit.openKey("tamu")).getByRole("button", { name: "Ubah" }).click()
  const dialog = page.getByRole("dialog", { name: "Ubah tamu" })
  const until = dialog.getByRole("textbox", { name: "Berlaku sampai" })
  expect(await until.inputValue()).toBe("01/07/2030 00.00")
  await until.fill("01/07")
  await dialog.getByRole("button", { name: "Simpan" }).click()
  await dialog.getByText("Tulis seperti").waitFor()
  await page.keyboard.press("Escape")
  const { data } = (await (await world.gateway.dashboard(person, "/keys")).json()) as {
    data: { id: string; expires_at: string | null }[]
  }
  expect(data.find((key) => key.id === id)?.expires_at).toBe("2030-06-30T17:00:00.000Z")
})

test("a press beside a form that was written in does not throw it away, beside an untouched one it closes", async () => {
  await using visit = await world.visit({ person, language: "id" })
  const { page } = visit
  await visit.open("/keys")
  const make = page.getByRole("button", { name: "Buat kunci" }).first()
  const dialog = page.getByRole("dialog", { name: "Buat kunci" })
  await make.click()
  await dialog.waitFor()
  await page.mouse.click(10, 10)
  await dialog.waitFor({ state: "hidden" })
  await make.click()
  await dialog.getByLabel("Nama").fill("Kasir")
  await page.mouse.click(10, 10)
  expect(await dialog.getByLabel("Nama").inputValue()).toBe("Kasir")
  await page.keyboard.press("Escape")
  await dialog.waitFor({ state: "hidden" })
})

test("what a dialog's form refuses takes the focus, so that it is in sight and read out", async () => {
  await using visit = await world.visit({ person, language: "en", size: "narrow" })
  const { page } = visit
  await visit.open("/keys")
  await page.getByRole("button", { name: "Create key" }).first().click()
  const dialog = page.getByRole("dialog", { name: "Create an API key" })
  await dialog.getByLabel("Name", { exact: true }).fill("Kasir")
  const limit = dialog.getByLabel("Spending limit (optional)")
  await limit.fill("sepuluh ribu")
  await dialog.getByRole("button", { name: "Create key" }).press("Enter")
  await eventually(async () => expect(await limit.evaluate((field) => field === document.activeElement)).toBe(true))
  expect(await limit.getAttribute("aria-invalid")).toBe("true")
})

test("of two wrong fields in a dialog the first takes the focus, once", async () => {
  await using visit = await world.visit({ person, language: "en" })
  const { page } = visit
  await visit.open("/keys")
  await page.getByRole("button", { name: "Create key" }).first().click()
  const dialog = page.getByRole("dialog", { name: "Create an API key" })
  await dialog.getByLabel("Name", { exact: true }).fill("Kasir")
  await dialog.getByLabel("Spending limit (optional)").fill("sepuluh ribu")
  await dialog.getByLabel("Requests per minute (optional)").fill("banyak")
  await page.evaluate(() => {
    const focused: (string | undefined)[] = []
    Object.assign(globalThis, { focused })
    const focus = Reflect.get(HTMLElement.prototype, "focus")
    HTMLElement.prototype.focus = function (this: HTMLInputElement, options) {
      focused.push(this.labels?.[0]?.textContent)
      focus.call(this, options)
    }
  })
  await dialog.getByRole("button", { name: "Create key" }).click()
  const limit = dialog.getByLabel("Spending limit (optional)")
  await limit.and(page.locator(":focus")).waitFor()
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 100)))
  const focused = () => page.evaluate(() => (globalThis as unknown as { focused: string[] }).focused)
  expect(await focused()).toEqual(["Spending limit (optional)"])
  await limit.fill("10,000")
  await dialog.getByRole("button", { name: "Create key" }).click()
  await dialog.getByLabel("Requests per minute (optional)").and(page.locator(":focus")).waitFor()
})

test.each([
  ["/settings", "Tax number (NPWP)", "1234"],
  ["/settings", "Send to", "nobody"],
  ["/settings", "Receiver's address", "http://shop.example"],
])("what a form of a page refuses takes the focus too: %s, %s", async (path, label, wrong) => {
  await using visit = await world.visit({ person, language: "en", size: "narrow" })
  const { page } = visit
  await visit.open(path)
  const field = page.getByLabel(label, { exact: true })
  await field.fill(wrong)
  const send = page.locator("form").filter({ has: field }).getByRole("button", { name: "Save" })
  await send.press("Enter")
  await eventually(async () => expect(await field.evaluate((input) => input === document.activeElement)).toBe(true))
  expect(await field.getAttribute("aria-invalid")).toBe("true")
  // Once more, as it is.
  await send.press("Enter")
  await eventually(async () => expect(await field.evaluate((input) => input === document.activeElement)).toBe(true))
})

test("an amount that the page's other language makes a thousand times as much of is told as it is read", async () => {
  await using visit = await world.visit({ person, language: "en" })
  const { page } = visit
  await visit.open("/keys")
  await page.getByRole("button", { name: "Create key" }).click()
  const limit = page.getByRole("dialog").getByRole("textbox", { name: /^Spending limit/ })
  await limit.fill("500.000")
  await page.getByText("Read as Rp\u00A0500: a point separates decimals, a comma thousands.").waitFor()
  await limit.fill("500,000")
  await eventually(async () => expect(await page.getByText("Read as").count()).toBe(0))
  await visit.open("/settings")
  await page.getByLabel("At most within 10 minutes").fill("50.000")
  await page.getByText("Read as Rp\u00A050:").waitFor()
})
