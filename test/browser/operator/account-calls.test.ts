/** An account and its calls, found and opened by an operator, and the files of the house's lists. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../../gateway/harness.ts"
import { eventually, everyLook } from "../harness.ts"
import { openOperatorWorld, type OperatorWorld, say } from "./world.ts"

let world: OperatorWorld
let customer: Person
let requestId: string

beforeAll(async () => {
  world = await openOperatorWorld()
  const { gateway } = world
  customer = await gateway.person(100_000)
  const { key } = await gateway.key(customer, { name: "Toko daring" })
  const good = await gateway.model({ format: "chat", model: "perahu", script: "input=1000&output=20" })
  const bad = await gateway.model({ format: "chat", model: "bocor", script: "fault=status&status=500" })
  requestId = (await say(world, key, good)).headers.get("x-request-id") ?? ""
  await say(world, key, bad)
}, 60_000)
afterAll(() => world[Symbol.asyncDispose]())

test.each(everyLook)("an account's calls are accessible and fit, with one of them open: %o", async (look) => {
  await using visit = await world.visit({ ...look, person: world.operator })
  const { page } = visit
  await visit.open(`/operator/accounts/${customer.accountId}/calls`)
  await page.getByRole("button", { name: "perahu" }).waitFor()
  await visit.screenshot("operator-calls")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  await page.getByRole("button", { name: "perahu" }).click()
  const drawer = page.getByRole("dialog", { name: requestId })
  await drawer.getByText("Toko daring").waitFor()
  await visit.expectAccessible()
  await page.setViewportSize({ width: 320, height: 640 })
  await visit.expectNoSidewaysScroll()
})

test("an account that its owner's ceiling has paused is told so in the list and on its page, and until when", async () => {
  const person = await world.gateway.person()
  await world.gateway.sql`update accounts set paused_at = now(), paused_until = now() + interval '15 minutes'
    where id = ${person.accountId}`
  await using visit = await world.visit({ person: world.operator, size: "phone" })
  const { page } = visit
  await visit.open(`/operator/accounts?query=${person.accountId}`)
  await page.getByText("Paused", { exact: true }).waitFor()
  await visit.open(`/operator/accounts/${person.accountId}`)
  await page.getByText(/^All its keys are paused since .* They go on by themselves on .*/).waitFor()
  await page.getByText("Paused", { exact: true }).waitFor()
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  await world.gateway.sql`update accounts set paused_until = null where id = ${person.accountId}`
  await visit.open(`/operator/accounts/${person.accountId}`)
  await page.getByText(/They go on once its owner or a member resumes them\.$/).waitFor()
})

test("who else works on an account is shown, with a way to that account", async () => {
  const [owner, member] = [await world.gateway.person(), await world.gateway.person()]
  await world.gateway.sql`insert into members (account_id, member_id, role, invited_by, invitation_hash)
    values (${owner.accountId}, ${member.accountId}, 'billing', ${owner.accountId}, '')`
  await using visit = await world.visit({ person: world.operator, size: "phone" })
  const { page } = visit
  await visit.open(`/operator/accounts/${owner.accountId}`)
  const members = page.getByRole("region", { name: "Members" })
  await members.getByText("Billing").waitFor()
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  await members.getByRole("rowheader").getByRole("link").click()
  await page.waitForURL(new RegExp(`/operator/accounts/${member.accountId}$`))
  // Most have none.
  await page.getByRole("region", { name: "API keys" }).waitFor()
  expect(await members.count()).toBe(0)
})

test("an account's keys are shown to the last one, and freezing counts those that are not revoked", async () => {
  const { gateway } = world
  const person = await gateway.person()
  const { id } = await gateway.key(person, { name: "lama" })
  await gateway.sql`insert into api_keys select r.* from api_keys k, generate_series(1, 119) n, lateral jsonb_populate_record(k,
    jsonb_build_object('id', k.id || '_' || n, 'key_hash', k.id || '_' || n)) r where k.id = ${id}`
  await gateway.sql`update api_keys set revoked_at = now() where id = ${id}`
  await using visit = await world.visit({ person: world.operator })
  const { page } = visit
  await visit.open(`/operator/accounts/${person.accountId}`)
  const keys = page.getByRole("region", { name: "API keys" })
  await eventually(async () => expect(await keys.getByRole("rowheader").count()).toBe(50))
  for (const shown of [100, 120]) {
    await keys.getByRole("button", { name: "Load more" }).click()
    await eventually(async () => expect(await keys.getByRole("rowheader").count()).toBe(shown))
  }
  expect(await keys.getByRole("button", { name: "Load more" }).count()).toBe(0)
  await page.getByRole("button", { name: "Freeze" }).click()
  await page.getByRole("dialog").getByText("All its keys (119) are refused at once").waitFor()
})

