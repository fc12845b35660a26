/** A supervisor and its workers, which are processes of their own: what they do when one ends, freezes, or does not start. */
import { afterEach, expect, test } from "bun:test"
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createLog } from "../../../src/log.ts"
import { Supervisor } from "../../../src/workers/supervisor.ts"
import { passLines } from "../../../src/workers/worker-process.ts"
import { until } from "../../eventually.ts"

const open: Supervisor[] = []
const directory = mkdtempSync(join(tmpdir(), "loket-workers-"))
/** While it is there, no fake worker starts. */
const broken = join(directory, "broken")
afterEach(async () => {
  rmSync(broken, { force: true })
  await Promise.all(open.splice(0).map((supervisor) => supervisor.stop()))
})

interface Logged {
  readonly event: string
  readonly worker?: number
  readonly pid?: number
  readonly how?: string
  readonly because?: string
}

type Times = NonNullable<ConstructorParameters<typeof Supervisor>[0]["times"]>

function supervise(workers: number, times: Times = {}, program = process.execPath) {
  const log: Logged[] = []
  const said: string[] = []
  const complaints: string[] = []
  const supervisor = new Supervisor({
    workers,
    command: [program, join(import.meta.dir, "fake-worker.ts")],
    env: { ...process.env, FAKE_BROKEN: broken, METRICS_PORT: "9", NOTIFY_SOCKET: "/nowhere" },
    port: 0,
    log: createLog("info", (line) => void log.push(JSON.parse(line) as Logged)),
    write: (lines) => void said.push(...lines.trimEnd().split("\n")),
    complain: (lines) => void complaints.push(lines),
    times: { pauseMs: 10, mostPauseMs: 40, answerMs: 60_000, ...times },
  })
  open.push(supervisor)
  const started = () => log.filter(({ event }) => event === "worker listening")
  return { supervisor, log, said, complaints, started, pids: () => started().map(({ pid }) => pid ?? 0) }
}

const get = (supervisor: Supervisor, path: string) => supervisor.respond(new Request(`http://127.0.0.1${path}`))
const metricsOf = async (supervisor: Supervisor) => await (await get(supervisor, "/metrics")).text()

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

test("all listen on the first one's port, their counts are added up, and they end when they are told to", async () => {
  const { supervisor, said, pids } = supervise(3)
  expect(await supervisor.start()).toBe("http://127.0.0.1:4321")
  expect(pids()).toHaveLength(3)
  await until(() => said.length === 3)
  expect(said.map((line) => line.split(" ").slice(1).join(" ")).sort()).toEqual(["0  true", "4321  true", "4321  true"])

  const metrics = await metricsOf(supervisor)
  expect(metrics).toContain("fake_calls_total 30\n")
  expect(metrics).toContain("fake_under_way 9\n")
  expect(metrics).toContain('fake_seconds_bucket{le="1"} 3\nfake_seconds_bucket{le="2"} 6\n')
  expect(metrics).toContain("fake_seconds_sum 18\nfake_seconds_count 9\n")
  expect(metrics).toContain('loket_workers{state="wanted"} 3\nloket_workers{state="listening"} 3\n')
  const answer = async (path: string) => (await get(supervisor, path)).status
  expect([await answer("/healthz"), await answer("/readyz"), await answer("/other")]).toEqual([200, 200, 404])

  await supervisor.stop()
  expect(pids().filter(isAlive)).toEqual([])
  expect(await answer("/readyz")).toBe(503)
  // What they had counted is not forgotten.
  expect(await metricsOf(supervisor)).toContain("fake_calls_total 30\n")
})

test("one that ends is started again, and what it had counted stays counted", async () => {
  const { supervisor, log, started, pids } = supervise(2)
  await supervisor.start()
  await metricsOf(supervisor)
  const [first = 0] = pids()
  process.kill(first, "SIGKILL")
  await until(() => started().length === 3)
  expect(log).toContainEqual(expect.objectContaining({ event: "worker ended", worker: 1, pid: first, how: "SIGKILL" }))
  expect(started().at(-1)).toMatchObject({ worker: 1 })
  const metrics = await metricsOf(supervisor)
  expect(metrics).toContain("fake_calls_total 30\n")
  expect(metrics).toContain("fake_under_way 6\n")
  expect(metrics).toContain('loket_worker_restarts_total{why="ended"} 1\n')
  // The supervisor's own log is counted beside those of the workers.
  expect(metrics).toContain('loket_log_events_total{level="error",event="worker ended"} 1\n')
  expect(metrics).toContain('loket_log_events_total{level="warn",event="fake"} 3\n')
})

test("one that cannot start again is tried until it can", async () => {
  const { supervisor, log, started, pids } = supervise(2)
  await supervisor.start()
  writeFileSync(broken, "")
  process.kill(pids()[0] ?? 0, "SIGKILL")
  await until(() => log.filter(({ how }) => how === "code 7").length >= 4)
  expect(started()).toHaveLength(2)
  rmSync(broken)
  await until(() => started().length === 3)
})

test("who asks for others before all listen gets them when they do, and nobody where they never do", async () => {
  const { supervisor, log, started, pids } = supervise(2)
  const replaced = supervisor.replaceAll()
  await supervisor.start()
  const first = pids()
  await replaced
  expect(started().map(({ worker }) => worker)).toEqual([1, 2, 1, 2])
  expect(first.filter(isAlive)).toEqual([])

  writeFileSync(broken, "")
  const never = supervise(2)
  const asked = never.supervisor.replaceAll()
  expect(await never.supervisor.start().catch(() => "ended")).toBe("ended")
  await asked
  expect([never.log, log.filter(({ event }) => event === "worker not replaced")]).toEqual([[], []])
})

