/** The configurations of `docs/operating/proxies.md`, each with its own proxy before a gateway. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { connect, type ClientHttp2Session } from "node:http2"
import { networkInterfaces } from "node:os"
import { callsOf, content, eventually, Reading } from "../contract/calling.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { type FaultProxy, openFaultProxy } from "../store/fault-proxy.ts"
import { programOf, proxyNames, TlsProxy } from "./tls-proxy.ts"

/** Of this machine, but not loopback where it has another: then the proxy's own address is not the client's. */
const address =
  Object.values(networkInterfaces())
    .flat()
    .find((each) => each?.family === "IPv4" && !each.internal)?.address ?? "127.0.0.1"

const MAX_BODY_BYTES = 4 << 20
let gateway: TestGateway
/** Stands between the proxy and the gateway, and knows their connections. */
let wire: FaultProxy
let person: Person
let key: string

beforeAll(async () => {
  const env = {
    CLIENT_ADDRESS_HEADER: "X-Forwarded-For",
    HEARTBEAT_MS: "200",
    DRAIN_LEFT_MS: "100",
    MAX_BODY_BYTES: String(MAX_BODY_BYTES),
  }
  gateway = await startTestGateway({ env })
  wire = await openFaultProxy(gateway.url)
  person = await gateway.person(1_000_000)
  key = (await gateway.key(person)).key
})
afterAll(async () => {
  await wire.close()
  await gateway[Symbol.asyncDispose]()
})

/** With `left` the client closes its connection. */
type Ask = (path: string, headers: Record<string, string>, body?: string, left?: AbortSignal) => Promise<Answer>
interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly reading: Reading
}

const byHttp1 =
  (url: string): Ask =>
  async (path, headers, body, left) => {
    const terms = { headers, tls: { rejectUnauthorized: false }, ...(left && { signal: left }) }
    const response = await fetch(url + path, body === undefined ? terms : { ...terms, method: "POST", body })
    return { status: response.status, headers: response.headers, reading: new Reading(response) }
  }

const byHttp2 =
  (url: string): Ask =>
  (path, headers, body, left) =>
    new Promise((resolve, reject) => {
      const session: ClientHttp2Session = connect(url, { rejectUnauthorized: false })
      session.on("error", reject)
      left?.addEventListener("abort", () => (session.destroy(), reject(new Error("left"))))
      const method = body === undefined ? "GET" : "POST"
      const lower = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])
      const stream = session.request({ ":method": method, ":path": path, ...Object.fromEntries(lower) })
      stream.on("error", reject)
      stream.on("response", ({ ":status": status = 0, ...rest }) => {
        const heard = Object.entries(rest).flatMap(([name, value]) =>
          value === undefined || name.startsWith(":") ? [] : [[name, String(value)] as [string, string]],
        )
        const pieces = new ReadableStream<Uint8Array>({
          start(controller) {
            stream.on("data", (data: Buffer) => controller.enqueue(data))
            stream.on("end", () => (controller.close(), session.close()))
          },
        })
        const response = new Response(pieces, { headers: heard })
        resolve({ status, headers: response.headers, reading: new Reading(response) })
      })
      stream.end(body)
    })

