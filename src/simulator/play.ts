/**
 * Plays one answer to one caller: the faults that come before it, then the answer in one piece or as events.
 * `faulted` is every answer that a gateway must not take for a whole one; a stall and an empty answer end well.
 */
import type { Answer } from "./answer.ts"
import type { Ask } from "./ask.ts"
import type { Client } from "./client.ts"
import type { After, AnswerFault, Fault, StatusFault } from "./fault.ts"
import type { AnswerStream, Frame, SimulatedFormat, VendorError } from "./format.ts"
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

/** At a quotation mark, because a cut between the halves of a surrogate pair would change the text. */
const placeOf = (after: After, body: string): number => {
  if (after === 0) return 0
  return after === Infinity ? body.length - 1 : body.lastIndexOf('"', body.length / 2)
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
    if (pending !== undefined && isDue(pending.after, contents, frame)) {
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

const isDue = (after: After, contents: number, next: Frame): boolean => {
  if (next.kind === "terminal") return true
  return after === "preamble" ? next.kind === "content" : contents >= after
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
