/** A server in a process of its own, pinned to one core where that can be done, and what its process has used. */
import { readFileSync } from "node:fs"

export interface Child {
  readonly url: string
  readonly pid: number
  /** Seconds of processor time so far, user and system, all threads. */
  cpu(): number
  /** Resident memory, in MiB. */
  memory(): number
  stop(): Promise<void>
}

const TICKS_PER_SECOND = 100
const PAGE_MIB = 4096 / 2 ** 20

export async function startChild(
  command: readonly string[],
  env: Readonly<Record<string, string>>,
  ready: RegExp,
  core = "0",
): Promise<Child> {
  const pinned = Bun.which("taskset") === null ? [...command] : ["taskset", "-c", core, ...command]
  const child = Bun.spawn(pinned, {
    env: { ...process.env, BUN_CONFIG_MAX_HTTP_REQUESTS: "65535", ...env },
    stdout: "pipe",
    stderr: "inherit",
  })
  const url = await firstMatch(child.stdout, ready)
  const stat = () => readFileSync(`/proc/${child.pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? []
  return {
    url,
    pid: child.pid,
    cpu: () => (Number(stat()[11]) + Number(stat()[12])) / TICKS_PER_SECOND,
    memory: () => Number(readFileSync(`/proc/${child.pid}/statm`, "utf8").split(" ")[1]) * PAGE_MIB,
    async stop() {
      child.kill("SIGTERM")
      await Promise.race([child.exited, Bun.sleep(5_000)])
      child.kill("SIGKILL")
      await child.exited
    },
  }
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
