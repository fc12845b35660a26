/**
 * A network that fails on request: stands between a test's database and Postgres, and cuts, freezes or swallows what
 * passes. Its own address is loopback TCP, whatever kind of socket lies behind.
 */
import { connect, createServer, type Socket } from "node:net"

export interface FaultProxy {
  /** The database behind, by way of the proxy. */
  readonly url: string
  /** How many connections are open now, and the most that were open at once. */
  readonly open: number
  readonly mostOpen: number
  /** Resets every connection. */
  cut(): void
  /** From now on bytes are taken in and passed on to nobody, on the connections there are and on new ones. */
  freeze(): void
  /** New connections pass again; those that were frozen stay so. */
  thaw(): void
  /** Statements that carry this text wait in the proxy, and what their connections send after them, until `deliver`. */
  hold(statement: string): void
  deliver(): void
  /** How many connections have something that waits. */
  readonly held: number
  /** New connections are hung up on, or answered with these bytes, until `accept`. */
  refuse(answer?: Buffer): void
  accept(): void
  /**
   * The next statement that carries this text, or is as described, reaches Postgres and is carried out, but its answer is
   * lost with its connection. Resolves when that has happened; true, or false when it was given up first.
   */
  dropReplyTo(statement: string | ((bytes: Buffer) => boolean), givenUp?: AbortSignal): Promise<boolean>
  close(): Promise<void>
}

interface Pair {
  readonly client: Socket
  readonly server: Socket
  frozen: boolean
  doomed: (() => void) | undefined
  /** What waits for `deliver`. */
  held: Buffer[]
}

export async function openFaultProxy(target: string, ownHost = "127.0.0.1"): Promise<FaultProxy> {
  const url = new URL(target)
  const directory = url.searchParams.get("host")
  const port = Number(url.port || "5432")
  const dial = () => (directory ? connect(`${directory}/.s.PGSQL.${port}`) : connect(port, url.hostname))

  const pairs = new Set<Pair>()
  let frozen = false
  let refusing = false
  let refusal: Buffer | undefined
  let heldText: string | undefined
  let mostOpen = 0
  let swallow: { readonly matches: (bytes: Buffer) => boolean; readonly done: () => void } | undefined

  const end = (pair: Pair) => {
    pairs.delete(pair)
    pair.client.destroy()
    pair.server.destroy()
  }
  const proxy = createServer((client) => {
    client.on("error", () => {})
    if (refusing) {
      const answer = refusal
      if (answer === undefined) client.destroy()
      else client.on("data", () => client.end(answer))
      return
    }
    const pair: Pair = { client, server: dial(), frozen, doomed: undefined, held: [] }
    pairs.add(pair)
    mostOpen = Math.max(mostOpen, pairs.size)
    client.setNoDelay(true)
    client.on("data", (bytes: Buffer) => {
      if (pair.frozen) return
      if (swallow?.matches(bytes)) {
        pair.doomed = swallow.done
        swallow = undefined
      }
      const isHeld = heldText !== undefined && (pair.held.length > 0 || bytes.includes(heldText))
      if (isHeld) pair.held.push(bytes)
      else pair.server.write(bytes)
    })
    pair.server.on("data", (bytes: Buffer) => {
      if (pair.frozen) return
      // ReadyForQuery ends an answer: by then the statement is committed.
      if (pair.doomed && bytes.length >= 6 && bytes[bytes.length - 6] === 0x5a) {
        pair.doomed()
        end(pair)
      } else client.write(bytes)
    })
    pair.server.on("error", () => {})
    client.on("close", () => end(pair))
    // Through a network that is frozen nobody hears of it.
    pair.server.on("close", () => pair.frozen || end(pair))
  })
  await new Promise<void>((resolve) => {
    proxy.listen(0, ownHost, resolve)
  })
  const address = proxy.address()
  if (address === null || typeof address === "string") throw new Error("The proxy has no port")
  const through = new URL(target)
  through.searchParams.delete("host")
  through.hostname = ownHost.includes(":") ? `[${ownHost}]` : ownHost
  through.port = String(address.port)

  return {
    url: through.href,
    get open() {
      return pairs.size
    },
    get mostOpen() {
      return mostOpen
    },
    cut: () => {
      for (const pair of pairs) end(pair)
    },
    freeze: () => {
      frozen = true
      for (const pair of pairs) pair.frozen = true
    },
    thaw: () => {
      frozen = false
    },
    hold: (statement) => {
      heldText = statement
    },
    get held() {
      return [...pairs].filter((pair) => pair.held.length > 0).length
    },
    deliver: () => {
      heldText = undefined
      for (const pair of pairs) for (const bytes of pair.held.splice(0)) pair.server.write(bytes)
    },
    refuse: (answer) => {
      refusing = true
      refusal = answer
    },
    accept: () => {
      refusing = false
    },
    dropReplyTo: (statement, givenUp) =>
      new Promise((resolve) => {
        const matches = typeof statement === "string" ? (bytes: Buffer) => bytes.includes(statement) : statement
        const mine = { matches, done: () => resolve(true) }
        swallow = mine
        givenUp?.addEventListener("abort", () => {
          if (swallow === mine) swallow = undefined
          // Also when the statement was met, and its connection was lost before its answer.
          resolve(false)
        })
      }),
    close: async () => {
      const closed = new Promise<void>((resolve) => proxy.close(() => resolve()))
      for (const pair of pairs) end(pair)
      await closed
    },
  }
}
