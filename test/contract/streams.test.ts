/** Streams over real HTTP, in the three formats (gateway-api.md, "Events"; decisions §6). */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { hasNoInside } from "../gateway/binary.ts"
import { type Init, type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import {
  ask,
  beginning,
  callsOf,
  content,
  ending,
  costIn,
  eventsOf,
  eventually,
  failureIn,
  formats,
  Reading,
  requestId,
  rowsOf,
} from "./calling.ts"
import { RawClient } from "./raw-client.ts"
import { covers } from "./rows.ts"

const HEARTBEAT_MS = 60
/** For several beats to be there also where a busy machine is late with each; less than a backend may be silent. */
const SEVERAL_BEATS_MS = 12 * HEARTBEAT_MS
const heartbeat = /^: heartbeat\n/gm

let gateway: TestGateway
let person: Person
let key: string

beforeAll(async () => {
  gateway = await startTestGateway({
    env: {
      HEARTBEAT_MS: String(HEARTBEAT_MS),
      UPSTREAM_START_TIMEOUT_MS: "2500",
      UPSTREAM_IDLE_TIMEOUT_MS: "1200",
    },
  })
  person = await gateway.person(10_000_000)
  key = (await gateway.key(person)).key
})
afterAll(() => gateway[Symbol.asyncDispose]())

const count = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].length

/** The stream's text and the final record's row, which is there when the stream ends. */
const told = async (response: Response) => {
  const text = await response.text()
  const [row] = await rowsOf(gateway, requestId(response))
  return { text, row }
}

const whole = async (script: string) => {
  const model = await gateway.model({ format: "responses", script })
  const response = await ask(gateway, key, "responses", model)
  const text = await response.text()
  const [row] = await rowsOf(gateway, requestId(response))
  return { model, response, text, body: JSON.parse(text) as Record<string, unknown>, row }
}

/** A client that asks, reads nothing but the first bytes, and the rest when it is told to. */
const stoppedReader = async (model: string, { url } = gateway, apiKey = key) => {
  const client = new RawClient(url, apiKey, { model, stream: true })
  await client.until(/\r\n\r\n/)
  client.pause()
  return {
    port: client.port,
    rest: async () => {
      client.resume()
      await client.over
      return client.text
    },
  }
}

/** As the kernel's table writes it. */
const at = (port: number): string => `:${port.toString(16).toUpperCase().padStart(4, "0")}`

/** Whether the gateway's side of a connection is open, from the kernel's table. */
const isOpen = (url: string, clientPort: number): boolean => {
  const [gatewaySide, clientSide] = [at(Number(new URL(url).port)), at(clientPort)]
  return readFileSync("/proc/net/tcp", "utf8")
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .some(
      ([, from, to, state]) =>
        from?.endsWith(gatewaySide) === true && to?.endsWith(clientSide) === true && state === ESTABLISHED,
    )
}
const ESTABLISHED = "01"

/** The chunks of a chat stream that speak of usage. */
const usageChunks = (options: object | undefined) =>
  gateway
    .model({ format: "chat", script: "input=10&output=4" })
    .then((model) => ask(gateway, key, "chat", model, { stream: true, ...options }))
    .then((response) => response.text())
    .then((text) => eventsOf(text).filter(({ data }) => data.includes('"usage"')))

