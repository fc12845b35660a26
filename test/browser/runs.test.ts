/** A run in the dashboard: in the receipt of one of its calls, and above the list of all of them. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../gateway/harness.ts"
import { type BrowserWorld, eventually, everyLook, openBrowser } from "./harness.ts"

let world: BrowserWorld
let person: Person
let requestId: string

beforeAll(async () => {
  world = await openBrowser()
  const { gateway } = world
  await gateway.model({ format: "messages", model: "kapal", script: "input=100&output=20" })
  person = await gateway.person(100_000)
  const { key } = await gateway.key(person, { name: "Produksi" })
  const body = { model: "kapal", max_tokens: 100, messages: [{ role: "user", content: "Halo" }] }
  const headers = { "X-Run-Id": "tugas-7", "X-Run-Budget-Rp": "5000" }
  for (const more of [{ headers }, { headers }, {}]) {
    const answer = await gateway.post("/v1/messages", key, body, more)
    expect([answer.status, await answer.text()]).toEqual([200, expect.any(String)])
    if (more.headers !== undefined) requestId = answer.headers.get("x-request-id") ?? ""
  }
})
afterAll(() => world[Symbol.asyncDispose]())

test.each(everyLook)("a run's receipt is accessible and fits: %o", async (look) => {
  const isIndonesian = look.language === "id"
  await using visit = await world.visit({ ...look, person })
  await visit.open(`/usage?request=${requestId}`)
  const dialog = visit.page.getByRole("dialog", { name: isIndonesian ? "Rincian panggilan" : "Call details" })
  await dialog.getByText("Run tugas-7").waitFor()
  await dialog.getByText(isIndonesian ? /Rp\s0,4 dari Rp\s5\.000/ : /Rp\s0\.4 of Rp\s5,000/).waitFor()
  await visit.expectAccessible()
  await dialog.getByRole("link", { name: isIndonesian ? "Lihat semua panggilannya" : "See all its calls" }).click()
  await visit.page.getByRole("region", { name: "Run" }).getByText("Run tugas-7").waitFor()
  const calls = visit.page.getByRole("table").getByText("kapal", { exact: true })
  // While the run's calls are asked for, those of the list before stay.
  await calls.nth(2).waitFor({ state: "detached" })
  await eventually(async () => expect(await calls.count()).toBe(2))
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  await visit.page.getByRole("button", { name: isIndonesian ? "Tampilkan semua panggilan" : "Show all calls" }).click()
  await visit.page.getByRole("region", { name: "Run" }).waitFor({ state: "detached" })
})
