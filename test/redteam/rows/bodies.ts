/** Requests: bodies that are dear to read (D1), that never end (D2), that are refused while they come (D6), and headers (D10). */
import type { Socket } from "node:net"
import type { Arena } from "../lib/arena.ts"
import { asking } from "../lib/attacker.ts"
import { bodies, type ShapeName } from "../lib/bodies.ts"
import { LOOP_MS, MEMORY_MIB, residentMib, workOf } from "../lib/process.ts"
import { drained, head, listenTo, open } from "../lib/raw.ts"
import type { Finding, Row } from "../lib/row.ts"

const MIB = 32
const aimedAt: readonly (readonly [ShapeName, "chat" | "messages", string])[] = [
  ["tinyMessages", "chat", "claude-opus-5-5"],
  ["tinyMessages", "chat", "gpt-6.1-sol"],
  ["tinyMessages", "messages", "llama-4-scout"],
  ["distinctKeys", "chat", "claude-opus-5-5"],
  ["distinctKeysNested", "chat", "llama-4-scout"],
  ["tinyTools", "messages", "llama-4-scout"],
  ["toolCalls", "chat", "claude-opus-5-5"],
  ["tinyParts", "chat", "claude-opus-5-5"],
  ["emptyObjects", "chat", "llama-4-scout"],
  ["emptyArrays", "chat", "llama-4-scout"],
  ["numbers", "chat", "llama-4-scout"],
  ["fewLongMessages", "chat", "claude-opus-5-5"],
  ["fewLongMessages", "messages", "llama-4-scout"],
  ["longString", "chat", "claude-opus-5-5"],
  ["escapes", "chat", "llama-4-scout"],
  ["quotes", "messages", "claude-opus-5-5"],
  ["noJson", "chat", "llama-4-scout"],
  ["whiteSpace", "chat", "llama-4-scout"],
]

async function cost(arena: Arena, balanceRp: number, full: boolean): Promise<Finding[]> {
  const attacker = await arena.attacker(balanceRp)
  const findings: Finding[] = []
  // Without money none of them is read, so a few say it for all.
  for (const [shape, format, model] of full || balanceRp > 0 ? aimedAt : aimedAt.slice(0, 4)) {
    const body = bodies[shape](model, MIB, attacker.plays({}))
    const tried = `${MIB} MiB of ${shape}, ${format} for ${model}, Rp ${balanceRp}`
    const ask = async () => {
      const { code, status } = await attacker.call(format, body)
      return code ?? String(status)
    }
    findings.push(await workOf(arena.gateway, { tried, ask, full }))
  }
  return findings
}

/** Connections that announce a body and never end it. */
async function unfinished(arena: Arena, balanceRp: number, connections: number, before: number): Promise<Finding> {
  const attacker = await arena.attacker(balanceRp)
  const { pid } = arena.gateway
  const part = bodies.longString("llama-4-scout", 30, "")
  const streams = await Promise.all(
    Array.from({ length: connections }, async () => {
      const socket = await open(arena.url)
      const stream = listenTo(socket)
      socket.write(head("/v1/chat/completions", attacker.key, part.length + 10))
      const written = new Promise<void>((resolve) => socket.write(part, () => resolve()))
      await Promise.race([written, stream.readUntil((text) => text.includes("HTTP/1.1"))])
      return stream
    }),
  )
  // Of what is on its way there is more than of what is held.
  await Bun.sleep(4_000)
  const peak = residentMib(pid) - before
  // What was refused is garbage until a collection, which a slow machine begins later. The bodies themselves may stay for 30 s.
  let memory = peak
  for (let waitedS = 0; memory >= (connections * 30) / 2 && waitedS < 15; waitedS++) {
    await Bun.sleep(1_000)
    memory = residentMib(pid) - before
  }
  const told = streams.map(({ text }) => /x-error-code: (\S+)/i.exec(text)?.[1] ?? "kept open")
  const tally = [...new Set(told)].map((code) => `${told.filter((each) => each === code).length} × ${code}`)
  const healthy = await fetch(`${arena.url}/healthz`, { signal: AbortSignal.timeout(5_000) }).then(
    ({ ok }) => ok,
    () => false,
  )
  for (const { socket } of streams) socket.destroy()
  return {
    tried: `${connections} bodies of 30 MiB that lack their last bytes, on Rp ${balanceRp}`,
    seen: `+${memory.toFixed(0)} MiB, ${peak.toFixed(0)} before; ${tally.join(", ")}${healthy ? "" : "; /healthz does not answer"}`,
    held: memory < (connections * 30) / 2 && memory < 600 && peak < connections * 45 && healthy,
  }
}

