import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../gateway/harness.ts"
import { type BrowserWorld, eventually, everyLook, openBrowser, type Visit } from "./harness.ts"

const ANSWER = `Pakai \`Intl.NumberFormat\`:

\`\`\`ts
const rupiah = new Intl.NumberFormat("id-ID", { style: "currency", currency: "IDR" })
\`\`\`

<img src=x onerror="document.title='injected'"> tetap teks.`

const PICTURED = `Pakai \`Intl.NumberFormat\` dengan bahasa \`id-ID\`:

\`\`\`ts
const rupiah = new Intl.NumberFormat("id-ID", {
  style: "currency",
  currency: "IDR",
})
console.log(rupiah.format(125_000))
\`\`\`

Hasilnya \`Rp 125.000,00\`.`

let world: BrowserWorld
let person: Person

beforeAll(async () => {
  world = await openBrowser()
  person = await world.gateway.person(100_000)
  const { gateway } = world
  const told = `text=${encodeURIComponent(ANSWER)}&input=1200`
  await gateway.model({ format: "chat", model: "menjawab", display_name: "Menjawab", script: told })
  await gateway.model({
    format: "chat",
    model: "claude-sonnet-5-5",
    display_name: "Claude Sonnet 5.5",
    input_micro: 50_400,
    output_micro: 252_000,
    script: `text=${encodeURIComponent(PICTURED)}&input=214`,
  })
  await gateway.model({ format: "chat", model: "lambat", display_name: "Lambat", script: "output=100&pace=60" })
  await gateway.model({
    format: "chat",
    model: "putus",
    display_name: "Putus",
    script: "fault=cut&after=2&output=50",
  })
  await gateway.model({ format: "messages", model: "pesan-saja", display_name: "Pesan saja" })
})
afterAll(() => world[Symbol.asyncDispose]())

/** Opens the playground with a trial key, for this model. */
async function begin(visit: Visit, model: string) {
  await visit.open(`/playground?model=${model}`)
  await visit.page.getByRole("button", { name: /^(Make a trial key|Buat kunci percobaan)$/ }).click()
  await visit.page.getByRole("textbox", { name: /^(Message|Pesan)$/ }).waitFor()
}

async function say(visit: Visit, words: string) {
  await visit.page.getByRole("textbox", { name: /^(Message|Pesan)$/ }).fill(words)
  await visit.page.getByRole("button", { name: /^(Send|Kirim)$/ }).click()
}

const keysOf = async (owner: Person) => {
  const { data } = (await (await world.gateway.dashboard(owner, "/keys")).json()) as {
    data: { name: string; status: string; spending_limit_micro: number; spending_period: string; expires_at: string }[]
  }
  return data
}

test.each(everyLook)("the playground is accessible and fits: %o", async (look) => {
  await using visit = await world.visit({ ...look, person })
  await visit.open("/playground")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  await begin(visit, "claude-sonnet-5-5")
  await say(visit, look.language === "id" ? "Bagaimana memformat rupiah?" : "How do I format rupiah?")
  await visit.page.getByRole("link", { name: /^(See in Usage|Lihat di Pemakaian)$/ }).waitFor()
  await visit.page.getByText(/^(1 call|1 panggilan)$/).waitFor()
  await visit.screenshot("playground")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
})

test("an answer streams as text and code, and shows what the record says that it cost", async () => {
  const asker = await world.gateway.person(100_000)
  await using visit = await world.visit({ person: asker })
  const { page } = visit
  await begin(visit, "menjawab")
  await say(visit, "How?")
  const link = page.getByRole("link", { name: "See in Usage" })
  const requestId = new URLSearchParams((await link.getAttribute("href"))?.split("?")[1]).get("request") ?? ""
  const record = await world.gateway.usage(asker, requestId)
  expect(record["input_tokens"]).toBe(1_200)
  const charge = Number(record["charge_micro"])
  expect(charge).toBe(1_200 * 1_000 + Number(record["output_tokens"]) * 5_000)
  const shown = page.locator(".exchange-cost data")
  await shown.waitFor()
  await eventually(async () => expect(await shown.getAttribute("value")).toBe(String(charge)))
  expect(await page.locator("pre").innerText()).toContain("new Intl.NumberFormat")
  await page.getByText("tetap teks.").waitFor()
  await page.getByRole("status").filter({ hasText: "The answer has ended" }).waitFor()
  expect(await page.locator("main img").count()).toBe(0)
  expect(await page.title()).toStartWith("Playground")

  await say(visit, "And then?")
  await page.getByText("2 calls").waitFor()
  await eventually(async () =>
    expect(await page.locator(".playground-sum data").getAttribute("value")).toBe(String(2 * charge)),
  )
  const [, second] = world.gateway.simulator.calls.filter(({ model }) => model.startsWith("menjawab")).slice(-2)
  expect(second?.body?.["messages"]).toMatchObject([{ content: "How?" }, { content: ANSWER }, { content: "And then?" }])
  await page.getByRole("button", { name: "New conversation" }).click()
  await page.getByText("Ask something").waitFor()
})

