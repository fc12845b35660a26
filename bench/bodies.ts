/**
 * The worst bodies known, one at a time, against a whole gateway in a process of its own: `bun bench/bodies.ts [MiB]`.
 * For each shape and pair of formats: CPU of the gateway's one thread that serves everybody, the longest stretch in which
 * its loop stood still, and the memory at its peak over what it was before. The account can pay.
 */
import { readFileSync, writeFileSync } from "node:fs"
import { startTestGateway } from "../test/gateway/harness.ts"

const MIB = 1024 * 1024
const serving = process.argv[2] === "serve"
const size = Number(serving ? 0 : (process.argv[2] ?? 32)) * MIB

type Pair = readonly [client: "chat" | "messages" | "responses", backend: "chat" | "messages" | "responses"]
const formats = ["chat", "messages", "responses"] as const
const pairs: readonly Pair[] = formats.flatMap((client) => formats.map((backend): Pair => [client, backend]))
const paths = { chat: "/v1/chat/completions", messages: "/v1/messages", responses: "/v1/responses" } as const

/** The gateway: says what it has used since it was asked last. */
async function serve(): Promise<void> {
  const gateway = await startTestGateway({ env: { BODY_MEMORY_BYTES: String(512 * MIB) } })
  const person = await gateway.person(10_000_000)
  const { key } = await gateway.key(person)
  const models: Record<string, string> = {}
  for (const [client, format] of pairs) {
    const upstreams = [{ provider: "simulated", format, model: "there" } as const]
    const more = { upstreams, endpoints: [client], supports_vision: true }
    models[`${client} ${format}`] = await gateway.model({ format: client, model: `${client}-${format}`, ...more })
  }
  let longest = 0
  let last = performance.now()
  setInterval(() => {
    const now = performance.now()
    longest = Math.max(longest, now - last - 1)
    last = now
  }, 1)
  let before = { cpu: 0, rss: 0 }
  const control = Bun.serve({
    port: 0,
    fetch({ url }) {
      if (new URL(url).pathname === "/begin") {
        Bun.gc(true)
        writeFileSync("/proc/self/clear_refs", "5")
        before = { cpu: cpuMs(), rss: memory("VmRSS") }
        longest = 0
        last = performance.now()
        return new Response("")
      }
      return Response.json({ cpuMs: cpuMs() - before.cpu, longestMs: longest, peakMiB: memory("VmHWM") - before.rss })
    },
  })
  console.log(JSON.stringify({ url: gateway.url, control: control.url.origin, key, models }))
}

const cpuMs = () => {
  const fields = readFileSync(`/proc/self/task/${process.pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? []
  return (Number(fields[11]) + Number(fields[12])) * 10
}
const memory = (name: string) =>
  Number(new RegExp(`${name}:\\s+(\\d+)`).exec(readFileSync("/proc/self/status", "utf8"))?.[1]) / 1024

interface Used {
  readonly cpuMs: number
  readonly longestMs: number
  readonly peakMiB: number
}

async function play(): Promise<void> {
  const child = Bun.spawn([process.execPath, import.meta.path, "serve"], { stdout: "pipe", stderr: "ignore" })
  const { value } = await child.stdout.getReader().read()
  const { url, control, key, models } = JSON.parse(new TextDecoder().decode(value)) as {
    readonly url: string
    readonly control: string
    readonly key: string
    readonly models: Readonly<Record<string, string>>
  }
  console.log(`| shape (${size / MIB} MiB) | formats | answer | thread CPU, ms | longest stretch, ms | peak RSS, MiB |`)
  console.log("|---|---|---|---|---|---|")
  await (await fetch(`${control}/begin`)).text()
  await Bun.sleep(500)
  console.log(
    `| ${["nothing", "", "", ...shown((await (await fetch(`${control}/used`)).json()) as Used)].join(" | ")} |`,
  )
  for (const [name, make] of Object.entries(shapes)) {
    for (const [client, backend] of name === "one long text" || name === "images" ? pairs : pairs.slice(1, 2)) {
      const body = new Blob([make(client, models[`${client} ${backend}`] ?? "")])
      await Bun.sleep(200)
      await (await fetch(`${control}/begin`)).text()
      const headers = { Authorization: `Bearer ${key}` }
      const response = await fetch(url + paths[client], { method: "POST", headers, body })
      const answer = response.headers.get("x-error-code") ?? String(response.status)
      await response.text()
      const used = (await (await fetch(`${control}/used`)).json()) as Used
      console.log(`| ${[name, `${client} → ${backend}`, answer, ...shown(used)].join(" | ")} |`)
    }
  }
  child.kill()
}

const shown = ({ cpuMs, longestMs, peakMiB }: Used): string[] =>
  [cpuMs, longestMs, peakMiB].map((one) => one.toFixed(0))

type Shape = (client: Pair[0], model: string) => string

function filled(client: Pair[0], model: string, content: string, more = ""): string {
  const said = client === "responses" ? "input" : "messages"
  const limit = client === "messages" ? ',"max_tokens":100' : ""
  return `{"model":"${model}"${limit},"${said}":[{"role":"user","content":${content}}]${more}}`
}

function repeated(item: (at: number) => string): string {
  const items: string[] = []
  for (let length = 0, at = 0; length < size - 1_000; at++) {
    const next = item(at)
    items.push(next)
    length += next.length + 1
  }
  return items.join(",")
}

const field =
  (open: string, item: (at: number) => string, close: string): Shape =>
  (client, model) =>
    filled(client, model, '"Hi"', `,"x":${open}${repeated(item)}${close}`)

const shapes: Readonly<Record<string, Shape>> = {
  "tiny messages": (_, model) => `{"model":"${model}","messages":[${repeated(() => '{"role":"user","content":"x"}')}]}`,
  "top-level keys": (client, model) => filled(client, model, '"Hi"', `,${repeated((at) => `"k${at}":1`)}`),
  "tiny tools": (client, model) =>
    filled(client, model, '"Hi"', `,"tools":[${repeated((at) => `{"type":"function","function":{"name":"t${at}"}}`)}]`),
  "{} in a field": field("[", () => "{}", "]"),
  "[] in a field": field("[", () => "[]", "]"),
  "numbers in a field": field("[", () => "1", "]"),
  "keys in a field": field("{", (at) => `"k${at}":1`, "}"),
  "just under 200,000 values": (_, model) => {
    const text = "x".repeat(Math.max(1, Math.floor((size - 2_000_000) / 66_000)))
    const messages = Array.from({ length: 66_000 }, () => `{"role":"user","content":"${text}"}`)
    return `{"model":"${model}","messages":[${messages.join(",")}]}`
  },
  "all backslashes": (client, model) => filled(client, model, `"${"\\\\".repeat(size / 2 - 200)}"`),
  "characters of three bytes": (client, model) => filled(client, model, `"${"字".repeat(size / 3 - 200)}"`),
  "no JSON": () => "x".repeat(size),
  "one long text": (client, model) => filled(client, model, `"${"word ".repeat(size / 5 - 200)}"`),
  images: (client, model) => {
    const data = "A".repeat(size - 2_000)
    const image = {
      chat: { type: "image_url", image_url: { url: `data:image/png;base64,${data}` } },
      messages: { type: "image", source: { type: "base64", media_type: "image/png", data } },
      responses: { type: "input_image", image_url: `data:image/png;base64,${data}` },
    }[client]
    return filled(client, model, JSON.stringify([image]))
  },
}

await (serving ? serve() : play())
