/** Every dialog of every page, by the keys alone: the focus goes in, stays in, and comes back to what opened it. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Page } from "playwright-core"
import type { Person } from "../../gateway/harness.ts"
import { caller } from "../../http/operator/operator.ts"
import { openOperatorWorld, type OperatorWorld, payWrongly, say } from "./world.ts"

let world: OperatorWorld
let person: Person
let model: string

beforeAll(async () => {
  world = await openOperatorWorld()
  const { gateway } = world
  model = await gateway.model({ format: "chat", model: "kapal-cepat", script: "input=1000&output=20" })
  person = await gateway.person(100_000)
  const { key } = await gateway.key(person, { name: "laptop" })
  await say(world, key, model)
  await payWrongly(world, person)
  const { json } = await caller(gateway, person)("/top-ups")
  const paid = json.data.find(({ status }: { status: string }) => status === "paid")
  const made = await caller(gateway, world.operator)(`/operator/accounts/${person.accountId}/refunds`, {
    top_up_id: paid.id,
    amount_micro: 1_000_000,
    payout: "by_hand",
    reason: "a test",
    idempotency_key: "a-test",
  })
  expect(made.status).toBe(201)
}, 60_000)
afterAll(() => world[Symbol.asyncDispose]())

const isIn = (page: Page) =>
  page.evaluate(() => {
    const { activeElement: active } = document
    // The browser's own bar is between the last and the first.
    return active === document.body || active?.closest("dialog[open]") !== null
  })

/** What is wrong with the dialog that a button has opened. */
async function faults(page: Page, opener: string): Promise<string[]> {
  const found: string[] = []
  const dialog = page.locator("dialog[open]")
  if (!(await page.evaluate(() => document.activeElement?.closest("dialog[open]") !== null)))
    found.push("no focus in it")
  for (let presses = 0; presses < 15; presses++) {
    await page.keyboard.press(presses < 12 ? "Tab" : "Shift+Tab")
    if (!(await isIn(page))) found.push("the focus leaves it")
  }
  await page.keyboard.press("Escape")
  await dialog.waitFor({ state: "detached", timeout: 3_000 }).catch(() => found.push("Escape leaves it open"))
  await page.waitForTimeout(150)
  const after = await page.evaluate(nameOfActive)
  if (after !== opener) found.push(`the focus is on ${after}`)
  return found
}
const nameOfActive = () => {
  const { activeElement: active } = document
  return `${active?.tagName} ${active?.getAttribute("aria-label") ?? active?.textContent}`
}

/** With how many dialogs each has, at the least. */
const pages = [
  ["operator", "/profit", 1],
  ["operator", "/accounts/:account", 6],
  ["operator", "/refunds", 3],
  ["operator", "/payment-problems", 1],
  ["operator", "/models", 2],
  ["operator", "/models/:model", 3],
  ["operator", "/backends", 3],
  ["customer", "/keys", 8],
  ["customer", "/settings", 3],
  ["customer", "/usage", 1],
  ["customer", "/models", 2],
] as const
const MOST = 40

test.each(pages)("by the keys alone: an %s's %s", async (who, path, least) => {
  await using visit = await world.visit({ person: who === "operator" ? world.operator : person })
  const { page } = visit
  // Nothing is changed by what is pressed.
  await page.route("**/*", (route) => (route.request().method() === "GET" ? route.fallback() : route.abort()))
  const place = path.replace(":account", person.accountId).replace(":model", encodeURIComponent(model))
  const address = `${who === "operator" ? "/operator" : ""}${place}`
  await visit.open(address)
  const buttons = page.locator("main button:enabled:visible")
  const open = page.locator("dialog[open]")
  const found: string[] = []
  let dialogs = 0
  for (let at = 0; at < MOST && at < (await buttons.count()); at++) {
    await buttons.nth(at).focus()
    const opener = await page.evaluate(nameOfActive)
    await page.keyboard.press("Enter")
    await page.waitForTimeout(150)
    if ((await open.count()) > 0) {
      dialogs++
      found.push(...(await faults(page, opener)).map((fault) => `${opener}: ${fault}`))
      if ((await open.count()) > 0) await visit.open(address)
    } else if (page.url().includes(place)) {
      // What it opened is no dialog, such as a list.
      await page.keyboard.press("Escape")
    } else await visit.open(address)
  }
  expect(found).toEqual([])
  expect(dialogs).toBeGreaterThanOrEqual(least)
  // The browser's own words about the requests that were cut.
  visit.complaints.length = 0
})
