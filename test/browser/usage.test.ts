import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import type { Locator } from "playwright-core"
import { newRequestId } from "../../src/http/edge.ts"
import type { Person } from "../gateway/harness.ts"
import { type BrowserWorld, eventually, everyLook, openBrowser, type Visit } from "./harness.ts"

const BIG = "kapal-besar"
const SMALL = "perahu-kecil"

let world: BrowserWorld
let person: Person
let keyId: string
/** A streamed answer of odd rates, and a call that went on to another model. */
let answered: string
let rerouted: string
/** A call whose backend failed. */
let failed: string

beforeAll(async () => {
  world = await openBrowser()
  const { gateway } = world
  const rates = { input_micro: 67_213, output_micro: 336_007, cache_read_micro: 6_721 }
  await gateway.model({ format: "messages", model: BIG, script: "input=1001&cached=2003&output=37", ...rates })
  await gateway.model({ format: "messages", model: SMALL, script: "input=10&output=4" })
  await gateway.model({ format: "messages", model: "penuh", script: "fault=status&status=429", fallback: [SMALL] })
  await gateway.model({ format: "messages", model: "rusak", script: "fault=status&status=500" })
  person = await gateway.person(100_000)
  const { id, key } = await gateway.key(person, { name: "Produksi" })
  keyId = id
  answered = await call(key, BIG, { stream: true })
  rerouted = await call(key, "penuh")
  failed = await call(key, "rusak", {}, 502)
  // Before the records that no call left: a later reconciliation would find them, and freeze the account.
  await gateway.server.reconcileIfDue()
  for (const [days, size] of [400, 210, 330, 90, 520].entries()) {
    await record({ status: "ok", size, at: Date.now() - (days + 1) * 86_400_000 })
  }
})
afterAll(() => world[Symbol.asyncDispose]())

/** A call of this status, and its id. */
async function call(key: string, model: string, more: object = {}, status = 200): Promise<string> {
  const body = { model, max_tokens: 100, messages: [{ role: "user", content: "Halo" }], ...more }
  const response = await world.gateway.post("/v1/messages", key, body)
  expect([model, response.status, await response.text()]).toEqual([model, status, expect.any(String)])
  return response.headers.get("x-request-id") ?? ""
}

interface Recorded {
  readonly status: string
  readonly at?: number
  /** So many times as large. */
  readonly size?: number
  readonly absorbed?: number
  readonly charge?: number
}

/** A final record of 100 input and 20 output tokens, of the gateway's price for the small model: 200,000 micro-rupiah. */
async function record({ status, at = Date.now(), size = 1, absorbed = 0, charge }: Recorded) {
  const id = newRequestId(at)
  const charged = charge ?? (status === "ok" ? size * 200_000 : 0)
  await world.gateway.sql`
    insert into usage
    select ${id}, 0, ${person.accountId}, ${keyId}, 1, ${SMALL}, 'chat', true, ${status}, ${100 * size}, ${20 * size}, 0, 0, ${charged}, ${absorbed}, id,
      1, 1, null, false, ${new Date(at)}, 120, 900
    from prices where model = ${SMALL}`
  return id
}

/** The page comes to this query in its address. */
const leadsTo = ({ page }: Visit, query: string) =>
  eventually(async () => expect(await page.evaluate(() => location.search)).toBe(query))

const drawer = (visit: Visit): Locator => visit.page.getByRole("dialog", { name: /Call details|Rincian panggilan/ })

/** Micro-rupiah, of an amount in English as it stands there with every digit. */
function micro(text: string): bigint {
  const [, minus, whole = "", fraction = ""] = /(\u2212?)Rp\u00A0([\d,]+)(?:\.(\d+))?/.exec(text) ?? []
  const amount = BigInt(whole.replaceAll(",", "") + fraction.padEnd(6, "0"))
  return minus === "" ? amount : -amount
}

test.each(everyLook)("usage is accessible and fits: %o", async (look) => {
  await using visit = await world.visit({ ...look, person })
  await visit.open("/usage")
  await visit.page.locator("canvas").waitFor()
  await visit.expectSteady()
  await visit.screenshot("usage")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  if (look.size === "phone") await visit.page.setViewportSize({ width: 320, height: 700 })
  // The chart follows a moment later.
  await eventually(() => visit.expectNoSidewaysScroll())
})

