/**
 * Bodies on their way: who is refused before they are read still gets the answer, none takes for ever, and all together
 * take no more than there is (decisions §13.9, §13.10).
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { request as httpRequest } from "node:http"
import { connect, type Socket } from "node:net"
import { createApiKey } from "../../src/accounts/bearer-tokens.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { bugs, expectFailure } from "./expect-failure.ts"

const MB = 1024 * 1024
/** Of which an eighth is left for who holds little, so that one body of 32 MiB is half of the rest. */
const MEMORY = Math.ceil((64 * MB * 8) / 7)
let gateway: TestGateway
let person: Person
let key: string
let poorKey: string

beforeAll(async () => {
  gateway = await startTestGateway({
    env: { BODY_IDLE_TIMEOUT_MS: "700", BODY_MEMORY_BYTES: String(MEMORY), HEARTBEAT_MS: "200" },
  })
  person = await gateway.person(1_000_000)
  key = (await gateway.key(person)).key
  poorKey = (await gateway.key(await gateway.person())).key
})
afterAll(() => gateway[Symbol.asyncDispose]())

/** A key whose minute has just been used up. */
async function usedUp(): Promise<string> {
  const { key: made } = await gateway.key(person, { requests_per_minute: 1 })
  await (await gateway.post("/v1/chat/completions", made, "{}")).text()
  return made
}

const refusals = [
  ["401", "POST", "/v1/chat/completions", () => createApiKey(), 32 * MB, "auth.api_key_invalid"],
  ["402", "POST", "/v1/chat/completions", () => poorKey, 32 * MB, "billing.insufficient_balance"],
  ["404", "POST", "/v1/nothing", () => key, 32 * MB, "route.not_found"],
  ["405", "PUT", "/v1/messages", () => key, 32 * MB, "request.method_not_allowed"],
  ["413", "POST", "/v1/messages", () => key, 33 * MB, "request.too_large"],
  ["429", "POST", "/v1/chat/completions", usedUp, 32 * MB, "rate_limit.rpm_exceeded"],
] as const

describe("who is refused before the body is read gets the answer:", () => {
  describe.each(refusals)("%s", (status, method, path, by, size, code) => {
    test("a client that writes without reading", async () => {
      const heard = await writeAll(head(method, path, await by(), `Content-Length: ${size}`), size)
      expect(heard.error).toBeUndefined()
      expect(heard.text).toStartWith(`HTTP/1.1 ${status} `)
      expect(heard.text).toContain(`"code":"${code}"`)
      expect(heard.written).toBe(size)
    })
    test("node's", async () => {
      expect(await byNode(method, path, await by(), size)).toEqual({ status: Number(status), code })
    })
  })

  test("an account without money that has used much of the thread, whatever it sends", async () => {
    const poor = (await gateway.key(await gateway.person())).key
    const codeOf = async (body: string) => {
      const response = await gateway.post("/v1/chat/completions", poor, body)
      return ((await response.json()) as { readonly code: string }).code
    }
    expect(await codeOf("{")).toBe("request.invalid")
    const messages = Array.from({ length: 1_600 }, () => ({ role: "user", content: "b".repeat(100) }))
    const costly = JSON.stringify({ model: await gateway.model({ format: "chat" }), messages })
    let heard: string
    let rounds = 0
    do {
      await Promise.all(Array.from({ length: 32 }, () => codeOf(costly)))
      heard = await codeOf("{")
    } while (heard === "request.invalid" && ++rounds < 200)
    expect(heard).toBe("billing.insufficient_balance")
  })

  test.concurrent("a body without a length that grows too large", async () => {
    const piece = Buffer.alloc(MB, "a")
    const chunk = Buffer.concat([Buffer.from(`${MB.toString(16)}\r\n`), piece, Buffer.from("\r\n")])
    // What others of the same account have under way would leave it less room than it takes to be too large.
    const { key: own } = await gateway.key(await gateway.person(1_000_000))
    const heard = await writeAll(
      head("POST", "/v1/messages", own, "Transfer-Encoding: chunked"),
      40 * chunk.length,
      chunk,
    )
    expect(heard.error).toBeUndefined()
    expect(heard.text).toStartWith("HTTP/1.1 413 ")
  })

  test.concurrent("one that never ends is read for 5 seconds, and then closed", async () => {
    const startedAt = performance.now()
    const socket = await open(head("POST", "/v1/messages", createApiKey(), `Content-Length: ${32 * MB}`))
    using trickle = every(100, () => void socket.write("x"))
    const heard = await hear(socket)
    void trickle
    expect(heard.text).toStartWith("HTTP/1.1 401 ")
    expect(performance.now() - startedAt).toBeWithin(4_500, 12_000)
  })

  test("one of more than 64 MiB is read so far, and then closed", async () => {
    const size = 200 * MB
    const heard = await writeAll(head("POST", "/v1/messages", createApiKey(), `Content-Length: ${size}`), size)
    expect(heard.text).toStartWith("HTTP/1.1 401 ")
    expect(heard.written).toBeWithin(64 * MB, 100 * MB)
  })

  test.concurrent("a small one that never ends is closed as well", async () => {
    const socket = await open(head("POST", "/v1/messages", createApiKey(), "Content-Length: 60000"))
    using trickle = every(100, () => void socket.write("x"))
    const heard = await hear(socket)
    void trickle
    expect(heard.text).toStartWith("HTTP/1.1 401 ")
    expect(heard.text).toContain("Connection: close")
  })

  test("a small one leaves the connection as it is", async () => {
    const response = await gateway.post("/v1/messages", createApiKey(), { model: "m" })
    expect(response.status).toBe(401)
    expect(response.headers.get("connection")).not.toBe("close")
    await response.text()
  })
})

