/** A backend that thinks where its client is not to see it (decisions §6, §7; docs/decisions/2026-11-27-thinking-that-is-not-shown.md). */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { ask, ending, failureIn, requestId, rowsOf } from "./calling.ts"

let gateway: TestGateway
let key: string
beforeAll(async () => {
  gateway = await startTestGateway({ env: { UPSTREAM_START_TIMEOUT_MS: "600", UPSTREAM_IDLE_TIMEOUT_MS: "500" } })
  key = (await gateway.key(await gateway.person(1_000_000))).key
})
afterAll(() => gateway[Symbol.asyncDispose]())

/** What a client says of thinking: nothing, and what Claude Code says with every call. */
const unseen = [
  ["unasked", {}],
  ["omitted", { thinking: { type: "adaptive", display: "omitted" } }],
] as const

test.concurrent.each(unseen)("that thinks for longer than its start may take, %s, has begun to answer", async (_, more) => {
  const model = await gateway.model({ format: "chat", endpoints: ["messages"], script: "think=24&pace=50&output=3" })
  const response = await ask(gateway, key, "messages", model, { stream: true, ...more })
  expect(response.status).toBe(200)
  expect(await response.text()).toMatch(ending.messages)
  expect(await rowsOf(gateway, requestId(response))).toMatchObject([{ status: "ok", attempts: 1 }])
})

test.concurrent.each(unseen)("that falls silent as it thinks, %s, is given up", async (_, more) => {
  const script = "think=4&pace=50&output=3&fault=stall&after=3&stall=3000"
  const model = await gateway.model({ format: "chat", endpoints: ["messages"], script })
  const response = await ask(gateway, key, "messages", model, { stream: true, ...more })
  expect(await response.text()).toContain("fell silent")
  expect(await rowsOf(gateway, requestId(response))).toMatchObject([{ status: "aborted_stream", charge_micro: 0n }])
})
