/** Spans on their way to a collector, and collectors at their worst. */
import { afterEach, describe, expect, test } from "bun:test"
import { createServer, type Socket } from "node:net"
import { ROOT_CONTEXT } from "@opentelemetry/api"
import { resourceFromAttributes } from "@opentelemetry/resources"
import { AlwaysOnSampler, TracerProvider } from "@opentelemetry/sdk-trace"
import { systemClock } from "../../actors/kernel/clock.ts"
import { Collector, type CollectorOptions, MAX_SPANS, type Problem } from "../../src/traces/collector.ts"
import { startReceiver } from "./receiver.ts"

const open: AsyncDisposable[] = []
afterEach(async () => {
  for (const each of open.splice(0)) await each[Symbol.asyncDispose]()
})
const receiver = () => {
  const made = startReceiver()
  open.push(made)
  return made
}

/** A server that does with each connection what it is told, and counts what it has sent on them. */
async function misbehaving(serve: (socket: Socket) => void) {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on("error", () => {}).on("close", () => sockets.delete(socket))
    socket.once("data", () => serve(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("no port")
  open.push({
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  })
  return { url: `http://127.0.0.1:${address.port}`, sockets }
}

function collecting(endpoint: string, more: Partial<CollectorOptions> = {}) {
  const problems: Problem[] = []
  const collector = new Collector({
    endpoint,
    headers: { "x-collector-key": "secret" },
    protocol: "http/protobuf",
    gzip: false,
    timeoutMs: 10_000,
    failed: (problem) => problems.push(problem),
    delayMs: 5,
    firstBackOffMs: 20,
    giveUpMs: 20_000,
    ...more,
  })
  // Before the server that it sends to: the next one to be given that port is another test's.
  open.unshift({ [Symbol.asyncDispose]: () => collector.stop(0) })
  const provider = new TracerProvider({
    sampler: new AlwaysOnSampler(),
    resource: resourceFromAttributes({ "service.name": "test" }),
    spanProcessors: [collector],
  })
  const tracer = provider.getTracer("test")
  const spans = (count: number, attributes = {}) => {
    for (let n = 0; n < count; n++) tracer.startSpan(`span ${n}`, { attributes }, ROOT_CONTEXT).end()
  }
  return { collector, problems, spans }
}

/** Until nothing waits any more. */
async function settled(collector: Collector): Promise<void> {
  while (collector.waiting > 0) await Bun.sleep(10)
}

const forms = [
  { protocol: "http/protobuf", gzip: false },
  { protocol: "http/protobuf", gzip: true },
  { protocol: "http/json", gzip: false },
  { protocol: "http/json", gzip: true },
] as const

describe.each(forms)("in $protocol, gzip $gzip", (form) => {
  test("a strict collector takes what is sent, in batches, with the operator's headers", async () => {
    const to = receiver()
    const { collector, problems, spans } = collecting(`${to.url}/`, form)
    spans(600, { text: "ü", whole: 3, real: 0.5, flag: true })
    await settled(collector)
    expect(to.problems).toEqual([])
    expect(problems).toEqual([])
    expect(to.spans.map(({ name }) => name)).toEqual(Array.from({ length: 600 }, (_, n) => `span ${n}`))
    expect(to.spans[0]?.attributes).toEqual({ text: "ü", whole: 3, real: 0.5, flag: true })
    expect(to.bodies).toHaveLength(2)
    expect(to.resources[0]).toEqual({ "service.name": "test" })
    expect(to.headers[0]?.get("x-collector-key")).toBe("secret")
    expect(collector.counts).toEqual({ sent: 600, full: 0, refused: 0, unreachable: 0 })
  })
  test("what a collector refuses of a request that it takes is counted", async () => {
    const to = receiver()
    // ExportTraceServiceResponse with partial_success of one rejected span, and of more than were sent.
    const answers = [
      form.protocol === "http/json"
        ? '{"partialSuccess":{"rejectedSpans":"1","errorMessage":"x"}}'
        : "\u000a\u0002\u0008\u0001",
      form.protocol === "http/json" ? '{"partialSuccess":{"rejectedSpans":"999"}}' : "\u000a\u0002\u0008\u007f",
      "neither one nor the other",
    ]
    to.answer = () => new Response(answers.shift())
    const { collector, spans } = collecting(to.url, form)
    for (let request = 0; request < 3; request++) {
      spans(3)
      await settled(collector)
    }
    expect(collector.counts).toEqual({ sent: 2 + 0 + 3, full: 0, refused: 1 + 3 + 0, unreachable: 0 })
  })
})

test("what may pass is sent again, when the collector says so or after a pause that grows", async () => {
  const to = receiver()
  const at: number[] = []
  const answers = [
    new Response("", { status: 503 }),
    new Response("", { status: 429, headers: { "Retry-After": "1" } }),
    new Response("", { status: 502 }),
    new Response("", { status: 504 }),
  ]
  to.answer = () => {
    at.push(performance.now())
    return answers.shift()
  }
  const { collector, problems, spans } = collecting(to.url, { giveUpMs: 60_000 })
  spans(2)
  await settled(collector)
  expect(collector.counts).toMatchObject({ sent: 2 })
  expect(to.spans).toHaveLength(2)
  const pauses = at.slice(1).map((each, n) => each - (at[n] ?? 0))
  expect(pauses[1]).toBeGreaterThan(990)
  expect(pauses[3]).toBeGreaterThan(70)
  // Said once, and not at each try.
  expect(problems).toEqual([{ status: 503, error: undefined }])
})

test.each([301, 400, 401, 403, 404, 408, 413, 500, 501])("a %p is not sent again", async (status) => {
  const to = receiver()
  to.answer = () => new Response("x", { status, headers: { Location: `${to.url}/elsewhere` } })
  const { collector, problems, spans } = collecting(to.url)
  spans(2)
  await settled(collector)
  expect(to.headers).toHaveLength(1)
  expect(collector.counts).toEqual({ sent: 0, full: 0, refused: 2, unreachable: 0 })
  expect(problems).toEqual([{ status, error: undefined }])
})

test("one that is away is given up after a while, and gets what comes when it is back", async () => {
  const gone = startReceiver()
  const { url } = gone
  await gone[Symbol.asyncDispose]()
  const { collector, problems, spans } = collecting(url, { giveUpMs: 100 })
  spans(2)
  await settled(collector)
  expect(collector.counts).toEqual({ sent: 0, full: 0, refused: 0, unreachable: 2 })
  expect(problems).toEqual([{ status: undefined, error: expect.stringMatching(/^(ConnectionRefused|ECONNREFUSED)$/) }])
})

test("spans that come while a collector hangs are held up to the limit, and no further", async () => {
  const { url, sockets } = await misbehaving(() => {})
  const { collector, spans } = collecting(url, { timeoutMs: 300, giveUpMs: 60_000 })
  const began = process.threadCpuUsage()
  spans(MAX_SPANS)
  expect(collector.counts.full).toBe(0)
  spans(1)
  expect(collector.counts.full).toBe(1)
  // What this thread has worked: how long a busy machine kept it waiting says nothing of the collector.
  const { user, system } = process.threadCpuUsage(began)
  expect(user + system).toBeLessThan(2_000_000)
  await Bun.sleep(1_000)
  expect(collector.waiting).toBe(MAX_SPANS)
  expect(sockets.size).toBeLessThanOrEqual(1)
})

test("spans are held up to a number of bytes", async () => {
  const { url } = await misbehaving(() => {})
  const { collector, spans } = collecting(url)
  spans(3, { large: "x".repeat(1_048_000) })
  spans(3, { large: "x".repeat(1_048_000) })
  expect(collector.counts.full).toBe(2)
})

const misbehaviours: readonly [string, (socket: Socket) => void][] = [
  ["hangs", () => {}],
  ["hangs up", (socket) => socket.destroy()],
  ["speaks another protocol", (socket) => socket.write("\u0000\u0000\u0012\u0004\u0000\u0000\u0000\u0000\u0000")],
  [
    "never ends its answer",
    (socket) => {
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
      const timer = setInterval(() => socket.write("x"), 20)
      socket.on("close", () => clearInterval(timer))
    },
  ],
]
test.each(misbehaviours)("one that %s does not hold up the end of the process", async (_, serve) => {
  const { url } = await misbehaving(serve)
  const { collector, spans } = collecting(url, { timeoutMs: 3_000, giveUpMs: 3_000 })
  spans(600)
  await Bun.sleep(50)
  const began = systemClock.running()
  await collector.stop(200)
  expect(systemClock.running() - began).toBeLessThan(600)
  expect(collector.waiting).toBe(0)
  const { sent, unreachable } = collector.counts
  expect(sent + unreachable).toBe(600)
})

test("one that never ends its answer has taken the spans, and gets the next ones", async () => {
  const { url } = await misbehaving((socket) => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nx"))
  const { collector, spans } = collecting(url, { timeoutMs: 300 })
  for (let request = 0; request < 2; request++) {
    spans(1)
    await settled(collector)
  }
  expect(collector.counts).toEqual({ sent: 2, full: 0, refused: 0, unreachable: 0 })
})

test("of a gigabyte of answer little is read", async () => {
  let sent = 0
  const { url } = await misbehaving((socket) => {
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
    const piece = Buffer.alloc(65_536)
    const more = () => {
      while (!socket.destroyed && sent < 2 ** 30) {
        sent += piece.length
        if (socket.write(piece)) continue
        socket.once("drain", more)
        break
      }
    }
    more()
  })
  const { collector, spans } = collecting(url, { timeoutMs: 5_000 })
  spans(1)
  await settled(collector)
  await Bun.sleep(200)
  expect(sent).toBeLessThan(64 * 1024 * 1024)
  expect(collector.counts).toMatchObject({ sent: 1 })
})

test("what waits at the end is sent", async () => {
  const to = receiver()
  const { collector, spans } = collecting(to.url, { delayMs: 60_000 })
  spans(300)
  await collector.stop(5_000)
  expect(to.spans).toHaveLength(300)
  spans(1)
  expect(collector.counts).toEqual({ sent: 300, full: 1, refused: 0, unreachable: 0 })
})

test("a pause between tries ends with the process, and the last try is still made", async () => {
  const to = receiver()
  to.answer = () => new Response("", { status: 503, headers: { "Retry-After": "60" } })
  const { collector, spans } = collecting(to.url)
  spans(1)
  while (to.headers.length === 0) await Bun.sleep(10)
  await Bun.sleep(50)
  to.answer = undefined
  const began = systemClock.running()
  await collector.stop(5_000)
  expect(systemClock.running() - began).toBeLessThan(1_000)
  expect(collector.counts).toEqual({ sent: 1, full: 0, refused: 0, unreachable: 0 })
})