describe.concurrent.each(formats)("%s", (format) => {
  const stream = (model: string, more: object = {}, init: Init = {}) =>
    ask(gateway, key, format, model, { stream: true, ...more }, init)
  const scripted = (script: string, more: object = {}) => gateway.model({ format, script, ...more })

  test("an answer that came whole before its head could go leaves in one piece, and does not end its connection", async () => {
    const model = await gateway.model({ format, script: "input=10&output=4" })
    let wholes = 0
    for (let n = 0; n < 10; n++) {
      const response = await ask(gateway, key, format, model, { stream: true })
      expect(await response.text()).toMatch(ending[format])
      expect(response.headers.get("content-type")).toStartWith("text/event-stream")
      expect(response.headers.get("connection")).not.toBe("close")
      if (response.headers.has("content-length")) wholes++
    }
    expect(wholes).toBeGreaterThan(0)
  })

  describe(covers("events.request-id", "events.heartbeat", "6.heartbeat"), () => {
    test("the request's id comes with the head, which does not wait for the answer's end", async () => {
      const response = await stream(await scripted("output=20&pace=20"))
      expect(requestId(response)).toMatch(/^req_/)
      expect(response.headers.get("content-type")).toStartWith("text/event-stream")
      expect(response.headers.has("x-cost-rp")).toBeFalse()
      expect(await rowsOf(gateway, requestId(response))).toEqual([])
      expect(await response.text()).toMatch(ending[format])
    })

    test("a backend that says nothing yet is covered by heartbeats, under 200", async () => {
      const response = await stream(await scripted(`head=${SEVERAL_BEATS_MS}`))
      expect(response.status).toBe(200)
      const text = await response.text()
      expect(text).toStartWith(": heartbeat\n")
      expect(count(text, heartbeat)).toBeGreaterThanOrEqual(2)
      expect(text).not.toMatch(/^id:/m)
      expect(text).not.toContain(": heartbeat\n\n")
      expect(eventsOf(text).length).toBeGreaterThan(2)
      expect(text).toMatch(ending[format])
    })

    test("in mid-stream heartbeats stand between whole events", async () => {
      const response = await stream(await scripted(`output=6&fault=stall&after=3&stall=${SEVERAL_BEATS_MS}`))
      const text = await response.text()
      expect(count(text, heartbeat)).toBeGreaterThanOrEqual(2)
      for (const { index } of text.matchAll(heartbeat)) {
        const before = text.slice(0, index)
        expect(before === "" || before.endsWith("\n\n") || before.endsWith(": heartbeat\n")).toBeTrue()
      }
      expect(
        count(
          eventsOf(text)
            .map(({ event, data }) => `event: ${event}\n${data}`)
            .join("\n"),
          content[format],
        ),
      ).toBe(6)
      expect(text).toMatch(ending[format])
    })
  })

  test.each([
    ["a quick answer", "input=10&output=4", "ok"],
    ["an answer with heartbeats in it", `input=10&output=6&fault=stall&after=3&stall=${SEVERAL_BEATS_MS}`, "ok"],
    ["an answer without counts", "output=4&usage=none", "usage_missing"],
    ["one that broke off", "output=20&pace=5&fault=cut&after=8", "upstream_error"],
    ["a failure after heartbeats", `head=${SEVERAL_BEATS_MS}&fault=status&status=503`, "upstream_error"],
  ])("%s says right before its last event what it cost, as its record does", async (_, script, status) => {
    const response = await stream(await scripted(script))
    const text = await response.text()
    const [row] = await eventually(
      "the record is written",
      () => rowsOf(gateway, requestId(response)),
      (rows) => rows.length > 0,
    )
    expect(row?.status).toBe(status)
    expect(costIn(text)).toEqual({ charge: Number(row?.charge_micro), requestId: requestId(response) })
    expect((row?.charge_micro ?? 0n) > 0n).toBe(status === "ok")
    expect(text.match(/cost_micro/g)).toHaveLength(1)
    // One line end: two would be an event of their own to some clients (wire.md, "Streams: what breaks whom (seen)").
    expect(text).not.toMatch(/cost_micro=.*\n\n/)
  })

  describe(covers("6.held-back", "7.retry"), () => {
    test("what a failed try had begun with is not told while the next one is waited for", async () => {
      // The second try's head comes long after a heartbeat is due.
      const model = await scripted(`head=${SEVERAL_BEATS_MS}&fault=cut&after=preamble&times=1`)
      const { text, row } = await told(await stream(model))
      expect(count(text, heartbeat)).toBeGreaterThan(2)
      expect(count(text, beginning[format])).toBe(1)
      expect(text).toMatch(ending[format])
      expect(row).toMatchObject({ status: "ok", attempts: 2 })
    })

    test("a first event without content is told when a heartbeat is due", async () => {
      const reading = new Reading(await stream(await scripted(`fault=stall&after=preamble&stall=${15 * HEARTBEAT_MS}`)))
      const first = await reading.until(/\n\n/)
      expect(count(first, beginning[format])).toBe(1)
      expect(count(first, content[format])).toBe(0)
      expect(await reading.rest()).toMatch(ending[format])
    })

    test("a first event that was told is not begun again: its failure is told", async () => {
      const model = await scripted(`fault=stall&after=preamble&stall=60000`)
      const { text, row } = await told(await stream(model))
      expect(count(text, beginning[format])).toBe(1)
      expect(failureIn(format, text)).toBeDefined()
      expect(callsOf(gateway, model)).toHaveLength(1)
      expect(row).toMatchObject({ status: "aborted_stream", attempts: 1 })
    })
  })

  describe(covers("6.broken-off", "6.failure", "12.12", "status.upstream_error", "status.aborted_stream"), () => {
    test.each(["cut", "reset", "garbage", "error-event"])(
      "a backend that breaks off with %s after content is told in the stream, and costs nothing",
      async (fault) => {
        const model = await scripted(`fault=${fault}&after=3&output=6&pace=10`)
        const response = await stream(model)
        const { text, row } = await told(response)
        // Whoever learns of a reset may lose what came right before it.
        expect(count(text, content[format])).toBeWithin(fault === "reset" ? 1 : 3, 4)
        const failure = failureIn(format, text)
        expect(failure?.message).toContain("broke off in the middle of its answer")
        if (format !== "messages") expect(failure).toMatchObject({ type: "server_error", code: "upstream_unavailable" })
        else expect(failure?.type).toBe("api_error")
        if (format !== "responses") expect(failure?.requestId).toBe(requestId(response))
        expect(row).toMatchObject({ status: "upstream_error", charge_micro: 0n, attempts: 1 })
        expect(callsOf(gateway, model)).toHaveLength(1)
      },
    )

    test("so is one that breaks off before its opening is durable, when opening and settlement become so at once", async () => {
      const whole = await scripted("output=1")
      const breaking = await scripted("fault=garbage&after=3&output=6")
      const locked = Promise.withResolvers<void>()
      const ended = Promise.withResolvers<void>()
      const lock = gateway.sql.begin(async (sql) => {
        await sql`lock table openings`
        locked.resolve()
        await ended.promise
      })
      await locked.promise
      // Its opening waits, and what comes meanwhile is one batch.
      const before = stream(whole)
      await Bun.sleep(50)
      const broken = stream(breaking)
      await Bun.sleep(200)
      ended.resolve()
      await lock
      expect((await told(await before)).row).toMatchObject({ status: "ok" })
      const response = await broken
      expect(response.status).toBe(200)
      const { text, row } = await told(response)
      expect(count(text, content[format])).toBeWithin(3, 4)
      expect(failureIn(format, text)?.message).toMatch(/./)
      expect(row).toMatchObject({ status: "upstream_error", charge_micro: 0n, attempts: 1 })
    })

    test("a stream that opened, gave nothing usable and broke off under a heartbeat is aborted_stream", async () => {
      const response = await stream(await scripted(`ttft=${SEVERAL_BEATS_MS}&fault=cut&after=0`))
      const { text, row } = await told(response)
      expect(text).toStartWith(": heartbeat\n")
      expect(failureIn(format, text)).toBeDefined()
      expect(row).toMatchObject({ status: "aborted_stream", charge_micro: 0n, attempts: 3 })
    })

    test.each([
      ["status=400", "invalid_request", "invalid_request_error", "invalid_request_error"],
      ["status=429&retry_after=60", "rate_limited", "rate_limit_error", "rate_limit_error"],
      ["status=401", "upstream_unavailable", "server_error", "api_error"],
    ])("%s after a heartbeat is told in the stream as %s", async (status, code, openType, messagesType) => {
      const response = await stream(await scripted(`head=${SEVERAL_BEATS_MS}&fault=status&${status}`))
      expect(response.status).toBe(200)
      const { text, row } = await told(response)
      const failure = failureIn(format, text)
      expect(failure?.type).toBe(format === "messages" ? messagesType : openType)
      if (format !== "messages") expect(failure?.code).toBe(code)
      expect(row).toMatchObject({ status: "upstream_error", charge_micro: 0n })
    })

    test("a context overflow after a heartbeat carries its numbers", async () => {
      const response = await stream(await scripted(`head=${SEVERAL_BEATS_MS}&fault=context`))
      const failure = failureIn(format, await response.text())
      expect(failure?.message).toMatch(/prompt is too long: \d+ tokens > 200000 maximum/)
      if (format !== "messages") expect(failure?.code).toBe("context_length_exceeded")
    })
  })

  describe(covers("7.start", "events.timeout", "idle"), () => {
    test("a backend that never answers is given up after the start's time", async () => {
      const response = await stream(await scripted("fault=silent"))
      const { text, row } = await told(response)
      const failure = failureIn(format, text)
      expect(failure?.message).toStartWith("The model's backend did not begin to answer in time.")
      if (format !== "messages") expect(failure?.code).toBe("upstream_timeout")
      expect(row).toMatchObject({ status: "upstream_error", charge_micro: 0n, attempts: 1 })
    })

    test("a backend that falls silent after content is given up after the idle time", async () => {
      const response = await stream(await scripted("fault=stall&after=2&stall=60000&output=4"))
      const { text, row } = await told(response)
      expect(count(text, content[format])).toBe(2)
      expect(failureIn(format, text)?.message).toStartWith("The model's backend fell silent")
      expect(row).toMatchObject({ status: "upstream_error", charge_micro: 0n })
    })
  })

  describe(covers("3.durable", "12.4", "6.terminal"), () => {
    test("when the last event arrives the record and the charge are there", async () => {
      const payer = await gateway.person(1_000_000)
      const { key } = await gateway.key(payer)
      const before = await gateway.balance(payer)
      const response = await ask(gateway, key, format, await scripted("input=10&output=4"), { stream: true })
      const reading = new Reading(response)
      await reading.until(ending[format])
      const [row] = await rowsOf(gateway, requestId(response))
      expect(row).toMatchObject({ status: "ok", charge_micro: 10_000n + 20_000n, turns: 1, attempts: 1 })
      const after = await gateway.balance(payer)
      expect(after.held_micro).toBe(0)
      expect(before.balance_micro - after.balance_micro).toBe(30_000)
    })

    test("an answer with nothing in it that ends well is an answer", async () => {
      const { text, row } = await told(await stream(await scripted("fault=empty&input=10")))
      expect(text).toMatch(ending[format])
      expect(failureIn(format, text)).toBeUndefined()
      expect(row).toMatchObject({ status: "ok" })
    })

    test("the model is the catalogue's id in every event and in the whole answer", async () => {
      const model = await scripted("output=3")
      const more = format === "chat" ? { stream_options: { include_usage: true } } : {}
      const text = await (await stream(model, more)).text()
      const whole = await (await ask(gateway, key, format, model)).text()
      for (const answer of [text, whole]) {
        const models = [...answer.matchAll(/"model":"([^"]*)"/g)].map(([, id]) => id)
        expect(models.length).toBeGreaterThan(0)
        expect(new Set(models)).toEqual(new Set([model]))
        expect(answer).not.toContain("?output=3")
      }
    })
  })

  describe(covers("6.left", "12.6"), () => {
    test.each([true, false])("a client that leaves (stream: %p) is drained and billed", async (streamed) => {
      const model = await scripted("input=10&output=10&pace=15&ttft=20")
      const leaving = new AbortController()
      const response = ask(gateway, key, format, model, { stream: streamed }, { signal: leaving.signal })
      const [call] = await eventually(
        "the backend is called",
        () => callsOf(gateway, model),
        (calls) => calls.length > 0,
      )
      if (streamed) await new Reading(await response).until(/\n\n/)
      leaving.abort()
      await response.then((left) => left.text()).catch(() => {})
      const row = await settledRow(model)
      expect(row).toMatchObject({ status: "ok", charge_micro: 10_000n + 50_000n })
      expect(call?.outcome).toBe("finished")
    })

    test("a backend that is silent for ever after its client left is given up", async () => {
      const model = await scripted("fault=stall&after=2&stall=60000&output=4")
      const leaving = new AbortController()
      const payer = await gateway.person(1_000_000)
      const { key } = await gateway.key(payer)
      const { signal } = leaving
      const reading = new Reading(await ask(gateway, key, format, model, { stream: true }, { signal }))
      await reading.until(content[format])
      leaving.abort()
      expect(await settledRow(model)).toMatchObject({ charge_micro: 0n })
      await eventually(
        "the backend is left",
        () => callsOf(gateway, model)[0]?.outcome,
        (end) => end === "client-left",
      )
      expect((await gateway.balance(payer)).held_micro).toBe(0)
    })
  })
})