test.each(everyLook)("a receipt is accessible and fits: %o", async (look) => {
  await using visit = await world.visit({ ...look, person })
  await visit.open(`/usage?request=${answered}`)
  await drawer(visit).getByRole("table").waitFor()
  const [content, width] = await drawer(visit).evaluate((dialog) => [dialog.scrollWidth, dialog.clientWidth])
  expect(content).toBe(width ?? 0)
  await visit.screenshot("usage-receipt")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
})

test("the page asks for what it shows, once", async () => {
  await using visit = await world.visit({ person })
  const asked: string[] = []
  visit.page.on("request", (request) => {
    const { pathname } = new URL(request.url())
    if (!pathname.startsWith("/dashboard")) asked.push(pathname)
  })
  await visit.open("/usage")
  const shown = [
    "/about",
    "/account",
    "/account/breaker",
    "/account/memberships",
    "/account/price-changes",
    "/events",
    "/keys",
    "/models",
    "/runs",
    "/usage",
    "/usage/refused",
    "/usage/summary",
    "/usage/summary",
    // Of the period before.
    "/usage/summary",
  ]
  // News asks again: of the account, as a call of another test may end just now, and of the models that were made for the tests.
  const ofNews = ["/account/breaker", "/account/price-changes", "/keys", "/models"]
  const isNews = (path: string, place: number) => ofNews.includes(path) && asked.indexOf(path) !== place
  const first = () => asked.filter((path, place) => !isNews(path, place))
  await eventually(async () => expect(first().toSorted()).toEqual(shown))
  await visit.page.getByRole("tab", { name: "Errors" }).click()
  await visit.page.getByRole("row", { name: /dependency\.upstream_unavailable/ }).waitFor()
  await eventually(async () => expect(first().slice(shown.length)).toEqual(["/usage/errors"]))
})

