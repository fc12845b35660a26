/** Clients that take longer for an answer than a connection may be idle get all of it. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { connect } from "node:net"
import { soleCredential } from "../../src/catalogue/model.ts"
import { backendOf, startTestGateway, type TestGateway } from "../gateway/harness.ts"

let gateway: TestGateway

beforeAll(async () => {
  gateway = await startTestGateway({ env: { KEEP_ALIVE_MS: "4000" } })
})
afterAll(() => gateway[Symbol.asyncDispose]())

/** What comes of a request whose client takes so many bytes a second. */
async function slowly(bytes: string, perSecond: number, { url } = gateway): Promise<string> {
  const { hostname, port } = new URL(url)
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  let text = ""
  const socket = connect(Number(port), hostname, () => socket.write(bytes))
  socket.on("data", (data) => {
    text += data.toString("latin1")
    socket.pause()
    setTimeout(() => socket.resume(), (data.length / perSecond) * 1_000)
  })
  socket.on("error", reject)
  socket.on("close", () => resolve(text))
  return await promise
}

test("an export that its client takes longer for than a connection may be idle comes to its end", async () => {
  const person = await gateway.person()
  // In parts, between which the gateway's own statements have their turn.
  for (let first = 1; first < 40_000; first += 4_000)
    await gateway.sql`
    insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens, output_tokens,
      cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts, flagged, opened_at, duration_ms)
    select 'req_' || lpad(n::text, 9, '0'), 0, ${person.accountId}, 'key_x', 1, 'm', 'chat', false, 'ok', 1, 1, 0, 0, 0, 0, 1, 1, 1, false, now(), 1
    from generate_series(${first}::int, ${first + 3_999}::int) n`
  const body = JSON.stringify({ password: "correct horse battery" })
  const head = `POST /account/export HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${person.token}\r\n`
  const text = await slowly(`${head}Content-Length: ${body.length}\r\n\r\n${body}`, 1_000_000)
  expect(text).toStartWith("HTTP/1.1 200 ")
  expect(text).toEndWith("\r\n0\r\n\r\n")
  expect(text.match(/"request_id": "req_/g)).toHaveLength(40_000)
}, 60_000)

test("an answer in one piece that its client takes longer for than that comes to its end", async () => {
  const content = "x".repeat(12_000_000)
  const choices = [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }]
  const usage = { prompt_tokens: 5, completion_tokens: 10, total_tokens: 15 }
  using backend = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: () => Response.json({ id: "c", object: "chat.completion", created: 1, model: "m", choices, usage }),
  })
  const { origin: baseUrl } = backend.url
  const provider = { id: "own", label: "", baseUrl, credentials: [soleCredential("X")] as const, headers: {} }
  await using own = await startTestGateway({ env: { KEEP_ALIVE_MS: "4000" }, backends: [backendOf(provider, "k")] })
  const { key: ofOwn } = await own.key(await own.person(1_000_000))
  const model = await own.model({ format: "chat", provider: "own", max_output_tokens: 200_000, gather: false })
  const body = JSON.stringify({ model, max_tokens: 100_000, messages: [{ role: "user", content: "Hello" }] })
  const head = `POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${ofOwn}\r\nConnection: close\r\n`
  const text = await slowly(`${head}Content-Length: ${body.length}\r\n\r\n${body}`, 1_000_000, own)
  expect(text).toStartWith("HTTP/1.1 200 ")
  expect(text).toContain("X-Cost-Rp: ")
  expect(text.length).toBeGreaterThan(content.length)
  expect(text).toContain('"finish_reason":"stop"')
}, 60_000)