test("what a message would cost at the most is told before it is sent, and why it would be refused", async () => {
  const asker = await world.gateway.person(10_000)
  await using visit = await world.visit({ person: asker })
  const { page } = visit
  await begin(visit, "menjawab")
  const message = page.getByRole("textbox", { name: "Message" })
  const before = world.gateway.simulator.calls.length
  await message.fill("How?")
  const told = page.getByText(/^About Rp\s[0-9.,]+ at the most\.$/)
  await told.waitFor()
  // 1,024 tokens of 5,000 micro, and a few of input.
  expect(Number((await told.innerText()).replaceAll(/[^0-9.]/g, "").replace(/\.$/, ""))).toBeCloseTo(5.13, 0)
  await message.fill("How long? ".repeat(100_000))
  await page.getByText(/prompt is too long/).waitFor()
  await message.fill("")
  await page.getByText("Enter sends").waitFor()
  expect(world.gateway.simulator.calls.length).toBe(before)
  expect(await world.gateway.balance(asker)).toMatchObject({ balance_micro: 10_000_000_000, held_micro: 0 })
})

test("a trial key has a small budget, expires after a day, and is revoked when the page is left", async () => {
  const asker = await world.gateway.person(100_000)
  await using visit = await world.visit({ person: asker })
  await begin(visit, "menjawab")
  const [trial, ...others] = await keysOf(asker)
  expect(others).toEqual([])
  expect(trial).toMatchObject({ status: "active", spending_limit_micro: 5_000_000_000, spending_period: "total" })
  const lastsMs = Date.parse(trial?.expires_at ?? "") - Date.now()
  expect(lastsMs).toBeWithin(23 * 3_600_000, 24 * 3_600_000 + 1)
  await visit.page.getByRole("link", { name: "API keys" }).click()
  await visit.page.getByText("1 revoked key").first().waitFor()
  expect(await keysOf(asker)).toMatchObject([{ status: "revoked" }])
})

test("a trial key is revoked when the browser leaves the page altogether", async () => {
  const asker = await world.gateway.person(100_000)
  await using visit = await world.visit({ person: asker })
  await begin(visit, "menjawab")
  await visit.page.goto("about:blank")
  while ((await keysOf(asker))[0]?.status !== "revoked") await Bun.sleep(20)
})

test("a trial key that outlived its page is revoked by the first visit after a day, and no sooner", async () => {
  const asker = await world.gateway.person()
  const { id: old } = await world.gateway.key(asker, { name: "old" })
  const { id: young } = await world.gateway.key(asker, { name: "young" })
  await using visit = await world.visit({ person: asker })
  await visit.open("/models")
  const day = 24 * 60 * 60 * 1_000
  const left = { [old]: Date.now() - day, [young]: Date.now() - day / 2 }
  await visit.page.evaluate((keys) => localStorage.setItem("loket.trial-keys", keys), JSON.stringify(left))
  await visit.open("/playground")
  const states = async () => Object.fromEntries((await keysOf(asker)).map(({ name, status }) => [name, status]))
  while ((await states())["old"] !== "revoked") await Bun.sleep(20)
  expect(await states()).toEqual({ old: "revoked", young: "active" })
})

