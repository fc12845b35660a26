/**
 * Logs: one JSON line each on standard output. Never a prompt, an answer, a key or a password (decisions §11): callers
 * name the fields that they log, and no object of a request is handed in whole.
 */
import { writeSync } from "node:fs"

export type Level = "debug" | "info" | "warn" | "error"
type Fields = Readonly<Record<string, string | number | boolean | null | undefined>>

export interface Log {
  debug(event: string, fields?: Fields): void
  info(event: string, fields?: Fields): void
  warn(event: string, fields?: Fields): void
  error(event: string, fields?: Fields): void
}

const levels: readonly Level[] = ["debug", "info", "warn", "error"]

export function createLog(least: Level, write: (line: string, level: Level) => void): Log {
  const timestamp = timestamps()
  const at = (level: Level) => {
    if (levels.indexOf(level) < levels.indexOf(least)) return () => {}
    return (event: string, fields?: Fields) => {
      // Fields are not copied: the text of an object of them is gone on with.
      const more = fields === undefined ? "{}" : JSON.stringify(fields)
      const head = `{"time":"${timestamp()}","level":"${level}","event":${JSON.stringify(event)}`
      write(more === "{}" ? `${head}}\n` : `${head},${more.slice(1)}\n`, level)
    }
  }
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") }
}

/** The time in ISO 8601. Lines of one millisecond share its text. */
function timestamps(): () => string {
  let at = Number.NaN
  let text = ""
  return () => {
    const now = Date.now()
    if (now !== at) text = new Date(now).toISOString()
    at = now
    return text
  }
}

/** The same log, whose warnings and errors are counted too, whatever of them is written. */
export function counting(log: Log, count: (level: "warn" | "error", event: string) => void): Log {
  const counted = (level: "warn" | "error") => (event: string, fields?: Fields) => {
    count(level, event)
    log[level](event, fields)
  }
  return { ...log, warn: counted("warn"), error: counted("error") }
}

/** How long lines are gathered, in milliseconds, and how many characters of them at most. */
const GATHER_MS = 10
const GATHERED_CHARACTERS = 64 * 1024

/**
 * Writes lines in batches, because a write costs more than the line that it writes. The first line after a pause is written
 * at once; those that come within 10 ms after a write are one write together. A warning or an error is written at once,
 * with all that came before it.
 */
export class Batches {
  readonly #write: (text: string) => void
  #gathered = ""
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(write: (text: string) => void) {
    this.#write = write
  }

  readonly write = (line: string, level: Level): void => {
    this.#gathered += line
    const waits = this.#timer !== undefined && level !== "warn" && level !== "error"
    if (!waits || this.#gathered.length >= GATHERED_CHARACTERS) this.flush()
    if (this.#timer === undefined) this.#gather()
  }

  /** Writes what is gathered. */
  flush(): void {
    if (this.#gathered === "") return
    const text = this.#gathered
    this.#gathered = ""
    this.#write(text)
  }

  #gather(): void {
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (this.#gathered === "") return
      this.flush()
      this.#gather()
    }, GATHER_MS)
    this.#timer.unref()
  }
}

export interface OutputLog {
  readonly log: Log
  /** Whole lines of another process, in their turn. */
  readonly pass: (lines: string) => void
  /** Resolves when whoever reads the log has taken all of it; before an exit of one's own. */
  readonly drained: () => Promise<void>
}

/** What waits for a reader that takes nothing, in characters. */
const MAX_UNREAD_CHARACTERS = 16 * 1024 * 1024

/**
 * A log on standard output. Nothing is lost when the process exits or dies of an error. What cannot be written, as on a full disk or
 * where the reader is gone, is lost: once it is told on standard error, and in the log when that can be written again. So is what
 * comes while a reader stands still and much waits for it, which would take all memory in the end.
 */
export function logToStandardOutput(least: Level): OutputLog {
  let taken = Promise.resolve()
  let failed = 0
  let unread = 0
  const pass = (text: string) => {
    if (unread >= MAX_UNREAD_CHARACTERS) {
      failed++
      return
    }
    unread += text.length
    const { promise, resolve } = Promise.withResolvers<void>()
    taken = promise
    const afterFailure = failed
    // The line before may have been cut off.
    process.stdout.write(afterFailure > 0 ? `\n${text}` : text, (error) => {
      resolve()
      unread -= text.length
      if (error || afterFailure === 0 || failed === 0) return
      failed = 0
      log.warn("log was not written", { times: afterFailure })
    })
  }
  // Heard by nobody, it would be an error to be logged, which fails again, without end.
  process.stdout.on("error", (error) => {
    if (failed++ > 0) return
    try {
      writeSync(process.stderr.fd, `the log cannot be written: ${error.message}\n`)
    } catch {
      // Both may be one file.
    }
  })
  const batches = new Batches(pass)
  const log = createLog(least, batches.write)
  process.on("exit", () => batches.flush())
  return {
    log,
    pass,
    drained() {
      batches.flush()
      return taken
    },
  }
}
