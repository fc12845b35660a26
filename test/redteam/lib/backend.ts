/**
 * A hostile backend on loopback. Each request carries a mark in its prompt, `[[rt7]]`, that names the script of its answer:
 * counts, timing, length, errors, or a function that has the connection to itself. What arrived and what was told is kept.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { type Endpoint, endpoints, paths } from "../../crash/asking.ts"
import { drained } from "./raw.ts"
import { type Counts, streamed, usageOf, whole } from "./speech.ts"

export interface Script {
  readonly counts?: Counts
  /** Instead of counts: what stands under `usage`, as it is. */
  readonly usage?: unknown
  readonly pieces?: number
  readonly piece?: string
  /** Answers, or vectors, each of all pieces. */
  readonly choices?: number
  /** Before the first byte, and between two pieces, in milliseconds. */
  readonly afterMs?: number
  readonly everyMs?: number
  /** Hangs up when nothing was taken for so long. */
  readonly patienceMs?: number
  /** Responses: gives back this field of the request in the first and the last event. */
  readonly echoes?: string
  readonly respond?: (heard: Heard, response: ServerResponse) => unknown
}

/** A request as it arrived, and what became of its answer. */
export interface Heard {
  readonly mark: string
  readonly owner: string
  readonly format: Endpoint
  /** The backend's own name of the model. */
  readonly model: string
  readonly headers: IncomingMessage["headers"]
  readonly body: Readonly<Record<string, unknown>>
  /** Pieces that were handed to the network. */
  sent: number
  /** What the answer counted, once it was told to its end. */
  told: Counts | undefined
  /** The gateway ended the connection before the answer had ended. */
  cut: boolean
  /** The backend itself lost its patience. */
  hungUp: boolean
}

const PLAIN: Counts = { input: 30, output: 20 }
const MARK = /\[\[(rt\d+)\]\]/g

export class HostileBackend implements AsyncDisposable {
  readonly heard: Heard[] = []
  /** Requests to other paths than a model's: what a gateway that fetches addresses would do. */
  readonly strays: string[] = []
  readonly #server: Server
  readonly #scripts = new Map<string, { readonly script: Script; readonly owner: string }>()

  private constructor(server: Server) {
    this.#server = server
    server.on("request", (request, response) => void this.#answer(request, response))
  }

  static async start(): Promise<HostileBackend> {
    const server = createServer({ keepAliveTimeout: 60_000 })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    return new HostileBackend(server)
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** The mark to put into the prompt. */
  plays(owner: string, script: Script): string {
    const mark = `rt${this.#scripts.size + 1}`
    this.#scripts.set(mark, { script, owner })
    return `[[${mark}]]`
  }

  /** The requests that carried this mark. */
  of(mark: string): Heard[] {
    return this.heard.filter((heard) => `[[${heard.mark}]]` === mark)
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on("error", () => {})
    const parts: Buffer[] = []
    try {
      for await (const part of request) parts.push(part as Buffer)
    } catch {
      return
    }
    const format = formatOf(request.url ?? "")
    if (format === undefined) {
      this.strays.push(request.url ?? "")
      response.writeHead(404).end()
      return
    }
    const text = Buffer.concat(parts).toString("latin1")
    const mark = [...text.matchAll(MARK)].at(-1)?.[1] ?? ""
    const { script, owner } = this.#scripts.get(mark) ?? { script: {}, owner: "" }
    const body = JSON.parse(Buffer.concat(parts).toString()) as Heard["body"]
    const model = typeof body["model"] === "string" ? body["model"] : ""
    const heard: Heard = {
      mark,
      owner,
      format,
      model,
      headers: request.headers,
      body,
      sent: 0,
      told: undefined,
      cut: false,
      hungUp: false,
    }
    this.heard.push(heard)
    response.on("close", () => (heard.cut = !response.writableFinished && !heard.hungUp))
    if (script.respond !== undefined) await script.respond(heard, response)
    else await this.#speak(heard, script, response)
  }

  async #speak(heard: Heard, script: Script, response: ServerResponse): Promise<void> {
    const { counts = PLAIN, afterMs = 0 } = script
    const { pieces = 1, piece = "word " } = script
    const usage = script.usage === undefined ? usageOf(heard.format, counts) : script.usage
    const echo = script.echoes === undefined ? {} : { [script.echoes]: heard.body[script.echoes] }
    const speech = { ...heard, pieces, piece, choices: script.choices ?? 1, usage, echo }
    const readable = script.usage === undefined ? counts : undefined
    if (afterMs > 0) await Bun.sleep(afterMs)
    if (heard.body["stream"] !== true) {
      const bytes = JSON.stringify(whole(speech))
      response.writeHead(200, { "Content-Type": "application/json" })
      response.end(bytes, () => (heard.told = readable))
      return
    }
    response.writeHead(200, { "Content-Type": "text/event-stream" })
    const told = streamed(speech)
    if (!(await this.#write(response, told.before, script, heard))) return
    const startedAt = performance.now()
    for (let index = 0; index < pieces; index++) {
      // By the clock, so that a busy machine makes no answer longer.
      const waitMs = startedAt + index * (script.everyMs ?? 0) - performance.now()
      if (waitMs > 1) await Bun.sleep(waitMs)
      if (!(await this.#write(response, told.piece(index), script, heard))) return
      heard.sent++
    }
    if (await this.#write(response, told.after, script, heard)) response.end(() => (heard.told = readable))
  }

  /** False when the connection has ended. */
  async #write(response: ServerResponse, text: string, { patienceMs }: Script, heard: Heard): Promise<boolean> {
    if (response.destroyed) return false
    if (response.write(text)) return true
    if (await drained(response, patienceMs)) return true
    heard.hungUp = !response.destroyed
    response.destroy()
    return false
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}

const formatOf = (path: string): Endpoint | undefined => endpoints.find((endpoint) => path.endsWith(paths[endpoint]))
