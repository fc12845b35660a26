/** Answers of backends of embeddings: a text's vector is found by its place, so an answer has as many as there are texts. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { type Provider, soleCredential } from "../../src/catalogue/model.ts"
import { backendOf, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { requestId, rowsOf } from "./calling.ts"
import { expectFailure } from "./expect-failure.ts"

/** What the backend says next. */
let data: readonly unknown[] = []
const backend = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: () => Response.json({ object: "list", model: "m", data, usage: { prompt_tokens: 10, total_tokens: 10 } }),
})

let gateway: TestGateway
let key: string
let model: string

beforeAll(async () => {
  const credentials: Provider["credentials"] = [soleCredential("X")]
  const provider = { id: "own", label: "", baseUrl: backend.url.origin, credentials, headers: {} }
  gateway = await startTestGateway({ backends: [backendOf(provider, "k")] })
  key = (await gateway.key(await gateway.person(100_000))).key
  model = await gateway.model({ format: "embeddings", output_micro: 0, provider: "own" })
})
afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  await backend.stop(true)
})

const vectors = (count: number) => Array.from({ length: count }, (_, index) => ({ index, embedding: [index] }))

test.each([
  ["one text", "a", 1],
  ["three texts", ["a", "b", "c"], 3],
  ["the token ids of one text", [1, 2, 3], 1],
  ["the token ids of two", [[1, 2, 3], [4]], 2],
])("the vectors of %s are as many, or none of them is given or paid for", async (_, input, texts) => {
  data = vectors(texts)
  const right = await gateway.post("/v1/embeddings", key, { model, input })
  expect(right.status).toBe(200)
  expect(await rowsOf(gateway, requestId(right))).toMatchObject([{ status: "ok", charge_micro: 10_000n }])
  for (const count of [texts - 1, texts + 1]) {
    data = vectors(count)
    const wrong = await gateway.post("/v1/embeddings", key, { model, input })
    await expectFailure(wrong, 502, "dependency.upstream_unavailable")
    expect(await rowsOf(gateway, requestId(wrong))).toMatchObject([{ status: "upstream_error", charge_micro: 0n }])
  }
})

const vectorAs = async (asked: object) => {
  const response = await gateway.post("/v1/embeddings", key, { model, input: "a", ...asked })
  const body = (await response.json()) as { data: { index: number; embedding: unknown }[] }
  expect(body.data[0]?.index).toBe(0)
  return body.data[0]?.embedding
}

test("vectors that come as numbers are in base64 where that was asked for: SDKs decode either, and make wrong vectors of numbers", async () => {
  data = [{ index: 0, embedding: [0.25, -1.5, 3] }]
  const encoded = await vectorAs({ encoding_format: "base64" })
  if (typeof encoded !== "string") throw new Error(`no text: ${JSON.stringify(encoded)}`)
  const bytes = new Uint8Array(Buffer.from(encoded, "base64"))
  expect([...new Float32Array(bytes.buffer)]).toEqual([0.25, -1.5, 3])
  expect(await vectorAs({})).toEqual([0.25, -1.5, 3])
  expect(await vectorAs({ encoding_format: "float" })).toEqual([0.25, -1.5, 3])
  data = [{ index: 0, embedding: "AACAPg==" }]
  expect(await vectorAs({ encoding_format: "base64" })).toBe("AACAPg==")
})
