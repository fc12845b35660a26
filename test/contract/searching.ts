/** A gateway that searches for its models, a search engine and a backend that plays turns. */
import { afterAll, beforeAll, beforeEach, expect } from "bun:test"
import { startTestGateway, type Person, type TestGateway } from "../gateway/harness.ts"
import { kyoto, pages, type SearxServer, startSearx } from "../search/searx-server.ts"
import { startTurnsBackend, type TurnAnswer, type TurnsBackend } from "../search/turns-backend.ts"
import { requestId } from "./calling.ts"

export type Json = Record<string, unknown>
export type Block = Json & { readonly type: string }

export let gateway: TestGateway
export let searx: SearxServer
export let backend: TurnsBackend
export let person: Person
export let key: string
let model: string

/** A gateway, its search and its backend, for the tests of one file. */
export function searching(): void {
  beforeAll(async () => {
    searx = startSearx()
    backend = startTurnsBackend()
    gateway = await startTestGateway({
      env: { SEARCH_URL: searx.url, HEARTBEAT_MS: "100" },
      backends: [backend.backend],
    })
    person = await gateway.person(100_000)
    key = (await gateway.key(person)).key
    model = await gateway.model({ format: "messages", provider: "turns", features: ["web_search"] })
  })
  afterAll(async () => {
    await gateway[Symbol.asyncDispose]()
    await searx[Symbol.asyncDispose]()
    await backend[Symbol.asyncDispose]()
  })
  beforeEach(() => {
    searx.answer = () => pages(kyoto)
    searx.asked.length = 0
    backend.asked.length = 0
    backend.turns = []
  })
}

export const tool = { type: "web_search_20250305", name: "web_search" }
export const weather = { name: "weather", input_schema: { type: "object" } }
export const question = { role: "user", content: "When do the maples turn red?" }

export const asking = (more: Json = {}): Json => ({
  model,
  max_tokens: 1_000,
  messages: [question],
  tools: [tool],
  ...more,
})
export const ask = (more: Json = {}, withKey = key) => gateway.post("/v1/messages", withKey, asking(more))
export const play = (...turns: TurnAnswer[]) => (backend.turns = turns)

interface Told {
  readonly response: Response
  readonly content: readonly Block[]
  readonly stop: unknown
  readonly usage: Json
}

/** The same call in both ways of answering; the SDK's own reading of a stream is tested apart. */
export const ways = [
  ["not streaming", false],
  ["streaming", true],
] as const

export async function told(stream: boolean, more: Json = {}, withKey = key): Promise<Told> {
  const response = await ask({ stream, ...more }, withKey)
  expect(response.status).toBe(200)
  const message = stream ? await gather(response) : ((await response.json()) as Json)
  const { content, stop_reason: stop, usage } = message
  return { response, content: content as Block[], stop, usage: usage as Json }
}

/** Puts a stream together again, and checks the order of its events as it goes. */
async function gather(response: Response): Promise<Json> {
  const content: Json[] = []
  let message: Json = {}
  let json = ""
  let ended = false
  for (const event of (await response.text()).replaceAll(/^: .*\n/gm, "").split("\n\n")) {
    const data = /^data: (.*)$/m.exec(event)?.[1]
    if (data === undefined) continue
    const body = JSON.parse(data) as Json & { index: number; delta: Json; content_block: Json; message: Json }
    expect(event).toStartWith(`event: ${String(body["type"])}\n`)
    expect(ended).toBe(false)
    const block = content.at(-1) ?? {}
    switch (body["type"]) {
      case "message_start":
        expect(message).toEqual({})
        message = body.message
        break
      case "content_block_start":
        expect(body.index).toBe(content.length)
        content.push({ ...body.content_block })
        json = ""
        break
      case "content_block_delta":
        expect(body.index).toBe(content.length - 1)
        if (body.delta["type"] === "text_delta") block["text"] = `${String(block["text"])}${String(body.delta["text"])}`
        if (body.delta["type"] === "thinking_delta") block["thinking"] = body.delta["thinking"]
        if (body.delta["type"] === "signature_delta") block["signature"] = body.delta["signature"]
        if (body.delta["type"] === "input_json_delta") json += String(body.delta["partial_json"])
        if (body.delta["type"] === "citations_delta")
          block["citations"] = [...((block["citations"] as Json[] | undefined) ?? []), body.delta["citation"]]
        break
      case "content_block_stop":
        expect(body.index).toBe(content.length - 1)
        if (json !== "") block["input"] = JSON.parse(json)
        break
      case "message_delta":
        message = { ...message, ...body.delta, usage: { ...(message["usage"] as Json), ...(body["usage"] as Json) } }
        break
      case "message_stop":
        ended = true
    }
  }
  expect(ended).toBe(true)
  return { ...message, content }
}

export const types = ({ content }: Told) => content.map(({ type }) => type)
export const found = ({ content }: Told) =>
  content.flatMap(({ type, content: inner }) => (type === "web_search_tool_result" ? [inner] : []))
export const usageOf = ({ response }: Told) => gateway.usage(person, requestId(response))
/** 1,000 an input token, 5,000 an output token, 100 and 1,250 for the cache. */
export const priced = (input: number, output: number, read = 0, write = 0) =>
  input * 1_000 + output * 5_000 + read * 100 + write * 1_250
