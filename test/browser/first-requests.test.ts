/** What a page needs is asked for at once: nothing waits for an answer that it does not need. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../gateway/harness.ts"
import { eventually } from "./harness.ts"
import { openOperatorWorld, type OperatorWorld } from "./operator/world.ts"

let world: OperatorWorld
let person: Person

beforeAll(async () => {
  world = await openOperatorWorld()
  person = await world.gateway.person(100_000)
})
afterAll(() => world[Symbol.asyncDispose]())

/** Opens a page on which the answers to these questions are held back, and waits until it has asked all of them. */
async function expectAsked(who: Person, path: string, questions: readonly string[]): Promise<void> {
  await using visit = await world.visit({ person: who })
  const { page } = visit
  // As after an earlier visit.
  await page.addInitScript(() => localStorage.setItem("loket-signed-in", "1"))
  const asked: string[] = []
  const { promise: answered, resolve: answer } = Promise.withResolvers<undefined>()
  for (const question of questions)
    await page.route(`**${question}`, async (route) => {
      // The page itself may have the same path.
      if (route.request().resourceType() === "document") return route.continue()
      asked.push(question)
      await answered
      return route.continue()
    })
  await page.goto(`${world.gateway.url}/dashboard${path}`)
  await eventually(async () => expect(new Set(asked)).toEqual(new Set(questions)))
  answer(undefined)
  await visit.settled()
}

test.each([
  ["/", ["/account/summary", "/usage/summary?*", "/account/price-changes", "/usage?*"]],
  ["/wallet", ["/top-ups", "/top-ups/quote?*"]],
  ["/wallet?amount=75000", ["/top-ups", "/top-ups/quote?amount_rp=75000"]],
  ["/wallet/statement", ["/account/statement?*", "/keys?*"]],
] as const)("a customer's %s", (path, questions) => expectAsked(person, path, questions))

test.each([
  ["/operator", ["/account", "/account/second-factor"]],
  ["/operator/profit", ["/operator/profit?*", "/operator/exchange-rates"]],
  ["/operator/billing", ["/operator/billing-health", "/operator/billing-health?*"]],
  [
    "/operator/backends",
    [
      "/operator/backends",
      "/operator/status-notes",
      "/operator/backends/hours",
      "/operator/backends/history",
      "/dashboard/assets/chart-*.js",
    ],
  ],
] as const)("an operator's %s", (path, questions) => expectAsked(world.operator, path, questions))

test("an operator's page of an account", async () => {
  const account = `/operator/accounts/${person.accountId}`
  await expectAsked(world.operator, account, [
    account,
    `${account}/transfers`,
    `${account}/keys`,
    `${account}/refunds`,
    "/operator/top-ups?*",
  ])
})

test("the account is asked for before the code of the page, in whose queue it would stand", async () => {
  await using visit = await world.visit({ person })
  const { page } = visit
  await page.addInitScript(() => localStorage.setItem("loket-signed-in", "1"))
  const asked: string[] = []
  page.on("request", (request) => asked.push(new URL(request.url()).pathname))
  await visit.open("/keys")
  const [main, ...chunks] = asked.filter((path) => path.endsWith(".js"))
  expect(chunks.length).toBeGreaterThan(1)
  expect(asked.indexOf(main ?? "")).toBeLessThan(asked.indexOf("/account"))
  expect(asked.indexOf("/account")).toBeLessThan(asked.indexOf(chunks[0] ?? ""))
})

test("a page asks once what the account's breaker says, also where the answer is sooner than the connection", async () => {
  await using visit = await world.visit({ person })
  const { page } = visit
  const asked: string[] = []
  page.on("request", (request) => asked.push(new URL(request.url()).pathname))
  await page.route("**/events", async (route) => {
    await Bun.sleep(300)
    return route.continue()
  })
  await visit.open("/wallet")
  await page.getByText("Live", { exact: true }).first().waitFor()
  // Longer than what is out of date is left so (`api/live.ts`).
  await page.waitForTimeout(2_000)
  expect(asked.filter((path) => path === "/account/breaker")).toHaveLength(1)
})

test("where there is no connection to follow the account by, its pause is told all the same", async () => {
  const paused = await world.gateway.person(100_000)
  await world.gateway.sql`update accounts set paused_at = now() where id = ${paused.accountId}`
  await using visit = await world.visit({ person: paused })
  // Something between answers nothing, and does not fail either.
  await visit.page.route("**/events", () => new Promise(() => {}))
  await visit.open("/wallet")
  await visit.page.getByText(/All keys are paused since/).waitFor({ timeout: 10_000 })
})
