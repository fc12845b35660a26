/** A Redis (or Valkey) of a test's own, in memory, on a port of its own, and what may stand between it and a gateway. */
import { connect, createServer, type Socket } from "node:net"
import { RedisClient } from "bun"
import { freePort } from "../free-port.ts"

const binary = Bun.which("redis-server") ?? Bun.which("valkey-server")

/** Undefined where there is a server to start; else why a test is left out. */
export const noRedis = binary === null ? "no redis-server and no valkey-server on the PATH" : undefined
if (noRedis !== undefined) process.stderr.write(`left out, what is tried with Redis: ${noRedis}\n`)

export interface TestRedis extends AsyncDisposable {
  readonly port: number
  readonly url: string
  /** As its operator. */
  send(command: string, ...args: readonly string[]): Promise<unknown>
  pause(): void
  resume(): void
  /** What is in it is gone. */
  kill(): Promise<void>
}

export async function startRedis(args: readonly string[] = [], port = freePort(), password = ""): Promise<TestRedis> {
  const secret = password === "" ? [] : ["--requirepass", password]
  const command = [binary!, "--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
  const child = Bun.spawn([...command, ...secret, ...args], { cwd: "/", stdout: "ignore", stderr: "ignore" })
  const url = `redis://${password === "" ? "" : `:${password}@`}127.0.0.1:${port}`
  const operator = await answering(url, () => child.exitCode !== null)
  const kill = async () => {
    operator.close()
    child.kill("SIGKILL")
    await child.exited
  }
  return {
    port,
    url,
    send: (name, ...rest) => operator.send(name, [...rest]),
    pause: () => child.kill("SIGSTOP"),
    resume: () => child.kill("SIGCONT"),
    kill,
    [Symbol.asyncDispose]: kill,
  }
}

async function answering(url: string, ended: () => boolean): Promise<RedisClient> {
  for (;;) {
    if (ended()) throw new Error("redis-server has ended")
    const client = new RedisClient(url, { autoReconnect: false, connectionTimeout: 1_000 })
    try {
      await client.connect()
      return client
    } catch {
      client.close()
      await Bun.sleep(10)
    }
  }
}

/** What is between a gateway and its Redis. */
export interface Way extends Disposable {
  readonly url: string
  /** From now on each answer comes so much later. */
  delay(ms: number): void
  /** Nothing comes through, and nobody hears of it. */
  hold(): void
  /** All goes through again, what was held first. */
  letGo(): void
  /** Resets what is connected, and whoever connects from now on. */
  cut(): void
  mend(): void
  /** Of the next answer only so many bytes come through, and then the end. */
  breakOff(bytes: number): void
}

export function wayTo(port: number): Promise<Way> {
  const pairs = new Set<Socket>()
  const held: (() => void)[] = []
  let delayMs = 0
  let holds = false
  let isCut = false
  let breaksAt: number | undefined
  const pass = (to: Socket, bytes: Uint8Array | string) => {
    if (holds) held.push(() => to.write(bytes))
    else to.write(bytes)
  }
  const server = createServer((client) => {
    if (isCut) {
      client.resetAndDestroy()
      return
    }
    const redis = connect(port, "127.0.0.1")
    for (const socket of [client, redis]) {
      pairs.add(socket)
      socket.on("error", () => {})
      socket.on("close", () => {
        pairs.delete(socket)
        client.destroy()
        redis.destroy()
      })
    }
    client.on("data", (bytes) => pass(redis, bytes))
    redis.on("data", (bytes) => {
      if (breaksAt !== undefined) {
        client.end(bytes.slice(0, breaksAt))
        breaksAt = undefined
      } else if (delayMs > 0) setTimeout(() => pass(client, bytes), delayMs)
      else pass(client, bytes)
    })
  })
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      if (address === null || typeof address === "string") throw new Error("no port")
      resolve({
        url: `redis://127.0.0.1:${address.port}`,
        delay: (ms) => void (delayMs = ms),
        hold: () => void (holds = true),
        letGo() {
          holds = false
          for (const go of held.splice(0)) go()
        },
        cut() {
          isCut = true
          for (const socket of pairs) socket.resetAndDestroy()
        },
        mend: () => void (isCut = false),
        breakOff: (bytes) => void (breaksAt = bytes),
        [Symbol.dispose]() {
          server.close()
          for (const socket of pairs) socket.destroy()
        },
      })
    })
  })
}
