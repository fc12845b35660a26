import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { newRequestId } from "../../../src/http/request-id.ts"
import { openWorld, type World } from "./world.ts"

let world: World
beforeAll(async () => {
  world = await openWorld()
  await world.sql`
    insert into models values ('model-a', 1, 'A', 't', 'first', 'text', true, true, 1000, 100, '{chat}', 'first', 'chat', 'a',
      1, '{}', '{}', '{}', '{}')`
  await world.sql`
    insert into prices (model, input_micro, output_micro, cache_read_micro, cache_write_micro, effective_at)
    values ('model-a', 3, 5, 7, 11, now())`
})
afterAll(() => world[Symbol.asyncDispose]())

interface Call {
  readonly endpoint?: string
  readonly firstTokenMs?: number
  readonly at?: string
  readonly part?: number
  readonly requestId?: string
  readonly keyId?: string
  readonly model?: string
  readonly status?: string
  readonly charge?: number
  readonly absorbed?: number
}

async function called(accountId: string, call: Call = {}): Promise<string> {
  const at = new Date(call.at ?? "2026-11-20T05:00:00Z")
  const status = call.status ?? "ok"
  const requestId = call.requestId ?? newRequestId(at.getTime())
  await world.sql`
    insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens,
      output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts,
      error_code, flagged, opened_at, first_token_ms, duration_ms)
    values (${requestId}, ${call.part ?? 0}, ${accountId}, ${call.keyId ?? "key_x"}, 1, ${call.model ?? "model-a"}, ${call.endpoint ?? "chat"},
      true, ${status}, 10, 20, 30, 40, ${call.charge ?? (status === "ok" ? 780 : 0)}, ${call.absorbed ?? 0}, 1, 1, 1,
      ${status === "ok" ? null : "dependency.upstream_unavailable"}, false, ${at}, ${call.firstTokenMs ?? 5}, 900)`
  return requestId
}

const list = async (token: string, query = "") => (await world.call("GET", `/usage${query}`, { token })).json
const ids = async (token: string, query = "") =>
  (await list(token, query)).data.map((row: { request_id: string }) => row.request_id)