/** The final row of a model's only call, whose id its client did not stay to learn. */
const settledRow = async (model: string, { sql } = gateway) => {
  const look = () =>
    sql`select status, charge_micro, flagged from usage where model = ${model} and part = 0`.then((rows) => rows)
  const [row] = await eventually(`the call of ${model} is settled`, look, (rows) => rows.length > 0)
  return row
}

describe(covers("6.usage-chunk"), () => {
  test.each([
    undefined,
    { stream_options: null },
    { stream_options: {} },
    { stream_options: { include_usage: false } },
  ])("with %j there is no usage chunk, and no usage anywhere", async (options) => {
    expect(await usageChunks(options)).toEqual([])
  })
  test("with include_usage the last chunk has it", async () => {
    const chunks = await usageChunks({ stream_options: { include_usage: true } })
    expect(JSON.parse(chunks.at(-1)?.data ?? "")).toMatchObject({
      choices: [],
      usage: { prompt_tokens: 10, completion_tokens: 4, total_tokens: 14 },
    })
  })
  test("the backend is always asked", async () => {
    const model = await gateway.model({ format: "chat" })
    await (await ask(gateway, key, "chat", model, { stream: true })).text()
    expect(callsOf(gateway, model)[0]?.body?.["stream_options"]).toEqual({ include_usage: true })
  })
})

