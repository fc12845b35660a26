/**
 * What clients have not taken yet, of all streams of this process, in bytes. A backend never waits for a client (decisions
 * §6), so what a slow one does not take is kept here, up to a share of memory; beyond it the stream with the most is cut, and
 * its client counts as gone.
 */
export interface Unread {
  readonly unread: number
  /** Drops what is kept; the client is gone. */
  cut(): void
}

export class UnreadBytes {
  readonly #limit: number
  readonly #streams = new Set<Unread>()
  #total = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  get total(): number {
    return this.#total
  }

  /** So many more of this stream, which counts them already. */
  add(stream: Unread, bytes: number): void {
    this.#streams.add(stream)
    this.#total += bytes
    while (this.#total > this.#limit) {
      let largest: Unread = stream
      for (const other of this.#streams) if (other.unread > largest.unread) largest = other
      largest.cut()
    }
  }

  /** So many fewer of this stream, which counts them no more. */
  remove(stream: Unread, bytes: number): void {
    this.#total -= bytes
    if (stream.unread === 0) this.#streams.delete(stream)
  }
}
