/**
 * Pages that may call with a key from a browser, by their origins (docs/decisions/2026-11-23-pages-call-with-keys-that-list-them.md).
 * All that any key lists are in memory, so that a pre-flight, which anybody may send, is answered without the database.
 */
import type { PageOriginStore } from "../store/page-origins.ts"

/** Of one key. */
export const MOST_ORIGINS = 16
const LONGEST_ORIGIN = 260
/** Where a page under development stands. */
const OWN_MACHINE = new Set(["localhost", "127.0.0.1", "[::1]"])

/** As browsers write it; undefined for what is no origin of a page on https or on one's own machine. */
export function readOrigin(text: string): string | undefined {
  if (text.length > LONGEST_ORIGIN || !/^https?:\/\/[^/?#@*\\\s]+$/i.test(text) || !URL.canParse(text)) return undefined
  const { protocol, hostname, origin } = new URL(text)
  return protocol === "https:" || OWN_MACHINE.has(hostname) ? origin : undefined
}

export class PageOrigins {
  readonly #store: PageOriginStore
  #known: ReadonlySet<string> = new Set()
  #reading: Promise<void> = Promise.resolve()
  #next: Promise<void> | undefined

  constructor(store: PageOriginStore) {
    this.#store = store
  }

  has(origin: string): boolean {
    return this.#known.has(origin)
  }

  /** What was committed before is known when it resolves. However many ask, one reading is under way and one waits. */
  refresh(): Promise<void> {
    this.#next ??= this.#reading
      .catch(() => {})
      .then(() => {
        this.#next = undefined
        return (this.#reading = this.#read())
      })
    return this.#next
  }

  async #read(): Promise<void> {
    this.#known = new Set(await this.#store.read())
  }
}