describe(covers("responses.keepalive", "6.keepalive"), () => {
  test("an answer that takes long comes after spaces, under 200, and without its cost in the head", async () => {
    const { model, response, text, body, row } = await whole(`ttft=${SEVERAL_BEATS_MS}&input=10&output=4`)
    expect(response.status).toBe(200)
    expect(text).toMatch(/^ {2,}\{/)
    expect(response.headers.get("content-type")).toBe("application/json")
    expect(response.headers.has("x-cost-rp")).toBeFalse()
    expect(body).toMatchObject({ object: "response", status: "completed", model })
    expect(row).toMatchObject({ status: "ok", charge_micro: 30_000n })
  })
  test("an answer that comes soon has its cost in the head and no space before it", async () => {
    const { response, text } = await whole("input=10&output=4")
    expect(text).toStartWith("{")
    expect(response.headers.get("x-cost-rp")).toBe("0.03")
  })
  test("a failure after spaces is a failed response under 200", async () => {
    const { model, response, body, row } = await whole(`ttft=${SEVERAL_BEATS_MS}&fault=status&status=400`)
    expect(response.status).toBe(200)
    expect(body).toMatchObject({
      object: "response",
      status: "failed",
      model,
      error: { code: "invalid_request", type: "invalid_request_error", message: expect.any(String), param: null },
    })
    expect(row).toMatchObject({ status: "upstream_error", charge_micro: 0n })
  })
})

describe(covers("6.slow-reader"), () => {
  test("a reader that pauses loses nothing, and its backend does not wait for it", async () => {
    // More than the connection's own buffers take.
    const model = await gateway.model({ format: "chat", script: "output=4000&delta=5000" })
    const socket = await stoppedReader(model)
    await eventually(
      "the backend has been read to its end",
      () => callsOf(gateway, model)[0]?.outcome,
      (end) => end === "finished",
    )
    // Charged before the client has read the end of it, which is there for it all the same.
    expect(await settledRow(model)).toMatchObject({ status: "ok", flagged: false })
    await Bun.sleep(300)
    const text = await socket.rest()
    expect(text.match(content.chat)?.length).toBe(4_000)
    expect(text).toContain("data: [DONE]")
  })

  // No variable sets for how long, and it is five minutes.
  test.skipIf(hasNoInside)(
    "a reader that takes nothing for long counts as gone, and its call is charged as any other",
    async () => {
      // By itself: a reader that pauses on a busy machine is not one of these.
      await using impatient = await startTestGateway({ limits: { readerStallMs: 1_000 } })
      const payer = await impatient.person(10_000_000)
      const { key: paid } = await impatient.key(payer)
      const model = await impatient.model({ format: "chat", script: "input=10&output=800&delta=25000&pace=2" })
      const socket = await stoppedReader(model, impatient, paid)
      expect(isOpen(impatient.url, socket.port)).toBeTrue()
      const row = await settledRow(model, impatient)
      expect(row).toMatchObject({ status: "ok", charge_micro: 10_000n + 800n * 5_000n })
      expect((await impatient.balance(payer)).held_micro).toBe(0)
      // It took nothing for `readerStallMs`, so its connection is closed, though it never reads again.
      await eventually(
        "the connection is closed",
        () => isOpen(impatient.url, socket.port),
        (open) => !open,
      )
      expect(await socket.rest()).not.toContain("data: [DONE]")
    },
  )

  test("readers that leave too much unread together are cut, the largest first, and their calls are charged", async () => {
    await using small = await startTestGateway({ env: { MAX_UNREAD_BYTES: "3000000" } })
    const payer = await small.person(1_000_000)
    const { key: paid } = await small.key(payer)
    const large = await small.model({ format: "chat", script: "input=10&output=400&delta=25000&pace=3" })
    const little = await small.model({ format: "chat", script: "input=10&output=400&delta=500&pace=1" })
    const readers = [await stoppedReader(little, small, paid), await stoppedReader(large, small, paid)]
    for (const model of [large, little])
      expect(await settledRow(model, small)).toMatchObject({ status: "ok", charge_micro: 10_000n + 400n * 5_000n })
    const [whole, cut] = await Promise.all(readers.map((reader) => reader.rest()))
    expect(whole).toContain("data: [DONE]")
    expect(cut).not.toContain("data: [DONE]")
  })
})
