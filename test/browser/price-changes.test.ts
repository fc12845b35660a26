/** A price that is to come, where customers look: with its effect on their own last days, and by itself on pages that are open. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../gateway/harness.ts"
import { everyLook } from "./harness.ts"
import { openOperatorWorld, type OperatorWorld, say } from "./operator/world.ts"

let world: OperatorWorld
let customer: Person
const DEARER = "vendor/kapal-penjelajah-samudra-berbadan-panjang-1.5"
const CHEAPER = "perahu-hemat"

const rates = (input: number, output: number) => ({
  input_micro: input,
  output_micro: output,
  cache_read_micro: 100,
  cache_write_micro: 1_250,
})

async function ask(path: string, method: "POST" | "DELETE", body: object = {}) {
  const response = await world.gateway.dashboard(world.operator, path, { method, body: JSON.stringify(body) })
  expect(response.ok).toBe(true)
  return (await response.json()) as { after: { id: number } | null }
}

const prices = (model: string) => `/operator/models/${encodeURIComponent(model)}/prices`

/** Returns the price's path, to delete it by. */
async function schedule(model: string, to: ReturnType<typeof rates>, effectiveAt: string): Promise<string> {
  const { after } = await ask(prices(model), "POST", { ...to, effective_at: effectiveAt, confirm_jump: true })
  return `${prices(model)}/${after?.id}`
}

/** With a call of 1,000 and 20 tokens of each model: Rp 1.10. */
async function someone(...models: readonly string[]): Promise<Person> {
  const person = await world.gateway.person(100_000)
  const { key } = await world.gateway.key(person)
  for (const model of models) {
    const { headers } = await say(world, key, model)
    expect(headers.get("x-cost-rp")).toBe("1.1")
    // Written down, and so in the sums.
    await world.gateway.usage(person, headers.get("x-request-id") ?? "")
  }
  return person
}

beforeAll(async () => {
  world = await openOperatorWorld()
  const script = "input=1000&output=20"
  await world.gateway.model({ format: "chat", model: DEARER, display_name: "Kapal Penjelajah Samudra 1.5", script })
  await world.gateway.model({ format: "chat", model: CHEAPER, display_name: "Perahu Hemat", script })
  customer = await someone(DEARER, DEARER, CHEAPER)
  await schedule(DEARER, rates(2_500, 8_000), "2099-12-01T00:00:00+07:00")
  await schedule(CHEAPER, rates(900, 4_000), "2099-12-15T09:30:00+07:00")
}, 60_000)
afterAll(() => world[Symbol.asyncDispose]())

test.each(everyLook)("what is to come is accessible and fits, on home, usage and models: %o", async (look) => {
  await using visit = await world.visit({ ...look, person: customer })
  for (const [path, name] of [
    ["/", "home-price-changes"],
    ["/usage", "usage-price-changes"],
  ] as const) {
    await visit.open(path)
    await visit.page.getByRole("region", { name: /Harga model yang|Prices of models/ }).waitFor()
    if (path === "/") await visit.page.locator("canvas").waitFor()
    await visit.screenshot(name)
    await visit.expectAccessible()
    await visit.expectNoSidewaysScroll()
  }
  await visit.open("/models")
  await visit.page
    .getByText(/Mulai 1 Des|From 1 Dec/)
    .first()
    .waitFor()
  await visit.screenshot("models-price-changes")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  await visit.page.getByRole("button", { name: /Kapal Penjelajah/ }).click()
  await visit.page
    .getByRole("dialog")
    .getByText(/30 hari terakhir Anda|Your last 30 days/)
    .waitFor()
  await visit.screenshot("models-price-changes-drawer")
  await visit.expectAccessible()
})

test("the effect is that of the customer's own calls, dearer and cheaper, and others are told nothing", async () => {
  await using visit = await world.visit({ person: customer, language: "id" })
  await visit.open("/")
  const notice = visit.page.getByRole("region", { name: "Harga model yang Anda pakai akan berubah" })
  await notice.waitFor()
  // 2 × (1,000 × 1,500 + 20 × 3,000) and 1,000 × −100 + 20 × −1,000 micro-rupiah.
  expect((await notice.getByRole("listitem").allInnerTexts()).map((words) => words.replaceAll("\u00A0", " "))).toEqual([
    "Kapal Penjelajah Samudra 1.5, mulai 1 Des 2099, 00.00. Pemakaian 30 hari terakhir Anda dengan harga baru: +Rp 3,12",
    "Perahu Hemat, mulai 15 Des 2099, 09.30. Pemakaian 30 hari terakhir Anda dengan harga baru: −Rp 0,12",
  ])
  await notice.getByRole("link", { name: "Lihat harga baru" }).click()
  const row = visit.page.getByRole("row", { name: /Kapal Penjelajah/ })
  expect((await row.getByRole("cell").nth(1).innerText()).replaceAll(/\s+/g, " ")).toBe(
    "Rp 1.000 Mulai 1 Des 2099: Rp 2.500",
  )
  // What stays as it is says nothing of a change.
  expect((await row.getByRole("cell").nth(3).innerText()).replaceAll(/\s+/g, " ")).toBe("Rp 100")
  await using other = await world.visit({ person: await world.gateway.person(), language: "id" })
  const told = other.page.waitForResponse((response) => response.url().endsWith("/account/price-changes"))
  await other.open("/")
  expect(await (await told).json()).toMatchObject({ data: [] })
  await other.page.getByRole("region", { name: "Langkah pertama" }).waitFor()
  expect(await other.page.getByText("Harga model yang Anda pakai").count()).toBe(0)
})

