import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../gateway/harness.ts"
import { type BrowserWorld, everyLook, openBrowser, type Visit } from "./harness.ts"

let world: BrowserWorld
let person: Person

beforeAll(async () => {
  world = await openBrowser()
  person = await world.gateway.person(100_000)
  await world.gateway.key(person, { name: "produksi" })
  await world.gateway.model({ format: "messages", model: "pesan" })
  await world.gateway.model({ format: "responses", model: "jawaban" })
})
afterAll(() => world[Symbol.asyncDispose]())

test.each(everyLook)("quick start is accessible and fits: %o", async (look) => {
  await using visit = await world.visit({ ...look, person })
  await visit.open("/quick-start")
  await visit.screenshot("quick-start")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
})

/** Runs the command that was copied, as a shell would. */
async function run(command: string): Promise<Response> {
  const [, url] = /^curl -N (\S+)/.exec(command) ?? []
  const [, body] = /-d '(.*)'/.exec(command) ?? []
  const [, authorization] = /Authorization: ([^']+)/.exec(command) ?? []
  return fetch(url ?? "", {
    method: "POST",
    headers: { Authorization: authorization ?? "", "Content-Type": "application/json" },
    body: body ?? "",
  })
}

const copied = async ({ page }: Visit): Promise<string> => {
  await page.getByRole("button", { name: "Copy Terminal" }).click()
  await page.getByRole("button", { name: "Copied" }).waitFor()
  return page.evaluate(() => navigator.clipboard.readText())
}

test("the key that is made here stands in the code, which works as it is copied; the page ticks at its call", async () => {
  const newcomer = await world.gateway.person(100_000)
  await using visit = await world.visit({ person: newcomer })
  await visit.open("/quick-start?client=curl")
  await visit.page.getByText("Waiting for your first call…").waitFor()
  await visit.page.getByRole("button", { name: "Make a key and fill it in" }).click()
  await visit.page.getByText("is inside the code").waitFor()
  const command = await copied(visit)
  expect(command).not.toContain("<API_KEY>")
  const response = await run(command)
  expect(response.status).toBe(200)
  expect((await response.text()).trimEnd()).toEndWith("data: [DONE]")
  await visit.page.getByText("It works! Your call has arrived.").waitFor()
  await visit.screenshot("quick-start-ticked")
  expect(await visit.page.evaluate(() => JSON.stringify([localStorage, sessionStorage]))).not.toContain("sk-loket-")
  await visit.page.reload()
  await visit.settled()
  expect(await copied(visit)).toContain("<API_KEY>")
})

test("a call that is refused is told on the page, with its reason", async () => {
  const poor = await world.gateway.person(0)
  await using visit = await world.visit({ person: poor, language: "id" })
  await visit.open("/quick-start?client=curl")
  await visit.page.getByRole("button", { name: "Buat kunci dan isikan" }).click()
  await visit.page.getByText("sudah ada di dalam kode").waitFor()
  await visit.page.getByRole("button", { name: "Salin Terminal" }).click()
  await visit.page.getByRole("button", { name: "Tersalin" }).waitFor()
  const response = await run(await visit.page.evaluate(() => navigator.clipboard.readText()))
  expect(response.status).toBe(402)
  await visit.page.getByText("Panggilan Anda ditolak.").waitFor()
  await visit.page.getByText("Saldo tidak cukup").waitFor()
})

test("a key made among the keys is in the code too, and no more once it is revoked", async () => {
  const maker = await world.gateway.person(100_000)
  await using visit = await world.visit({ person: maker })
  const { page } = visit
  await visit.open("/keys")
  await page.getByRole("button", { name: "Create key" }).first().click()
  const dialog = page.getByRole("dialog")
  await dialog.getByLabel("Name").fill("laptop")
  await dialog.getByRole("button", { name: "Create key" }).click()
  await page.getByRole("link", { name: "How to use it" }).click()
  await page.getByText("The key “laptop” is inside the code.").waitFor()
  const { keys } = {
    keys: (await (await world.gateway.dashboard(maker, "/keys")).json()) as { data: { id: string }[] },
  }
  await world.gateway.dashboard(maker, `/keys/${keys.data[0]?.id ?? ""}/revoke`, { method: "POST" })
  await page.getByText("You have no key yet.").waitFor()
})

test("each client gets its own address, and models that are served in its format", async () => {
  await using visit = await world.visit({ person })
  await visit.open("/quick-start")
  const { url } = world.gateway
  expect(await visit.page.getByRole("tab").first().innerText()).toStartWith("Python")
  for (const [client, address, model] of [
    ["Python: OpenAI SDK", `base_url="${url}/v1"`, "plain"],
    ["Claude Code", `ANTHROPIC_BASE_URL=${url}\n`, "pesan"],
    ["Codex", `base_url = "${url}/v1"`, "jawaban"],
  ] as const) {
    await visit.page.getByRole("tab", { name: client }).click()
    const panel = visit.page.getByRole("tabpanel", { name: client })
    const code = (await panel.locator("pre").allInnerTexts()).join("\n")
    expect(code).toContain(address)
    expect(code).toContain(model)
  }
})

test("the page says what was tried, and of the others whose word it is", async () => {
  await using visit = await world.visit({ person })
  await visit.open("/quick-start?client=codex")
  await visit.page.getByRole("tabpanel", { name: "Codex" }).getByText("Tried", { exact: true }).waitFor()
  await visit.page.getByRole("tab", { name: "Zed" }).click()
  const link = visit.page.getByRole("link", { name: "By its own documentation" })
  expect(await link.getAttribute("href")).toStartWith("https://zed.dev/")
})

test("on a phone the names of all clients can be read, one beside the other", async () => {
  await using visit = await world.visit({ size: "narrow", person })
  await visit.open("/quick-start")
  const tabs = await visit.page
    .getByRole("tab")
    .evaluateAll((all) =>
      all.map((tab) => ({ name: tab.textContent, shown: tab.clientWidth, needed: tab.scrollWidth })),
    )
  expect(tabs.length).toBeGreaterThan(20)
  expect(tabs.filter(({ shown, needed }) => needed > shown)).toEqual([])
  await visit.expectNoSidewaysScroll()
})
