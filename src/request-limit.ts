/**
 * Bun's `fetch` allows 256 requests in flight per process and queues the rest in silence; the limit is read from the
 * environment when the process starts. So the process replaces itself once, with the variable set and the same id.
 */

const VARIABLE = "BUN_CONFIG_MAX_HTTP_REQUESTS"
/** More than `MAX_CONCURRENCY` may be, with retries and webhooks on top. */
const REQUESTS = "65535"

export function ensureRequestLimit(): void {
  if (process.env[VARIABLE] !== undefined) {
    if (Number(process.env[VARIABLE]) < 1_024) {
      throw new Error(`${VARIABLE} is ${process.env[VARIABLE]}; at least 1024 is needed for that many calls at once`)
    }
    return
  }
  if (process.execve === undefined)
    throw new Error(`set ${VARIABLE}=${REQUESTS}; this platform cannot set it by itself`)
  process.execve(process.execPath, [...ownCommand()], { ...environment(), [VARIABLE]: REQUESTS })
}

const environment = (): Record<string, string> =>
  Object.fromEntries(
    Object.entries(process.env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  )

/** How this process was started, to start it again: the program with its arguments, from source or compiled. */
export function ownCommand(): readonly string[] {
  const { execPath, execArgv, argv } = process
  // In a compiled binary the second argument is the path inside it, which a new process adds by itself.
  const compiled = argv[1]?.startsWith("/$bunfs/") === true
  return [execPath, ...(compiled ? argv.slice(2) : [...execArgv, ...argv.slice(1)])]
}
