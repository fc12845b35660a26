/**
 * Logs: one JSON line each on standard output. Never a prompt, an answer, a key or a password (decisions §11): callers
 * name the fields that they log, and no object of a request is handed in whole.
 */
export type Level = "debug" | "info" | "warn" | "error"
type Fields = Readonly<Record<string, string | number | boolean | null | undefined>>

export interface Log {
  debug(event: string, fields?: Fields): void
  info(event: string, fields?: Fields): void
  warn(event: string, fields?: Fields): void
  error(event: string, fields?: Fields): void
}

const levels: readonly Level[] = ["debug", "info", "warn", "error"]

export function createLog(
  level: Level,
  write: (line: string) => void = (line) => void process.stdout.write(line),
): Log {
  const at =
    (own: Level) =>
    (event: string, fields: Fields = {}) => {
      if (levels.indexOf(own) < levels.indexOf(level)) return
      write(`${JSON.stringify({ time: new Date().toISOString(), level: own, event, ...fields })}\n`)
    }
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") }
}
