import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { Failure } from "../../src/failure/failure.ts"
import type { JsonObject } from "../../src/language/json.ts"
import { RelayedStream, shapesFor, TranslatedStream } from "../../src/wire/backend-stream.ts"
import { backendStream as chat } from "../../src/wire/chat/events-in.ts"
import { converseFormat } from "../../src/wire/bedrock/converse.ts"
import type { BackendStream, ClientView, StreamReader } from "../../src/wire/format.ts"
import { messagesFormat } from "../../src/wire/messages/format.ts"
import { backendStream as messages } from "../../src/wire/messages/events-in.ts"
import { TurnReader } from "../../src/wire/messages/server-tools-answer.ts"
import { backendStream as responses } from "../../src/wire/responses/events-in.ts"
import { responsesFormat } from "../../src/wire/responses/format.ts"
import type { EventShape } from "../../src/wire/shared/event-template.ts"
import { encodeSse, type SseEvent, SseParser } from "../../src/wire/sse.ts"
import { emptyPrompt } from "./chat/ask.ts"
import { fixture, kinds, parse, sent } from "./replay.ts"
import { view as messagesView } from "./messages/samples.ts"
import { answerView } from "./responses/asking.ts"
import { medianWork } from "./work.ts"

const formats = { chat, messages, responses }
type Format = keyof typeof formats

const event = (data: string, name = ""): SseEvent => ({ event: name, data })

/** An event of a long stream, with what the model wrote as it is spelled in JSON. */
const shapes: Readonly<Record<string, readonly [Format, (text: string, place: number) => SseEvent]>> = {
  "chat, as the vendor sends it": [
    "chat",
    (text, place) =>
      event(
        `{"id":"c","object":"chat.completion.chunk","created":17,"model":"backend-model","choices":[{"index":0,"delta":` +
          `{"content":${text}},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"x${place}"}`,
      ),
  ],
  "chat, under the client's own name of the model": [
    "chat",
    (text) => event(`{"model":"catalogue/model", "choices": [{"delta": {"content": ${text}}}] }`),
  ],
  "chat, without a model": ["chat", (text) => event(`{"id":"c","choices":[{"index":0,"delta":{"content":${text}}}]}`)],
  "chat, the text before the model and numbers in their own spelling": [
    "chat",
    (text) => event(`{"choices":[{"delta":{"reasoning_content":${text}}}],"created":1.0,"model":"backend-model"}`),
  ],
  "chat, the arguments of two calls": [
    "chat",
    (text) =>
      event(
        `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":${text}}},` +
          `{"index":1,"function":{"arguments":${text}}}]}}],"model":"backend-model"}`,
      ),
  ],
  "chat, names that stand twice": [
    "chat",
    (text) => event(`{"model":"a","choices":[{"delta":{"content":"x","content":${text}}}],"model":"backend-model"}`),
  ],
  "messages, a text": [
    "messages",
    (text) =>
      event(
        `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":${text}}}`,
        "content_block_delta",
      ),
  ],
  "messages, without a name and its text first": [
    "messages",
    (text) => event(`{"delta":{"partial_json":${text},"type":"input_json_delta"},"type":"content_block_delta"}`),
  ],
  "responses, numbered and padded": [
    "responses",
    (text, place) =>
      event(
        `{"type":"response.output_text.delta","sequence_number":${place},"item_id":"m","delta":${text},"obfuscation":"q"}`,
        "response.output_text.delta",
      ),
  ],
}

const view: ClientView = { model: "catalogue/model", includeUsage: false }

/** The same reader without its fast way. */
function slow(format: Format, view: ClientView): RelayedStream {
  const events = formats[format](view)
  const none: BackendStream["openPlaces"] = { texts: new Set(), ofStream: new Set() }
  Object.defineProperty(events, "openPlaces" satisfies keyof BackendStream, { value: none })
  return new RelayedStream(events)
}

function counted(format: Format): { readonly events: BackendStream; readonly read: () => number } {
  const events = formats[format](view)
  const meaning = events.meaning.bind(events)
  let read = 0
  events.meaning = (event, body) => {
    read++
    return meaning(event, body)
  }
  return { events, read: () => read }
}