describe("the receipt", () => {
  test("adds up to the charge, digit by digit", async () => {
    await using visit = await world.visit({ person })
    await visit.open(`/usage?request=${answered}`)
    const rows = drawer(visit).getByRole("table").getByRole("row")
    await rows.first().waitFor()
    const lines = (await rows.allInnerTexts()).slice(1).map((text) => text.split(/\s*[\n\t]+\s*/))
    expect(lines.map(([name, count]) => [name, count])).toEqual([
      ["Input", "1,001 tokens"],
      ["Cache read", "2,003 tokens"],
      ["Cache write", "0 tokens"],
      ["Output", "37 tokens"],
      ["Charged to your balance", expect.any(String)],
    ])
    let sum = 0n
    for (const [, tokens = "", perMillion = "", perToken = "", amount = ""] of lines.slice(0, 4)) {
      expect(micro(perMillion)).toBe(micro(perToken) * 1_000_000n)
      expect(micro(amount)).toBe(BigInt(tokens.replaceAll(/\D/g, "")) * micro(perToken))
      sum += micro(amount)
    }
    expect(sum).toBe(1001n * 67_213n + 2003n * 6_721n + 37n * 336_007n)
    expect(micro(lines.at(-1)?.[1] ?? "")).toBe(sum)
    expect(micro((await drawer(visit).locator("p data").first().innerText()) ?? "")).toBe(sum)
  })

  test("tells how it went", async () => {
    await using visit = await world.visit({ person })
    await visit.open(`/usage?request=${answered}`)
    const fact = (name: string) => drawer(visit).getByRole("term").filter({ hasText: name }).locator("xpath=../dd")
    await eventually(async () => expect(await fact("API key").innerText()).toBe("Produksi"))
    expect(await fact("Format").innerText()).toBe("Messages")
    expect(await fact("Streamed").innerText()).toBe("Yes")
    expect(await fact("Attempts").innerText()).toBe("1")
    expect(await fact("Model turns").innerText()).toBe("1")
    expect(await fact("Price version").innerText()).toMatch(/^#\d+, in force since /)
    expect(await fact("First token").innerText()).toMatch(/ (?:ms|s)$/)
  })

  test("of a rerouted call names the model that was passed over, and the one that answered", async () => {
    await using visit = await world.visit({ person })
    await visit.open(`/usage?request=${rerouted}`)
    await drawer(visit).getByRole("listitem").first().waitFor()
    const steps = await drawer(visit).getByRole("listitem").allInnerTexts()
    expect(steps.map((step) => step.replaceAll(/\s+/g, " ").trim())).toEqual([
      "penuh was busy, so the call went on",
      `${SMALL} answered`,
    ])
  })

  test.each([
    ["id", [/Model gagal menjawab/, /Stream sempat terbuka/, /tokennya tidak bisa dibaca/, /pembukuan biayanya gagal/]],
    [
      "en",
      [/model failed to answer/, /stream opened, but/, /token counts could not be read/, /booking its cost failed/],
    ],
  ] as const)("says why nothing was charged, whatever the status (%s)", async (language, reasons) => {
    await using visit = await world.visit({ person, language })
    const statuses = ["upstream_error", "aborted_stream", "usage_missing", "billing_error"]
    for (const [index, status] of statuses.entries()) {
      await visit.open(`/usage?request=${await record({ status })}`)
      await drawer(visit)
        .getByText(reasons[index] ?? "")
        .waitFor()
      await drawer(visit).getByText("Rp\u00A00", { exact: true }).waitFor()
      expect(await drawer(visit).getByRole("table").count()).toBe(0)
    }
  })

  test.each([
    ["id", ["Penyedia model sedang tidak tersedia.", "Coba lagi sebentar lagi, atau pilih model lain."]],
    ["en", ["Try again in a moment, or choose another model."]],
  ] as const)("of a call that failed says under its code what to do (%s)", async (language, told) => {
    await using visit = await world.visit({ person, language })
    await visit.open(`/usage?request=${failed}`)
    await drawer(visit).getByText("dependency.upstream_unavailable").waitFor()
    for (const words of told) await drawer(visit).getByText(words).waitFor()
  })

  test("shows what the house bore as a line of the sum", async () => {
    const id = await record({ status: "ok", charge: 150_000, absorbed: 50_000 })
    await using visit = await world.visit({ person })
    await visit.open(`/usage?request=${id}`)
    await drawer(visit)
      .getByText(/We bear the difference, Rp\u00A00\.05/)
      .waitFor()
    const rows = await drawer(visit).getByRole("table").getByRole("row").allInnerTexts()
    const [sum, borne, charged] = rows.slice(-3).map(micro)
    expect([sum, borne, charged]).toEqual([200_000n, -50_000n, 150_000n])
  })

  test("closes with Escape and the back button, and gives the focus back to its row", async () => {
    await using visit = await world.visit({ person })
    await visit.open("/usage")
    const row = visit.page.getByRole("table", { name: "Calls" }).getByRole("button", { name: new RegExp(BIG) })
    await row.focus()
    await visit.page.keyboard.press("Enter")
    await drawer(visit).getByRole("table").waitFor()
    await eventually(async () => expect(new URL(visit.page.url()).searchParams.get("request")).toBe(answered))
    await visit.page.keyboard.press("Escape")
    await drawer(visit).waitFor({ state: "hidden" })
    await eventually(async () => expect(await row.evaluate((element) => element === document.activeElement)).toBe(true))
    await leadsTo(visit, "")
    await row.click()
    await drawer(visit).getByRole("table").waitFor()
    await visit.page.goBack()
    await drawer(visit).waitFor({ state: "hidden" })
  })

  test("of an unknown call, or another's, is not found", async () => {
    const other = await world.gateway.person(10_000)
    await using visit = await world.visit({ person: other, language: "id" })
    await visit.open(`/usage?request=${answered}`)
    await drawer(visit).getByText("Panggilan tidak ditemukan").waitFor()
    await drawer(visit).getByRole("button", { name: "Tutup" }).click()
    await drawer(visit).waitFor({ state: "hidden" })
  })

  test("is where a link leads, also by way of signing in", async () => {
    await using visit = await world.visit()
    await visit.open(`/usage?request=${answered}`)
    await leadsTo(visit, `?${new URLSearchParams({ next: `/usage?request=${answered}` })}`)
  })
})

const rows = (visit: Visit) => visit.page.getByRole("table", { name: "Calls" }).getByRole("row")

describe("filters", () => {
  test("are in the address, and hold for the numbers, the list and the file alike", async () => {
    await using visit = await world.visit({ person })
    await visit.open("/usage")
    await visit.page.getByRole("search").getByLabel("Model").selectOption(BIG)
    await visit.page.getByRole("search").getByLabel("Format").selectOption("messages")
    await visit.page.getByText("none failed").waitFor()
    await leadsTo(visit, `?model=${BIG}&format=messages`)
    await visit.settled()
    await eventually(async () => expect(await rows(visit).count()).toBe(2))
    await visit.page.reload()
    await visit.settled()
    await eventually(async () => expect(await rows(visit).count()).toBe(2))
    const [download] = await Promise.all([
      visit.page.waitForEvent("download"),
      visit.page.getByRole("link", { name: "Download CSV" }).click(),
    ])
    const text = await Bun.file(await download.path()).text()
    expect(text.trimEnd().split("\r\n")).toHaveLength(2)
    expect(text).toContain(answered)
    await visit.page.getByRole("button", { name: "Clear filters" }).click()
    await visit.page.getByRole("cell", { name: "Model failed" }).first().waitFor()
    await leadsTo(visit, "")
  })

  test("are taken from what the breakdown and the errors show", async () => {
    await using visit = await world.visit({ person })
    await visit.open("/usage")
    await visit.page.getByRole("tab", { name: "Key" }).click()
    await visit.page.getByRole("table", { name: "Key" }).getByRole("button", { name: "Produksi" }).click()
    await leadsTo(visit, `?key=${keyId}`)
    await visit.page.getByRole("tab", { name: "Errors" }).click()
    await visit.page.getByRole("button", { name: "dependency.upstream_unavailable" }).click()
    await visit.page.getByRole("button", { name: /^Error code dependency\.upstream_unavailable/ }).waitFor()
    await visit.settled()
    await eventually(async () => expect(await rows(visit).count()).toBe(2))
    await eventually(async () => expect(await rows(visit).last().innerText()).toContain("rusak"))
  })

  test("by a reroute list the calls that were passed on", async () => {
    await using visit = await world.visit({ person })
    await visit.open("/usage?status=fallback_429")
    await eventually(async () => expect(await rows(visit).count()).toBe(2))
    await rows(visit).getByRole("button", { name: /penuh/ }).click()
    await drawer(visit).getByText(SMALL).first().waitFor()
  })

  test("that match nothing say so and can be cleared", async () => {
    await using visit = await world.visit({ person, language: "id" })
    await visit.open("/usage?model=tidak-ada")
    await visit.page.getByText("Tidak ada panggilan yang cocok").waitFor()
    await visit.page.getByRole("main").getByRole("button", { name: "Hapus saringan" }).last().click()
    await visit.page
      .getByRole("button", { name: new RegExp(BIG) })
      .first()
      .waitFor()
  })
})

describe("the search", () => {
  test("opens the call of a request id that is typed or pasted, whatever stands around it and whatever is filtered", async () => {
    await using visit = await world.visit({ person })
    await visit.open("/usage?days=1&model=none")
    const field = visit.page.getByLabel("Find a request ID")
    await field.fill(` X-Request-Id: "${answered}" `)
    await visit.page.keyboard.press("Enter")
    await drawer(visit).getByRole("table").waitFor()
    await eventually(async () => expect(new URL(visit.page.url()).searchParams.get("request")).toBe(answered))
    await visit.page.keyboard.press("Escape")
    await drawer(visit).waitFor({ state: "hidden" })
    await field.evaluate((element, text) => {
      const clipboardData = new DataTransfer()
      clipboardData.setData("text", text)
      element.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }))
    }, `request_id=${answered},`)
    await drawer(visit).getByRole("table").waitFor()
  })

  test("says what an id looks like", async () => {
    await using visit = await world.visit({ person })
    await visit.open("/usage")
    await visit.page.getByLabel("Find a request ID").fill("hello")
    await visit.page.getByRole("button", { name: "Find", exact: true }).click()
    await visit.page.getByText("A request ID begins with req_").waitFor()
    await visit.expectAccessible()
  })
})

