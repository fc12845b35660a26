/**
 * Calls whose clients were told that nothing is charged before the database could say so: kept on the local disk, so that
 * it stays true if the process dies before the database is back. The rare path alone comes here: a commit without an
 * answer in time.
 *
 * One file for all that came together, written aside, synced and renamed, and never changed: a file is whole or not there.
 * Its name says which installation's calls it has: another database, on which somebody starts with the same directory, knows
 * nothing of them. Taking back is idempotent, so any process of the installation may read and delete it.
 */
import { access, constants, mkdir, open, readdir, readFile, rename, unlink } from "node:fs/promises"
import { join } from "node:path"
import { nanoid } from "nanoid"
import type { Settlement } from "../../actors/ledger.ts"
import type { Log } from "../log.ts"
import { ifGone } from "./embedded/database-files.ts"

export interface Withdrawals {
  /** What was kept and not forgotten when this process started. */
  kept(): Promise<readonly Settlement[]>
  /** Resolves when it is on disk. Never rejects: what cannot be kept is logged, and the client is told all the same. */
  keep(settlement: Settlement): Promise<void>
  /** The database has it. */
  forget(requestId: string): void
}

interface Waiting {
  readonly settlement: Settlement
  readonly done: () => void
}

export class WithdrawalFiles implements Withdrawals {
  readonly #directory: string
  readonly #installation: string
  readonly #log: Log
  #queue: Waiting[] = []
  #writing: Promise<void> | undefined
  /** By file: the calls in it that the database does not have yet. */
  readonly #files = new Map<string, Set<string>>()

  /** `installation`: letters and digits, the same for every process on one database. */
  constructor(directory: string, installation: string, log: Log) {
    this.#directory = directory
    this.#installation = installation
    this.#log = log
  }

  /** How many calls are on disk that the database does not have yet. */
  get waiting(): number {
    return [...this.#files.values()].reduce((sum, calls) => sum + calls.size, 0)
  }

  async kept(): Promise<readonly Settlement[]> {
    const all: Settlement[] = []
    const names = await this.#names()
    await this.#tryPlace()
    for (const name of names.filter((file) => this.#isOurs(file)).sort()) {
      const file = join(this.#directory, name)
      // Another process may take it back meanwhile.
      const content = await readFile(file, "utf8").catch(ifGone)
      if (content === undefined) continue
      const settlements = decode(content)
      if (settlements === undefined) {
        this.#log.error("withdrawals not readable", { file })
        continue
      }
      this.#files.set(file, new Set(settlements.map(requestIdOf)))
      all.push(...settlements)
    }
    return all
  }

  keep(settlement: Settlement): Promise<void> {
    return new Promise((done) => {
      this.#queue.push({ settlement, done })
      this.#writing ??= this.#writeAll()
    })
  }

  forget(requestId: string): void {
    // What is still being written is forgotten when it is there.
    void (this.#writing ?? Promise.resolve()).then(() => this.#drop(requestId))
  }

  async #writeAll(): Promise<void> {
    // The calls of one turn go together.
    await Promise.resolve()
    while (this.#queue.length > 0) {
      const taken = this.#queue
      this.#queue = []
      const settlements = taken.map(({ settlement }) => settlement)
      try {
        this.#files.set(await this.#write(settlements), new Set(settlements.map(requestIdOf)))
      } catch (error) {
        const requestIds = settlements.map(requestIdOf).join(" ")
        this.#log.error("withdrawals not kept", { request_ids: requestIds, error: String(error) })
      }
      for (const { done } of taken) done()
    }
    this.#writing = undefined
  }

  async #write(settlements: readonly Settlement[]): Promise<string> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 })
    const file = join(this.#directory, `${Date.now()}-${nanoid()}.${this.#installation}${ENDING}`)
    const aside = `${file}.unfinished`
    await withFile(aside, "w", async (handle) => {
      await handle.writeFile(encode(settlements))
      await handle.sync()
    })
    await rename(aside, file)
    await withFile(this.#directory, "r", (handle) => handle.sync())
    return file
  }

  async #drop(requestId: string): Promise<void> {
    for (const [file, open] of this.#files) {
      if (!open.delete(requestId) || open.size > 0) continue
      this.#files.delete(file)
      // One that stays is taken back once more at the next start, which changes nothing.
      await unlink(file).catch(() => {})
    }
  }

  /** A place where nothing can be kept is told at the start, and not first when the database is away. */
  async #tryPlace(): Promise<void> {
    try {
      await mkdir(this.#directory, { recursive: true, mode: 0o700 })
      await access(this.#directory, constants.W_OK)
    } catch (error) {
      this.#log.error("withdrawals not kept", { directory: this.#directory, error: String(error) })
    }
  }

  /** Files of before have no name of an installation, and are of the one that there was. */
  #isOurs(file: string): boolean {
    const [, installation, ...rest] = file.split(".")
    return file.endsWith(ENDING) && (rest.length === 0 || installation === this.#installation)
  }

  async #names(): Promise<string[]> {
    try {
      return await readdir(this.#directory)
    } catch (error) {
      const code = error instanceof Error && "code" in error ? String(error.code) : String(error)
      if (code === "ENOENT") return []
      throw new Error(
        `${this.#directory} cannot be read (${code}), and calls in it may not be charged: set DATA_DIR to a directory that this user may read`,
        { cause: error },
      )
    }
  }
}

const ENDING = ".json"
const requestIdOf = ({ opening }: Settlement): string => opening.requestId

type Handle = Awaited<ReturnType<typeof open>>

async function withFile(path: string, flags: string, work: (handle: Handle) => Promise<void>): Promise<void> {
  const handle = await open(path, flags, 0o600)
  try {
    await work(handle)
  } finally {
    await handle.close()
  }
}

/** A sum in the first line tells what we wrote from anything else. Bigints are objects of one member. */
function encode(settlements: readonly Settlement[]): string {
  const text = JSON.stringify(settlements, (_, value: unknown) =>
    typeof value === "bigint" ? { bigint: String(value) } : value,
  )
  return `${sumOf(text)}\n${text}`
}

function decode(content: string): readonly Settlement[] | undefined {
  const end = content.indexOf("\n")
  const text = content.slice(end + 1)
  if (content.slice(0, end) !== sumOf(text)) return undefined
  return JSON.parse(text, (_, value: unknown) => revived(value)) as Settlement[]
}

function revived(value: unknown): unknown {
  if (typeof value !== "object" || value === null || !("bigint" in value)) return value
  return BigInt(String(value.bigint))
}

/** The version belongs to the form of a settlement: change it with that. */
const sumOf = (text: string): string => `1 ${Bun.hash.crc32(text).toString(16)}`
