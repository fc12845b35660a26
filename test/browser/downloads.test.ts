/** Files that are downloaded from a page: why there is none, and of which account they are. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../gateway/harness.ts"
import { type BrowserWorld, openBrowser } from "./harness.ts"

let world: BrowserWorld
let owner: Person
let member: Person

const send = async (person: Person, path: string, body: object) => {
  const response = await world.gateway.dashboard(person, path, { method: "POST", body: JSON.stringify(body) })
  if (!response.ok) throw new Error(`${path}: ${await response.text()}`)
  const text = await response.text()
  return (text === "" ? {} : JSON.parse(text)) as Record<string, unknown>
}

beforeAll(async () => {
  world = await openBrowser()
  owner = await world.gateway.person(70_000)
  member = await world.gateway.person(20_000)
  await world.gateway.sql`update accounts set email = 'member@example.com' where id = ${member.accountId}`
  const { path } = await send(owner, "/account/invitations", { email: "member@example.com", role: "billing" })
  await send(member, "/account/memberships", { token: String(path).split("#")[1] })
})
afterAll(() => world[Symbol.asyncDispose]())

test("a file that is refused, and one that breaks off, are told on the page with the reason; at the next press it comes", async () => {
  await using visit = await world.visit({ person: owner, language: "id" })
  const { page } = visit
  await visit.open("/wallet/statement")
  let asked = 0
  await page.route(/statement\.csv/, (route) => {
    asked++
    if (asked === 1)
      return route.fulfill({
        status: 429,
        headers: { "retry-after": "7" },
        json: { error: "Too many.", code: "gateway.capacity", type: "capacity", request_id: "req_1", retryable: true },
      })
    return asked === 2 ? route.abort() : route.continue()
  })
  const link = page.getByRole("link", { name: "Unduh CSV" })
  await link.click()
  await page.getByText(/^Berkas tidak dapat diunduh\..*Coba lagi dalam 7 detik\.$/).waitFor()
  await link.click()
  await page.getByText("Berkas tidak dapat diunduh. Server tidak dapat dihubungi.").waitFor()
  await visit.expectAccessible()
  const [download] = await Promise.all([page.waitForEvent("download"), link.click()])
  expect(download.suggestedFilename()).toMatch(/^loket-.*\.csv$/)
  expect(await Bun.file(await download.path()).text()).toContain("70000")
  visit.complaints.splice(0, Infinity, ...visit.complaints.filter((line) => !line.includes("net::ERR_FAILED")))
})

test("a file is of the account that the page is about, also where another tab has chosen another one a moment ago", async () => {
  await using visit = await world.visit({ person: member })
  const { page } = visit
  await visit.open("/wallet/statement")
  await page.getByText("Rp\u00A020,000").first().waitFor()
  // The page does not hear of it: the network is slow.
  await page.route(/\/(?:events|account)(?:\?|$)/, () => {})
  await send(member, "/auth/look-at", { account_id: owner.accountId })
  const downloads: string[] = []
  page.on("download", (download) => downloads.push(download.suggestedFilename()))
  await page.getByRole("link", { name: "Download CSV" }).click()
  await page.getByText(/^The file could not be downloaded\./).waitFor()
  expect(downloads).toEqual([])
  await page.unrouteAll({ behavior: "ignoreErrors" })
})
