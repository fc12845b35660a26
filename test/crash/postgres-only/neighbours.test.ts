/** Two processes of one machine: a repeat that comes to the one is handed the answer of the other, whatever becomes of that. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { readdirSync, statSync } from "node:fs"
import { join } from "node:path"
import { eventually } from "../../contract/calling.ts"
import { type ChildGateway, type Customer, House, modelSeed } from "../child.ts"

const PACED = "input=10&output=40&pace=50&ttft=300"

let house: House
let one: ChildGateway
let two: ChildGateway
let customer: Customer

beforeAll(async () => {
  house = await House.build([
    modelSeed("quick", "chat", "input=10&output=20"),
    modelSeed("paced", "chat", PACED),
    modelSeed("long", "chat", "input=10&output=200&pace=50&ttft=300"),
    // It does not end before these tests do.
    modelSeed("endless", "chat", "input=10&output=6000&pace=1000"),
    modelSeed("large", "chat", `input=10&text=${encodeURIComponent("größer ".repeat(3_000))}`, {
      max_output_tokens: 60_000,
    }),
  ])
  ;[one, two] = await Promise.all([house.start(), house.start()])
  customer = await one.customer(1_000_000)
})
afterAll(async () => {
  await Promise.all([one.kill(), two.kill()])
  await house[Symbol.asyncDispose]()
})

let names = 0
const newName = () => `name-${++names}`
const send = (gateway: ChildGateway, model: string, name: string, stream: boolean, init: RequestInit = {}) =>
  fetch(`${gateway.url}/v1/chat/completions`, {
    ...init,
    method: "POST",
    headers: {
      Authorization: `Bearer ${customer.key}`,
      "Content-Type": "application/json",
      "Idempotency-Key": name,
    },
    body: JSON.stringify({ model, stream, max_tokens: 50_000, messages: [{ role: "user", content: name }] }),
  })
const id = (response: Response) => response.headers.get("x-request-id")
const codeOf = async (response: Response) => ((await response.json()) as { code: string }).code
const charged = (name: readonly (string | null)[]) =>
  house.books(
    (sql) => sql`select request_id from usage where charge_micro > 0 and request_id = any(${name as string[]}::text[])`,
  )

/** What is the same of an answer and its replay. */
const told = (response: Response) =>
  Object.fromEntries(
    [...response.headers].filter(([header]) => /^(content-type|cache-control|x-model|x-dropped)/.test(header)),
  )
const quiet = (text: string) => text.replaceAll(": heartbeat\n", "")

async function expectHanded(response: Response, first: Response, text: string): Promise<void> {
  expect(response.status).toBe(200)
  expect(response.headers.get("idempotency-replayed")).toBe("true")
  expect(response.headers.get("idempotency-original-request-id")).toBe(id(first))
  expect(id(response)).not.toBe(id(first))
  expect(told(response)).toEqual(told(first))
  expect(quiet(await response.text())).toBe(quiet(text))
}

test.each([
  ["quick", false],
  ["quick", true],
  ["large", false],
  ["large", true],
])("after its end the very bytes are given by the other process: %s, streamed: %p", async (model, stream) => {
  const name = newName()
  const first = await send(one, model, name, stream)
  const text = await first.text()
  for (let n = 0; n < 3; n++) {
    const again = await send(two, model, name, stream)
    expect(again.headers.get("x-cost-rp")).toBe(first.headers.get("x-cost-rp"))
    await expectHanded(again, first, text)
    expect(await charged([id(first), id(again)])).toHaveLength(1)
  }
})

const asked = () => house.simulator.calls.filter(({ model }) => model.startsWith("paced")).length

test.each([false, true])("while it runs it is read along at the other process; streamed: %p", async (stream) => {
  const name = newName()
  const before = asked()
  const first = send(one, "paced", name, stream)
  await eventually("the backend is asked", asked, (calls) => calls > before)
  const others = [send(two, "paced", name, stream), send(two, "paced", name, stream), send(one, "paced", name, stream)]
  const response = await first
  const text = await response.text()
  for (const other of others) await expectHanded(await other, response, text)
})

test("four readers are the most, at both together; who leaves makes room", async () => {
  const name = newName()
  const gone = new AbortController()
  const first = send(one, "endless", name, true)
  const reading = [await first]
  for (const gateway of [two, two]) reading.push(await send(gateway, "endless", name, true))
  reading.push(await send(two, "endless", name, true, { signal: gone.signal }))
  for (const gateway of [one, two]) {
    const fifth = await send(gateway, "endless", name, true)
    expect([fifth.status, fifth.headers.get("retry-after")]).toEqual([409, "1"])
    expect(await codeOf(fifth)).toBe("idempotency.in_progress")
  }
  gone.abort()
  await eventually(
    "there is room again",
    async () => {
      const response = await send(two, "endless", name, true)
      await response.body?.cancel()
      return response.status
    },
    (status) => status === 200,
  )
  for (const each of reading) await each.body?.cancel().catch(() => {})
})

test("another body is a mismatch there too", async () => {
  const name = newName()
  await (await send(one, "quick", name, false)).text()
  const other = await send(two, "quick", name, true)
  expect([other.status, await codeOf(other)]).toEqual([409, "idempotency.mismatch"])
})

test("their sockets are open to this user alone", () => {
  const directory = join(house.dataDir, "neighbours")
  expect(statSync(directory).mode & 0o777).toBe(0o700)
  const sockets = readdirSync(directory)
  expect(sockets).toHaveLength(2)
  for (const socket of sockets) expect(statSync(join(directory, socket)).mode & 0o777).toBe(0o600)
})

test("of a process that stands still nothing is waited for", async () => {
  const name = newName()
  const first = await send(one, "quick", name, false)
  const text = await first.text()
  one.signal("SIGSTOP")
  const refused = await send(two, "quick", name, false)
  one.signal("SIGCONT")
  expect([refused.status, await codeOf(refused)]).toEqual([409, "idempotency.finished"])
  const again = await eventually(
    "it answers its neighbour again",
    () => send(two, "quick", name, false),
    ({ status }) => status === 200,
  )
  await expectHanded(again, first, text)
})

test("where it is killed in its middle, the answer breaks off; it is made anew, and one is charged", async () => {
  const name = newName()
  const first = await send(one, "long", name, true)
  const handed = await send(two, "long", name, true)
  expect(handed.headers.get("idempotency-original-request-id")).toBe(id(first))
  await one.kill()
  const broken = await handed.text().then(
    () => "whole",
    () => "broken",
  )
  await first.text().catch(() => {})
  expect(broken).toBe("broken")
  const asked: (string | null)[] = [id(first)]
  let again = await send(two, "long", name, true)
  while (again.status !== 200) {
    expect(await codeOf(again)).toBe("idempotency.in_progress")
    await Bun.sleep(200)
    again = await send(two, "long", name, true)
  }
  asked.push(id(again))
  expect([again.status, again.headers.has("idempotency-replayed")]).toEqual([200, false])
  expect(await again.text()).toContain("[DONE]")
  expect(await charged(asked)).toHaveLength(1)
  // The dead one's socket is still there, and nobody answers at it.
  const third = await house.start()
  const replayed = await send(third, "long", name, true)
  await expectHanded(replayed, again, await (await send(two, "long", name, true)).text())
  await third.stop()
  expect(readdirSync(join(house.dataDir, "neighbours"))).toHaveLength(2)
})
