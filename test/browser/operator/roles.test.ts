/** What operators of each role see: what they may not do is disabled and says why, and owners give roles. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../../gateway/harness.ts"
import { makeOperator } from "../../http/operator/operator.ts"
import { eventually } from "../harness.ts"
import { openOperatorWorld, type OperatorWorld } from "./world.ts"

let world: OperatorWorld
let customer: Person
let model: string

beforeAll(async () => {
  world = await openOperatorWorld()
  customer = await world.gateway.person(100_000)
  model = await world.gateway.model({ format: "chat", model: "kapal-cepat" })
}, 60_000)
afterAll(() => world[Symbol.asyncDispose]())

test.each([320, 1_920])("support may freeze and no more, and reads why, on a screen of %i px", async (width) => {
  const support = await makeOperator(world.gateway, "support")
  await using visit = await world.visit({ language: "id", person: support })
  const { page } = visit
  await page.setViewportSize({ width, height: 900 })
  await visit.open(`/operator/accounts/${customer.accountId}`)
  expect(await page.getByRole("button", { name: "Sesuaikan saldo" }).isDisabled()).toBe(true)
  expect(await page.getByRole("button", { name: "Ubah peran" }).isDisabled()).toBe(true)
  expect(await page.getByRole("button", { name: "Bekukan" }).isEnabled()).toBe(true)
  await page.getByText("Peran Anda: dukungan (support).").waitFor()
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
})

test("an owner makes somebody finance with a reason, and is told that its own role, the last, stays", async () => {
  await using visit = await world.visit({ language: "id", person: world.operator })
  const { page } = visit
  await visit.open(`/operator/accounts/${customer.accountId}`)
  await page.getByRole("button", { name: "Ubah peran" }).click()
  await page.getByRole("radio", { name: "keuangan" }).check()
  await page.getByLabel("Alasan").fill("Bergabung dengan tim keuangan")
  await visit.expectAccessible()
  await page.getByRole("button", { name: "Ubah peran akun" }).click()
  await page.getByText("Operator: keuangan").waitFor()

  await world.gateway.sql`
    update accounts set operator_role = 'support' where role = 'operator' and id <> ${world.operator.accountId}`
  await visit.open(`/operator/accounts/${world.operator.accountId}`)
  await page.getByRole("button", { name: "Ubah peran" }).click()
  await page.getByRole("radio", { name: "dukungan" }).check()
  await page.getByLabel("Alasan").fill("Salah pilih")
  await page.getByRole("button", { name: "Ubah peran akun" }).click()
  await page.getByText("Pesan aslinya, dalam bahasa Inggris").click()
  await page.getByText("last owner").waitFor()
})

const places = [
  "",
  "/profit",
  "/accounts",
  "/accounts/:account",
  "/accounts/:account/calls",
  "/top-ups",
  "/refunds",
  "/payment-problems",
  "/models",
  "/models/:model",
  "/backends",
  "/billing",
  "/audit",
]

test.each(["support", "finance", "owner"] as const)(
  "nothing that %s sees is refused, and it sees each page",
  async (role) => {
    const person = await makeOperator(world.gateway, role)
    await using visit = await world.visit({ person })
    const { page } = visit
    const refused: string[] = []
    page.on("response", (response) => {
      if (response.status() >= 400) refused.push(`${response.status()} ${new URL(response.url()).pathname}`)
    })
    for (const place of places) {
      await visit.open(
        `/operator${place}`.replace(":account", customer.accountId).replace(":model", encodeURIComponent(model)),
      )
      await page.getByRole("navigation", { name: "Operator sections" }).waitFor()
      expect([place, await page.getByRole("alert").count()]).toEqual([place, 0])
    }
    expect(refused).toEqual([])
  },
)

test("an operator whose two-step verification was turned off elsewhere is told, and asks for no more", async () => {
  await using visit = await world.visit({ person: world.operator })
  const { page } = visit
  await visit.open("/operator")
  let asked = 0
  await page.route("**/operator/overview?*", (route) => {
    asked++
    const body = { error: "no", code: "auth.second_factor_required", retryable: false, request_id: "req_1" }
    return route.fulfill({ status: 403, json: body })
  })
  await page.route("**/account/second-factor", (route) =>
    route.fulfill({ json: { enabled: false, needed: true, recovery_codes_left: 0 } }),
  )
  await page.getByText("Operators need two-step verification").waitFor({ timeout: 30_000 })
  const before = asked
  await Bun.sleep(11_000)
  expect(asked).toBe(before)
})

test("a page stays with what is written in it while it cannot be said whether a second factor is needed", async () => {
  await using visit = await world.visit({ person: world.operator })
  const { page } = visit
  let asked = 0
  await page.route("**/account/second-factor", (route) => {
    asked++
    return route.fulfill({ status: 400, body: "no" })
  })
  await visit.open("/operator/accounts")
  await page.getByRole("searchbox").or(page.getByRole("textbox")).first().fill("half written")
  const before = asked
  await page.evaluate(() => {
    const now = Date.now
    Date.now = () => now() + 60_000
    document.dispatchEvent(new Event("visibilitychange", { bubbles: true }))
  })
  await eventually(async () => expect(asked).toBeGreaterThan(before))
  await Bun.sleep(500)
  expect(await page.getByRole("searchbox").or(page.getByRole("textbox")).first().inputValue()).toBe("half written")
})
