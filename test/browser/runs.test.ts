/** A run in the dashboard: in the receipt of one of its calls, above the list of all of them, and in the list of its key's. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../gateway/harness.ts"
import { type BrowserWorld, eventually, everyLook, openBrowser } from "./harness.ts"

const twoLooks = [
  { size: "desktop", language: "id", theme: "light" },
  { size: "phone", language: "en", theme: "dark" },
] as const

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

test.each(everyLook)("a key's runs are listed, followed to their calls, and ended: %o", async (look) => {
  const isIndonesian = look.language === "id"
  const { gateway } = world
  const owner = await gateway.person(100_000)
  const { key, id } = await gateway.key(owner, { name: "Agen" })
  const call = async (headers: Record<string, string>) => {
    const body = { model: "kapal", max_tokens: 100, messages: [{ role: "user", content: "Halo" }] }
    const answer = await gateway.post("/v1/messages", key, body, { headers })
    await answer.text()
    return answer.headers.get("x-error-code") ?? "ok"
  }
  await gateway.sql`
    insert into runs (id, account_id, key_id, name, budget_micro, created_at, ends_at)
    select 'run_' || ${id}::text || n, ${owner.accountId}, ${id}, 'malam-' || n, 1000000, now() - interval '1 hour' + make_interval(secs => n),
      now() + interval '1 day' from generate_series(1, 60) n`
  expect(await call({ "X-Run-Id": "tugas-9", "X-Run-Budget-Rp": "5000" })).toBe("ok")
  await using visit = await world.visit({ ...look, person: owner })
  await visit.open("/keys")
  const { page } = visit
  await visit.openKey("Agen")
  await page.getByRole("button", { name: isIndonesian ? "Run" : "Runs", exact: true }).click()
  const runs = () => page.getByRole("dialog", { name: isIndonesian ? "Run dari Agen" : "Runs of Agen" })
  await runs().getByText("tugas-9").waitFor()
  await runs()
    .getByText(isIndonesian ? /Rp\s0,2 dari Rp\s5\.000/ : /Rp\s0\.2 of Rp\s5,000/)
    .waitFor()
  await visit.expectAccessible()
  await visit.screenshot("runs-of-a-key")
  // The list is paged.
  expect(await runs().getByText("malam-1", { exact: true }).count()).toBe(0)
  await runs()
    .getByRole("button", { name: isIndonesian ? "Muat lebih banyak" : "Load more" })
    .click()
  await runs().getByText("malam-1", { exact: true }).waitFor()
  await runs()
    .getByRole("button", { name: isIndonesian ? "Akhiri tugas-9" : "End tugas-9" })
    .click()
  const asked = page.getByRole("dialog", { name: isIndonesian ? "Akhiri run tugas-9?" : "End the run tugas-9?" })
  await visit.expectAccessible()
  await asked.getByRole("button", { name: isIndonesian ? "Batal" : "Cancel" }).click()
  await runs()
    .getByRole("button", { name: isIndonesian ? "Akhiri tugas-9" : "End tugas-9" })
    .click()
  await asked.getByRole("button", { name: isIndonesian ? "Akhiri run" : "End run" }).click()
  await runs()
    .getByText(isIndonesian ? "sudah berakhir" : "has ended")
    .waitFor()
  expect(await call({ "X-Run-Id": "tugas-9" })).toBe("quota.run_limit_exceeded")
  await runs().getByRole("link", { name: "tugas-9" }).click()
  await page.getByRole("region", { name: "Run" }).getByText("Run tugas-9").waitFor()
})

test.each(twoLooks)("calls are filtered by run, and the run that is shown is ended: %o", async (look) => {
  const isIndonesian = look.language === "id"
  const { gateway } = world
  const owner = await gateway.person(100_000)
  const { key } = await gateway.key(owner, { name: "Agen" })
  const body = { model: "kapal", max_tokens: 100, messages: [{ role: "user", content: "Halo" }] }
  for (const headers of [{ "X-Run-Id": "pagi", "X-Run-Budget-Rp": "5000" }, {}])
    await (await gateway.post("/v1/messages", key, body, { headers })).text()
  await using visit = await world.visit({ ...look, person: owner })
  await visit.open("/usage")
  const { page } = visit
  const calls = page.getByRole("table").getByText("kapal", { exact: true })
  await calls.nth(1).waitFor()
  await page.getByRole("combobox", { name: "Run" }).selectOption({ label: "pagi" })
  const card = page.getByRole("region", { name: "Run" })
  await card.getByText("Run pagi").waitFor()
  await eventually(async () => expect(await calls.count()).toBe(1))
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  await visit.screenshot("usage-of-a-run")
  await card.getByRole("button", { name: isIndonesian ? "Akhiri run" : "End run" }).click()
  await page
    .getByRole("dialog", { name: isIndonesian ? "Akhiri run pagi?" : "End the run pagi?" })
    .getByRole("button", { name: isIndonesian ? "Akhiri run" : "End run" })
    .click()
  await card.getByText(isIndonesian ? "sudah berakhir" : "has ended").waitFor()
  // The question is still on its way out.
  const end = card.getByRole("button", { name: isIndonesian ? "Akhiri run" : "End run" })
  await eventually(async () => expect(await end.count()).toBe(0))
  await page.getByRole("combobox", { name: "Run" }).selectOption("")
  await card.waitFor({ state: "detached" })
})
