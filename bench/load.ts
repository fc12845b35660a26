/**
 * A closed loop on raw sockets: so many clients, each with one connection and one call at a time. The request is built
 * once, and of an answer only what says where it ends is read, so that the load costs less than what it loads.
 */
import type { Socket } from "bun"

export interface Load {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly clients: number
  /** No call begins later; those that are under way are waited for. */
  readonly durationMs: number
  /** No more begin than so many. */
  readonly calls?: number
  /** Over which the clients begin, evenly. */
  readonly rampMs?: number
  /** The last bytes of each answer must hold it. */
  readonly ending: string
}

/** Times in milliseconds, sorted. */
export interface Measured {
  readonly calls: number
  /** Of the calls, those with another status than 200, and answers that ended early. */
  readonly failed: number
  /** How the first of these ended. */
  readonly problem: string | undefined
  readonly seconds: number
  readonly firstByteMs: Float64Array
  readonly totalMs: Float64Array
}

interface Client {
  held: Buffer | undefined
  /** Bytes of the body still to come; `undefined` before the head is whole. */
  left: number | "chunked" | undefined
  closes: boolean
  /** The status, when it is another one than 200. */
  refusal: string | undefined
  tail: string
  sentAt: number
  firstAt: number
  unsent: Uint8Array
}

const TAIL = 64
const LAST_CHUNK = "0\r\n\r\n"
const NOTHING = Buffer.alloc(0)

/** Runs until the last call that began in time has ended. */
export function run(load: Load): Promise<Measured> {
  const { hostname, port, pathname } = new URL(load.url)
  const headers = {
    Host: `${hostname}:${port}`,
    "Content-Length": String(Buffer.byteLength(load.body)),
    ...load.headers,
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const request = Buffer.from(`POST ${pathname} HTTP/1.1\r\n${lines.join("")}\r\n${load.body}`)
  const firstByteMs: number[] = []
  const totalMs: number[] = []
  let failed = 0
  let problem: string | undefined
  const { calls = Number.POSITIVE_INFINITY } = load
  let begun = 0
  let running = load.clients
  const startedAt = performance.now()
  const until = startedAt + load.durationMs
  const { promise, resolve, reject } = Promise.withResolvers<Measured>()

  const begin = (socket: Socket<Client>) => {
    begun++
    socket.data = {
      held: undefined,
      left: undefined,
      closes: false,
      refusal: undefined,
      tail: "",
      sentAt: performance.now(),
      firstAt: 0,
      unsent: NOTHING,
    }
    write(socket, request)
  }
  const end = (socket: Socket<Client>, broken: boolean) => {
    const { data } = socket
    const endedAt = performance.now()
    firstByteMs.push(data.firstAt - data.sentAt)
    totalMs.push(endedAt - data.sentAt)
    if (broken || data.refusal !== undefined || !data.tail.includes(load.ending)) {
      failed++
      problem ??= `${data.refusal ?? (broken ? "connection lost" : "not whole")}: …${data.tail}`
    }
    const goesOn = endedAt < until && begun < calls
    if (goesOn && !data.closes) return begin(socket)
    data.sentAt = 0
    socket.end()
    if (goesOn) return connect()
    if (--running > 0) return
    const seconds = (endedAt - startedAt) / 1_000
    resolve({
      calls: totalMs.length,
      failed,
      problem,
      seconds,
      firstByteMs: new Float64Array(firstByteMs).sort(),
      totalMs: new Float64Array(totalMs).sort(),
    })
  }
  const connect = () => {
    Bun.connect<Client>({
      hostname,
      port: Number(port),
      socket: {
        open: begin,
        drain: (socket) => write(socket, NOTHING),
        data(socket, bytes) {
          if (read(socket.data, bytes)) end(socket, false)
        },
        close(socket) {
          // A connection that its server closes in the middle of a call, and not one that has been done with.
          if (socket.data !== undefined && socket.data.sentAt > 0) {
            socket.data.closes = true
            end(socket, socket.data.left !== Number.POSITIVE_INFINITY)
          }
        },
      },
    }).catch(reject)
  }
  const { rampMs = 0 } = load
  for (let client = 0; client < load.clients; client++) {
    if (rampMs === 0) connect()
    else setTimeout(connect, (client * rampMs) / load.clients)
  }
  return promise
}

function write(socket: Socket<Client>, bytes: Uint8Array): void {
  const { data } = socket
  const all = data.unsent.length === 0 ? bytes : data.unsent
  const sent = Math.max(0, socket.write(all))
  data.unsent = sent === all.length ? NOTHING : all.subarray(sent)
}

/** Whether the answer is whole. */
function read(client: Client, bytes: Buffer): boolean {
  let body = bytes
  if (client.left === undefined) {
    if (client.firstAt === 0) client.firstAt = performance.now()
    const head: Buffer = client.held === undefined ? bytes : Buffer.concat([client.held, bytes])
    const end = head.indexOf("\r\n\r\n")
    if (end < 0) {
      client.held = Buffer.from(head)
      return false
    }
    const text = head.toString("latin1", 0, end).toLowerCase()
    client.refusal = text.startsWith("http/1.1 200") ? undefined : text.slice("http/1.1 ".length, text.indexOf("\r\n"))
    client.closes = text.includes("\r\nconnection: close")
    const length = /\r\ncontent-length: *(\d+)/.exec(text)?.[1]
    client.left =
      length !== undefined
        ? Number(length)
        : text.includes("\r\ntransfer-encoding: chunked")
          ? "chunked"
          : Number.POSITIVE_INFINITY
    body = head.subarray(end + 4)
  }
  client.tail = (client.tail + body.subarray(-TAIL).toString("latin1")).slice(-TAIL)
  if (client.left === "chunked") return client.tail.endsWith(LAST_CHUNK)
  client.left -= body.length
  return client.left <= 0
}

/** Of sorted values. */
export const percentile = (values: ArrayLike<number>, p: number): number =>
  values[Math.min(values.length - 1, Math.floor(values.length * p))] ?? Number.NaN

export const median = (values: readonly number[]): number =>
  percentile(
    values.toSorted((a, b) => a - b),
    0.5,
  )
