/** Children of a key, made with a management token of it: what they may do, what they count in, and who may make them. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test"
import { expectFailure } from "../contract/expect-failure.ts"
import { type Init, type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { reconcile } from "../money/reconcile.ts"

/** The one header that the trusted proxy writes. */
const PROXY = "x-forwarded-for"
let gateway: TestGateway
let person: Person
let parent: { readonly id: string; readonly key: string }
let token: string
beforeAll(async () => {
  gateway = await startTestGateway({ env: { CLIENT_ADDRESS_HEADER: PROXY, MAX_KEYS_PER_ACCOUNT: "3" } })
})
afterAll(() => gateway[Symbol.asyncDispose]())
beforeEach(async () => {
  person = await gateway.person(10_000)
  parent = await gateway.key(person)
  token = await newToken(parent.id)
})
afterEach(() => reconcile(gateway.sql))

type Answer = Readonly<Record<string, unknown>>

const dashboard = (path: string, method = "GET", body?: object) =>
  gateway.dashboard(person, path, { method, ...(body !== undefined && { body: JSON.stringify(body) }) })
const change = (body: object, id = parent.id) => dashboard(`/keys/${id}`, "PATCH", body)
async function newToken(id: string, name = "class"): Promise<string> {
  const made = await dashboard(`/keys/${id}/tokens`, "POST", { name })
  if (made.status !== 201) throw new Error(await made.text())
  return ((await made.json()) as { token: string }).token
}
const manage = (method: string, path = "", body?: object, how: { with?: string; headers?: Init["headers"] } = {}) =>
  fetch(`${gateway.url}/v1/keys${path}`, {
    method,
    headers: { Authorization: `Bearer ${how.with ?? token}`, ...how.headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
async function child(limits: object = {}): Promise<{ readonly id: string; readonly key: string }> {
  const made = await manage("POST", "", { name: "pupil", ...limits })
  if (made.status !== 201) throw new Error(await made.text())
  return (await made.json()) as { id: string; key: string }
}
const ask = async (key: string, init?: Init, model = "plain") => {
  const body = { model, messages: [{ role: "user", content: "Hello" }], max_tokens: 10 }
  const response = await gateway.post("/v1/chat/completions", key, body, init)
  await response.text()
  return response.headers.get("x-error-code") ?? response.status
}
const get = async (key: string, path: string) => {
  const { status, headers } = await fetch(gateway.url + path, { headers: { "x-api-key": key } })
  return headers.get("x-error-code") ?? status
}
const spentOf = async (id: string) => {
  const [row] = await gateway.sql<{ spent: bigint }[]>`
    select spent_micro as spent from key_spend where key_id = ${id} and period = 'total'`
  return Number(row?.spent ?? 0)
}

describe("a child", () => {
  test("is made, shown, listed, changed and revoked with the token of its key", async () => {
    const made = await manage("POST", "", { name: "Ani", spending_limit_micro: 5_000_000, spending_period: "monthly" })
    expect(made.status).toBe(201)
    const { key, ...shown } = (await made.json()) as Answer & { key: string; id: string }
    expect(key).toMatch(/^sk-loket-[0-9A-Za-z]{46}$/)
    expect(shown).toEqual({
      id: expect.stringMatching(/^key_/),
      name: "Ani",
      parent_id: parent.id,
      prefix: key.slice(0, 13),
      last4: key.slice(-4),
      status: "active",
      requests_per_minute: null,
      tokens_per_minute: null,
      spending_limit_micro: 5_000_000,
      spending_period: "monthly",
      spent_micro: 0,
      fallback: "never_dearer",
      replays_retries: true,
      expires_at: null,
      models: null,
      endpoints: null,
      networks: null,
      origins: null,
      max_rate_micro: null,
      created_at: expect.any(String),
      revoked_at: null,
      last_used_at: null,
    })
    expect(await (await manage("GET", `/${shown.id}`)).json()).toEqual(shown)
    expect(await ask(key)).toBe(200)
    const changed = await manage("PATCH", `/${shown.id}`, { name: "Ani B.", spending_limit_micro: 1 })
    expect(await changed.json()).toMatchObject({ name: "Ani B.", spending_limit_micro: 1, spending_period: "monthly" })
    expect(await ask(key)).toBe("quota.key_limit_exceeded")
    const revoked = await manage("DELETE", `/${shown.id}`)
    expect(await revoked.json()).toMatchObject({ id: shown.id, status: "revoked" })
    expect(await ask(key)).toBe("auth.api_key_revoked")
    expect((await manage("DELETE", `/${shown.id}`)).status).toBe(200)
  })

  test("is in no list of the account's keys, which count and name those of each", async () => {
    const ids = [(await child()).id, (await child()).id, (await child()).id].reverse()
    const first = (await (await manage("GET", "?limit=2")).json()) as { data: { id: string }[]; next_cursor: string }
    expect(first.data.map(({ id }) => id)).toEqual(ids.slice(0, 2))
    const second = (await (await manage("GET", `?cursor=${first.next_cursor}`)).json()) as typeof first
    expect([second.data.map(({ id }) => id), second.next_cursor]).toEqual([ids.slice(2), null] as never)
    const keys = (await (await dashboard("/keys")).json()) as { data: object[] }
    expect(keys.data).toMatchObject([{ id: parent.id, children: 3, parent_id: null }])
    const children = (await (await dashboard(`/keys?parent=${parent.id}`)).json()) as { data: { id: string }[] }
    expect(children.data.map(({ id }) => id)).toEqual(ids)
    expect((await manage("GET", "?cursor=x")).status).toBe(400)
  })

  test("is told nothing of the account's money", async () => {
    const { id, key } = await child()
    expect(await get(key, "/v1/balance")).toBe("auth.key_not_allowed")
    expect(await ask(key, { headers: { "X-Dry-Run": "true" } })).toBe("auth.key_not_allowed")
    await change({ shows_balance: true }, id)
    expect(await get(key, "/v1/balance")).toBe("auth.key_not_allowed")
    expect(await get(parent.key, "/v1/balance")).toBe(200)
  })

  test("spends of its own budget and of its parent's, and of no more than either has", async () => {
    await change({ spending_limit_micro: 2_000_000, spending_period: "total" })
    const small = await child({ spending_limit_micro: 300_000, spending_period: "daily" })
    const large = await child()
    const until = async (key: string) => {
      for (let n = 0; n < 200; n++) {
        const outcome = await ask(key)
        if (outcome !== 200) return outcome
      }
      return undefined
    }
    expect(await until(small.key)).toBe("quota.key_limit_exceeded")
    const bySmall = await spentOf(small.id)
    expect(bySmall).toBeGreaterThan(0)
    expect(bySmall).toBeLessThanOrEqual(300_000)
    expect(await spentOf(parent.id)).toBe(bySmall)
    expect(await ask(parent.key)).toBe(200)
    expect(await until(large.key)).toBe("quota.key_limit_exceeded")
    expect(await ask(parent.key)).toBe("quota.key_limit_exceeded")
    expect(await spentOf(parent.id)).toBeLessThanOrEqual(2_000_000)
  })

  test("counts in its parent's minute, and is not told of it", async () => {
    await change({ requests_per_minute: 3 })
    const [a, b] = [await child(), await child({ requests_per_minute: 2 })]
    expect([await ask(a.key), await ask(b.key), await ask(parent.key)]).toEqual([200, 200, 200])
    expect([await ask(a.key), await ask(parent.key)]).toEqual(["rate_limit.rpm_exceeded", "rate_limit.rpm_exceeded"])
    const refused = await fetch(`${gateway.url}/v1/models`, { headers: { "x-api-key": b.key } })
    expect(refused.headers.get("x-ratelimit-limit")).toBeNull()
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0)
    expect(await refused.text()).toContain("reached. This is said of the key that this one is a child of.")
    await change({ requests_per_minute: null, tokens_per_minute: 1 })
    expect(await ask(a.key)).toBe("rate_limit.tpm_exceeded")
  })

  test("has a minute of its own, which is not used up by what its parent's refuses", async () => {
    await change({ requests_per_minute: 2 })
    const [a, b] = [await child(), await child({ requests_per_minute: 2 })]
    expect([await ask(a.key), await ask(a.key)]).toEqual([200, 200])
    for (let n = 0; n < 4; n++) expect(await ask(b.key)).toBe("rate_limit.rpm_exceeded")
    await change({ requests_per_minute: null, networks: ["10.0.0.0/8"] })
    const from = (address: string) => ask(b.key, { headers: { [PROXY]: address } })
    for (let n = 0; n < 4; n++) expect(await from("192.0.2.1")).toBe("auth.key_not_allowed")
    expect([await from("10.1.2.3"), await from("10.1.2.3")]).toEqual([200, 200])
    expect(await from("10.1.2.3")).toBe("rate_limit.rpm_exceeded")
  })

  test("may do what its parent may, as it is when the call comes", async () => {
    const model = await gateway.model({ format: "chat", script: "input=10&output=5" })
    const { key } = await child({ models: ["plain", model] })
    expect([await ask(key), await ask(key, {}, model)]).toEqual([200, 200])
    await change({ models: [model] })
    expect([await ask(key), await ask(key, {}, model)]).toEqual(["auth.key_not_allowed", 200])
    await change({ models: null, endpoints: ["messages"] })
    expect(await ask(key)).toBe("auth.key_not_allowed")
    await change({ endpoints: null, max_rate_micro: 1 })
    expect(await ask(key)).toBe("auth.key_not_allowed")
    await change({ max_rate_micro: null, networks: ["203.0.113.0/24"] })
    expect(await ask(key, { headers: { [PROXY]: "203.0.113.9" } })).toBe(200)
    expect(await ask(key, { headers: { [PROXY]: "198.51.100.1" } })).toBe("auth.key_not_allowed")
  })

  test("ends with its parent, and works on when that gets another secret", async () => {
    const { id, key } = await child()
    await dashboard(`/keys/${parent.id}/rotate`, "POST", { overlap_s: 0 })
    expect([await ask(key), await ask(parent.key)]).toEqual([200, "auth.api_key_revoked"])
    await change({ expires_at: "2026-01-01T00:00:00Z" })
    expect(await ask(key)).toBe("auth.api_key_expired")
    await change({ expires_at: null })
    expect(await ask(key)).toBe(200)
    await dashboard(`/keys/${parent.id}/revoke`, "POST")
    expect(await ask(key)).toBe("auth.api_key_revoked")
    const shown = (await (await dashboard(`/keys?parent=${parent.id}`)).json()) as { data: object[] }
    expect(shown.data).toMatchObject([{ id, status: "revoked" }])
    await expectFailure(await manage("GET"), 401, "auth.management_token_invalid")
  })

  test("counts in its parent's ceiling of ten minutes, which pauses both", async () => {
    const { key } = await child()
    const set = { ceiling_micro: 200_000, action: "stop" }
    const answer = await dashboard(`/keys/${parent.id}/breaker`, "PUT", set)
    expect(answer.status).toBe(200)
    const outcomes = []
    do outcomes.push(await ask(key))
    while (outcomes.at(-1) === 200 && outcomes.length < 100)
    expect(outcomes.at(-1)).toBe("quota.key_paused")
    expect(await ask(parent.key)).toBe("quota.key_paused")
    expect(await spentOf(parent.id)).toBeLessThanOrEqual(200_000)
    await dashboard(`/keys/${parent.id}/resume`, "POST")
    expect(await ask(key)).toBe(200)
  })
})

describe("limits outside the parent's", () => {
  const limits = {
    requests_per_minute: 10,
    tokens_per_minute: 10_000,
    spending_limit_micro: 1_000_000,
    spending_period: "monthly",
    expires_at: "2090-01-01T00:00:00Z",
    models: ["plain"],
    endpoints: ["chat", "messages"],
    networks: ["10.0.0.0/8", "2001:db8::/32"],
    max_rate_micro: 5_000_000,
    fallback: "off",
  }
  const wider: Readonly<Record<string, object>> = {
    requests_per_minute: { requests_per_minute: 11 },
    tokens_per_minute: { tokens_per_minute: 10_001 },
    spending_limit_micro: { spending_limit_micro: 1_000_001, spending_period: "daily" },
    expires_at: { expires_at: "2090-01-01T00:00:00.001Z" },
    models: { models: ["plain", "other"] },
    endpoints: { endpoints: ["chat", "responses"] },
    networks: { networks: ["10.1.0.0/16", "11.0.0.0/8"] },
    max_rate_micro: { max_rate_micro: 5_000_001 },
    fallback: { fallback: "any" },
  }

  test("are refused by their name, when a child is made and when it is changed", async () => {
    await gateway.model({ format: "chat", model: "other" })
    await change(limits)
    const { id } = await child()
    for (const [name, body] of Object.entries(wider)) {
      for (const response of [
        await manage("POST", "", { name: "x", ...body }),
        await manage("PATCH", `/${id}`, body),
      ]) {
        const { error } = (await response.clone().json()) as { error: string }
        await expectFailure(response, 400, "request.invalid")
        expect(error).toStartWith(`'${name}' must be `)
      }
    }
  })

  test("are what a child has of its parent that is given none", async () => {
    await change({ fallback: "off", replays_retries: false })
    const { id } = await child()
    const shown = await (await manage("GET", `/${id}`)).json()
    expect(shown).toMatchObject({ fallback: "off", replays_retries: false })
  })

  test("are refused of a limit alone, whose period the child has", async () => {
    await change(limits)
    const { id } = await child({ spending_limit_micro: 1, spending_period: "monthly" })
    const more = (limit: number) => manage("PATCH", `/${id}`, { spending_limit_micro: limit })
    expect((await more(1_000_000)).status).toBe(200)
    await expectFailure(await more(1_000_001), 400, "request.invalid")
  })

  test("are at their edge what the parent has; a longer period may come to more", async () => {
    await change(limits)
    const { id } = await child({ ...limits, networks: ["10.1.0.0/16", "2001:db8:1::/48"] })
    const total = await manage("PATCH", `/${id}`, { spending_limit_micro: 9_000_000, spending_period: "total" })
    expect(total.status).toBe(200)
    await expectFailure(await manage("PATCH", `/${id}`, { spending_period: "monthly" }), 400, "request.invalid")
    const own = await manage("PATCH", `/${id}`, { spending_limit_micro: null, models: null, networks: null })
    expect(await own.json()).toMatchObject({ spending_limit_micro: null, spending_period: null, models: null })
  })

  test("a budget has a limit and a period, and a model is one of the catalogue", async () => {
    await expectFailure(await manage("POST", "", { name: "x", spending_limit_micro: 1 }), 400, "request.invalid")
    await expectFailure(await manage("POST", "", { name: "x", models: ["nope"] }), 400, "request.invalid")
    await expectFailure(await manage("POST", "", { name: "" }), 400, "request.invalid")
    for (const body of [{ breaker_ceiling_micro: 1, breaker_action: "stop" }, { spending_limit: 1 }])
      await expectFailure(await manage("POST", "", { name: "x", ...body }), 400, "request.invalid")
    await expectFailure(
      await manage("POST", "", { name: "x", expires_at: "2026-01-01T00:00:00Z" }),
      400,
      "request.invalid",
    )
  })
})

describe("a management token", () => {
  test("makes no calls, and an API key or a session makes no children", async () => {
    for (const path of ["/v1/models", "/v1/balance", "/v1/runs/x"]) {
      expect(await get(token, path)).toBe("auth.management_token")
    }
    expect(await ask(token)).toBe("auth.management_token")
    await expectFailure(await gateway.dashboard({ ...person, token }, "/account"), 401, "auth.unauthorized")
    const { key } = await child()
    for (const other of [parent.key, key, person.token]) {
      await expectFailure(await manage("GET", "", undefined, { with: other }), 401, "auth.management_token_required")
    }
    const wrong = token.slice(0, -1) + (token.endsWith("0") ? "1" : "0")
    await expectFailure(await manage("GET", "", undefined, { with: wrong }), 401, "auth.management_token_invalid")
    await expectFailure(await fetch(`${gateway.url}/v1/keys`), 401, "auth.management_token_invalid")
  })

  test("is listed without its secret, and opens nothing once it is revoked; what it made works on", async () => {
    const { key } = await child()
    const { data } = (await (await dashboard(`/keys/${parent.id}/tokens`)).json()) as { data: { id: string }[] }
    expect(data).toEqual([
      {
        id: expect.stringMatching(/^mgt_/),
        name: "class",
        prefix: token.slice(0, 13),
        last4: token.slice(-4),
        created_at: expect.any(String),
      },
    ] as never)
    const path = `/keys/${parent.id}/tokens/${data[0]?.id}/revoke`
    expect((await dashboard(path, "POST")).status).toBe(204)
    expect((await dashboard(path, "POST")).status).toBe(404)
    await expectFailure(await manage("GET"), 401, "auth.management_token_invalid")
    expect(await ask(key)).toBe(200)
  })

  test("is revoked by its own account alone, and as its own key's", async () => {
    const { data } = (await (await dashboard(`/keys/${parent.id}/tokens`)).json()) as { data: { id: string }[] }
    const path = (key: string) => `/keys/${key}/tokens/${data[0]?.id}/revoke`
    const stranger = await gateway.person()
    for (const key of [parent.id, (await gateway.key(stranger)).id]) {
      const theirs = await gateway.dashboard(stranger, path(key), { method: "POST" })
      await expectFailure(theirs, 404, "resource.not_found")
    }
    const other = await gateway.key(person)
    await expectFailure(await dashboard(path(other.id), "POST"), 404, "resource.not_found")
    expect((await manage("GET")).status).toBe(200)
  })

  test("knows the children of its key alone", async () => {
    const { id } = await child()
    const other = await gateway.key(person)
    const its = { with: await newToken(other.id) }
    for (const [method, body] of [["GET"], ["PATCH", { name: "mine" }], ["DELETE"]] as const) {
      await expectFailure(await manage(method, `/${id}`, body, its), 404, "resource.not_found")
      await expectFailure(await manage(method, `/${parent.id}`, body), 404, "resource.not_found")
    }
    expect(await (await manage("GET", "", undefined, its)).json()).toEqual({ data: [], next_cursor: null })
    const stranger = await gateway.person()
    const theirs = await gateway.dashboard(stranger, `/keys/${parent.id}/tokens`, {
      method: "POST",
      body: JSON.stringify({ name: "x" }),
    })
    await expectFailure(theirs, 404, "resource.not_found")
    await expectFailure(await gateway.dashboard(stranger, `/keys/${parent.id}/tokens`), 404, "resource.not_found")
  })

  test("is none of a child, of a revoked key, and one of at most five", async () => {
    const { id } = await child()
    const name = { name: "x" }
    await expectFailure(await dashboard(`/keys/${id}/tokens`, "POST", name), 400, "request.invalid")
    for (let n = 2; n <= 5; n++) await newToken(parent.id)
    await expectFailure(await dashboard(`/keys/${parent.id}/tokens`, "POST", name), 400, "request.invalid")
    const other = await gateway.key(person)
    await dashboard(`/keys/${other.id}/revoke`, "POST")
    await expectFailure(await dashboard(`/keys/${other.id}/tokens`, "POST", name), 400, "request.invalid")
  })

  test("carries a change out once, and meets nothing that another token was answered", async () => {
    const headers = { "Idempotency-Key": crypto.randomUUID() }
    const body = { name: "once" }
    const first = (await (await manage("POST", "", body, { headers })).json()) as Answer
    const again = await manage("POST", "", body, { headers })
    expect(again.headers.get("idempotency-replayed")).toBe("true")
    expect(await again.json()).toEqual(first as never)
    const second = await manage("POST", "", body, { headers, with: await newToken(parent.id) })
    expect(second.headers.get("idempotency-replayed")).toBeNull()
    expect(((await second.json()) as Answer)["key"]).not.toBe(first["key"])
    await expectFailure(await manage("POST", "", { name: "other" }, { headers }), 409, "idempotency.mismatch")
  })

  test("of an account that is frozen or deleted, or of a key that has expired, does nothing", async () => {
    await change({ expires_at: "2026-01-01T00:00:00Z" })
    await expectFailure(await manage("GET"), 401, "auth.api_key_expired")
    await change({ expires_at: null })
    const { key } = await child()
    await gateway.freeze(person, "a test")
    await expectFailure(await manage("POST", "", { name: "x" }), 403, "auth.account_frozen")
    expect(await ask(key)).toBe("auth.account_frozen")
  })

  test("is forgotten with its account", async () => {
    const { key } = await child()
    const gone = await dashboard("/account", "DELETE", { password: "correct horse battery" })
    expect(gone.ok).toBe(true)
    await expectFailure(await manage("GET"), 401, "auth.management_token_invalid")
    expect(await ask(key)).toBe("auth.account_deleted")
  })
})

test("a key has a thousand children that work, beside the keys of the account", async () => {
  await gateway.sql`
    insert into api_keys (id, account_id, name, key_hash, prefix, last4, parent_id)
    select 'key_' || ${parent.id} || n, ${person.accountId}, 'x', sha256((${parent.id} || n)::bytea), 'sk-loket-', 'last', ${parent.id}
    from generate_series(1, 999) n`
  const { id } = await child()
  await expectFailure(await manage("POST", "", { name: "x" }), 400, "request.invalid")
  await manage("DELETE", `/${id}`)
  await child()
  await gateway.key(person)
  await gateway.key(person)
  const fourth = await gateway.dashboard(person, "/keys", { method: "POST", body: JSON.stringify({ name: "x" }) })
  await expectFailure(fourth, 400, "request.invalid")
})

test("an account makes five thousand children in a day, and has as many", async () => {
  const [other, third] = [await gateway.key(person), await gateway.key(person)]
  const made = (first: number, last: number) => gateway.sql`
    insert into api_keys (id, account_id, name, key_hash, prefix, last4, parent_id, revoked_at)
    select 'key_' || ${other.id} || n, ${person.accountId}, 'x', sha256((${other.id} || n)::bytea), 'sk-loket-', 'last', ${other.id},
      case when n > 4000 then now() end
    from generate_series(${first}::integer, ${last}) n`
  // The history has as many rows as it takes in a day; without triggers the others do not count in one of them, each for itself.
  await made(1, 300)
  await gateway.sql.begin(async (sql) => {
    await sql`set local session_replication_role = replica`
    await sql`${made(301, 4999)}`
  })
  await child()
  await expectFailure(await manage("POST", "", { name: "x" }), 400, "request.invalid")
  await gateway.sql.begin(async (sql) => {
    await sql`set local session_replication_role = replica`
    await sql`update api_keys set created_at = now() - interval '2 days' where parent_id = ${other.id}`
  })
  await child()
  await gateway.sql`
    update api_keys set revoked_at = case when n.place <= 4998 then null else now() end
    from (select id, row_number() over (order by id) as place from api_keys where parent_id = ${other.id}) n
    where n.id = api_keys.id and (n.place <= 4998) <> (revoked_at is null)`
  await expectFailure(await manage("POST", "", { name: "x" }), 400, "request.invalid")
  // Those of a key that was revoked are none that work.
  await dashboard(`/keys/${other.id}/revoke`, "POST")
  await child()
  expect(third.id).toMatch(/^key_/)
})

test("what is done is in the account's history, with the token that did it", async () => {
  const { id } = await child()
  await manage("PATCH", `/${id}`, { name: "Budi" })
  await manage("DELETE", `/${id}`)
  const tokens = (await (await dashboard(`/keys/${parent.id}/tokens`)).json()) as { data: { id: string }[] }
  const by = tokens.data[0]?.id
  await dashboard(`/keys/${parent.id}/tokens/${by}/revoke`, "POST")
  const { data } = (await (await dashboard("/account/activity?limit=5")).json()) as { data: object[] }
  expect(data).toMatchObject([
    { action: "management_token.revoked", actor: "owner", subject: by, name: "class", before: { key_id: parent.id } },
    { action: "child_key.revoked", actor: "token", token: by, subject: id, after: { parent: parent.id } },
    { action: "child_key.changed", actor: "token", token: by, before: { name: "pupil" }, after: { name: "Budi" } },
    {
      action: "child_key.created",
      actor: "token",
      subject: id,
      name: "pupil",
      token: by,
      after: { parent: parent.id },
    },
    { action: "management_token.created", actor: "owner", subject: by, after: { key_id: parent.id } },
  ])
  const other = await dashboard(`/keys`, "POST", { name: "own" })
  expect(other.status).toBe(201)
  const [last] = ((await (await dashboard("/account/activity?limit=1")).json()) as { data: object[] }).data
  expect(last).toMatchObject({ action: "key.created", actor: "owner", after: null })
})
