/** An answer as server-sent events, at its pace, with the fault at its place among them. */
import type { Client } from "./client.ts"
import type { After, AnswerFault } from "./fault.ts"
import type { AnswerStream, Frame, SimulatedFormat } from "./format.ts"
import type { Ending, Turn } from "./turn.ts"

export const playStream = async (turn: Turn, fault: AnswerFault | undefined): Promise<Ending> => {
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
