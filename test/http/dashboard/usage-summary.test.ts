import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { newRequestId } from "../../../src/http/edge.ts"
import { openUsageWorld, type UsageWorld } from "./usage-world.ts"

let world: UsageWorld
beforeAll(async () => void (world = await openUsageWorld()))
afterAll(() => world[Symbol.asyncDispose]())

describe("the summary", () => {
  const range = "from=2026-11-01&to=2026-11-30"

  test("adds up final records by day, hour, model and key", async () => {
    const { id, token, keys } = await world.owner()
    const [one, two] = keys
    await world.called(id, { at: "2026-11-19T16:59:00Z", keyId: one })
    await world.called(id, { at: "2026-11-19T17:00:00Z", keyId: two })
    const failed = await world.called(id, {
      at: "2026-11-19T18:30:00Z",
      keyId: two,
      model: "model-b",
      status: "upstream_error",
    })
    await world.called(id, {
      requestId: failed,
      part: 1,
      at: "2026-11-19T18:30:00Z",
      keyId: two,
      status: "fallback_429",
    })
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
    const { id, token, keys } = await world.owner()
    const day = 24 * 60 * 60 * 1000
    await world.called(id, { at: new Date(Date.now() - 29 * day).toISOString(), keyId: keys[0] })
    await world.called(id, { at: new Date(Date.now() - 31 * day).toISOString(), keyId: keys[0] })
    const { json } = await world.call("GET", "/usage/summary", { token })
    expect(json.total.requests).toBe(1)
  })

  test.each(["day", "hour", "model", "key", "format", "status"])(
    "of all times by %s is that of the times that have calls",
    async (by) => {
      const { id, token, keys } = await world.owner()
      await world.called(id, { at: "2026-11-02T05:00:00Z", keyId: keys[0] })
      await world.called(id, { at: "2026-11-19T05:30:00Z", keyId: keys[1], model: "model-b" })
      const summary = async (times: string) => {
        const { json } = await world.call("GET", `/usage/summary?${times}&group_by=${by}`, { token })
        return [json.data, json.total]
      }
      const all = await summary("from=0001-01-01&to=9999-12-31")
      expect(all).toEqual(await summary(range))
      expect(all).toMatchObject([{}, { requests: 2, first_token_p50_ms: 5 }])
    },
  )

  test("has 50,000 rows, and not one more", async () => {
    const { id, token } = await world.owner()
    const keys = (from: number, to: number) => world.sql`
      insert into usage_hours (account_id, hour, model, key_id, endpoint, status, calls, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, cache_reads)
      select ${id}, '2025-01-01T00:00Z', 'model-' || n % 10, 'key_' || n, 'chat', 'ok', 1, 0, 0, 0, 0, 0, 0
      from generate_series(${from}::int, ${to}::int) n`
    const ask = async (groups: string, tries = 10): ReturnType<typeof world.call> => {
      const answer = await world.call("GET", `/usage/summary?from=2025-01-01&to=2026-01-01&${groups}`, { token })
      // On a machine with much other work it may take longer than a statement may, and is asked for again, as the answer says.
      return answer.status === 503 && tries > 1 ? await ask(groups, tries - 1) : answer
    }
    const byKey = "group_by=key&split_by=model"
    await keys(1, 50_000)
    expect((await ask(byKey)).json.data).toHaveLength(50_000)
    await keys(50_001, 50_001)
    const { status, json } = await ask(byKey)
    expect([status, json.code]).toEqual([400, "request.invalid"])
    expect(json.error).toContain("ask for a shorter time")
    expect((await ask("group_by=day")).json.total.requests).toBe(50_001)
  })

  test("of nothing is empty, of all times too", async () => {
    const { token } = await world.owner()
    for (const times of [range, "from=0001-01-01&to=9999-12-31"]) {
      const { json } = await world.call("GET", `/usage/summary?${times}`, { token })
      expect([json.data, json.total.requests, json.total.charge_micro]).toEqual([[], 0, 0])
    }
  })

  test("divides each group by another", async () => {
    const { id, token, keys } = await world.owner()
    const [keyId] = keys
    await world.called(id, { at: "2026-11-19T05:00:00Z", keyId })
    await world.called(id, { at: "2026-11-19T06:00:00Z", keyId, model: "model-b", endpoint: "messages" })
    await world.called(id, { at: "2026-11-20T05:00:00Z", keyId, status: "upstream_error" })
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
    const { id, token, keys } = await world.owner()
    const [one, two] = keys
    for (const at of ["2026-11-20T04:59:00Z", "2026-11-20T05:10:00Z", "2026-11-20T06:01:00Z"]) {
      await world.called(id, { at, keyId: one, firstTokenMs: 10 })
      await world.called(id, { at, keyId: two, model: "model-b", endpoint: "messages", firstTokenMs: 20 })
      await world.called(id, { at, keyId: two, status: "upstream_error", firstTokenMs: 30 })
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
    const { id, token, keys } = await world.owner()
    const [busy, quiet] = keys
    const old = "2026-11-19T05:00:00Z"
    await world.called(id, { at: old, keyId: quiet, firstTokenMs: 9_000 })
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
    const { id, token, keys } = await world.owner()
    const times = [
      "2026-11-20T04:59:59.999Z",
      "2026-11-20T05:00:00.000Z",
      "2026-11-20T05:30:00.000Z",
      "2026-11-20T06:00:00.000Z",
      "2026-11-20T06:59:59.999Z",
      "2026-11-20T07:00:00.000Z",
    ]
    for (const at of times) await world.called(id, { at, keyId: keys[0] })
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
    const { id, token, keys } = await world.owner()
    await world.call("PATCH", "/account", { token, body: { time_zone: "Asia/Kolkata" } })
    await world.called(id, { at: "2026-11-19T18:29:59Z", keyId: keys[0] })
    await world.called(id, { at: "2026-11-19T18:30:00Z", keyId: keys[0] })
    const { json } = await world.call("GET", `/usage/summary?${range}&group_by=day`, { token })
    expect(json.data.map(({ group, requests }: Record<string, unknown>) => [group, requests])).toEqual([
      ["2026-11-19", 1],
      ["2026-11-20", 1],
    ])
    // What tells no days apart is read from the sums, as in any zone: they have what no record has any more.
    await world.sql`update usage_hours set calls = calls + 5 where account_id = ${id}`
    for (const by of ["model", "key", "format", "status"]) {
      const summary = await world.call("GET", `/usage/summary?${range}&group_by=${by}`, { token })
      expect([by, summary.json.total.requests]).toEqual([by, 7])
    }
    const halves = "from=2026-11-19T18:30:00Z&to=2026-11-19T19:00:00Z"
    expect((await world.call("GET", `/usage/summary?${halves}&group_by=model`, { token })).json.total.requests).toBe(1)
  })

  test("tells percentiles of the time to the first token, by group and of all", async () => {
    const { id, token, keys } = await world.owner()
    for (let n = 1; n <= 20; n++) await world.called(id, { keyId: keys[0], firstTokenMs: n * 10 })
    await world.called(id, { keyId: keys[1], firstTokenMs: 1_000 })
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
    const { id, token, keys } = await world.owner()
    const requestId = await world.called(id, { keyId: keys[0] })
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
    const { token } = await world.owner()
    const { status, json } = await world.call("GET", `/usage/summary?${query}`, { token })
    expect([status, json.code]).toEqual([400, "request.invalid"])
  })
})

describe("errors", () => {
  test("are counted by code, of the account's final records in the range", async () => {
    const { id, token } = await world.signUp()
    await world.called((await world.signUp()).id, { at: "2026-11-20T06:00:00Z", status: "upstream_error" })
    await world.called(id)
    const last = await world.called(id, { at: "2026-11-20T06:00:00Z", status: "upstream_error" })
    await world.called(id, { at: "2026-11-20T05:00:00Z", status: "aborted_stream" })
    const other = await world.called(id, { at: "2026-11-20T07:00:00Z", status: "upstream_error" })
    await world.called(id, { requestId: last, part: 1, status: "fallback_429" })
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

test("nothing here was answered by a bug", () => expect(world.bugs).toEqual([]))
