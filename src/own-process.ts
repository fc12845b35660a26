/**
 * This process, as the machine runs it. First what systemd is told of this process, where its unit says `Type=notify`: that it takes
 * calls, that it stops, and by a sign from the event loop at a third of `WatchdogSec` that it is neither frozen nor stuck in a
 * turn (sd_notify(3), sd_watchdog_enabled(3)). Elsewhere nobody is told. The message is a datagram to a unix socket, which Bun
 * itself cannot send.
 *
 * Then the signals that it ends or stops at, and what is thrown where nobody catches it.
 *
 * Then what Bun reads of the environment when a process starts, for which the process replaces itself once, with the same id: how many
 * requests it may have in flight, of which Bun's `fetch` allows 256 and queues the rest in silence; and when and how memory that is free
 * is given back to the kernel. Last, when it may start a thread.
 */
import { dlopen, ptr } from "bun:ffi"
import { closeSync, openSync, readFileSync } from "node:fs"
import { constants, hostname } from "node:os"
import type { Log } from "./log.ts"

export interface ServiceManager {
  /** It takes calls; from now on it gives signs of life. */
  ready(): void
  /** It gives signs of life until it ends. */
  stopping(): void
}

type Environment = Readonly<Record<string, string | undefined>>

const SIGNS_PER_WATCHDOG = 3
const MICROSECONDS = 1_000

export function serviceManager(environment: Environment, log: Pick<Log, "warn">): ServiceManager {
  const address = environment["NOTIFY_SOCKET"]
  if (address === undefined || address === "") return { ready() {}, stopping() {} }
  const send = datagramsTo(address)
  let failed = false
  const tell = (state: string) => {
    const problem = send(state)
    if (problem !== undefined && !failed) log.warn("systemd not told", { state, error: problem })
    failed = problem !== undefined
  }
  const everyMs = watchdogMs(environment) / SIGNS_PER_WATCHDOG
  return {
    ready() {
      tell("READY=1")
      if (everyMs > 0) setInterval(() => tell("WATCHDOG=1"), everyMs)
    },
    stopping: () => tell("STOPPING=1"),
  }
}

/** 0 when the unit has no watchdog, or it is another process's. */
function watchdogMs({ WATCHDOG_USEC: usec = "", WATCHDOG_PID: pid }: Environment): number {
  if (pid !== undefined && Number(pid) !== process.pid) return 0
  return /^\d+$/.test(usec) ? Number(usec) / MICROSECONDS : 0
}

const AF_UNIX = 1
const SOCK_DGRAM_CLOEXEC = 2 | 0o2000000
const MSG_DONTWAIT_NOSIGNAL = 0x40 | 0x4000

/** Sends a text, and returns what went wrong. A leading `@` names a socket in the abstract namespace. */
function datagramsTo(address: string): (text: string) => string | undefined {
  let libc: ReturnType<typeof openLibc>
  try {
    libc = openLibc()
  } catch (error) {
    return () => String(error)
  }
  const path = Buffer.from(address.startsWith("@") ? `\0${address.slice(1)}` : address)
  const target = Buffer.concat([new Uint8Array(new Uint16Array([AF_UNIX]).buffer), path])
  return (text) => {
    const socket = libc.socket(AF_UNIX, SOCK_DGRAM_CLOEXEC, 0)
    if (socket < 0) return "no socket can be opened"
    const bytes = Buffer.from(text)
    const sent = libc.sendto(socket, ptr(bytes), bytes.length, MSG_DONTWAIT_NOSIGNAL, ptr(target), target.length)
    libc.close(socket)
    return sent === BigInt(bytes.length) ? undefined : `nothing can be sent to ${address}`
  }
}

const openLibc = () =>
  dlopen("libc.so.6", {
    socket: { args: ["i32", "i32", "i32"], returns: "i32" },
    sendto: { args: ["i32", "ptr", "u64", "i32", "ptr", "u32"], returns: "i64" },
    close: { args: ["i32"], returns: "i32" },
  }).symbols

/**
 * What a process stops in order at. SIGHUP is one for a process that serves alone, such as when its terminal is closed, unless it was
 * started to ignore it, as `nohup` does. Of several processes the supervisor takes it for another thing.
 */
const stopSignals = (isOfSeveral: boolean): readonly NodeJS.Signals[] =>
  isOfSeveral || ignoresHangUp() ? ["SIGTERM", "SIGINT"] : ["SIGTERM", "SIGINT", "SIGHUP"]

/** Asked before a handler is set. Signals are bits in hex from the right, of which SIGHUP is the first (proc(5)). Only Linux says it. */
function ignoresHangUp(): boolean {
  try {
    return /^SigIgn:\s*[0-9a-f]*[13579bdf]$/m.test(readFileSync("/proc/self/status", "utf8"))
  } catch {
    return false
  }
}

/**
 * The first process of a container is sent no signal that it has no handler for (pid_namespaces(7)), so that SIGKILL alone could end it
 * until it takes calls. These end it as they end any other process, until `stopAt` has it stop in order.
 */
export function endAtSignals(): void {
  if (process.pid === 1) for (const signal of stopSignals(true)) process.on(signal, endAtOnce)
}

const endAtOnce = (signal: NodeJS.Signals) => process.exit(128 + constants.signals[signal])

/** Each time that one of the signals comes. */
export function stopAt(isOfSeveral: boolean, stop: (signal: NodeJS.Signals) => void): void {
  for (const signal of stopSignals(isOfSeveral)) process.off(signal, endAtOnce).on(signal, () => stop(signal))
}

