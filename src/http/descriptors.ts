/**
 * The file descriptors of this process, of which every connection takes one. At the limit the listener takes nobody any
 * more, so before it, connections are not kept for a next request.
 */
import { readdir, readFile } from "node:fs/promises"

/** Of the limit. */
const CROWDED = 0.8

export class Descriptors {
  #crowded = false

  get crowded(): boolean {
    return this.#crowded
  }

  /** How many are open and how many may be; undefined where the system does not tell. */
  async look(): Promise<{ readonly open: number; readonly limit: number } | undefined> {
    try {
      const [open, limits] = await Promise.all([readdir("/proc/self/fd"), readFile("/proc/self/limits", "utf8")])
      const limit = Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? Infinity)
      this.#crowded = open.length > limit * CROWDED
      return { open: open.length, limit }
    } catch {
      return undefined
    }
  }
}
