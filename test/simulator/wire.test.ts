/** The order and shape of the events, where an SDK is more forgiving than the vendors' documentation. */
import { describe, expect, test } from "bun:test"
import { ask, at, bodyFor, eventsOf, formats, simulatorForFile, stream } from "./ask.ts"

const simulator = simulatorForFile()
const textOf = async (...[format, script, more]: [(typeof formats)[number], string, object?]): Promise<string> =>
  (await ask(simulator, format, script, { ...stream, ...more })).text()

test("chat: role, content, finish reason, usage on its own, done", async () => {
  const events = eventsOf(await textOf("chat", "output=2", { stream_options: { include_usage: true } }))
  expect(at(events[0], "choices", 0, "delta", "role")).toBe("assistant")
  expect(events.slice(0, -2).map((event) => at(event, "usage"))).toEqual([null, null, null, null])
  expect(at(events[3], "choices", 0)).toMatchObject({ delta: {}, finish_reason: "stop" })
  expect(at(events[4], "choices")).toEqual([])
  expect(at(events[4], "usage", "completion_tokens")).toBe(2)
  expect(events[5]).toBe("[DONE]")
})

test("chat: without being asked the stream tells no usage", async () => {
  expect(await textOf("chat", "")).not.toContain("usage")
})

test("messages: every event is named as its type, and blocks open, run and close in order", async () => {
  const text = await textOf("messages", "think=1&output=1")
  const named = [...text.matchAll(/^event: (.*)$/gm)].map((match) => match[1])
  expect(named).toEqual(eventsOf(text).map((event) => String(at(event, "type"))))
  expect(named.join(" ")).toBe(
    "message_start ping content_block_start content_block_delta content_block_delta content_block_stop content_block_start content_block_delta content_block_stop message_delta message_stop",
  )
})

test("responses: every event is named as its type, and none is left out", async () => {
  const text = await textOf("responses", "output=1")
  const named = [...text.matchAll(/^event: (.*)$/gm)].map((match) => match[1])
  expect(named).toEqual(eventsOf(text).map((event) => String(at(event, "type"))))
  expect(named).toEqual([
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.completed",
  ])
})

test("responses: the sequence number rises by one, up to and with an error", async () => {
  const events = eventsOf(await textOf("responses", "think=2&output=3&fault=error-event&after=4"))
  expect(events.map((event) => at(event, "sequence_number"))).toEqual(events.map((_, index) => index))
})

describe.each(formats)("%s", (format) => {
  test("a body that is no JSON, names no model or says nothing is a 400 in the vendor's shape", async () => {
    const bodies = ["{", "[]", "{}", JSON.stringify({ ...bodyFor(format, ""), messages: [], input: [] })]
    for (const body of bodies) {
      const response = await ask(simulator, format, "", {}, { body })
      expect(response.status).toBe(400)
      expect(at(await response.json(), "error", "type")).toBe("invalid_request_error")
    }
  })

  test("vendor headers travel with every answer", async () => {
    const { headers } = await ask(simulator, format)
    expect(headers.get(format === "messages" ? "request-id" : "x-request-id")).toStartWith("req_")
  })
})

test("messages without max_tokens is refused", async () => {
  expect((await ask(simulator, "messages", "", { max_tokens: null })).status).toBe(400)
})
