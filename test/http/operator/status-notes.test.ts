/** Notes of operators on `/status`: in both languages, as text, bounded, in the audit log, and there while the database is not. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { startTestGateway, type Person, type TestGateway } from "../../gateway/harness.ts"
import { lastNotes } from "../../../src/dashboard/serve/status.ts"
import { caller, makeOperator } from "./operator.ts"

let gateway: TestGateway
let operator: Person
let ask: ReturnType<typeof caller>

beforeAll(async () => {
  gateway = await startTestGateway()
  operator = await makeOperator(gateway, "support")
  ask = caller(gateway, operator)
}, 60_000)
afterAll(() => gateway[Symbol.asyncDispose]())

const post = (id: string, en: string) => ask("/operator/status-notes", { text: { id, en } })
const change = (id: string, body: object) => ask(`/operator/status-notes/${id}`, body, "PATCH")

/** Looks until the page has, or has not, what it is looked at for: it is looked up once a second. */
async function page(language: "id" | "en", shows: (html: string) => boolean): Promise<string> {
  for (;;) {
    const html = await (await fetch(`${gateway.url}/status?lang=${language}`)).text()
    if (shows(html)) return html
    await Bun.sleep(50)
  }
}

test("a note is shown in both languages as text, with its times, then changed, then over", async () => {
  const { status, json } = await post("  Model <b>lambat</b>.\nSedang kami periksa.", "Models are <i>slow</i>.")
  expect(status).toBe(201)
  expect(json).toMatchObject({
    text: { id: "Model <b>lambat</b>.\nSedang kami periksa.", en: "Models are <i>slow</i>." },
    resolved_at: null,
  })
  const english = await page("en", (html) => html.includes("slow"))
  expect(english).toContain("Models are &lt;i&gt;slow&lt;/i&gt;.")
  expect(english).toContain(`<time datetime="${json.created_at}">`)
  expect(english).toContain("What we are working on")
  expect(english).not.toContain("Updated")
  const indonesian = await page("id", (html) => html.includes("lambat"))
  expect(indonesian).toContain("Model &lt;b&gt;lambat&lt;/b&gt;.\nSedang kami periksa.")
  expect(indonesian).toContain("Yang sedang kami tangani")

  const changed = await change(json.id, { text: { id: "Sudah ketemu.", en: "Found." } })
  expect(changed).toMatchObject({ status: 200, json: { text: { en: "Found." }, created_at: json.created_at } })
  expect(await page("en", (html) => html.includes("Found."))).toContain("Updated <time")

  // Of two who write at the same time the later is told, and the first one's words stay.
  const words = { id: "Masih dicari.", en: "Still looking." }
  expect((await change(json.id, { text: words, was: json.text })).status).toBe(400)
  expect((await ask("/operator/status-notes")).json.data).toMatchObject([{ text: { en: "Found." } }])

  const over = await change(json.id, { resolved: true })
  const again = await change(json.id, { resolved: true })
  expect([over.status, again.json.resolved_at]).toEqual([200, over.json.resolved_at])
  const last = await page("en", (html) => html.includes("What was resolved in the last seven days"))
  expect(last).not.toContain("What we are working on")
  await gateway.sql`update status_notes set resolved_at = now() - interval '8 days' where id = ${json.id}`
  await page("en", (html) => !html.includes("Found."))
  expect((await ask("/operator/status-notes")).json.data).toMatchObject([{ id: json.id }])

  const log = (await ask(`/operator/audit?subject=${json.id}`)).json.data as { action: string }[]
  expect(log.map(({ action }) => action)).toEqual([
    "status_note.resolved",
    "status_note.resolved",
    "status_note.changed",
    "status_note.posted",
  ])
  expect(log[2]).toMatchObject({
    operator: { id: operator.accountId },
    before: { en: "Models are <i>slow</i>." },
    after: { id: "Sudah ketemu.", en: "Found.", resolved_at: null },
  })
})

test("at most five are open at once; who resolves one may post another", async () => {
  const posted = []
  for (let n = 0; n < 5; n++) posted.push(await post(`Catatan ${n}`, `Note ${n}`))
  expect(posted.map(({ status }) => status)).toEqual([201, 201, 201, 201, 201])
  const refused = await post("Lagi", "More")
  expect([refused.status, refused.json.error]).toEqual([400, "5 notes are open already."])
  await change(posted[0]?.json.id, { resolved: true })
  expect((await post("Lagi", "More")).status).toBe(201)
})

test.each([
  ["without one language", { text: { id: "Ya", en: "" } }],
  ["of blanks", { text: { id: " \n ", en: "Yes" } }],
  ["too long", { text: { id: "a".repeat(1_001), en: "Yes" } }],
  ["with a control character", { text: { id: "Ya\u0000", en: "Yes" } }],
  ["with half a character", { text: { id: "Ya \ud83d", en: "Yes" } }],
  ["without words", {}],
])("a note %s is refused, new or changed", async (_, body) => {
  expect((await ask("/operator/status-notes", body)).status).toBe(400)
  expect((await change("note_none", body)).status).toBe(400)
})

test("words that were read and are no note's are refused, and a note that has others is not resolved in silence", async () => {
  const [newest] = (await ask("/operator/status-notes")).json.data as { id: string }[]
  await change(newest?.id ?? "", { resolved: true })
  const { json: note } = await post("Lambat.", "Slow.")
  for (const id of ["Ya\u0000", "Ya \ud83d"])
    expect((await change(note.id, { was: { id, en: "Slow." }, resolved: true })).json.code).toBe("request.invalid")
  const stale = await change(note.id, { was: { id: "Padam.", en: "Dark." }, resolved: true })
  expect([stale.status, stale.json.code]).toEqual([400, "request.invalid"])
  const over = await change(note.id, { was: note.text, resolved: true })
  expect([over.status, over.json.resolved_at]).toEqual([200, expect.any(String)])
})

test("one that is not there is not changed, and a customer writes none", async () => {
  expect((await change("note_none", { resolved: true })).status).toBe(404)
  const customer = caller(gateway, await gateway.person())
  expect((await customer("/operator/status-notes", { text: { id: "Ya", en: "Yes" } })).status).toBe(403)
})

test("while the notes cannot be read, the page has those that it had", async () => {
  const at = new Date(0)
  const note = { id: "n", text: { id: "Padam.", en: "Dark." }, createdAt: at, updatedAt: at, resolvedAt: undefined }
  let isAway = false
  const list = () => (isAway ? Promise.reject(new Error("away")) : Promise.resolve([note]))
  const look = lastNotes({ notes: { list }, now: Date.now })
  const found = await look()
  expect(found).toMatchObject([{ text: { en: "Dark." } }])
  isAway = true
  expect(await look()).toEqual(found)
})
