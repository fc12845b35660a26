/** What people see of a network that fails: the browser is offline, or something before the gateway answers. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { type BrowserWorld, eventually, openBrowser } from "./harness.ts"

let world: BrowserWorld
beforeAll(async () => {
  world = await openBrowser()
})
afterAll(() => world[Symbol.asyncDispose]())

test("a change that is pressed offline fails at once, can be pressed again, and is not carried out by itself later", async () => {
  const customer = await world.gateway.person()
  await using visit = await world.visit({ person: customer })
  const { page } = visit
  await visit.open("/wallet")
  const pay = page.getByRole("button", { name: /^Pay / })
  await pay.waitFor()
  await page.context().setOffline(true)
  await pay.click()
  await page.getByRole("alert").getByText("The server cannot be reached.").waitFor({ timeout: 15_000 })
  expect(await page.locator("[aria-busy=true]").count()).toBe(0)
  await page.context().setOffline(false)
  await page.getByRole("complementary").getByText("Live", { exact: true }).waitFor()
  await Bun.sleep(1_000)
  const { data } = (await (await world.gateway.dashboard(customer, "/top-ups")).json()) as { data: unknown[] }
  expect(data).toEqual([])
  await pay.click()
  await page.waitForURL(/\/wallet\/top_/)
  visit.complaints.length = 0
})

test("a server that never answers is not waited for for ever, and can be asked again", async () => {
  const customer = await world.gateway.person()
  await using visit = await world.visit({ person: customer, language: "id" })
  const { page } = visit
  // A minute lasts a second here.
  await page.addInitScript(() => {
    const limitOf = AbortSignal.timeout.bind(AbortSignal)
    AbortSignal.timeout = (ms) => limitOf(ms / 60)
  })
  let isSilent = true
  await page.route(/:\d+\/keys(?:\?|$)/, (route) => (isSilent ? undefined : route.fallback()))
  await visit.page.goto(`${world.gateway.url}/dashboard/keys`)
  const told = page.getByRole("alert").getByText("Server tidak menjawab dalam 60 detik.", { exact: true })
  await told.waitFor()
  isSilent = false
  await page.getByRole("button", { name: "Coba lagi" }).click()
  await page.getByText("Belum ada kunci").waitFor()
  isSilent = true
  await page.getByRole("button", { name: "Buat kunci" }).first().click()
  const dialog = page.getByRole("dialog")
  await dialog.getByLabel("Nama").fill("Kasir")
  await dialog.getByRole("button", { name: "Buat kunci" }).click()
  await told.waitFor()
  expect(await page.locator("[aria-busy=true]").count()).toBe(0)
  isSilent = false
  await dialog.getByRole("button", { name: "Buat kunci" }).click()
  await page
    .getByRole("dialog", { name: "Salin kunci Anda sekarang" })
    .getByText(/^sk-loket-/)
    .waitFor()
  const { data } = (await (await world.gateway.dashboard(customer, "/keys")).json()) as { data: unknown[] }
  expect(data).toHaveLength(1)
})

test.each([
  ["en", "Loket cannot answer right now.", "Your connection works (HTTP 503). Try again in a moment."],
  ["id", "Loket sedang tidak dapat menjawab.", "Sambungan Anda tidak bermasalah (HTTP 503). Coba lagi sebentar lagi."],
] as const)(
  "who is answered by something before the gateway is not told of their own connection (%s)",
  async (language, told, hint) => {
    const customer = await world.gateway.person()
    await using visit = await world.visit({ person: customer, language })
    await visit.page.route(/\/top-ups$/, (route) =>
      route.fulfill({ status: 503, contentType: "text/html", body: "<h1>503</h1>", headers: { "Retry-After": "1" } }),
    )
    await visit.open("/wallet")
    const alert = visit.page.getByRole("alert")
    for (const words of [told, hint]) await alert.getByText(words, { exact: true }).waitFor()
    await alert.getByText(language === "en" ? /in 1 second\./ : /1 detik/).waitFor()
    visit.complaints.length = 0
  },
)

test("a page that a proxy could not pass on for a moment comes by itself", async () => {
  const customer = await world.gateway.person()
  await using visit = await world.visit({ person: customer })
  let asked = 0
  await visit.page.route(/\/keys\?/, (route) =>
    ++asked === 1 ? route.fulfill({ status: 502, contentType: "text/html", body: "<h1>502</h1>" }) : route.continue(),
  )
  await visit.open("/keys")
  await visit.page.getByText("No keys yet").waitFor()
  visit.complaints.length = 0
})

test.each([
  ["1", "Too many failed attempts. Try again in 1 second."],
  ["30", "Too many failed attempts. Try again in 30 seconds."],
])("who has to wait for %s s before signing in reads it in words that fit", async (retryAfter, told) => {
  await using visit = await world.visit()
  const { page } = visit
  await page.route("**/auth/sign-in", (route) =>
    route.fulfill({
      status: 401,
      json: { error: "Wrong.", code: "auth.unauthorized", retryable: true, request_id: "req_1" },
      headers: { "Retry-After": retryAfter },
    }),
  )
  await visit.open("/sign-in")
  await page.getByLabel("E-mail address").fill("somebody@example.com")
  await page.getByLabel("Password").fill("what was typed")
  await page.getByRole("button", { name: "Sign in", exact: true }).click()
  await page.getByText(told, { exact: true }).waitFor()
  expect(await page.getByLabel("Password").inputValue()).toBe("what was typed")
})

