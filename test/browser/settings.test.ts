/** The account's own settings, as its owner changes them. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../gateway/harness.ts"
import { type BrowserWorld, eventually, everyLook, openBrowser, type Visit } from "./harness.ts"

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
  readonly buyer_name: string | null
  readonly buyer_address: string | null
  readonly buyer_npwp: string | null
  readonly low_balance_email: string | null
  readonly low_balance_threshold_micro: number | null
  readonly budget_mails: boolean
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

/** A webhook with one delivery of each kind. */
async function someDeliveries({ accountId }: Person): Promise<void> {
  const { sql } = world.gateway
  await sql`
    insert into webhooks (account_id, url, secret, failing_since)
    values (${accountId}, 'https://hooks.example.com/loket', 'whsec_AAAA', now() - interval '2 hours')`
  await sql`
    insert into outbox (account_id, channel, kind, data, expires_at, due_at, attempts, tried_at, outcome, status, problem, created_at)
    select ${accountId}, 'webhook', kind, '{}', now() + interval '1 day', due, attempts, now() - ago, outcome, status, problem, now() - ago
    from (values
      ('budget.reached', now() + interval '2 hours', 4, interval '10 minutes', null, 503, null),
      ('balance.low', null, 10, interval '30 hours', 'failed', null, 'timeout'),
      ('webhook.test', null, 1, interval '3 days', 'sent', 204, null)
    ) as told (kind, due, attempts, ago, outcome, status, problem)`
}

const isSignedIn = async (person: Person) => (await world.gateway.dashboard(person, "/account")).status === 200
const FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:146.0) Gecko/20100101 Firefox/146.0"
const IPHONE =
  "Mozilla/5.0 (iPhone; CPU iPhone OS 19_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/19.1 Mobile/15E148 Safari/604.1"

test.each(everyLook)("the settings are accessible and fit, with every dialog of theirs: %o", async (look) => {
  const person = await world.gateway.person(25_000)
  await signInElsewhere(person, FIREFOX)
  await someDeliveries(person)
  await using visit = await world.visit({ ...look, person })
  const isEnglish = look.language === "en"
  await visit.open("/settings")
  await visit.screenshot("settings")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  const last = visit.page.getByRole("table", { name: isEnglish ? "Last deliveries" : "Kiriman terakhir" })
  await last.getByText("HTTP 503").waitFor()
  await visit.page
    .getByRole("region", { name: isEnglish ? "Alerts by e-mail" : "Peringatan lewat e-mail" })
    .scrollIntoViewIfNeeded()
  await visit.screenshot("settings-alerts")
  await visit.page
    .getByRole("region", { name: isEnglish ? "Buyer's details" : "Data pembeli" })
    .scrollIntoViewIfNeeded()
  await visit.screenshot("settings-buyer")
  await last.scrollIntoViewIfNeeded()
  await visit.screenshot("settings-webhook")
  const zone = visit.page.getByRole("combobox", { name: isEnglish ? "Time zone" : "Zona waktu" })
  await zone.click()
  await visit.page.getByRole("option").first().waitFor()
  await visit.screenshot("settings-zone")
  await visit.expectNoSidewaysScroll()
  await eventually(async () => expect(await zone.getAttribute("aria-expanded")).toBe("true"))
  await visit.page.keyboard.press("Escape")
  await visit.page.getByRole("button", { name: isEnglish ? "Delete account" : "Hapus akun" }).click()
  await visit.page.getByRole("dialog").getByText("Rp\u00A025").waitFor()
  await visit.screenshot("settings-delete")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
})