const asking = (model: string, more: object = {}): [string, Record<string, string>, string] => [
  "/v1/chat/completions",
  { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
  JSON.stringify({ model, stream: true, messages: [{ role: "user", content: "Hello" }], ...more }),
]

describe.each(proxyNames)("%s", (name) => {
  if (programOf(name) === null) {
    test.skip(`left out: ${name} is not installed`, () => {})
    return
  }
  let proxy: TlsProxy
  let url: string
  beforeAll(async () => {
    proxy = await TlsProxy.start(name, new URL(wire.url).host)
    url = `https://${address}:${proxy.port}`
  })
  afterAll(() => proxy[Symbol.asyncDispose]())

  describe.each([
    ["HTTP/1.1", byHttp1],
    ["HTTP/2", byHttp2],
  ] as const)("%s", (_, by) => {
    test("an event reaches the client before the next one is written, and so does a heartbeat", async () => {
      const model = await gateway.model({ format: "chat", script: "output=4&delta=1&ttft=600&pace=400" })
      const { status, reading } = await by(url)(...asking(model))
      expect(status).toBe(200)
      const running = () => callsOf(gateway, model)[0]?.outcome
      await reading.until(/^: heartbeat$/m)
      expect(reading.text).not.toMatch(content.chat)
      await reading.until(content.chat)
      expect(running()).toBe("running")
      expect(await reading.rest()).toEndWith("data: [DONE]\n\n")
    })

    test("a client that leaves is gone for the gateway: in mid-stream, after a heartbeat, and before anything came", async () => {
      const left = new AbortController()
      const models: string[] = []
      const begin = async (script: string, stream: boolean) => {
        const model = await gateway.model({ format: "chat", script })
        models.push(model)
        return by(url)(...asking(model, { stream }), left.signal)
      }
      await (await begin("output=1000&delta=1&pace=100", true)).reading.until(content.chat)
      await (await begin("ttft=30000", true)).reading.until(/heartbeat/)
      const unanswered = begin("ttft=30000", false)
      const outcomes = () => models.flatMap((model) => callsOf(gateway, model).map(({ outcome }) => outcome))
      await eventually("not begun", outcomes, (all) => all.length === 3)
      left.abort()
      expect(await unanswered.catch(() => "left")).toBe("left")
      await eventually("not all are gone", outcomes, (all) => all.every((outcome) => outcome === "client-left"))
    })

    test("a large body passes, and one that is too large is refused by the gateway itself", async () => {
      const model = await gateway.model({ format: "chat" })
      const [path, headers, body] = asking(model, { stream: false })
      const small = await by(url)(path, headers, body + " ".repeat(MAX_BODY_BYTES - body.length))
      expect([small.status, await small.reading.rest()]).toEqual([200, expect.stringContaining('"choices"')])
      const large = await by(url)(path, headers, body + " ".repeat(2 * MAX_BODY_BYTES))
      expect([large.status, await large.reading.rest()]).toEqual([413, expect.stringContaining("request.too_large")])
    })

    test("the address is the client's, whatever it says of itself, and the answer came by https", async () => {
      const made = { "X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "http", Forwarded: "for=203.0.113.9" }
      const email = `${crypto.randomUUID()}@example.com`
      const credentials = JSON.stringify({ email, password: "correct horse battery" })
      const answer = await by(url)("/auth/sign-up", { ...made, "Content-Type": "application/json" }, credentials)
      expect(answer.status).toBe(201)
      expect(answer.headers.get("strict-transport-security")).toBe("max-age=31536000")
      const { session_token: token } = JSON.parse(await answer.reading.rest()) as { session_token: string }
      const sessions = await by(url)("/account/sessions", { ...made, Authorization: `Bearer ${token}` })
      expect(JSON.parse(await sessions.reading.rest())).toMatchObject({ data: [{ address }] })
    })

    test("a page of this host may change things by cookie, and one of another port may not", async () => {
      const body = JSON.stringify({ name: "by cookie" })
      // The second is for machines where the proxy has no address but loopback.
      const cookie = `__Host-session=${person.token}; session=${person.token}`
      const headers = { Cookie: cookie, "Content-Type": "application/json" }
      const made = async (origin: string) => (await by(url)("/keys", { ...headers, Origin: origin }, body)).status
      expect(await made(url)).toBe(201)
      expect(await made(`https://${address}`)).toBe(403)
    })
  })

  test("connections to the gateway are kept", async () => {
    const ask = byHttp1(url)
    for (let n = 0; n < 5; n++) await (await ask("/healthz", {})).reading.rest()
    await Bun.sleep(300)
    expect(wire.open).toBeGreaterThan(0)
  })
})

const flushing = (text: string) => text.replace("transport http {", "flush_interval -1\n\t\ttransport http {")

test.skipIf(programOf("Caddy") === null)("the page's warning of flush_interval is true", async () => {
  await using proxy = await TlsProxy.start("Caddy", new URL(wire.url).host, flushing)
  const model = await gateway.model({ format: "chat", script: "ttft=1500" })
  const left = new AbortController()
  const ask = byHttp1(`https://127.0.0.1:${proxy.port}`)
  const unanswered = ask(...asking(model, { stream: false }), left.signal).catch(() => "left")
  const outcome = () => callsOf(gateway, model)[0]?.outcome
  await eventually("not begun", outcome, (now) => now === "running")
  left.abort()
  expect(await unanswered).toBe("left")
  expect(await eventually("it does not end", outcome, (now) => now !== "running")).toBe("finished")
})
