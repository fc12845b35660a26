/**
 * A network between a gateway and its database that takes time, and loses nothing: each byte arrives so many milliseconds after
 * it was sent, either way. It also counts how often somebody waited for an answer.
 */
import { connect, createServer, type Socket } from "node:net"

export interface Distance extends AsyncDisposable {
  /** The database behind, by way of it. */
  readonly url: string
  /**
   * Exchanges so far, on all connections: bytes that were sent after the server had answered what was sent before. What is sent
   * together is one exchange, however many statements it has.
   */
  readonly exchanges: number
  /** From now on each byte takes so long one way: half of a round trip. */
  moveTo(oneWayMs: number): void
}

/** The server may listen on a port or on a socket (`?host=/directory`). */
export async function openDistance(target: string, oneWayMs: number): Promise<Distance> {
  const url = new URL(target)
  const directory = url.searchParams.get("host")
  const port = Number(url.searchParams.get("port") ?? (url.port || "5432"))
  const dial = () => (directory ? connect(`${directory}/.s.PGSQL.${port}`) : connect(port, url.hostname))
  const open = new Set<Socket>()
  let awayMs = oneWayMs
  let exchanges = 0

  const proxy = createServer((client) => {
    const server = dial()
    let isAnswered = true
    client.on("data", () => {
      if (isAnswered) exchanges++
      isAnswered = false
    })
    server.on("data", () => {
      isAnswered = true
    })
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      open.add(from)
      from.setNoDelay(true)
      from.on("error", () => {})
      from.on("close", () => {
        open.delete(from)
        to.destroy()
      })
      later(from, to, () => awayMs)
    }
  })
  const { promise, resolve } = Promise.withResolvers<void>()
  proxy.listen(0, "127.0.0.1", resolve)
  await promise
  const address = proxy.address()
  if (address === null || typeof address === "string") throw new Error("The proxy has no port")
  const through = new URL(target)
  through.searchParams.delete("host")
  through.searchParams.delete("port")
  through.hostname = "127.0.0.1"
  through.port = String(address.port)
  return {
    url: through.href,
    get exchanges() {
      return exchanges
    },
    moveTo(ms) {
      awayMs = ms
    },
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((done) => proxy.close(() => done()))
      for (const socket of open) socket.destroy()
      await closed
    },
  }
}

/** In their order: each waits for its own time, however late the timer of the one before it was. */
function later(from: Socket, to: Socket, awayMs: () => number): void {
  const held: { readonly bytes: Buffer; readonly due: number }[] = []
  let running = false
  const next = () => {
    const now = performance.now()
    while (held[0] !== undefined && held[0].due <= now) to.write(held.shift()?.bytes ?? "")
    running = held[0] !== undefined
    if (held[0] !== undefined) setTimeout(next, Math.max(0, held[0].due - now))
  }
  from.on("data", (bytes: Buffer) => {
    held.push({ bytes, due: performance.now() + awayMs() })
    if (!running) next()
  })
}
