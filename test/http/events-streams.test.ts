/** How long a stream of events lasts, and whose it is. */
import { expect, test } from "bun:test"
import { Events, EventStream } from "../../src/http/events.ts"
import { serveEvents } from "./serve-events.ts"

const owner = { accountId: "acc_1", personId: "acc_1" }

/** What comes until it has so often had a text, or until the end. */
async function readUntil(reader: ReadableStreamDefaultReader<Uint8Array>, text: string, times = 1): Promise<string> {
  let read = ""
  while (read.split(text).length <= times) {
    const { done, value } = await reader.read()
    if (done) return `${read}the end`
    read += new TextDecoder().decode(value)
  }
  return read
}
const opened = async (server: { readonly url: URL }) => {
  const reader = (await fetch(new URL("/events", server.url))).body?.getReader()
  if (reader === undefined) throw new Error("no body")
  return reader
}

test("a stream goes on while its session stands, with the balance at each look, and ends with its account", async () => {
  const { state, events, server } = serveEvents(5)
  const reader = await opened(server)
  expect(await readUntil(reader, "event: balance", 5)).not.toContain("the end")
  expect(events.count(owner)).toBe(1)
  state.isThere = false
  expect(await readUntil(reader, "never")).toEndWith("the end")
  expect(events.count(owner)).toBe(0)
  await server.stop(true)
})

test("a stream ends when its session is about another account", async () => {
  const { state, events, server } = serveEvents(5)
  const reader = await opened(server)
  await readUntil(reader, "event: balance")
  state.accountId = "acc_2"
  expect(await readUntil(reader, "never")).toEndWith("the end")
  expect(events.count(owner)).toBe(0)
  await server.stop(true)
})

test("what was told a moment before a stream's end goes out before it", async () => {
  const begun = () => {
    stream.send("balance", {})
    stream.send("refused", {})
    stream.end()
  }
  const stream = new EventStream({ first: "balance", begun, ended: () => {} })
  expect(await readUntil(stream.body.getReader(), "never")).toMatch(/^event: balance\n.*event: refused\n.*the end$/s)
})

test("a reader that leaves takes nobody else's stream along", async () => {
  const { events, server } = serveEvents(60_000)
  const [one, other] = [await opened(server), await opened(server)]
  await readUntil(one, "event: balance")
  await readUntil(other, "event: balance")
  await one.cancel()
  while (events.count(owner) > 1) await Bun.sleep(5)
  events.refused("acc_1")
  expect(await readUntil(other, "event: refused")).not.toContain("the end")
  await other.cancel()
  await server.stop(true)
})

test("streams are counted by who reads them: a member of an account has as many as its owner", () => {
  const events = new Events()
  const add = (accountId: string, personId: string) => {
    const stream = new EventStream({ first: "balance", begun: () => {}, ended: () => {} })
    events.add(accountId, {
      stream,
      personId,
      balance: () => Promise.resolve(undefined),
      accountChanged: () => Promise.resolve(),
    })
  }
  add("acc_1", "acc_1")
  add("acc_1", "acc_2")
  add("acc_1", "acc_2")
  add("acc_2", "acc_2")
  expect(events.count(owner)).toBe(1)
  expect(events.count({ accountId: "acc_1", personId: "acc_2" })).toBe(2)
  expect(events.count({ accountId: "acc_3", personId: "acc_2" })).toBe(0)
})
