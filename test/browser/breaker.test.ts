/** The breaker in the dashboard: ceilings of keys and of the account, and warnings on every page. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../gateway/harness.ts"
import { type BrowserWorld, everyLook, openBrowser } from "./harness.ts"

let world: BrowserWorld
beforeAll(async () => {
  world = await openBrowser()
})
afterAll(() => world[Symbol.asyncDispose]())

const breakerOf = async (person: Person) =>
  (await (await world.gateway.dashboard(person, "/account/breaker")).json()) as { readonly [name: string]: unknown }

/** Somebody whose key spends more than it may. */
async function alarmed(): Promise<Person> {
  const { gateway } = world
  const person = await gateway.person(1_000_000)
  const { id } = await gateway.key(person, { name: "Asisten toko" })
  const body = JSON.stringify({ ceiling_micro: 50_000_000_000, action: "stop", pause_minutes: 60 })
  expect((await gateway.dashboard(person, `/keys/${id}/breaker`, { method: "PUT", body })).status).toBe(200)
  await gateway.sql`
    update api_keys set paused_at = now(), paused_until = now() + interval '1 hour' where id = ${id}`
  await gateway.sql`
    insert into spending_alerts (owner_id, account_id, key_id, why, spent_micro, threshold_micro) values
      (${id}, ${person.accountId}, ${id}, 'ceiling', 68250000000, 50000000000),
      (${person.accountId}, ${person.accountId}, null, 'usual', 68250000000, 12000000000)`
  return person
}

test.each(everyLook)("warnings, the key's dialog and the settings are accessible and fit: %o", async (look) => {
  const person = await alarmed()
  const isIndonesian = look.language === "id"
  await using visit = await world.visit({ ...look, person })
  await visit.open("/keys")
  await visit.page
    .getByText(isIndonesian ? /Kunci Asisten toko memakai Rp\s68.250/ : /The key Asisten toko has spent Rp\s68,250/)
    .waitFor()
  await visit.screenshot("unusual-spending")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  await visit.openKey("Asisten toko")
  await visit.page.getByRole("button", { name: isIndonesian ? "Pengaman" : "Breaker" }).click()
  await visit.page.getByRole("dialog").waitFor()
  await visit.screenshot("key-breaker")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  await visit.open("/settings")
  const card = visit.page.getByRole("region", { name: isIndonesian ? "Pengaman pengeluaran" : "Spending breaker" })
  await card.getByRole("button", { name: isIndonesian ? "Simpan" : "Save" }).scrollIntoViewIfNeeded()
  await visit.screenshot("settings-breaker")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
})

test("on a screen of 320 px the warning, the dialog and the settings fit", async () => {
  const person = await alarmed()
  await using visit = await world.visit({ person, language: "id" })
  await visit.page.setViewportSize({ width: 320, height: 640 })
  await visit.open("/keys")
  await visit.openKey("Asisten toko")
  await visit.page.getByRole("button", { name: "Pengaman" }).click()
  await visit.page.getByRole("dialog").waitFor()
  const hint = /Pengeluaran dalam 10 menit yang membuat Anda diperingatkan, atau kunci dihentikan/
  await visit.page.getByRole("dialog").getByText(hint).waitFor()
  await visit.expectNoSidewaysScroll()
  await visit.open("/settings")
  await visit.page.getByRole("region", { name: "Pengaman pengeluaran" }).getByLabel("Paling banyak").waitFor()
  await visit.expectNoSidewaysScroll()
})

test("a key's ceiling is set in words that are read exactly, shown on its card, and taken away", async () => {
  const person = await world.gateway.person(100_000)
  await world.gateway.key(person, { name: "Shop" })
  await using visit = await world.visit({ person })
  await visit.open("/keys")
  const open = async () => {
    await visit.openKey("Shop")
    await visit.page.getByRole("button", { name: "Breaker" }).click()
    return visit.page.getByRole("dialog", { name: "Breaker of Shop" })
  }
  const first = await open()
  await first.getByLabel("At most within 10 minutes").fill("0")
  await first.getByRole("button", { name: "Save" }).click()
  await first.getByText("Enter an amount of rupiah above zero").waitFor()
  await first.getByLabel("At most within 10 minutes").fill("25,000.5")
  await first.getByRole("button", { name: "Save" }).click()
  await visit.page.getByText(/A warning over Rp\s25,00.* within 10 minutes/).waitFor()
  const keys = async () =>
    (
      (await (await world.gateway.dashboard(person, "/keys")).json()) as {
        data: { breaker_ceiling_micro: number | null }[]
      }
    ).data
  expect(await keys()).toMatchObject([{ breaker_ceiling_micro: 25_000_500_000 }])
  const again = await open()
  expect(await again.getByLabel("At most within 10 minutes").inputValue()).toBe("25,000.5")
  await again.getByLabel("At most within 10 minutes").fill("")
  await again.getByRole("button", { name: "Save" }).click()
  await again.waitFor({ state: "detached" })
  expect(await keys()).toMatchObject([{ breaker_ceiling_micro: null }])
})

