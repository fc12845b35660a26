/** An account's calls as its owner lists them, and files of the house's lists: whole, safe in a spreadsheet, and of the same filters. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { micro } from "../../../actors/money/micro.ts"
import { csvFile, csvLine, Rupiah } from "../../../src/http/dashboard/page.ts"
import { startTestGateway, type Person, type TestGateway } from "../../gateway/harness.ts"
import { caller, makeOperator } from "./operator.ts"

let gateway: TestGateway
let operator: Person
let customer: Person
let other: Person
let ask: ReturnType<typeof caller>
let theirs: ReturnType<typeof caller>
let requestId: string

beforeAll(async () => {
  gateway = await startTestGateway()
  operator = await makeOperator(gateway)
  ask = caller(gateway, operator)
  customer = await gateway.person(50_000)
  other = await gateway.person(50_000)
  theirs = caller(gateway, customer)
  const good = await gateway.model({ format: "chat", model: "baik" })
  const bad = await gateway.model({ format: "chat", model: "buruk", script: "fault=status&status=400" })
  for (const [person, model] of [
    [other, good],
    [customer, bad],
    [customer, good],
  ] as const) {
    const body = { model, max_tokens: 50, messages: [{ role: "user", content: "hi" }] }
    const response = await gateway.post("/v1/chat/completions", (await gateway.key(person)).key, body)
    await response.text()
    requestId = response.headers.get("x-request-id") ?? ""
  }
  while ((await theirs("/usage")).json.data.length < 2) await Bun.sleep(20)
})
afterAll(() => gateway[Symbol.asyncDispose]())

const file = async (path: string) => {
  const response = await gateway.dashboard(operator, path)
  expect([response.status, response.headers.get("content-type")]).toEqual([200, "text/csv; charset=utf-8"])
  return (await response.text()).trimEnd().split("\r\n")
}
const path = (rest: string) => `/operator/accounts/${customer.accountId}${rest}`

test.each(["", "?model=buruk", "?status=ok", "?limit=1", "?from=2026-01-01&to=2026-01-02"])(
  "an account's calls are what its owner lists: %s",
  async (query) => {
    const { data } = (await ask(path(`/usage${query}`))).json
    expect(data).toEqual((await theirs(`/usage${query}`)).json.data)
  },
)

test("one of its calls is what its owner sees, and another's is not there", async () => {
  expect((await ask(path(`/usage/${requestId}`))).json).toEqual((await theirs(`/usage/${requestId}`)).json)
  const foreign = await ask(`/operator/accounts/${other.accountId}/usage/${requestId}`)
  expect([foreign.status, foreign.json.code]).toEqual([404, "usage.not_found"])
  expect((await ask("/operator/accounts/acc_none/usage")).status).toBe(404)
})

/** Of the customer's own calls. */
const owners = async (query: string) =>
  (await (await gateway.dashboard(customer, `/usage/export.csv${query}`)).text()).trimEnd().split("\r\n")

test("its calls as CSV are its owner's file, with the same filters", async () => {
  for (const query of ["", "?status=ok"])
    expect(await file(path(`/usage/export.csv${query}`))).toEqual(await owners(query))
  expect(await file(path("/usage/export.csv?status=ok"))).toHaveLength(2)
})