const tooOften = (retryAfter: string) => ({
  status: 429,
  json: { error: "Too often.", code: "rate_limit.documents", retryable: true, request_id: "req_1" },
  headers: { "Retry-After": retryAfter },
})

test("what is asked for too often is not asked for again before its time, and the time is told", async () => {
  const customer = await world.gateway.person()
  await using visit = await world.visit({ person: customer })
  const { page } = visit
  const askedAt: number[] = []
  await page.route(/\/keys\?/, (route) => {
    askedAt.push(performance.now())
    return route.fulfill(tooOften("60"))
  })
  await visit.open("/keys")
  await page.getByRole("alert").getByText("Try again in 60 seconds.").waitFor()
  await Bun.sleep(5_000)
  // Once for itself, and once when the connection for events stands.
  expect(askedAt.length).toBeLessThanOrEqual(2)
  await page.unroute(/\/keys\?/)
  let refusals = 0
  let refusedAt = 0
  await page.route(/\/keys\?/, (route) => {
    if (refusals++ > 0) return route.continue()
    refusedAt = performance.now()
    return route.fulfill(tooOften("3"))
  })
  await page.getByRole("button", { name: "Try again" }).click()
  await page.getByText("No keys yet").waitFor()
  expect(performance.now() - refusedAt).toBeGreaterThan(2_900)
})

test("on a screen of 320 px, why a setting was not saved is in sight", async () => {
  const customer = await world.gateway.person()
  await using visit = await world.visit({ person: customer, size: "narrow" })
  const { page } = visit
  await visit.open("/settings")
  await page.route(/\/account$/, (route) =>
    route.request().method() === "PATCH" ? route.fulfill(tooOften("7")) : route.fallback(),
  )
  const form = page.locator("form").filter({ has: page.getByLabel("Tax number (NPWP)") })
  await form.getByLabel("Tax number (NPWP)").fill("012345678901000")
  const save = form.getByRole("button", { name: "Save" })
  await save.evaluate((button) => button.scrollIntoView({ block: "start" }))
  await save.click()
  const reason = form.getByRole("alert").getByText("Try again in 7 seconds.")
  await reason.waitFor()
  await eventually(async () => {
    const { y: headsY = 0, height = 0 } = (await page.getByRole("banner").boundingBox()) ?? {}
    expect((await reason.boundingBox())?.y).toBeGreaterThan(headsY + height)
  })
})

test("a form that is sent too often, or over a slow network, keeps what was written in it", async () => {
  const customer = await world.gateway.person()
  await using visit = await world.visit({ person: customer })
  const { page } = visit
  await visit.open("/keys")
  let sent = 0
  await page.route(/\/keys$/, async (route) => {
    if (route.request().method() !== "POST") return route.fallback()
    if (++sent === 1) return route.fulfill(tooOften("7"))
    await Bun.sleep(3_000)
    return route.continue()
  })
  await page.getByRole("button", { name: "Create key" }).first().click()
  const dialog = page.getByRole("dialog")
  const create = dialog.getByRole("button", { name: "Create key" })
  await dialog.getByLabel("Name").first().fill("half written")
  // The form is longer than the screen, and why it was not sent is at its head.
  await dialog.getByText("Expiry and what it is bound to").scrollIntoViewIfNeeded()
  await create.click()
  const reason = dialog.getByRole("alert").getByText("Try again in 7 seconds.")
  await reason.waitFor()
  await eventually(async () => {
    const { y = 0 } = (await reason.boundingBox()) ?? {}
    const { y: headsY = 0, height = 0 } = (await dialog.locator(".modal-head").boundingBox()) ?? {}
    expect(y).toBeGreaterThan(headsY + height)
  })
  expect(await dialog.getByLabel("Name").first().inputValue()).toBe("half written")
  await create.click()
  await dialog.locator("[aria-busy=true]").waitFor()
  // An impatient second press is the same one.
  await create.click({ force: true })
  expect(await dialog.getByLabel("Name").first().inputValue()).toBe("half written")
  await page.getByText("half written").first().waitFor()
  expect(sent).toBe(2)
})
