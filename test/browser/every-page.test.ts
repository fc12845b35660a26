/** What holds on each page of the dashboard: it fits the narrowest screen and a phone with large text, and nothing moves while it loads on a slow machine. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../gateway/harness.ts"
import { eventually, type Visit } from "./harness.ts"
import { openOperatorWorld, type OperatorWorld, payWrongly, say } from "./operator/world.ts"

/** The sum of all shifts that nobody pressed anything for (web.dev, "Cumulative Layout Shift": good is under 0.1). */
const MAX_SHIFT = 0.02
const CPU_SLOWDOWN = 4
/** A tablet, or half of a large screen: the navigation stands beside the page, which is hardly wider than on a phone. */
const BETWEEN = { width: 820, height: 800 }
/** Whose owner has text twice as large. */
const PHONE = { width: 390, height: 844 }

let world: OperatorWorld
let person: Person
let newcomer: Person
/** What stands in the addresses of single things. */
let ids: Readonly<Record<"top-up" | "account" | "model", string>>

beforeAll(async () => {
  world = await openOperatorWorld()
  const { gateway } = world
  const model = await gateway.model({ format: "chat", model: "kapal-cepat", script: "input=1000&output=20" })
  person = await gateway.person(100_000)
  const { key } = await gateway.key(person, { name: "Produksi: asisten pelanggan", requests_per_minute: 60 })
  await gateway.key(person, { name: "laptop" })
  for (let call = 0; call < 3; call++) await say(world, key, model)
  await payWrongly(world, person)
  newcomer = await gateway.person(0)
  const { data } = (await (await gateway.dashboard(person, "/top-ups")).json()) as {
    data: { id: string; status: string }[]
  }
  const paid = data.find(({ status }) => status === "paid")
  ids = { "top-up": paid?.id ?? "", account: person.accountId, model }
}, 60_000)
afterAll(() => world[Symbol.asyncDispose]())

const visitors = ["/sign-in", "/sign-up", "/forgotten-password", "/reset-password#token", "/join#token"]
const customers = [
  "/",
  "/quick-start",
  "/keys",
  "/usage",
  "/wallet",
  "/wallet/statement",
  "/wallet/:top-up",
  "/wallet/:top-up/receipt",
  "/playground",
  "/models",
  "/settings",
  "/prove-email#token",
]
const operators = [
  "/operator",
  "/operator/profit",
  "/operator/accounts",
  "/operator/accounts/:account",
  "/operator/accounts/:account/calls",
  "/operator/top-ups",
  "/operator/refunds",
  "/operator/payment-problems",
  "/operator/models",
  "/operator/models/:model",
  "/operator/backends",
  "/operator/billing",
  "/operator/audit",
]

test("no page of the dashboard is left out here", async () => {
  const source = await Bun.file("src/dashboard/pages.tsx").text()
  const known = new Set(
    [...visitors, ...customers, ...operators].map((path) => path.replace(/#.*/, "").replace(/:[a-z-]+/, ":")),
  )
  const paths = [...source.matchAll(/(?:path: |^ {2}\[)"(\/[^"]*)"/gm)].map(([, path = ""]) =>
    path.replace(/:[a-z]+/, ":"),
  )
  expect(paths.length).toBeGreaterThan(20)
  expect(paths.filter((path) => !known.has(path))).toEqual([])
})

const filled = (path: string) => path.replaceAll(/:([a-z-]+)/g, (_, name: keyof typeof ids) => ids[name])

interface Shift {
  readonly value: number
  readonly moved: readonly string[]
}

/** Opens a page on a slow machine, and returns what moved on it by itself. */
async function shifts(visit: Visit, path: string): Promise<readonly Shift[]> {
  const { page } = visit
  const slow = await page.context().newCDPSession(page)
  await slow.send("Emulation.setCPUThrottlingRate", { rate: CPU_SLOWDOWN })
  await page.addInitScript(() => {
    const found: Shift[] = []
    Object.assign(globalThis, { shiftsFound: found })
    // It runs in the page, which has no scope but this one.
    // oxlint-disable-next-line unicorn/consistent-function-scoping
    const nameOf = (node: Node | null) => {
      const element = node instanceof Element ? node : node?.parentElement
      return element
        ? `${element.tagName.toLowerCase()}.${element.className} “${element.textContent.slice(0, 30)}”`
        : "?"
    }
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) {
        const { value, hadRecentInput, sources } = entry as PerformanceEntry & {
          value: number
          hadRecentInput: boolean
          sources: { node: Node | null; previousRect: DOMRect; currentRect: DOMRect }[]
        }
        const moved = sources.map(
          ({ node, previousRect: from, currentRect: to }) =>
            `${nameOf(node)} ${Math.round(from.y)}+${Math.round(from.height)} → ${Math.round(to.y)}+${Math.round(to.height)}`,
        )
        if (!hadRecentInput) found.push({ value, moved })
      }
    }).observe({ type: "layout-shift", buffered: true })
  })
  await visit.open(filled(path))
  // What a page does right after it has come: a chart is drawn, a live connection opens.
  await page.waitForTimeout(700)
  await slow.detach()
  return page.evaluate(() => (globalThis as unknown as { shiftsFound: Shift[] }).shiftsFound)
}

