import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { newRequestId } from "../../../src/http/edge.ts"
import { openUsageWorld, type UsageWorld } from "./usage-world.ts"

let world: UsageWorld
beforeAll(async () => void (world = await openUsageWorld()))
afterAll(() => world[Symbol.asyncDispose]())

const list = async (token: string, query = "") => (await world.call("GET", `/usage${query}`, { token })).json
const ids = async (token: string, query = "") =>
  (await list(token, query)).data.map((row: { request_id: string }) => row.request_id)

describe("one call's record", () => {
  test("has the fields of a usage record, and what a receipt needs", async () => {
    const { id, token } = await world.signUp()
    const requestId = await world.called(id)
    const { status, json } = await world.call("GET", `/usage/${requestId}`, { token })
    expect(status).toBe(200)
    const record = {
      model: "model-a",
      input_tokens: 10,
      output_tokens: 20,
      cache_read_tokens: 30,
      cache_write_tokens: 40,
      charge_micro: 780,
      status: "ok",
      turns: 1,
      request_id: requestId,
      key_id: "key_x",
      created_at: "2026-11-20T05:00:00.000Z",
      endpoint: "chat",
      streamed: true,
      attempts: 1,
      duration_ms: 900,
      first_token_ms: 5,
      error_code: null,
      price_id: 1,
      price_effective_at: expect.stringMatching(/^\d{4}-\d{2}-\d{2}T/),
      rates: { input_micro: 3, output_micro: 5, cache_read_micro: 7, cache_write_micro: 11 },
      amounts: { input_micro: 30, output_micro: 100, cache_read_micro: 210, cache_write_micro: 440 },
      absorbed_micro: 0,
    }
    expect(json).toEqual({ ...record, markers: [] })
    expect((await list(token)).data).toEqual([record])
  })

  test("is the final one, with the markers of its reroutes", async () => {
    const { id, token } = await world.signUp()
    const requestId = await world.called(id)
    await world.called(id, { requestId, part: 2, status: "fallback_oversize", model: "model-c" })
    await world.called(id, { requestId, part: 1, status: "fallback_429", model: "model-b" })
    const { json } = await world.call("GET", `/usage/${requestId}`, { token })
    expect([json.model, json.status]).toEqual(["model-a", "ok"])
    expect(json.markers).toEqual([
      { model: "model-b", status: "fallback_429", created_at: json.created_at },
      { model: "model-c", status: "fallback_oversize", created_at: json.created_at },
    ])
  })

  test("of a call that was not charged has no amounts", async () => {
    const { id, token } = await world.signUp()
    const requestId = await world.called(id, { status: "upstream_error" })
    const { json } = await world.call("GET", `/usage/${requestId}`, { token })
    expect(json).toMatchObject({
      charge_micro: 0,
      status: "upstream_error",
      error_code: "dependency.upstream_unavailable",
    })
    expect(Object.values(json.amounts)).toEqual([0, 0, 0, 0])
  })

  test("is not found when unknown, foreign, not final yet or no id at all", async () => {
    const [owner, other] = [await world.signUp(), await world.signUp()]
    const foreign = await world.called(owner.id)
    const early = newRequestId(Date.now())
    await world.called(other.id, { requestId: early, part: 1, status: "fallback_429" })
    for (const id of [foreign, early, "req_unknown", "%00", "x".repeat(500)]) {
      const { status, json } = await world.call("GET", `/usage/${id}`, { token: other.token })
      expect([status, json.code]).toEqual([404, "usage.not_found"])
    }
  })
})