test("the account's ceiling and its factor are kept; one that was set elsewhere stays a choice", async () => {
  const person = await world.gateway.person(100_000)
  await using visit = await world.visit({ person })
  await visit.open("/settings")
  const card = visit.page.getByRole("region", { name: "Spending breaker" })
  expect(await card.getByRole("radio", { name: "10× the usual" }).isChecked()).toBe(true)
  await card.getByText("20× the usual").click()
  await card.getByLabel("At most within 10 minutes").fill("100,000")
  await card.getByRole("button", { name: "Save" }).click()
  await visit.page.getByText("Breaker saved").waitFor()
  expect(await breakerOf(person)).toMatchObject({ ceiling_micro: 100_000_000_000, factor: 20 })
  const body = JSON.stringify({ ceiling_micro: null, factor: 7 })
  await world.gateway.dashboard(person, "/account/breaker", { method: "PUT", body })
  await visit.open("/settings")
  expect(await card.getByRole("radio", { name: "7× the usual" }).isChecked()).toBe(true)
  await card.getByText("Never", { exact: true }).click()
  await card.getByRole("button", { name: "Save" }).click()
  await visit.page.getByText("Breaker saved").waitFor()
  await card.getByText("Off", { exact: true }).waitFor()
  expect(await breakerOf(person)).toMatchObject({ ceiling_micro: null, factor: null })
})

test("what another member sets while a breaker's form is open stays", async () => {
  const person = await world.gateway.person(100_000)
  const { id } = await world.gateway.key(person, { name: "Shop" })
  const set = (path: string, settings: object) =>
    world.gateway.dashboard(person, path, { method: "PUT", body: JSON.stringify(settings) })
  await set(`/keys/${id}/breaker`, { ceiling_micro: 1_000_000_000 })
  await using visit = await world.visit({ person })
  await visit.open("/settings")
  const card = visit.page.getByRole("region", { name: "Spending breaker" })
  await card.getByText("20× the usual").click()
  await set("/account/breaker", { ceiling_micro: 5_000_000_000, action: "stop", pause_minutes: 15, factor: 5 })
  await card.getByRole("button", { name: "Save" }).click()
  await visit.page.getByText("Breaker saved").waitFor()
  expect(await breakerOf(person)).toMatchObject({
    ceiling_micro: 5_000_000_000,
    action: "stop",
    pause_minutes: 15,
    factor: 20,
  })
  await visit.open("/keys")
  await visit.openKey("Shop")
  await visit.page.getByRole("button", { name: "Breaker" }).click()
  const dialog = visit.page.getByRole("dialog", { name: "Breaker of Shop" })
  await dialog.getByLabel("At most within 10 minutes").fill("2,000")
  await set(`/keys/${id}/breaker`, { ceiling_micro: 1_000_000_000, action: "stop", pause_minutes: 60 })
  // The page hears of it.
  await dialog.getByRole("radio", { name: "1 hour" }).and(dialog.locator(":checked")).waitFor()
  await dialog.getByRole("button", { name: "Save" }).click()
  await dialog.waitFor({ state: "detached" })
  const keys = (await (await world.gateway.dashboard(person, "/keys")).json()) as { data: object[] }
  expect(keys.data).toMatchObject([
    { breaker_ceiling_micro: 2_000_000_000, breaker_action: "stop", breaker_pause_minutes: 60 },
  ])
})

test("a warning comes to an open page, and goes when it is dismissed", async () => {
  const { gateway } = world
  const person = await gateway.person(100_000)
  const { key } = await gateway.key(person, { name: "Shop" })
  const model = await gateway.model({ format: "chat", output_micro: 2_000_000_000 })
  const body = JSON.stringify({ ceiling_micro: 1_000_000, factor: null })
  await gateway.dashboard(person, "/account/breaker", { method: "PUT", body })
  await using visit = await world.visit({ person })
  await visit.open("/keys")
  const call = { model, messages: [{ role: "user", content: "Halo" }], max_tokens: 10 }
  expect((await gateway.post("/v1/chat/completions", key, call)).status).toBe(200)
  // The chore looks once a minute.
  const warning = visit.page.getByRole("status").getByText(/This account has spent Rp/)
  await warning.waitFor({ timeout: 90_000 })
  await visit.page.getByRole("button", { name: "Dismiss", exact: true }).click()
  await warning.waitFor({ state: "detached" })
  expect(await breakerOf(person)).toMatchObject({ alerts: [] })
}, 120_000)

