import { expect, test } from "bun:test"
import { rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { runtimeSettings, serviceManager } from "../src/own-process.ts"
import { NotifySocket } from "./processes/notify-socket.ts"

const warnings: string[] = []
const log = { warn: (event: string) => void warnings.push(event) }

for (const [where, abstract] of [
  ["a file", false],
  ["the abstract namespace", true],
] as const)
  test(`a manager whose socket is in ${where} is told of the start and the stop`, () => {
    using socket = new NotifySocket(abstract)
    const manager = serviceManager({ NOTIFY_SOCKET: socket.address }, log)
    expect(socket.heard()).toEqual([])
    manager.ready()
    manager.stopping()
    expect(socket.heard()).toEqual(["READY=1", "STOPPING=1"])
    expect(warnings).toEqual([])
  })

test("a manager that nobody reaches is complained of once, and one that is not there not at all", () => {
  const manager = serviceManager({ NOTIFY_SOCKET: "/nowhere/at/all" }, log)
  manager.ready()
  manager.stopping()
  expect(warnings).toEqual(["systemd not told"])
  serviceManager({}, log).ready()
  expect(warnings).toHaveLength(1)
})

for (const [whose, own] of [
  ["the gateway's", {}],
  ["its environment's own", { MIMALLOC_PURGE_DELAY: "50" }],
] as const)
  test(`a process replaces itself once, and then has ${whose} settings`, async () => {
    const program = join(tmpdir(), `loket-settings-${crypto.randomUUID()}.ts`)
    const source = join(import.meta.dir, "../src/own-process.ts")
    writeFileSync(
      program,
      `import { ensureRuntimeSettings, runtimeSettings } from ${JSON.stringify(source)}
       console.log(process.pid)
       ensureRuntimeSettings()
       console.log(JSON.stringify(Object.keys(runtimeSettings).map((name) => [name, process.env[name]])), process.argv[2])`,
    )
    const others = Object.fromEntries(Object.entries(process.env).filter(([name]) => !(name in runtimeSettings)))
    const child = Bun.spawn([process.execPath, program, "its argument"], { env: { ...others, ...own }, stdout: "pipe" })
    const told = JSON.stringify(Object.entries({ ...runtimeSettings, ...own }))
    const said = await new Response(child.stdout).text()
    rmSync(program)
    expect(said).toBe(`${child.pid}\n${child.pid}\n${told} its argument\n`)
  })

const from = (path: string) => JSON.stringify(join(import.meta.dir, "../src", path))

test("where no descriptor is left no thread is started, which would end the process", async () => {
  const source = `
    const { openSync } = await import("node:fs")
    const { startHttpThread } = await import(${from("own-process.ts")})
    const { createLog } = await import(${from("log.ts")})
    const { LargeBodies } = await import(${from("bodies/bodies.ts")})
    const { BodyWorkers } = await import(${from("bodies/workers.ts")})
    const { PdfWorker, print } = await import(${from("pdf/reader.ts")})
    const { systemClock } = await import(${from("../actors/kernel/clock.ts")})
    await startHttpThread()
    const lines = []
    const log = createLog("info", (line) => lines.push(JSON.parse(line).event))
    const bodies = new LargeBodies(new BodyWorkers({ log, workers: 1, waitMs: 1_000 }))
    try {
      for (;;) openSync("/dev/null", "r")
    } catch {}
    const body = new TextEncoder().encode('{"model":"m","messages":[]}')
    const told = await Promise.all([
      fetch("http://127.0.0.1:1/").catch(() => "not reached"),
      bodies.read(body, "a", "chat").then(({ code }) => code),
      new PdfWorker(systemClock).read("JVBERi0=", "a").then((reading) => reading ?? "not read"),
      print({ title: "", pages: [] }).catch(({ message }) => message),
    ])
    console.log(JSON.stringify([...told, ...lines]))
    process.exit(0)`
  const child = Bun.spawn(["sh", "-c", `ulimit -n 64; exec "$0" -e "$1"`, process.execPath, source], { stderr: "pipe" })
  const [said, complained] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  expect([complained, said && JSON.parse(said)]).toEqual([
    "",
    ["not reached", "gateway.capacity", "not read", "no file descriptor is left to draw it", "body worker ended"],
  ])
})
