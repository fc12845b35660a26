import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../gateway/harness.ts"
import { type BrowserWorld, everyLook, openBrowser } from "./harness.ts"

let world: BrowserWorld
let person: Person

beforeAll(async () => {
  world = await openBrowser()
  person = await world.gateway.person(100_000)
})
afterAll(() => world[Symbol.asyncDispose]())

test.each(everyLook)("home is accessible and fits: %o", async (look) => {
  await using visit = await world.visit({ ...look, person })
  await visit.open("/")
  await visit.screenshot("home")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
})

test.each(everyLook)("sign-in is accessible and fits: %o", async (look) => {
  await using visit = await world.visit(look)
  await visit.open("/sign-in")
  await visit.screenshot("sign-in")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  expect(await visit.page.title()).toContain("Loket")
})
