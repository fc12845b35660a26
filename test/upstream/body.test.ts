import { afterAll, describe, expect, test } from "bun:test"
import { once } from "node:events"
import { type AddressInfo, createServer } from "node:net"
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { answerBounds, beginning, decompressed, readText } from "../../src/upstream/body.ts"
import { send } from "../../src/upstream/client.ts"
import { flush } from "../kernel/world.ts"

const texts = new Map<string, () => Response>()
const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: (request) => texts.get(new URL(request.url).pathname)?.() ?? new Response("?", { status: 404 }),
})
afterAll(() => server.stop(true))

let paths = 0
/** What a backend that answers so is read as. */
async function answered(make: () => Response): Promise<Response> {
  const path = `/${++paths}`
  texts.set(path, make)
  return await fetch(new URL(path, server.url), { decompress: false })
}

const packed = (encoding: string, bytes: Uint8Array<ArrayBuffer>) => () =>
  new Response(new Blob([bytes]).stream(), { headers: { "Content-Encoding": encoding } })

const read = async (response: Response, maxBytes = 1_000_000) => {
  const plain = decompressed(response)
  if (plain === undefined) throw new Error("packed in a way that nobody knows")
  let pieces = 0
  const text = await readText(plain, maxBytes, () => pieces++)
  return { text, pieces }
}

describe("a backend's body", () => {
  const said = JSON.stringify({ said: "é漢🙂".repeat(20_000) })
  test.each([
    ["gzip", gzipSync(said)],
    ["GZIP", gzipSync(said)],
    ["deflate", deflateSync(said)],
    ["br", brotliCompressSync(said)],
    ["zstd", zstdCompressSync(said)],
  ])("that is packed by %s is unpacked, though nobody asked for it", async (encoding, bytes) => {
    expect((await read(await answered(packed(encoding, bytes)))).text).toBe(said)
  })

  test("that is packed in a way that nobody knows is not read", async () => {
    expect(decompressed(await answered(packed("rot13", Buffer.from(said))))).toBeUndefined()
  })

  test("that is not packed as it says, or breaks off, rejects", async () => {
    for (const bytes of [Buffer.from(said), gzipSync(said).subarray(0, 200)]) {
      const response = await answered(packed("gzip", bytes))
      expect(await read(response).catch(() => "broken")).toBe("broken")
    }
  })

  test.each([
    ["in pieces", (size: number) => new Response(new Blob(["x".repeat(size)]).stream())],
    ["of a length", (size: number) => new Response("x".repeat(size))],
    ["packed", (size: number) => packed("gzip", gzipSync("x".repeat(size)))()],
  ])("%s is read up to its bound, and not a byte over it", async (_, make) => {
    for (const bound of [1_000, 300_000]) {
      expect((await read(await answered(() => make(bound)), bound)).text?.length).toBe(bound)
      expect((await read(await answered(() => make(bound + 1)), bound)).text).toBeUndefined()
    }
  })

  test("in chunks that says it is short is read up to its bound", async () => {
    const piece = "x".repeat(1_000_000)
    const liar = createServer((socket) => {
      socket.on("error", () => {})
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n")
      for (let sent = 0; sent < 20; sent++) socket.write(`${piece.length.toString(16)}\r\n${piece}\r\n`)
      socket.end("0\r\n\r\n")
    }).listen(0, "127.0.0.1")
    await once(liar, "listening")
    const response = await fetch(`http://127.0.0.1:${(liar.address() as AddressInfo).port}`, { decompress: false })
    expect((await read(response)).text).toBeUndefined()
    liar.close()
  })

  test("is unpacked under a status that HTTP does not have, too", async () => {
    const bytes = gzipSync('{"error":{}}')
    const odd = createServer((socket) => {
      socket.on("error", () => {})
      socket.write(`HTTP/1.1 999 Odd\r\nContent-Encoding: gzip\r\nContent-Length: ${bytes.length}\r\n\r\n`)
      socket.end(bytes)
    }).listen(0, "127.0.0.1")
    await once(odd, "listening")
    const response = await fetch(`http://127.0.0.1:${(odd.address() as AddressInfo).port}`, { decompress: false })
    expect(response.status).toBe(999)
    const plain = decompressed(response)
    expect(plain?.status).toBe(599)
    expect(await plain?.text()).toBe('{"error":{}}')
    odd.close()
  })

  test("that is a bomb is not unpacked beyond its bound", async () => {
    const bomb = gzipSync(Buffer.alloc(500_000_000, 0x20))
    Bun.gc(true)
    const before = process.memoryUsage().rss
    expect((await read(await answered(packed("gzip", bomb)), 8_000_000)).text).toBeUndefined()
    expect(process.memoryUsage().rss - before).toBeLessThan(150_000_000)
  })
})

