/**
 * An answer in one piece. What is a fault in mid-stream for the others is one in mid-body here: `after=0` is right after
 * the head, a late reset leaves out the last byte, anything else the second half.
 */
import type { After, AnswerFault } from "./fault.ts"
import { sendBody, sendError } from "./send.ts"
import type { Ending, Turn } from "./turn.ts"

export const playReply = async (turn: Turn, fault: AnswerFault | undefined): Promise<Ending> => {
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