test("a visitor sees the coming price, and no effect", async () => {
  await using visit = await world.visit()
  await visit.open("/models")
  await visit.page.getByRole("button", { name: /Perahu Hemat/ }).click()
  const drawer = visit.page.getByRole("dialog", { name: "Perahu Hemat" })
  const next = drawer.getByRole("heading", { name: "Prices from 15 Dec 2099" })
  await next.waitFor()
  await drawer.getByText("Rp\u00A0900", { exact: true }).waitFor()
  expect(await drawer.getByText("Your last 30 days").count()).toBe(0)
})

test("an open page learns of a price that is scheduled, deleted, and in force", async () => {
  const model = await world.gateway.model({ format: "chat", model: "perahu-uji", script: "input=1000&output=20" })
  const person = await someone(model)
  await using visit = await world.visit({ person })
  await visit.open("/usage")
  await visit.page
    .getByRole("row", { name: /perahu-uji/ })
    .first()
    .waitFor()
  const notice = visit.page.getByRole("region", { name: "Prices of models that you use are going to change" })
  expect(await notice.count()).toBe(0)
  const path = await schedule(model, rates(1_500, 5_000), new Date(Date.now() + 3_600_000).toISOString())
  await notice.getByText("+Rp\u00A00.5").waitFor()
  await ask(path, "DELETE")
  await notice.waitFor({ state: "detached" })
  await schedule(model, rates(1_600, 5_000), new Date(Date.now() + 6_000).toISOString())
  await notice.getByText("+Rp\u00A00.6").waitFor()
  await notice.waitFor({ state: "detached" })
  await visit.open("/models")
  const row = visit.page.getByRole("row", { name: /perahu-uji/ })
  await row.getByText("Rp\u00A01,600").waitFor()
  await schedule(model, rates(1_700, 5_000), new Date(Date.now() + 6_000).toISOString())
  await row.getByText("From").first().waitFor()
  await row.getByText("From").first().waitFor({ state: "detached" })
  await row.getByText("Rp\u00A01,700").waitFor()
})

test("an operator reads how many customers will be told, before the price is saved", async () => {
  await using visit = await world.visit({ person: world.operator, language: "id" })
  await visit.open(`/operator/models/${encodeURIComponent(CHEAPER)}`)
  await visit.page.getByRole("button", { name: "Jadwalkan harga" }).click()
  const dialog = visit.page.getByRole("dialog", { name: "Jadwalkan harga" })
  await dialog.getByText("1 pelanggan memakai model ini dalam 30 hari terakhir.").waitFor()
  await dialog.getByText("tidak sempat diberitahukan").waitFor()
  await dialog.getByText("Pada waktu tertentu").click()
  await dialog.getByText("Begitu disimpan, mereka melihat harga baru").waitFor()
  await visit.screenshot("operator-price-customers")
  await visit.expectAccessible()
})

test("where mail is sent, an operator reads that they are mailed too, and that a price that begins at once or soon is not", async () => {
  await using visit = await world.visit({ person: world.operator })
  const { page } = visit
  await page.route("**/about", async (route) => {
    const about = (await (await route.fetch()).json()) as object
    await route.fulfill({ json: { ...about, sends_mail: true } })
  })
  await visit.open(`/operator/models/${encodeURIComponent(CHEAPER)}`)
  await page.getByRole("button", { name: "Schedule price" }).click()
  const dialog = page.getByRole("dialog", { name: "Schedule price" })
  await dialog.getByText("They are not told before of a price that begins at once.").waitFor()
  expect(await dialog.getByText(/mail/).count()).toBe(0)
  await dialog.getByText("At a time").click()
  const time = dialog.getByRole("textbox", { name: "From" })
  await time.fill("2098-01-01T00:00:00")
  await dialog.getByText("Ten minutes later they have it by mail too").waitFor()
  await visit.expectAccessible()
  const wall = await page.evaluate(() => new Date(Date.now() + 5 * 60_000 + 7 * 3_600_000).toISOString().slice(0, 19))
  await time.fill(wall)
  await dialog.getByText("A price that begins within ten minutes is not told by mail.").waitFor()
})
