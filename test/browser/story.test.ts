/**
 * The whole of it, as one person lives it: signs up, pays, makes a key, calls with it and sees it live, is told what it cost
 * and why, and puts an end to the key. A real browser and real HTTP; what the operator does is in `operator/`.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { type BrowserWorld, openBrowser, type Visit } from "./harness.ts"

/** 1,201 × 1,000 + 340 × 5,000 micro-rupiah: Rp 2.901. */
const SCRIPT = "input=1201&output=340"
const COST = "Rp\u00A02.901"

let world: BrowserWorld
let model: string
beforeAll(async () => {
  world = await openBrowser()
  model = await world.gateway.model({ format: "chat", model: "kapal-cerita", script: SCRIPT })
})
afterAll(() => world[Symbol.asyncDispose]())

/** A streamed call of the model, read to its end. */
async function call(key: string): Promise<Response> {
  const messages = [{ role: "user", content: "Ceritakan sebuah kisah." }]
  return await world.gateway.post("/v1/chat/completions", key, { model, messages, stream: true })
}

async function signUp({ page }: Visit): Promise<void> {
  await page.getByLabel("E-mail address").fill(`p${crypto.randomUUID()}@example.com`)
  await page.getByLabel("Password").fill("correct horse battery")
  await page.getByRole("button", { name: "Sign up" }).click()
  await page.getByText("First steps").waitFor()
}

async function topUp({ page }: Visit): Promise<void> {
  await page.getByRole("link", { name: "Top up your balance" }).click()
  await page.getByRole("button", { name: "Pay Rp\u00A050,000 with QRIS" }).click()
  const opened = page.waitForEvent("popup")
  await page.getByRole("link", { name: "Open the simulated payment page" }).click()
  const simulated = await opened
  await simulated.getByRole("button", { name: "Pay" }).click()
  await simulated.getByText("has been paid").waitFor()
  await simulated.close()
  await page.getByText("Rp\u00A050,000 has been added to your balance.").waitFor()
}

/** Makes a key, and copies it the one time that it is shown. */
async function makeKey({ page }: Visit): Promise<string> {
  await page.getByRole("link", { name: "Go to API keys" }).click()
  await page.getByRole("button", { name: "Create key" }).first().click()
  const dialog = page.getByRole("dialog", { name: "Create an API key" })
  await dialog.getByRole("textbox", { name: "Name" }).fill("Story")
  await dialog.getByRole("button", { name: "Create key" }).click()
  const once = page.getByRole("dialog", { name: "Copy your key now" })
  await once.getByRole("button", { name: "Copy API key" }).click()
  await once.getByRole("button", { name: "I have saved it" }).click()
  return await page.evaluate(() => navigator.clipboard.readText())
}

/** What the chart's own table says of today. */
const spentToday = ({ page }: Visit) =>
  page.getByRole("table", { name: "Spend in the last 30 days" }).getByRole("row").last()

test("from the sign-up to the end of a key", async () => {
  await using visit = await world.visit()
  const { page } = visit
  await visit.open("/sign-up")
  await signUp(visit)
  await topUp(visit)
  const key = await makeKey(visit)
  expect(key).toMatch(/^sk-loket-[A-Za-z0-9]{46}$/)

  await page.getByRole("link", { name: "Home" }).click()
  await page.getByText("No calls yet").waitFor()
  // From here on nothing is reloaded: what happens elsewhere comes to the page.
  const first = await call(key)
  expect([first.status, first.headers.get("content-type")]).toEqual([200, expect.stringContaining("text/event-stream")])
  expect(await first.text()).toEndWith("data: [DONE]\n\n")
  await page.getByRole("row", { name: /kapal-cerita/ }).waitFor()
  await page.getByRole("complementary").getByText("Rp\u00A049,997.10").waitFor()
  await spentToday(visit).getByText("Rp\u00A02.90").waitFor()
  const second = await call(key)
  await second.text()
  await page.getByRole("complementary").getByText("Rp\u00A049,994.20").waitFor()
  await spentToday(visit).getByText("Rp\u00A05.80").waitFor()

  await page.getByRole("link", { name: "Usage", exact: true }).click()
  const calls = page.getByRole("table", { name: "Calls", exact: true })
  await calls.getByRole("row").nth(1).getByRole("button").click()
  const drawer = page.getByRole("dialog", { name: "Call details" })
  await drawer.getByText(second.headers.get("x-request-id") ?? "none").waitFor()
  await drawer.getByRole("row", { name: /^Input.*1,201/ }).waitFor()
  await drawer.getByRole("row", { name: /^Output.*340/ }).waitFor()
  await drawer
    .getByRole("row", { name: /^Charged to your balance/ })
    .getByText(COST)
    .waitFor()
  await page.keyboard.press("Escape")

  await page.getByRole("link", { name: "API keys" }).click()
  await (await visit.openKey("Story")).getByRole("button", { name: "Revoke" }).click()
  const revocation = page.getByRole("dialog", { name: "Revoke Story?" })
  await revocation.getByText("2 calls").waitFor()
  await revocation.getByRole("button", { name: "Revoke key" }).click()
  await page.getByText("Story revoked").waitFor()
  const refused = await call(key)
  expect([refused.status, refused.headers.get("x-error-code")]).toEqual([401, "auth.api_key_revoked"])
  await page.getByRole("complementary").getByText("Rp\u00A049,994.20").waitFor()
})
