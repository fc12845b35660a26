import { afterAll, beforeAll, expect, test } from "bun:test"
import { connect } from "node:net"
import { EventStream } from "../../src/http/events.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { caller, makeOperator } from "./operator/operator.ts"
import { serveEvents } from "./serve-events.ts"

let gateway: TestGateway
let person: Person
let key: string

beforeAll(async () => {
  gateway = await startTestGateway()
  person = await gateway.person(100_000)
  key = (await gateway.key(person)).key
})
afterAll(() => gateway[Symbol.asyncDispose]())

interface Told {
  readonly event: string
  readonly data: Record<string, unknown>
}

/** Reads events one by one; undefined at the stream's end. */
class Listener implements AsyncDisposable {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>
  readonly #decoder = new TextDecoder()
  #text = ""

  constructor(response: Response) {
    const { body } = response
    if (body === null) throw new Error("no body")
    this.#reader = body.getReader()
  }

  async next(wanted?: string): Promise<Told | undefined> {
    for (;;) {
      const end = this.#text.indexOf("\n\n")
      if (end >= 0) {
        const lines = this.#text.slice(0, end).split("\n")
        this.#text = this.#text.slice(end + 2)
        const field = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2) ?? ""
        const told = { event: field("event"), data: JSON.parse(field("data")) as Record<string, unknown> }
        if (wanted === undefined || told.event === wanted) return told
        continue
      }
      const { done, value } = await this.#reader.read()
      if (done) return undefined
      this.#text += this.#decoder.decode(value, { stream: true })
    }
  }

  async [Symbol.asyncDispose]() {
    await this.#reader.cancel()
  }
}

const listen = async (who: Person) => new Listener(await gateway.dashboard(who, "/events"))

test("a stream begins with the balance", async () => {
  await using listener = await listen(person)
  const { balance_micro, held_micro } = await gateway.balance(person)
  expect(await listener.next()).toEqual({
    event: "balance",
    data: { account_id: person.accountId, balance_micro, held_micro },
  })
})

test("a finished call is told with what it cost, and then the balance", async () => {
  const model = await gateway.model({ format: "chat", script: "input=10&output=3" })
  await using listener = await listen(person)
  const before = await listener.next("balance")
  const body = { model, messages: [{ role: "user", content: "Hello" }] }
  const response = await gateway.post("/v1/chat/completions", key, body)
  await response.text()
  const charge = 10 * 1_000 + 3 * 5_000
  expect((await listener.next("call"))?.data).toMatchObject({
    request_id: response.headers.get("x-request-id"),
    model,
    endpoint: "chat",
    status: "ok",
    input_tokens: 10,
    output_tokens: 3,
    charge_micro: charge,
  })
  const after = await listener.next("balance")
  expect(Number(before?.data["balance_micro"]) - Number(after?.data["balance_micro"])).toBe(charge)
})

test("what a call holds is told while it holds it", async () => {
  const model = await gateway.model({ format: "chat", script: "ttft=6000" })
  await using listener = await listen(person)
  expect((await listener.next("balance"))?.data["held_micro"]).toBe(0)
  const body = { model, messages: [{ role: "user", content: "Hello" }] }
  const call = gateway.post("/v1/chat/completions", key, body)
  expect((await listener.next())?.data["held_micro"]).toBeGreaterThan(0)
  await (await call).text()
  await listener.next("call")
  expect((await listener.next("balance"))?.data["held_micro"]).toBe(0)
})

test("a top-up is told, and then the balance", async () => {
  const somebody = await gateway.person()
  await using listener = await listen(somebody)
  await listener.next("balance")
  await gateway.topUp(somebody, 25_000)
  expect((await listener.next("top-up"))?.data).toMatchObject({ status: "paid" })
  expect((await listener.next("balance"))?.data).toMatchObject({ balance_micro: 25_000_000_000, held_micro: 0 })
})

test("what an operator or another tab changes of the account and its keys is told", async () => {
  const somebody = await gateway.person(10_000)
  const ask = caller(gateway, await makeOperator(gateway))
  await using listener = await listen(somebody)
  await listener.next("balance")
  const { id } = await gateway.key(somebody)
  expect(await listener.next("account")).toEqual({ event: "account", data: {} })
  for (const [method, path, body] of [
    ["PATCH", `/keys/${id}`, { requests_per_minute: 7 }],
    ["POST", `/keys/${id}/revoke`, undefined],
    ["PATCH", "/account", { low_balance_threshold_micro: 5 }],
  ] as const) {
    const init = {
      method,
      ...(body && { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } }),
    }
    expect((await gateway.dashboard(somebody, path, init)).ok).toBe(true)
    await listener.next("account")
  }
  for (const act of ["freeze", "unfreeze"]) {
    await ask(`/operator/accounts/${somebody.accountId}/${act}`, { reason: "a test" })
    await listener.next("account")
  }
})

test("a new price is told to everybody who looks, and a catalogue that was read again unchanged to nobody", async () => {
  const model = await gateway.model({ format: "chat" })
  const ask = caller(gateway, await makeOperator(gateway))
  await using listener = await listen(person)
  await listener.next("balance")
  const price = { input_micro: 1_500, output_micro: 5_000, cache_read_micro: 100, cache_write_micro: 1_250 }
  const { status } = await ask(`/operator/models/${model}/prices`, price)
  expect(status).toBe(201)
  expect(await listener.next("catalogue")).toEqual({ event: "catalogue", data: {} })
})

