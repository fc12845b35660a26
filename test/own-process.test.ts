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
    const { BUN_CONFIG_MAX_HTTP_REQUESTS: _, MIMALLOC_PURGE_DELAY: __, ...others } = process.env
    const child = Bun.spawn([process.execPath, program, "its argument"], { env: { ...others, ...own }, stdout: "pipe" })
    const told = JSON.stringify(Object.entries({ ...runtimeSettings, ...own }))
    const said = await new Response(child.stdout).text()
    rmSync(program)
    expect(said).toBe(`${child.pid}\n${child.pid}\n${told} its argument\n`)
  })
