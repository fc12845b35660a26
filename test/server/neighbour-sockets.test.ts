/** The sockets on which the gateway's processes of one machine find each other. */
import { afterAll, afterEach, expect, test } from "bun:test"
import { once } from "node:events"
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs"
import { connect } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { HandoverRequest } from "../../src/gateway/response-handover.ts"
import { createLog } from "../../src/log.ts"
import { NeighbourSockets } from "../../src/server/sockets.ts"

const held = new DisposableStack()
afterAll(() => held.dispose())
afterEach(() => void (warned = []))

let warned: string[] = []
const log = createLog("warn", (line) => void warned.push(line))
const call = { keyHash: "ab".repeat(32), fingerprint: "cd".repeat(32) }

function place(): string {
  const directory = mkdtempSync(join(tmpdir(), "loket-n-"))
  held.defer(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}
const open = (dataDir: string, processId: string, handOver = says(processId)) =>
  NeighbourSockets.open({ dataDir, processId, log, handOver })
const says = (word: string) => (asked: HandoverRequest) =>
  new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(`${word} ${asked.keyHash === call.keyHash}`))
      controller.close()
    },
  })
const ask = async (from: NeighbourSockets | undefined, processId: string, what: HandoverRequest = call) => {
  const stream = await from?.ask(processId, what, new AbortController().signal)
  return stream && (await new Response(stream).text())
}

test("each is asked by its id, and one that is not there says nothing", async () => {
  const dataDir = place()
  const [one, two] = [open(dataDir, "prc_one"), open(dataDir, "prc_two")]
  expect(await ask(one, "prc_two")).toBe("prc_two true")
  expect(await ask(two, "prc_one")).toBe("prc_one true")
  for (const other of ["prc_three", "../neighbours/prc_two", "", "/etc/passwd"])
    expect(await ask(one, other)).toBeUndefined()
  await two?.stop()
  expect(existsSync(join(dataDir, "neighbours", "prc_two"))).toBeFalse()
  expect(await ask(one, "prc_two")).toBeUndefined()
  await one?.stop()
  expect(warned).toEqual([])
})

test("what is no question is refused", async () => {
  const dataDir = place()
  const one = open(dataDir, "prc_one")
  for (const wrong of [
    { ...call, keyHash: "AB" },
    { ...call, fingerprint: "x".repeat(2_000) },
  ])
    expect(await ask(one, "prc_one", wrong)).toBeUndefined()
  const unix = join(dataDir, "neighbours", "prc_one")
  expect((await fetch("http://neighbour/", { unix })).status).toBe(400)
  expect((await fetch("http://neighbour/", { unix, method: "POST", body: "{" })).status).toBe(400)
  await one?.stop()
})

test("a question has 1,024 bytes at most", async () => {
  const dataDir = place()
  const one = open(dataDir, "prc_one")
  const statusOf = async (bytes: number) => {
    const empty = JSON.stringify({ ...call, padding: "" })
    const body = JSON.stringify({ ...call, padding: "x".repeat(bytes - empty.length) })
    return (await fetch("http://neighbour/", { unix: join(dataDir, "neighbours", "prc_one"), method: "POST", body }))
      .status
  }
  expect([await statusOf(1_024), await statusOf(1_025)]).toEqual([200, 413])
  await one?.stop()
})

test("256 are answered at once, one more finds nothing, and the others have their answers whole", async () => {
  const dataDir = place()
  const { promise: mayEnd, resolve: end } = Promise.withResolvers<void>()
  const answered: string[] = []
  let asked = 0
  const one = open(dataDir, "prc_one", () => {
    asked++
    return new ReadableStream<Uint8Array>({
      async start(controller) {
        controller.enqueue(new TextEncoder().encode("begun"))
        await mayEnd
        controller.enqueue(new TextEncoder().encode(" and ended"))
        controller.close()
      },
    })
  })
  /** Without `fetch`, of whose requests a process has only so many at once. */
  const asks = () => {
    const body = JSON.stringify(call)
    const socket = connect(join(dataDir, "neighbours", "prc_one"))
    socket.write(`POST / HTTP/1.1\r\nHost: n\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
    return socket.setEncoding("utf8")
  }
  const all = Array.from({ length: 256 }, asks)
  await Promise.all(all.map(async (socket) => answered.push(await once(socket, "data").then(String))))
  expect([asked, answered.filter((text) => text.startsWith("HTTP/1.1 200")).length]).toEqual([256, 256])
  const more = asks()
  expect(String(await once(more, "data"))).toStartWith("HTTP/1.1 503")
  expect(asked).toBe(256)
  const rest = all.map(async (socket) => {
    let text = ""
    for await (const piece of socket) text += piece
    return text
  })
  end()
  for (const text of await Promise.all(rest)) expect(text).toContain("and ended")
  expect(await ask(one, "prc_one")).toBe("begun and ended")
  await one?.stop()
})

test("a directory that others could enter is closed; what is none, or has too long a name, is not used", async () => {
  const dataDir = place()
  const directory = join(dataDir, "neighbours")
  mkdirSync(directory, { mode: 0o755 })
  chmodSync(directory, 0o777)
  const one = open(dataDir, "prc_one")
  expect(statSync(directory).mode & 0o777).toBe(0o700)
  expect(statSync(join(directory, "prc_one")).mode & 0o777).toBe(0o600)
  await one?.stop()
  const [file, link] = [place(), place()]
  writeFileSync(join(file, "neighbours"), "")
  symlinkSync(directory, join(link, "neighbours"))
  expect([open(file, "prc_one"), open(link, "prc_one")]).toEqual([undefined, undefined])
  expect(warned).toHaveLength(2)
  const long = join(place(), "d".repeat(100))
  expect(open(long, "prc_one")).toBeUndefined()
  expect(warned.at(-1)).toContain("of a socket's")
})

test("a path may be as long as a socket's, and no longer", async () => {
  const base = place()
  const dataDir = join(base, "d".repeat(107 - Buffer.byteLength(join(base, "/neighbours/prc_one")) - 1))
  expect(Buffer.byteLength(join(dataDir, "neighbours/prc_one"))).toBe(107)
  const [one, other] = [open(dataDir, "prc_one"), open(dataDir, "prc_more")]
  expect(await ask(one, "prc_one")).toBe("prc_one true")
  expect(other).toBeUndefined()
  await one?.stop()
})

test("what killed processes have left is removed after a while", async () => {
  const dataDir = place()
  const directory = join(dataDir, "neighbours")
  mkdirSync(directory, { mode: 0o700 })
  const script = (name: string) =>
    `Bun.serve({ unix: ${JSON.stringify(join(directory, name))}, fetch: () => new Response("") }); console.log("ready")`
  for (const name of ["prc_old", "prc_young"]) {
    const child = Bun.spawn(["bun", "-e", script(name)], { stdout: "pipe" })
    await child.stdout.getReader().read()
    child.kill("SIGKILL")
    await child.exited
  }
  const living = open(dataDir, "prc_living")
  const old = new Date(Date.now() - 61_000)
  for (const name of ["prc_old", "prc_living"]) utimesSync(join(directory, name), old, old)
  const one = open(dataDir, "prc_one")
  for (const until = performance.now() + 20_000; existsSync(join(directory, "prc_old")); await Bun.sleep(5))
    if (performance.now() > until) throw new Error("it is still there")
  expect(await ask(one, "prc_living")).toBe("prc_living true")
  expect(existsSync(join(directory, "prc_young"))).toBeTrue()
  await one?.stop()
  await living?.stop()
})