describe("large bodies", () => {
  test.concurrent("an empty account is told so beyond 256 KiB, whatever they hold, and without a length too", async () => {
    const within = await gateway.post("/v1/chat/completions", poorKey, "x".repeat(262_144))
    await expectFailure(within, 400, "request.invalid")
    const beyond = await gateway.post("/v1/chat/completions", poorKey, "x".repeat(262_145))
    await expectFailure(beyond, 402, "billing.insufficient_balance")
    const chunk = Buffer.from(`40000\r\n${"x".repeat(0x40000)}\r\n`)
    const chunked = await writeAll(
      head("POST", "/v1/messages", poorKey, "Transfer-Encoding: chunked"),
      3 * chunk.length,
      chunk,
    )
    expect(chunked.text).toStartWith("HTTP/1.1 402 ")
  })

  test.concurrent("the balance is to cover bytes ÷ 64 tokens at the cheapest rate, to the byte", async () => {
    await using dear = await startTestGateway()
    await dear.model({ format: "chat", model: "plain", input_micro: 100_000 })
    await dear.model({ format: "chat", model: "dearer", input_micro: 200_000 })
    // Rp 10,000 are 100,000 such tokens.
    const by = (await dear.key(await dear.person(10_000))).key
    const covered = await dear.post("/v1/chat/completions", by, "x".repeat(6_400_000))
    await expectFailure(covered, 400, "request.invalid")
    const beyond = await dear.post("/v1/chat/completions", by, "x".repeat(6_400_001))
    await expectFailure(beyond, 402, "billing.insufficient_balance")
  })

  test("one account's bodies may take half of what is shared, and other accounts then still find room", async () => {
    const other = (await gateway.key(await gateway.person(1_000_000))).key
    // What is announced takes room from nobody; what has come does.
    const announced = await open(head("POST", "/v1/messages", key, `Content-Length: ${32 * MB}`, "{"))
    await Bun.sleep(100)
    await expectFailure(await gateway.post("/v1/messages", key, `{"a":"${"x".repeat(MB)}"}`), 400, "request.invalid")
    announced.destroy()
    let held: Socket
    let refused: Response
    // Until it has come, which takes a while; anew where it has counted as not coming on by then.
    do {
      held = await open(head("POST", "/v1/messages", key, `Content-Length: ${32 * MB}`))
      held.resume().write(Buffer.alloc(32 * MB - 1, "["))
      do refused = await gateway.post("/v1/messages", key, "{}")
      while (refused.status === 400 && !held.readableEnded)
    } while (refused.status === 400)
    await expectFailure(refused, 429, "gateway.capacity")
    expect(refused.headers.get("retry-after")).toBe("1")
    await expectFailure(await gateway.post("/v1/messages", other, "{}"), 400, "request.invalid")
    held.destroy()
    do refused = await gateway.post("/v1/messages", key, "{}")
    while (refused.status === 429)
    await expectFailure(refused, 400, "request.invalid")
  })
})

