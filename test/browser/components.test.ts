/** The components, all on one page that is served in the gateway's name and under the dashboard's own policy. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { join } from "node:path"
import { type BrowserWorld, eventually, openBrowser, type Visit, type VisitOptions } from "./harness.ts"

let world: BrowserWorld
const files = new Map<string, { readonly body: Buffer; readonly contentType: string }>()

beforeAll(async () => {
  const { outputs } = await Bun.build({
    entrypoints: [join(import.meta.dir, "gallery/gallery.html")],
    publicPath: "/dashboard/assets/",
    define: { "process.env.NODE_ENV": '"production"' },
  })
  for (const output of outputs) {
    files.set(output.path.slice(output.path.lastIndexOf("/") + 1), {
      body: Buffer.from(await output.arrayBuffer()),
      contentType: output.type,
    })
  }
  world = await openBrowser()
})
afterAll(() => world[Symbol.asyncDispose]())

/** The gallery in the place of the page. */
async function openGallery(options: VisitOptions): Promise<Visit> {
  const visit = await world.visit(options)
  const policy = (await fetch(`${world.gateway.url}/dashboard`)).headers.get("content-security-policy") ?? ""
  await visit.page.route("**/dashboard**", async (route) => {
    const name = new URL(route.request().url()).pathname.split("/").at(-1) ?? ""
    const file = files.get(name) ?? files.get("gallery.html")
    await route.fulfill({ ...file, headers: { "Content-Security-Policy": policy } })
  })
  await visit.page.goto(`${world.gateway.url}/dashboard`)
  await visit.page.locator("canvas").first().waitFor()
  return visit
}

for (const size of ["desktop", "phone"] as const) {
  for (const theme of ["light", "dark"] as const) {
    test(`every component is accessible on a ${size} in the ${theme} theme`, async () => {
      await using visit = await openGallery({ size, theme })
      await visit.expectAccessible()
      await visit.expectNoSidewaysScroll()
      await visit.page.getByRole("button", { name: "Open dialog" }).click()
      await visit.page.getByRole("dialog", { name: "A dialog" }).waitFor()
      await visit.expectAccessible()
    })
  }
}

test("a dialog takes the focus, closes with Escape, and gives the focus back", async () => {
  await using visit = await openGallery({})
  const opener = visit.page.getByRole("button", { name: "Open dialog" })
  await opener.click()
  const dialog = visit.page.getByRole("dialog", { name: "A dialog" })
  await dialog.waitFor()
  await eventually(async () =>
    expect(await dialog.evaluate((element) => element.contains(document.activeElement))).toBe(true),
  )
  await visit.page.keyboard.press("Escape")
  await dialog.waitFor({ state: "hidden" })
  await eventually(async () =>
    expect(await opener.evaluate((element) => element === document.activeElement)).toBe(true),
  )
})

test("a dialog in the place of another gives the focus to what stood around the button that is gone", async () => {
  await using visit = await openGallery({})
  const { page } = visit
  await page.getByRole("button", { name: "Open steps" }).click()
  await page.getByRole("dialog", { name: "A step" }).getByRole("button", { name: "Next" }).press("Enter")
  const next = page.getByRole("dialog", { name: "The next step" })
  await next.waitFor()
  await page.keyboard.press("Escape")
  await next.waitFor({ state: "detached" })
  await page.getByRole("region", { name: "Steps" }).and(page.locator(":focus")).waitFor()
})

test("a press outside closes a dialog; a selection that is dragged outside does not", async () => {
  await using visit = await openGallery({})
  const { page } = visit
  await page.getByRole("button", { name: "Open dialog" }).click()
  const dialog = page.getByRole("dialog", { name: "A dialog" })
  const field = dialog.getByLabel("Inside")
  await field.fill("some words")
  const box = await field.boundingBox()
  await page.mouse.move((box?.x ?? 0) + 20, (box?.y ?? 0) + 10)
  await page.mouse.down()
  await page.mouse.move(10, 10)
  await page.mouse.up()
  expect(await dialog.isVisible()).toBe(true)
  await page.mouse.click(10, 10)
  await dialog.waitFor({ state: "hidden" })
})

test("a busy button takes no second press, and a toast says what was done", async () => {
  await using visit = await openGallery({})
  await visit.page.getByRole("button", { name: "Done" }).click()
  await visit.page.getByText("It was done").waitFor()
  expect(await visit.page.getByRole("button", { name: "Busy" }).getAttribute("aria-disabled")).toBe("true")
})

