/** What people see of a network that fails: the browser is offline. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { type BrowserWorld, openBrowser } from "./harness.ts"

let world: BrowserWorld
beforeAll(async () => {
  world = await openBrowser()
})
afterAll(() => world[Symbol.asyncDispose]())

test("a change that is pressed offline fails at once, can be pressed again, and is not carried out by itself later", async () => {
  const customer = await world.gateway.person()
  await using visit = await world.visit({ person: customer })
  const { page } = visit
  await visit.open("/wallet")
  const pay = page.getByRole("button", { name: /^Pay / })
  await pay.waitFor()
  await page.context().setOffline(true)
  await pay.click()
  await page.getByRole("alert").getByText("The server cannot be reached.").waitFor({ timeout: 15_000 })
  expect(await page.locator("[aria-busy=true]").count()).toBe(0)
  await page.context().setOffline(false)
  await page.getByRole("complementary").getByText("Live", { exact: true }).waitFor()
  await Bun.sleep(1_000)
  const { data } = (await (await world.gateway.dashboard(customer, "/top-ups")).json()) as { data: unknown[] }
  expect(data).toEqual([])
  await pay.click()
  await page.waitForURL(/\/wallet\/top_/)
  visit.complaints.length = 0
})
