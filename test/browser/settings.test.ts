/** The account's own settings, as its owner changes them. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../gateway/harness.ts"
import { type BrowserWorld, everyLook, openBrowser, type Visit } from "./harness.ts"

/** Of the gateway's test people. */
const PASSWORD = "correct horse battery"

let world: BrowserWorld
beforeAll(async () => {
  world = await openBrowser({ env: { SUPPORT_CONTACT: "https://example.com/help" } })
})
afterAll(() => world[Symbol.asyncDispose]())

interface AccountJson {
  readonly email: string
  readonly time_zone: string
  readonly low_balance_email: string | null
  readonly low_balance_threshold_micro: number | null
}

const accountOf = async (person: Person) =>
  (await (await world.gateway.dashboard(person, "/account")).json()) as AccountJson

/** Another sign-in of the same person, elsewhere. */
async function signInElsewhere(person: Person, userAgent: string): Promise<Person> {
  const { email } = await accountOf(person)
  const response = await fetch(`${world.gateway.url}/auth/sign-in`, {
    method: "POST",
    headers: { "User-Agent": userAgent },
    body: JSON.stringify({ email, password: PASSWORD }),
  })
  const { session_token: token } = (await response.json()) as { session_token: string }
  return { accountId: person.accountId, token }
}

const isSignedIn = async (person: Person) => (await world.gateway.dashboard(person, "/account")).status === 200
const FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:146.0) Gecko/20100101 Firefox/146.0"
const IPHONE =
  "Mozilla/5.0 (iPhone; CPU iPhone OS 19_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/19.1 Mobile/15E148 Safari/604.1"

test.each(everyLook)("the settings are accessible and fit, with every dialog of theirs: %o", async (look) => {
  const person = await world.gateway.person(25_000)
  await signInElsewhere(person, FIREFOX)
  await using visit = await world.visit({ ...look, person })
  const isEnglish = look.language === "en"
  await visit.open("/settings")
  await visit.screenshot("settings")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  const zone = visit.page.getByRole("combobox", { name: isEnglish ? "Time zone" : "Zona waktu" })
  await zone.click()
  await visit.page.getByRole("option").first().waitFor()
  await visit.screenshot("settings-zone")
  await visit.expectNoSidewaysScroll()
  expect(await zone.getAttribute("aria-expanded")).toBe("true")
  await visit.page.keyboard.press("Escape")
  await visit.page.getByRole("button", { name: isEnglish ? "Delete account" : "Hapus akun" }).click()
  await visit.page.getByRole("dialog").getByText("Rp\u00A025").waitFor()
  await visit.screenshot("settings-delete")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
})

test("a time zone is found by typing, and kept", async () => {
  const person = await world.gateway.person()
  await using visit = await world.visit({ person, language: "id" })
  await visit.open("/settings")
  const field = visit.page.getByRole("combobox", { name: "Zona waktu" })
  expect(await field.inputValue()).toBe("Asia/Jakarta")
  await field.fill("indonesia tengah")
  await visit.page.getByRole("option", { name: /^Asia\/Makassar/ }).click()
  await visit.page.getByText("Tersimpan").waitFor()
  expect(await accountOf(person)).toMatchObject({ time_zone: "Asia/Makassar" })
  await visit.open("/settings")
  expect(await field.inputValue()).toBe("Asia/Makassar")
})

test("a low-balance alert is set, changed in words that are read exactly, and turned off", async () => {
  const person = await world.gateway.person(1_000_000)
  const { email } = await accountOf(person)
  await using visit = await world.visit({ person })
  await visit.open("/settings")
  const card = visit.page.getByRole("region", { name: "Low-balance alert" })
  await card.getByText("Off", { exact: true }).waitFor()
  // The gateway of the tests has no mail server, and does not pretend to.
  await card.getByText("not set up to send e-mail").waitFor()
  expect(await card.getByLabel("Send to").inputValue()).toBe(email)
  await card.getByLabel("Balance limit").fill("12.500")
  await card.getByRole("button", { name: "Save" }).click()
  // In English that is twelve and a half.
  await card.getByText("On", { exact: true }).waitFor()
  expect(await accountOf(person)).toMatchObject({
    low_balance_email: email,
    low_balance_threshold_micro: 12_500_000,
  })
  await card.getByLabel("Send to").fill("finance@example")
  await card.getByLabel("Balance limit").fill("a lot")
  await card.getByRole("button", { name: "Save" }).click()
  await card.getByText("Enter an e-mail address").waitFor()
  await card.getByText("Enter an amount of rupiah").waitFor()
  await card.getByLabel("Send to").fill("finance@example.com")
  await card.getByLabel("Balance limit").fill("2,000,000")
  await card.getByRole("button", { name: "Save" }).click()
  // The balance is below it already, which every page says.
  await visit.page.getByRole("main").getByRole("status").getByText("2,000,000").waitFor()
  expect(await accountOf(person)).toMatchObject({ low_balance_email: "finance@example.com" })
  await card.getByRole("button", { name: "Turn off" }).click()
  await card.getByText("Off", { exact: true }).waitFor()
  expect(await accountOf(person)).toMatchObject({ low_balance_email: null, low_balance_threshold_micro: null })
})