test("what is copied is in the clipboard, and said", async () => {
  await using visit = await openGallery({})
  await visit.page.getByRole("button", { name: "Copy Terminal" }).click()
  await visit.page.getByRole("button", { name: "Copied" }).waitFor()
  expect(await visit.page.evaluate(() => navigator.clipboard.readText())).toBe("echo one")
})

test("what cannot be copied, as over http from elsewhere, is said", async () => {
  await using visit = await openGallery({})
  // As a browser has it there.
  await visit.page.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: undefined }))
  await visit.page.getByRole("button", { name: "Copy Terminal" }).click()
  await visit.page.getByRole("status").filter({ hasText: "Could not copy" }).waitFor({ state: "attached" })
})

test("a table is sorted by its heads, and says so", async () => {
  await using visit = await openGallery({})
  const head = visit.page.getByRole("columnheader", { name: "Cost" })
  expect(await head.getAttribute("aria-sort")).toBe("descending")
  await head.getByRole("button").click()
  await eventually(async () => expect(await head.getAttribute("aria-sort")).toBe("ascending"))
})

test("a chart's tip has the sum of what is shown; a series is hidden and shown by its name", async () => {
  await using visit = await openGallery({})
  const { page } = visit
  const chart = page.getByRole("figure").first()
  const plot = chart.getByRole("slider", { name: "Spend by model" })
  await plot.scrollIntoViewIfNeeded()
  const box = await plot.locator("canvas").boundingBox()
  await page.mouse.move((box?.x ?? 0) + (box?.width ?? 0) - 20, (box?.y ?? 0) + 60)
  const tip = chart.locator(".chart-tip")
  // The last of 14 days: 13 million and 0.5 million.
  await eventually(async () =>
    expect((await tip.innerText()).split(/\s*\n\s*/)).toEqual([
      "2026-11-21",
      "one",
      "Rp\u00A013",
      "two",
      "Rp\u00A00.5",
      "Sum",
      "Rp\u00A013.50",
      "before",
      "Rp\u00A06",
    ]),
  )
  const legend = chart.getByRole("list", { name: "Legend" })
  const one = legend.getByRole("button", { name: "one" })
  await one.focus()
  await page.keyboard.press("Space")
  expect(await one.getAttribute("aria-pressed")).toBe("false")
  const heads = () => chart.getByRole("columnheader").allInnerTexts()
  await eventually(async () => expect(await heads()).toEqual(["two", "before"]))
  await legend.getByRole("button", { name: "before" }).click()
  await eventually(async () => expect(await heads()).toEqual(["two"]))
  await one.click()
  await legend.getByRole("button", { name: "before" }).click()
  await eventually(async () => expect(await heads()).toEqual(["one", "two", "before"]))
})

test("a range of a chart is chosen by dragging over it, and with the keys, which say what they go over", async () => {
  await using visit = await openGallery({})
  const { page } = visit
  const plot = page.getByRole("slider", { name: "Spend by model" })
  await plot.scrollIntoViewIfNeeded()
  const over = await plot.locator(".u-over").boundingBox()
  const [left = 0, top = 0, width = 0] = [over?.x, over?.y, over?.width]
  const middle = (day: number) => left + ((day + 0.5) / 14) * width
  await page.mouse.move(middle(2), top + 50)
  await page.mouse.down()
  await page.mouse.move(middle(5), top + 60, { steps: 4 })
  await page.mouse.up()
  await page.getByText("from 2026-11-10 to 2026-11-13").waitFor()
  // A press is no drag.
  await page.mouse.click(middle(8), top + 50)
  await plot.focus()
  await page.keyboard.press("Home")
  expect(await plot.getAttribute("aria-valuetext")).toBe("2026-11-08: two Rp\u00A07, Sum Rp\u00A07, before Rp\u00A06")
  await page.keyboard.press("ArrowRight")
  await page.keyboard.press("Shift+ArrowRight")
  await page.keyboard.press("Shift+ArrowRight")
  expect(await plot.getAttribute("aria-valuetext")).toStartWith("2026-11-09 – 2026-11-11: ")
  await page.keyboard.press("Enter")
  await page.getByText("from 2026-11-09 to 2026-11-11").waitFor()
  expect(await page.getByText(/^from /).count()).toBe(2)
})

test("of many series each has a look of its own, and the others together have none of theirs", async () => {
  await using visit = await openGallery({})
  const chart = visit.page.getByRole("figure").nth(1)
  const looks = await chart
    .getByRole("listitem")
    .locator("i")
    .evaluateAll((signs) => signs.map(({ className }) => className))
  expect(looks).toHaveLength(13)
  expect(new Set(looks).size).toBe(13)
  await visit.page.getByRole("heading", { name: "Chart of many" }).scrollIntoViewIfNeeded()
  await visit.screenshot("chart-of-many")
})
