/**
 * A model backend on loopback that speaks all formats and fails on request: what tests, the demo and the benches
 * put behind the gateway, so that nothing inside the gateway needs to be fake. What a call does is scripted in the name
 * of the model that it asks for (script.ts); without a script it answers at once.
 */
import { createServer, type IncomingMessage } from "node:http"
import { isObject, type JsonObject } from "../language/json.ts"
import { missingTool, planAnswer } from "./answer.ts"
import { chat, completions, embeddings } from "./chat.ts"
import { comesInsteadOfAnswer } from "./fault.ts"
import { refusalOf, type SimulatedFormat } from "./format.ts"
import { type Call, Journal, type OpenCall, parseScript, type Script, ScriptProblem, splitModel } from "./script.ts"
import { messages } from "./messages.ts"
import { Client, type Ending, play, sendBody, sendError } from "./play.ts"
import { demandedTool, PrefixCaches } from "./ask.ts"
import { responses } from "./responses.ts"

export interface SimulatorOptions {
  /** 0, the default, is any free port. */
  readonly port?: number
  readonly hostname?: string
  /** The same seed gives the same words and ids. */
  readonly seed?: number
  /** False keeps no headers and bodies of calls, for benches with large requests. */
  readonly journal?: boolean
  /** The time by which cached prompts are forgotten, in milliseconds. */
  readonly now?: () => number
}

export interface Simulator {
  /** Without a path: a provider's `base_url`. */
  readonly url: string
  /** The last 10,000 calls, oldest first. */
  readonly calls: readonly Call[]
  stop(): Promise<void>
  /** Forgets the calls, whom `times` has hit, and cached prompts. */
  reset(): void
}

const formats = new Map([chat, messages, responses, completions, embeddings].map((format) => [format.path, format]))
const rememberedScripts = 1000