describe("the chart", () => {
  test("is there as a table, a row for each day and a column for each group", async () => {
    await using visit = await world.visit({ person })
    await visit.open("/usage")
    const table = visit.page.getByRole("table", { name: "Spend", exact: true })
    await eventually(async () => expect(await table.getByRole("row").count()).toBe(8))
    await visit.page.getByLabel("Group").selectOption("model")
    await table.getByRole("columnheader", { name: SMALL }).waitFor()
    await eventually(async () => expect(await table.getByRole("columnheader", { name: BIG }).count()).toBe(1))
    await visit.page.getByRole("radio", { name: "Calls" }).check()
    await visit.page.getByRole("table", { name: "Calls", exact: true }).first().waitFor()
    await leadsTo(visit, "?split=model&show=calls")
  })

  test("has the period before beside it, and is zoomed into by days, from which the back button leads out", async () => {
    await using visit = await world.visit({ person })
    const { page } = visit
    await visit.open("/usage?days=3")
    const table = page.getByRole("table", { name: "Spend", exact: true })
    const rows = () => table.getByRole("row").allInnerTexts()
    // Three days with what the three days before them had: the records of the 3rd, 4th and 5th day before today.
    await eventually(async () => {
      const past = (await rows()).map((row) => row.split("\t").at(-1))
      expect(past).toEqual(["Period before", "Rp\u00A0104", "Rp\u00A018", "Rp\u00A066"])
    })
    const plot = page.getByRole("slider", { name: "Spend" })
    await plot.focus()
    await page.keyboard.press("Home")
    await page.keyboard.press("Shift+ArrowRight")
    await page.keyboard.press("Enter")
    await eventually(async () => expect((await rows()).length).toBe(1 + 48))
    const { searchParams } = new URL(page.url())
    expect(Date.parse(searchParams.get("to") ?? "") - Date.parse(searchParams.get("from") ?? "")).toBe(86_400_000)
    await page.goBack()
    await eventually(async () => expect((await rows()).length).toBe(1 + 3))
    await leadsTo(visit, "?days=3")
    const over = await plot.locator(".u-over").boundingBox()
    const [left = 0, top = 0, width = 0] = [over?.x, over?.y, over?.width]
    await page.mouse.move(left + width * 0.4, top + 50)
    await page.mouse.down()
    await page.mouse.move(left + width * 0.6, top + 60, { steps: 4 })
    await page.mouse.up()
    await eventually(async () => expect((await rows()).length).toBe(1 + 24))
    await page.goBack()
    await leadsTo(visit, "?days=3")
  })

  test("is drawn of each number, by the hour too", async () => {
    await using visit = await world.visit({ person, theme: "dark" })
    await visit.open("/usage?step=hour")
    const captions = { Tokens: "Tokens", Cache: "Share of input read from cache", Latency: "Time to first token" }
    for (const [show, caption] of Object.entries(captions)) {
      await visit.page.getByRole("radio", { name: show }).check()
      const table = visit.page.locator("figure").getByRole("table", { name: caption })
      await table.waitFor({ state: "attached" })
      await eventually(async () => expect(await table.getByRole("row").count()).toBe(1 + 7 * 24))
    }
  })
})

