/**
 * `bun bench/profile.ts [row …]`: where the CPU of Loket's calls goes, on PostgreSQL with 64 clients. By thread from the
 * kernel's count; of the main thread by file and by function, from Bun's sampling profiler; and what the calls allocate,
 * from the collector's log. Rows are those of
 * `bun run bench --only`; `translated.` before one is its other kind. `CALLS` is how many, after as many to warm up, and `TOP` how many lines.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { startBackend } from "./backend.ts"
import { LOAD_CORE, pinThisProcess } from "./child.ts"
import { run } from "./load.ts"
import { startPostgres } from "./postgres.ts"
import { answers, bodyOf, type CallName, calls, endingOf, headersOf } from "./rows.ts"
import { targets } from "./targets.ts"

const CALLS = Number(process.env["CALLS"] ?? 15_000)
const TOP = Number(process.env["TOP"] ?? 40)
const LONGEST_MS = 60_000
const CLIENTS = 64
const INTERVAL_US = 200

interface Profile {
  readonly nodes: readonly {
    readonly id: number
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number }
    readonly children?: readonly number[]
  }[]
  readonly samples: readonly number[]
  readonly timeDeltas: readonly number[]
  readonly startTime: number
  readonly endTime: number
}

/** Milliseconds by the thread's name, and of the main thread apart. */
function threads(pid: number): Map<string, number> {
  const used = new Map<string, number>()
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    const directory = `/proc/${pid}/task/${task}`
    const name = task === String(pid) ? "main" : readFileSync(`${directory}/comm`, "utf8").trim()
    const ms = Number(readFileSync(`${directory}/schedstat`, "utf8").split(" ")[0]) / 1e6
    used.set(name, (used.get(name) ?? 0) + ms)
  }
  return used
}

async function profile(named: string): Promise<void> {
  const kind = named.startsWith("translated.") ? "translated" : "same"
  const call = named.replace("translated.", "") as CallName
  const directory = mkdtempSync(join(tmpdir(), "loket-bench-profile-"))
  const backend = await startBackend(answers)
  const postgres = await startPostgres()
  const flags = ["--cpu-prof", `--cpu-prof-dir=${directory}`, `--cpu-prof-interval=${INTERVAL_US}`]
  const collections = join(directory, "collections")
  process.env["BUN_JSC_logGC"] = "1"
  const options = {
    backendUrl: backend.url,
    answers: Object.keys(answers),
    postgres,
    inspection: { flags, stderrFile: collections },
  }
  const target = await targets.postgres(options)
  if (typeof target === "string") throw new Error(target)
  const request = target.request(calls[call].answer, kind)
  if (request === undefined || target.child === undefined) throw new Error("cannot be asked")
  const body = bodyOf(call, request.model)
  const load = {
    url: request.url,
    headers: { ...request.headers, ...headersOf(call) },
    body,
    clients: CLIENTS,
    ending: endingOf(call),
    calls: CALLS,
    durationMs: LONGEST_MS,
  }
  await run(load)
  const before = threads(target.child.pid)
  const from = Date.now()
  const logged = readFileSync(collections, "utf8").length
  const measured = await run(load)
  const until = Date.now()
  const after = threads(target.child.pid)
  await target.child.stop()
  await postgres?.stop()
  backend.stop()
  const perCall = (name: string) => (((after.get(name) ?? 0) - (before.get(name) ?? 0)) * 1_000) / measured.calls
  const total = [...after.keys()].reduce((sum, name) => sum + perCall(name), 0)
  console.log(`\n## ${named}, ${CLIENTS} clients: ${total.toFixed(0)} µs of CPU a call under the profiler`)
  const lines = [...after.keys()].map((name): [string, number] => [name, perCall(name)])
  for (const [name, us] of lines.toSorted((a, b) => b[1] - a[1]).slice(0, 8)) {
    console.log(`${us.toFixed(1).padStart(8)}  ${name}`)
  }
  console.log(`\n${garbage(readFileSync(collections, "utf8").slice(logged), measured.calls)}`)
  const [file] = readdirSync(directory).filter((name) => name.endsWith(".cpuprofile"))
  const taken = JSON.parse(readFileSync(join(directory, file ?? ""), "utf8")) as Profile
  rmSync(directory, { recursive: true, force: true })
  report(taken, from * 1_000, until * 1_000, perCall("main"))
}

