/**
 * Plays one answer to one caller: the faults that come before it, then the answer in one piece or as events.
 * `faulted` is every answer that a gateway must not take for a whole one; a stall and an empty answer end well.
 */
import type { ServerResponse } from "node:http"
import type { Answer } from "./answer.ts"
import type { Ask } from "./ask.ts"
import { type AnswerFault, type Fault, type StatusFault, isDue, placeOf } from "./fault.ts"
import type { AnswerStream, SimulatedFormat, VendorError } from "./format.ts"
import type { Script } from "./script.ts"

export const play = async (turn: Turn): Promise<Ending> => {
  const { client, format, ask, script, fault, answer } = turn
  if (fault?.kind === "refuse") {
    client.tear()
    return "faulted"
  }
  if (fault?.kind === "silent") {
    await client.gone()
    return "faulted"
  }
  if (ask.stream) await client.pause(script.headMs)
  if (fault?.kind === "status" || fault?.kind === "complaint") {
    await client.pause(script.ttftMs)
    if (fault.kind === "status") await sendStatus(client, format, fault, answer.serial)
    else await sendError(client, format, format.complaints[fault.complaint], answer.serial)
    return "faulted"
  }
  return ask.stream ? playStream(turn, fault) : playReply(turn, fault)
}

const sendStatus = (client: Client, format: SimulatedFormat, fault: StatusFault, serial: string): Promise<void> => {
  const { status, retryAfter, message, code } = fault
  const usual = format.statusError(status)
  const error = { ...usual, message: message ?? usual.message, code: code ?? usual.code }
  if (format.name === "messages") error.type = code ?? usual.type
  const headers = { ...format.headers(serial), ...(retryAfter === undefined ? {} : { "retry-after": retryAfter }) }
  const bodies = {
    vendor: { type: "application/json", body: JSON.stringify(format.errorBody(error, serial)) },
    json: { type: "application/json", body: JSON.stringify({ detail: error.message }) },
    html: { type: "text/html", body: `<html><body><h1>${status}</h1>nginx</body></html>` },
    empty: { type: "text/plain", body: "" },
  }
  const { type, body } = bodies[fault.body]
  return sendBody(client, status, headers, body, type)
}

/**
 * An answer in one piece. What is a fault in mid-stream for the others is one in mid-body here: `after=0` is right
 * after the head, a late reset leaves out the last byte, anything else the second half.
 */
const playReply = async (turn: Turn, fault: AnswerFault | undefined): Promise<Ending> => {
  const { client, format, ask, script, answer } = turn
  await client.pause(script.ttftMs)
  const headers = format.headers(answer.serial)
  const send = (body: unknown): Promise<void> => sendBody(client, 200, headers, JSON.stringify(body))
  if (fault === undefined || fault.kind === "empty") {
    await send(format.reply(answer, ask))
    return "finished"
  }
  if (fault.kind === "error-event" || fault.kind === "failed") {
    const error = format.complaints[fault.complaint]
    if (fault.kind === "failed") await send(format.failedReply?.(answer, error))
    else await sendError(client, format, error, answer.serial)
    return "faulted"
  }

  const body = JSON.stringify(format.reply(answer, ask))
  const cut = placeOf(fault.after, body)
  client.head(200, { ...headers, "content-type": "application/json" })
  await client.put(body.slice(0, cut))
  switch (fault.kind) {
    case "reset":
      await client.tearAfterFlush()
      break
    case "cut":
      await client.end()
      break
    case "garbage":
      await client.end(`${body.slice(cut, -1)},]`)
      break
    case "stall":
      await client.pauseAfterFlush(fault.stallMs)
      await client.end(body.slice(cut))
      return "finished"
  }
  return "faulted"
}

/** An answer as server-sent events, at its pace, with the fault at its place among them. */
const playStream = async (turn: Turn, fault: AnswerFault | undefined): Promise<Ending> => {
  const { client, format, ask, script, answer } = turn
  const stream = format.stream(answer, ask)
  client.head(200, {
    ...format.headers(answer.serial),
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
  })
  await client.pauseAfterFlush(script.ttftMs)
  let contents = 0
  let pending = fault?.kind === "empty" ? undefined : fault
  for (const frame of stream.frames) {
    if (client.left) return "finished"
    if (pending !== undefined && isDue(pending.after, contents, frame.kind)) {
      const over = await strike(client, format, stream, pending)
      if (over) return "faulted"
      pending = undefined
    }
    if (frame.kind === "content") {
      if (contents > 0) await client.pauseAfterFlush(script.paceMs)
      contents += 1
    }
    const full = client.put(frame.bytes)
    if (full !== undefined) await full
  }
  await client.end()
  return fault?.kind === "garbage" ? "faulted" : "finished"
}