test("a pasted key works, is told apart from what is none, and is stored nowhere", async () => {
  const asker = await world.gateway.person(100_000)
  const { key } = await world.gateway.key(asker)
  await using visit = await world.visit({ person: asker, size: "phone", language: "id" })
  const { page } = visit
  await visit.open("/playground?model=menjawab")
  const field = page.getByRole("textbox", { name: "Atau tempel kunci Anda" })
  await field.fill("sk-loket-bukan")
  await page.getByRole("button", { name: "Pakai" }).click()
  await page.getByText("Ini bukan kunci Loket yang lengkap.").waitFor()
  await field.fill(` ${key} `)
  await page.getByRole("button", { name: "Pakai" }).click()
  await say(visit, "Halo")
  await page.getByText("1 panggilan").waitFor()
  const stored = await page.evaluate(
    () => [localStorage, sessionStorage].map((storage) => JSON.stringify(storage)).join() + document.cookie,
  )
  expect(stored).not.toContain(key.slice(9))
  expect(await page.content()).not.toContain(key)
})

test("an answer that is stopped ends at once, and its cost is told when it is known", async () => {
  await using visit = await world.visit({ person })
  const { page } = visit
  await begin(visit, "lambat")
  await say(visit, "Long, please")
  await page.getByText("the quick").waitFor()
  await page.getByRole("button", { name: "Stop" }).click()
  await page.getByRole("button", { name: "Send", exact: true }).waitFor()
  await page.getByText(/^Stopped/).waitFor()
  await page.getByText("100 out").waitFor()
  expect(Number(await page.locator(".exchange-cost data").getAttribute("value"))).toBeGreaterThan(500_000)
})

test("what is not sent yet is there again after a look at another page, and gone for who signs in next", async () => {
  await using visit = await world.visit({ person: await world.gateway.person(100_000) })
  const { page } = visit
  const field = page.getByRole("textbox", { name: "Message" })
  await begin(visit, "menjawab")
  await field.fill("Not done yet")
  await page.getByRole("link", { name: "Wallet" }).click()
  await page.getByRole("link", { name: "Playground" }).click()
  await page.getByRole("button", { name: "Make a trial key" }).click()
  expect(await field.inputValue()).toBe("Not done yet")
  expect(await page.locator(".playground-model").textContent()).toBe("Menjawab")

  await page.getByRole("button", { name: /^Account: / }).click()
  await page.getByRole("button", { name: "Sign out" }).click()
  const account = await world.gateway.dashboard(await world.gateway.person(), "/account")
  const { email } = (await account.json()) as { email: string }
  await page.getByLabel("E-mail address").fill(email)
  await page.getByLabel("Password").fill("correct horse battery")
  await page.getByRole("button", { name: "Sign in" }).click()
  await page.getByRole("link", { name: "Ruang coba" }).click()
  await page.getByRole("button", { name: "Buat kunci percobaan" }).click()
  expect(await page.getByRole("textbox", { name: "Pesan" }).inputValue()).toBe("")
})

test("Enter sends, and Shift and Enter begin a new line", async () => {
  await using visit = await world.visit({ person })
  const { page } = visit
  await begin(visit, "menjawab")
  // The message has the focus.
  await page.getByRole("textbox", { name: "Message" }).and(page.locator(":focus")).waitFor()
  await page.keyboard.type("One")
  await page.keyboard.press("Shift+Enter")
  await page.keyboard.type("Two")
  await page.keyboard.press("Enter")
  await page.getByText("1 call").waitFor()
  const call = world.gateway.simulator.calls.findLast(({ model }) => model.startsWith("menjawab"))
  expect(call?.body?.["messages"]).toEqual([{ role: "user", content: "One\nTwo" }])
})

test("a stream that breaks off says so with its code and request id, and can be sent again", async () => {
  await using visit = await world.visit({ person })
  const { page } = visit
  await begin(visit, "putus")
  await say(visit, "Hello")
  const alert = page.getByRole("alert")
  await alert.getByText("upstream_unavailable").waitFor()
  await alert.getByText(/^req_/).waitFor()
  await page.getByText("Not charged", { exact: true }).waitFor()
  expect(await page.getByText("The answer has ended").count()).toBe(0)
  await page.getByRole("button", { name: "Send again" }).click()
  await alert.getByText("upstream_unavailable").waitFor()
  await eventually(async () => expect(await page.getByRole("listitem").filter({ hasText: "Hello" }).count()).toBe(1))
})