/** Without progress a body is given up after 30 s. */
async function stalled(arena: Arena): Promise<Finding> {
  const attacker = await arena.attacker(10_000)
  const at = performance.now()
  const ages = await Promise.all(
    Array.from({ length: 3 }, async () => {
      const socket = await open(arena.url)
      const stream = listenTo(socket)
      socket.write(head("/v1/chat/completions", attacker.key, 1_000_000))
      socket.write('{"m')
      const { promise, resolve } = Promise.withResolvers<void>()
      socket.once("close", () => resolve())
      socket.once("end", () => resolve())
      await Promise.race([promise, stream.readUntil((text) => text.includes("HTTP/1.1"), 45_000), Bun.sleep(45_000)])
      const told = /HTTP\/1.1 (\d+)/.exec(stream.text)?.[1]
      const age = performance.now() - at
      socket.destroy()
      return age >= 44_000 ? undefined : `${(age / 1_000).toFixed(0)} s${told === undefined ? "" : ` (${told})`}`
    }),
  )
  return {
    tried: "3 bodies of which 3 bytes come",
    seen: ages.map((age) => age ?? "open after 45 s").join(", "),
    held: ages.every((age) => age !== undefined),
  }
}

/** Free accounts announce bodies and send a byte of each; every account takes half of the memory that is left. */
async function announced(arena: Arena, accounts: number): Promise<Finding> {
  const victim = await arena.attacker(10_000)
  const prompt = "hello ".repeat(40_000)
  const ask = () => victim.call("chat", asking("chat", "gpt-oss-20b", victim.plays({}) + prompt, { max_tokens: 5 }))
  const before = await ask()
  const sockets: Socket[] = []
  for (let account = 0; account < accounts; account++) {
    const { key } = await arena.attacker(0)
    const connections = Math.ceil(512 / 2 ** account)
    const opened = await Promise.all(Array.from({ length: connections }, () => open(arena.url)))
    for (const socket of opened) {
      socket.on("error", () => {})
      socket.write(`${head("/v1/chat/completions", key, 256 * 1024)}{`)
    }
    sockets.push(...opened)
    // Each takes its half before the next comes.
    await Bun.sleep(100)
  }
  const after = await ask()
  for (const socket of sockets) socket.destroy()
  return {
    tried: `${accounts} empty accounts announce ${sockets.length} bodies of 256 KiB; another's of ${Math.round(prompt.length / 1_000)} KB`,
    seen: `${before.code ?? before.status} before, ${after.code ?? after.status} beside`,
    held: after.status === 200,
  }
}

/** Bodies that nobody can pay for are worked on all the time; another's of the size that agents send. */
async function queued(arena: Arena): Promise<Finding> {
  const attacker = await arena.attacker(10_000)
  const victim = await arena.attacker(100_000)
  const body = bodies.mostMessages("llama-4-scout", 31)
  const over = new AbortController()
  const attacks = Array.from({ length: 4 }, async () => {
    while (!over.signal.aborted) await attacker.call("messages", body).catch(() => undefined)
  })
  await Bun.sleep(1_500)
  const prompt = "hello there ".repeat(35_000)
  const codes: string[] = []
  const waits: number[] = []
  const calls: Promise<void>[] = []
  const one = async () => {
    const at = performance.now()
    const mark = victim.plays({})
    const { status, code } = await victim.call(
      "chat",
      asking("chat", "llama-4-maverick", mark + prompt, { max_tokens: 5 }),
    )
    waits.push(performance.now() - at)
    codes.push(code ?? String(status))
  }
  for (let n = 0; n < 20; n++) {
    calls.push(one())
    await Bun.sleep(200)
  }
  await Promise.all(calls)
  over.abort()
  await Promise.all(attacks)
  const served = codes.filter((code) => code === "200").length
  return {
    tried: "31 MiB of messages for a model without a window, four at a time on Rp 10,000; another's bodies of 420 KB",
    seen: `${served} of ${codes.length} served, the slowest after ${(Math.max(...waits) / 1_000).toFixed(1)} s`,
    held: served === codes.length,
  }
}

interface Refusal {
  readonly tried: string
  readonly path: string
  readonly key: (arena: Arena) => Promise<string>
  readonly method?: string
  readonly mib: number
  readonly status: string
  readonly more?: string
}