/** What a model may write to be taken for something else, as it would stand within a JSON string. */
const hostile = fc.constantFrom(
  '","model":"evil"',
  '"usage":{"prompt_tokens":9,"completion_tokens":9}',
  '"}}],"error":{"message":"x"}',
  ',"sequence_number":7,',
  "[DONE]",
  "data: [DONE]",
  "loket:gap:0",
  '"loket:gap:0"',
  "\\",
  '\\"',
  "\u2028",
  "\u0000",
  "\ud83d\ude00",
  "</script>",
)
const written = fc
  .array(fc.oneof(hostile, fc.string({ unit: "grapheme", maxLength: 8 }), fc.string({ maxLength: 8 })), {
    maxLength: 4,
  })
  .map((parts) => parts.join(""))
/** A JSON string in one of its spellings. */
const spelled = fc.tuple(written, fc.constantFrom("plain", "ascii", "slashes")).map(([text, how]) => {
  const json = JSON.stringify(text)
  if (how === "plain") return json
  if (how === "slashes") return json.replaceAll("/", "\\/")
  return json.replaceAll(/[^\u0020-\u007e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
})
/** What may stand where a string belongs, or damage one that does. */
const odd = fc.constantFrom(
  "null",
  "12",
  '""',
  "[]",
  "{}",
  '"a" "b"',
  '"a","x":"b"',
  '"\\x"',
  '"\\u12"',
  '"\\',
  '"a\t"',
  "'a'",
  '"a"}',
)

describe.each(Object.entries(shapes))("%s", (_, [format, shape]) => {
  // Kept from stream to stream, of clients with different views, which are kept apart where it matters for speed.
  const shapes: EventShape[] = []
  const both = (views: ClientView, events: readonly SseEvent[]) => {
    const fast = new RelayedStream(formats[format](views), shapes)
    const sure = slow(format, views)
    for (const one of events) {
      expect(fast.read(one)).toEqual(sure.read(one))
      expect(fast.tokens()).toEqual(sure.tokens())
      expect(fast.position()).toEqual(sure.position())
    }
  }

  test("is not parsed again and again", () => {
    const { events, read } = counted(format)
    const reader = new RelayedStream(events)
    for (let place = 0; place < 100; place++) reader.read(shape(JSON.stringify(`word ${place}`), place))
    expect(read()).toBeLessThan(_ === "chat, names that stand twice" ? 101 : 3)
  })

  test("whatever the model writes, byte for byte what parsing makes of it", () => {
    const texts = fc.array(spelled, { minLength: 2, maxLength: 8 })
    fc.assert(
      fc.property(texts, fc.boolean(), (texts, includeUsage) =>
        both({ ...view, includeUsage }, [
          shape('"begun"', 0),
          ...texts.map((text, place) => shape(text, place + 1)),
          shape('"over"', 99),
        ]),
      ),
      { numRuns: 300 },
    )
  })

  test("what is no string in a string's place goes the sure way", () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(odd, spelled), { minLength: 1, maxLength: 5 }), (texts) =>
        both(view, [shape('"begun"', 0), ...texts.map((text, place) => shape(text, place + 1))]),
      ),
      { numRuns: 300 },
    )
  })

  test("an event that is damaged or changed anywhere goes the sure way", () => {
    const change = fc.tuple(
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.nat(6),
      fc.oneof(hostile, odd, fc.string({ maxLength: 3 })),
    )
    fc.assert(
      fc.property(spelled, change, (text, [where, cut, put]) => {
        const { event: name, data } = shape(text, 2)
        const at = Math.floor(where * data.length)
        both(view, [
          shape('"begun"', 0),
          shape('"on"', 1),
          event(data.slice(0, at) + put + data.slice(at + cut), name),
          shape('"over"', 3),
        ])
      }),
      { numRuns: 600 },
    )
  })

  test("however its bytes come, and however its lines are spelled, the same goes out", () => {
    const framings: readonly ((one: SseEvent) => string)[] = [
      ({ event: name, data }) => encodeSse(name, data),
      ({ event: name, data }) => encodeSse(name, data).replaceAll("\n", "\r\n"),
      ({ event: name, data }) => `id: 7\n${encodeSse(name, data)}`,
      ({ event: name, data }) => `: a comment\n\ndata:${data}\nevent:${name}\n\n`,
      ({ event: name, data }) => `${encodeSse(name, data)}event: nothing\n\n`,
    ]
    const texts = fc.array(fc.tuple(fc.oneof({ weight: 3, arbitrary: spelled }, odd), fc.nat(framings.length * 2)), {
      minLength: 2,
      maxLength: 9,
    })
    fc.assert(
      fc.property(texts, fc.array(fc.nat(400), { maxLength: 6 }), fc.boolean(), (texts, cuts, includeUsage) => {
        const events = texts.map(([text], place) => shape(text, place))
        const bytes = new TextEncoder().encode(
          events.map((one, place) => (framings[texts[place]?.[1] ?? 0] ?? framings[0]!)(one)).join(""),
        )
        const fast = new RelayedStream(formats[format]({ ...view, includeUsage }), shapes)
        const sure = slow(format, { ...view, includeUsage })
        const out: string[] = []
        const parser = new SseParser()
        let from = 0
        for (const cut of [...cuts, bytes.length]) {
          parser.feed(bytes.subarray(from, from + cut))
          from += cut
          for (;;) {
            fast.passThrough(parser, out)
            const one = parser.next()
            if (one === undefined || one instanceof Failure) break
            const step = fast.read(one)
            if (step.kind !== "failure") out.push(step.bytes)
          }
        }
        const steps = parse([bytes]).map((one) => sure.read(one))
        expect(out.join("")).toBe(sent(steps))
        expect(fast.tokens()).toEqual(sure.tokens())
        expect(fast.position()).toEqual(sure.position())
      }),
      { numRuns: 500 },
    )
  })

  test("a run of them is passed without being cut into lines", () => {
    const reader = new RelayedStream(formats[format](view))
    const text = Array.from({ length: 30 }, (_, place) => shape(`"word ${place}"`, place))
    const parser = new SseParser()
    parser.feed(new TextEncoder().encode(text.map(({ event: name, data }) => encodeSse(name, data)).join("")))
    const read = () => {
      const one = parser.next()
      if (one === undefined || one instanceof Failure) return undefined
      return reader.read(one)
    }
    read()
    const out: string[] = []
    reader.passThrough(parser, out)
    expect(read() === undefined).toBe(_ !== "chat, names that stand twice")
  })

  test("under another event's name it is another event", () =>
    both(view, [
      shape('"begun"', 0),
      shape('"on"', 1),
      { ...shape('"x"', 2), event: "error" },
      { ...shape('"x"', 3), event: "other" },
    ]))
})

