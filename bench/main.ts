/**
 * `bun run bench`: the gateway against a bare pass-through proxy, in turns in one run, with the same simulator behind
 * both. Each server has one core to itself and the load the other. What counts is the ratio: machines differ.
 *
 * With `DATABASE_URL` the gateway writes to that server; without, to its embedded database, whose work is in its figures.
 */
import { startSimulator } from "../src/simulator/simulator.ts"
import { type Child, startChild } from "./child.ts"
import { benchKey, startGateway } from "./gateway.ts"
import { type Measured, percentile, run } from "./load.ts"

const ROUNDS = Number(process.env["ROUNDS"] ?? 3)
const DURATION_MS = Number(process.env["DURATION_MS"] ?? 4_000)

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
  const gateway = await startGateway(simulator.url, scripts)
  const proxy = await startChild(["bun", "bench/proxy.ts"], { UPSTREAM: simulator.url }, /listening (\S+)/)
  try {
    const key = await benchKey(gateway.url)
    for (const scenario of scenarios) await compare(scenario, gateway, proxy, key)
  } finally {
    await gateway.stop()
    await proxy.stop()
    await simulator.stop()
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

await main()
process.exit(0)
