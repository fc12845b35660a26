/** What a gateway's process uses, from /proc, and how late it answers while it does. Milliseconds and MiB. */
import { readFileSync, readdirSync, writeFileSync } from "node:fs"
import { listenTo, open } from "./raw.ts"

/** Of the thread of the event loop, and of all threads. */
export function cpuMs(pid: number): { readonly loop: number; readonly all: number } {
  let all = 0
  for (const task of readdirSync(`/proc/${pid}/task`)) all += threadMs(pid, task)
  return { loop: threadMs(pid, String(pid)), all }
}

function threadMs(pid: number, task: string): number {
  try {
    return Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, "utf8").split(" ")[0]) / 1e6
  } catch {
    return 0
  }
}

const status = (pid: number, field: string): number =>
  Number(new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1024

export const residentMib = (pid: number): number => status(pid, "VmRSS")
export const peakMib = (pid: number): number => status(pid, "VmHWM")

/** From here on the peak counts anew. */
export const forgetPeak = (pid: number): void => writeFileSync(`/proc/${pid}/clear_refs`, "5")

export const descriptors = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length

export interface Pings {
  /** The longest that `/healthz` took, and the most that the event loop worked while it took so long. */
  stop(): Promise<{ readonly waitedMs: number; readonly workedMs: number }>
}

/**
 * Asks `/healthz` again and again, on one connection, until it is stopped. A busy machine makes an answer late too, so what
 * the event loop's thread worked meanwhile is told beside.
 */
export async function ping({ url, pid }: { readonly url: string; readonly pid: number }): Promise<Pings> {
  const socket = await open(url)
  const stream = listenTo(socket)
  let waitedMs = 0
  let workedMs = 0
  const stopping = new AbortController()
  const asking = async () => {
    let answers = 0
    while (!stopping.signal.aborted) {
      const at = performance.now()
      const worked = threadMs(pid, String(pid))
      socket.write("GET /healthz HTTP/1.1\r\nHost: loket.test\r\n\r\n")
      answers++
      const came = await stream.readUntil((text) => text.split("HTTP/1.1 ").length > answers, 60_000)
      waitedMs = Math.max(waitedMs, performance.now() - at)
      workedMs = Math.max(workedMs, threadMs(pid, String(pid)) - worked)
      if (!came) break
      await Bun.sleep(5)
    }
    socket.destroy()
  }
  const done = asking()
  return {
    async stop() {
      stopping.abort()
      await done
      return { waitedMs, workedMs }
    },
  }
}
