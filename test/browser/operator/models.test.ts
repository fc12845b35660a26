/** Models and prices as an operator changes them: tried before they are made, and acting when they say. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { eventually } from "../harness.ts"
import { openOperatorWorld, type OperatorWorld, say } from "./world.ts"

let world: OperatorWorld
let key: string

beforeAll(async () => {
  world = await openOperatorWorld()
  key = (await world.gateway.key(await world.gateway.person(1_000_000))).key
}, 60_000)
afterAll(() => world[Symbol.asyncDispose]())

const costOf = async (model: string): Promise<string | null> => {
  const response = await say(world, key, model)
  expect(response.status).toBe(200)
  return response.headers.get("x-cost-rp")
}

/** What a clock in the operators' time zone shows so many seconds from now; never a whole minute, which fields shorten. */
function wallTimeIn(seconds: number): string {
  const jakarta = new Date(Date.now() + seconds * 1_000 + 7 * 3_600_000)
  if (jakarta.getUTCSeconds() === 0) jakarta.setUTCSeconds(1)
  return jakarta.toISOString().slice(0, 19)
}

test("an operator schedules a price and sees it act: calls before and after pay the two rates", async () => {
  const model = await world.gateway.model({ format: "chat", model: "vendor/kapal-1.5", script: "input=1000&output=20" })
  await using visit = await world.visit({ person: world.operator })
  await visit.open("/operator/models")
  await visit.page.getByRole("button", { name: /kapal-1\.5/ }).click()
  const prices = visit.page.getByRole("table", { name: "Prices" })
  await prices.getByRole("row", { name: /Current/ }).waitFor()
  await visit.page.getByRole("button", { name: "Schedule price" }).click()
  const dialog = visit.page.getByRole("dialog", { name: "Schedule price" })
  expect(await dialog.getByLabel("Output").inputValue()).toBe("5,000")
  await dialog.getByLabel("Input").fill("1,600")
  await dialog.getByText("At a time", { exact: true }).click()
  await dialog.getByRole("textbox", { name: "From" }).fill(wallTimeIn(10))
  await dialog.getByRole("button", { name: "Review changes" }).click()
  const input = dialog.getByRole("row", { name: /^Input/ })
  await input.waitFor()
  expect(await input.getByRole("cell").allInnerTexts()).toEqual(["Rp\u00A01,000", "Rp\u00A01,600"])
  // 1,000 tokens at Rp 1,000 and 20 at Rp 5,000 a million; the new rate is not there before it is saved.
  expect(await costOf(model)).toBe("1.1")
  await dialog.getByRole("button", { name: "Save" }).click()
  await visit.page.getByText("The price is scheduled.").waitFor()
  // The page asks again when the price begins.
  const current = prices.getByRole("row", { name: /Current/ })
  await current.getByText("Rp\u00A01,600").waitFor()
  expect(await costOf(model)).toBe("1.7")
  await visit.page.getByRole("link", { name: "Audit log of this model" }).click()
  await visit.page.getByRole("button", { name: "Price scheduled" }).click()
  const entry = visit.page.getByRole("dialog", { name: "Price scheduled" })
  const logged = entry.getByRole("row", { name: /^Input/ })
  await logged.waitFor()
  expect(await logged.getByRole("cell").allInnerTexts()).toEqual(["Rp\u00A01,000", "Rp\u00A01,600"])
  await entry.getByText("operator@example.com").waitFor()
  await visit.expectAccessible()
})

test("a jump of a price is warned of and wants a confirmation, and a price to come can be deleted", async () => {
  const model = await world.gateway.model({ format: "chat", model: "kapal-mahal" })
  await using visit = await world.visit({ person: world.operator, language: "id", size: "phone", theme: "dark" })
  await visit.open(`/operator/models/${model}`)
  await visit.page.getByRole("button", { name: "Jadwalkan harga" }).click()
  const dialog = visit.page.getByRole("dialog", { name: "Jadwalkan harga" })
  await dialog.getByLabel("Keluaran").fill("5,5")
  await dialog.getByRole("button", { name: "Tinjau perubahan" }).click()
  await dialog.getByText("Isi dengan bilangan bulat rupiah, 0 atau lebih.").waitFor()
  await dialog.getByLabel("Keluaran").fill("50.000")
  await dialog.getByText("Pada waktu tertentu").click()
  await dialog.getByRole("textbox", { name: "Mulai" }).fill(wallTimeIn(3_600))
  await dialog.getByRole("button", { name: "Tinjau perubahan" }).click()
  await dialog.getByText("Keluaran dari Rp\u00A05.000 menjadi Rp\u00A050.000 (10 kali)").waitFor()
  const save = dialog.getByRole("button", { name: "Simpan" })
  await eventually(async () => expect(await save.isDisabled()).toBe(true))
  await visit.screenshot("operator-price-jump")
  await visit.expectAccessible()
  await dialog.getByLabel("Ya, perubahan sebesar ini memang dimaksud.").check()
  await save.click()
  const coming = visit.page.getByRole("row", { name: /Menunggu/ })
  await coming.getByText("Rp\u00A050.000").waitFor()
  await coming.getByRole("button", { name: "Hapus" }).click()
  await visit.page.getByRole("dialog").getByText("Harga ini tidak akan berlaku").waitFor()
  await visit.page.getByRole("button", { name: "Hapus harga" }).click()
  await coming.waitFor({ state: "detached" })
})

