/**
 * The SDKs as their users have them: their connection is cut, they ask again, and pay once. What they send again by themselves needs
 * nothing; of a stream that broke off in its middle the code around them asks again, with an `Idempotency-Key`.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { type AddressInfo, connect, createServer, type Server } from "node:net"
import Anthropic from "@anthropic-ai/sdk"
import OpenAI from "openai"
import { eventually } from "../contract/calling.ts"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { answer, Buyer, costRp, script } from "./buyer.ts"

let gateway: TestGateway
let buyer: Buyer
let proxy: Server
let url = ""
/** What of an answer the next connection is cut at; "" is its request, before anything is answered. */
let cutAt: string | undefined

beforeAll(async () => {
  gateway = await startTestGateway()
  buyer = await Buyer.with(gateway, 1_000_000)
  const { hostname, port } = new URL(gateway.url)
  proxy = createServer((client) => {
    const server = connect(Number(port), hostname)
    const cut = () => {
      cutAt = undefined
      client.destroy()
      server.destroy()
    }
    client.on("data", (bytes) => {
      server.write(bytes)
      if (cutAt === "") setTimeout(cut, 60)
    })
    server.on("data", (bytes) => {
      client.write(bytes)
      if (cutAt !== undefined && cutAt !== "" && bytes.toString().includes(cutAt)) setTimeout(cut, 5)
    })
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const)
      socket.on("error", () => other.destroy()).on("close", () => other.destroy())
  })
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve))
  url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
})
afterAll(async () => {
  proxy.close()
  await gateway[Symbol.asyncDispose]()
})

const messages = [{ role: "user" as const, content: "Where is my train?" }]

interface Init {
  readonly headers?: Record<string, string>
  readonly timeout?: number
}
const options = (): Init => ({ headers: { "Idempotency-Key": crypto.randomUUID() } })

type Ask = (stream: boolean, init: Init, model: string) => Promise<string>

async function chat(stream: boolean, init: Init, model: string): Promise<string> {
  const openai = new OpenAI({ apiKey: buyer.key, baseURL: `${url}/v1` })
  if (!stream)
    return (await openai.chat.completions.create({ model, messages }, init)).choices[0]?.message.content ?? ""
  let text = ""
  for await (const chunk of await openai.chat.completions.create({ model, messages, stream: true }, init))
    text += chunk.choices[0]?.delta.content ?? ""
  return text
}

async function responses(stream: boolean, init: Init, model: string): Promise<string> {
  const openai = new OpenAI({ apiKey: buyer.key, baseURL: `${url}/v1` })
  if (!stream) return (await openai.responses.create({ model, input: "Where is my train?" }, init)).output_text
  let text = ""
  for await (const event of await openai.responses.create({ model, input: "Where is my train?", stream: true }, init))
    if (event.type === "response.output_text.delta") text += event.delta
  return text
}

async function anthropic(stream: boolean, init: Init, model: string): Promise<string> {
  const client = new Anthropic({ apiKey: buyer.key, baseURL: url })
  const body = { model, messages, max_tokens: 100 }
  if (!stream) {
    const [block] = (await client.messages.create(body, init)).content
    return block?.type === "text" ? block.text : ""
  }
  let text = ""
  for await (const event of await client.messages.create({ ...body, stream: true }, init))
    if (event.type === "content_block_delta" && event.delta.type === "text_delta") text += event.delta.text
  return text
}

const charges = (model: string) =>
  gateway.sql<{ charge_micro: bigint }[]>`select charge_micro from usage where model = ${model} and part = 0`

const asks = [
  ["chat", chat],
  ["responses", responses],
  ["messages", anthropic],
] as const satisfies readonly (readonly [string, Ask])[]

describe.each(asks)("%s", (format, ask) => {
  test("a stream that was cut in its middle is asked for again: the whole answer, one charge", async () => {
    const model = await gateway.model({ format, script: `${script}&pace=40` })
    const init = options()
    cutAt = "leaves"
    const first = await ask(true, init, model).then(
      (text) => text,
      () => "broken",
    )
    expect(cutAt).toBeUndefined()
    expect(first).not.toBe(answer)
    expect(await ask(true, init, model)).toBe(answer)
    // And once more, from what is kept.
    expect(await ask(true, init, model)).toBe(answer)
    expect((await charges(model)).map(({ charge_micro }) => charge_micro)).toEqual([BigInt(Number(costRp) * 1_000_000)])
  })

  test("an answer in one piece whose connection is cut is asked for again by the SDK itself, and charged once", async () => {
    const model = await gateway.model({ format, script: `${script}&ttft=300` })
    cutAt = ""
    expect(await ask(false, options(), model)).toBe(answer)
    expect(cutAt).toBeUndefined()
    expect(await charges(model)).toHaveLength(1)
  })

  test.each([false, true])(
    "streamed: %p: a connection that is cut before the head is asked for again by the SDK, and charged once",
    async (stream) => {
      const model = await gateway.model({ format, script: `${script}&ttft=300` })
      cutAt = ""
      expect(await ask(stream, {}, model)).toBe(answer)
      expect(cutAt).toBeUndefined()
      expect(await charges(model)).toHaveLength(1)
    },
  )

  test("a stream that broke off in its middle is asked for by nobody; without a key, asking again is another call", async () => {
    const model = await gateway.model({ format, script: `${script}&pace=40` })
    cutAt = "leaves"
    const first = await ask(true, {}, model).then(
      (text) => text,
      () => "broken",
    )
    expect(cutAt).toBeUndefined()
    expect(first).not.toBe(answer)
    expect(await ask(true, {}, model)).toBe(answer)
    await eventually(
      "both are charged",
      () => charges(model),
      ({ length }) => length === 2,
    )
  })
})

test.concurrent.each(asks)(
  "on %s whoever does not wait for an answer in one piece is given it by the SDK's next try, and charged once",
  async (format, ask) => {
    const model = await gateway.model({ format, script: `${script}&ttft=3500` })
    expect(await ask(false, { timeout: 3_000 }, model)).toBe(answer)
    expect(await charges(model)).toHaveLength(1)
  },
)
