/** Members of an account: inviting, accepting, switching, and what a role does not show. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../gateway/harness.ts"
import { type BrowserWorld, eventually, everyLook, openBrowser } from "./harness.ts"

let world: BrowserWorld
beforeAll(async () => void (world = await openBrowser()))
afterAll(() => world[Symbol.asyncDispose]())

const send = async (person: Person, method: string, path: string, body: object = {}) => {
  const response = await world.gateway.dashboard(person, path, { method, body: JSON.stringify(body) })
  if (!response.ok) throw new Error(`${method} ${path}: ${await response.text()}`)
  const text = await response.text()
  return (text === "" ? {} : JSON.parse(text)) as Record<string, unknown>
}
/** Under an address that can be read in a picture. Whoever had it in an earlier attempt of the same test gives it up. */
async function named(email: string, balanceRp = 0): Promise<Person> {
  const person = await world.gateway.person(balanceRp)
  await world.gateway.sql`update accounts set email = id || '@example.com' where email = ${email}`
  await world.gateway.sql`update accounts set email = ${email} where id = ${person.accountId}`
  return person
}
const invite = async (owner: Person, email: string, role: string) =>
  String((await send(owner, "POST", "/account/invitations", { email, role }))["path"])
async function join(owner: Person, person: Person, email: string, role: string) {
  const [, token] = (await invite(owner, email, role)).split("#")
  await send(person, "POST", "/account/memberships", { token })
}

test.each(everyLook)("members and invitations are accessible and fit, also at 320 px: %o", async (look) => {
  const tag = crypto.randomUUID().slice(0, 8)
  const owner = await named(`toko-${tag}@example.com`)
  for (const [name, role] of [
    ["rina", "developer"],
    ["budi", "billing"],
  ] as const) {
    const email = `${name}-${tag}@example.com`
    await join(owner, await named(email), email, role)
  }
  await invite(owner, `dewi-${tag}@example.com`, "viewer")
  await using visit = await world.visit({ ...look, person: owner })
  const { page } = visit
  await visit.open("/settings")
  const table = page.getByRole("table", { name: look.language === "id" ? "Anggota" : "Members" })
  await table.getByText(`rina-${tag}@example.com`).waitFor()
  await table.scrollIntoViewIfNeeded()
  await visit.screenshot("settings-members")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  if (look.size === "phone") {
    await page.setViewportSize({ width: 320, height: 700 })
    await visit.expectNoSidewaysScroll()
  }
})

test("why an invitation was not sent again is told until the next press, whose answer stands alone", async () => {
  const owner = await named("pemilik@example.com")
  for (const name of ["satu", "dua"]) await invite(owner, `${name}@example.com`, "viewer")
  await using visit = await world.visit({ person: owner, language: "en" })
  const { page } = visit
  const json = { error: "No.", code: "rate_limit.mail", type: "mail", request_id: "req_1", retryable: true }
  await page.route("**/send-again", (route) => route.fulfill({ status: 429, json }))
  await visit.open("/settings")
  const again = page.getByRole("button", { name: "Send again to satu@example.com" })
  const refusal = page.getByRole("alert").filter({ hasText: "rate_limit.mail" })
  await again.click()
  await refusal.waitFor()
  await page.getByRole("button", { name: "Take back the invitation of dua@example.com" }).click()
  await page.getByText("dua@example.com", { exact: true }).waitFor({ state: "detached" })
  expect(await refusal.count()).toBe(0)
  await again.click()
  await refusal.waitFor()
})

