/**
 * The highest timeline that was seen of each database system, in memory and as empty files in a directory, so that an old
 * primary that comes back is known by a process that has only begun. Processes that share the directory share what they saw:
 * a file is only ever added, and the highest counts.
 */
import { mkdir, open, readdir } from "node:fs/promises"
import { join } from "node:path"

export class Timelines {
  readonly #directory: string | undefined
  readonly #notKept: (error: unknown) => void
  readonly #seen = new Map<string, number>()

  /** Without a directory it lasts as long as the process. `notKept` is told when the disk takes nothing. */
  constructor(directory?: string, notKept: (error: unknown) => void = () => {}) {
    this.#directory = directory
    this.#notKept = notKept
  }

  /** 0 when none was seen. */
  async highest(system: string): Promise<number> {
    for (const name of await this.#names()) {
      const [, of, timeline] = /^(\d+)-(\d+)$/.exec(name) ?? []
      if (of === system) this.#remember(system, Number(timeline))
    }
    return this.#seen.get(system) ?? 0
  }

  async saw(system: string, timeline: number): Promise<void> {
    if (timeline <= (await this.highest(system))) return
    this.#remember(system, timeline)
    if (this.#directory === undefined) return
    try {
      await mkdir(this.#directory, { recursive: true, mode: 0o700 })
      await synced(join(this.#directory, `${system}-${timeline}`), "a")
      await synced(this.#directory, "r")
    } catch (error) {
      this.#notKept(error)
    }
  }

  #remember(system: string, timeline: number): void {
    this.#seen.set(system, Math.max(timeline, this.#seen.get(system) ?? 0))
  }

  async #names(): Promise<string[]> {
    if (this.#directory === undefined) return []
    // Where nothing can be read, what this process saw itself counts.
    return await readdir(this.#directory).catch(() => [])
  }
}

async function synced(path: string, flags: string): Promise<void> {
  const handle = await open(path, flags, 0o600)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
