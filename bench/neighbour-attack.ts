/**
 * One attack of `bench/neighbour.ts`, in a process of its own, so that it delays nobody but the gateway. Its argument is
 * JSON; on SIGTERM it says what it was answered, and ends.
 */
import { connect } from "node:net"
import { bodies, type ShapeName } from "../test/redteam/lib/bodies.ts"

export type Attack =
  | {
      readonly kind: "bodies"
      readonly shape: ShapeName
      readonly mib: number
      readonly path: string
      readonly connections: number
    }
  | { readonly kind: "slow readers"; readonly connections: number }
  | { readonly kind: "unfinished uploads"; readonly connections: number }
  | { readonly kind: "full cap"; readonly connections: number }

export interface AttackTerms {
  readonly attack: Attack
  readonly url: string
  readonly keys: readonly string[]
  readonly model: string
}

const { attack, url, keys, model } = JSON.parse(process.argv.at(-1) ?? "") as AttackTerms
const tally = new Map<string, number>()
const count = (what: string) => tally.set(what, (tally.get(what) ?? 0) + 1)
const keyOf = (index: number) => keys[index % keys.length] ?? ""

async function call(path: string, key: string, body: Uint8Array | string): Promise<void> {
  try {
    const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" }
    const response = await fetch(url + path, { method: "POST", headers, body: body as BodyInit })
    await response.arrayBuffer()
    count(response.headers.get("x-error-code") ?? String(response.status))
  } catch {
    count("connection lost")
    await Bun.sleep(50)
  }
}

async function again(index: number, path: string, body: Uint8Array | string): Promise<never> {
  for (let turn = index; ; turn += attack.connections) await call(path, keyOf(turn), body)
}

const CHAT = "/v1/chat/completions"
const asking = (prompt: string, more: object) =>
  JSON.stringify({ model, messages: [{ role: "user", content: prompt }], ...more })

function head(length: number, key: string): string {
  const lines = [
    `POST ${CHAT} HTTP/1.1`,
    "Host: loket.test",
    `Authorization: Bearer ${key}`,
    "Content-Type: application/json",
    `Content-Length: ${length}`,
  ]
  return `${lines.join("\r\n")}\r\n\r\n`
}

/** Connections that are opened again when they end. */
function hold(open: (socket: ReturnType<typeof connect>) => void): void {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname, () => open(socket))
  let told = ""
  socket.on("data", (data) => {
    if (told === "") told = /x-error-code: (\S+)/i.exec(data.toString("latin1"))?.[1] ?? "200"
  })
  socket.on("error", () => {})
  socket.on("close", () => {
    count(told === "" ? "closed" : told)
    setTimeout(() => hold(open), 500)
  })
}

/** Takes some kilobytes a second of an answer of megabytes. */
function readsSlowly(index: number): void {
  hold((socket) => {
    const body = asking("Tell me all.", { stream: true, max_tokens: 4_000 })
    socket.write(head(Buffer.byteLength(body), keyOf(index)) + body)
    socket.pause()
    const timer = setInterval(() => {
      socket.resume()
      socket.once("data", () => socket.pause())
    }, 1_000)
    socket.once("close", () => clearInterval(timer))
  })
}

/** The first megabyte of four, and then a byte now and then. */
function uploadsForEver(index: number): void {
  const part = `{"model":"${model}","messages":[{"role":"user","content":"${"a".repeat(2 ** 20)}`
  hold((socket) => {
    socket.write(head(4 * 2 ** 20, keyOf(index)) + part)
    const timer = setInterval(() => socket.write("a"), 5_000)
    socket.once("close", () => clearInterval(timer))
  })
}

process.on("SIGTERM", () => {
  console.log(JSON.stringify(Object.fromEntries(tally)))
  process.exit(0)
})
const all = Array.from({ length: attack.connections }, (_, index) => index)
switch (attack.kind) {
  case "bodies": {
    const body = bodies[attack.shape](model, attack.mib, "")
    for (const index of all) void again(index, attack.path, body)
    break
  }
  case "slow readers":
    for (const index of all) readsSlowly(index)
    break
  case "unfinished uploads":
    for (const index of all) uploadsForEver(index)
    break
  case "full cap":
    for (const index of all) void again(index, CHAT, asking("Take your time.", { max_tokens: 200, stream: true }))
    break
}
console.log("attacking")