test("a new password ends all other sessions and leaves this one signed in", async () => {
  const person = await world.gateway.person()
  const elsewhere = await signInElsewhere(person, FIREFOX)
  await using visit = await world.visit({ person })
  await visit.open("/settings")
  const card = visit.page.getByRole("region", { name: "Password" })
  const change = async (current: string, replacement: string) => {
    await card.getByLabel("Current password").fill(current)
    await card.getByLabel("New password").fill(replacement)
    await card.getByRole("button", { name: "Change password" }).click()
  }
  await change(PASSWORD, "too short")
  await card.getByText("The password must have 10 to 256 characters.").waitFor()
  await change("not the password", "another horse battery")
  await card.getByText("This password is wrong.").waitFor()
  expect(await isSignedIn(elsewhere)).toBe(true)
  await change(PASSWORD, "another horse battery")
  await visit.page.getByText("Password changed; other sessions have ended").waitFor()
  expect([await isSignedIn(elsewhere), await isSignedIn(person)]).toEqual([false, false])
  await visit.page.reload()
  await visit.settled()
  const rows = visit.page.getByRole("table", { name: "Sessions" }).getByRole("row")
  expect(await rows.count()).toBe(2)
  await rows.nth(1).getByText("This device").waitFor()
})

test("sessions are told by device, and ended one by one or all others at once", async () => {
  const person = await world.gateway.person()
  const phone = await signInElsewhere(person, IPHONE)
  const laptop = await signInElsewhere(person, FIREFOX)
  const tool = await signInElsewhere(person, "curl/8.17.0")
  await using visit = await world.visit({ person })
  await visit.open("/settings")
  const table = visit.page.getByRole("table", { name: "Sessions" })
  await table.getByRole("rowheader", { name: "Firefox on Linux" }).waitFor()
  await visit.page.getByRole("button", { name: "End session of Safari on iPhone" }).click()
  await table.getByRole("rowheader", { name: "Safari on iPhone" }).waitFor({ state: "detached" })
  expect(await Promise.all([phone, laptop, tool, person].map(isSignedIn))).toEqual([false, true, true, true])
  await visit.page.getByRole("button", { name: "End all others" }).click()
  await table.getByRole("rowheader", { name: "curl" }).waitFor({ state: "detached" })
  expect(await Promise.all([phone, laptop, tool, person].map(isSignedIn))).toEqual([false, false, false, true])
})

async function openDeletion(visit: Visit) {
  await visit.page.getByRole("button", { name: "Delete account" }).click()
  return visit.page.getByRole("dialog", { name: "Delete this account?" })
}

test("an account is deleted only by its address and its password, and takes its keys with it", async () => {
  const person = await world.gateway.person(25_000)
  const { email } = await accountOf(person)
  const { key } = await world.gateway.key(person)
  await using visit = await world.visit({ person })
  await visit.open("/settings")
  const dialog = await openDeletion(visit)
  await dialog.getByText("1 active API key stops working at once.").waitFor()
  await dialog.getByText("The Rp\u00A025,000 that is left of the balance can no longer be used.").waitFor()
  const confirmation = dialog.getByLabel(/^Type .* to confirm$/)
  const submit = dialog.getByRole("button", { name: "Delete for good" })
  await confirmation.fill("somebody@example.com")
  await dialog.getByLabel("Password").fill(PASSWORD)
  await submit.click()
  await dialog.getByText("This is not the account's e-mail address.").waitFor()
  await confirmation.fill(email)
  await dialog.getByLabel("Password").fill("not the password")
  await submit.click()
  await dialog.getByText("This password is wrong.").waitFor()
  expect(await isSignedIn(person)).toBe(true)
  await dialog.getByLabel("Password").fill(PASSWORD)
  await submit.click()
  await visit.page.getByRole("heading", { name: "Sign in" }).waitFor()
  expect(await isSignedIn(person)).toBe(false)
  const call = await fetch(`${world.gateway.url}/v1/models`, { headers: { "x-api-key": key } })
  expect([call.status, call.headers.get("x-error-code")]).toEqual([403, "auth.account_deleted"])
})

test("a deletion that was not meant is left without one", async () => {
  const person = await world.gateway.person()
  await using visit = await world.visit({ person })
  await visit.open("/settings")
  const dialog = await openDeletion(visit)
  await dialog.getByText("There is no balance left.").waitFor()
  await dialog.getByRole("button", { name: "Cancel" }).click()
  await dialog.waitFor({ state: "detached" })
  expect(await isSignedIn(person)).toBe(true)
})

test("a frozen account says so on every page, and whom to ask", async () => {
  const person = await world.gateway.person(10_000)
  await world.gateway.server.accounts.freeze(person.accountId, "a test")
  await using visit = await world.visit({ person })
  for (const path of ["/settings", "/wallet"]) {
    await visit.open(path)
    const banner = visit.page.getByRole("status").filter({ hasText: "This account is frozen" })
    await banner.getByText(person.accountId).waitFor()
    const link = banner.getByRole("link", { name: "Contact the operator" })
    expect(await link.getAttribute("href")).toBe("https://example.com/help")
    await visit.expectAccessible()
  }
})
