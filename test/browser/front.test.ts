/** The pages for visitors in a browser: they stand before any script, fast on a slow phone, and the calculator calculates. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { formatRupiah } from "../../src/dashboard/i18n/figures.ts"
import { readCatalogueFile } from "../../src/catalogue/seed-files.ts"
import { seedCatalogue } from "../../src/store/catalogue.ts"
import { type BrowserWorld, everyLook, openBrowser, type Visit } from "./harness.ts"

let world: BrowserWorld
beforeAll(async () => {
  world = await openBrowser()
  // The models that a first start sells, at a backend that is there.
  const seeds = await readCatalogueFile()
  if (Array.isArray(seeds)) throw new Error("the seeds are not readable")
  const models = seeds.models.map((model) => ({
    ...model,
    upstreams: model.upstreams.map((upstream) => ({ ...upstream, provider: "simulated" })),
  }))
  await seedCatalogue(world.gateway.sql, { ...seeds, models }, new Date())
  await world.gateway.refreshCatalogue()
})
afterAll(() => world[Symbol.asyncDispose]())

const go = (visit: Visit, path: string) => visit.page.goto(world.gateway.url + path)

test.each(everyLook)("the pages are accessible and fit from 320 to 1920: %o", async (look) => {
  await using visit = await world.visit(look)
  for (const path of ["/", "/status", "/docs"]) {
    await go(visit, path)
    expect(await visit.page.locator("html").getAttribute("lang")).toBe(look.language)
    expect(await visit.page.locator("h1").count()).toBe(1)
    await visit.screenshot(path === "/" ? "front" : path.slice(1))
    await visit.expectAccessible()
    for (const width of [320, 390, 768, 1024, 1920]) {
      await visit.page.setViewportSize({ width, height: 800 })
      await visit.expectNoSidewaysScroll()
    }
    await visit.page.setViewportSize(look.size === "phone" ? { width: 390, height: 844 } : { width: 1280, height: 800 })
  }
})

const LATEST_PAINT_MS = 1_500

interface Measured {
  readonly paintMs: number
  readonly shift: number
}

/** How long a usual desktop lays out what `speed` has it lay out, in milliseconds. */
const USUAL_LAYOUT_MS = 10

/** How fast the browser is now beside a usual desktop's, which it never is by more than 1. */
async function speed(visit: Visit): Promise<number> {
  const layoutMs = await visit.page.evaluate(() => {
    const start = performance.now()
    for (let round = 1; ; round++) {
      const block = document.createElement("div")
      block.innerHTML = "<p><b>a</b> word</p>".repeat(200)
      document.body.append(block)
      block.getBoundingClientRect()
      block.remove()
      const ms = performance.now() - start
      if (ms > 200) return ms / round
    }
  })
  return Math.min(1, USUAL_LAYOUT_MS / layoutMs)
}

/** A phone of the cheaper kind on a slow network, as the browser's own tools have it: a quarter of a usual desktop's speed. */
async function measured(visit: Visit, path: string): Promise<Measured> {
  const rate = Math.max(1, 4 * (await speed(visit)))
  const session = await visit.page.context().newCDPSession(visit.page)
  await session.send("Network.enable")
  await session.send("Network.emulateNetworkConditions", {
    offline: false,
    latency: 562.5,
    downloadThroughput: (1_474.56 * 1_024) / 8,
    uploadThroughput: (675 * 1_024) / 8,
  })
  await session.send("Emulation.setCPUThrottlingRate", { rate })
  await go(visit, path)
  await visit.page.waitForLoadState("networkidle")
  return await visit.page.evaluate(async () => {
    const shifts: number[] = []
    const observer = new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) shifts.push((entry as PerformanceEntry & { value: number }).value)
    })
    observer.observe({ type: "layout-shift", buffered: true })
    await new Promise((resolve) => setTimeout(resolve, 300))
    const paint = performance.getEntriesByName("first-contentful-paint")[0]
    return { paintMs: paint?.startTime ?? Infinity, shift: shifts.reduce((sum, shift) => sum + shift, 0) }
  })
}

test.each(["/", "/status", "/docs", "/terms"])(
  "%s is painted within 1.5 s with a processor four times slower than a desktop's on slow 4G, and does not move",
  async (path) => {
    // The best of a few: another program on this machine makes a paint late, and none makes it early.
    let best: Measured = { paintMs: Infinity, shift: 0 }
    for (let time = 0; time < 6 && best.paintMs >= LATEST_PAINT_MS; time++) {
      await using visit = await world.visit({ size: "phone", language: "id" })
      const found = await measured(visit, path)
      best = { paintMs: Math.min(best.paintMs, found.paintMs), shift: Math.max(best.shift, found.shift) }
    }
    expect(best.paintMs).toBeLessThan(LATEST_PAINT_MS)
    expect(best.shift).toBeLessThan(0.02)
  },
)

test("all that the page says stands without a script, and the form answers", async () => {
  await using visit = await world.visit({ script: false })
  await go(visit, "/")
  await visit.page.getByRole("heading", { name: "One key for every AI model" }).waitFor()
  await visit.page.getByLabel("Calls a day").fill("7")
  await visit.page.getByRole("button", { name: "Calculate" }).click()
  await visit.page.waitForURL(/calls=7/)
  const row = visit.page.getByRole("row", { name: /gpt-oss-20b/ })
  // 2,000 and 500 tokens, 7 calls, 30 days.
  await row.getByText(formatRupiah((2_000n * 1_176n + 500n * 5_040n) * 210n, "en", "whole")).waitFor()
})