test("without a key a question that failed is not offered to be sent again, and with one it is", async () => {
  await using visit = await world.visit({ person })
  const { page } = visit
  await begin(visit, "putus")
  await say(visit, "Hello")
  const again = page.getByRole("button", { name: "Send again" })
  await again.waitFor()
  await page.getByRole("button", { name: "Revoke now" }).click()
  const make = page.getByRole("button", { name: "Make a trial key" })
  await make.waitFor()
  expect(await again.count()).toBe(0)
  await make.click()
  await again.click()
  await eventually(async () => expect(await page.getByText("Not charged", { exact: true }).count()).toBe(1))
})

test("what went wrong is told in the page's language, and in the server's own words for who asks", async () => {
  await using visit = await world.visit({ person, language: "id" })
  await begin(visit, "putus")
  await say(visit, "Halo")
  const alert = visit.page.getByRole("alert")
  await alert.getByText("Penyedia model terputus atau tidak tersedia.").waitFor()
  expect(await alert.getByText("The model's backend").isVisible()).toBe(false)
  await alert.getByText("Pesan aslinya, dalam bahasa Inggris").click()
  await alert.getByText("The model's backend broke off in the middle of its answer").waitFor()
})

test("without money the refusal leads to the wallet", async () => {
  await using visit = await world.visit({ person: await world.gateway.person() })
  const { page } = visit
  await begin(visit, "menjawab")
  await say(visit, "Hello")
  await page.getByRole("alert").getByText("billing.insufficient_balance").waitFor()
  expect(await page.getByText("The answer has ended").count()).toBe(0)
  expect(await page.getByRole("link", { name: "Top up" }).getAttribute("href")).toBe("/dashboard/wallet")
})

test("a model of the catalogue leads here", async () => {
  await using visit = await world.visit({ person })
  const { page } = visit
  await visit.open("/models")
  await page.getByRole("button", { name: /Menjawab/ }).click()
  await page.getByRole("link", { name: "Try in the playground" }).click()
  await page.getByRole("heading", { name: "Playground", level: 1 }).waitFor()
  expect(await page.getByLabel("Model").inputValue()).toBe("menjawab")
})

test("only models of chat completions are offered, and the answer limit is held", async () => {
  await using visit = await world.visit({ person })
  const { page } = visit
  await begin(visit, "menjawab")
  expect(await page.getByLabel("Model").locator("option").allInnerTexts()).not.toContain("Pesan saja")
  await page.getByRole("textbox", { name: "Answer limit" }).fill("9000")
  await page.getByText("Enter a whole number from 1 to 8,192.", { exact: true }).waitFor()
  await say(visit, "Hello")
  expect(await page.getByRole("textbox", { name: "Message" }).inputValue()).toBe("Hello")
  await page.getByRole("textbox", { name: "Answer limit" }).fill("3")
  await page.getByRole("textbox", { name: "System prompt" }).fill("Be brief.")
  await page.getByRole("button", { name: "Send" }).click()
  await page.getByText("1 call").waitFor()
  const call = world.gateway.simulator.calls.findLast(({ model }) => model.startsWith("menjawab"))
  expect(call?.body).toMatchObject({
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "Hello" },
    ],
  })
  expect([call?.body?.["max_tokens"], call?.body?.["max_completion_tokens"]]).toContain(3)
})

test("a kept conversation that is opened in the middle of an answer is shown as it was", async () => {
  await using visit = await world.visit({ person })
  const { page } = visit
  await begin(visit, "menjawab")
  await say(visit, "Kept")
  await page.getByText("1 call").waitFor()
  await begin(visit, "lambat")
  await say(visit, "Long, please")
  await page.getByText("the quick").waitFor()
  await page.getByRole("button", { name: "History" }).click()
  await page.getByRole("dialog").getByRole("button", { name: /^Kept/ }).click()
  await page.getByRole("button", { name: "Send", exact: true }).waitFor()
  await page.locator(".exchange-question").getByText("Kept").waitFor()
  await page.getByText("1 call").waitFor()
  expect(await page.getByText(/^Stopped/).count()).toBe(0)
})