describe("a body that does not come on", () => {
  test.concurrent.each([1_000, 1_000_000])("one of %d bytes ends with a 400 and the connection", async (size) => {
    const startedAt = performance.now()
    const heard = await hear(await open(head("POST", "/v1/messages", key, `Content-Length: ${size}`, "abc")))
    expect(heard.text).toStartWith("HTTP/1.1 400 ")
    expect(heard.text).toContain('"code":"request.invalid"')
    expect(performance.now() - startedAt).toBeGreaterThan(650)
  })
  test.concurrent("one that trickles in without ever standing still ends too", async () => {
    const socket = await open(head("POST", "/v1/messages", key, "Content-Length: 100000"))
    using trickle = every(100, () => void socket.write("x"))
    void trickle
    expect((await hear(socket)).text).toStartWith("HTTP/1.1 400 ")
  })
  test.concurrent("one that comes in pieces, each in time, is read", async () => {
    const body = `{"model":"plain","messages":[{"role":"user","content":"${"x".repeat(100_000)}"}]}`
    const length = `Content-Length: ${body.length}\r\nConnection: close`
    const socket = await open(head("POST", "/v1/chat/completions", key, length))
    for (let at = 0; at < body.length; at += 20_000) {
      socket.write(body.slice(at, at + 20_000))
      await Bun.sleep(150)
    }
    expect((await hear(socket)).text).toStartWith("HTTP/1.1 200 ")
  })
})

test("none of this was a bug", () => {
  expect(bugs(gateway)).toEqual([])
})

const head = (method: string, path: string, by: string, header: string, rest = ""): Buffer =>
  Buffer.from(`${method} ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${by}\r\n${header}\r\n\r\n${rest}`)

function open(bytes: Uint8Array): Promise<Socket> {
  const { hostname, port } = new URL(gateway.url)
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => {
      socket.write(bytes)
      resolve(socket)
    })
    socket.on("error", reject)
  })
}

interface Heard {
  readonly text: string
  readonly error: string | undefined
}

/** All that comes until the connection closes. */
function hear(socket: Socket): Promise<Heard> {
  return new Promise((resolve) => {
    let text = ""
    let error: string | undefined
    socket.on("data", (data) => (text += data.toString("latin1")))
    socket.on("error", (failure) => (error = failure.message))
    socket.on("close", () => resolve({ text, error }))
  })
}

/** Writes as fast as the connection takes it, and only then looks at what was answered. */
async function writeAll(first: Uint8Array, size: number, piece: Uint8Array = Buffer.alloc(MB, "a")) {
  const socket = await open(first)
  let written = 0
  const heard = hear(socket)
  while (written < size && !socket.destroyed) {
    const next = piece.subarray(0, Math.min(piece.length, size - written))
    await new Promise((resolve) => socket.write(next, resolve))
    if (!socket.destroyed) written += next.length
  }
  return { ...(await heard), written }
}

const byNode = (method: string, path: string, by: string, size: number) =>
  new Promise<{ status: number | undefined; code: unknown }>((resolve, reject) => {
    const headers = { Authorization: `Bearer ${by}`, "Content-Length": size }
    const request = httpRequest(gateway.url + path, { method, headers }, (response) => {
      let text = ""
      response.on("data", (data: Buffer) => (text += data.toString()))
      response.on("end", () => resolve({ status: response.statusCode, code: response.headers["x-error-code"] }))
      response.on("error", reject)
      void text
    })
    request.on("error", reject)
    request.end(Buffer.alloc(size, "a"))
  })

function every(ms: number, work: () => void): Disposable {
  const timer = setInterval(work, ms)
  return { [Symbol.dispose]: () => clearInterval(timer) }
}