describe("the list", () => {
  test("goes on where the page before it ended, the newest first", async () => {
    const { id, token } = await world.signUp()
    const made = []
    for (let n = 0; n < 7; n++) made.push(await world.called(id, { at: `2026-11-20T05:00:0${n}Z` }))
    const seen = []
    let query = "?limit=3"
    for (let page = 0; page < 3; page++) {
      const { data, next_cursor } = await list(token, query)
      seen.push(...data.map((row: { request_id: string }) => row.request_id))
      expect(next_cursor === null).toBe(page === 2)
      query = `?limit=3&cursor=${next_cursor}`
    }
    expect(seen).toEqual(made.toReversed())
  })

  test("has each call of one millisecond once, however long its pages are", async () => {
    const { id, token } = await world.signUp()
    const at = Date.parse("2026-11-20T05:00:00Z")
    const made = Array.from({ length: 9 }, (_, n) => newRequestId(at + Math.floor(n / 4)))
    for (const requestId of made) await world.called(id, { requestId, at: "2026-11-20T05:00:00Z" })
    for (const limit of [1, 2, 3, 5, 9]) {
      const seen: string[] = []
      let query: string | undefined = `?limit=${limit}`
      while (query !== undefined) {
        const { data, next_cursor } = await list(token, query)
        expect(data.length).toBeLessThanOrEqual(limit)
        seen.push(...data.map((row: { request_id: string }) => row.request_id))
        query = next_cursor === null ? undefined : `?limit=${limit}&cursor=${next_cursor}`
      }
      expect([limit, seen]).toEqual([limit, made.toSorted().toReversed()])
    }
  })

  test("has fifty rows unless told, and a cursor only if there are more", async () => {
    const { id, token } = await world.signUp()
    for (let n = 0; n < 50; n++) await world.called(id)
    expect((await list(token)).next_cursor).toBeNull()
    await world.called(id)
    const page = await list(token)
    expect(page.data).toHaveLength(50)
    expect(page.next_cursor).toBeString()
    expect(await ids(token, "?limit=100")).toHaveLength(51)
  })

  test("holds nothing of another account", async () => {
    const { id } = await world.signUp()
    await world.called(id)
    const { token } = await world.signUp()
    expect(await list(token)).toEqual({ data: [], next_cursor: null })
  })

  test("is narrowed by model, key, status and time", async () => {
    const { id, token } = await world.signUp()
    const a = await world.called(id, { at: "2026-11-19T16:59:59.999Z", keyId: "key_a" })
    const b = await world.called(id, { at: "2026-11-19T17:00:00Z", model: "model-b" })
    const c = await world.called(id, { at: "2026-11-20T17:00:00Z", status: "usage_missing" })
    await world.called(id, { requestId: c, part: 1, at: "2026-11-20T17:00:00Z", status: "fallback_429" })
    const questions: [string, string[]][] = [
      ["", [c, b, a]],
      ["?model=model-b", [b]],
      ["?key_id=key_a", [a]],
      ["?key_id=key_unknown", []],
      ["?format=chat", [c, b, a]],
      ["?format=responses", []],
      ["?error_code=dependency.upstream_unavailable", [c]],
      ["?error_code=upstream.rate_limited", []],
      ["?status=ok", [b, a]],
      ["?status=usage_missing", [c]],
      ["?status=fallback_429", [c]],
      ["?status=fallback_oversize", []],
      ["?from=2026-11-19T17:00:00Z", [c, b]],
      ["?to=2026-11-19T17:00:00Z", [a]],
      ["?from=2026-11-19T17:00:00Z&to=2026-11-20T17:00:00Z", [b]],
      ["?from=2026-11-20T00:00:00%2B07:00", [c, b]],
      ["?from=2026-11-20", [c, b]],
      ["?to=2026-11-19", [a]],
      ["?from=2026-11-20&to=2026-11-20", [b]],
      ["?from=2026-11-21&to=2026-11-20", []],
      ["?from=0001-01-01&to=9999-12-31", [c, b, a]],
      ["?model=&key_id=&status=&from=&to=&cursor=&limit=", [c, b, a]],
    ]
    for (const [query, found] of questions) expect([query, await ids(token, query)]).toEqual([query, found])
    const [marker] = (await list(token, "?status=fallback_429")).data
    expect(marker).toMatchObject({ request_id: c, status: "fallback_429", charge_micro: 0 })
  })

  test("counts its days in the account's time zone", async () => {
    const { id, token } = await world.signUp()
    const call = await world.called(id, { at: "2026-11-19T16:30:00Z" })
    expect(await ids(token, "?from=2026-11-20")).toEqual([])
    await world.call("PATCH", "/account", { token, body: { time_zone: "Asia/Makassar" } })
    expect(await ids(token, "?from=2026-11-20")).toEqual([call])
  })

  test.each([
    "limit=0",
    "limit=101",
    "limit=-1",
    "limit=1.5",
    "limit=ten",
    "limit=0x10",
    "limit=1e1",
    "limit=%205",
    "cursor=x",
    "cursor=%00",
    "status=fine",
    "from=yesterday",
    "from=2026-13-01",
    "from=2026-11-20T05:00:00",
    "to=20261120",
    "to=1",
    "model=%00",
    `model=${"x".repeat(201)}`,
    "key_id=a%0Ab",
    "format=bedrock",
    "error_code=%0A",
  ])("refuses %s", async (query) => {
    const { token } = await world.signUp()
    const { status, json } = await world.call("GET", `/usage?${query}`, { token })
    expect([status, json.code]).toEqual([400, "request.invalid"])
    expect(json.error).toContain(`'${query.split("=")[0]}'`)
  })
})