/**
 * Throws in a timer and rejections that nobody waits for are bugs, and are told like those of the edge. The process goes on, as
 * it does without this: Bun ends none whose entry awaits, and writes the error where no alert sees it.
 */
export function logStrayErrors(log: Pick<Log, "error">): void {
  for (const event of ["uncaughtException", "unhandledRejection"])
    process.on(event, (error: unknown) =>
      log.error("unhandled", { error: error instanceof Error ? (error.stack ?? error.message) : String(error) }),
    )
}

const REQUEST_LIMIT = "BUN_CONFIG_MAX_HTTP_REQUESTS"
/** What a process of the gateway starts with, unless its environment says otherwise. */
export const runtimeSettings = {
  /** More than `MAX_CONCURRENCY` may be, with retries and webhooks on top. */
  [REQUEST_LIMIT]: "65535",
  /**
   * Milliseconds until memory that is free is given back. With Bun's tenth of a second most of it is wanted again by the next
   * collection, or the next large body, and to get it from the kernel costs more than to keep it.
   */
  MIMALLOC_PURGE_DELAY: "10000",
  /**
   * Free blocks between blocks in use are not given back. Bun does it whenever a thread has nothing to do, in pieces of a few kilobytes,
   * and a gateway wants them again with the next call.
   */
  MIMALLOC_PURGE_HOLES: "0",
} as const

/** Replaces this process by one with `runtimeSettings`, unless its environment has the limit already. */
export function ensureRuntimeSettings(): void {
  if (process.env[REQUEST_LIMIT] !== undefined) {
    if (!(Number(process.env[REQUEST_LIMIT]) >= 1_024)) {
      throw new Error(
        `${REQUEST_LIMIT} is ${process.env[REQUEST_LIMIT]}; at least 1024 is needed for that many calls at once`,
      )
    }
    return
  }
  if (process.execve === undefined)
    throw new Error(`set ${REQUEST_LIMIT}=${runtimeSettings[REQUEST_LIMIT]}; this platform cannot set it by itself`)
  process.execve(process.execPath, [...ownCommand()], { ...runtimeSettings, ...environment() })
}

const environment = (): Record<string, string> =>
  Object.fromEntries(
    Object.entries(process.env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  )

const LOOPBACK = "localhost,127.0.0.0/8,::1,[::1]"

/**
 * Bun's `fetch` goes by HTTP_PROXY to this machine too, unless NO_PROXY says otherwise, and a proxy elsewhere finds nobody there: not the
 * simulator, no collector and no backend that runs beside the gateway. Where `no_proxy` is set, it counts alone.
 */
export function reachLoopbackDirectly(): void {
  const name = process.env["no_proxy"] ? "no_proxy" : "NO_PROXY"
  const known = process.env[name] ?? ""
  // This process may have replaced itself, or be another one's worker.
  if (!known.includes(LOOPBACK)) process.env[name] = known === "" ? LOOPBACK : `${known},${LOOPBACK}`
}

/** How this process was started, to start it again: the program with its arguments, from source or compiled. */
export function ownCommand(): readonly string[] {
  const { execPath, execArgv, argv } = process
  // In a compiled binary the second argument is the path inside it, which a new process adds by itself.
  const compiled = argv[1]?.startsWith("/$bunfs/") === true
  return [execPath, ...(compiled ? argv.slice(2) : [...execArgv, ...argv.slice(1)])]
}

/** Who runs this process and on which machine, as in `ana@gateway-1`: of `sudo` who used it, and otherwise the user whose process it is. */
export function whoRuns(): string {
  const name = process.env["SUDO_USER"] || nameOf(process.getuid?.() ?? 0)
  return `${name.slice(0, LONGEST_NAME).replaceAll(/[^\w.@-]/g, "_")}@${hostname()}`
}

const LONGEST_NAME = 64

/** Bun's own `userInfo` says what stands in `USER`. */
function nameOf(uid: number): string {
  try {
    const users = readFileSync("/etc/passwd", "utf8")
      .split("\n")
      .map((line) => line.split(":"))
    return users.find(([, , id]) => id === String(uid))?.[0] ?? `uid-${uid}`
  } catch {
    return `uid-${uid}`
  }
}

/** A thread's event loop takes two; the others are for the files that its program is read from. */
const DESCRIPTORS_OF_A_THREAD = 8

/**
 * Whether there are file descriptors for a thread with an event loop, such as a worker's. Bun ends the whole process where such a thread
 * finds none, and with it all calls under way. Nothing else opens any before this thread's next turn, but for requests to backends.
 */
export function hasRoomForThread(): boolean {
  const opened: number[] = []
  using _ = { [Symbol.dispose]: () => opened.forEach(closeSync) }
  try {
    while (opened.length < DESCRIPTORS_OF_A_THREAD) opened.push(openSync("/dev/null", "r"))
    return true
  } catch (error) {
    return !/^E[MN]FILE$/.test((error as NodeJS.ErrnoException).code ?? "")
  }
}

/**
 * Bun's HTTP client has a thread of its own, which its first request starts. Started with the process it finds its descriptors; the first
 * call may come together with more connections than the process may have. Asks nobody: there is no such socket.
 */
export async function startHttpThread(): Promise<void> {
  await fetch("http://none.invalid/", { unix: "/dev/null/none" }).catch(() => {})
}
