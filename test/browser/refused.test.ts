import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../gateway/harness.ts"
import { type BrowserWorld, everyLook, openBrowser } from "./harness.ts"

let world: BrowserWorld
let person: Person
let key: { readonly key: string; readonly id: string }
let unknown: string

const refuse = async (secret: string, more: object = {}): Promise<string> => {
  const body = { model: "tebu-mini", max_tokens: 50, messages: [{ role: "user", content: "Halo" }], ...more }
  const response = await world.gateway.post("/v1/chat/completions", secret, body)
  await response.text()
  expect(response.status).toBeGreaterThanOrEqual(400)
  return response.headers.get("x-request-id") ?? ""
}

const isKept = async (requestId: string, owner: Person) => {
  while ((await world.gateway.dashboard(owner, `/usage/refused/${requestId}`)).status !== 200) await Bun.sleep(100)
}

beforeAll(async () => {
  world = await openBrowser()
  const { gateway } = world
  await gateway.model({ format: "chat", model: "tebu-mini" })
  person = await gateway.person(0)
  key = await gateway.key(person, { name: "Bot pesanan" })
  const old = await gateway.key(person, { name: "Skrip lama" })
  await gateway.dashboard(person, `/keys/${old.id}/revoke`, { method: "POST" })
  for (let time = 0; time < 14; time++) await refuse(key.key)
  await refuse(key.key, { messages: "Halo" })
  await refuse(old.key)
  unknown = await refuse(key.key, { model: "tebu-maxi" })
  await isKept(unknown, person)
})
afterAll(() => world[Symbol.asyncDispose]())

test.each(everyLook)("refused calls are accessible and fit: %o", async (look) => {
  await using visit = await world.visit({ ...look, person })
  await visit.open("/usage?status=refused")
  await visit.page.getByText("tebu-maxi").scrollIntoViewIfNeeded()
  await visit.screenshot("usage-refused")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  await visit.page.getByText("tebu-maxi").click()
  await visit.page.getByRole("dialog").getByText("model.unknown").waitFor()
  await visit.screenshot("usage-refused-call")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
})

test.each([320, 390, 1920])("refused calls fit %i pixels", async (width) => {
  await using visit = await world.visit({ person, language: "id" })
  await visit.page.setViewportSize({ width, height: 800 })
  await visit.open("/usage?status=refused")
  await visit.page.getByText("tebu-maxi").waitFor()
  await visit.expectNoSidewaysScroll()
})

test("why an app fails is a press away from the usage page, and says what to do", async () => {
  await using visit = await world.visit({ person, language: "id" })
  const { page } = visit
  await visit.open("/usage")
  await page.getByText("17 panggilan ditolak sebelum sampai ke model.").waitFor()
  await page.getByRole("button", { name: "Lihat sebabnya" }).click()
  await page.getByRole("button", { name: "billing.insufficient_balance 14" }).click()
  const table = page.getByRole("table", { name: "Panggilan yang ditolak" })
  await page.getByText("tebu-maxi").waitFor({ state: "detached" })
  await table
    .getByRole("row", { name: /Saldo tidak cukup untuk permintaan ini/ })
    .first()
    .getByRole("button")
    .click()
  const drawer = page.getByRole("dialog")
  await drawer.getByText("Isi saldo di halaman Dompet, lalu kirim ulang permintaannya.").waitFor()
  await drawer.getByText("Bot pesanan").waitFor()
})

test("a pasted request id finds a refused call", async () => {
  await using visit = await world.visit({ person })
  const { page } = visit
  await visit.open("/usage")
  await page.getByRole("textbox", { name: "Find a request ID" }).fill(`x-request-id: ${unknown}`)
  await page.keyboard.press("Enter")
  await page.getByRole("dialog").getByText("Copy the model's ID from the Models page").waitFor()
})

test("new refusals appear by themselves, and the list does not grow without end", async () => {
  const { gateway } = world
  const other = await gateway.person(0)
  const flooded = await gateway.key(other, { name: "Bot" })
  await using visit = await world.visit({ person: other })
  const { page } = visit
  await visit.open("/usage?status=refused")
  await page.getByText("No refused calls").waitFor()
  for (let time = 0; time < 30; time++) await refuse(flooded.key)
  await page.getByRole("button", { name: "billing.insufficient_balance 30" }).waitFor()
  expect(await page.getByRole("table", { name: "Refused calls" }).getByRole("row").count()).toBeLessThanOrEqual(21)
})