const cases = [
  ...visitors.map((path) => ({ path, who: "visitor" as const })),
  ...customers.map((path) => ({ path, who: "customer" as const })),
  ...["/", "/quick-start", "/keys", "/usage", "/wallet"].map((path) => ({ path, who: "newcomer" as const })),
  ...operators.map((path) => ({ path, who: "operator" as const })),
]

for (const size of ["narrow", "desktop"] as const) {
  test.each(cases)(`$path of a $who fits a ${size} screen and does not move while it loads`, async ({ path, who }) => {
    const is = { visitor: undefined, customer: person, newcomer, operator: world.operator }[who]
    await using visit = await world.visit({ size, language: "id", ...(is && { person: is }) })
    const moved = await shifts(visit, path)
    await visit.expectNoSidewaysScroll()
    if (size === "desktop") {
      await visit.page.setViewportSize(BETWEEN)
      await visit.expectNoSidewaysScroll()
    }
    if (size === "narrow") {
      await visit.screenshot(`every${path.replaceAll(/[/:#]/g, "-")}`)
      await visit.page.setViewportSize(PHONE)
      await visit.page.evaluate(() => {
        document.documentElement.style.fontSize = "200%"
      })
      await visit.expectNoSidewaysScroll()
    }
    const sum = moved.reduce((total, { value }) => total + value, 0)
    expect(sum < MAX_SHIFT ? [] : moved).toEqual([])
  })
}

/** Characters. */
const LONGEST_LINE = 110

test.each([
  ...customers
    .filter((path) => !path.includes("#"))
    .map((path) => [path, ["/keys", "/usage", "/wallet/statement", "/models"].includes(path)] as const),
  ...operators.map((path) => [path, path !== "/operator/models/:model"] as const),
])(
  "on a screen of 1920 px %s has tables that use it (%p), and no lines of prose too long to read",
  async (path, isWide) => {
    const who = path.startsWith("/operator") ? world.operator : person
    await using visit = await world.visit({ person: who, language: "id" })
    const { page } = visit
    await page.setViewportSize({ width: 1920, height: 1080 })
    await visit.open(filled(path))
    const width = () => page.locator("main").evaluate((main) => main.clientWidth)
    await eventually(async () => expect(await width()).toBe(isWide ? 1440 : 1120))
    const lines = await page.evaluate(() =>
      [...document.querySelectorAll("main p")].flatMap((block) => {
        const text = block.textContent
        const range = document.createRange()
        range.selectNodeContents(block)
        const rows = new Set([...range.getClientRects()].map(({ bottom }) => Math.round(bottom / 8))).size
        return rows === 0 ? [] : [{ text, perLine: text.length / rows }]
      }),
    )
    expect(lines.filter(({ perLine }) => perLine > LONGEST_LINE)).toEqual([])
  },
)