test("a body is waited for through 65,535 blank bytes, and begins as no object after more; none of it is lost", async () => {
  const object = '{"error":{}}'
  for (const [blank, isObject] of [
    [0, true],
    [65_535, true],
    [65_536, false],
  ] as const) {
    const pieces = [" ".repeat(blank), object].filter((piece) => piece !== "")
    let read = 0
    const body = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          const piece = pieces[read++]
          if (piece === undefined) controller.close()
          else controller.enqueue(new TextEncoder().encode(piece))
        },
      },
      { highWaterMark: 0 },
    )
    const begun = await beginning(new Response(body))
    expect([begun.isObject, read]).toEqual([isObject, isObject ? pieces.length : 1])
    expect(await begun.response.text()).toBe(pieces.join(""))
  }
})

describe("the bounds of an answer", () => {
  const terms = { requestBytes: 0, answerLimit: 1_000, choices: 1, logprobs: false }
  test("grow with everything that an answer can have more of", () => {
    const plain = answerBounds(terms)
    const all = [{ requestBytes: 1 }, { answerLimit: 1_001 }, { choices: 2 }, { logprobs: true }, { echoedTokens: 1 }]
    for (const more of all) {
      const larger = answerBounds({ ...terms, ...more })
      expect(larger.eventLength).toBeGreaterThan(plain.eventLength)
      expect(larger.streamBytes).toBeGreaterThan(plain.streamBytes)
      expect(larger.replyBytes).toBeGreaterThan(plain.replyBytes)
    }
  })

  test("have room for as many vectors as were asked for, in numbers or in base64", () => {
    const inNumbers = JSON.stringify(Array.from({ length: 4_096 }, () => -0.123456789012345))
    const [none, numbers, many] = [0, 100, 2_000].map((vectors) => answerBounds({ ...terms, vectors }))
    expect(numbers?.values).toBeGreaterThan(100 * 4_096)
    expect(many?.replyBytes).toBeGreaterThan(2_000 * inNumbers.length)
    expect(none?.replyBytes).toBeLessThan(2_000 * inNumbers.length)
  })

  test("have as many values more as the request may have, and no end where likelihoods are asked for", () => {
    const sizes = [0, 100, 2 ** 31].map((requestBytes) => answerBounds({ ...terms, requestBytes }).values)
    expect(sizes).toEqual([200_000, 200_050, 400_000])
    expect(answerBounds({ ...terms, logprobs: true }).values).toBe(Infinity)
  })

  test("of what has to be in memory whole have an end", () => {
    const most = answerBounds({ requestBytes: 2 ** 31, answerLimit: 2 ** 31, choices: 128, logprobs: true })
    expect(most.eventLength).toBe(256 * 1024 * 1024)
    expect(most.replyBytes).toBe(256 * 1024 * 1024)
  })
})

/** A backend's refusal, as it is told after so many milliseconds. */
function refusal(response: Response) {
  const clock = new VirtualClock()
  const call = {
    backend: { provider: { baseUrl: "http://backend", headers: {} }, apiKey: "" },
    protocol: "chat",
    path: "/chat/completions",
    body: {},
    clientHeaders: new Headers(),
    signal: new AbortController().signal,
  } as unknown as Parameters<typeof send>[0]
  const told: unknown[] = []
  void send(call, { clock, fetch: async () => response }).then((fault) => told.push(fault))
  return async (ms: number) => {
    await flush()
    clock.advance(ms)
    await flush()
    return told
  }
}

test("a refusal's body is waited for five seconds, and its status told then", async () => {
  const begun = new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode("{")) })
  const after = refusal(new Response(begun, { status: 503 }))
  expect(await after(4_999)).toEqual([])
  expect(await after(1)).toMatchObject([{ status: 503 }])
})

test.each([
  ["2", "after it", 2_000],
  ["3", "by nobody but the client", undefined],
] as const)("a 429 whose Retry-After is %s is tried again %s", async (seconds, _, retryAfterMs) => {
  const told = await refusal(new Response("{}", { status: 429, headers: { "Retry-After": seconds } }))(0)
  expect(told).toMatchObject([{ status: 429, retryAfterMs }])
})

const broken = () => new ReadableStream<Uint8Array>({ start: (controller) => controller.error(new Error("reset")) })

describe("a body that has broken off by the time that it is given up", () => {
  test("is given up for how it is packed", async () => {
    const packed = new Response(broken(), { headers: { "Content-Encoding": "unheard-of" } })
    expect(await refusal(packed)(0)).toMatchObject([{ status: 200, alert: true, retryAfterMs: undefined }])
  })

  test("is given up for its length", async () => {
    const long = new Response(broken(), { headers: { "Content-Length": "2000000" } })
    expect(await readText(long, 1_000_000, () => {})).toBeUndefined()
  })
})