test("accounts, top-ups, transfers and the audit log are files of their lists", async () => {
  await ask(path("/adjustments"), { amount_micro: 5, reason: '=HYPERLINK("http://evil")', idempotency_key: "k" })
  const [heads, row, ...rest] = await file(`/operator/accounts/export.csv?query=${customer.accountId}`)
  const [account] = (await ask(`/operator/accounts?query=${customer.accountId}`)).json.data
  expect([heads?.split(","), rest]).toEqual([Object.keys(account), []])
  expect(row?.split(",").slice(0, 4)).toEqual([account.id, account.email, "customer", ""])
  expect(await file("/operator/accounts/export.csv")).toHaveLength(
    (await ask("/operator/accounts")).json.data.length + 1,
  )

  const paid = await file("/operator/top-ups/export.csv?status=paid")
  expect(paid).toHaveLength(3)
  expect(paid[0]).toStartWith("account_id,email,")
  expect(await file("/operator/top-ups/export.csv?status=expired")).toHaveLength(1)

  const transfers = await file(path("/transfers/export.csv"))
  const listed = (await ask(path("/transfers"))).json.data as { id: string; balance_micro: number }[]
  expect(transfers.slice(1).map((line) => line.split(",")[0])).toEqual(listed.map(({ id }) => id))

  // A reason that would run in a spreadsheet is text.
  const audit = await file(`/operator/audit/export.csv?subject=${customer.accountId}`)
  expect(audit.slice(1).filter((line) => line.includes(",account.adjusted,"))).toEqual([
    expect.stringContaining(`"'=HYPERLINK(""http://evil"")"`),
  ])
  expect(transfers[1]).toContain(`"'=HYPERLINK(""http://evil"")"`)
})

/** So many minutes from now. */
const at = (minutes: number) => new Date(Date.now() + minutes * 60_000).toISOString()

test("an account that its owner's ceiling has paused is told so in its page, its row and the file, until it goes on", async () => {
  const person = await gateway.person()
  const pause = async (since: string | null, until: string | null) =>
    await gateway.sql`update accounts set paused_at = ${since}, paused_until = ${until} where id = ${person.accountId}`
  const told = async () => {
    const query = `?query=${person.accountId}`
    const ofPage = (await ask(`/operator/accounts/${person.accountId}`)).json
    const ofRow = (await ask(`/operator/accounts${query}`)).json.data[0]
    const [heads, row] = (await file(`/operator/accounts/export.csv${query}`)).map((line) => line.split(","))
    const cell = (name: string) => row?.[heads?.indexOf(name) ?? -1]
    for (const name of ["paused_at", "paused_until"]) {
      expect(ofRow[name]).toBe(ofPage[name])
      expect(cell(name)).toBe(ofPage[name] ?? "")
    }
    return [ofPage.paused_at, ofPage.paused_until]
  }
  expect(await told()).toEqual([null, null])
  const [since, until] = [at(-5), at(10)]
  await pause(since, null)
  expect(await told()).toEqual([since, null])
  await pause(since, until)
  expect(await told()).toEqual([since, until])
  await pause(since, at(-1))
  expect(await told()).toEqual([null, null])
})

const found = async (query: string) =>
  (await ask(`/operator/accounts?query=${query}`)).json.data.map((account: { id: string }) => account.id)

test("whose a whole key is that was rotated since is found: it may be good still, and begins otherwise now", async () => {
  const person = await gateway.person()
  const { id, key } = await gateway.key(person)
  const body = JSON.stringify({ overlap_s: 3_600 })
  const rotated = await gateway.dashboard(person, `/keys/${id}/rotate`, { method: "POST", body })
  const { key: after } = (await rotated.json()) as { key: string }
  expect(await found(after)).toEqual([person.accountId])
  expect(await found(key)).toEqual([person.accountId])
  expect(await found(`${key}x`)).toEqual([])
})

test("all keys of an account are listed, page by page, and those that are not revoked are counted", async () => {
  const person = await gateway.person()
  const { id } = await gateway.key(person)
  await gateway.sql`insert into api_keys select r.* from api_keys k, generate_series(1, 103) n, lateral jsonb_populate_record(k,
    jsonb_build_object('id', 'key_more' || n, 'key_hash', 'more' || n, 'revoked_at', case when n < 3 then now() end)) r where k.id = ${id}`
  const account = (await ask(`/operator/accounts/${person.accountId}`)).json
  expect([account.key_count, account.active_key_count, account.keys.length]).toEqual([104, 102, 100])
  const listed: { id: string; status: string }[] = []
  const first = `/operator/accounts/${person.accountId}/keys?limit=60`
  for (let page = first; page !== "";) {
    const { json } = await ask(page)
    listed.push(...json.data)
    page = json.next_cursor === null ? "" : `${first}&cursor=${json.next_cursor}`
  }
  expect(listed.slice(0, 100)).toEqual(account.keys)
  expect(new Set(listed.map((key) => key.id)).size).toBe(104)
  expect(listed.slice(-2).map(({ status }) => status)).toEqual(["revoked", "revoked"])
  expect((await ask("/operator/accounts/acc_none/keys")).status).toBe(404)
  expect((await gateway.dashboard(person, first)).status).toBe(403)
})