/** Between two collections the heap grows by what was allocated; a collection is made of pauses. */
function garbage(log: string, made: number): string {
  let kilobytes = 0
  let left: number | undefined
  for (const [, found, remains] of log.matchAll(/START M (\d+)kb|=> (\d+)kb/g)) {
    if (found !== undefined && left !== undefined) kilobytes += Number(found) - left
    if (remains !== undefined) left = Number(remains)
  }
  const pauseMs = [...log.matchAll(/ p=([\d.]+)ms/g)].reduce((sum, [, ms]) => sum + Number(ms), 0)
  return `${(kilobytes / made).toFixed(0)} KB allocated a call; collections stop the main thread for ${((pauseMs * 1_000) / made).toFixed(0)} µs a call`
}

/** What of the main thread's microseconds a call each function has: its own, and with all that it calls. */
function report(taken: Profile, fromUs: number, untilUs: number, mainUs: number): void {
  const parents = new Map(
    taken.nodes.flatMap(({ id, children }) => (children ?? []).map((child) => [child, id] as const)),
  )
  const nodes = new Map(taken.nodes.map((node) => [node.id, node]))
  const own = new Map<string, number>()
  const within = new Map<string, number>()
  const files = new Map<string, number>()
  let at = taken.startTime
  let samples = 0
  for (const [index, leaf] of taken.samples.entries()) {
    at += taken.timeDeltas[index] ?? 0
    const inTime = at >= fromUs && at <= untilUs
    const node = nodes.get(leaf)
    if (!inTime || node === undefined || node.callFrame.functionName === "(idle)") continue
    samples++
    const seen = new Set<string>()
    add(own, nameOf(node))
    let source: string | undefined
    for (let id: number | undefined = leaf; id !== undefined; id = parents.get(id)) {
      const frame = nodes.get(id)
      if (frame === undefined) continue
      seen.add(nameOf(frame))
      if (frame.callFrame.url.includes("/")) source ??= fileOf(frame)
    }
    add(files, source ?? "(Bun alone: sockets, timers, promises)")
    for (const name of seen) add(within, name)
  }
  const print = (title: string, sums: ReadonlyMap<string, number>) => {
    console.log(`\n${title}, µs a call (${samples} samples)`)
    for (const [name, count] of [...sums].toSorted((a, b) => b[1] - a[1]).slice(0, TOP)) {
      const share = `${((count / samples) * 100).toFixed(1)} %`
      console.log(`${((count / samples) * mainUs).toFixed(1).padStart(8)} ${share.padStart(7)}  ${name}`)
    }
  }
  print("Main thread, by file, with what of Bun's own it calls", files)
  print("Main thread, by function, its own", own)
  print("Main thread, by function, with all that it calls", within)
}

const add = (sums: Map<string, number>, name: string) => sums.set(name, (sums.get(name) ?? 0) + 1)

type Node = Profile["nodes"][number]

const root = join(import.meta.dir, "..")

const fileOf = ({ callFrame: { url, functionName } }: Node): string =>
  url === "" ? `(native) ${functionName}` : url.replace("file://", "").replace(`${root}/`, "")

const nameOf = (node: Node): string =>
  `${node.callFrame.functionName || "(anonymous)"}  ${fileOf(node)}:${node.callFrame.lineNumber + 1}`

const USAGE = `usage: bun bench/profile.ts [row …]

Where the CPU of Loket's calls goes. Without rows: plain stream-20. A row is one of

  ${Object.keys(calls).join(" ")}

or "translated." and one of these.

CALLS=15000  how many calls, after as many to warm up
TOP=40       how many lines of each list`

const asked = process.argv.slice(2)
const unknown = asked.find((named) => !Object.hasOwn(calls, named.replace(/^translated\./, "")))
if (asked.includes("--help") || asked.includes("-h")) {
  console.log(USAGE)
  process.exit(0)
}
if (unknown !== undefined) {
  console.error(`unknown row ${JSON.stringify(unknown)}\n\n${USAGE}`)
  process.exit(2)
}
for (const named of asked.length > 0 ? asked : ["plain", "stream-20"]) {
  pinThisProcess(LOAD_CORE)
  await profile(named)
}
process.exit(0)
