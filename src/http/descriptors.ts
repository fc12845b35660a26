/**
 * The file descriptors of this process, of which every connection takes one. At the limit the listener takes nobody any
 * more, so before it, connections are not kept for a next request.
 */
import { existsSync } from "node:fs"
import { readdir, readFile } from "node:fs/promises"

/** Of the limit. */
const CROWDED = 0.8

export class Descriptors {
  readonly #directory: string
  #crowded = false

  /** `directory` is what the system tells of this process. */
  constructor(directory = "/proc/self") {
    this.#directory = directory
  }

  get crowded(): boolean {
    return this.#crowded
  }

  /** How many are open and how many may be; undefined on a system that does not tell. Throws where Linux refuses to. */
  async look(): Promise<{ readonly open: number; readonly limit: number } | undefined> {
    if (!existsSync(this.#directory)) return undefined
    const [open, limits] = await Promise.all([
      readdir(`${this.#directory}/fd`),
      readFile(`${this.#directory}/limits`, "utf8"),
    ])
    const limit = Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? Infinity)
    this.#crowded = open.length > limit * CROWDED
    return { open: open.length, limit }
  }
}
