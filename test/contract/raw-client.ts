/** A chat client on a socket of its own, which reads, pauses, half-closes and leaves when it is told to. */
import { connect, type Socket } from "node:net"

export class RawClient {
  /** Resolves when the connection is over, whoever ended it. */
  readonly over: Promise<void>
  readonly #socket: Socket
  readonly #pieces: Buffer[] = []

  constructor(url: string, key: string, body: Readonly<Record<string, unknown>>, path = "/v1/chat/completions") {
    const { hostname, port, host } = new URL(url)
    const text = JSON.stringify({ messages: [{ role: "user", content: "Hello" }], ...body })
    const head = [
      `POST ${path} HTTP/1.1`,
      `Host: ${host}`,
      `Authorization: Bearer ${key}`,
      "Connection: close",
      "Content-Type: application/json",
      `Content-Length: ${text.length}`,
    ]
    this.#socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true })
    this.#socket.on("data", (piece: Buffer) => this.#pieces.push(piece))
    this.#socket.on("error", () => {})
    this.over = new Promise((resolve) => {
      this.#socket.once("close", () => resolve())
      this.#socket.once("end", () => {
        this.#socket.end()
        resolve()
      })
    })
    this.#socket.write(`${head.join("\r\n")}\r\n\r\n${text}`)
  }

  /** What it has read so far: the head and the body with its chunks' lengths. */
  get text(): string {
    return Buffer.concat(this.#pieces).toString()
  }
  get status(): number | undefined {
    const status = /^HTTP\/1\.1 (\d{3})/.exec(this.text)?.[1]
    return status === undefined ? undefined : Number(status)
  }
  /** Where it calls from, for whoever looks for its connection. */
  get port(): number {
    return this.#socket.localPort ?? 0
  }
  get requestId(): string | undefined {
    return /^x-request-id: (\S+)/im.exec(this.text)?.[1]
  }

  async until(pattern: RegExp): Promise<void> {
    let isOver = false
    void this.over.then(() => (isOver = true))
    // Not `test`, which leaves a global pattern where it found something, for whoever uses it next.
    while (this.text.search(pattern) < 0) {
      if (isOver) throw new Error(`the connection ended before ${String(pattern)}: ${this.text}`)
      await Bun.sleep(5)
    }
  }

  /** Takes the first bytes that come, and then nothing, until it is told to. */
  pauseAfterFirst(): void {
    this.#socket.once("data", () => this.#socket.pause())
  }
  /** Takes nothing any more, until it is told to. */
  pause(): void {
    this.#socket.pause()
  }
  resume(): void {
    this.#socket.resume()
  }
  /** Has said all, and goes on listening. */
  halfClose(): void {
    this.#socket.end()
  }
  leave(): void {
    this.#socket.destroy()
  }
}
