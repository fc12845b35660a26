/** Sockets without an HTTP client: requests that none would send, and readers that stop. */
import { connect, type Socket } from "node:net"
import type { Writable } from "node:stream"

export interface RawStream {
  readonly socket: Socket
  /** All that came so far. */
  readonly text: string
  readonly requestId: string
  readUntil(enough: (text: string, bytes: number) => boolean, withinMs?: number): Promise<boolean>
  pause(): void
  resume(): void
  /** All of it, once the peer has closed or has been silent for so long. */
  rest(quietMs?: number): Promise<string>
}

export function open(url: string, from?: string): Promise<Socket> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    const socket = connect({ port: Number(port), host: hostname, ...(from !== undefined && { localAddress: from }) })
    socket.once("connect", () => resolve(socket))
    socket.once("error", reject)
  })
}

export function listenTo(socket: Socket): RawStream {
  const parts: string[] = []
  let bytes = 0
  let closed = false
  let lastAt = performance.now()
  const waiting = new Set<() => void>()
  const wake = () => {
    for (const each of waiting) each()
  }
  socket.on("data", (data: Buffer) => {
    parts.push(data.toString("latin1"))
    bytes += data.length
    lastAt = performance.now()
    wake()
  })
  const ended = () => {
    closed = true
    wake()
  }
  socket.on("error", ended)
  socket.on("close", ended)
  socket.on("end", ended)
  const whole = () => {
    const text = parts.join("")
    parts.splice(0, parts.length, text)
    return text
  }
  const until = async (enough: () => boolean, withinMs: number): Promise<boolean> => {
    const at = performance.now() + withinMs
    const over = () => closed || enough() || performance.now() > at
    while (!over()) {
      const { promise, resolve } = Promise.withResolvers<void>()
      waiting.add(resolve)
      await Promise.race([promise, Bun.sleep(100)])
      waiting.delete(resolve)
    }
    return enough()
  }
  return {
    socket,
    get text() {
      return whole()
    },
    get requestId() {
      return /\r\nx-request-id: (\S+)/i.exec(whole().slice(0, 4_000))?.[1] ?? ""
    },
    readUntil: (enough, withinMs = 30_000) => until(() => enough(parts.length < 50 ? whole() : "", bytes), withinMs),
    pause: () => void socket.pause(),
    resume: () => void socket.resume(),
    async rest(quietMs = 4_000) {
      lastAt = performance.now()
      await until(() => performance.now() - lastAt > quietMs, 120_000)
      socket.destroy()
      return whole()
    },
  }
}

/** A request with a body of JSON, on a connection of its own. */
export async function openStream(url: string, key: string, path: string, body: object): Promise<RawStream> {
  const socket = await open(url)
  const stream = listenTo(socket)
  const text = JSON.stringify(body)
  socket.write(`${head(path, key, Buffer.byteLength(text))}${text}`)
  return stream
}

export const head = (path: string, key: string, length: number, more = ""): string =>
  `POST ${path} HTTP/1.1\r\nHost: loket.test\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n${more}\r\n`

/** What comes for these bytes, until the peer closes or is silent for so long. */
export async function exchange(url: string, bytes: string | Uint8Array, quietMs = 300): Promise<string> {
  const socket = await open(url)
  const stream = listenTo(socket)
  socket.write(bytes)
  return await stream.rest(quietMs)
}

/** When what was written has been taken; false when the peer has gone, or takes nothing for so long. */
export async function drained(writable: Writable, patienceMs?: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const yes = () => resolve(true)
  const no = () => resolve(false)
  writable.once("drain", yes)
  writable.once("close", no)
  const timer = patienceMs === undefined ? undefined : setTimeout(no, patienceMs)
  if (writable.destroyed) no()
  const outcome = await promise
  clearTimeout(timer)
  writable.off("drain", yes)
  writable.off("close", no)
  return outcome
}
