import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { Failure } from "../../src/failure/failure.ts"
import { encodeSse, eventObject, type SseEvent, SseParser } from "../../src/wire/sse.ts"
import { bytesOf, oneByteEach, parse } from "./replay.ts"

const event = (data: string, name = ""): SseEvent => ({ event: name, data })

const streams: [string, string, SseEvent[]][] = [
  ["LF ends lines", "data: a\n\ndata: b\n\n", [event("a"), event("b")]],
  ["CR LF ends lines", "event: e\r\ndata: a\r\n\r\ndata: b\r\n\r\n", [event("a", "e"), event("b")]],
  ["CR ends lines", "event: e\rdata: a\r\rdata: b\r\r", [event("a", "e"), event("b")]],
  ["line ends may be mixed", "data: a\r\ndata: b\ndata: c\r\r\ndata: d\n\r\n", [event("a\nb\nc"), event("d")]],
  ["data lines are joined", "data: a\ndata:\ndata: b\n\n", [event("a\n\nb")]],
  ["only one space is cut", "data:a\n\ndata:  b\n\n", [event("a"), event(" b")]],
  ["comments are passed over", ": heartbeat\ndata: a\n: more\ndata: b\n\n:\n\n", [event("a\nb")]],
  ["a byte order mark is cut", "\ufeffdata: a\n\n", [event("a")]],
  ["other fields mean nothing", "id: 1\nretry: 5\nfoo: x\nbar\ndata: a\n\n", [event("a")]],
  ["a field may have no colon", "data\n\nevent: e\nevent\ndata: a\n\n", [event(""), event("a")]],
  ["an event without data is none, and its name does not stay", "event: e\n\ndata: a\n\n", [event("a")]],
  [
    "an event that the end cut off is handed out",
    "data: a\n\nevent: e\ndata: [DONE]",
    [event("a"), event("[DONE]", "e")],
  ],
  ["half a field at the end is nothing", "data: a\n\ndat", [event("a")]],
]

describe.each(streams)("%s", (_, text, events) => {
  test("whole, and one byte at a time", () => {
    expect(parse([bytesOf(text)])).toEqual(events)
    expect(parse(oneByteEach(bytesOf(text)))).toEqual(events)
  })
})

test("however a stream is cut into chunks, its events are the same", () => {
  const line = fc.oneof(
    fc.string({ unit: "grapheme", maxLength: 20 }),
    fc.string({ maxLength: 20 }).map((text) => `data: ${text}`),
    fc.constantFrom("data: ☀️", "event: e", ": c", "", "", ":"),
  )
  const stream = fc
    .array(fc.tuple(line, fc.constantFrom("\n", "\r", "\r\n")), { maxLength: 30 })
    .map((lines) => bytesOf(lines.flat().join("")))
  fc.assert(
    fc.property(stream, fc.array(fc.nat(300), { maxLength: 12 }), (bytes, cuts) => {
      const ends = [...cuts.filter((cut) => cut < bytes.length).sort((a, b) => a - b), bytes.length]
      const chunks = ends.map((end, at) => bytes.subarray(ends[at - 1] ?? 0, end))
      expect(parse(chunks)).toEqual(parse([bytes]))
    }),
  )
})

test("an event that was encoded is read back", () => {
  const name = fc.constantFrom("", "message_start", "error")
  fc.assert(
    fc.property(name, fc.string({ unit: "grapheme" }), (name, data) => {
      const read = { event: name, data: data.replaceAll(/\r\n|\r/g, "\n") }
      expect(parse([bytesOf(encodeSse(name, data))])).toEqual([read])
    }),
  )
})

describe("an event over the limit", () => {
  const limits = { maxEventSize: 10 }

  test("is a failure, told after the events before it, and nothing comes after", () => {
    const parser = new SseParser(limits)
    expect(parser.push(bytesOf("data: a\n\ndata: 12345678901\n\ndata: b\n\n"))).toEqual([event("a")])
    expect(parser.push(bytesOf("data: c\n\n"))).toBeInstanceOf(Failure)
    parser.end()
    expect(parser.next()).toBeInstanceOf(Failure)
  })

  test("is noticed before its end has come", () => {
    const parser = new SseParser(limits)
    expect(parser.push(bytesOf("data: 12"))).toEqual([])
    expect(parser.push(bytesOf("345"))).toBeInstanceOf(Failure)
  })

  test("may be made of many lines", () => {
    const parser = new SseParser(limits)
    expect(parser.push(bytesOf("data: 1234\ndata: 1234\ndata: 1234\n"))).toBeInstanceOf(Failure)
  })

  test("is not a stream of many small events", () => {
    const parser = new SseParser(limits)
    for (let n = 0; n < 20; n++) expect(parser.push(bytesOf("data: 1234\n\n"))).toEqual([event("1234")])
  })
})

test("only a JSON object is what an event carries", () => {
  expect(eventObject(event('{"a":1}'))).toEqual({ a: 1 })
  for (const data of ["[1]", "1", "null", '"a"', "", "{", "[DONE]"]) expect(eventObject(event(data))).toBeUndefined()
})
