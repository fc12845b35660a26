import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../gateway/harness.ts"
import { type BrowserWorld, everyLook, openBrowser } from "./harness.ts"

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

test("the copied command works when the key stands in it", async () => {
  const { key } = await world.gateway.key(person)
  await using visit = await world.visit({ person })
  await visit.open("/quick-start")
  await visit.page.getByRole("button", { name: "Copy Terminal" }).click()
  await visit.page.getByRole("button", { name: "Copied" }).waitFor()
  const command = await visit.page.evaluate(() => navigator.clipboard.readText())
  const [, url] = /^curl -N (\S+)/.exec(command) ?? []
  const [, body] = /-d '(.*)'/.exec(command) ?? []
  const [, authorization] = /Authorization: ([^']+)/.exec(command.replace("<API_KEY>", key)) ?? []
  const response = await fetch(url ?? "", {
    method: "POST",
    headers: { Authorization: authorization ?? "", "Content-Type": "application/json" },
    body: body ?? "",
  })
  expect(response.status).toBe(200)
  expect((await response.text()).trimEnd()).toEndWith("data: [DONE]")
})

test("each client gets its own address, and models that are served in its format", async () => {
  await using visit = await world.visit({ person })
  await visit.open("/quick-start")
  const { url } = world.gateway
  for (const [client, address, model] of [
    ["OpenAI SDK", `baseURL: "${url}/v1"`, "plain"],
    ["Claude Code", `ANTHROPIC_BASE_URL=${url}\n`, "pesan"],
    ["Codex", `base_url = "${url}/v1"`, "jawaban"],
  ] as const) {
    await visit.page.getByRole("tab", { name: client }).click()
    const code = await visit.page.getByRole("tabpanel", { name: client }).locator("pre").first().innerText()
    expect(code).toContain(address)
    expect(code).toContain(model)
  }
})

test("who has no key is led to where one is made", async () => {
  await using visit = await world.visit({ person: await world.gateway.person() })
  await visit.open("/quick-start")
  expect(await visit.page.getByRole("link", { name: "Create an API key" }).getAttribute("href")).toBe("/dashboard/keys")
})