/** Answers of sums wait until they are let go. */
async function slow(visit: Visit) {
  const gate = Promise.withResolvers<void>()
  await visit.page.route("**/usage/summary?*", async (route) => {
    await gate.promise
    await route.continue()
  })
  return gate
}

describe("figures of another range than was asked for", () => {
  test("are dimmed and say of which they are, until those come", async () => {
    await using visit = await world.visit({ person })
    await visit.open("/usage")
    const gate = await slow(visit)
    await visit.page.getByRole("radio", { name: "90 days" }).check()
    const numbers = visit.page.locator(".usage-numbers")
    await numbers.getByText("What is shown is still 7 days.").waitFor()
    expect(await numbers.getAttribute("aria-busy")).toBe("true")
    await eventually(async () =>
      expect(Number(await numbers.locator(".stale-content").evaluate((e) => getComputedStyle(e).opacity))).toBeLessThan(
        1,
      ),
    )
    // The axis is that of the figures.
    expect(await visit.page.getByRole("table", { name: "Spend", exact: true }).getByRole("row").count()).toBe(8)
    gate.resolve()
    await numbers.getByText("What is shown is still").waitFor({ state: "detached" })
    await eventually(async () =>
      expect(await visit.page.getByRole("table", { name: "Spend", exact: true }).getByRole("row").count()).toBe(91),
    )
    await visit.expectAccessible()
  })

  test("say so by their filters too, and offline", async () => {
    await using visit = await world.visit({ person, language: "id" })
    await visit.open("/usage")
    await visit.page.getByRole("search").getByLabel("Format").selectOption("messages")
    await visit.settled()
    await visit.page.context().setOffline(true)
    await visit.page.getByRole("radio", { name: "30 hari" }).check()
    await visit.page.locator(".usage-numbers").getByText("Yang tampil masih 7 hari, Messages.").waitFor()
    await visit.page.context().setOffline(false)
    await visit.page.locator(".usage-numbers").getByText("Yang tampil masih").waitFor({ state: "detached" })
  })
})