test("an operator revokes one key of an account, which is refused at once; the audit log has why, once", async () => {
  const [person, another] = [await gateway.person(10_000), await gateway.person()]
  const [leaked, kept] = [await gateway.key(person), await gateway.key(person)]
  const model = await gateway.model({ format: "chat" })
  const call = async ({ key }: { readonly key: string }) =>
    (await gateway.post("/v1/chat/completions", key, { model, messages: [{ role: "user", content: "hi" }] })).status
  expect([await call(leaked), await call(kept)]).toEqual([200, 200])
  const revoke = (account: string, reason: string) =>
    ask(`/operator/accounts/${account}/keys/${leaked.id}/revoke`, { reason })
  expect((await revoke(person.accountId, "")).status).toBe(400)
  expect((await revoke(another.accountId, "a slip")).status).toBe(404)
  expect(await call(leaked)).toBe(200)
  const { status, json } = await revoke(person.accountId, "leaked on a forum")
  expect([status, json.id, json.status]).toEqual([200, leaked.id, "revoked"])
  expect([await call(leaked), await call(kept)]).toEqual([401, 200])
  expect((await revoke(person.accountId, "again")).json.revoked_at).toBe(json.revoked_at)
  const { data } = (await ask("/operator/audit?limit=5")).json
  const logged = data.filter(({ subject }: { subject: string }) => subject === leaked.id)
  expect(logged).toMatchObject([{ action: "key.revoked", reason: "leaked on a forum" }])
})

interface LogRow {
  readonly id: number
  readonly action: string
  readonly subject: string
  readonly after: unknown
  readonly operator: { readonly id: string }
}

test("each file is in the audit log, with who took it and by which filters, and the customer sees the account's", async () => {
  const before = (await ask("/operator/audit?limit=1")).json.data[0].id
  await file("/operator/accounts/export.csv?query=somebody@mail.id")
  await file("/operator/top-ups/export.csv?status=paid")
  await file("/operator/audit/export.csv")
  await file("/operator/profit/export.csv")
  await file(path("/transfers/export.csv"))
  await file(path("/usage/export.csv?status=ok"))
  const { data } = (await ask("/operator/audit?limit=20")).json
  const rows = (data as LogRow[]).filter(({ id }) => id > before).toReversed()
  expect(rows.map(({ action, subject, after }) => [action, subject, after])).toEqual([
    ["list.exported", "accounts", { list: "accounts", filters: ["query"] }],
    ["list.exported", "top-ups", { list: "top-ups", filters: ["status"] }],
    ["list.exported", "audit", { list: "audit", filters: [] }],
    ["list.exported", "profit", { list: "profit", filters: [] }],
    ["list.exported", customer.accountId, { list: "transfers", filters: [] }],
    ["list.exported", customer.accountId, { list: "calls", filters: ["status"] }],
  ])
  expect(new Set(rows.map((row) => row.operator.id))).toEqual(new Set([operator.accountId]))
  const history = (await theirs("/account/activity?limit=2")).json.data
  expect(history.map(({ action, actor }: Record<string, string>) => [action, actor])).toEqual([
    ["list.exported", "operator"],
    ["list.exported", "operator"],
  ])
  // A file that is refused leaves nothing in the log.
  const last = rows.at(-1)?.id
  expect((await gateway.dashboard(customer, "/operator/accounts/export.csv")).status).toBe(403)
  expect((await gateway.dashboard(operator, "/operator/accounts/acc_none/transfers/export.csv")).status).toBe(404)
  expect((await ask("/operator/audit?limit=1")).json.data[0].id).toBe(last)
})

