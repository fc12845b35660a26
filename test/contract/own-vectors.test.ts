/** Vectors of two models have nothing to do with each other: no other model answers in the place of one of embeddings. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { type ModelWish, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { caller, makeOperator } from "../http/operator/operator.ts"
import { expectFailure } from "./expect-failure.ts"

let gateway: TestGateway
let key: string

beforeAll(async () => {
  gateway = await startTestGateway()
  key = (await gateway.key(await gateway.person(1_000_000), { fallback: "any" })).key
})
afterAll(() => gateway[Symbol.asyncDispose]())

const made = (more: Partial<ModelWish> = {}) => gateway.model({ format: "embeddings", output_micro: 0, ...more })
const embed = (model: string, input: string) => gateway.post("/v1/embeddings", key, { model, input })

test("an operator gives it no chain", async () => {
  const [model, other] = [await made(), await made()]
  const ask = caller(gateway, await makeOperator(gateway))
  const { status, json } = await ask(`/operator/models/${model}`, { fallback: [other] }, "PATCH")
  expect([status, json.code]).toEqual([400, "request.invalid"])
  expect((await ask(`/operator/models/${model}`, { fallback: [] }, "PATCH")).status).toBe(200)
})

test("a chain that it was given before is not followed when it is throttled, nor when an input is too long for it", async () => {
  const fallback = [await made()]
  const throttled = await made({ fallback, script: "fault=status&status=429&retry_after=60" })
  await expectFailure(await embed(throttled, "Hello"), 429, "upstream.rate_limited")
  const small = await made({ fallback, context_window: 100 })
  await expectFailure(await embed(small, "one two three ".repeat(200)), 400, "upstream.context_length_exceeded")
})
