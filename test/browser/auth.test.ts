/** Signing up, in and out, as a person does it. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { TOTP } from "otpauth"
import { MailServer } from "../accounts/mail-server.ts"
import { type BrowserWorld, everyLook, openBrowser, type Visit } from "./harness.ts"

let world: BrowserWorld
let mail: MailServer
beforeAll(async () => {
  mail = new MailServer()
  const SMTP_URL = `smtp://127.0.0.1:${await mail.port}`
  const env = {
    SMTP_URL,
    MAIL_FROM: "no-reply@loket.example",
    PUBLIC_URL: "http://loket.example",
    OPERATOR_SECOND_FACTOR: "true",
  }
  world = await openBrowser({ env })
})
afterAll(async () => {
  await world[Symbol.asyncDispose]()
  await mail.stop()
})

/** The page and the token of the newest link that was mailed to an address, once it is there. */
async function linkTo(email: string, page: string): Promise<string> {
  for (;;) {
    const found = mail.received.findLast(({ to, text }) => to[0] === email && text.includes(`/dashboard/${page}#`))
    if (found !== undefined) return /\/dashboard(\/[a-z-]+#\S+)/.exec(found.text)?.[1] ?? ""
    await Bun.sleep(50)
  }
}

const PASSWORD = "correct horse battery"
const newEmail = () => `p${crypto.randomUUID()}@example.com`

async function signUp(visit: Visit, email: string, password = PASSWORD): Promise<void> {
  await visit.open("/sign-up")
  await visit.page.getByLabel("E-mail address").fill(email)
  await visit.page.getByLabel("Password").fill(password)
  await visit.page.getByRole("button", { name: "Sign up" }).click()
}

async function signIn(visit: Visit, email: string, password = PASSWORD): Promise<void> {
  await visit.page.getByLabel("E-mail address").fill(email)
  await visit.page.getByLabel("Password").fill(password)
  await visit.page.getByRole("button", { name: "Sign in" }).click()
}

const signOut = async (visit: Visit): Promise<void> => {
  await visit.page.getByRole("button", { name: /^Account: / }).click()
  await visit.page.getByRole("button", { name: "Sign out" }).click()
}

test.each(everyLook)("sign-in and sign-up are accessible and fit: %o", async (look) => {
  await using visit = await world.visit(look)
  for (const path of ["/sign-in", "/sign-up", "/forgotten-password", "/reset-password"]) {
    await visit.open(path)
    await visit.screenshot(path.slice(1))
    await visit.expectAccessible()
    await visit.expectNoSidewaysScroll()
  }
})

test("a new account is signed in at once, at home where its owner is, and can come back", async () => {
  await using visit = await world.visit({ language: "en", timeZone: "Asia/Jayapura" })
  const email = newEmail()
  const changed = visit.page.waitForResponse((response) => response.request().method() === "PATCH")
  await signUp(visit, email)
  expect(await (await changed).json()).toMatchObject({ language: "en", time_zone: "Asia/Jayapura" })
  await visit.page.getByRole("heading", { name: "Home" }).waitFor()
  await visit.page.getByText("First steps").waitFor()
  await visit.page.locator("main:focus").waitFor()
  await visit.page.reload()
  await visit.page.getByRole("heading", { name: "Home" }).waitFor()

  await signOut(visit)
  await visit.page.getByRole("heading", { name: "Sign in" }).waitFor()
  await visit.page.locator("input[type=email]:focus").waitFor()
  await signIn(visit, email)
  await visit.page.getByRole("heading", { name: "Home" }).waitFor()
  await visit.page.locator("main:focus").waitFor()
  await visit.page.getByRole("button", { name: `Account: ${email}` }).waitFor()
})

test("a short password is refused beside its field, before anything is sent", async () => {
  await using visit = await world.visit()
  const sent: string[] = []
  visit.page.on("request", (request) => sent.push(`${request.method()} ${new URL(request.url()).pathname}`))
  await signUp(visit, newEmail(), "too short")
  const field = visit.page.getByLabel("Password")
  await visit.page.getByText("The password must have 10 to 256 characters.").waitFor()
  expect(await field.getAttribute("aria-invalid")).toBe("true")
  expect(sent).not.toContain("POST /auth/sign-up")
})

test("over http from elsewhere it is told before anything is typed that nobody stays signed in", async () => {
  for (const [isSecure, path] of [
    [false, "/sign-in"],
    [false, "/sign-up"],
    [true, "/sign-in"],
  ] as const) {
    await using visit = await world.visit({ language: "en", size: "narrow" })
    // As a browser has it at the address of another machine.
    await visit.page.addInitScript((value) => Object.defineProperty(globalThis, "isSecureContext", { value }), isSecure)
    await visit.open(path)
    expect(await visit.page.getByText("This page was opened over http").count()).toBe(isSecure ? 0 : 1)
    await visit.expectNoSidewaysScroll()
  }
})

test("a taken address and a wrong password are told as what they are", async () => {
  await using visit = await world.visit()
  const email = newEmail()
  await signUp(visit, email)
  await visit.page.getByRole("heading", { name: "Home" }).waitFor()
  await signOut(visit)
  await visit.page.getByRole("heading", { name: "Sign in" }).waitFor()
  await signUp(visit, email)
  await visit.page.getByRole("alert").getByText("belongs to an account already").waitFor()

  await visit.open("/sign-in")
  await signIn(visit, email, "a wrong password")
  await visit.page.getByRole("alert").getByText("The e-mail address or the password is wrong.").waitFor()
  await visit.expectAccessible()
})

test("who guesses too often is told how long to wait", async () => {
  await using visit = await world.visit()
  await visit.open("/sign-in")
  // The server's answer at that point; how it comes to it is tested there (test/accounts/slow-down.test.ts).
  await visit.page.route("**/auth/sign-in", (route) =>
    route.fulfill({
      status: 401,
      headers: { "Retry-After": "90" },
      json: {
        error: "There were too many failed sign-ins; wait before the next.",
        code: "auth.unauthorized",
        type: "unauthorized",
        request_id: "req_1",
        retryable: false,
      },
    }),
  )
  await signIn(visit, newEmail())
  await visit.page.getByRole("alert").getByText("Try again in 90 seconds").waitFor()
})

test("a page that needs a sign-in is there after it; an address of elsewhere is not", async () => {
  const email = newEmail()
  await using visit = await world.visit()
  await signUp(visit, email)
  await visit.page.getByRole("heading", { name: "Home" }).waitFor()
  await signOut(visit)
  await visit.page.getByRole("heading", { name: "Sign in" }).waitFor()

  await visit.open("/quick-start")
  await signIn(visit, email)
  await visit.page.getByRole("heading", { name: "Quick start" }).waitFor()
  await signOut(visit)
  await visit.page.getByRole("heading", { name: "Sign in" }).waitFor()

  await visit.open("/sign-in?next=//evil.example/")
  await signIn(visit, email)
  await visit.page.getByRole("heading", { name: "Home" }).waitFor()
})

test("a session that ended elsewhere leads to the sign-in with the next question", async () => {
  const person = await world.gateway.person()
  await using visit = await world.visit({ person })
  await visit.open("/keys")
  await world.gateway.dashboard(person, "/auth/sign-out", { method: "POST" })
  // The page may ask by itself before, and then there is nothing to be clicked.
  visit.page
    .getByRole("link", { name: "Quick start" })
    .click()
    .catch(() => {})
  await visit.page.getByRole("heading", { name: "Sign in" }).waitFor()
})

test("a server that is away is told as such, and tried again", async () => {
  const person = await world.gateway.person()
  await using visit = await world.visit({ person })
  await visit.page.route("**/account", (route) => route.abort())
  await visit.page.goto(`${world.gateway.url}/dashboard`)
  await visit.page.getByText("The server cannot be reached.").waitFor()
  await visit.page.unroute("**/account")
  await visit.page.getByRole("button", { name: "Try again" }).click()
  await visit.page.getByRole("heading", { name: "Home" }).waitFor()
  // The browser's own words about the requests that were cut.
  visit.complaints.length = 0
})

test("a session that ends says so, and signing in leads back to where it was", async () => {
  await using visit = await world.visit()
  const email = newEmail()
  await signUp(visit, email)
  await visit.page.getByRole("heading", { name: "Home" }).waitFor()
  await world.gateway.sql`delete from sessions where account_id = (select id from accounts where email = ${email})`
  // The page may ask by itself before it is clicked, and then it is Home that was left.
  visit.page
    .getByRole("link", { name: "Wallet" })
    .click()
    .catch(() => {})
  await visit.page.getByText("Your session has ended.").waitFor()
  await visit.expectAccessible()
  const left = visit.page.url().includes("wallet") ? "Wallet" : "Home"
  // Also when the page is opened anew.
  await visit.page.reload()
  await visit.page.getByText("Your session has ended.").waitFor()
  await signIn(visit, email)
  await visit.page.getByRole("heading", { name: left, level: 1 }).waitFor()
})

test("whoever signs in in another tab after a session was lost sees nothing of the person before", async () => {
  const { gateway } = world
  const [first, second] = [await gateway.person(), await gateway.person()]
  await gateway.dashboard(first, "/keys", { method: "POST", body: JSON.stringify({ name: "Of the first" }) })
  await using visit = await world.visit({ person: first })
  // The second has agreed to the terms as well.
  await using _ = await world.visit({ person: second })
  const { page } = visit
  /** A look at another window that takes a minute. */
  const comeBack = () =>
    page.evaluate(() => {
      const now = Date.now
      Date.now = () => now() + 60_000
      document.dispatchEvent(new Event("visibilitychange", { bubbles: true }))
    })
  await visit.open("/keys")
  await visit.keyRow("Of the first").waitFor()
  await gateway.sql`delete from sessions where account_id = ${first.accountId}`
  await comeBack()
  await page.getByText("Your session has ended.").waitFor()
  // Whatever is seen from now on was here before.
  await page.route(`${gateway.url}/keys?*`, () => undefined)
  await page.context().addCookies([{ name: "session", value: second.token, url: gateway.url, httpOnly: true }])
  await comeBack()
  await page.getByRole("heading", { name: "API keys" }).waitFor()
  expect(await page.getByText("Of the first").count()).toBe(0)
})

test("whoever could not be signed out is told so, and can try again", async () => {
  await using visit = await world.visit()
  await signUp(visit, newEmail())
  await visit.page.getByRole("heading", { name: "Home" }).waitFor()
  await visit.page.route("**/auth/sign-out", (route) => route.fulfill({ status: 503, body: "" }))
  await signOut(visit)
  await visit.page.getByText("you may still be signed in").waitFor()
  await visit.page.unroute("**/auth/sign-out")
  await signOut(visit)
  await visit.page.getByRole("heading", { name: "Sign in" }).waitFor()
  // What the browser itself says of a 503.
  expect(visit.complaints.splice(0).filter((text) => !text.includes("503"))).toEqual([])
})

test("signing out in one tab takes the figures from the others, and is no session that was lost", async () => {
  await using visit = await world.visit()
  await signUp(visit, newEmail())
  await visit.page.getByRole("heading", { name: "Home" }).waitFor()
  const second = await visit.page.context().newPage()
  await second.goto(`${world.gateway.url}/dashboard/wallet`)
  await second.getByRole("heading", { name: "Wallet", level: 1 }).waitFor()
  await signOut(visit)
  await second.getByRole("heading", { name: "Sign in" }).waitFor()
  expect(await second.getByText("Your session has ended.").count()).toBe(0)
})

test("a new account proves its address by the link in the mail, after signing in where it was opened", async () => {
  const email = newEmail()
  await using visit = await world.visit()
  await signUp(visit, email)
  await visit.page.getByText(`Open the link that we sent to ${email}`).waitFor()
  await visit.screenshot("unproved")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  await visit.page.getByRole("button", { name: "Send again" }).click()
  await visit.page.getByText("A new link is on its way").waitFor()
  const link = await linkTo(email, "prove-email")
  await using elsewhere = await world.visit()
  const asked: string[] = []
  elsewhere.page.on("request", (request) => asked.push(request.url() + String(request.headers()["referer"])))
  await elsewhere.open(link)
  await signIn(elsewhere, email)
  await elsewhere.page.getByRole("button", { name: "Confirm" }).click()
  await elsewhere.page.getByRole("heading", { name: "E-mail address confirmed" }).waitFor()
  await elsewhere.expectAccessible()
  // The token travels in a body alone.
  expect(asked.filter((url) => url.includes(link.split("#")[1] ?? "-"))).toEqual([])
  await elsewhere.page.getByRole("link", { name: "Go to home" }).click()
  await elsewhere.page.getByRole("heading", { name: "Home" }).waitFor()
  expect(await elsewhere.page.getByText("Open the link").count()).toBe(0)
})

test("a link to an address that another account has by now is told as that, and not as a link that was used alone", async () => {
  const person = await world.gateway.person()
  const email = newEmail()
  const body = JSON.stringify({ email, password: PASSWORD })
  expect((await world.gateway.dashboard(person, "/auth/email", { method: "POST", body })).status).toBe(200)
  const link = await linkTo(email, "prove-email")
  const other = await world.gateway.person()
  await world.gateway.sql`update accounts set email = ${email}, email_unproved = false where id = ${other.accountId}`
  await using visit = await world.visit({ person })
  await visit.open(link)
  await visit.page.getByRole("button", { name: "Confirm" }).click()
  await visit.page.getByRole("alert").getByText("belongs to another account by now").waitFor()
})

test("who has forgotten the password sets a new one by the link, which works once", async () => {
  const email = newEmail()
  await using visit = await world.visit()
  await signUp(visit, email)
  await visit.page.getByRole("heading", { name: "Home" }).waitFor()
  await signOut(visit)
  await visit.page.getByRole("link", { name: "Forgot your password?" }).click()
  await visit.page.getByLabel("E-mail address").fill(email)
  await visit.page.getByRole("button", { name: "Send the link" }).click()
  await visit.page.getByRole("heading", { name: "Look into your mailbox" }).waitFor()
  await visit.screenshot("mailbox")
  // Sending again does not ask for the address again.
  await visit.page.getByRole("button", { name: "Send again" }).click()
  expect(await visit.page.getByLabel("E-mail address").inputValue()).toBe(email)
  const link = await linkTo(email, "reset-password")
  await visit.open(link)
  await visit.page.getByLabel("New password").fill("short")
  await visit.page.getByRole("button", { name: "Set password" }).click()
  await visit.page.getByText("The password must have 10 to 256 characters.").waitFor()
  await visit.page.getByLabel("New password").fill("another horse battery")
  await visit.page.getByRole("button", { name: "Set password" }).click()
  await visit.page.getByRole("heading", { name: "Password changed" }).waitFor()
  await visit.page.getByRole("link", { name: "Sign in" }).click()
  await signIn(visit, email, "another horse battery")
  await visit.page.getByRole("heading", { name: "Home" }).waitFor()
  await signOut(visit)
  await visit.page.getByRole("heading", { name: "Sign in" }).waitFor()
  await visit.page.goto("about:blank")
  await visit.open(link)
  await visit.page.getByLabel("New password").fill("a third horse battery")
  await visit.page.getByRole("button", { name: "Set password" }).click()
  await visit.page.getByRole("alert").getByText("This link was used").waitFor()
})

const codes = (secret: string) => {
  let step = 0
  // The next step's, so that it is a new one each time; one early is taken.
  return () => new TOTP({ secret }).generate({ timestamp: Date.now() + step++ * 30_000 })
}

test.each([
  { size: "desktop", language: "id", theme: "light" },
  { size: "phone", language: "id", theme: "dark" },
] as const)("two-step verification is set up, asked for, and turned off: %o", async (look) => {
  const person = await world.gateway.person()
  await world.gateway.sql`update accounts set email_unproved = false where id = ${person.accountId}`
  const [{ email } = { email: "" }] = await world.gateway.sql<{ email: string }[]>`
    select email from accounts where id = ${person.accountId}`
  await using visit = await world.visit({ ...look, person })
  const { page } = visit
  await visit.open("/settings")
  await page.getByRole("button", { name: "Aktifkan verifikasi dua langkah" }).click()
  await page.getByRole("dialog").getByLabel("Kata sandi akun").fill(PASSWORD)
  await page.getByRole("button", { name: "Lanjut" }).click()
  const code = codes((await page.locator(".factor-secret").textContent()) ?? "")
  await visit.screenshot("second-factor")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  await page.getByLabel("Enam angka dari aplikasi").fill("000000")
  await page.getByRole("button", { name: "Aktifkan", exact: true }).click()
  await page.getByText("Kode ini salah").waitFor()
  await page.getByLabel("Enam angka dari aplikasi").fill(code())
  await page.getByRole("button", { name: "Aktifkan", exact: true }).click()
  await page.getByRole("heading", { name: "Kode pemulihan" }).waitFor()
  const recovery = await page.locator(".factor-codes code").allTextContents()
  expect(recovery).toHaveLength(10)
  await visit.screenshot("recovery-codes")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  const download = page.waitForEvent("download")
  await page.getByRole("link", { name: "Unduh", exact: true }).click()
  expect(await Bun.file(await (await download).path()).text()).toBe(`Loket\n${recovery.join("\n")}\n`)
  await page.getByRole("button", { name: "Sudah saya simpan" }).click()
  await page.getByText("masuk memerlukan kode dari aplikasi").waitFor()

  await using elsewhere = await world.visit(look)
  await elsewhere.open("/sign-in?next=%2Fkeys")
  await elsewhere.page.getByLabel("Alamat e-mail").fill(email)
  await elsewhere.page.getByLabel("Kata sandi").fill(PASSWORD)
  await elsewhere.page.getByRole("button", { name: "Masuk" }).click()
  await elsewhere.page.getByRole("heading", { name: "Verifikasi dua langkah" }).waitFor()
  await elsewhere.screenshot("second-step")
  await elsewhere.expectAccessible()
  await elsewhere.expectNoSidewaysScroll()
  await elsewhere.page.getByLabel("Kode").fill("000000")
  await elsewhere.page.getByRole("button", { name: "Masuk" }).click()
  await elsewhere.page.getByText("Kode ini salah").waitFor()
  await elsewhere.page.getByRole("button", { name: "Mulai lagi dari awal" }).click()
  expect(await elsewhere.page.getByLabel("Alamat e-mail").inputValue()).toBe(email)
  await elsewhere.page.getByLabel("Kata sandi").fill(PASSWORD)
  await elsewhere.page.getByRole("button", { name: "Masuk" }).click()
  await elsewhere.page.getByLabel("Kode").fill(recovery[0] ?? "")
  await elsewhere.page.getByRole("button", { name: "Masuk" }).click()
  await elsewhere.page.getByRole("heading", { name: "Kunci API" }).waitFor()

  await page.getByRole("button", { name: "Matikan verifikasi dua langkah" }).click()
  await page.getByRole("dialog").getByLabel("Kata sandi akun").fill(PASSWORD)
  await page.getByLabel("Kode dari aplikasi, atau kode pemulihan").fill(code())
  await visit.expectAccessible()
  await page.getByRole("dialog").getByRole("button", { name: "Matikan verifikasi dua langkah" }).click()
  await page.getByText("Verifikasi dua langkah dimatikan").waitFor()
  await page.getByRole("button", { name: "Aktifkan verifikasi dua langkah" }).waitFor()
})

test("an operator without a second factor is led to the settings, and has the pages once it is on", async () => {
  const person = await world.gateway.person()
  await world.gateway.sql`update accounts set role = 'operator', email_unproved = false where id = ${person.accountId}`
  await using visit = await world.visit({ person })
  await visit.page.goto(`${world.gateway.url}/dashboard/operator/accounts`)
  await visit.page.getByText("Operators need two-step verification").waitFor()
  await visit.expectAccessible()
  await visit.page.getByRole("link", { name: "Go to settings" }).click()
  await visit.page.getByText("The operator's pages open once").waitFor()
  await visit.page.getByRole("button", { name: "Turn on two-step verification" }).click()
  await visit.page.getByRole("dialog").getByLabel("Account password").fill(PASSWORD)
  await visit.page.getByRole("button", { name: "Next" }).click()
  const code = codes((await visit.page.locator(".factor-secret").textContent()) ?? "")
  await visit.page.getByLabel("Six digits from the app").fill(code())
  await visit.page.getByRole("button", { name: "Turn on", exact: true }).click()
  await visit.page.getByRole("button", { name: "I have kept them" }).click()
  await visit.open("/operator/accounts")
  await visit.page.getByRole("heading", { name: "Accounts", level: 1 }).waitFor()
})

test("a password of too few characters is told as that, however long they are", async () => {
  await using visit = await world.visit({ language: "id" })
  const { page } = visit
  await visit.open("/sign-up")
  await page.getByLabel("Alamat e-mail").fill("gambar@example.com")
  await page.getByLabel("Kata sandi", { exact: true }).fill("🍜🍜🍜🍜🍜🍜")
  await page.getByRole("button", { name: "Daftar" }).click()
  await page.getByText("Kata sandi harus 10 sampai 256 karakter.").waitFor({ timeout: 10_000 })
  expect(await page.getByText("Alamat ini tidak dapat dipakai.").count()).toBe(0)
})
