/** What operators of each role see: what they may not do is disabled and says why, and owners give roles. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../../gateway/harness.ts"
import { makeOperator } from "../../http/operator/operator.ts"
import { openOperatorWorld, type OperatorWorld } from "./world.ts"

let world: OperatorWorld
let customer: Person

beforeAll(async () => {
  world = await openOperatorWorld()
  customer = await world.gateway.person(100_000)
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
