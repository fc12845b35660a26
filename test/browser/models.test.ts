import { afterAll, beforeAll, expect, test } from "bun:test"
import { type BrowserWorld, eventually, everyLook, openBrowser } from "./harness.ts"

let world: BrowserWorld

beforeAll(async () => {
  world = await openBrowser()
  const { gateway } = world
  await gateway.model({
    format: "messages",
    model: "kapal-besar",
    display_name: "Kapal Besar",
    supports_vision: true,
    input_micro: 67_200,
    output_micro: 336_000,
    cache_read_micro: 6_720,
    context_window: 1_000_000,
    endpoints: ["chat", "messages"],
  })
  await gateway.model({
    format: "responses",
    model: "perahu-kecil",
    display_name: "Perahu Kecil",
    supports_tools: false,
    input_micro: 900,
    output_micro: 2_700,
    context_window: null,
  })
})
afterAll(() => world[Symbol.asyncDispose]())

test.each(everyLook)("the catalogue is accessible and fits, also for visitors: %o", async (look) => {
  await using visit = await world.visit(look)
  await visit.open("/models")
  await visit.screenshot("models")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
})

test("prices are per million tokens, exact, in the language's own writing", async () => {
  await using visit = await world.visit({ language: "id" })
  await visit.open("/models")
  const row = visit.page.getByRole("row", { name: /kapal-besar/ })
  await row.waitFor()
  expect(await row.getByRole("cell").allInnerTexts()).toEqual([
    "1\u00A0jt",
    "Rp\u00A067.200",
    "Rp\u00A0336.000",
    "Rp\u00A06.720",
    "Rp\u00A01.250",
    expect.stringMatching(/^Gambar\s+Tools$/),
  ])
})

test("search, filters and order show what they say", async () => {
  await using visit = await world.visit()
  await visit.open("/models")
  const shown = async () => (await visit.page.getByRole("rowheader").allInnerTexts()).map((name) => name.split("\n")[0])
  await eventually(async () => expect(await shown()).toEqual(["Kapal Besar", "Perahu Kecil", "plain"]))
  await visit.page.getByLabel("Sort by").selectOption("output")
  await eventually(async () => expect(await shown()).toEqual(["Perahu Kecil", "plain", "Kapal Besar"]))
  await visit.page.getByLabel("Sort by").selectOption("context")
  await eventually(async () => expect((await shown()).at(-1)).toBe("Perahu Kecil"))
  await visit.page.getByLabel("Format").selectOption("responses")
  await eventually(async () => expect(await shown()).toEqual(["Perahu Kecil"]))
  await visit.page.getByLabel("Tools").check()
  await visit.page.getByText("No model matches").waitFor()
  await visit.page.getByRole("button", { name: "Clear filters" }).click()
  await visit.page.getByLabel("Search models").fill("besar kapal")
  await eventually(async () => expect(await shown()).toEqual(["Kapal Besar"]))
  await visit.page.getByText("1 of 3 models").waitFor()
})

test.each([
  ["id", "Token masukan", "20.000", "20,000"],
  ["en", "Input tokens", "20,000", "20.000"],
] as const)("in %s the calculator takes thousands as they are written there", async (language, label, typed, wrong) => {
  await using visit = await world.visit({ language })
  await visit.open("/models")
  await visit.page.getByRole("table").getByRole("button").first().click()
  const drawer = visit.page.getByRole("dialog")
  const field = drawer.getByLabel(label, { exact: true })
  await field.fill("20000")
  const costs = await drawer.locator("output").innerText()
  await field.fill("2")
  await field.fill(typed)
  expect(await drawer.locator("output").innerText()).toBe(costs)
  await field.fill(wrong)
  expect(await field.getAttribute("aria-invalid")).toBe("true")
})

test("search, filters and order are in the address: a reload, the way back and a link keep them", async () => {
  await using visit = await world.visit()
  const { page } = visit
  await visit.open("/models")
  const shown = async () => (await page.getByRole("rowheader").allInnerTexts()).map((name) => name.split("\n")[0])
  const fields = async () => [
    await page.getByLabel("Search models").inputValue(),
    await page.getByLabel("Format").inputValue(),
    await page.getByLabel("Sort by").inputValue(),
    await page.getByRole("group", { name: "Capabilities" }).getByRole("checkbox", { checked: true }).count(),
  ]
  const before = await page.evaluate(() => history.length)
  await page.getByLabel("Search models").pressSequentially("ka be")
  await page.getByLabel("Format").selectOption("chat")
  await page.getByLabel("Sort by").selectOption("input")
  await page.getByLabel("Images").check()
  await page.getByLabel("Tools").check()
  const address = "?q=ka+be&format=chat&sort=input&can=vision%2Ctools"
  await eventually(async () => expect(new URL(page.url()).search).toBe(address))
  expect(await page.evaluate(() => history.length)).toBe(before)
  const chosen = ["ka be", "chat", "input", 2]
  expect([await fields(), await shown()]).toEqual([chosen, ["Kapal Besar"]])
  await page.reload()
  await visit.settled()
  expect([await fields(), await shown()]).toEqual([chosen, ["Kapal Besar"]])
  // A drawer that is opened and closed keeps them, and so does the way back from another page.
  await page.getByRole("button", { name: /Kapal Besar/ }).click()
  await page.getByRole("dialog", { name: "Kapal Besar" }).waitFor()
  await page.keyboard.press("Escape")
  await page.getByRole("dialog").waitFor({ state: "detached" })
  expect(await fields()).toEqual(chosen)
  await visit.open("/quick-start")
  await page.goBack()
  await visit.settled()
  expect(await fields()).toEqual(chosen)
  await page.getByLabel("Search models").fill("no such model")
  await page.getByRole("button", { name: "Clear filters" }).click()
  await eventually(async () => expect(new URL(page.url()).search).toBe(""))
  await visit.open("/models?format=telex&sort=worst&can=flying,tools")
  expect(await fields()).toEqual(["", "", "name", 1])
})