test.each(["=1+1", "+1+1", "-1+1", "@a", "\t=1", "\r=1", "\n=1", "＝1", "＋1", "－1", "＠a"])(
  "a cell that begins as a formula is text: %j",
  (text) => {
    expect(csvLine([text]).replace(/^"/, "")).toStartWith("'")
  },
)

test.each(["-1", "1", "-1.5", "a=1"])("%j is as it is", (text) => {
  expect(csvLine([text])).toBe(`${text}\r\n`)
})

test.each([
  ["a spreadsheet that splits rows at `;`", "x;=HYPERLINK(A1);y", `"x;'=HYPERLINK(A1);y"`],
  ["one that splits them at a comma", "x,@SUM(A1)", `"x,'@SUM(A1)"`],
  ["one that splits them at a tab", "x\t＝A1", `"x\t'＝A1"`],
  ["one that sees a new row", "x\n-A1", `"x\n'-A1"`],
  ["a cell that is no formula", "a; b, c", `"a; b, c"`],
  ["the first cell", "=A1;=A2", `"'=A1;'=A2"`],
])("what somebody wrote runs in no spreadsheet, as %s has it", (_, text, cell) => {
  for (const notation of ["en", "id"] as const) expect(csvLine([text], notation)).toBe(`${cell}\r\n`)
})

test("each sign that splits a row is quoted, and a formula behind it is text, whatever sign it begins with", () => {
  for (const sign of [",", ";", "\t", "\r", "\n"]) {
    expect(csvLine([`x${sign}y`])).toBe(`"x${sign}y"\r\n`)
    for (const formula of ["=", "+", "-", "@", "＝", "＋", "－", "＠"])
      expect(csvLine([`x${sign}${formula}A1`])).toBe(`"x${sign}'${formula}A1"\r\n`)
  }
  expect(csvLine([`an "A"`])).toBe(`"an ""A"""\r\n`)
})

test("a file for a spreadsheet with Indonesian settings has its separator and its decimal sign", () => {
  const cells = [
    "1.5",
    "a,b",
    3,
    4n,
    new Rupiah(micro(1_234_560_000n)),
    new Rupiah(micro(-250_000n)),
    new Rupiah(micro(2_000_000n)),
  ]
  expect(csvLine(cells, "id")).toBe('1.5;"a,b";3;4;1234,56;-0,25;2\r\n')
  expect(csvLine(cells)).toBe('1.5,"a,b",3,4,1234.56,-0.25,2\r\n')
})

test("every file is to be had in Indonesian notation, with the mark of UTF-8", async () => {
  const files = ["/operator/accounts", "/operator/top-ups", "/operator/audit", path("/transfers"), path("/usage")]
  for (const each of [
    ...files.map((one) => `${one}/export.csv`),
    "/operator/profit/export.csv?group_by=model",
    "/usage/refused/export.csv",
    "/account/activity/export.csv",
    "/account/statement.csv",
  ]) {
    const bytes = await (await gateway.dashboard(operator, `${each}${each.includes("?") ? "&" : "?"}lang=id`)).bytes()
    expect([each, ...bytes.subarray(0, 3)]).toEqual([each, 0xef, 0xbb, 0xbf])
    const [heads] = new TextDecoder().decode(bytes).split("\r\n")
    expect(heads?.split(";").length).toBe((await file(each))[0]?.split(",").length)
  }
  expect((await gateway.dashboard(operator, "/operator/audit/export.csv?lang=fr")).status).toBe(400)
})

test("a file is read page by page, to its last row, and one that is too long breaks off", async () => {
  const rows = Array.from({ length: 25 }, (_, id) => id)
  const asked: (number | undefined)[] = []
  const made = (most: number) =>
    csvFile<number>({
      name: "numbers",
      notation: undefined,
      columns: ["n"],
      cells: (n) => [n],
      read: async ({ limit, after }) => {
        asked.push(after)
        return rows.slice(after === undefined ? 0 : after + 1).slice(0, limit)
      },
      page: 10,
      most,
    })
  expect(await (await made(25)).text()).toBe(`n\r\n${rows.map((n) => `${n}\r\n`).join("")}`)
  expect(asked).toEqual([undefined, 9, 19])
  expect(await (await made(24)).text().catch(String)).toContain("more than 24 rows")
})
