/** Where the system chooses all colours, as with Windows' contrast themes, backgrounds are gone: what is chosen, on or used up is seen all the same. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Locator } from "playwright-core"
import type { Person } from "../gateway/harness.ts"
import { openOperatorWorld, type OperatorWorld, say } from "./operator/world.ts"

let world: OperatorWorld
let person: Person

beforeAll(async () => {
  world = await openOperatorWorld()
  const { gateway } = world
  person = await gateway.person(100_000)
  const model = await gateway.model({ format: "chat", model: "kapal-cepat", script: "input=1000&output=20" })
  const { key } = await gateway.key(person, {
    name: "laptop",
    spending_limit_micro: 200_000_000,
    spending_period: "daily",
  })
  await say(world, key, model)
})
afterAll(() => world[Symbol.asyncDispose]())

/** The colours behind an element's words, of the words, and below it. The page is black here. */
const painted = (element: Locator) =>
  element.evaluate((it) => {
    const { backgroundColor, color, borderBlockEnd } = getComputedStyle(it)
    return [backgroundColor.replace("rgba(0, 0, 0, 0)", "rgb(0, 0, 0)"), color, borderBlockEnd]
  })

async function visitPlainly(who: Person) {
  const visit = await world.visit({ person: who, theme: "dark" })
  await visit.page.emulateMedia({ forcedColors: "active", colorScheme: "dark" })
  return visit
}

test.each([
  ["/usage", ".choice-options :checked + span", ".choice-options :not(:checked) + span"],
  ["/usage", ".navigation-link[aria-current]", ".navigation-link:not([aria-current])"],
  ["/usage", "[role=tab][aria-selected=true]", "[role=tab][aria-selected=false]"],
  ["/wallet", ".presets [aria-pressed=true]", ".presets [aria-pressed=false]"],
  ["/operator", "main nav a[aria-current]", "main nav a:not([aria-current])"],
] as const)("on %s what %s finds looks unlike the others", async (path, chosen, other) => {
  await using visit = await visitPlainly(path === "/operator" ? world.operator : person)
  const { page } = visit
  await visit.open(path)
  const [one, another] = [chosen, other].map((selector) => page.locator(selector).filter({ visible: true }).first())
  if (one === undefined || another === undefined) throw new Error("two were asked for")
  expect(await painted(one)).not.toEqual(await painted(another))
})

test("how much of a budget is used is seen in its bar", async () => {
  await using visit = await visitPlainly(person)
  await visit.open("/keys")
  const bar = visit.page.getByRole("meter").first()
  await bar.waitFor()
  expect((await painted(bar.locator("div").first()))[0]).toBe("rgb(255, 255, 255)")
  expect(await bar.evaluate((element) => getComputedStyle(element).borderWidth)).toBe("1px")
})

test("a switch has an edge, and its thumb is seen", async () => {
  await using visit = await visitPlainly(world.operator)
  await visit.open("/operator/payment-problems")
  const it = visit.page.getByRole("switch").first()
  const [[ground], [thumb]] = [await painted(it), await painted(it.locator(".switch-thumb"))]
  expect(thumb).not.toBe(ground)
  expect(await it.evaluate((element) => getComputedStyle(element).borderWidth)).toBe("1px")
})