/** Whether the fault was the end of the stream. */
const strike = async (
  client: Client,
  format: SimulatedFormat,
  stream: AnswerStream,
  fault: Exclude<AnswerFault, { kind: "empty" }>,
): Promise<boolean> => {
  switch (fault.kind) {
    case "garbage":
      await client.put(stream.garbage())
      return false
    case "stall":
      await client.pauseAfterFlush(fault.stallMs)
      return false
    case "reset":
      await client.tearAfterFlush()
      break
    case "cut":
      await client.end()
      break
    case "error-event":
      await client.end(stream.errorEvent(format.complaints[fault.complaint]))
      break
    case "failed":
      await client.end(stream.failedEvent?.(format.complaints[fault.complaint]))
      break
  }
  return true
}

/** Answers that are one body of a known length. */
export const sendBody = async (
  client: Client,
  status: number,
  headers: Readonly<Record<string, string>>,
  body: string,
  type = "application/json",
): Promise<void> => {
  client.head(status, { ...headers, "content-type": type, "content-length": Buffer.byteLength(body) })
  await client.end(body)
}

/** The format's own error, under the status that its vendor sends with it. */
export const sendError = (client: Client, format: SimulatedFormat, error: VendorError, serial: string): Promise<void> =>
  sendBody(client, error.status, format.headers(serial), JSON.stringify(format.errorBody(error, serial)))

/** One call's turn to be answered: who asked what, and what the script makes of it. */
interface Turn {
  readonly client: Client
  readonly format: SimulatedFormat
  readonly ask: Ask
  readonly script: Script
  /** The script's fault, while it still hits. */
  readonly fault: Fault | undefined
  readonly answer: Answer
}

export type Ending = "finished" | "faulted"

const gatherBytes = 16_384
const longestTimerMs = 2 ** 31 - 1
const tearGapMs = 40
const nothing = (): void => undefined

/**
 * The caller's end: bytes out, at the pace at which they are taken, and the news that the caller has gone.
 * On node:http and not on Bun.serve, because only here can a connection be torn before the response head. Small writes
 * are gathered up to 16 KiB until something waits, which is what makes an unpaced stream cheap.
 */
export class Client {
  readonly #response: ServerResponse
  #gathered = ""
  #over = false
  #left = false
  #wake: (() => void) | undefined

  constructor(response: ServerResponse) {
    this.#response = response
    response.on("close", () => {
      this.#left = !this.#over
      this.#wake?.()
    })
  }

  /** The caller closed the connection before the answer was whole. */
  get left(): boolean {
    return this.#left
  }

  head(status: number, headers: Record<string, string | number>): void {
    this.#response.writeHead(status, headers)
  }

  /** Undefined unless the caller reads too slowly; then a promise of the moment to go on. */
  put(bytes: string): Promise<void> | undefined {
    this.#gathered += bytes
    return this.#gathered.length < gatherBytes ? undefined : this.#write()
  }

  /** Waits, or returns at once when the caller goes. */
  async pause(ms: number): Promise<void> {
    if (ms === 0 || this.#left) return
    await this.#until((done) => {
      const timer = setTimeout(done, Math.min(ms, longestTimerMs))
      return () => clearTimeout(timer)
    })
  }

  /** What was put is sent before the wait, and the head even if nothing was put. */
  async pauseAfterFlush(ms: number): Promise<void> {
    if (ms === 0) return
    await this.#flush()
    await this.pause(ms)
  }

  /** Until the caller goes. */
  async gone(): Promise<void> {
    if (!this.#left) await this.#until(() => nothing)
  }

  /** Ends the answer; returns when it has been handed over or the caller has gone. */
  async end(bytes = ""): Promise<void> {
    if (this.#left) return
    const last = this.#gathered + bytes
    this.#gathered = ""
    await this.#until((done) => {
      this.#response.end(last, () => {
        this.#over = true
        done()
      })
      return nothing
    })
  }

  /** Tears the connection: no end of the answer, and no head if none was sent. */
  tear(): void {
    if (this.#left) return
    this.#over = true
    this.#response.socket?.destroy()
  }

  /** A caller that learns of bytes and of the break at once may drop the bytes (Bun's fetch does), hence the gap. */
  async tearAfterFlush(): Promise<void> {
    await this.pauseAfterFlush(tearGapMs)
    this.tear()
  }

  async #flush(): Promise<void> {
    if (this.#left) return
    if (this.#gathered === "") this.#response.flushHeaders()
    await this.#write()
  }

  #write(): Promise<void> | undefined {
    const bytes = this.#gathered
    this.#gathered = ""
    if (this.#left || bytes === "" || this.#response.write(bytes)) return undefined
    return this.#until((done) => {
      this.#response.once("drain", done)
      return () => this.#response.off("drain", done)
    })
  }

  /** One thing is waited for at a time; the caller's leaving ends every wait. */
  #until(start: (done: () => void) => () => void): Promise<void> {
    return new Promise((resolve) => {
      let stop = nothing
      const done = (): void => {
        this.#wake = undefined
        stop()
        resolve()
      }
      this.#wake = done
      stop = start(done)
    })
  }
}