test("the buyer's details are kept, and a wrong tax number is told", async () => {
  const person = await world.gateway.person()
  await using visit = await world.visit({ person })
  await visit.open("/settings")
  const card = visit.page.getByRole("region", { name: "Buyer's details" })
  const npwp = card.getByLabel("Tax number (NPWP)")
  await card.getByLabel("Name or company").fill("PT Maju")
  await card.getByLabel("Address").fill(" Jalan Satu\n\nJakarta ")
  await npwp.fill("123")
  await card.getByRole("button", { name: "Save" }).click()
  await card.getByText("Enter 15 or 16 digits, such as").waitFor()
  expect(await accountOf(person)).toMatchObject({ buyer_name: null, buyer_npwp: null })
  await npwp.fill("01.234.567.8-901.000")
  await card.getByRole("button", { name: "Save" }).click()
  await visit.page.getByText("Buyer's details saved").waitFor()
  expect(await accountOf(person)).toMatchObject({
    buyer_name: "PT Maju",
    buyer_address: "Jalan Satu\nJakarta",
    buyer_npwp: "012345678901000",
  })
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
  const card = visit.page.getByRole("region", { name: "Alerts by e-mail" })
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

test("turned off, alerts by e-mail leave the balance limit to the webhook, and say so", async () => {
  const person = await world.gateway.person(1_000_000)
  await someDeliveries(person)
  const settings = { low_balance_email: "one@example.com", low_balance_threshold_micro: 10_000_000_000 }
  await world.gateway.dashboard(person, "/account", { method: "PATCH", body: JSON.stringify(settings) })
  await using visit = await world.visit({ person })
  await visit.open("/settings")
  const card = visit.page.getByRole("region", { name: "Alerts by e-mail" })
  await card.getByText("the balance limit stays for the webhook").waitFor()
  await card.getByRole("button", { name: "Turn off" }).click()
  await card.getByText("Off", { exact: true }).waitFor()
  expect(await accountOf(person)).toMatchObject({
    low_balance_email: null,
    low_balance_threshold_micro: 10_000_000_000,
    budget_mails: false,
  })
  expect(await card.getByLabel("Balance limit").inputValue()).toBe("10,000")
})

test("alerts of budgets are turned on and off, without a balance limit too", async () => {
  const person = await world.gateway.person(1_000_000)
  await using visit = await world.visit({ person })
  await visit.open("/settings")
  const card = visit.page.getByRole("region", { name: "Alerts by e-mail" })
  await card.getByLabel("Balance limit").fill("")
  await card.getByRole("button", { name: "Save" }).click()
  await card.getByText("On", { exact: true }).waitFor()
  expect(await accountOf(person)).toMatchObject({ low_balance_threshold_micro: null, budget_mails: true })
  await visit.open("/settings")
  expect(await card.getByLabel("Balance limit").inputValue()).toBe("")
  await card.getByRole("checkbox").uncheck()
  await card.getByRole("button", { name: "Save" }).click()
  await card.getByText("Off", { exact: true }).waitFor()
  expect(await accountOf(person)).toMatchObject({ budget_mails: false })
})

test("what another member sets while a form is open stays, and is shown", async () => {
  const person = await world.gateway.person(1_000_000)
  const set = (change: object) =>
    world.gateway.dashboard(person, "/account", { method: "PATCH", body: JSON.stringify(change) })
  await set({ low_balance_email: "one@example.com", low_balance_threshold_micro: 10_000_000_000, budget_mails: true })
  await using visit = await world.visit({ person })
  await visit.open("/settings")
  const alerts = visit.page.getByRole("region", { name: "Alerts by e-mail" })
  const buyer = visit.page.getByRole("region", { name: "Buyer's details" })
  await alerts.getByLabel("Send to").fill("two@example.com")
  await buyer.getByLabel("Name or company").fill("PT Maju")
  await set({ low_balance_threshold_micro: 50_000_000_000, budget_mails: false, buyer_npwp: "012345678901000" })
  await alerts.getByRole("button", { name: "Save" }).click()
  await buyer.getByRole("button", { name: "Save" }).click()
  await visit.page.getByText("Buyer's details saved").waitFor()
  expect(await accountOf(person)).toMatchObject({
    low_balance_email: "two@example.com",
    low_balance_threshold_micro: 50_000_000_000,
    budget_mails: false,
    buyer_name: "PT Maju",
    buyer_npwp: "012345678901000",
  })
  expect(await alerts.getByLabel("Balance limit").inputValue()).toBe("50,000")
  expect(await alerts.getByRole("checkbox").isChecked()).toBe(false)
  expect(await buyer.getByLabel("Tax number (NPWP)").inputValue()).toBe("012345678901000")
})

test("what is typed while a form is being saved stays", async () => {
  const person = await world.gateway.person()
  await using visit = await world.visit({ person })
  await visit.open("/settings")
  const card = visit.page.getByRole("region", { name: "Buyer's details" })
  const answered = Promise.withResolvers<void>()
  await visit.page.route("**/account", async (route) => {
    if (route.request().method() === "PATCH") await answered.promise
    await route.continue()
  })
  await card.getByLabel("Name or company").fill("PT Maju")
  await card.getByRole("button", { name: "Save" }).click()
  await card.getByLabel("Address").fill("Jalan Satu")
  answered.resolve()
  await visit.page.getByText("Buyer's details saved").waitFor()
  expect(await card.getByLabel("Address").inputValue()).toBe("Jalan Satu")
  expect(await card.getByLabel("Name or company").inputValue()).toBe("PT Maju")
  expect(await accountOf(person)).toMatchObject({ buyer_name: "PT Maju", buyer_address: null })
})

test("a webhook is made with a secret that is shown once, tested, rotated and deleted", async () => {
  const person = await world.gateway.person(1_000_000)
  await using visit = await world.visit({ person })
  await visit.open("/settings")
  const card = visit.page.getByRole("region", { name: "Webhook" })
  await card.getByLabel("Receiver's address").fill("http://example.com/")
  await card.getByRole("button", { name: "Save" }).click()
  await card.getByText("Enter an address that begins with https://").waitFor()
  // The name of no host (RFC 6761).
  await card.getByLabel("Receiver's address").fill("https://hooks.invalid/loket")
  await card.getByRole("button", { name: "Save" }).click()
  const secret = visit.page.getByRole("dialog", { name: "Keep this webhook secret" })
  await secret.getByText(/^whsec_/).waitFor()
  await visit.screenshot("settings-webhook-secret")
  await secret.getByRole("button", { name: "I have kept it" }).click()
  await card.getByText("On", { exact: true }).waitFor()
  await visit.page.getByText("Nothing has been sent yet.").waitFor()
  await card.getByRole("button", { name: "Send a test" }).click()
  const row = visit.page.getByRole("table", { name: "Last deliveries" }).getByRole("row", { name: /^Test/ })
  await row.getByText("Host name not found").waitFor()
  await row.getByText("Failed").waitFor()
  await card.getByRole("button", { name: "Change secret" }).click()
  await visit.page.getByRole("dialog").getByRole("button", { name: "Change secret" }).click()
  await secret.getByText(/^whsec_/).waitFor()
  await secret.getByRole("button", { name: "I have kept it" }).click()
  await card.getByText("The old secret signs as well until").waitFor()
  await visit.expectAccessible()
  await card.getByRole("button", { name: "Delete webhook" }).click()
  await visit.page.getByRole("dialog").getByRole("button", { name: "Delete webhook" }).click()
  await card.getByText("Off", { exact: true }).waitFor()
})

test("a webhook that was turned off is on again on the page as well, once its address is saved", async () => {
  const person = await world.gateway.person()
  await world.gateway.sql`
    insert into webhooks (account_id, url, secret, failing_since, disabled_at)
    values (${person.accountId}, 'https://hooks.invalid/loket', 'whsec_AAAA', now() - interval '4 days', now() - interval '1 day')`
  await using visit = await world.visit({ person })
  await visit.open("/settings")
  const card = visit.page.getByRole("region", { name: "Webhook" })
  await card.getByText("Turned off", { exact: true }).waitFor()
  expect(await card.getByRole("button", { name: "Send a test" }).isDisabled()).toBe(true)
  await card.getByRole("button", { name: "Save" }).click()
  await card.getByText("On", { exact: true }).waitFor()
  await eventually(async () => expect(await card.getByText("Turned off").count()).toBe(0))
  await card.getByRole("button", { name: "Send a test" }).click()
  await visit.page.getByRole("table", { name: "Last deliveries" }).getByRole("row", { name: /^Test/ }).waitFor()
})

test("why a webhook's test was not sent is told until the next press, whose answer stands alone", async () => {
  const person = await world.gateway.person()
  await world.gateway.sql`
    insert into webhooks (account_id, url, secret) values (${person.accountId}, 'https://hooks.invalid/loket', 'whsec_AAAA')`
  await using visit = await world.visit({ person })
  const { page } = visit
  await visit.open("/settings")
  const card = page.getByRole("region", { name: "Webhook" })
  await page.route(/\/webhook\/test$/, (route) => route.fulfill({ status: 429, headers: { "retry-after": "7" } }))
  await card.getByRole("button", { name: "Send a test" }).click()
  await card.getByRole("alert").waitFor()
  await card.getByRole("button", { name: "Save" }).click()
  await page.getByText("Webhook saved").waitFor()
  await card.getByRole("alert").waitFor({ state: "detached" })
})

test("a webhook's new secret stays when its owner comes back from another window", async () => {
  const person = await world.gateway.person()
  await using visit = await world.visit({ person })
  await visit.open("/settings")
  const card = visit.page.getByRole("region", { name: "Webhook" })
  await card.getByLabel("Receiver's address").fill("https://hooks.invalid/loket")
  await card.getByRole("button", { name: "Save" }).click()
  const secret = visit.page.getByRole("dialog", { name: "Keep this webhook secret" })
  await secret.getByText(/^whsec_/).waitFor()
  // So late that what is on the page is asked for again.
  await visit.page.evaluate(() => {
    const now = Date.now
    Date.now = () => now() + 60_000
    document.dispatchEvent(new Event("visibilitychange", { bubbles: true }))
  })
  await visit.page.getByText("Nothing has been sent yet.").waitFor({ state: "attached" })
  expect(await secret.getByText(/^whsec_/).count()).toBe(1)
})

test.each([
  ["en", "'url' must be an address at port 443 or 8443.", "There is no webhook that is on"],
  ["id", "Alamat ini tidak dapat dipakai", "Percobaan terakhir baru saja dikirim"],
] as const)(
  "why a webhook's address or a test is refused is told in the page's language: %s",
  async (language, at, test) => {
    const person = await world.gateway.person()
    await world.gateway.sql`
    insert into webhooks (account_id, url, secret) values (${person.accountId}, 'https://hooks.invalid/loket', 'whsec_AAAA')`
    await using visit = await world.visit({ person, language })
    await visit.open("/settings")
    const card = visit.page.getByRole("region", { name: "Webhook" })
    const address = card.getByRole("textbox")
    await address.fill("https://hooks.invalid:9000/loket")
    await card.getByRole("button", { name: language === "en" ? "Save" : "Simpan" }).click()
    await card.getByRole("alert").getByText(at).waitFor()
    const send = card.getByRole("button", { name: language === "en" ? "Send a test" : "Kirim percobaan" })
    await send.click()
    await visit.page.getByText(language === "en" ? "Test sent" : "Percobaan dikirim").waitFor()
    // One press after the other, and not the same one.
    await Bun.sleep(200)
    await send.click()
    await card.getByRole("alert").getByText(test).waitFor()
  },
)

test("a typed address stays when it cannot be saved, and when somebody else makes the webhook meanwhile", async () => {
  const person = await world.gateway.person()
  await using visit = await world.visit({ person })
  const { page } = visit
  await visit.open("/settings")
  const card = page.getByRole("region", { name: "Webhook" })
  const address = card.getByLabel("Receiver's address")
  await address.fill("https://hooks.invalid/mine")
  await page.route("**/account/webhook", (route) =>
    route.request().method() === "PUT" ? route.fulfill({ status: 400 }) : route.continue(),
  )
  await card.getByRole("button", { name: "Save" }).click()
  await card.getByRole("alert").waitFor()
  expect(await address.inputValue()).toBe("https://hooks.invalid/mine")
  await someDeliveries(person)
  await page.evaluate(() => {
    const now = Date.now
    Date.now = () => now() + 60_000
    document.dispatchEvent(new Event("visibilitychange", { bubbles: true }))
  })
  await card.getByText("Failing", { exact: true }).waitFor()
  expect(await address.inputValue()).toBe("https://hooks.invalid/mine")
  await page.unroute("**/account/webhook")
  await card.getByRole("button", { name: "Save" }).click()
  await page.getByText("Webhook saved").waitFor()
  // Deleted, it leaves an empty field that nobody has filled in wrongly.
  await card.getByRole("button", { name: "Delete webhook" }).click()
  await page.getByRole("dialog").getByRole("button", { name: "Delete webhook" }).click()
  await card.getByText("Off", { exact: true }).waitFor()
  expect([await address.inputValue(), await address.getAttribute("aria-invalid")]).toEqual(["", null])
})

test("amounts in the settings stay what they are when the language changes, and are saved as such", async () => {
  const person = await world.gateway.person(1_000_000)
  await using visit = await world.visit({ person, language: "id" })
  await visit.open("/settings")
  const ceiling = visit.page.getByRole("textbox", { name: /^(?:Paling banyak dalam|At most within) 10/ })
  await visit.page.getByLabel("Batas saldo").fill("750.000")
  await ceiling.fill("500.000")
  await visit.page.getByRole("main").getByText("English", { exact: true }).click()
  const alerts = visit.page.getByRole("region", { name: "Alerts by e-mail" })
  expect(await alerts.getByLabel("Balance limit").inputValue()).toBe("750,000")
  expect(await ceiling.inputValue()).toBe("500,000")
  await alerts.getByRole("button", { name: "Save" }).click()
  await alerts.getByText("On", { exact: true }).waitFor()
  expect(await accountOf(person)).toMatchObject({ low_balance_threshold_micro: 750_000_000_000 })
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
  await eventually(async () => expect(await rows.count()).toBe(2))
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
  await dialog.getByText("The Rp\u00A025,000 that is left of the balance is lost").waitFor()
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
  await dialog.getByLabel("Password").and(visit.page.locator(":focus")).waitFor()
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

test.each([320, 1_920])("one's data is downloaded with the password, on a screen of %i px", async (width) => {
  const person = await world.gateway.person(100_000)
  const { key } = await world.gateway.key(person, { name: "Produksi" })
  await using visit = await world.visit({ person, language: "id" })
  const { page } = visit
  await page.setViewportSize({ width, height: 900 })
  await visit.open("/settings")
  await page.getByLabel("Kata sandi untuk mengunduh").fill("bukan kata sandinya")
  await page.getByRole("button", { name: "Unduh data saya" }).click()
  await page.getByText("Kata sandi ini salah.").waitFor()
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  await page.getByLabel("Kata sandi untuk mengunduh").fill("correct horse battery")
  const download = page.waitForEvent("download")
  await page.getByRole("button", { name: "Unduh data saya" }).click()
  const text = await Bun.file(await (await download).path()).text()
  expect(JSON.parse(text)).toMatchObject({ account: [{ id: person.accountId }], keys: [{ name: "Produksi" }] })
  expect(text).not.toContain(key)
  await page.getByText("Data diunduh").waitFor()
})
