/** Terms, privacy and refunds as people read them and agree to them. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { type BrowserWorld, everyLook, openBrowser } from "./harness.ts"

let world: BrowserWorld
beforeAll(async () => void (world = await openBrowser()))
afterAll(() => world[Symbol.asyncDispose]())

const ofAccount = async (email: string) => {
  const [row] = await world.gateway.sql<{ agreed_version: string | null }[]>`
    select agreed_version from accounts where email = ${email}`
  return row?.agreed_version
}
const inForce = async () =>
  ((await (await fetch(`${world.gateway.url}/about`)).json()) as { legal_version: string }).legal_version

test.each(everyLook)("the texts are accessible and fit: %o", async (look) => {
  await using visit = await world.visit(look)
  for (const topic of ["terms", "privacy", "refunds"]) {
    await visit.page.goto(`${world.gateway.url}/${topic}`)
    expect(await visit.page.locator("html").getAttribute("lang")).toBe(look.language)
    expect(await visit.page.locator("h1").count()).toBe(1)
    await visit.screenshot(topic)
    await visit.expectAccessible()
    for (const width of [320, 390, 1440, 1920]) {
      await visit.page.setViewportSize({ width, height: 800 })
      await visit.expectNoSidewaysScroll()
    }
    await visit.page.setViewportSize(look.size === "phone" ? { width: 390, height: 844 } : { width: 1280, height: 800 })
  }
})

test("who signs up agrees to the version that the page shows", async () => {
  await using visit = await world.visit()
  const email = `p${crypto.randomUUID()}@example.com`
  await visit.open("/sign-up")
  await visit.page.getByText("By signing up you agree to our").waitFor()
  await visit.expectAccessible()
  const opened = visit.page.waitForEvent("popup")
  await visit.page.getByRole("link", { name: "refund policy" }).click()
  const text = await opened
  await text.getByRole("heading", { name: "Refund Policy" }).waitFor()
  await text.close()
  await visit.page.getByLabel("E-mail address").fill(email)
  await visit.page.getByLabel("Password").fill("correct horse battery")
  await visit.page.getByRole("button", { name: "Sign up" }).click()
  await visit.page.getByRole("heading", { name: "Home" }).waitFor()
  expect(await ofAccount(email)).toBe(await inForce())
  expect(await visit.page.getByRole("button", { name: "I agree" }).count()).toBe(0)
})

test.each(everyLook)("who has agreed to nothing is asked, on every page, until they agree: %o", async (look) => {
  const person = await world.gateway.person()
  await using visit = await world.visit({ ...look, person, agreed: false })
  await visit.open("/settings")
  const agree = visit.page.getByRole("button", { name: look.language === "id" ? "Saya setuju" : "I agree" })
  await agree.waitFor()
  await visit.screenshot("agreement")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  await agree.click()
  await agree.waitFor({ state: "detached" })
  await visit.page.getByText(look.language === "id" ? /Disetujui pada/ : /Agreed to on/).waitFor()
  const [row] = await world.gateway.sql`select agreed_version from accounts where id = ${person.accountId}`
  expect(row?.["agreed_version"]).toBe(await inForce())
})

test("who has agreed to a version before is told that the terms have changed, and keys work meanwhile", async () => {
  const person = await world.gateway.person(100_000)
  const { key } = await world.gateway.key(person)
  const model = await world.gateway.model({ format: "chat" })
  await world.gateway.sql`
    update accounts set agreed_version = 'before', agreed_at = now() - interval '1 day' where id = ${person.accountId}`
  await using visit = await world.visit({ person, agreed: false })
  await visit.open("/")
  await visit.page.getByText("Our terms have changed.").waitFor()
  const body = { model, max_tokens: 10, messages: [{ role: "user", content: "hi" }] }
  expect((await world.gateway.post("/v1/chat/completions", key, body)).status).toBe(200)
})
