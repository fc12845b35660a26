/** What was done to an account, as its owner sees it: written with each change, whichever way it was made. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"

let gateway: TestGateway
beforeAll(async () => void (gateway = await startTestGateway()))
afterAll(() => gateway[Symbol.asyncDispose]())

interface Entry {
  readonly id: number
  readonly action: string
  readonly [field: string]: unknown
}
const page = async (person: Person, query = "") => {
  const response = await gateway.dashboard(person, `/account/activity${query}`)
  expect(response.status).toBe(200)
  return (await response.json()) as { data: Entry[]; next_cursor: string | null }
}
const actions = async (person: Person) => (await page(person)).data.map(({ action }) => action)
const send = async (person: Person, method: string, path: string, body: object = {}) => {
  const response = await gateway.dashboard(person, path, { method, body: JSON.stringify(body) })
  if (!response.ok) throw new Error(`${method} ${path}: ${await response.text()}`)
  return response
}

test("a sign-up, each thing done to a key, and the settings are told, the newest first, and no secret is", async () => {
  const person = await gateway.person()
  const { id, key } = await gateway.key(person, { name: "Shop", requests_per_minute: 5 })
  await send(person, "PATCH", `/keys/${id}`, { name: "Shop two", requests_per_minute: null, networks: ["10.0.0.1"] })
  // What changes nothing is nothing.
  await send(person, "PATCH", `/keys/${id}`, { name: "Shop two" })
  await send(person, "PATCH", `/keys/${id}`, { replays_retries: false })
  await send(person, "PATCH", `/keys/${id}`, { replays_retries: true, fallback: "any" })
  await send(person, "POST", `/keys/${id}/rotate`)
  await send(person, "POST", `/keys/${id}/revoke`)
  await send(person, "PATCH", "/account", { time_zone: "Asia/Makassar" })
  const { data } = await page(person)
  const own = { actor: "owner", address: null, more: 0 }
  expect(data).toMatchObject([
    { ...own, action: "account.changed", subject: null, after: { fields: ["time_zone"] } },
    { ...own, action: "key.revoked", subject: id, name: "Shop two" },
    { ...own, action: "key.rotated", subject: id, name: "Shop two" },
    {
      ...own,
      action: "key.changed",
      before: { replays_retries: false, fallback: "never_dearer" },
      after: { replays_retries: true, fallback: "any" },
    },
    { ...own, action: "key.changed", before: { replays_retries: true }, after: { replays_retries: false } },
    {
      ...own,
      action: "key.changed",
      subject: id,
      before: { name: "Shop", requests_per_minute: 5, networks: null },
      after: { name: "Shop two", requests_per_minute: null, networks: ["10.0.0.1/32"] },
    },
    { ...own, action: "key.created", subject: id, name: "Shop" },
    { action: "session.started", actor: "owner", address: "127.0.0.1", after: { second_factor: false } },
    { ...own, action: "account.created" },
  ])
  const [row] = await gateway.sql`select key_hash from api_keys where id = ${id}`
  const told = JSON.stringify(data)
  for (const secret of [key, key.slice(-20), person.token, Buffer.from(row?.key_hash).toString("hex")]) {
    expect(told).not.toContain(secret)
  }
})

test("another password, a webhook, and the sign-in that follows are told", async () => {
  const person = await gateway.person()
  await send(person, "PUT", "/account/webhook", { url: "https://shop.example/loket" })
  await send(person, "DELETE", "/account/webhook")
  const change = { current: "correct horse battery", new: "battery horse correct" }
  await send(person, "POST", "/auth/password", change)
  const [account] = await gateway.sql<{ email: string }[]>`select email from accounts where id = ${person.accountId}`
  const signedIn = await fetch(`${gateway.url}/auth/sign-in`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "User-Agent": "a browser" },
    body: JSON.stringify({ email: account?.email, password: change.new }),
  })
  const { session_token: token } = (await signedIn.json()) as { session_token: string }
  const { data } = await page({ ...person, token })
  expect(data.map(({ action }) => action)).toEqual([
    "session.started",
    "password.changed",
    "webhook.removed",
    "webhook.set",
    "session.started",
    "account.created",
  ])
  expect(data[0]).toMatchObject({ user_agent: "a browser" })
  expect(JSON.stringify(data)).not.toContain("argon2")
})

test("what an operator does is told as that, without who it was and why; what the gateway does by itself too", async () => {
  const operator = await gateway.person()
  await gateway.sql`update accounts set role = 'operator' where id = ${operator.accountId}`
  const person = await gateway.person()
  const by = (path: string, body: object = {}) =>
    send(operator, "POST", `/operator/accounts/${person.accountId}/${path}`, { reason: "a secret reason", ...body })
  await by("freeze")
  await by("unfreeze")
  await gateway.freeze(person, "a secret difference")
  const { data } = await page(person)
  expect(data.slice(0, 3).map(({ action, actor }) => [action, actor])).toEqual([
    ["account.frozen", "gateway"],
    ["account.unfrozen", "operator"],
    ["account.frozen", "operator"],
  ])
  const told = JSON.stringify(data)
  for (const secret of ["secret", operator.accountId]) expect(told).not.toContain(secret)
  expect(await actions(operator)).toEqual(["account.role", "session.started", "account.created"])
})

test("it is paged by a cursor, is the owner's alone, and is a file whose cells no spreadsheet runs", async () => {
  const person = await gateway.person()
  const other = await gateway.person()
  for (const name of ["=HYPERLINK(1)", "two", "three"]) await gateway.key(person, { name })
  const found: Entry[] = []
  let cursor: string | null = null
  do {
    const next: Awaited<ReturnType<typeof page>> = await page(
      person,
      `?limit=2${cursor === null ? "" : `&cursor=${cursor}`}`,
    )
    expect(next.data.length).toBeLessThanOrEqual(2)
    found.push(...next.data)
    cursor = next.next_cursor
  } while (cursor !== null)
  expect(found.map(({ action }) => action)).toEqual([
    "key.created",
    "key.created",
    "key.created",
    "session.started",
    "account.created",
  ])
  expect(await actions(other)).toEqual(["session.started", "account.created"])
  const file = await (await gateway.dashboard(person, "/account/activity/export.csv")).text()
  const lines = file.trimEnd().split("\r\n")
  expect(lines).toHaveLength(6)
  expect(file).toContain(",'=HYPERLINK(1),")
  expect((await gateway.dashboard(person, "/account/activity?cursor=x")).status).toBe(400)
})

test("a file has all of it, however much it is", async () => {
  const person = await gateway.person()
  await gateway.sql`
    insert into account_events (account_id, action, subject, name, at)
    select ${person.accountId}, 'key.created', 'key_x', 'n' || n, now() from generate_series(1, 20001) n`
  const file = await (await gateway.dashboard(person, "/account/activity/export.csv")).text()
  const names = file
    .trimEnd()
    .split("\r\n")
    .map((line) => line.split(",")[6])
  expect(names).toEqual(["name", ...Array.from({ length: 20_001 }, (_, n) => `n${20_001 - n}`), "", ""])
})

test("300 of a kind have rows of their own in a day; the rest is counted, and hides nothing of another kind", async () => {
  const person = await gateway.person()
  const { id } = await gateway.key(person)
  await gateway.sql.unsafe(`do $$ begin
    for n in 1..305 loop update api_keys set requests_per_minute = n where id = '${id}'; end loop; end $$`)
  await send(person, "POST", `/keys/${id}/revoke`)
  const rows = await gateway.sql<{ action: string; count: bigint; more: bigint }[]>`
    select action, count(*) as count, sum(more) as more from account_events where account_id = ${person.accountId} group by action order by action`
  expect(rows.map(({ action, count, more }) => [action, Number(count), Number(more)])).toEqual([
    ["account.created", 1, 0],
    ["key.changed", 300, 5],
    ["key.created", 1, 0],
    ["key.revoked", 1, 0],
    ["session.started", 1, 0],
  ])
  const [revoked, changed] = (await page(person)).data
  expect([revoked?.action, changed?.action, changed?.["more"]]).toEqual(["key.revoked", "key.changed", 5])
})
