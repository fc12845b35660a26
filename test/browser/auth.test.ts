/** Signing up, in and out, as a person does it. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { type BrowserWorld, everyLook, openBrowser, type Visit } from "./harness.ts"

let world: BrowserWorld
beforeAll(async () => {
  world = await openBrowser()
})
afterAll(() => world[Symbol.asyncDispose]())

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
  for (const path of ["/sign-in", "/sign-up"]) {
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
  await visit.page.reload()
  await visit.page.getByRole("heading", { name: "Home" }).waitFor()

  await signOut(visit)
  await visit.page.getByRole("heading", { name: "Sign in" }).waitFor()
  await signIn(visit, email)
  await visit.page.getByRole("heading", { name: "Home" }).waitFor()
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
  await visit.open("/models")
  await world.gateway.dashboard(person, "/auth/sign-out", { method: "POST" })
  await visit.page.getByRole("link", { name: "Quick start" }).click()
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
  await visit.page.getByRole("link", { name: "Wallet" }).click()
  await visit.page.getByText("Your session has ended.").waitFor()
  await visit.expectAccessible()
  // Also when the page is opened anew.
  await visit.page.reload()
  await visit.page.getByText("Your session has ended.").waitFor()
  await signIn(visit, email)
  await visit.page.getByRole("heading", { name: "Wallet", level: 1 }).waitFor()
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
