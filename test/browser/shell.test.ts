/** The frame around every page: navigation, preferences, and what a keyboard and a screen reader find. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../gateway/harness.ts"
import { caller, makeOperator } from "../http/operator/operator.ts"
import { type BrowserWorld, eventually, openBrowser } from "./harness.ts"

let world: BrowserWorld
let person: Person

beforeAll(async () => {
  world = await openBrowser()
  person = await world.gateway.person(100_000)
})
afterAll(() => world[Symbol.asyncDispose]())

test("the first stop of a keyboard leads past the navigation", async () => {
  await using visit = await world.visit({ person })
  await visit.open("/")
  await visit.page.keyboard.press("Tab")
  await eventually(async () =>
    expect(await visit.page.evaluate(() => document.activeElement?.textContent)).toBe("Skip to content"),
  )
  await visit.page.keyboard.press("Enter")
  await eventually(async () => expect(await visit.page.evaluate(() => document.activeElement?.id)).toBe("main"))
})

test("a change of page puts the focus on the new one and names the tab after it", async () => {
  await using visit = await world.visit({ person })
  await visit.open("/")
  await visit.page.getByRole("link", { name: "Models" }).click()
  await visit.page.getByRole("heading", { name: "Models", level: 1 }).waitFor()
  await eventually(async () => expect(await visit.page.title()).toBe("Models · Loket"))
  await eventually(async () => expect(await visit.page.evaluate(() => document.activeElement?.id)).toBe("main"))
  expect(await visit.page.getByRole("link", { name: "Models" }).getAttribute("aria-current")).toBe("page")
})

test("the code of a page comes beside the account, and of another one when its link is pointed at", async () => {
  await using visit = await world.visit({ person })
  await visit.open("/models")
  const asked = () =>
    visit.page.evaluate(
      () => performance.getEntriesByType("resource").filter(({ name }) => /\/page-\w+\.js$/.test(name)).length,
    )
  const before = await asked()
  await visit.page.getByRole("link", { name: "Wallet", exact: true }).first().hover()
  await eventually(async () => expect(await asked()).toBe(before + 1))
  // Whoever was signed in here most likely still is.
  const code = visit.page.waitForRequest(/\/page-\w+\.js$/)
  await visit.page.route(/\/account$/, async (route) => {
    await code
    await route.continue()
  })
  await visit.open("/keys")
})

test("code that could not be had ahead is asked for again when its page is opened", async () => {
  await using visit = await world.visit({ person })
  const { page } = visit
  await visit.open("/models")
  await page.evaluate(() => Object.assign(globalThis, { isSamePage: true }))
  const link = page.getByRole("link", { name: "Wallet", exact: true }).first()
  await page.route(/\/page-\w+\.js$/, (route) => route.abort())
  const failed = page.waitForEvent("requestfailed")
  await link.hover()
  await failed
  await page.unroute(/\/page-\w+\.js$/)
  await link.click()
  await page.getByRole("heading", { name: "Wallet", level: 1 }).waitFor()
  expect(await page.evaluate(() => "isSamePage" in globalThis)).toBe(true)
  visit.complaints.length = 0
})

test("a page is there as soon as its code is: what waits for it is not kept on the page", async () => {
  await using visit = await world.visit({ person })
  // A clock that stands still, and is set forward by hand: React keeps the fallback of a `Suspense` for 300 ms.
  await visit.page.clock.install()
  await visit.page.clock.pauseAt(Date.now() + 60_000)
  const asked: string[] = []
  visit.page.on("request", (request) => asked.push(request.url()))
  await visit.page.goto(`${world.gateway.url}/dashboard/keys`)
  const hasAsked = () => asked.some((url) => url.startsWith(`${world.gateway.url}/keys`))
  for (let ms = 0; ms < 250 && !hasAsked(); ms++) {
    await visit.page.clock.runFor(1)
    // The gateway answers meanwhile, in the time of everybody else.
    await Bun.sleep(50)
  }
  expect(hasAsked()).toBe(true)
})

test("a chosen theme is there again after a reload", async () => {
  await using visit = await world.visit({ person, theme: "light" })
  await visit.open("/")
  const ground = () => visit.page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor)
  const light = await ground()
  await visit.page.getByRole("button", { name: /^Account: / }).click()
  await visit.page.getByText("Dark", { exact: true }).filter({ visible: true }).click()
  await visit.page.waitForFunction(
    (before) => getComputedStyle(document.documentElement).backgroundColor !== before,
    light,
  )
  const dark = await ground()
  await visit.page.reload()
  await visit.settled()
  expect(await ground()).toBe(dark)
})

test("a chosen language is the account's, in every browser", async () => {
  await using visit = await world.visit({ person, language: "en" })
  await visit.open("/")
  await visit.page.getByRole("button", { name: /^Account: / }).click()
  const changed = visit.page.waitForResponse((response) => response.request().method() === "PATCH")
  await visit.page.getByText("Indonesia", { exact: true }).filter({ visible: true }).click()
  await visit.page.getByRole("heading", { name: "Beranda" }).waitFor()
  await eventually(async () => expect(await visit.page.evaluate(() => document.documentElement.lang)).toBe("id"))
  expect((await changed).status()).toBe(200)
  const account = await world.gateway.dashboard(person, "/account")
  expect(await account.json()).toMatchObject({ language: "id" })
})

test("the menu closes with Escape and gives the focus back", async () => {
  await using visit = await world.visit({ person, size: "phone" })
  await visit.open("/")
  const more = visit.page.getByRole("button", { name: "More" })
  await more.focus()
  await visit.page.keyboard.press("Enter")
  const signOut = visit.page.getByRole("button", { name: "Sign out" })
  await signOut.waitFor()
  await visit.expectAccessible()
  await visit.page.keyboard.press("Escape")
  await signOut.waitFor({ state: "hidden" })
  await eventually(async () => expect(await more.evaluate((element) => element === document.activeElement)).toBe(true))
})

test("on a phone whatever can be pressed is large enough for a finger", async () => {
  await using visit = await world.visit({ person, size: "phone" })
  for (const path of ["/", "/wallet", "/models", "/quick-start"]) {
    await visit.open(path)
    const small = await visit.page.evaluate(() =>
      // A row is pressed anywhere, and a field within its frame.
      [...document.querySelectorAll<HTMLElement>("button:not(.row-button), .button, .navigation-link, .input")]
        .filter((element) => element.checkVisibility())
        .map((element) => ({ element, box: element.getBoundingClientRect() }))
        .filter(({ box }) => box.height < 44 || box.width < 44)
        .map(({ element, box }) => `${element.className || element.tagName} ${box.width}×${box.height}`),
    )
    expect([path, small]).toEqual([path, []])
  }
})

test("script and style that get into the page do nothing there, and are complained of", async () => {
  await using visit = await world.visit({ person })
  await visit.open("/")
  const came = await visit.page.evaluate(() => {
    const script = document.createElement("script")
    script.textContent = "document.body.id = 'taken over'"
    document.body.append(script)
    document.body.insertAdjacentHTML("beforeend", "<p style='position: fixed' onclick='alert(1)'>x</p>")
    return [document.body.id, getComputedStyle(document.body.lastElementChild ?? document.body).position]
  })
  expect(came).toEqual(["", "static"])
  // The browser tells them after the script has ended.
  await eventually(async () =>
    expect(visit.complaints.filter((words) => words.includes("Content Security Policy")).length).toBeGreaterThanOrEqual(
      2,
    ),
  )
  visit.complaints.length = 0
})

test("a frozen account and a low balance are told on every page", async () => {
  const other = await world.gateway.person(10_000)
  await world.gateway.dashboard(other, "/account", {
    method: "PATCH",
    body: JSON.stringify({ low_balance_threshold_micro: 20_000_000_000 }),
  })
  await using visit = await world.visit({ person: other })
  await visit.open("/models")
  await visit.page.getByText("Your balance is under Rp\u00A020,000.").waitFor()
  await visit.expectAccessible()
  await world.gateway.sql`update accounts set frozen_at = now(), frozen_reason = 'a test' where id = ${other.accountId}`
  await visit.open("/quick-start")
  await visit.page.getByText("This account is frozen").waitFor()
  await visit.expectAccessible()
})

test("an account that is frozen, and opened again, hears of it on the page that is open", async () => {
  const other = await world.gateway.person(10_000)
  const ask = caller(world.gateway, await makeOperator(world.gateway))
  await using visit = await world.visit({ person: other })
  await visit.open("/usage")
  await visit.page.getByRole("complementary").getByText("Live", { exact: true }).waitFor()
  await ask(`/operator/accounts/${other.accountId}/freeze`, { reason: "a test" })
  await visit.page.getByText("This account is frozen").waitFor()
  await ask(`/operator/accounts/${other.accountId}/unfreeze`, { reason: "a test" })
  await visit.page.getByText("This account is frozen").waitFor({ state: "detached" })
})

test("a page whose code cannot be had leaves the frame standing, and loads by itself when it can be had", async () => {
  await using visit = await world.visit({ person })
  await visit.open("/")
  // As after a new version, whose files have other names.
  await visit.page.route("**/dashboard/assets/*.js", (route) => route.fulfill({ status: 404 }))
  await visit.page.getByRole("link", { name: "Quick start" }).click()
  await visit.page.getByText("This page is not loaded yet").waitFor()
  await visit.page.unroute("**/dashboard/assets/*.js")
  await visit.page.getByRole("heading", { name: "Quick start" }).waitFor()
  visit.complaints.length = 0
})

test("a page that cannot be loaded is not reloaded again and again", async () => {
  await using visit = await world.visit({ person })
  await visit.open("/")
  let loads = 0
  visit.page.on("load", () => loads++)
  await visit.page.route("**/dashboard/assets/*.js", (route) =>
    route.request().resourceType() === "script" && loads > 0 && route.request().url().includes("main")
      ? route.continue()
      : route.fulfill({ status: 404 }),
  )
  await visit.page.evaluate(() => sessionStorage.setItem("loket-reloaded", String(Date.now())))
  await visit.page.getByRole("link", { name: "Quick start" }).click()
  await visit.page.getByText("This page is not loaded yet").waitFor()
  await Bun.sleep(5_000)
  expect(loads).toBe(0)
  visit.complaints.length = 0
})

test("a lost connection is shown, with the time of the figures, and what was missed is there when it is back", async () => {
  await using visit = await world.visit({ person })
  await visit.open("/")
  const sign = visit.page.getByRole("complementary").getByText("Live", { exact: true })
  await sign.waitFor()
  const context = visit.page.context()
  await context.setOffline(true)
  await visit.page.getByRole("complementary").getByText("Offline", { exact: true }).waitFor()
  await visit.page
    .getByText(/^You are offline\. Figures on this page may be as they were at \d\d:\d\d:\d\d\.$/)
    .waitFor()
  await visit.expectAccessible()
  // Not opened before: neither its code nor its figures are there.
  await visit.page.getByRole("link", { name: "Wallet" }).click()
  await visit.page.getByText("This page is not loaded yet").waitFor()
  await context.setOffline(false)
  await visit.page.getByRole("heading", { name: "Wallet", level: 1 }).waitFor()
  await sign.waitFor()
  await visit.page.getByText("You are offline.").waitFor({ state: "detached" })
  visit.complaints.length = 0
})

test("a gateway that is away for a while is connected to again, and figures that could not be had come", async () => {
  await using visit = await world.visit({ person, language: "id" })
  let isAway = true
  for (const path of ["**/events", "**/account/summary"])
    await visit.page.route(path, (route) => (isAway ? route.fulfill({ status: 502 }) : route.continue()))
  await visit.page.goto(`${world.gateway.url}/dashboard/`)
  await visit.page.getByText("Sambungan ke Loket terputus").waitFor()
  isAway = false
  await visit.page.getByRole("complementary").getByText("Terhubung", { exact: true }).waitFor()
  await visit.page.getByText("Hari ini", { exact: true }).waitFor()
  await visit.page.getByText("Sambungan ke Loket terputus").waitFor({ state: "detached" })
  visit.complaints.length = 0
})