describe("the export", () => {
  test("has one line for each call, filtered as the list is", async () => {
    const { id, token } = await world.signUp()
    const first = await world.called(id)
    await world.called(id, { model: "model-b" })
    const { status, headers, text } = await world.call("GET", "/usage/export.csv?model=model-a", { token })
    expect([status, headers.get("content-type")]).toEqual([200, "text/csv; charset=utf-8"])
    expect(headers.get("x-request-id")).toStartWith("req_")
    const [head, row, rest] = text.split("\r\n")
    expect(head).toStartWith("request_id,created_at,key_id,endpoint,model,status,")
    expect(row).toStartWith(
      `${first},2026-11-20T05:00:00.000Z,key_x,chat,model-a,ok,true,1,1,10,20,30,40,3,5,7,11,780,0.00078,`,
    )
    expect(rest).toBe("")
  })

  test("ends with the key's name, the run and since when the price is in force, and keeps the columns before them in their places", async () => {
    const { id, token } = await world.signUp()
    const body = { name: "=1+1,=2" }
    const key = (await world.call("POST", "/keys", { token, body })).json
    await world.called(id, { keyId: key.id })
    await world.called(id)
    await world.sql`update usage set run_id = 'run_1' where account_id = ${id}`
    const { text } = await world.call("GET", "/usage/export.csv", { token })
    const [head = "", ...rows] = text.trimEnd().split("\r\n")
    expect(head).toEndWith(
      ",error_code,input_amount_micro,output_amount_micro,cache_read_amount_micro,cache_write_amount_micro,absorbed_micro,key_name,run_id,price_effective_at",
    )
    const [listed] = (await world.call("GET", "/usage", { token })).json.data
    const since = listed.price_effective_at
    expect(since).toMatch(/^\d{4}-.*Z$/)
    expect(rows.map((row) => row.slice(row.indexOf(",0,", row.length - 70)).slice(3)).toSorted()).toEqual(
      [`"'=1+1,'=2",run_1,${since}`, `,run_1,${since}`].toSorted(),
    )
  })

  test.each([
    ["", "loket-usage"],
    ["?from=2026-11-01&to=2026-11-30", "loket-usage-2026-11-01-to-2026-11-30"],
    ["?from=2026-11-30&to=2026-11-30&status=ok", "loket-usage-2026-11-30"],
    ["?from=2026-11-01", "loket-usage-from-2026-11-01"],
    ["?to=2026-11-30", "loket-usage-to-2026-11-30"],
    // 23:30 and 00:00 of the account's own days.
    ["?from=2026-11-01T16:30:00Z&to=2026-11-30T17:00:00Z", "loket-usage-2026-11-01-to-2026-11-30"],
  ])("of %s is named %s, in the account's days", async (query, name) => {
    const { token } = await world.signUp()
    const { headers } = await world.call("GET", `/usage/export.csv${query}`, { token })
    expect(headers.get("content-disposition")).toBe(`attachment; filename="${name}.csv"`)
  })

  test("is complete over several pages", async () => {
    const { id, token } = await world.signUp()
    await world.sql`
      insert into usage select ${newRequestId(Date.now()).slice(0, 13)} || lpad(n::text, 18, '0'), 0, ${id}, 'key_x', 1, 'model-a', 'chat',
        false, 'ok', 1, 1, 1, 1, 1, 0, 1, 1, 1, null, false, now(), null, 1
      from generate_series(1, 2000) n`
    const { text } = await world.call("GET", "/usage/export.csv", { token })
    const lines = text.trimEnd().split("\r\n")
    expect(lines).toHaveLength(2001)
    expect(new Set(lines).size).toBe(2001)
  })

  test("runs no formula in a spreadsheet", async () => {
    const { id, token } = await world.signUp()
    await world.called(id, { model: '=HYPERLINK("http://example.org","x")' })
    const { text } = await world.call("GET", "/usage/export.csv", { token })
    expect(text).toContain(`,"'=HYPERLINK(""http://example.org"",""x"")",`)
  })

  test("is written for a spreadsheet with Indonesian settings where it is asked for", async () => {
    const { id, token } = await world.signUp()
    await world.called(id)
    const { text } = await world.call("GET", "/usage/export.csv?lang=id", { token })
    const [, row] = text.split("\r\n")
    expect(row).toContain(";780;0,00078;")
  })

  test("refuses what the list refuses", async () => {
    const { token } = await world.signUp()
    expect((await world.call("GET", "/usage/export.csv?status=fine", { token })).status).toBe(400)
  })
})

test("nothing here was answered by a bug", () => expect(world.bugs).toEqual([]))
