/** What was being written when the session ended: it is still there once the same person has signed in again. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../gateway/harness.ts"
import { type BrowserWorld, eventually, everyLook, openBrowser, type Visit } from "./harness.ts"

const PASSWORD = "correct horse battery"
let world: BrowserWorld
beforeAll(async () => void (world = await openBrowser()))
afterAll(() => world[Symbol.asyncDispose]())

/** A dialog in which a name is half written, of somebody whose session has just ended. */
async function halfWritten(visit: Visit, person: Person) {
  const { page } = visit
  await visit.open("/keys")
  await page
    .getByRole("button", { name: /^(Create key|Buat kunci)$/ })
    .first()
    .click()
  const name = page.getByRole("dialog").getByLabel(/^(Name|Nama)$/)
  await name.fill("half written")
  await world.gateway.sql`delete from sessions where account_id = ${person.accountId}`
  return name
}

async function signIn(visit: Visit, email: string): Promise<void> {
  const { page } = visit
  await page.getByLabel("E-mail address").fill(email)
  await page.getByLabel("Password", { exact: true }).fill(PASSWORD)
  await page.getByRole("button", { name: "Sign in", exact: true }).click()
}
const emailOf = async (person: Person) =>
  ((await (await world.gateway.dashboard(person, "/account")).json()) as { email: string }).email

test("what was being written when the session ended is sent after signing in again", async () => {
  const person = await world.gateway.person()
  const email = await emailOf(person)
  await using visit = await world.visit({ person })
  const { page } = visit
  const name = await halfWritten(visit, person)
  await page.getByRole("dialog").getByRole("button", { name: "Create key" }).click()
  await page.getByText("Your session has ended. Sign in again: what you were writing is still here.").waitFor()
  // Nothing of the page can be seen or reached meanwhile.
  const cover = page.getByRole("dialog", { name: "Loket" })
  expect(await cover.boundingBox()).toMatchObject({ x: 0, y: 0, ...page.viewportSize() })
  expect(await cover.evaluate((element) => getComputedStyle(element).backgroundColor)).toMatch(/^rgb\(/)
  await page.keyboard.press("Escape")
  await page.keyboard.press("Escape")
  for (let presses = 0; presses < 12; presses++) {
    await page.keyboard.press("Tab")
    expect(await page.evaluate(() => document.activeElement?.closest(".modal-dialog") ?? null)).toBe(null)
  }
  await signIn(visit, email)
  await cover.waitFor({ state: "detached" })
  await eventually(async () =>
    expect(await page.evaluate(() => document.activeElement?.closest("dialog") !== null)).toBe(true),
  )
  expect(await name.inputValue()).toBe("half written")
  await page.getByRole("dialog").getByRole("button", { name: "Create key" }).click()
  await eventually(async () => {
    const { data } = (await (await fetchAs(visit, "/keys")).json()) as { data: { name: string }[] }
    expect(data.map((key) => key.name)).toEqual(["half written"])
  })
})

const fetchAs = async (visit: Visit, path: string) => {
  const [cookie] = await visit.page.context().cookies()
  return await fetch(`${world.gateway.url}${path}`, { headers: { Cookie: `session=${cookie?.value}` } })
}

test("another person who signs in there sees nothing of what was written, nor whose it was", async () => {
  const [first, second] = [await world.gateway.person(), await world.gateway.person()]
  const [firstEmail, secondEmail] = [await emailOf(first), await emailOf(second)]
  await using _ = await world.visit({ person: second })
  await using visit = await world.visit({ person: first })
  const { page } = visit
  const name = await halfWritten(visit, first)
  await page.getByRole("dialog").getByRole("button", { name: "Create key" }).click()
  await signIn(visit, secondEmail)
  await page.getByRole("heading", { name: "Home" }).waitFor()
  expect([await name.count(), await page.getByText(firstEmail).count()]).toEqual([0, 0])
  await page.getByRole("button", { name: `Account: ${secondEmail}` }).waitFor()
})

test("a member who was writing for an account leaves nothing to its owner, who signs in there", async () => {
  const [owner, member] = [await world.gateway.person(), await world.gateway.person()]
  const [ownerEmail, email] = [await emailOf(owner), await emailOf(member)]
  const post = async (person: Person, path: string, body: object) => {
    const response = await world.gateway.dashboard(person, path, { method: "POST", body: JSON.stringify(body) })
    expect(response.ok).toBe(true)
    return (await response.json().catch(() => ({}))) as { path?: string }
  }
  const { path } = await post(owner, "/account/invitations", { email, role: "developer" })
  await post(member, "/account/memberships", { token: path?.split("#")[1] })
  await post(member, "/auth/look-at", { account_id: owner.accountId })
  await using _ = await world.visit({ person: owner })
  await using visit = await world.visit({ person: member })
  const { page } = visit
  const name = await halfWritten(visit, member)
  await page.getByRole("dialog").getByRole("button", { name: "Create key" }).click()
  await signIn(visit, ownerEmail)
  await page.getByRole("heading", { name: "Home" }).waitFor()
  expect(await name.count()).toBe(0)
  await page.getByRole("button", { name: `Account: ${ownerEmail}` }).waitFor()
})

test("who does not want to keep it comes to the sign-in page, and nothing of it is there", async () => {
  const person = await world.gateway.person()
  await using visit = await world.visit({ person })
  const { page } = visit
  const name = await halfWritten(visit, person)
  await page.getByRole("dialog").getByRole("button", { name: "Create key" }).click()
  await page.getByRole("link", { name: "Discard what you were writing" }).click()
  await page.getByText("Your session has ended. Sign in to return").waitFor()
  expect(await name.count()).toBe(0)
})

test.each(everyLook)("the sign-in over a page that is kept is accessible and fits: %o", async (look) => {
  const person = await world.gateway.person()
  await using visit = await world.visit({ ...look, person })
  await halfWritten(visit, person)
  // Without a press: the page notices it by itself.
  await visit.page.getByRole("button", { name: /^(Sign in|Masuk)$/ }).waitFor()
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  await visit.screenshot("held")
})