test("models are found by structured outputs and by the search, of the format that is chosen", async () => {
  await world.gateway.model({
    format: "responses",
    model: "pencari",
    display_name: "Pencari",
    features: ["structured_outputs", "web_search"],
  })
  await using visit = await world.visit()
  const { page } = visit
  const shown = async () => (await page.getByRole("rowheader").allInnerTexts()).map((name) => name.split("\n")[0])
  await visit.open("/models")
  await page.getByLabel("Web search").check()
  await eventually(async () => expect(await shown()).toEqual(["Pencari"]))
  await page.getByLabel("Structured outputs").check()
  await page.getByLabel("Format").selectOption("responses")
  await eventually(async () => expect(await shown()).toEqual(["Pencari"]))
  await page.getByLabel("Format").selectOption("chat")
  await page.getByText("No model matches").waitFor()
  await page.getByLabel("Web search").uncheck()
  await page.getByLabel("Format").selectOption("")
  await eventually(async () => expect(await shown()).toContain("Pencari"))
})

test("a model's details have an address, and the back button closes them", async () => {
  await using visit = await world.visit()
  const { page } = visit
  const drawer = page.getByRole("dialog", { name: "Kapal Besar" })
  await visit.open("/models")
  await page.getByRole("button", { name: /Kapal Besar/ }).click()
  await drawer.waitFor()
  const address = page.url()
  await page.goBack()
  await drawer.waitFor({ state: "detached" })
  expect(page.url()).toEndWith("/models")
  await page.goto(address)
  await drawer.waitFor()
  await page.keyboard.press("Escape")
  await drawer.waitFor({ state: "detached" })
  expect(page.url()).toEndWith("/models")
})

test("the calculator reckons as calls are charged", async () => {
  await using visit = await world.visit()
  await visit.open("/models")
  await visit.page.getByRole("button", { name: /Kapal Besar/ }).click()
  const drawer = visit.page.getByRole("dialog", { name: "Kapal Besar" })
  await drawer.getByLabel("Input tokens").fill("1000")
  await drawer.getByLabel("Read from cache").fill("400")
  await drawer.getByLabel("Output tokens").fill("10")
  await drawer.getByLabel("Calls per day").fill("3")
  // 600 × 67,200 + 400 × 6,720 + 10 × 336,000 micro-rupiah
  await drawer.getByText("Rp\u00A046.37", { exact: true }).waitFor()
  await drawer.getByText("Rp\u00A0139.10", { exact: true }).waitFor()
  await visit.screenshot("models-calculator")
  await visit.expectAccessible()
  await drawer.getByLabel("Read from cache").fill("1001")
  await drawer.getByText("Must not be more than the input tokens.").waitFor()
  await drawer.getByLabel("Output tokens").fill("-3")
  await drawer.getByText("Enter a whole number, 0 or more.").waitFor()
})

test("on a screen of 320 px a model's details fit beside a scroll bar, and none of their words is split", async () => {
  await world.gateway.model({
    format: "chat",
    model: "kapal-lengkap",
    display_name: "Kapal Lengkap",
    endpoints: ["chat", "messages", "responses"],
    features: ["structured_outputs", "reasoning"],
  })
  await using visit = await world.visit({ size: "narrow", language: "id" })
  await visit.page.setViewportSize({ width: 305, height: 640 })
  await visit.open("/models")
  await visit.page.getByRole("button", { name: /Kapal Lengkap/ }).click()
  const drawer = visit.page.getByRole("dialog")
  const formats = drawer.getByRole("definition").filter({ hasText: /^Chat completions/ })
  const [room, longest] = await formats.evaluate((cell) => {
    const word = document.createElement("span")
    word.textContent = "completions,"
    word.style.whiteSpace = "nowrap"
    word.style.position = "absolute"
    cell.append(word)
    const widths = [cell.clientWidth, word.getBoundingClientRect().width]
    word.remove()
    return widths
  })
  expect(room).toBeGreaterThanOrEqual(longest ?? 0)
  const [content, width] = await drawer.evaluate((dialog) => [dialog.scrollWidth, dialog.clientWidth])
  expect(content).toBe(width ?? 0)
  await visit.expectNoSidewaysScroll()
})
