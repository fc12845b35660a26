/** Connections: idle ones are closed, those of calls under way are not, and two hosts are none. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { connect, type Socket } from "node:net"
import { Connection } from "../../src/http/connection.ts"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { raw } from "../contract/raw.ts"

let gateway: TestGateway
let key: string

beforeAll(async () => {
  const env = { KEEP_ALIVE_MS: "4000", CLIENT_ADDRESS_HEADER: "X-Forwarded-For", METRICS_PORT: "0" }
  gateway = await startTestGateway({ env })
  key = (await gateway.key(await gateway.person(10_000))).key
})
afterAll(() => gateway[Symbol.asyncDispose]())

const ask = (model: string, more: object = {}) => {
  const body = JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }], ...more })
  const head = `POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n`
  return `${head}Content-Length: ${body.length}\r\n\r\n${body}`
}

/** What is heard on a connection, and after how long the gateway closes it. */
function kept(bytes: string): Promise<{ readonly text: string; readonly closedMs: number; readonly quietMs: number }> {
  const { hostname, port } = new URL(gateway.url)
  return new Promise((resolve, reject) => {
    let text = ""
    let lastAt = performance.now()
    const startedAt = lastAt
    const socket: Socket = connect(Number(port), hostname, () => socket.write(bytes))
    socket.on("data", (data) => {
      text += data.toString()
      lastAt = performance.now()
    })
    socket.on("error", reject)
    socket.on("close", () => {
      const now = performance.now()
      resolve({ text, closedMs: now - startedAt, quietMs: now - lastAt })
    })
  })
}

test.concurrent("a connection on which nothing is asked is closed, after a plain answer and after none", async () => {
  const [plain, none, silent] = await Promise.all([
    kept("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"),
    kept("GET /healthz HTTP/1.1\r\nHos"),
    kept(""),
  ])
  expect(plain.text).toStartWith("HTTP/1.1 200 ")
  // Bun looks every four seconds.
  expect(plain.quietMs).toBeLessThan(9_000)
  expect(none.closedMs).toBeLessThan(17_000)
  expect(silent.closedMs).toBeLessThan(17_000)
})

test.concurrent("a call that takes longer than that is answered, and then its connection is idle too", async () => {
  const model = await gateway.model({ format: "chat", script: "ttft=9500" })
  const call = await kept(ask(model))
  expect(call.text).toStartWith("HTTP/1.1 200 ")
  expect(call.text).toEndWith("}")
  expect(call.closedMs - call.quietMs).toBeGreaterThan(9_000)
  expect(call.quietMs).toBeLessThan(9_000)
})

test.concurrent("a stream that takes longer than that comes to its end, and its connection may be used again", async () => {
  const model = await gateway.model({ format: "chat", script: "ttft=9500" })
  const { hostname, port } = new URL(gateway.url)
  const socket = connect(Number(port), hostname, () => socket.write(ask(model, { stream: true })))
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  let text = ""
  socket.on("data", (data) => {
    const before = text
    text += data.toString()
    if (text.includes("0\r\n\r\n") && !before.includes("0\r\n\r\n"))
      socket.write("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    if (text.includes('"status"')) resolve(text)
  })
  socket.on("close", () => reject(new Error(`closed: ${text.slice(-200)}`)))
  expect(await promise).toContain("data: [DONE]")
  socket.destroy()
})

/** A stream that has nothing to say for so long. */
const late = () =>
  new ReadableStream<Uint8Array>(
    {
      async pull(to) {
        await Bun.sleep(9_500)
        to.enqueue(new TextEncoder().encode("late"))
        to.close()
      },
    },
    { highWaterMark: 0 },
  )

test.concurrent.each(["text/csv; charset=utf-8", "text/event-stream; charset=utf-8"])(
  "a client that takes nothing of a stream is hung up on, and one that waits for it is not (%s)",
  async (type) => {
    const left = Promise.withResolvers<void>()
    const part = new Uint8Array(1_024 * 1_024)
    const endless = () =>
      new ReadableStream<Uint8Array>({ pull: (to) => to.enqueue(part), cancel: () => left.resolve() })
    using server = Bun.serve({
      port: 0,
      fetch(request, self) {
        const body = request.url.endsWith("/late") ? late() : endless()
        const connection = new Connection(self, request, { idleS: 4, slowS: 4 })
        return connection.answered(new Response(body, { headers: { "content-type": type } }))
      },
    })
    const socket = connect(server.port ?? 0, "127.0.0.1", () => socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
    socket.on("error", () => {})
    socket.pause()
    const waited = await (await fetch(new URL("/late", server.url))).text()
    expect(waited).toBe("late")
    await left.promise
    socket.destroy()
  },
  30_000,
)

test("a request with two hosts is refused", async () => {
  for (const hosts of ["Host: a\r\nHost: b", "Host: a\r\nhost: a", "Host:\r\nHost: a"]) {
    const heard = await raw(gateway.url, `GET /healthz HTTP/1.1\r\n${hosts}\r\n\r\n`)
    expect(heard).toStartWith("HTTP/1.1 400 ")
    expect(heard).toContain('"code":"request.invalid"')
  }
  expect(await raw(gateway.url, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")).toStartWith("HTTP/1.1 200 ")
})

test("an answer that goes by https says that all of them do, where the proxy is trusted with such news", async () => {
  const asked = (proto: string) => fetch(`${gateway.url}/models`, { headers: { "X-Forwarded-Proto": proto } })
  const told = async (proto: string) => (await asked(proto)).headers.get("strict-transport-security")
  expect(await told("https")).toBe("max-age=31536000")
  expect(await told("http, HTTPS")).toBe("max-age=31536000")
  expect(await told("https, http")).toBeNull()
  expect((await fetch(`${gateway.url}/models`)).headers.has("strict-transport-security")).toBeFalse()
  await using alone = await startTestGateway()
  const response = await fetch(`${alone.url}/models`, { headers: { "X-Forwarded-Proto": "https" } })
  expect(response.headers.has("strict-transport-security")).toBeFalse()
})

test("the descriptors and the bytes of bodies are measured", async () => {
  const text = await (await fetch(gateway.server.metricsUrl ?? "")).text()
  expect(text).toMatch(/^loket_process_descriptors\{state="open"\} [1-9]/m)
  expect(text).toMatch(/^loket_process_descriptors\{state="limit"\} [1-9]/m)
  expect(text).toMatch(/^loket_body_bytes\{state="held"\} 0$/m)
  expect(text).toMatch(/^loket_body_bytes\{state="limit"\} [1-9]/m)
})
