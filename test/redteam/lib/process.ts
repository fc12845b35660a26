/** What a gateway's process uses, from /proc, and how late it answers while it does. Milliseconds and MiB. */
import { readFileSync, readdirSync, writeFileSync } from "node:fs"
import { listenTo, open } from "./raw.ts"
import type { Finding, Size } from "./row.ts"

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

/** A gateway's process. */
interface Asks {
  readonly url: string
  readonly pid: number
}

export interface Pings {
  /** The longest that `/healthz` took, and the most that the event loop worked while it took so long. */
  stop(): Promise<{ readonly waitedMs: number; readonly workedMs: number }>
}

/**
 * Asks `/healthz` again and again, on one connection, until it is stopped. A busy machine makes an answer late too, so what
 * the event loop's thread worked meanwhile is told beside.
 */
export async function ping({ url, pid }: Asks): Promise<Pings> {
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

/**
 * What no body of any shape may cost: time of the event loop in all and at a stretch, and memory. A stretch of 10 ms is wanted;
 * what is measured are all stretches between a question and its answer.
 */
export const LOOP_MS = 300
export const MEMORY_MIB = 400
const STRETCH_MS = 50

interface Asked extends Size {
  readonly tried: string
  /** What was told. */
  readonly ask: () => Promise<string>
}

/** Processor time that a quiet machine takes to give a process 32 MiB of memory that it did not have, and to write to it; and no more is believed. */
const FRESH_MS = 15
const MOST_FRESH_MS = 200

/**
 * By how many milliseconds this machine takes longer for that, the least of three. A guest of another machine may take ten times as long
 * for a page, whoever asks for it: then each copy of a body costs that much more, and says nothing of what is done with it.
 */
function slowFreshMs(): number {
  const script =
    "const m = new Uint8Array(2 ** 25); const before = process.cpuUsage(); m.fill(1); const { user, system } = process.cpuUsage(before); console.log((user + system) / 1000)"
  const tookMs = Array.from({ length: 3 }, () =>
    Number(Bun.spawnSync([process.execPath, "-e", script]).stdout.toString()),
  )
  return Math.max(0, Math.min(...tookMs, MOST_FRESH_MS) - FRESH_MS)
}

/** Fresh copies of a whole body: as it comes, in one piece, as text, and as it goes to a backend; and of these in one turn. */
const COPIES = 4
const COPIES_AT_A_STRETCH = 2

/** What a request of any shape costs; the best of a few tries. */
export async function workOf(gateway: Asks, { tried, ask, full }: Asked): Promise<Finding> {
  const { pid } = gateway
  const freshMs = slowFreshMs()
  const loopMs = LOOP_MS + COPIES * freshMs
  const stretchMs = STRETCH_MS + COPIES_AT_A_STRETCH * freshMs
  let best = { loop: Infinity, all: 0, memory: 0, stretch: 0, waited: 0, told: "" }
  const within = () => best.loop <= loopMs && best.memory <= MEMORY_MIB && best.stretch <= stretchMs
  // Other work of the machine makes a try dearer, never cheaper.
  for (let attempt = 0; attempt < (full ? 5 : 3) && !within(); attempt++) {
    if (best.loop > 4 * loopMs && attempt > 0) break
    const pings = await ping(gateway)
    await Bun.sleep(50)
    forgetPeak(pid)
    const before = { ...cpuMs(pid), memory: residentMib(pid) }
    const told = await ask().catch(() => "connection lost")
    await Bun.sleep(100)
    const after = cpuMs(pid)
    const { waitedMs, workedMs } = await pings.stop()
    const seen = {
      loop: after.loop - before.loop,
      all: after.all - before.all,
      memory: peakMib(pid) - before.memory,
      stretch: workedMs,
      waited: waitedMs,
      told,
    }
    if (Math.max(seen.loop / loopMs, seen.stretch / stretchMs) < Math.max(best.loop / loopMs, best.stretch / stretchMs))
      best = seen
  }
  return {
    tried,
    seen: `${best.told}: event loop ${best.loop.toFixed(0)} ms (all threads ${best.all.toFixed(0)}), +${best.memory.toFixed(0)} MiB, at most ${best.stretch.toFixed(0)} ms at a stretch (others waited ${best.waited.toFixed(0)})${freshMs > 0 ? `; ${freshMs.toFixed(0)} ms more than usual for 32 MiB of memory` : ""}`,
    held: within() && best.told !== "connection lost",
  }
}