test("a leaked key is revoked with a reason, and what works beside it goes on", async () => {
  const { gateway } = world
  const person = await gateway.person()
  const leaked = await gateway.key(person, { name: "bocor" })
  await gateway.key(person, { name: "utuh" })
  await using visit = await world.visit({ person: world.operator, size: "phone" })
  const { page } = visit
  await visit.open(`/operator/accounts/${person.accountId}`)
  const row = (name: string) => page.getByRole("row").filter({ has: page.getByRole("rowheader", { name }) })
  await row("bocor").getByRole("button", { name: "Revoke" }).click()
  const dialog = page.getByRole("dialog", { name: "Revoke the key bocor?" })
  await dialog.getByText("for good").waitFor()
  await visit.expectAccessible()
  await dialog.getByRole("button", { name: "Revoke key" }).click()
  await dialog.getByText(/^Required/).waitFor()
  await dialog.getByRole("textbox", { name: "Reason" }).fill("leaked on a forum")
  await dialog.getByRole("button", { name: "Revoke key" }).click()
  await page.getByText("The key bocor is revoked").waitFor()
  await row("bocor").getByText("Revoked", { exact: true }).waitFor()
  expect(await row("bocor").getByRole("button", { name: "Revoke" }).count()).toBe(0)
  expect(await row("utuh").getByRole("button", { name: "Revoke" }).count()).toBe(1)
  expect((await gateway.post("/v1/chat/completions", leaked.key, {})).status).toBe(401)
  await visit.expectNoSidewaysScroll()
})

test("a call that a customer asks about is found by its request id, from the accounts and on the account's calls", async () => {
  await using visit = await world.visit({ person: world.operator })
  const { page } = visit
  await visit.open("/operator/accounts")
  await page.getByLabel("Search accounts").fill(requestId)
  await page.keyboard.press("Enter")
  const row = page.getByRole("row", { name: new RegExp(customer.accountId) })
  await row.getByRole("button").click()
  const drawer = page.getByRole("dialog", { name: requestId })
  await drawer.getByText("Toko daring").waitFor()
  await page.keyboard.press("Escape")
  await drawer.waitFor({ state: "detached" })
  // Whatever the days and the filters.
  await page.getByLabel("Outcome").selectOption("upstream_error")
  const field = page.getByLabel("Find a request ID")
  await field.fill("1234")
  await field.press("Enter")
  await page.getByText("A request ID begins with req_").waitFor()
  await field.fill(`x-request-id: ${requestId}`)
  await field.press("Enter")
  await drawer.getByText("Toko daring").waitFor()
  await visit.expectAccessible()
})

test("calls are found from the account's page, and filtered; a file has what is shown", async () => {
  await using visit = await world.visit({ person: world.operator })
  const { page } = visit
  await visit.open(`/operator/accounts/${customer.accountId}`)
  await page.getByRole("link", { name: "This account's calls" }).click()
  await page.getByRole("button", { name: "perahu" }).waitFor()
  await visit.expectSteady()
  await page.getByLabel("Outcome").selectOption("upstream_error")
  await page.getByRole("button", { name: "bocor" }).waitFor()
  await eventually(async () => expect(await page.getByRole("button", { name: "perahu" }).count()).toBe(0))
  const file = async () => {
    const started = page.waitForEvent("download")
    await page.getByRole("link", { name: "CSV" }).first().click()
    const download = await started
    return { name: download.suggestedFilename(), text: await Bun.file(await download.path()).text() }
  }
  const calls = await file()
  expect(calls.name).toMatch(/^loket-usage-\d{4}-\d\d-\d\d-to-\d{4}-\d\d-\d\d\.csv$/)
  expect(calls.text.trimEnd().split("\r\n")).toHaveLength(2)
  expect(calls.text).toContain("bocor")
  for (const [path, name] of [
    [`/operator/accounts?query=${customer.accountId}`, "loket-accounts.csv"],
    ["/operator/top-ups?status=paid", "loket-top-ups.csv"],
    ["/operator/audit", "loket-audit.csv"],
    [`/operator/accounts/${customer.accountId}`, "loket-transfers.csv"],
  ] as const) {
    await visit.open(path)
    const made = await file()
    expect(made.name).toBe(name)
    if (name !== "loket-audit.csv") expect(made.text.trimEnd().split("\r\n").length).toBeGreaterThan(1)
  }
})
