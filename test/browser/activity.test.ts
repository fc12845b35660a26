import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../gateway/harness.ts"
import { type BrowserWorld, everyLook, openBrowser } from "./harness.ts"

let world: BrowserWorld
let person: Person

beforeAll(async () => {
  world = await openBrowser()
  const { gateway } = world
  person = await gateway.person(50_000)
  const send = (path: string, body: object, method = "PATCH") =>
    gateway.dashboard(person, path, { method, body: JSON.stringify(body) })
  for (let place = 1; place <= 12; place++) {
    const { id } = await gateway.key(person, { name: `Kasir ${place}` })
    if (place > 10) await send(`/keys/${id}`, { requests_per_minute: 60, networks: ["203.0.113.0/24"] })
    if (place < 9) await send(`/keys/${id}/revoke`, {}, "POST")
  }
  await send("/account", { time_zone: "Asia/Makassar" })
  await gateway.freeze(person, "a difference")
})
afterAll(() => world[Symbol.asyncDispose]())

test.each(everyLook)("the account's history is accessible and fits, also at 320 px: %o", async (look) => {
  await using visit = await world.visit({ ...look, person })
  const { page } = visit
  const table = page.getByRole("table", { name: look.language === "id" ? "Riwayat akun" : "Account history" })
  await visit.open("/settings")
  await table.getByText("Kasir 12 ·").first().waitFor()
  await table.scrollIntoViewIfNeeded()
  await visit.screenshot("settings-activity")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  if (look.size === "phone") {
    await page.setViewportSize({ width: 320, height: 700 })
    await visit.expectNoSidewaysScroll()
  }
})

test("what was done stands there with who did it, further pages come as they are asked for, and all of it is a file", async () => {
  await using visit = await world.visit({ person, language: "en" })
  const { page } = visit
  await visit.open("/settings")
  const table = page.getByRole("table", { name: "Account history" })
  await table.getByText("Account frozen").waitFor()
  expect(await table.getByRole("row").nth(1).innerText()).toContain("Loket")
  expect(await table.getByRole("row").nth(2).innerText()).toContain("Changed: time zone")
  await table.getByText("Kasir 12 · Changed: networks, requests per minute").waitFor()
  expect(await table.getByText("Account created").count()).toBe(0)
  await page.getByRole("button", { name: "Load more" }).click()
  await table.getByText("Account created").waitFor()
  await table.getByText("127.0.0.1").first().waitFor()
  const download = page.waitForEvent("download")
  await page.getByRole("link", { name: "Download CSV" }).click()
  expect((await download).suggestedFilename()).toBe("loket-activity.csv")
})
