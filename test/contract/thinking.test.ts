/** A backend that thinks where its client is not to see it (decisions §6, §7; docs/decisions/2026-11-27-thinking-that-is-not-shown.md). */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { soleCredential } from "../../src/catalogue/model.ts"
import { backendOf, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { ask, ending, requestId, rowsOf } from "./calling.ts"

type Events = readonly (readonly [type: string, fields: object])[]

/** Longer than a start may take, and no silence. */
const PIECES = 24
const PACE_MS = 50

/** A backend that shows nothing of what it thinks: its events before it has thought, again and again meanwhile, and after. */
const hiding = {
  messages: {
    before: [
      ["message_start", { message: { id: "msg_1", usage: { input_tokens: 10 } } }],
      ["content_block_start", { index: 0, content_block: { type: "thinking", thinking: "", signature: "" } }],
    ],
    meanwhile: ["ping", {}],
    after: [
      ["content_block_delta", { index: 0, delta: { type: "signature_delta", signature: "c2ln" } }],
      ["content_block_stop", { index: 0 }],
      ["content_block_start", { index: 1, content_block: { type: "text", text: "" } }],
      ["content_block_delta", { index: 1, delta: { type: "text_delta", text: "Hi" } }],
      ["content_block_stop", { index: 1 }],
      ["message_delta", { delta: { stop_reason: "end_turn" }, usage: { output_tokens: 5 } }],
      ["message_stop", {}],
    ],
  },
  responses: {
    before: [
      ["response.created", { response: { id: "resp_1", output: [] } }],
      ["response.output_item.added", { output_index: 0, item: { type: "reasoning", id: "rs_1", summary: [] } }],
    ],
    meanwhile: ["keepalive", {}],
    after: [
      ["response.output_text.delta", { output_index: 1, content_index: 0, delta: "Hi" }],
      ["response.output_item.done", { output_index: 1, item: message() }],
      ["response.completed", { response: { output: [message()], usage: { input_tokens: 10, output_tokens: 5 } } }],
    ],
  },
} as const satisfies Record<string, { before: Events; meanwhile: Events[number]; after: Events }>

function message() {
  return { type: "message", id: "msg_1", role: "assistant", content: [{ type: "output_text", text: "Hi" }] }
}

const written = (events: Events): string =>
  events.map(([type, fields]) => `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`).join("")

const backend = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  idleTimeout: 0,
  fetch(request) {
    const { before, meanwhile, after } = hiding[request.url.endsWith("/messages") ? "messages" : "responses"]
    const pieces = [written(before), ...Array.from({ length: PIECES }, () => written([meanwhile])), written(after)]
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        const piece = pieces.shift()
        if (piece === undefined) return controller.close()
        controller.enqueue(new TextEncoder().encode(piece))
        await Bun.sleep(PACE_MS)
      },
    })
    return new Response(body, { headers: { "Content-Type": "text/event-stream" } })
  },
})

let gateway: TestGateway
let key: string
beforeAll(async () => {
  const provider = {
    id: "hiding",
    label: "",
    baseUrl: backend.url.origin,
    credentials: [soleCredential("X")] as const,
    headers: {},
  }
  gateway = await startTestGateway({
    env: { UPSTREAM_START_TIMEOUT_MS: "600", UPSTREAM_IDLE_TIMEOUT_MS: "500" },
    backends: [backendOf(provider, "k")],
  })
  key = (await gateway.key(await gateway.person(1_000_000))).key
})
afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  await backend.stop(true)
})

/** What a client says of thinking: nothing, and what Claude Code says with every call. */
const unseen = [
  ["unasked", {}],
  ["omitted", { thinking: { type: "adaptive", display: "omitted" } }],
] as const

test.concurrent.each(unseen)(
  "that thinks for longer than its start may take, %s, has begun to answer",
  async (_, more) => {
    const model = await gateway.model({ format: "chat", endpoints: ["messages"], script: "think=24&pace=50&output=3" })
    const response = await ask(gateway, key, "messages", model, { stream: true, ...more })
    expect(response.status).toBe(200)
    expect(await response.text()).toMatch(ending.messages)
    expect(await rowsOf(gateway, requestId(response))).toMatchObject([{ status: "ok", attempts: 1 }])
  },
)

test.concurrent.each(unseen)("that falls silent as it thinks, %s, is given up", async (_, more) => {
  const script = "think=4&pace=50&output=3&fault=stall&after=3&stall=3000"
  const model = await gateway.model({ format: "chat", endpoints: ["messages"], script })
  const response = await ask(gateway, key, "messages", model, { stream: true, ...more })
  expect(await response.text()).toContain("fell silent")
  expect(await rowsOf(gateway, requestId(response))).toMatchObject([{ status: "aborted_stream", charge_micro: 0n }])
})

const hidden = (["messages", "responses"] as const).flatMap((format) =>
  (["messages", "responses"] as const).flatMap((client) =>
    [true, false].map((stream) => [format, client, stream] as const),
  ),
)
test.concurrent.each(hidden)(
  "a %s backend that shows nothing of long thinking, to a %s client, streamed: %p",
  async (format, client, stream) => {
    const wish = { format, provider: "hiding", endpoints: [client], max_output_tokens: 20_000 }
    const model = await gateway.model(wish)
    const limit = client === "messages" ? { max_tokens: 9_000 } : { max_output_tokens: 9_000 }
    const response = await ask(gateway, key, client, model, { stream, ...limit })
    expect(await response.text()).toMatch(stream ? ending[client] : /"Hi"/)
    expect(await rowsOf(gateway, requestId(response))).toMatchObject([{ status: "ok", attempts: 1 }])
  },
)
