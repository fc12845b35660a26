/**
 * The other end of one call: bytes out, at the pace at which they are taken, and the news that the caller has gone.
 * On node:http and not on Bun.serve, because only here can a connection be torn before the response head. Small writes
 * are gathered up to 16 KiB until something waits, which is what makes an unpaced stream cheap.
 */
import type { ServerResponse } from "node:http"

const gatherBytes = 16_384
const longestTimerMs = 2 ** 31 - 1
const tearGapMs = 40
const nothing = (): void => undefined

export class Client {
  readonly #response: ServerResponse
  #gathered = ""
  #over = false
  #left = false
  #wake: (() => void) | undefined

  constructor(response: ServerResponse) {
    this.#response = response
    response.on("close", () => {
      this.#left = !this.#over
      this.#wake?.()
    })
  }

  /** The caller closed the connection before the answer was whole. */
  get left(): boolean {
    return this.#left
  }

  head(status: number, headers: Record<string, string | number>): void {
    this.#response.writeHead(status, headers)
  }

  /** Undefined unless the caller reads too slowly; then a promise of the moment to go on. */
  put(bytes: string): Promise<void> | undefined {
    this.#gathered += bytes
    return this.#gathered.length < gatherBytes ? undefined : this.#write()
  }

  /** Waits, or returns at once when the caller goes. */
  async pause(ms: number): Promise<void> {
    if (ms === 0 || this.#left) return
    await this.#until((done) => {
      const timer = setTimeout(done, Math.min(ms, longestTimerMs))
      return () => clearTimeout(timer)
    })
  }

  /** What was put is sent before the wait, and the head even if nothing was put. */
  async pauseAfterFlush(ms: number): Promise<void> {
    if (ms === 0) return
    await this.#flush()
    await this.pause(ms)
  }

  /** Until the caller goes. */
  async gone(): Promise<void> {
    if (!this.#left) await this.#until(() => nothing)
  }

  /** Ends the answer; returns when it has been handed over or the caller has gone. */
  async end(bytes = ""): Promise<void> {
    if (this.#left) return
    const last = this.#gathered + bytes
    this.#gathered = ""
    await this.#until((done) => {
      this.#response.end(last, () => {
        this.#over = true
        done()
      })
      return nothing
    })
  }

  /** Tears the connection: no end of the answer, and no head if none was sent. */
  tear(): void {
    if (this.#left) return
    this.#over = true
    this.#response.socket?.destroy()
  }

  /** A caller that learns of bytes and of the break at once may drop the bytes (Bun's fetch does), hence the gap. */
  async tearAfterFlush(): Promise<void> {
    await this.pauseAfterFlush(tearGapMs)
    this.tear()
  }

  async #flush(): Promise<void> {
    if (this.#left) return
    if (this.#gathered === "") this.#response.flushHeaders()
    await this.#write()
  }

  #write(): Promise<void> | undefined {
    const bytes = this.#gathered
    this.#gathered = ""
    if (this.#left || bytes === "" || this.#response.write(bytes)) return undefined
    return this.#until((done) => {
      this.#response.once("drain", done)
      return () => this.#response.off("drain", done)
    })
  }

  /** One thing is waited for at a time; the caller's leaving ends every wait. */
  #until(start: (done: () => void) => () => void): Promise<void> {
    return new Promise((resolve) => {
      let stop = nothing
      const done = (): void => {
        this.#wake = undefined
        stop()
        resolve()
      }
      this.#wake = done
      stop = start(done)
    })
  }
}