const empty = async (arena: Arena) => (await arena.attacker(0)).key
const refusals: readonly Refusal[] = [
  { tried: "a wrong key", path: "/v1/messages", key: async () => "sk-loket-nobody", mib: 31, status: "401" },
  {
    tried: "a wrong key and Connection: close",
    path: "/v1/messages",
    key: async () => "sk-loket-nobody",
    mib: 31,
    status: "401",
    more: "Connection: close\r\n",
  },
  { tried: "an empty account", path: "/v1/chat/completions", key: empty, mib: 31, status: "402" },
  { tried: "a wrong path", path: "/v1/nowhere", key: empty, mib: 31, status: "404" },
  { tried: "a wrong method", path: "/v1/messages", key: empty, method: "PUT", mib: 31, status: "405" },
  { tried: "too large", path: "/v1/messages", key: empty, mib: 48, status: "413" },
]

/** A client that reads only when it has written all. */
async function writesOn(arena: Arena, { path, key, method = "POST", mib, more }: Refusal): Promise<string> {
  const socket = await open(arena.url)
  const stream = listenTo(socket)
  stream.pause()
  const piece = Buffer.alloc(2 ** 20, "a")
  const errors: string[] = []
  socket.on("error", (error: Error & { code?: string }) => errors.push(error.code ?? error.message))
  socket.write(head(path, await key(arena), mib * 2 ** 20, more).replace(/^POST/, method))
  for (let sent = 0; sent < mib && errors.length === 0 && !socket.destroyed; sent++) {
    if (!socket.write(piece)) await drained(socket)
    await Bun.sleep(4)
  }
  // Most clients give up when they cannot write on, and never look at what came.
  const [broken] = errors
  if (broken !== undefined) return `write ${broken}`
  stream.resume()
  await stream.readUntil((text) => /\r\n\r\n[^]*\}/.test(text), 5_000)
  socket.destroy()
  const status = /HTTP\/1.1 (\d+)/.exec(stream.text)?.[1]
  return status ?? "no answer"
}

async function refusedEarly(arena: Arena, tries: number): Promise<Finding[]> {
  const findings: Finding[] = []
  for (const refusal of refusals) {
    const seen: string[] = []
    for (let attempt = 0; attempt < tries; attempt++) seen.push(await writesOn(arena, refusal))
    findings.push({
      tried: `${refusal.mib} MiB with ${refusal.tried}, written to the end`,
      seen: seen.join(", "),
      held: seen.every((each) => each === refusal.status),
    })
  }
  return findings
}

/** No key is needed for it. */
async function blankHeader(arena: Arena, full: boolean): Promise<Finding> {
  const request = Buffer.from(
    `GET /v1/balance HTTP/1.1\r\nHost: loket.test\r\nAuthorization: Bearer${"\u00a0".repeat(15_000)}\r\n\r\n`,
    "latin1",
  )
  const ask = async () => {
    const socket = await open(arena.url)
    const stream = listenTo(socket)
    socket.write(request)
    await stream.readUntil((text) => text.includes("HTTP/1.1"))
    socket.destroy()
    return /HTTP\/1.1 (\d+)/.exec(stream.text)?.[1] ?? "no answer"
  }
  return await workOf(arena.gateway, { tried: "an Authorization of 15 KB of white space", ask, full })
}

export const bodiesRows: readonly Row[] = [
  {
    id: "D1",
    wanted: `at most ${LOOP_MS} ms of the event loop, ${MEMORY_MIB} MiB, and 10 ms at a stretch`,
    play: async (arena, { full }) => [...(await cost(arena, 0, full)), ...(await cost(arena, 10_000, full))],
  },
  {
    id: "D2",
    wanted: "bodies under way have a budget of bytes and a deadline without progress",
    play: async (arena, { full }) => {
      const before = residentMib(arena.gateway.pid)
      const connections = full ? 40 : 20
      return [await unfinished(arena, 0, connections, before), await unfinished(arena, 10_000, connections, before)]
    },
  },
  {
    id: "D2",
    beside: true,
    wanted: "given up after 30 s without progress",
    play: async (arena) => [await stalled(arena)],
  },
  {
    id: "D1",
    wanted: "who used the worker least goes first, and money is asked for before a translation",
    play: async (arena) => [await queued(arena)],
  },
  {
    id: "D2",
    wanted: "what is announced takes no room from others",
    play: async (arena) => [await announced(arena, 10)],
  },
  {
    id: "D10",
    wanted: "hardly any time of the event loop",
    play: async (arena, { full }) => [await blankHeader(arena, full)],
  },
  { id: "D6", wanted: "who is refused gets the answer", play: (arena, { full }) => refusedEarly(arena, full ? 5 : 2) },
]