const choice = (index: number, text: string) => event(`{"choices":[{"index":${index},"delta":{"content":"${text}"}}]}`)

const OTHER_STREAMS: Readonly<Record<Format, (text: string, stream: number) => SseEvent>> = {
  chat: (text, stream) =>
    event(
      `{"id":"chatcmpl-${stream}","created":${17 + stream},"model":"backend-model","system_fingerprint":"fp_${stream}",` +
        `"choices":[{"index":0,"delta":{"content":"${text}"}}],"usage":null}`,
    ),
  messages: (text, stream) =>
    event(
      `{"type":"content_block_delta","index":${stream},"delta":{"type":"text_delta","text":"${text}"}}`,
      "content_block_delta",
    ),
  responses: (text, stream) =>
    event(
      `{"type":"response.output_text.delta","sequence_number":${stream},"item_id":"msg_${stream}","output_index":0,"content_index":0,"delta":"${text}"}`,
      "response.output_text.delta",
    ),
}

describe.each(["chat", "messages", "responses"] as const)("what a %s stream taught", (format) => {
  const make = OTHER_STREAMS[format]

  test("serves the next, whose id and time are others, and nothing of one goes into another", () => {
    const shapes: EventShape[] = []
    for (let stream = 0; stream < 5; stream++) {
      const fast = new RelayedStream(formats[format](view), shapes)
      const sure = slow(format, view)
      for (const text of ["a", "b\\u0041", "c"]) {
        const one = make(text, stream)
        expect(fast.read(one)).toEqual(sure.read(one))
      }
      expect(fast.position()).toEqual(sure.position())
    }
    expect(shapes).toHaveLength(1)
  })

  test("is of no use where something else is different, and says nothing false there", () => {
    const shapes: EventShape[] = []
    fc.assert(
      fc.property(
        fc.nat(),
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.string({ maxLength: 3 }),
        (stream, where, put) => {
          const { event: name, data } = make("a", stream)
          const at = Math.floor(where * data.length)
          const fast = new RelayedStream(formats[format](view), shapes)
          const sure = slow(format, view)
          for (const one of [
            event(data.slice(0, at) + put + data.slice(at), name),
            make("b", stream),
            make("c", stream),
          ])
            expect(fast.read(one)).toEqual(sure.read(one))
        },
      ),
      { numRuns: 500 },
    )
  })
})