describe("one call's record", () => {
  test("has the fields of a usage record, and what a receipt needs", async () => {
    const { id, token } = await world.signUp()
    const requestId = await called(id)
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
    const requestId = await called(id)
    await called(id, { requestId, part: 2, status: "fallback_oversize", model: "model-c" })
    await called(id, { requestId, part: 1, status: "fallback_429", model: "model-b" })
    const { json } = await world.call("GET", `/usage/${requestId}`, { token })
    expect([json.model, json.status]).toEqual(["model-a", "ok"])
    expect(json.markers).toEqual([
      { model: "model-b", status: "fallback_429", created_at: json.created_at },
      { model: "model-c", status: "fallback_oversize", created_at: json.created_at },
    ])
  })

  test("of a call that was not charged has no amounts", async () => {
    const { id, token } = await world.signUp()
    const requestId = await called(id, { status: "upstream_error" })
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
    const foreign = await called(owner.id)
    const early = newRequestId(Date.now())
    await called(other.id, { requestId: early, part: 1, status: "fallback_429" })
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
    for (let n = 0; n < 7; n++) made.push(await called(id, { at: `2026-11-20T05:00:0${n}Z` }))
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

  test("has fifty rows unless told, and a cursor only if there are more", async () => {
    const { id, token } = await world.signUp()
    for (let n = 0; n < 50; n++) await called(id)
    expect((await list(token)).next_cursor).toBeNull()
    await called(id)
    const page = await list(token)
    expect(page.data).toHaveLength(50)
    expect(page.next_cursor).toBeString()
    expect(await ids(token, "?limit=100")).toHaveLength(51)
  })

  test("holds nothing of another account", async () => {
    const { id } = await world.signUp()
    await called(id)
    const { token } = await world.signUp()
    expect(await list(token)).toEqual({ data: [], next_cursor: null })
  })

  test("is narrowed by model, key, status and time", async () => {
    const { id, token } = await world.signUp()
    const a = await called(id, { at: "2026-11-19T16:59:59.999Z", keyId: "key_a" })
    const b = await called(id, { at: "2026-11-19T17:00:00Z", model: "model-b" })
    const c = await called(id, { at: "2026-11-20T17:00:00Z", status: "usage_missing" })
    await called(id, { requestId: c, part: 1, at: "2026-11-20T17:00:00Z", status: "fallback_429" })
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
    const call = await called(id, { at: "2026-11-19T16:30:00Z" })
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
    "cursor=x",
    "cursor=%00",
    "status=fine",
    "from=yesterday",
    "from=2026-13-01",
    "from=2026-11-20T05:00:00",
    "to=20261120",
    "to=1",
    "model=%00",
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

const owner = async () => {
  const { id, token } = await world.signUp()
  const keys = []
  for (const name of ["one", "two"]) keys.push((await world.call("POST", "/keys", { token, body: { name } })).json.id)
  return { id, token, keys }
}

describe("the summary", () => {
  const range = "from=2026-11-01&to=2026-11-30"

  test("adds up final records by day, hour, model and key", async () => {
    const { id, token, keys } = await owner()
    const [one, two] = keys
    await called(id, { at: "2026-11-19T16:59:00Z", keyId: one })
    await called(id, { at: "2026-11-19T17:00:00Z", keyId: two })
    const failed = await called(id, {
      at: "2026-11-19T18:30:00Z",
      keyId: two,
      model: "model-b",
      status: "upstream_error",
    })
    await called(id, { requestId: failed, part: 1, at: "2026-11-19T18:30:00Z", keyId: two, status: "fallback_429" })
    const groups = async (by: string) => {
      const { json } = await world.call("GET", `/usage/summary?${range}&group_by=${by}`, { token })
      return json.data.map((row: { group: string; requests: number; charge_micro: number }) => [
        row.group,
        row.requests,
        row.charge_micro,
      ])
    }
    expect(await groups("day")).toEqual([
      ["2026-11-19", 1, 780],
      ["2026-11-20", 2, 780],
    ])
    expect(await groups("hour")).toEqual([
      ["2026-11-19T23:00", 1, 780],
      ["2026-11-20T00:00", 1, 780],
      ["2026-11-20T01:00", 1, 0],
    ])
    expect(await groups("model")).toEqual([
      ["model-a", 2, 1560],
      ["model-b", 1, 0],
    ])
    expect(new Map((await groups("key")).map(([group, ...sums]: [string, number, number]) => [group, sums]))).toEqual(
      new Map([
        [one, [1, 780]],
        [two, [2, 780]],
      ]),
    )
    const { json } = await world.call("GET", `/usage/summary?${range}`, { token })
    expect(json.total).toEqual({
      requests: 3,
      ok_requests: 2,
      errors: 1,
      cache_reads: 3,
      first_token_p50_ms: 5,
      first_token_p95_ms: 5,
      input_tokens: 30,
      output_tokens: 60,
      cache_read_tokens: 90,
      cache_write_tokens: 120,
      charge_micro: 1560,
    })
    expect(json).toMatchObject({ group_by: "day", time_zone: "Asia/Jakarta" })
  })

  test("looks thirty days back unless told", async () => {
    const { id, token, keys } = await owner()
    const day = 24 * 60 * 60 * 1000
    await called(id, { at: new Date(Date.now() - 29 * day).toISOString(), keyId: keys[0] })
    await called(id, { at: new Date(Date.now() - 31 * day).toISOString(), keyId: keys[0] })
    const { json } = await world.call("GET", "/usage/summary", { token })
    expect(json.total.requests).toBe(1)
  })

  test("of nothing is empty", async () => {
    const { token } = await owner()
    const { json } = await world.call("GET", `/usage/summary?${range}`, { token })
    expect([json.data, json.total.requests, json.total.charge_micro]).toEqual([[], 0, 0])
  })

  test("divides each group by another", async () => {
    const { id, token, keys } = await owner()
    const [keyId] = keys
    await called(id, { at: "2026-11-19T05:00:00Z", keyId })
    await called(id, { at: "2026-11-19T06:00:00Z", keyId, model: "model-b", endpoint: "messages" })
    await called(id, { at: "2026-11-20T05:00:00Z", keyId, status: "upstream_error" })
    const rows = async (query: string) => {
      const { json } = await world.call("GET", `/usage/summary?${range}&${query}`, { token })
      return json.data.map(({ group, split, requests, errors }: Record<string, unknown>) => [
        group,
        split,
        requests,
        errors,
      ])
    }
    expect(await rows("group_by=day&split_by=model")).toEqual([
      ["2026-11-19", "model-a", 1, 0],
      ["2026-11-19", "model-b", 1, 0],
      ["2026-11-20", "model-a", 1, 1],
    ])
    expect(await rows("group_by=format&split_by=status")).toEqual([
      ["chat", "ok", 1, 0],
      ["chat", "upstream_error", 1, 1],
      ["messages", "ok", 1, 0],
    ])
    expect(await rows("group_by=status")).toEqual([
      ["ok", undefined, 2, 0],
      ["upstream_error", undefined, 1, 1],
    ])
  })

  test("is narrowed by model, key, format and status, whole hours and ends alike", async () => {
    const { id, token, keys } = await owner()
    const [one, two] = keys
    for (const at of ["2026-11-20T04:59:00Z", "2026-11-20T05:10:00Z", "2026-11-20T06:01:00Z"]) {
      await called(id, { at, keyId: one, firstTokenMs: 10 })
      await called(id, { at, keyId: two, model: "model-b", endpoint: "messages", firstTokenMs: 20 })
      await called(id, { at, keyId: two, status: "upstream_error", firstTokenMs: 30 })
    }
    const sum = async (query: string) => {
      const edges = "from=2026-11-20T04:30:00Z&to=2026-11-20T06:30:00Z"
      const { json } = await world.call("GET", `/usage/summary?${edges}&group_by=day&${query}`, { token })
      return [json.total.requests, json.total.errors, json.total.first_token_p95_ms]
    }
    expect(await sum("")).toEqual([9, 3, 30])
    expect(await sum("model=model-b")).toEqual([3, 0, 20])
    expect(await sum(`key_id=${one}`)).toEqual([3, 0, 10])
    expect(await sum(`key_id=${two}&status=ok`)).toEqual([3, 0, 20])
    expect(await sum("format=messages")).toEqual([3, 0, 20])
    expect(await sum("status=upstream_error")).toEqual([3, 3, 30])
    expect(await sum("format=responses")).toEqual([0, 0, null])
  })

  test("tells times to the first token of the newest calls alone when there are many", async () => {
    const { id, token, keys } = await owner()
    const [busy, quiet] = keys
    const old = "2026-11-19T05:00:00Z"
    await called(id, { at: old, keyId: quiet, firstTokenMs: 9_000 })
    const summary = async (query = "") => (await world.call("GET", `/usage/summary?${range}${query}`, { token })).json
    expect(await summary()).toMatchObject({ first_token_of: null, total: { first_token_p95_ms: 9_000 } })
    await world.sql`
      insert into usage select ${newRequestId(Date.parse("2026-11-20T05:00:00Z")).slice(0, 13)} || lpad(n::text, 18, '0'), 0, ${id},
        ${busy ?? ""}, 1, 'model-a', 'chat', true, 'ok', 1, 1, 1, 1, 1, 0, 1, 1, 1, null, false, '2026-11-20T05:00:00Z', 70, 90
      from generate_series(1, 25000) n`
    expect(await summary()).toMatchObject({
      first_token_of: 25_000,
      total: { requests: 25_001, first_token_p50_ms: 70, first_token_p95_ms: 70 },
      data: [{ group: "2026-11-19", first_token_p50_ms: null }, { group: "2026-11-20" }],
    })
    expect(await summary(`&key_id=${quiet}`)).toMatchObject({
      first_token_of: null,
      total: { first_token_p95_ms: 9_000 },
    })
  })

  test("is exact to the millisecond, also within an hour and at its edges", async () => {
    const { id, token, keys } = await owner()
    const times = [
      "2026-11-20T04:59:59.999Z",
      "2026-11-20T05:00:00.000Z",
      "2026-11-20T05:30:00.000Z",
      "2026-11-20T06:00:00.000Z",
      "2026-11-20T06:59:59.999Z",
      "2026-11-20T07:00:00.000Z",
    ]
    for (const at of times) await called(id, { at, keyId: keys[0] })
    const edges = [...times, "2026-11-20T05:15:00.000Z", "2026-11-20T06:15:00.000Z", "2026-11-20T09:00:00.000Z"]
    for (const from of edges) {
      for (const to of edges) {
        const { json } = await world.call("GET", `/usage/summary?from=${from}&to=${to}&group_by=model`, { token })
        const wanted = times.filter((at) => at >= from && at < to).length
        expect([from, to, json.total.requests]).toEqual([from, to, wanted])
      }
    }
  })

  test("counts days of a zone that is half an hour off", async () => {
    const { id, token, keys } = await owner()
    await world.call("PATCH", "/account", { token, body: { time_zone: "Asia/Kolkata" } })
    await called(id, { at: "2026-11-19T18:29:59Z", keyId: keys[0] })
    await called(id, { at: "2026-11-19T18:30:00Z", keyId: keys[0] })
    const { json } = await world.call("GET", `/usage/summary?${range}&group_by=day`, { token })
    expect(json.data.map(({ group, requests }: Record<string, unknown>) => [group, requests])).toEqual([
      ["2026-11-19", 1],
      ["2026-11-20", 1],
    ])
  })

  test("tells percentiles of the time to the first token, by group and of all", async () => {
    const { id, token, keys } = await owner()
    for (let n = 1; n <= 20; n++) await called(id, { keyId: keys[0], firstTokenMs: n * 10 })
    await called(id, { keyId: keys[1], firstTokenMs: 1_000 })
    const { json } = await world.call("GET", `/usage/summary?${range}&group_by=key`, { token })
    const of = (key: string | undefined) => {
      const row = json.data.find(({ group }: { group: string }) => group === key)
      return [row.first_token_p50_ms, row.first_token_p95_ms]
    }
    expect([of(keys[0]), of(keys[1])]).toEqual([
      [100, 190],
      [1_000, 1_000],
    ])
    expect([json.total.first_token_p50_ms, json.total.first_token_p95_ms]).toEqual([110, 200])
  })

  test("follows a record that is changed, and one that is removed", async () => {
    const { id, token, keys } = await owner()
    const requestId = await called(id, { keyId: keys[0] })
    const seen = async () => (await world.call("GET", `/usage/summary?${range}&group_by=status`, { token })).json
    await world.sql`update usage set status = 'billing_error', charge_micro = 0 where request_id = ${requestId}`
    expect((await seen()).data).toMatchObject([{ group: "billing_error", requests: 1, charge_micro: 0 }])
    await world.sql`delete from usage where request_id = ${requestId}`
    expect((await seen()).data).toEqual([])
  })

  test.each([
    "group_by=week",
    "format=bedrock",
    "status=fine",
    "from=x",
    "to=x",
    "split_by=day",
    "split_by=week",
    "group_by=model&split_by=model",
  ])("refuses %s", async (query) => {
    const { token } = await owner()
    const { status, json } = await world.call("GET", `/usage/summary?${query}`, { token })
    expect([status, json.code]).toEqual([400, "request.invalid"])
  })
})

describe("errors", () => {
  test("are counted by code, of final records in the range", async () => {
    const { id, token } = await world.signUp()
    await called(id)
    const last = await called(id, { at: "2026-11-20T06:00:00Z", status: "upstream_error" })
    await called(id, { at: "2026-11-20T05:00:00Z", status: "aborted_stream" })
    const other = await called(id, { at: "2026-11-20T07:00:00Z", status: "upstream_error" })
    await called(id, { requestId: last, part: 1, status: "fallback_429" })
    await world.sql`update usage set error_code = 'upstream.rate_limited' where request_id = ${other}`
    const { status, json } = await world.call("GET", "/usage/errors?from=2026-11-20&to=2026-11-20", { token })
    expect([status, json.data]).toEqual([
      200,
      [
        { code: "dependency.upstream_unavailable", requests: 2, last_at: "2026-11-20T06:00:00.000Z" },
        { code: "upstream.rate_limited", requests: 1, last_at: "2026-11-20T07:00:00.000Z" },
      ],
    ])
    const later = await world.call("GET", "/usage/errors?from=2026-11-20T06:30:00Z&to=2026-11-21", { token })
    expect(later.json.data).toHaveLength(1)
    const narrowed = async (query: string) =>
      (await world.call("GET", `/usage/errors?from=2026-11-20&to=2026-11-20&${query}`, { token })).json.data.length
    expect(await narrowed("status=aborted_stream&model=model-a&format=chat&key_id=key_x")).toBe(1)
    expect(await narrowed("model=model-b")).toBe(0)
    expect((await world.call("GET", "/usage/errors?from=x", { token })).status).toBe(400)
  })
})

describe("the export", () => {
  test("has one line for each call, filtered as the list is", async () => {
    const { id, token } = await world.signUp()
    const first = await called(id)
    await called(id, { model: "model-b" })
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
    await called(id, { model: '=HYPERLINK("http://example.org","x")' })
    const { text } = await world.call("GET", "/usage/export.csv", { token })
    expect(text).toContain(`,"'=HYPERLINK(""http://example.org"",""x"")",`)
  })

  test("refuses what the list refuses", async () => {
    const { token } = await world.signUp()
    expect((await world.call("GET", "/usage/export.csv?status=fine", { token })).status).toBe(400)
  })
})

test("nothing here was answered by a bug", () => expect(world.bugs).toEqual([]))
