/**
 * `bun run bench`: the gateway against a bare pass-through proxy, in turns in one run, with the same simulator behind
 * both. Each server has one core to itself and the load the other. What counts is the ratio: machines differ.
 *
 * With `DATABASE_URL` the gateway writes to that server; without, to its embedded database, whose work is in its figures.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import catalogue from "../seeds/catalogue.json" with { type: "json" }
import { startSimulator } from "../src/simulator/simulator.ts"
import { type Child, startChild } from "./child.ts"
import { type Measured, percentile, run } from "./load.ts"

const ROUNDS = Number(process.env["ROUNDS"] ?? 3)
const DURATION_MS = Number(process.env["DURATION_MS"] ?? 4_000)
const SECRET = "bench"
const root = join(import.meta.dir, "..")

interface Scenario {
  readonly name: string
  readonly clients: number
  readonly model: string
  readonly stream: boolean
}

const scenarios: readonly Scenario[] = [
  { name: "plain, 32 clients", clients: 32, model: "quick", stream: false },
  { name: "stream of 20, 32 clients", clients: 32, model: "stream", stream: true },
  { name: "one client, 50 ms to first token", clients: 1, model: "paced", stream: true },
]

async function main(): Promise<void> {
  const simulator = startSimulator({ journal: false })
  const files = mkdtempSync(join(tmpdir(), "loket-bench-"))
  const gateway = await startGateway(files, simulator.url)
  const proxy = await startChild(["bun", "bench/proxy.ts"], { UPSTREAM: simulator.url }, /listening (\S+)/)
  try {
    const key = await demoKey(gateway.url)
    for (const scenario of scenarios) await compare(scenario, gateway, proxy, key)
  } finally {
    await gateway.stop()
    await proxy.stop()
    await simulator.stop()
    rmSync(files, { recursive: true, force: true })
  }
}

async function compare(scenario: Scenario, gateway: Child, proxy: Child, key: string): Promise<void> {
  const body = JSON.stringify({
    model: scenario.model,
    stream: scenario.stream,
    messages: [{ role: "user", content: "Write a line about tickets." }],
  })
  const through = async (child: Child, model: string, durationMs: number) => {
    const cpu = child.cpu()
    const measured = await run({
      url: `${child.url}/v1/chat/completions`,
      headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
      body: body.replace(`"model":"${scenario.model}"`, `"model":"${model}"`),
      clients: scenario.clients,
      durationMs,
    })
    return { measured, cpuMs: ((child.cpu() - cpu) * 1_000) / measured.calls }
  }
  const script = scripts[scenario.model] ?? ""
  const rows: { gateway: Round; proxy: Round }[] = []
  await through(gateway, scenario.model, 1_000)
  await through(proxy, `sim?${script}`, 1_000)
  for (let round = 0; round < ROUNDS; round++) {
    rows.push({
      proxy: await through(proxy, `sim?${script}`, DURATION_MS),
      gateway: await through(gateway, scenario.model, DURATION_MS),
    })
  }
  report(scenario.name, rows, gateway)
}

interface Round {
  readonly measured: Measured
  readonly cpuMs: number
}

function report(name: string, rows: readonly { gateway: Round; proxy: Round }[], gateway: Child): void {
  const figure = (label: string, of: (round: Round) => number, digits: number) => {
    const ours = median(rows.map((row) => of(row.gateway)))
    const bare = median(rows.map((row) => of(row.proxy)))
    const ratio = median(rows.map((row) => of(row.gateway) / of(row.proxy)))
    console.log(
      `  ${label.padEnd(26)}${ours.toFixed(digits).padStart(10)}${bare.toFixed(digits).padStart(10)}${ratio.toFixed(2).padStart(8)}`,
    )
  }
  console.log(`\n${name.padEnd(28)}${"gateway".padStart(10)}${"proxy".padStart(10)}${"ratio".padStart(8)}`)
  figure("calls/s", ({ measured }) => measured.calls / measured.seconds, 0)
  figure("CPU ms/call", ({ cpuMs }) => cpuMs, 3)
  figure("first byte p50, ms", ({ measured }) => percentile(measured.firstByteMs, 0.5), 2)
  figure("total p50, ms", ({ measured }) => percentile(measured.totalMs, 0.5), 2)
  figure("total p99, ms", ({ measured }) => percentile(measured.totalMs, 0.99), 2)
  console.log(`  gateway's memory: ${gateway.memory().toFixed(0)} MiB`)
}

const median = (values: readonly number[]): number =>
  percentile(
    values.toSorted((a, b) => a - b),
    0.5,
  )

const scripts: Readonly<Record<string, string>> = {
  quick: "output=20",
  stream: "output=20",
  paced: "ttft=50&output=20",
}

function startGateway(files: string, simulatorUrl: string): Promise<Child> {
  const sample = catalogue.models.find(({ upstream }) => upstream.format === "chat")
  const models = Object.entries(scripts).map(([model, script]) => ({
    ...sample,
    model,
    upstream: { provider: "first", format: "chat", model: `sim?${script}` },
    max_concurrency: 10_000,
    fallback: [],
  }))
  const providers = [{ id: "first", label: "Bench", base_url: simulatorUrl, api_key_env: "BENCH_KEY", headers: {} }]
  writeFileSync(join(files, "catalogue.json"), JSON.stringify({ models }))
  writeFileSync(join(files, "providers.json"), JSON.stringify({ providers }))
  return startChild(
    ["bun", join(root, "src/main.ts"), "start"],
    {
      PORT: "0",
      DATA_DIR: join(files, "data"),
      CATALOGUE_FILE: join(files, "catalogue.json"),
      PROVIDERS_FILE: join(files, "providers.json"),
      BENCH_KEY: "bench",
      PAYMENT_SIMULATED_SECRET: SECRET,
    },
    /"event":"listening","url":"([^"]+)"/,
  )
}

/** An account with money and a key, made as anybody makes them. */
async function demoKey(url: string): Promise<string> {
  const post = async (path: string, body: string, headers: Record<string, string> = {}) => {
    const response = await fetch(url + path, { method: "POST", body, headers })
    if (!response.ok) throw new Error(`${path}: ${await response.text()}`)
    return (await response.json()) as Record<string, string>
  }
  const email = `bench-${crypto.randomUUID()}@example.com`
  const { session_token } = await post("/auth/sign-up", JSON.stringify({ email, password: "correct horse battery" }))
  const session = { Authorization: `Bearer ${session_token}` }
  const { id } = await post("/top-ups", JSON.stringify({ amount_rp: 100_000_000 }), session)
  const paid = JSON.stringify({ top_up_id: id, status: "paid", amount_rp: 100_000_000 })
  const signature = new Bun.CryptoHasher("sha256", SECRET).update(paid).digest("hex")
  await post("/webhooks/payments/simulated", paid, { "X-Signature": signature })
  const { key } = await post("/keys", JSON.stringify({ name: "bench" }), session)
  return key ?? ""
}

await main()
process.exit(0)