test("the calculator follows what is typed, and the example can be copied", async () => {
  await using visit = await world.visit({ language: "id" })
  await go(visit, "/")
  await visit.page.getByLabel("Panggilan per hari").fill("7")
  const row = visit.page.getByRole("row", { name: /gpt-oss-20b/ })
  await row.getByText(formatRupiah((2_000n * 1_176n + 500n * 5_040n) * 210n, "id", "whole")).waitFor()
  expect(visit.page.url()).not.toContain("calls")
  await visit.page.getByRole("button", { name: "Salin" }).click()
  await visit.page.getByRole("button", { name: "Tersalin" }).waitFor()
  const copied = await visit.page.evaluate(() => navigator.clipboard.readText())
  expect(copied).toStartWith(`curl ${world.gateway.url}/v1/chat/completions`)
  expect(copied).not.toContain("Salin")
})

test("over http from elsewhere, where nothing can be copied, it is not offered", async () => {
  await using visit = await world.visit({ language: "id" })
  // As a browser has it at the address of another machine.
  await visit.page.addInitScript(() => Object.defineProperty(globalThis, "isSecureContext", { value: false }))
  await go(visit, "/")
  await visit.page.getByLabel("Panggilan per hari").fill("7")
  const row = visit.page.getByRole("row", { name: /gpt-oss-20b/ })
  await row.getByText(formatRupiah((2_000n * 1_176n + 500n * 5_040n) * 210n, "id", "whole")).waitFor()
  expect(await visit.page.getByRole("button", { name: "Salin" }).count()).toBe(0)
})

test.each([
  ["id", "Token masukan per panggilan", "20.000", "20,000"],
  ["en", "Input tokens a call", "20,000", "20.000"],
] as const)(
  "in %s the calculator counts with thousands as they are written there, and with no number that it cannot read",
  async (language, label, typed, wrong) => {
    await using visit = await world.visit({ language })
    await go(visit, "/")
    const month = visit.page
      .getByRole("row", { name: /gpt-oss-20b/ })
      .getByRole("cell")
      .last()
    const input = visit.page.getByLabel(label)
    await input.fill("")
    await input.pressSequentially(typed)
    expect(await month.innerText()).toBe(formatRupiah((20_000n * 1_176n + 500n * 5_040n) * 3_000n, language, "whole"))
    for (const none of [wrong, "1e4", "-5", ""]) {
      await input.fill("")
      await input.pressSequentially(none)
      expect([none, await month.innerText()]).toEqual([none, "–"])
    }
  },
)

test("the language is changed by a link, and stays on the way to the other pages", async () => {
  await using visit = await world.visit({ language: "id" })
  await go(visit, "/")
  await visit.page.getByRole("link", { name: "English" }).click()
  await visit.page.getByRole("heading", { name: "One key for every AI model" }).waitFor()
  await visit.page.getByRole("link", { name: "Status" }).click()
  await visit.page.getByRole("heading", { name: "Service status" }).waitFor()
  await visit.page.getByText("All models answer.").waitFor()
  await visit.page.getByRole("link", { name: "Loket" }).click()
  await visit.page.getByRole("link", { name: "Create an account" }).click()
  await visit.page.getByRole("heading", { name: /account/ }).waitFor()
})

test("the reference is there without a script, and with one it is filtered and opens what a link names", async () => {
  await using still = await world.visit({ script: false })
  await go(still, "/docs?lang=id")
  await still.page.getByRole("heading", { name: "Dokumentasi API" }).waitFor()
  expect(await still.page.getByRole("searchbox").isVisible()).toBe(false)
  await still.page.getByRole("link", { name: /^Isi saldo/ }).click()
  expect(still.page.url()).toEndWith("#top-ups")
  await still.page.getByText("Biaya sebuah isi saldo").click()
  await still.page.locator("details[open]").getByText("amount_rp").first().waitFor()

  await using visit = await world.visit({ language: "id" })
  await go(visit, "/docs#get-top-ups-quote")
  await visit.page.locator("details[open]").getByText("amount_rp").first().waitFor()
  const filter = visit.page.getByRole("searchbox", { name: "Saring" })
  await filter.fill("KUITANSI pdf")
  expect(await visit.page.locator("details:visible").count()).toBe(2)
  expect(await visit.page.locator(".docs-groups > section:visible").count()).toBe(1)
  await filter.fill("tidak ada yang seperti ini")
  await visit.page.getByText("Tidak ada yang cocok.").waitFor()
  await visit.page.getByRole("link", { name: /^Kesalahan/ }).click()
  await visit.page.locator("#error-billing-insufficient-balance").waitFor()
  expect(await filter.inputValue()).toBe("")
})

test("on a phone a price stands at the end of its line, and what it is of at its beginning", async () => {
  await using visit = await world.visit({ size: "narrow", language: "id" })
  await go(visit, "/")
  const price = visit.page.getByRole("cell").first()
  // The label is no element, so that it has no place that could be looked at.
  expect(
    await price.evaluate((cell) => [getComputedStyle(cell).display, getComputedStyle(cell).justifyContent]),
  ).toEqual(["flex", "space-between"])
})

test("a link to the reference whose end cannot be decoded leads to the page, and those after it to their entries", async () => {
  await using visit = await world.visit()
  await go(visit, "/docs#%E0%A4%A")
  await visit.page.getByRole("searchbox", { name: "Filter" }).fill("receipt")
  await visit.page.evaluate(() => (location.hash = "%E0%A4%A4%"))
  await visit.page.evaluate(() => (location.hash = "get-top-ups-quote"))
  await visit.page.locator("details[open]").getByText("amount_rp").first().waitFor()
})