test("a program that is not there for a while leaves no place empty, and the old ones stay", async () => {
  const program = join(directory, "program")
  symlinkSync(process.execPath, program)
  const { supervisor, log, started, pids } = supervise(2, {}, program)
  await supervisor.start()
  rmSync(program)
  await supervisor.replaceAll()
  expect(log.at(-1)).toMatchObject({ event: "worker not replaced", worker: 1 })
  expect(pids().every(isAlive)).toBe(true)
  process.kill(pids()[0] ?? 0, "SIGKILL")
  await until(() => log.filter(({ event }) => event === "worker not started").length >= 3)
  symlinkSync(process.execPath, program)
  await until(() => started().length === 3)
})

test("one that ends again and again is started ever more slowly, and each time is told", async () => {
  const { supervisor, log } = supervise(1, { pauseMs: 50, mostPauseMs: 200 })
  await supervisor.start()
  writeFileSync(broken, "")
  const since = performance.now()
  process.kill(log.find(({ event }) => event === "worker listening")?.pid ?? 0, "SIGKILL")
  const ended = () => log.filter(({ event }) => event === "worker ended")
  const at: number[] = []
  while (at.length < 6) {
    await until(() => ended().length > at.length)
    at.push(performance.now() - since)
  }
  // Between the end of one and the end of the next is the pause, and whatever the start takes.
  const between = at.slice(1).map((time, n) => time - (at[n] ?? 0))
  for (const [n, pauseMs] of [50, 100, 200, 200, 200].entries()) expect(between[n]).toBeGreaterThan(pauseMs * 0.9)
  expect(ended().map(({ how }) => how)).toEqual(["SIGKILL", ...Array.from({ length: 5 }, () => "code 7")])
})

test("one that is frozen is killed and started again", async () => {
  const { supervisor, log, started, pids } = supervise(2, { lookMs: 20, answerMs: 5_000 })
  await supervisor.start()
  const frozen = pids()[1] ?? 0
  process.kill(frozen, "SIGSTOP")
  await until(() => started().length === 3)
  expect(isAlive(frozen)).toBe(false)
  expect(log).toContainEqual(expect.objectContaining({ event: "worker frozen", pid: frozen }))
  expect(await metricsOf(supervisor)).toContain('loket_worker_restarts_total{why="frozen"} 1\n')
})

test("all are replaced, one after the other, and the old ones are gone", async () => {
  const { supervisor, log, started, pids } = supervise(2)
  await supervisor.start()
  const old = pids()
  await supervisor.replaceAll()
  expect(started().map(({ worker }) => worker)).toEqual([1, 2, 1, 2])
  expect(new Set(pids()).size).toBe(4)
  expect(old.filter(isAlive)).toEqual([])
  expect(log.filter(({ event }) => event === "worker ended")).toEqual([])
  const metrics = await metricsOf(supervisor)
  expect(metrics).toContain("fake_calls_total 40\n")
  expect(metrics).toContain('loket_worker_restarts_total{why="replaced"} 2\n')
})

test("asked to replace all while it does, it does it once more", async () => {
  const { supervisor, started } = supervise(1)
  await supervisor.start()
  await Promise.all([supervisor.replaceAll(), supervisor.replaceAll(), supervisor.replaceAll()])
  expect(started()).toHaveLength(3)
})

test("where a new one does not start, the old ones stay, and the log says why", async () => {
  const { supervisor, log, complaints, pids } = supervise(2)
  await supervisor.start()
  writeFileSync(broken, "")
  await supervisor.replaceAll()
  expect(log.at(-1)).toMatchObject({ event: "worker not replaced", worker: 1, because: "broken" })
  expect(complaints).toEqual(["broken\n"])
  expect(pids()).toHaveLength(2)
  expect(pids().every(isAlive)).toBe(true)
})

test("where one does not start at first, none is left", async () => {
  const { supervisor, started } = supervise(2)
  writeFileSync(broken, "")
  expect(await supervisor.start().catch(String)).toContain("it ended with code 7")
  await supervisor.stop()
  expect(started()).toEqual([])
})

test("lines are passed on whole, however they come", async () => {
  const passed: string[] = []
  const parts = ['{"a":1}\n{"b"', ":2", "}\n", '{"ä":3}\n{"c":4}']
  const bytes = Buffer.from(parts.join(""))
  const cut = bytes.indexOf(0xc3) + 1
  const stream = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const [from, to] of [
        [0, 3],
        [3, 12],
        [12, cut],
        [cut, bytes.length],
      ] as const)
        controller.enqueue(new Uint8Array(bytes.subarray(from, to)))
      controller.close()
    },
  })
  await passLines(stream, (lines) => void passed.push(lines))
  expect(passed.every((lines) => lines.endsWith("\n"))).toBe(true)
  expect(passed.join("")).toBe(`${parts.join("")}\n`)
})

/** How long the pieces are in which these are passed on. */
async function passedOf(pieces: readonly string[]): Promise<number[]> {
  const passed: string[] = []
  const stream = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(new TextEncoder().encode(piece))
      controller.close()
    },
  })
  await passLines(stream, (lines) => void passed.push(lines))
  expect(passed.join("")).toBe(pieces.join(""))
  return passed.map(({ length }) => length)
}

test("of a line without an end 1 MiB is waited for and more is passed on, and no shorter one is torn", async () => {
  const MIB = 1024 * 1024
  const long = "x".repeat(MIB)
  expect(await passedOf([long, "\n", "y\n"])).toEqual([MIB + 1, 2])
  expect(await passedOf([long, "x", "\n", "y\n"])).toEqual([MIB + 1, 1, 2])
  expect(await passedOf([long, "x\ny", "y\n"])).toEqual([MIB + 2, 3])
  expect(await passedOf([`x\n${long}`, "y", "\n"])).toEqual([2, MIB + 1, 1])
})