test("nobody hears of another account", async () => {
  const stranger = await gateway.person()
  await using listener = await listen(stranger)
  await listener.next("balance")
  await gateway.topUp(person, 10_000)
  await gateway.topUp(stranger, 11_000)
  await listener.next("top-up")
  expect((await listener.next("balance"))?.data).toMatchObject({ balance_micro: 11_000_000_000, held_micro: 0 })
})

test("without a session there is nothing to hear", async () => {
  expect((await fetch(`${gateway.url}/events`)).status).toBe(401)
  const withKey = await fetch(`${gateway.url}/events`, { headers: { Authorization: `Bearer ${key}` } })
  expect(withKey.status).toBe(401)
})

test("an account has twenty streams at most, and a reader that leaves makes room", async () => {
  const busy = await gateway.person()
  const listeners = await Promise.all(Array.from({ length: 20 }, () => listen(busy)))
  for (const listener of listeners) await listener.next("balance")
  const refused = await gateway.dashboard(busy, "/events")
  expect(refused.status).toBe(429)
  expect(refused.headers.get("retry-after")).toBe("1")
  expect(await refused.json()).toMatchObject({
    code: "gateway.capacity",
    error: "20 streams of events are open; close one.",
  })
  for (const listener of listeners) await listener[Symbol.asyncDispose]()
  for (let tries = 0; ; tries++) {
    const response = await gateway.dashboard(busy, "/events")
    await response.body?.cancel()
    if (response.status === 200) break
    if (tries === 100) throw new Error("no room was made")
    await Bun.sleep(10)
  }
})

test("a stream ends soon after its session has", async () => {
  const { state, events, server } = serveEvents()
  await using listener = new Listener(await fetch(new URL("/events", server.url)))
  await listener.next("balance")
  state.signedIn = false
  while ((await listener.next()) !== undefined);
  expect(events.count({ accountId: "acc_1", personId: "acc_1" })).toBe(0)
  await server.stop(true)
})

test("what happens while the first balance is read follows it, in its order", async () => {
  const { state, events, server } = serveEvents()
  const reading = Promise.withResolvers<void>()
  state.read = reading.promise
  const asked = fetch(new URL("/events", server.url))
  while (events.count({ accountId: "acc_1", personId: "acc_1" }) === 0) await Bun.sleep(5)
  events.accountChanged("acc_1")
  events.refused("acc_1")
  reading.resolve()
  await using listener = new Listener(await asked)
  const told = [await listener.next(), await listener.next(), await listener.next()]
  expect(told.map((event) => event?.event)).toEqual(["balance", "account", "refused"])
  events.unusual("acc_1")
  // The balance is told again some time after the account has changed, on a busy machine after each of the two; nothing else is.
  let next = await listener.next()
  while (next?.event === "balance") next = await listener.next()
  expect(next).toEqual({ event: "spending.unusual", data: {} })
  await server.stop(true)
})

test("a stream whose first balance cannot be read keeps no more than its limit", async () => {
  const { state, events, server } = serveEvents()
  state.read = Promise.withResolvers<void>().promise
  const asked = fetch(new URL("/events", server.url))
  while (events.count({ accountId: "acc_1", personId: "acc_1" }) === 0) await Bun.sleep(5)
  const size = "event: refused\ndata: {}\n\n".length
  for (let sent = 0; sent < 64 * 1024; sent += size) events.refused("acc_1")
  expect(events.count({ accountId: "acc_1", personId: "acc_1" })).toBe(1)
  events.refused("acc_1")
  expect(events.count({ accountId: "acc_1", personId: "acc_1" })).toBe(0)
  await using listener = new Listener(await asked)
  while ((await listener.next()) !== undefined);
  await server.stop(true)
})

test("a reader that falls behind is hung up on", async () => {
  const { events, server } = serveEvents()
  const socket = connect(Number(server.port), "127.0.0.1", () => {
    socket.pause()
    socket.write("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
  })
  socket.on("error", () => {})
  while (events.count({ accountId: "acc_1", personId: "acc_1" }) === 0) await Bun.sleep(5)
  let told = 0
  while (events.count({ accountId: "acc_1", personId: "acc_1" }) === 1) {
    for (let each = 0; each < 1_000; each++) events.credited("acc_1", `top_${"x".repeat(200)}`)
    told += 1_000
    await Bun.sleep(1)
    if (told > 200_000) throw new Error("the buffer has no end")
  }
  socket.destroy()
  await server.stop(true)
})

test("HEAD is answered at once, and takes none of the account's streams", async () => {
  const { state, events, server } = serveEvents()
  const head = await fetch(new URL("/events", server.url), { method: "HEAD", signal: AbortSignal.timeout(5_000) })
  expect([head.status, head.headers.get("content-type")]).toEqual([200, "text/event-stream; charset=utf-8"])
  expect(head.headers.get("content-length")).toBeNull()
  expect(await head.text()).toBe("")
  await Bun.sleep(100)
  expect(events.count({ accountId: "acc_1", personId: "acc_1" })).toBe(0)
  expect(state.reads).toBe(0)
  await server.stop(true)
})

test("a stream that nobody reads has not begun", () => {
  let begun = 0
  const stream = new EventStream({ first: "balance", begun: () => begun++, ended: () => {} })
  stream.send("balance", {})
  expect(begun).toBe(0)
})
