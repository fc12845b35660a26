/**
 * Requests to backends leave in groups. Bun's HTTP client has a thread of its own, and waking it costs more than what it does
 * for a request: those of one turn of the event loop wake it once (docs/performance.md).
 */
import type { Fetch } from "./client.ts"

/** A request waits for no more than so many others to be prepared. */
const MOST_AT_ONCE = 32

/** The same function, whose requests leave when all that can be read of sockets now has been, or when enough of them wait. */
export function inGroups(fetch: Fetch, later: (run: () => void) => void = setImmediate): Fetch {
  let waiting: (() => void)[] = []
  const leave = () => {
    const all = waiting
    waiting = []
    for (const go of all) go()
  }
  return (url, init) =>
    new Promise((resolve, reject) => {
      const go = () => {
        try {
          resolve(fetch(url, init))
        } catch (error) {
          reject(error)
        }
      }
      if (waiting.push(go) === 1) later(leave)
      if (waiting.length === MOST_AT_ONCE) leave()
    })
}