test("an owner invites, hands the link over, and the invited person accepts and works on the account", async () => {
  const owner = await named("owner@example.com", 30_000)
  const person = await named("colleague@example.com")
  await using ownersVisit = await world.visit({ person: owner, language: "en" })
  await ownersVisit.open("/settings")
  await ownersVisit.page.getByRole("button", { name: "Invite", exact: true }).click()
  const dialog = ownersVisit.page.getByRole("dialog", { name: "Invite a member" })
  await dialog.getByLabel("E-mail address").fill("colleague@example.com")
  await dialog.getByLabel("Role").selectOption("viewer")
  await dialog.getByText("Looking only.").waitFor()
  await dialog.getByRole("button", { name: "Send invitation" }).click()
  const link = ownersVisit.page.getByRole("dialog", { name: "Hand over this link" })
  const url = await link.locator("code").innerText()
  expect(url).toMatch(/\/dashboard\/join#[\w-]{43}$/)
  await link.getByRole("button", { name: "Done" }).click()

  await using visit = await world.visit({ person, language: "en" })
  const { page } = visit
  await page.goto(url)
  await page.getByText("The owner of the account owner@example.com invites you as Viewer.").waitFor()
  await visit.expectAccessible()
  await page.getByRole("button", { name: "Accept the invitation" }).click()
  await page.getByText("You are looking at the account owner@example.com as Viewer.").waitFor()
  await eventually(async () => expect(await page.locator(".side-bar .balance").innerText()).toContain("30,000"))
  // What the role does not allow is not there.
  await page.getByRole("link", { name: "API keys" }).first().click()
  await page.getByRole("heading", { name: "API keys" }).waitFor()
  await page.getByText("You are looking at").waitFor()
  expect(await page.getByRole("button", { name: "Create key" }).count()).toBe(0)
  expect(await page.getByRole("link", { name: "Playground" }).count()).toBe(0)
  await page.goto(`${world.gateway.url}/dashboard/playground`)
  await page.getByText("Your role does not include this page").waitFor()
  await visit.open("/settings")
  expect(await page.getByRole("heading", { name: "Members" }).count()).toBe(0)

  // The owner takes the role away: the page is about the person's own account again, by itself.
  await send(owner, "DELETE", `/account/members/${person.accountId}`)
  await eventually(async () => expect(await page.getByText("You are looking at").count()).toBe(0))
  await eventually(async () => expect(await page.getByText("colleague@example.com").count()).toBeGreaterThan(0))
})

test("who is removed while a form is open is told so, on the page of the own account, until it is understood", async () => {
  const owner = await named("sixth@example.com")
  const person = await named("writing@example.com")
  await join(owner, person, "writing@example.com", "developer")
  await send(person, "POST", "/auth/look-at", { account_id: owner.accountId })
  await using visit = await world.visit({ person, language: "en" })
  const { page } = visit
  await visit.open("/keys")
  await page.getByRole("button", { name: "Create key" }).first().click()
  const dialog = page.getByRole("dialog")
  await dialog.getByLabel("Name").first().fill("half written")
  await send(owner, "DELETE", `/account/members/${person.accountId}`)
  const told = page.getByText(
    "You are no member of the account sixth@example.com any more. " +
      "This page is about the account writing@example.com now; what was not saved is gone.",
  )
  // The page may have heard of it already.
  await dialog.getByRole("button", { name: "Create key" }).or(told).first().click()
  await told.waitFor()
  await dialog.waitFor({ state: "detached" })
  await visit.expectAccessible()
  await page.reload()
  await told.waitFor()
  await page.getByRole("button", { name: "Understood" }).click()
  await told.waitFor({ state: "detached" })
  await page.reload()
  await visit.settled()
  expect(await told.count()).toBe(0)
})

test("who chooses an account in one tab is told so in the other, and not in the one where it was chosen", async () => {
  const owner = await named("seventh@example.com")
  const person = await named("tabs@example.com")
  await join(owner, person, "tabs@example.com", "viewer")
  await using visit = await world.visit({ person, language: "en" })
  const { page } = visit
  await visit.open("/usage")
  const other = await page.context().newPage()
  await other.goto(`${world.gateway.url}/dashboard/keys`)
  await other.getByRole("button", { name: "Account: tabs@example.com" }).click()
  await other.getByRole("button", { name: "seventh@example.com" }).filter({ visible: true }).click()
  await other.getByText("You are looking at the account seventh@example.com").waitFor()
  await other.getByRole("heading", { name: "Home", level: 1 }).waitFor()
  await page.getByText("30 days", { exact: true }).click()
  await page.getByText("Another account than tabs@example.com was chosen in another tab.").waitFor()
  await page.getByText("You are looking at the account seventh@example.com").waitFor()
  expect(await other.getByText("was chosen in another tab").count()).toBe(0)
  await other.close()
})

test("an invitation for another address says so, and a dead one too", async () => {
  const owner = await named("second@example.com")
  const other = await named("other@example.com")
  const path = await invite(owner, "somebody@example.com", "billing")
  await using visit = await world.visit({ person: other, language: "en" })
  await visit.page.goto(`${world.gateway.url}/dashboard/${path}`)
  await visit.page
    .getByText("This invitation is for somebody@example.com; you are signed in as other@example.com.")
    .waitFor()
  await visit.page.goto(`${world.gateway.url}/dashboard/join#nonsense`)
  await visit.page.reload()
  await visit.page.getByText("This invitation was used, taken back, or is over.").waitFor()
})

test("a visitor signs up by the link and is led back to it", async () => {
  const owner = await named("third@example.com")
  const email = `newcomer-${crypto.randomUUID().slice(0, 8)}@example.com`
  const path = await invite(owner, email, "developer")
  await using visit = await world.visit({ language: "en" })
  const { page } = visit
  await page.goto(`${world.gateway.url}/dashboard/${path}`)
  await page.getByRole("link", { name: "Create an account" }).click()
  await page.getByLabel("E-mail address").fill(email)
  await page.getByLabel("Password", { exact: true }).fill("correct horse battery")
  await page.getByRole("button", { name: "Sign up" }).click()
  await page.getByRole("button", { name: "Accept the invitation" }).click()
  await page.getByText("You are looking at the account third@example.com as Developer.").waitFor()
})

test.each(everyLook)("the switcher is accessible and fits: %o", async (look) => {
  const tag = crypto.randomUUID().slice(0, 8)
  const owner = await named(`kafe-${tag}@example.com`, 75_000)
  const email = `sari-${tag}@example.com`
  const person = await named(email)
  await join(owner, person, email, "billing")
  await using visit = await world.visit({ ...look, person })
  const { page } = visit
  await visit.open("/")
  const isIndonesian = look.language === "id"
  const openMenu = async () => {
    if (look.size === "phone") await page.getByRole("button", { name: isIndonesian ? "Lainnya" : "More" }).click()
    else await page.getByRole("button", { name: `${isIndonesian ? "Akun" : "Account"}: ${email}` }).click()
  }
  await openMenu()
  const choice = page
    .getByRole("group", { name: isIndonesian ? "Ganti akun" : "Switch account" })
    .filter({ visible: true })
  await choice.waitFor()
  await visit.screenshot("account-switch")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  await choice.getByRole("button", { name: `kafe-${tag}@example.com` }).click()
  const notice = isIndonesian ? `Anda melihat akun kafe-${tag}` : `You are looking at the account kafe-${tag}`
  await page.getByText(notice).waitFor()
  await visit.settled()
  await visit.screenshot("account-looked-at")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  await page
    .getByRole("button", { name: isIndonesian ? "Kembali ke akun sendiri" : "Back to your own account" })
    .click()
  await eventually(async () => expect(await page.getByText(notice).count()).toBe(0))
})

test("with the keys alone: a role is chosen, and a member removed, and the focus is where it was", async () => {
  const owner = await named("fourth@example.com")
  for (const email of ["keys-one@example.com", "keys-two@example.com"])
    await join(owner, await named(email), email, "viewer")
  await using visit = await world.visit({ person: owner, language: "en" })
  const { page } = visit
  await visit.open("/settings")
  const role = page.getByRole("combobox", { name: "Role of keys-one@example.com" })
  await role.focus()
  for (const chosen of ["developer", "billing"]) {
    await page.keyboard.press("ArrowUp")
    await eventually(async () => {
      const { members } = (await (await world.gateway.dashboard(owner, "/account/members")).json()) as {
        members: object[]
      }
      expect(members).toContainEqual(expect.objectContaining({ email: "keys-one@example.com", role: chosen }))
      expect(await role.getAttribute("aria-busy")).toBeNull()
    })
  }
  expect(await role.evaluate((field) => field === document.activeElement)).toBe(true)
  const table = page.getByRole("table", { name: "Members" })
  await page.getByRole("button", { name: "Remove keys-two@example.com" }).press("Enter")
  await page.getByRole("dialog").getByRole("button", { name: "Remove", exact: true }).press("Enter")
  await page.getByRole("dialog").waitFor({ state: "detached" })
  await table.and(page.locator(":focus")).waitFor()
  // The last one, with whom the table goes.
  await page.getByRole("button", { name: "Remove keys-one@example.com" }).press("Enter")
  await page.getByRole("dialog").getByRole("button", { name: "Remove", exact: true }).press("Enter")
  await page.getByRole("dialog").waitFor({ state: "detached" })
  await page.getByRole("region", { name: "Members" }).and(page.locator(":focus")).waitFor()
})

test("a role that was chosen stands there before another key can be pressed, while its request is under way", async () => {
  const owner = await named("quick@example.com")
  await join(owner, await named("quick-one@example.com"), "quick-one@example.com", "viewer")
  await using visit = await world.visit({ person: owner, language: "en" })
  const { page } = visit
  await page.route("**/account/members/*", () => {})
  await visit.open("/settings")
  const role = page.getByRole("combobox", { name: "Role of quick-one@example.com" })
  const shown = await role.evaluate(async (field) => {
    if (!(field instanceof HTMLSelectElement)) throw new TypeError("It is no select.")
    field.value = "developer"
    field.dispatchEvent(new Event("change", { bubbles: true }))
    // No timer and no other event comes in between.
    for (let turn = 0; turn < 20; turn++) await Promise.resolve()
    return [field.value, field.getAttribute("aria-busy")]
  })
  expect(shown).toEqual(["developer", "true"])
})

test("who switches to an account that took the role away meanwhile is told, and is not offered it again", async () => {
  const owner = await named("fifth@example.com")
  const person = await named("late@example.com")
  await join(owner, person, "late@example.com", "viewer")
  await using visit = await world.visit({ person, language: "en" })
  const { page } = visit
  await visit.open("/")
  await page.getByRole("button", { name: "Account: late@example.com" }).click()
  const choice = page.getByRole("button", { name: "fifth@example.com" }).filter({ visible: true })
  await choice.waitFor()
  await send(owner, "DELETE", `/account/members/${person.accountId}`)
  await choice.click()
  await page.getByText("The account could not be switched to. You may be no member of it any more.").waitFor()
  await choice.waitFor({ state: "detached" })
})

test.each(["billing", "developer", "viewer"])("nothing that a %s sees of an account is refused", async (role) => {
  const owner = await world.gateway.person(50_000)
  await world.gateway.key(owner)
  const email = `${role}-of-all@example.com`
  const person = await named(email)
  await join(owner, person, email, role)
  await send(person, "POST", "/auth/look-at", { account_id: owner.accountId })
  await using visit = await world.visit({ person })
  const { page } = visit
  const refused: string[] = []
  page.on("response", (response) => {
    if (response.status() >= 400) refused.push(`${response.status()} ${new URL(response.url()).pathname}`)
  })
  const pages = [
    "",
    "/quick-start",
    "/keys",
    "/usage",
    "/wallet",
    "/wallet/statement",
    "/playground",
    "/models",
    "/settings",
  ]
  for (const path of pages) {
    await visit.open(path)
    expect([path, await page.getByRole("alert").count()]).toEqual([path, 0])
  }
  expect(refused).toEqual([])
})

test.each([
  ["id", "Kirim undangan", "Alamat e-mail", "Alamat ini sudah milik seorang anggota. Ubah saja perannya."],
  ["en", "Send invitation", "E-mail address", "A member has this address already. Change the member's role instead."],
] as const)("why nobody can be invited is said in the page's language: %s", async (language, send, label, why) => {
  const owner = await named(`eighth-${language}@example.com`)
  const email = `here-${language}@example.com`
  await join(owner, await named(email), email, "viewer")
  await using visit = await world.visit({ person: owner, language })
  const { page } = visit
  await visit.open("/settings")
  await page.getByRole("button", { name: /^(Invite|Undang)$/ }).click()
  const dialog = page.getByRole("dialog")
  await dialog.getByLabel(label).fill(email)
  await dialog.getByRole("button", { name: send }).click()
  expect(await dialog.getByRole("alert").innerText()).toBe(why)
  // Nor the account's own, nor what is no address although the browser takes it for one.
  for (const [typed, told] of [
    [`eighth-${language}@example.com`, /^(Ini alamat akun ini sendiri\.|This is the account's own address\.)$/],
    ["somebody@localhost", /^(Ini bukan alamat e-mail\.|This is no e-mail address\.)$/],
  ] as const) {
    await dialog.getByLabel(label).fill(typed)
    await dialog.getByRole("button", { name: send }).click()
    await dialog.getByRole("alert").filter({ hasText: told }).waitFor()
  }
})

test("an invitation that was taken back while its page was open is over", async () => {
  const owner = await named("inviter@example.com")
  const person = await named("latecomer@example.com")
  const path = await invite(owner, "latecomer@example.com", "viewer")
  await using visit = await world.visit({ person, language: "en" })
  const { page } = visit
  await page.goto(`${world.gateway.url}/dashboard/${path}`)
  await page.getByRole("button", { name: "Accept the invitation" }).waitFor()
  await world.gateway.sql`delete from invitations where account_id = ${owner.accountId}`
  await page.getByRole("button", { name: "Accept the invitation" }).click()
  await page.getByText("This invitation was used, taken back, or is over.").waitFor()
  expect(await page.getByRole("button", { name: "Accept the invitation" }).count()).toBe(0)
})

test("who is a member of as many accounts as may be is told that, and not that the invitation is over", async () => {
  const owner = await named("ninth@example.com")
  const person = await named("everywhere@example.com")
  const path = await invite(owner, "everywhere@example.com", "viewer")
  const { sql } = world.gateway
  for (let count = 0; count < 50; count++) {
    const id = `acc_${crypto.randomUUID()}`
    await sql`insert into accounts (id, email, password_hash) values (${id}, ${`${id}@example.com`}, '')`
    await sql`
      insert into members (account_id, member_id, role, invited_by, invitation_hash)
      values (${id}, ${person.accountId}, 'viewer', ${id}, ${crypto.getRandomValues(new Uint8Array(16))})`
  }
  await using visit = await world.visit({ person, language: "en" })
  const { page } = visit
  await page.goto(`${world.gateway.url}/dashboard/${path}`)
  await page.getByRole("button", { name: "Accept the invitation" }).click()
  await page.getByText("You are a member of as many accounts as one person may be.").waitFor()
  expect(await page.getByText("This invitation was used").count()).toBe(0)
})

test.each([
  ["viewer", 0],
  ["developer", 1],
] as const)("a %s is led to the playground only where its role opens it", async (role, links) => {
  const owner = await world.gateway.person(50_000)
  await world.gateway.key(owner, { name: "Bersama" })
  const email = `${role}-who-tries@example.com`
  const person = await named(email)
  await join(owner, person, email, role)
  await send(person, "POST", "/auth/look-at", { account_id: owner.accountId })
  await using visit = await world.visit({ person })
  const { page } = visit
  await visit.open("/keys")
  await (await visit.openKey("Bersama")).getByRole("button", { name: "Try it" }).click()
  await page.getByRole("dialog").getByRole("link", { name: "How to use it" }).waitFor()
  expect(await page.getByRole("dialog").getByRole("link", { name: "Playground" }).count()).toBe(links)
  await visit.open("/models")
  await page.getByRole("table").getByRole("rowheader").getByRole("button").first().click()
  await page.getByRole("dialog").waitFor()
  expect(
    await page
      .getByRole("dialog")
      .getByRole("link", { name: /playground/i })
      .count(),
  ).toBe(links)
})
