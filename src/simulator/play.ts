/**
 * Plays one answer to one caller: the faults that come before it, then the answer in one piece or as events.
 * `faulted` is every answer that a gateway must not take for a whole one; a stall and an empty answer end well.
 */
import type { Client } from "./client.ts"
import type { StatusFault } from "./fault.ts"
import type { SimulatedFormat } from "./format.ts"
import { playReply } from "./play-reply.ts"
import { playStream } from "./play-stream.ts"
import { sendBody, sendError } from "./send.ts"
import type { Ending, Turn } from "./turn.ts"

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