export const startSimulator = (options: SimulatorOptions = {}): Simulator => {
  const { port = 0, hostname = "127.0.0.1", seed = 0, journal: whole = true, now = Date.now } = options
  const journal = new Journal()
  const scripts = new Map<string, Script | ScriptProblem>()
  const hits = new Map<string, number>()
  const caches = new PrefixCaches()
  let served = 0

  const scriptOf = (query: string, override: string): Script | ScriptProblem => {
    const key = `${query}\n${override}`
    const known = scripts.get(key)
    if (known !== undefined) return known
    if (scripts.size >= rememberedScripts) scripts.clear()
    const script = parseScript(query, override)
    scripts.set(key, script)
    return script
  }

  /** `times` counts the calls of one script under one model, whatever format they came in. */
  const stillHits = (script: Script, key: string): boolean => {
    if (script.fault === undefined || script.times === Infinity) return script.fault !== undefined
    const before = hits.get(key) ?? 0
    hits.set(key, before + 1)
    return before < script.times
  }

  const serve = async (request: IncomingMessage, format: SimulatedFormat, client: Client): Promise<void> => {
    const startedAt = Date.now()
    const bytes = await readBody(request)
    if (bytes === undefined) return
    served += 1
    const serial = `sim${seed.toString(36)}n${served.toString(36).padStart(6, "0")}`
    const body = parse(bytes)
    const model = typeof body?.["model"] === "string" ? body["model"] : ""
    const call = journal.open({
      path: request.url ?? "",
      headers: whole ? headersOf(request) : {},
      body: whole ? body : undefined,
      model,
      script: undefined,
      startedAt,
      endedAt: undefined,
      outcome: "running",
    })
    const ending = await answer(request, format, client, { call, body, serial, startedAt })
    call.endedAt = Date.now()
    call.outcome = client.left ? "client-left" : ending
  }

  const answer = async (
    request: IncomingMessage,
    format: SimulatedFormat,
    client: Client,
    {
      call,
      body,
      serial,
      startedAt,
    }: { call: OpenCall; body: JsonObject | undefined; serial: string; startedAt: number },
  ): Promise<Ending> => {
    const refuse = async (message: string): Promise<Ending> => {
      await sendError(client, format, { ...format.statusError(400), message }, serial)
      return "faulted"
    }
    if (body === undefined) return refuse("The body is not a JSON object.")
    if (call.model === "") return refuse("you must provide a model parameter")
    const { name, query } = splitModel(call.model)
    const override = String(request.headers["x-simulator"] ?? "")
    const script = scriptOf(query, override)
    if (script instanceof ScriptProblem) return refuse(`simulator: ${script.message}`)
    call.script = script
    const ask = format.readAsk(body)
    if (typeof ask === "string") return refuse(ask)
    const problem = problemOf(script, format) ?? missingTool(ask, script)
    if (problem !== undefined) return refuse(`simulator: ${problem}`)
    const refusal = refusalOf(body, script.refuses)
    if (refusal !== undefined) {
      await sendError(client, format, refusal, serial)
      return "faulted"
    }
    const fault = stillHits(script, `${call.model}\n${override}`) ? script.fault : undefined
    const mute = fault?.kind === "empty"
    const isCached = script.caches && (fault === undefined || !comesInsteadOfAnswer(fault))
    const { authorization, "x-api-key": key } = request.headers
    const owner = JSON.stringify([authorization ?? key ?? "", name])
    const cache = isCached ? caches.use(owner, format.promptBlocks(body), format.caching, now()) : undefined
    const demanded = demandedTool(body)
    const plan = planAnswer(ask, script, { serial, seed, nowMs: startedAt, model: name, mute, cache, demanded })
    return play({ client, format, ask, script, fault, answer: plan })
  }

  const server = createServer((request, response) => {
    const path = pathOf(request.url ?? "/")
    const format = request.method === "POST" ? formats.get(path) : undefined
    const client = new Client(response)
    if (format !== undefined) void serve(request, format, client)
    else if (path === "/healthz") void sendBody(client, 200, {}, `{"status":"ok"}`)
    else
      void sendBody(client, 404, {}, JSON.stringify({ error: { message: `Invalid URL (${request.method} ${path})` } }))
  })
  // A backend that hangs up on its own would be a fault that nobody scripted.
  server.timeout = 0
  server.requestTimeout = 0
  server.headersTimeout = 0
  server.keepAliveTimeout = 0
  server.listen(port, hostname)
  const address = server.address()
  if (address === null || typeof address === "string")
    throw new Error(`the simulator has no port on ${hostname}:${port}`)

  return {
    url: `http://${hostname.includes(":") ? `[${hostname}]` : hostname}:${address.port}`,
    get calls() {
      return journal.calls
    },
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
    reset: () => {
      journal.clear()
      hits.clear()
      caches.clear()
    },
  }
}

const problemOf = (script: Script, format: SimulatedFormat): string | undefined => {
  if (script.fault?.kind === "failed" && format.failedReply === undefined)
    return `fault=failed is of responses alone, not of ${format.name}`
  return script.refuses.length > 0 && format.name !== "chat"
    ? `refuses is of chat alone, not of ${format.name}`
    : undefined
}

const pathOf = (url: string): string => {
  const mark = url.indexOf("?")
  return mark < 0 ? url : url.slice(0, mark)
}

const headersOf = (request: IncomingMessage): Record<string, string> => {
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries(request.headers)) headers[name] = String(value)
  return headers
}

/** Undefined when the caller went away before the body was whole. */
const readBody = (request: IncomingMessage): Promise<Buffer | undefined> =>
  new Promise((resolve) => {
    const chunks: Buffer[] = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => resolve(Buffer.concat(chunks)))
    request.on("close", () => resolve(undefined))
  })

const parse = (bytes: Buffer): JsonObject | undefined => {
  try {
    const body: unknown = JSON.parse(bytes.toString())
    return isObject(body) ? body : undefined
  } catch {
    return undefined
  }
}