test("a leaked key stops at its ceiling; its owner sees it and resumes it with one click", async () => {
  const { gateway } = world
  const person = await gateway.person(100_000)
  const { key } = await gateway.key(person, { name: "Shop" })
  const model = await gateway.model({ format: "chat", output_micro: 2_000_000_000 })
  const call = { model, messages: [{ role: "user", content: "Halo" }], max_tokens: 10 }
  const ask = async () => (await gateway.post("/v1/chat/completions", key, call)).status
  await using visit = await world.visit({ person })
  await visit.open("/keys")
  const card = await visit.openKey("Shop")
  await visit.page.getByRole("button", { name: "Breaker" }).click()
  const dialog = visit.page.getByRole("dialog", { name: "Breaker of Shop" })
  await dialog.getByLabel("At most within 10 minutes").fill("25,000")
  await dialog.getByText("Stop", { exact: true }).click()
  await dialog.getByText("1 hour").click()
  await dialog.getByRole("button", { name: "Save" }).click()
  await visit.page.getByText(/At most Rp\s25,000 within 10 minutes/).waitFor()
  const told = []
  for (let n = 0; n < 5 && told.at(-1) !== 403; n++) told.push(await ask())
  expect(told).toEqual([200, 403])
  await visit.keyRow("Shop").getByText("Paused", { exact: true }).waitFor()
  await card.getByText("Goes on by itself").waitFor()
  await visit.keyRow("Shop").getByRole("button", { name: "Resume" }).click()
  await visit.keyRow("Shop").getByText("Paused", { exact: true }).waitFor({ state: "detached" })
  expect(await ask()).toBe(200)
})

test("an account that is paused says so on every page, and is resumed there", async () => {
  const { gateway } = world
  const person = await gateway.person(100_000)
  await gateway.sql`update accounts set paused_at = now() where id = ${person.accountId}`
  await using visit = await world.visit({ person, language: "id" })
  await visit.open("/wallet")
  await visit.page.getByText(/Semua kunci dijeda sejak/).waitFor()
  await visit.expectAccessible()
  await visit.page.getByRole("button", { name: "Lanjutkan" }).click()
  await visit.page.getByText(/Semua kunci dijeda sejak/).waitFor({ state: "detached" })
})

test("two keys of one name that both spend unusually much stay two warnings when another one is over", async () => {
  const { gateway } = world
  const person = await gateway.person(10_000)
  for (const [name, minutes] of [
    ["Lain", 4],
    ["Kembar", 3],
    ["Kembar", 2],
  ] as const) {
    const { id } = await gateway.key(person, { name })
    await gateway.sql`
      insert into spending_alerts (owner_id, account_id, key_id, why, spent_micro, threshold_micro, since)
      values (${id}, ${person.accountId}, ${id}, 'ceiling', 61000000000, 50000000000, now() - ${minutes} * interval '1 minute')`
  }
  await using visit = await world.visit({ person })
  const { page } = visit
  await visit.open("/keys")
  await page.getByText(/The key Lain has spent/).waitFor()
  await gateway.sql`
    delete from spending_alerts where key_id in (select id from api_keys where account_id = ${person.accountId} and name = 'Lain')`
  // A look at the page after one at another tab, a minute later.
  await page.evaluate(() => {
    const now = Date.now
    Date.now = () => now() + 60_000
    document.dispatchEvent(new Event("visibilitychange"))
  })
  await page.getByText(/The key Lain has spent/).waitFor({ state: "detached" })
  expect(await page.getByText(/The key Kembar has spent/).count()).toBe(2)
})

test("a pause that could not be ended says so, and can be ended again", async () => {
  const { gateway } = world
  const person = await gateway.person(100_000)
  await gateway.sql`update accounts set paused_at = now() where id = ${person.accountId}`
  await using visit = await world.visit({ person })
  const { page } = visit
  await page.route("**/account/breaker/resume", (route) => route.fulfill({ status: 409, json: {} }), { times: 1 })
  await visit.open("/keys")
  const notice = page.getByRole("status").filter({ hasText: "All keys are paused since" })
  await notice.getByRole("button", { name: "Resume" }).click()
  await notice.getByText("That did not work. Try again in a moment.").waitFor()
  await notice.getByRole("button", { name: "Resume" }).click()
  await notice.waitFor({ state: "detached" })
})