test("streams of one model and view share what they learned, and others do not", () => {
  const shapes = shapesFor("chat", view)
  expect(shapesFor("chat", { ...view })).toBe(shapes)
  expect(shapesFor("messages", view)).not.toBe(shapes)
  expect(shapesFor("chat", { ...view, includeUsage: true })).not.toBe(shapes)
  expect(shapesFor("chat", { ...view, model: "another" })).not.toBe(shapes)
  for (let n = 0; n < 1_000; n++) shapesFor("chat", { ...view, model: `model-${n}` })
  expect(shapesFor("chat", view)).not.toBe(shapes)
})

test("shapes that take turns are all remembered, and one that is never seen again costs nothing for ever", () => {
  const { events, read } = counted("chat")
  const reader = new RelayedStream(events)
  for (let place = 0; place < 300; place++) reader.read(choice(place % 3, `a${place}`))
  expect(read()).toBeLessThan(6)
})

test("events that go out as they came and events that are written anew keep their order in a run", () => {
  const models = { a: "catalogue/model", b: "backend-model" }
  const of = (kind: string, place: number) =>
    event(`{"model":"${kind === "a" ? models.a : models.b}","choices":[{"delta":{"content":"${kind}${place}"}}]}`)
  for (const run of ["a a b a b", "b a a b", "b b a a b b", "a b b a", "a a a a", "b b b b"]) {
    const events = `a b ${run}`.split(" ").map(of)
    const [fast, sure] = [new RelayedStream(chat(view)), slow("chat", view)]
    const parser = new SseParser()
    parser.feed(new TextEncoder().encode(events.map(({ event: name, data }) => encodeSse(name, data)).join("")))
    const out: string[] = []
    for (let learned = 0; learned < 2; learned++) {
      const one = parser.next()
      if (one === undefined || one instanceof Failure) throw new Error("no event")
      out.push(sent([fast.read(one)]))
    }
    fast.passThrough(parser, out)
    expect(parser.next()).toBeUndefined()
    expect(out.join("")).toBe(sent(events.map((one) => sure.read(one))))
  }
})

test("numbers that are not spelled as whole ones are read", () => {
  for (const number of ["01", "1.5", "1e3", "-1", "12345678901234567", '"7"', ""]) {
    const events = ["1", "2", number, "9"].map((spelled) =>
      event(`{"type":"response.output_text.delta","sequence_number":${spelled},"delta":"a"}`),
    )
    const fast = new RelayedStream(responses(view))
    const sure = slow("responses", view)
    for (const one of events) {
      expect(fast.read(one)).toEqual(sure.read(one))
      expect(fast.position()).toEqual(sure.position())
    }
  }
})

const translated = (name: "chat/error" | "chat/overflow" | "responses/failed" | "responses/error") => {
  const from = name.startsWith("chat") ? chat : responses
  return new TranslatedStream(
    from({ ...view, includeUsage: true }, emptyPrompt),
    messagesFormat.client.eventEncoder(messagesView()),
  )
}

