/**
 * A backend that costs next to nothing: raw sockets and answers of prebuilt bytes, so that it never limits what is
 * measured. The answers are the simulator's own, taken once. The first segment of the path names the answer
 * (`/stream-20/v1/chat/completions`), so no body is read for its meaning.
 */
import type { Socket } from "bun"
import { startSimulator } from "../src/simulator/simulator.ts"

export interface AnswerOptions {
  /** Tokens of the answer; a streamed one has an event for each. */
  readonly output: number
  readonly stream: boolean
  /** Between two events, in milliseconds; 0 sends each in a turn of its own. Without it all leave in one piece. */
  readonly paceMs?: number
  /** Before the answer begins, in milliseconds. */
  readonly afterMs?: number
}

export interface Backend {
  readonly url: string
  /** Connections that were opened to it so far. */
  readonly connections: number
  stop(): void
}

interface Answer {
  readonly whole: Uint8Array
  /** With its pace: the head and an event, then an event each. */
  readonly pieces: readonly Uint8Array[]
  readonly paceMs: number | undefined
  readonly afterMs: number
}

interface Connection {
  held: Buffer
  /** Of the body; undefined while the head is not whole. */
  left: number | "chunked" | undefined
  answer: Answer | undefined
  unsent: Uint8Array
}

const FORMATS = { "/chat/completions": "chat", "/messages": "messages" } as const
const NOTHING = Buffer.alloc(0)
const LAST_CHUNK = "0\r\n\r\n"
const NOT_FOUND = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"

export async function startBackend(scripts: Readonly<Record<string, AnswerOptions>>): Promise<Backend> {
  const answers = await takeAnswers(scripts)
  let connections = 0
  const server = Bun.listen<Connection>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open(socket) {
        connections++
        socket.data = { held: NOTHING, left: undefined, answer: undefined, unsent: NOTHING }
      },
      data: (socket, bytes) => read(socket, bytes, answers),
      drain: (socket) => send(socket, NOTHING),
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}`,
    get connections() {
      return connections
    },
    stop: () => server.stop(true),
  }
}

/** One request after the other: nobody sends a second one before the answer to the first. */
function read(socket: Socket<Connection>, bytes: Buffer, answers: ReadonlyMap<string, Answer>): void {
  const connection = socket.data
  let body = bytes
  if (connection.left === undefined) {
    const head = connection.held.length === 0 ? bytes : Buffer.concat([connection.held, bytes])
    const end = head.indexOf("\r\n\r\n")
    if (end < 0) {
      connection.held = Buffer.from(head)
      return
    }
    connection.held = NOTHING
    const text = head.toString("latin1", 0, end)
    const length = /\r\ncontent-length: *(\d+)/i.exec(text)?.[1]
    connection.left = length === undefined ? (/\r\ntransfer-encoding:/i.test(text) ? "chunked" : 0) : Number(length)
    connection.answer = answers.get(text.slice(text.indexOf(" ") + 1, text.indexOf(" HTTP/")))
    body = head.subarray(end + 4)
  }
  if (connection.left === "chunked") {
    if (body.subarray(-LAST_CHUNK.length).toString("latin1") !== LAST_CHUNK) return
  } else {
    connection.left -= body.length
    if (connection.left > 0) return
  }
  connection.left = undefined
  const { answer } = connection
  if (answer === undefined) send(socket, Buffer.from(NOT_FOUND))
  else if (answer.afterMs > 0) setTimeout(() => begin(socket, answer), answer.afterMs)
  else begin(socket, answer)
}

function begin(socket: Socket<Connection>, answer: Answer): void {
  if (answer.paceMs === undefined) send(socket, answer.whole)
  else if (answer.paceMs === 0) sendApart(socket, answer.pieces)
  else sendPaced(socket, answer)
}

/** Streams under way, each with its next piece and when that is due. */
const paced = new Set<{ readonly socket: Socket<Connection>; readonly answer: Answer; next: number; dueMs: number }>()

const TICK_MS = 5

function sendPaced(socket: Socket<Connection>, answer: Answer): void {
  if (paced.size === 0) setTimeout(sendDue, TICK_MS)
  paced.add({ socket, answer, next: 0, dueMs: performance.now() })
}

/** A late tick makes up for what it missed, so that a stream's length does not depend on how busy the machine is. */
function sendDue(): void {
  const now = performance.now()
  for (const stream of paced) {
    while (stream.dueMs <= now && stream.next < stream.answer.pieces.length) {
      send(stream.socket, stream.answer.pieces[stream.next++] ?? NOTHING)
      stream.dueMs += stream.answer.paceMs ?? 0
    }
    if (stream.next === stream.answer.pieces.length || stream.socket.readyState <= 0) paced.delete(stream)
  }
  if (paced.size > 0) setTimeout(sendDue, TICK_MS)
}

/** Each piece in a turn of the event loop of its own. */
function sendApart(socket: Socket<Connection>, pieces: readonly Uint8Array[], next = 0): void {
  send(socket, pieces[next] ?? NOTHING)
  if (next + 1 < pieces.length && socket.readyState > 0) setImmediate(() => sendApart(socket, pieces, next + 1))
}

function send(socket: Socket<Connection>, bytes: Uint8Array): void {
  const connection = socket.data
  const all = connection.unsent.length === 0 ? bytes : Buffer.concat([connection.unsent, bytes])
  const sent = Math.max(0, socket.write(all))
  connection.unsent = sent === all.length ? NOTHING : all.subarray(sent)
}

async function takeAnswers(scripts: Readonly<Record<string, AnswerOptions>>): Promise<Map<string, Answer>> {
  const simulator = startSimulator({ journal: false })
  const answers = new Map<string, Answer>()
  for (const [name, script] of Object.entries(scripts)) {
    for (const path of Object.keys(FORMATS).map((end) => `/v1${end}`)) {
      const response = await fetch(simulator.url + path, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({
          model: `sim?output=${script.output}`,
          stream: script.stream,
          max_tokens: 10_000,
          messages: [{ role: "user", content: "Write a line about tickets." }],
          ...(script.stream && path.endsWith("/completions") && { stream_options: { include_usage: true } }),
        }),
      })
      const body = await response.text()
      if (!response.ok) throw new Error(`the simulator answered ${response.status}: ${body}`)
      const answer = script.stream ? streamed(body, script.paceMs) : plain(body)
      answers.set(`/${name}${path}`, { ...answer, afterMs: script.afterMs ?? 0 })
    }
  }
  await simulator.stop()
  return answers
}

function plain(body: string): Omit<Answer, "afterMs"> {
  const head = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`
  return { whole: Buffer.from(head + body), pieces: [], paceMs: undefined }
}

function streamed(body: string, paceMs: number | undefined): Omit<Answer, "afterMs"> {
  const head =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
  const events = body.split(/(?<=\n\n)/)
  const chunks = events.map((event) => `${Buffer.byteLength(event).toString(16)}\r\n${event}\r\n`)
  const pieces = chunks.map((chunk, at) =>
    Buffer.from((at === 0 ? head : "") + chunk + (at === chunks.length - 1 ? LAST_CHUNK : "")),
  )
  return { whole: Buffer.concat(pieces), pieces, paceMs }
}