describe("the list", () => {
  test("follows calls as they end, goes on a page at a time, and then counts the newer ones", async () => {
    const { gateway } = world
    const busy = await gateway.person(100_000)
    const { key } = await gateway.key(busy)
    // Real ones: an account whose books do not agree may be frozen at any time, and then calls no more.
    const ids = await Promise.all(Array.from({ length: 60 }, () => call(key, SMALL)))
    for (const id of ids) await gateway.usage(busy, id)
    await using visit = await world.visit({ person: busy })
    await visit.open("/usage")
    const rows = visit.page.getByRole("table", { name: "Calls" }).getByRole("rowheader")
    await eventually(async () => expect(await rows.count()).toBe(50))
    await call(key, BIG)
    await rows.first().getByText(BIG).waitFor()
    await eventually(async () => expect(await rows.count()).toBe(50))
    await visit.page.getByRole("button", { name: "Load more" }).click()
    await visit.page.getByRole("button", { name: "Load more" }).waitFor({ state: "hidden" })
    await eventually(async () => expect(await rows.count()).toBe(61))
    await call(key, SMALL)
    await visit.page.getByRole("button", { name: "1 new call" }).waitFor()
    await eventually(async () => expect(await rows.count()).toBe(61))
    expect(await rows.first().innerText()).toContain(BIG)
    await visit.page.getByRole("button", { name: "1 new call" }).click()
    await rows.first().getByText(SMALL).waitFor()
    await eventually(async () => expect(await rows.count()).toBe(50))
  })

  test("follows calls that come one after the other over a network that is slower than they are", async () => {
    const busy = await world.gateway.person(100_000)
    const { key } = await world.gateway.key(busy)
    await using visit = await world.visit({ person: busy })
    await visit.open("/usage")
    // Each answer takes longer than the next call's word that it is out of date.
    await visit.page.route("**/usage?*limit=50*", async (route) => {
      await Bun.sleep(2_500)
      await route.continue()
    })
    const until = Date.now() + 15_000
    const rows = visit.page.getByRole("table", { name: "Calls" }).getByRole("rowheader")
    while (Date.now() < until && (await rows.count()) < 3) {
      await call(key, SMALL)
      await Bun.sleep(300)
    }
    expect(await rows.count()).toBeGreaterThanOrEqual(3)
    await visit.page.unrouteAll({ behavior: "ignoreErrors" })
  })

  test("goes on to the older calls that were asked for, whatever ends while they are on their way", async () => {
    const busy = await world.gateway.person(100_000)
    const { key } = await world.gateway.key(busy)
    const ids = await Promise.all(Array.from({ length: 60 }, () => call(key, SMALL)))
    for (const id of ids) await world.gateway.usage(busy, id)
    await using visit = await world.visit({ person: busy })
    await visit.open("/usage")
    const rows = visit.page.getByRole("table", { name: "Calls" }).getByRole("rowheader")
    await eventually(async () => expect(await rows.count()).toBe(50))
    const gate = Promise.withResolvers<void>()
    await visit.page.route("**/usage?*cursor=*", async (route) => {
      await gate.promise
      await route.continue()
    })
    await visit.page.getByRole("button", { name: "Load more" }).click()
    const newest = visit.page.waitForResponse((response) => /\/usage\?(?!.*cursor=).*limit=50/.test(response.url()))
    await call(key, BIG)
    await newest
    await visit.page.getByRole("button", { name: "1 new call" }).waitFor({ timeout: 5_000 })
    gate.resolve()
    await eventually(async () => expect(await rows.count()).toBe(60))
  })

  test("has no calls that it was not narrowed to, where older ones were on their way when it was", async () => {
    const busy = await world.gateway.person(100_000)
    const [first, last] = [await world.gateway.key(busy), await world.gateway.key(busy, { name: "Terakhir" })]
    for (const [{ key }, calls] of [
      [first, 5],
      [last, 51],
    ] as const) {
      const ids = await Promise.all(Array.from({ length: calls }, () => call(key, SMALL)))
      for (const id of ids) await world.gateway.usage(busy, id)
    }
    await using visit = await world.visit({ person: busy })
    await visit.open("/usage")
    const gate = Promise.withResolvers<void>()
    await visit.page.route("**/usage?*cursor=*", async (route) => {
      await gate.promise
      await route.continue()
    })
    const older = visit.page.waitForResponse(/usage\?.*cursor=/)
    await visit.page.getByRole("button", { name: "Load more" }).click()
    await visit.page.getByRole("search").getByLabel("API key").selectOption(last.id)
    await visit.settled()
    gate.resolve()
    await (await older).finished()
    await visit.page.getByRole("button", { name: "Load more" }).click()
    const rows = visit.page.getByRole("table", { name: "Calls" }).getByRole("rowheader")
    await eventually(async () => expect(await rows.count()).toBe(51))
  })

  test("says which calls are archived, and so neither in it nor in its file", async () => {
    const owner = await world.gateway.person()
    await world.gateway
      .sql`insert into usage_hours (account_id, hour, model, key_id, endpoint, status, calls, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, cache_reads)
      values (${owner.accountId}, '2026-06-30T20:00Z', ${SMALL}, ${keyId}, 'chat', 'ok', 1, 1, 1, 0, 0, 1, 0)`
    await world.gateway
      .sql`insert into archives (name, from_call, until_call, until_at, records, charge_micro, absorbed_micro, bytes, sha256)
      values ('usage_2026_06', '', '', '2026-07-01', 0, 0, 0, 0, '') on conflict do nothing`
    await using visit = await world.visit({ person: owner, size: "phone", language: "id" })
    await visit.open("/usage?from=2026-07-01&to=2026-07-31")
    await visit.page.getByText(/tiba sebelum 1 Jul 2026, 07\.00 sudah diarsipkan/).waitFor()
    await visit.expectAccessible()
    await visit.expectNoSidewaysScroll()
    await visit.open("/usage?from=2026-07-02&to=2026-07-31")
    await visit.page.getByRole("link", { name: "Mulai cepat" }).last().waitFor()
    expect(await visit.page.getByText("diarsipkan").count()).toBe(0)
  })

  test("of a new account says where to begin", async () => {
    await using visit = await world.visit({ person: await world.gateway.person(), size: "phone", language: "id" })
    await visit.open("/usage")
    await visit.page.getByRole("link", { name: "Mulai cepat" }).last().waitFor()
    await visit.expectAccessible()
    await visit.expectNoSidewaysScroll()
  })

  test("that cannot be had says why, with the code and the request, and is asked for again", async () => {
    await using visit = await world.visit({ person })
    const failure = {
      error: "The database is temporarily unreachable.",
      code: "dependency.database_unavailable",
      type: "database_unavailable",
      request_id: "req_of_a_failure",
      retryable: false,
    }
    await visit.page.route("**/usage?*limit=50*", (route) => route.fulfill({ status: 403, json: failure }))
    await visit.open("/usage")
    await visit.page.getByText("req_of_a_failure").waitFor()
    await visit.page.unroute("**/usage?*limit=50*")
    await visit.page.getByRole("button", { name: "Try again" }).click()
    await visit.page.getByRole("table", { name: "Calls" }).waitFor()
  })
})