describe("to another format", () => {
  test.each(["chat/error", "chat/overflow", "responses/failed", "responses/error"] as const)(
    "%s ends in a failure, and nothing comes after it",
    async (name) => {
      const reader = translated(name)
      const steps = [...parse([await fixture(`${name}.sse`)]), event("[DONE]")].map((one) => reader.read(one))
      expect(kinds(steps).match(/F/g)).toHaveLength(1)
      expect(kinds(steps)).not.toContain("T")
      const after = steps.slice(steps.findIndex(({ kind }) => kind === "failure") + 1)
      expect(after.every((step) => step.kind !== "failure" && step.bytes === "")).toBe(true)
    },
  )

  test("each event is parsed once", async () => {
    const bytes = await fixture("chat/text.sse")
    const events = parse([bytes])
    const parsed: string[] = []
    const original = JSON.parse
    JSON.parse = (text: string, ...rest: []) => {
      parsed.push(text)
      return original(text, ...rest) as JsonObject
    }
    try {
      const reader = translated("chat/error")
      for (const one of events) reader.read(one)
    } finally {
      JSON.parse = original
    }
    expect(parsed).toEqual(events.map(({ data }) => data).filter((data) => data !== "[DONE]"))
  })
})

const sse = (name: string, data: JsonObject) => event(JSON.stringify(data), name)
const toolOf = (place: number) =>
  sse("contentBlockStart", { contentBlockIndex: place, start: { toolUse: { toolUseId: `t${place}`, name: "f" } } })
const inputOf = (input: string) => sse("contentBlockDelta", { contentBlockIndex: 0, delta: { toolUse: { input } } })
const textOf = (place: number) => sse("contentBlockDelta", { contentBlockIndex: place, delta: { text: "a" } })
const stopOf = (place: number) => sse("contentBlockStop", { contentBlockIndex: place })
const times = (count: number, events: (place: number) => readonly SseEvent[]) =>
  Array.from({ length: count }, (_, place) => events(place)).flat()
/** Unfinished, of two hundred bytes for each event. */
const argumentsOf = (count: number) => [toolOf(0), inputOf(`{"a":"${"x".repeat(200 * count)}`)]

const toMessages = (): StreamReader =>
  new TranslatedStream(
    converseFormat.backend.stream({ model: "m", includeUsage: true }, emptyPrompt),
    messagesFormat.client.eventEncoder(messagesView()),
  )
const toResponses = (): StreamReader =>
  new TranslatedStream(
    converseFormat.backend.stream({ model: "m", includeUsage: true }, emptyPrompt),
    responsesFormat.client.eventEncoder(answerView()),
  )
const ofATurn = (): StreamReader =>
  new TurnReader(new RelayedStream(messages({ model: "m", includeUsage: true })), {
    blocksSent: 0,
    clientSources: new Set(),
  })

const growing: [string, () => StreamReader, (count: number) => SseEvent[]][] = [
  [
    "calls and then texts, for a messages client",
    toMessages,
    (count) => [...times(count, (place) => [toolOf(place)]), ...times(count, () => [textOf(count), stopOf(count)])],
  ],
  [
    "ends of parts during a call, for a responses client",
    toResponses,
    (count) => [...argumentsOf(count), ...times(count, () => [stopOf(1)])],
  ],
  [
    "pieces of a call between ends of parts, for a responses client",
    toResponses,
    (count) => [...argumentsOf(count), ...times(count, () => [inputOf("x"), stopOf(1)])],
  ],
  [
    "ends of parts after a call's arguments that are no JSON, for a responses client",
    toResponses,
    (count) => [...argumentsOf(count), inputOf('"x}'), ...times(count, () => [stopOf(1)])],
  ],
  [
    "ends of parts after a whole call, for a responses client",
    toResponses,
    (count) => [...argumentsOf(count), inputOf('"}'), ...times(count, () => [stopOf(1)])],
  ],
  [
    "fields of the end, in a turn with searches",
    ofATurn,
    (count) => times(count, (at) => [sse("", { type: "message_delta", delta: { [`k${at}`]: 1 }, usage: {} })]),
  ],
]

test.each(growing)("many %s take a time that grows with them", (_, reader, eventsOf) => {
  const work = (count: number) => {
    const events = eventsOf(count)
    return medianWork(() => {
      const one = reader()
      for (const each of events) one.read(each)
    })
  }
  const few = work(1_500)
  expect(work(12_000)).toBeLessThan(24 * few)
})
