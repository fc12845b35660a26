/** A key's children in the dashboard: management tokens, and what was made with them. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { type BrowserWorld, everyLook, openBrowser } from "./harness.ts"

let world: BrowserWorld
beforeAll(async () => {
  world = await openBrowser()
})
afterAll(() => world[Symbol.asyncDispose]())

async function teacher() {
  const { gateway } = world
  const person = await gateway.person(1_000_000)
  const { id } = await gateway.key(person, {
    name: "Kelas 9B",
    spending_limit_micro: 500_000_000_000,
    spending_period: "monthly",
  })
  const body = JSON.stringify({ name: "Skrip kelas" })
  const made = await gateway.dashboard(person, `/keys/${id}/tokens`, { method: "POST", body })
  const { token } = (await made.json()) as { token: string }
  return { person, id, token }
}

const child = async (token: string, body: object) => {
  const headers = { Authorization: `Bearer ${token}` }
  const made = await fetch(`${world.gateway.url}/v1/keys`, { method: "POST", headers, body: JSON.stringify(body) })
  expect(made.status).toBe(201)
}

test.each(everyLook)("children and tokens are accessible and fit: %o", async (look) => {
  const { person, token } = await teacher()
  await child(token, { name: "Ani", spending_limit_micro: 20_000_000_000, spending_period: "monthly" })
  await child(token, { name: "Budi" })
  const isIndonesian = look.language === "id"
  await using visit = await world.visit({ ...look, person })
  await visit.open("/keys")
  await visit.openKey("Kelas 9B")
  await visit.page.getByText(isIndonesian ? "2 kunci anak" : "2 child keys", { exact: true }).waitFor()
  await visit.page.getByRole("button", { name: isIndonesian ? "Kunci anak" : "Child keys", exact: true }).click()
  const dialog = visit.page.getByRole("dialog")
  await dialog.getByText("Skrip kelas").waitFor()
  await dialog.getByText("Budi", { exact: true }).waitFor()
  await visit.screenshot("key-children")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
})

test("a token is made, shown once, makes a child, and is revoked; the child is revoked by itself", async () => {
  const { person } = await teacher()
  await using visit = await world.visit({ person, language: "en" })
  const { page } = visit
  await visit.open("/keys")
  await visit.openKey("Kelas 9B")
  await page.getByRole("button", { name: "Child keys", exact: true }).click()
  const dialog = page.getByRole("dialog", { name: "Child keys of Kelas 9B" })
  await dialog.getByRole("textbox", { name: "Name of the token" }).fill("Script")
  await dialog.getByRole("button", { name: "Create token" }).click()
  const once = page.getByRole("dialog", { name: "Copy your token now" })
  const token = (await once.locator("code").textContent()) ?? ""
  expect(token).toMatch(/^mt-loket-[0-9A-Za-z]{46}$/)
  await once.getByRole("button", { name: "I have saved it" }).click()
  await dialog.getByText("Script", { exact: true }).waitFor()
  expect(await page.content()).not.toContain(token)
  await child(token, { name: "Ani" })
  await visit.open("/keys")
  await visit.openKey("Kelas 9B")
  await page.getByRole("button", { name: "Child keys", exact: true }).click()
  await dialog.getByRole("button", { name: "Revoke Ani" }).click()
  await page.getByRole("dialog", { name: "Revoke Ani?" }).getByRole("button", { name: "Revoke key" }).click()
  await dialog.getByRole("cell", { name: "Revoked" }).waitFor()
  await dialog.getByRole("button", { name: "Revoke Script" }).click()
  const asked = page.getByRole("dialog", { name: "Revoke the token Script?" })
  await asked.getByRole("button", { name: "Revoke token" }).click()
  // As long as it is there, nothing of the dialog behind it is found.
  await asked.waitFor({ state: "detached" })
  await dialog.waitFor()
  await dialog.getByText("Script", { exact: true }).waitFor({ state: "hidden" })
  const headers = { Authorization: `Bearer ${token}` }
  const refused = await fetch(`${world.gateway.url}/v1/keys`, { headers })
  expect(refused.headers.get("x-error-code")).toBe("auth.management_token_invalid")
})
