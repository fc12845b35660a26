/** Bodies that their client compressed, as agents do with large ones: they are read as what they were made of, within the same limits. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { bugs, expectFailure } from "./expect-failure.ts"

const MAX_BODY_BYTES = 1_048_576

let gateway: TestGateway
let key: string
let model: string

beforeAll(async () => {
  gateway = await startTestGateway({ env: { MAX_BODY_BYTES: String(MAX_BODY_BYTES) } })
  key = (await gateway.key(await gateway.person(1_000_000))).key
  model = await gateway.model({ format: "messages", endpoints: ["chat", "messages"], context_window: null })
})
afterAll(() => gateway[Symbol.asyncDispose]())

const packings = {
  gzip: gzipSync,
  "x-gzip": gzipSync,
  GZIP: gzipSync,
  deflate: deflateSync,
  br: brotliCompressSync,
  zstd: zstdCompressSync,
}

const call = (content: string) => JSON.stringify({ model, max_tokens: 5, messages: [{ role: "user", content }] })
const send = (path: string, body: Uint8Array<ArrayBuffer> | ReadableStream, encoding: string, more = {}) =>
  fetch(gateway.url + path, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Encoding": encoding, ...more },
    body,
  })
/** One frame (RFC 8878, 3.1.1) with a raw block, which says how far it looks back and not how long it is. */
const zstdFrame = (text: string, windowLog: number) => {
  const block = Buffer.from(text)
  const header = (block.length << 3) | 1
  const head = [0x28, 0xb5, 0x2f, 0xfd, 0, (windowLog - 10) << 3, header & 0xff, (header >> 8) & 0xff, header >> 16]
  return new Uint8Array([...head, ...block])
}
const copied = (bytes: Buffer) => new Uint8Array(bytes)

for (const [encoding, pack] of Object.entries(packings)) {
  test(`${encoding} is unpacked, in one piece and in several`, async () => {
    const content = `Halo, Loket! ${"x".repeat(100_000)}`
    const packed = copied(pack(call(content)))
    const pieces = new ReadableStream({
      async start(controller) {
        controller.enqueue(packed.subarray(0, 20))
        await Bun.sleep(20)
        controller.enqueue(packed.subarray(20))
        controller.close()
      },
    })
    for (const body of [packed, pieces]) {
      const response = await send("/v1/messages", body, encoding)
      expect(response.status).toBe(200)
      expect(JSON.stringify(gateway.simulator.calls.at(-1)?.body)).toContain(content)
    }
    expect((await send("/v1/messages/count_tokens", packed, encoding)).status).toBe(200)
    expect((await send("/v1/messages", packed, encoding, { "X-Dry-Run": "true" })).status).toBe(200)
  })
  test(`what ${encoding} was not, or was cut off, is refused`, async () => {
    const plain = new TextEncoder().encode(call("Hello"))
    await expectFailure(await send("/v1/messages", plain, encoding), 400, "request.invalid")
    const packed = copied(pack(call("Hello".repeat(100))))
    await expectFailure(await send("/v1/messages", packed.subarray(0, -12), encoding), 400, "request.invalid")
  })
  test(`a few bytes of ${encoding} that become many are too large`, async () => {
    const bomb = copied(pack(Buffer.alloc(20 * MAX_BODY_BYTES, 0x20)))
    expect(bomb.length).toBeLessThan(MAX_BODY_BYTES / 2)
    await expectFailure(await send("/v1/chat/completions", bomb, encoding), 413, "request.too_large")
  })
}

test("zstd that looks back further than its encoding may is refused before its memory is taken", async () => {
  await expectFailure(await send("/v1/messages", zstdFrame(call("Hello"), 27), "zstd"), 400, "request.invalid")
  expect((await send("/v1/messages", zstdFrame(call("Hello"), 23), "zstd")).status).toBe(200)
})

test("identity is no encoding, and one that is not known is refused in words that name those that are", async () => {
  const plain = new TextEncoder().encode(call("Hello"))
  expect((await send("/v1/messages", plain, "identity")).status).toBe(200)
  for (const encoding of ["lzma", "gzip, zstd", "constructor", "__proto__"]) {
    const response = await send("/v1/messages", plain, encoding)
    expect((await response.clone().json()).error).toContain("gzip, deflate, br, zstd")
    await expectFailure(response, 400, "request.invalid")
  }
})

test("whoever has no money is told so before much is unpacked", async () => {
  const poor = (await gateway.key(await gateway.person())).key
  const body = copied(gzipSync(call("x".repeat(900_000))))
  const response = await send("/v1/messages", body, "gzip", { Authorization: `Bearer ${poor}` })
  await expectFailure(response, 402, "billing.insufficient_balance")
})

test("none of this was a bug", () => {
  expect(bugs(gateway)).toEqual([])
})
