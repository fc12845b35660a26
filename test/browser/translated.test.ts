/** A browser that translates pages by itself: what it puts in the place of a text is not the page's own any more. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../gateway/harness.ts"
import { type BrowserWorld, openBrowser } from "./harness.ts"

let world: BrowserWorld
let person: Person

beforeAll(async () => {
  world = await openBrowser()
  person = await world.gateway.person(100_000)
})
afterAll(() => world[Symbol.asyncDispose]())

/** Runs in the page. As translators of browsers do, it replaces each text by elements, but not where the page forbids it. */
function translate(): number {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  const texts: Text[] = []
  while (walker.nextNode()) if (walker.currentNode instanceof Text) texts.push(walker.currentNode)
  const taken = texts.filter(({ data, parentElement }) => data.trim() !== "" && parentElement?.translate === true)
  for (const text of taken) {
    const outer = document.createElement("font")
    const inner = document.createElement("font")
    inner.textContent = text.data
    outer.append(inner)
    text.replaceWith(outer)
  }
  return taken.length
}

test("a key that is made while the browser translates pages shows its secret", async () => {
  await using visit = await world.visit({ person })
  const { page } = visit
  await visit.open("/keys")
  await page.getByRole("button", { name: "Create key" }).first().click()
  const dialog = page.getByRole("dialog")
  await dialog.getByLabel("Name").fill("laptop")
  await page.evaluate(translate)
  await dialog.getByRole("button", { name: "Create key" }).click()
  await page.getByText(/sk-loket-[0-9A-Za-z]{46}/).waitFor({ timeout: 15_000 })
})

test("only the dashboard is left as it is: the pages that are made on the server can be translated", async () => {
  await using visit = await world.visit()
  const { page } = visit
  await visit.open("/sign-in")
  expect(await page.evaluate(translate)).toBe(0)
  await page.goto(`${world.gateway.url}/terms`)
  expect(await page.evaluate(translate)).toBeGreaterThan(10)
})