test("a connection that only takes long to open is not called lost", async () => {
  await using visit = await world.visit({ person })
  await visit.page.route("**/events", async (route) => {
    await Bun.sleep(4_500)
    await route.continue()
  })
  await visit.page.goto(`${world.gateway.url}/dashboard/`)
  const live = visit.page.getByRole("complementary").getByText("Live", { exact: true }).waitFor()
  const lost = visit.page.getByText("The connection to Loket is lost").waitFor()
  expect(await Promise.race([live.then(() => "live"), lost.then(() => "lost")])).toBe("live")
  await Promise.allSettled([live, visit.page.close(), lost])
})

test("on a phone that is held sideways, all of the menu can be reached", async () => {
  await using visit = await world.visit({ person, size: "phone", language: "id" })
  const { page } = visit
  await page.setViewportSize({ width: 667, height: 375 })
  await visit.open("/")
  await page.getByRole("button", { name: "Lainnya" }).click()
  for (const entry of ["Mulai cepat", "Referensi API"]) {
    const link = page.getByRole("link", { name: entry }).filter({ visible: true })
    await link.scrollIntoViewIfNeeded()
    const { y = -1, height = 0 } = (await link.boundingBox()) ?? {}
    expect(y).toBeGreaterThanOrEqual(0)
    expect(y + height).toBeLessThanOrEqual(375)
  }
})

test("an address that leads nowhere says so, with a way back", async () => {
  await using visit = await world.visit({ person })
  await visit.page.goto(`${world.gateway.url}/dashboard/nowhere`)
  await visit.page.getByRole("heading", { name: "Page not found", level: 1 }).waitFor()
  expect(await visit.page.title()).toBe("Page not found · Loket")
  await visit.page.getByRole("link", { name: "Go to home" }).click()
  await visit.page.getByRole("heading", { name: "Home" }).waitFor()
})
