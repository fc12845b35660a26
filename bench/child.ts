/** A server in a process of its own, pinned to one core where that can be done, and what it and its children have used. */
import { readdirSync, readFileSync } from "node:fs"

export interface Child {
  readonly url: string
  readonly pid: number
  /** Seconds of processor time so far, user and system, all threads, with all child processes. */
  cpu(): number
  /** Resident memory, in MiB, with all child processes. */
  memory(): number
  stop(): Promise<void>
}

/** The core of the thing under test. The load, the backend and PostgreSQL have the other one. */
export const TEST_CORE = "0"
export const LOAD_CORE = "1"

const TICKS_PER_SECOND = 100
const PAGE_MIB = 4096 / 2 ** 20

export const pinned = (core: string, command: readonly string[]): string[] =>
  Bun.which("taskset") === null ? [...command] : ["taskset", "-c", core, ...command]

/** All threads of this process, and those that it starts from here on. */
export function pinThisProcess(core: string): void {
  if (Bun.which("taskset") !== null) Bun.spawnSync(["taskset", "-acp", core, String(process.pid)])
}

interface ChildOptions {
  readonly core?: string
  /** Where its standard error goes; without it, to this process's own. */
  readonly stderrFile?: string
}

/**
 * Starts a command and waits until it serves: for the line that matches `ready`, whose first group is the server's
 * address, or until something listens at the address that `ready` is.
 */
export async function startChild(
  command: readonly string[],
  env: Readonly<Record<string, string>>,
  ready: RegExp | string,
  { core = TEST_CORE, stderrFile }: ChildOptions = {},
): Promise<Child> {
  const child = Bun.spawn(pinned(core, command), {
    env: { ...process.env, BUN_CONFIG_MAX_HTTP_REQUESTS: "65535", ...env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: stderrFile === undefined ? "inherit" : Bun.file(stderrFile),
  })
  const url = typeof ready === "string" ? await listening(ready, child) : await firstMatch(child.stdout, ready)
  return {
    url,
    ...usageOf(child.pid),
    async stop() {
      child.kill("SIGTERM")
      await Promise.race([child.exited, Bun.sleep(5_000)])
      child.kill("SIGKILL")
      await child.exited
    },
  }
}

export const usageOf = (pid: number): Pick<Child, "pid" | "cpu" | "memory"> => ({
  pid,
  cpu: () => {
    const processes = family(pid)
    // What children used that have ended is counted at their parent, once it has waited for them.
    const ticks = processes.reduce((sum, { fields }) => sum + ticksOf(fields, 4), 0)
    return ticks / TICKS_PER_SECOND
  },
  memory: () => family(pid).reduce((sum, { fields }) => sum + Number(fields[21]) * PAGE_MIB, 0),
})

/** User and system time, and with four fields that of ended children too. Field numbers as in proc(5), less 3. */
const ticksOf = (fields: readonly string[], count: number): number =>
  fields.slice(11, 11 + count).reduce((sum, ticks) => sum + Number(ticks), 0)

interface Process {
  readonly pid: number
  readonly parent: number
  /** Those of /proc/PID/stat, from the state on. */
  readonly fields: readonly string[]
}

/** A process and its descendants. */
function family(pid: number): Process[] {
  const processes = readdirSync("/proc").flatMap((name) => (/^\d+$/.test(name) ? readProcess(Number(name)) : []))
  const found = processes.filter((each) => each.pid === pid)
  for (const parent of found) found.push(...processes.filter((each) => each.parent === parent.pid))
  return found
}

function readProcess(pid: number): Process[] {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? []
    return [{ pid, parent: Number(fields[1]), fields }]
  } catch {
    return []
  }
}

async function listening(
  url: string,
  child: { readonly stdout: ReadableStream<Uint8Array>; readonly exitCode: number | null },
): Promise<string> {
  void drain(child.stdout.getReader())
  for (let tries = 0; tries < 200 && child.exitCode === null; tries++) {
    const answered = await fetch(url).then(
      () => true,
      () => false,
    )
    if (answered) return url
    await Bun.sleep(50)
  }
  throw new Error(`nothing listens at ${url}`)
}

async function firstMatch(output: ReadableStream<Uint8Array>, pattern: RegExp): Promise<string> {
  const decoder = new TextDecoder()
  let text = ""
  const reader = output.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) throw new Error(`ended before it was ready: ${text}`)
    text += decoder.decode(value, { stream: true })
    const found = pattern.exec(text)?.[1]
    if (found === undefined) continue
    void drain(reader)
    return found
  }
}

async function drain(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
  while (!(await reader.read()).done);
}