test("a model's name, cap and chain are changed as the review says, and a wrong chain is refused in it", async () => {
  const other = await world.gateway.model({ format: "chat", model: "perahu-cadangan" })
  const model = await world.gateway.model({ format: "chat", model: "perahu-utama" })
  await using visit = await world.visit({ person: world.operator })
  await visit.open(`/operator/models/${model}`)
  await visit.page.getByRole("button", { name: "Edit" }).click()
  const dialog = visit.page.getByRole("dialog", { name: "Edit model" })
  await dialog.getByLabel("Display name").fill("Perahu Utama")
  await dialog.getByLabel("Concurrent calls").fill("12")
  await dialog.getByLabel("Fallback chain").fill("nobody")
  await dialog.getByRole("button", { name: "Review changes" }).click()
  await dialog.getByText("'fallback[0]' must be the id of a model on sale.").waitFor()
  await dialog.getByLabel("Fallback chain").fill(other)
  await dialog.getByRole("button", { name: "Review changes" }).click()
  const rows = dialog.getByRole("table").getByRole("row")
  await rows.first().waitFor()
  expect((await rows.allInnerTexts()).slice(1).map((row) => row.split(/\s*\t\s*/))).toEqual([
    ["Display name", model, "Perahu Utama"],
    ["Concurrent calls", "64", "12"],
    ["Fallback chain", "–", other],
  ])
  await dialog.getByRole("button", { name: "Save" }).click()
  await visit.page.getByRole("heading", { name: "Perahu Utama" }).waitFor()
})

test("a model is retired to another until a time, and sold again", async () => {
  const model = await world.gateway.model({ format: "chat", model: "kapal-tua", script: "input=1000&output=20" })
  await using visit = await world.visit({ person: world.operator })
  await visit.open(`/operator/models/${model}`)
  await visit.page.getByRole("button", { name: "Retire model" }).click()
  const dialog = visit.page.getByRole("dialog")
  await dialog.getByLabel("Served as").selectOption("plain")
  await dialog.getByRole("textbox", { name: "Until" }).fill("2030-01-31T12:00:01")
  await dialog.getByRole("button", { name: "Review changes" }).click()
  await dialog
    .getByRole("row", { name: /Served as/ })
    .getByText("plain")
    .waitFor()
  await dialog.getByRole("button", { name: "Retire model" }).click()
  await visit.page.getByText("Served as plain until 31 Jan 2030, 12:00.").waitFor()
  expect(await costOf(model)).not.toBe("1.1")
  await visit.open("/operator/models?state=retiring")
  await eventually(async () =>
    expect(await visit.page.getByRole("rowheader").allInnerTexts()).toEqual([expect.stringContaining("kapal-tua")]),
  )
  await visit.page.getByRole("button", { name: /kapal-tua/ }).click()
  await visit.page.getByRole("button", { name: "Sell again" }).click()
  await visit.page.getByRole("dialog").getByRole("button", { name: "Sell again" }).click()
  await visit.page.getByText("On sale", { exact: true }).waitFor()
  expect(await costOf(model)).toBe("1.1")
})

test("retiring preselects nothing dearer, shows both prices, and wants a large step confirmed", async () => {
  const model = await world.gateway.model({ format: "responses", model: "rakit", input_micro: 400, output_micro: 900 })
  const dearer = { format: "responses", input_micro: 4_000, output_micro: 9_000 } as const
  await world.gateway.model({ ...dearer, model: "kapal-pesiar" })
  await using visit = await world.visit({ person: world.operator })
  const open = async () => {
    await visit.open(`/operator/models/${model}`)
    await visit.page.getByRole("button", { name: "Retire model" }).click()
  }
  await open()
  const dialog = visit.page.getByRole("dialog")
  expect(await dialog.getByLabel("Served as").inputValue()).toBe("")
  await dialog.getByRole("button", { name: "Review changes" }).click()
  await dialog.getByText("Choose the model that takes its place.").waitFor()
  await dialog.getByLabel("Served as").selectOption("kapal-pesiar")
  const prices = dialog.getByRole("table", { name: "What customers pay for this ID" })
  const input = prices.getByRole("row", { name: /^Input/ })
  await input.waitFor()
  expect(await input.getByRole("cell").allInnerTexts()).toEqual(["Rp\u00A0400", "Rp\u00A04,000"])
  await dialog.getByRole("button", { name: "Review changes" }).click()
  await dialog.getByText("Large change").waitFor()
  const retire = dialog.getByRole("button", { name: "Retire model" })
  await eventually(async () => expect(await retire.isDisabled()).toBe(true))
  await visit.screenshot("operator-retire-model")
  await dialog.getByRole("checkbox").check()
  await retire.click()
  await visit.page.getByText(/^Served as kapal-pesiar until/).waitFor()

  await world.gateway.model({ format: "responses", model: "sampan-murah", input_micro: 300, output_micro: 800 })
  await world.gateway.model({ format: "responses", model: "sampan", input_micro: 400, output_micro: 850 })
  const second = await world.gateway.model({
    format: "responses",
    model: "rakit-2",
    input_micro: 400,
    output_micro: 900,
  })
  await visit.open(`/operator/models/${second}`)
  await visit.page.getByRole("button", { name: "Retire model" }).click()
  expect(await dialog.getByLabel("Served as").inputValue()).toBe("sampan")
})
