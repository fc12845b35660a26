/** Names without a place to break, as long as they may be, and large amounts: nothing sticks out of a narrow screen, and nothing is cut. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../gateway/harness.ts"
import { type BrowserWorld, openBrowser } from "./harness.ts"

const long = (length: number) => "abcdefghij".repeat(length / 10 + 1).slice(0, length)
const EMAIL = `${long(64)}@${long(60)}.${long(60)}.example.com`

let world: BrowserWorld
let owner: Person
let member: Person

beforeAll(async () => {
  world = await openBrowser()
  const { gateway } = world
  owner = await gateway.person(100_000)
  member = await gateway.person()
  await gateway.sql`update accounts set email = ${EMAIL} where id = ${owner.accountId}`
  await gateway.sql`update accounts set email = 'member@example.com' where id = ${member.accountId}`
  const send = async (person: Person, path: string, body: object) =>
    (await (await gateway.dashboard(person, path, { method: "POST", body: JSON.stringify(body) })).json()) as unknown
  const { path } = (await send(owner, "/account/invitations", { email: "member@example.com", role: "viewer" })) as {
    path: string
  }
  await send(member, "/account/memberships", { token: path.split("#")[1] })
  const model = await gateway.model({ format: "chat", model: long(60), script: "input=1000&output=20" })
  const { key } = await gateway.key(owner, { name: long(60) })
  const body = { model, messages: [{ role: "user", content: "Halo" }] }
  await (await gateway.post("/v1/chat/completions", key, body)).text()
})
afterAll(() => world[Symbol.asyncDispose]())

test.each(["/settings", "/keys", "/usage", "/models"])("%s fits", async (path) => {
  await using visit = await world.visit({ person: owner, size: "narrow", language: "id" })
  await visit.open(path)
  await visit.expectNoSidewaysScroll()
})

test("beside a long value its name stays on one line", async () => {
  await using visit = await world.visit({ person: owner, size: "narrow", language: "id" })
  await visit.open("/settings")
  for (const name of ["Alamat e-mail", "ID akun"]) {
    const lines = await visit.page
      .locator("dt")
      .filter({ hasText: new RegExp(`^${name}$`) })
      .evaluate((term) => {
        const text = document.createRange()
        text.selectNodeContents(term)
        return new Set([...text.getClientRects()].map(({ top }) => top)).size
      })
    expect([name, lines]).toEqual([name, 1])
  }
})

test("no balance of a hundred million is cut off, however wide the window is", async () => {
  const { gateway } = world
  const rich = await gateway.person(100_000_000)
  await gateway.topUp(rich, 49_999_999)
  await gateway.sql`
    insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason, created_at)
    values (${`adjustment:before:${rich.accountId}`}, ${rich.accountId}, 'house:adjustments', 19051716050000, 'adjustment', now())`
  await using visit = await world.visit({ person: rich, language: "id" })
  const { page } = visit
  for (const path of ["/", "/wallet", "/wallet/statement", "/usage"]) {
    await visit.open(path)
    for (const width of [320, 360, 390, 768, 900, 1_100, 1_280]) {
      await page.setViewportSize({ width, height: 800 })
      const cut = await page.locator(".stats .money").evaluateAll((amounts) =>
        amounts.flatMap((amount) => {
          const ends = ["stat", "stats"].map((name) => amount.closest(`.${name}`)?.getBoundingClientRect().right ?? 0)
          return amount.getBoundingClientRect().right > Math.min(...ends) ? [amount.textContent] : []
        }),
      )
      expect([path, width, cut]).toEqual([path, width, []])
    }
  }
})

test("in half of a window no column of a table is out of reach", async () => {
  await using visit = await world.visit({ person: owner, language: "id" })
  const { page } = visit
  for (const path of ["/", "/usage", "/keys", "/wallet/statement", "/models", "/settings"]) {
    await page.setViewportSize({ width: 820, height: 800 })
    await visit.open(path)
    const outOfReach = await page.locator("table.data-table:visible").evaluateAll((tables) =>
      tables.flatMap((table) => {
        const card = table.closest(".card")
        const isWithin = (table.getBoundingClientRect().right ?? 0) <= (card?.getBoundingClientRect().right ?? 0)
        let around = table.parentElement
        while (around !== null && around !== card && getComputedStyle(around).overflowX !== "auto")
          around = around.parentElement
        return isWithin || around !== card ? [] : [table.querySelector("caption")?.textContent]
      }),
    )
    expect([path, outOfReach]).toEqual([path, []])
    await visit.expectNoSidewaysScroll()
  }
})

test("in half of a window what a large top-up costs stays on the page", async () => {
  await using visit = await world.visit({ person: owner, language: "id" })
  await visit.page.setViewportSize({ width: 800, height: 800 })
  await visit.open("/wallet?amount=100000000")
  await visit.page.getByRole("button", { name: "Bayar Rp\u00A0100.000.000 dengan QRIS" }).waitFor()
  await visit.expectNoSidewaysScroll()
})

test("in a list on a phone, what a call cost is not pushed out by the model's name", async () => {
  await using visit = await world.visit({ person: owner, size: "narrow", language: "id" })
  await visit.open("/")
  const cost = visit.page.getByRole("table", { name: "Panggilan terbaru" }).getByText("Rp\u00A01,10")
  await cost.waitFor()
  const { x = 0, width = 0 } = (await cost.boundingBox()) ?? {}
  expect(x).toBeGreaterThan(0)
  expect(x + width).toBeLessThanOrEqual(320)
})

test("a line over the page, a dialog and the menu of accounts fit, each with a member's way out in sight", async () => {
  await using visit = await world.visit({ person: member, size: "narrow", language: "id" })
  const { page } = visit
  await visit.open("/settings")
  await page.getByRole("button", { name: /^Keluar dari akun/ }).click()
  const dialog = page.getByRole("dialog")
  await dialog.waitFor()
  expect(await dialog.evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)).toBe(0)
  await dialog.getByRole("button", { name: "Batal" }).click()
  await page.getByRole("button", { name: "Lainnya" }).click()
  const first = page.getByRole("link", { name: "Mulai cepat" }).filter({ visible: true })
  await first.scrollIntoViewIfNeeded()
  expect((await first.boundingBox())?.y).toBeGreaterThanOrEqual(0)
  const accounts = page.getByRole("group", { name: "Ganti akun" }).filter({ visible: true })
  await accounts.getByRole("button", { name: EMAIL }).click()
  await page.getByText("Anda melihat akun").waitFor()
  await visit.expectNoSidewaysScroll()
  await visit.settled()
})
