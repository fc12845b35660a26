/**
 * `bun bench/neighbour.ts`: what a paying tenant feels of a hostile one. Twenty plain calls a second, alone, and beside each
 * attack; gateway, backend, tenant and attacker are four processes. Exit code 1 when a call got a 5xx, or p99 is over three
 * times its own alone in the same run. `SECONDS` is how long each is measured; `ONLY=a,d` picks attacks.
 */
import { ensureRuntimeSettings } from "../src/own-process.ts"
import { bodies, type ShapeName } from "../test/redteam/lib/bodies.ts"
import { cpuMs } from "../test/redteam/lib/process.ts"
import { type Child, LOAD_CORE, startChild } from "./child.ts"
import { ownPlace } from "../test/redteam/lib/place.ts"
import { benchKey, benchKeys, simulated, startGateway } from "./gateway.ts"
import { percentile } from "./load.ts"
import type { Attack, AttackTerms } from "./neighbour-attack.ts"

ensureRuntimeSettings()
const SECONDS = Number(process.env["SECONDS"] ?? 20)
const ONLY = process.env["ONLY"]?.split(",")
const PER_SECOND = 20
const MAX_RATIO = 3
const CAP = 64
const MODEL = "shared"
/** A stream of the shared model takes two seconds; one of megabytes comes as fast as its client can pay, not as it reads. */
const scripts = { [MODEL]: "output=200&pace=10", long: "output=150&delta=4000&pace=200" }

interface Felt {
  /** Sorted, in milliseconds. */
  readonly totalMs: readonly number[]
  readonly statuses: Readonly<Record<string, number>>
}

/** An open loop: a call every 50 ms, whatever became of those before. */
async function tenant(url: string, key: string, seconds: number): Promise<Felt> {
  const totalMs: number[] = []
  const statuses: Record<string, number> = {}
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" }
  const body = JSON.stringify({ model: MODEL, max_tokens: 5, messages: [{ role: "user", content: "Hello" }] })
  const one = async () => {
    const sentAt = performance.now()
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers,
      body,
      signal: AbortSignal.timeout(60_000),
    }).catch(() => undefined)
    await response?.arrayBuffer().catch(() => {})
    totalMs.push(performance.now() - sentAt)
    const status = String(response?.status ?? 599)
    statuses[status] = (statuses[status] ?? 0) + 1
  }
  const calls: Promise<void>[] = []
  const startedAt = performance.now()
  for (let index = 0; index < seconds * PER_SECOND; index++) {
    calls.push(one())
    await Bun.sleep(startedAt + ((index + 1) * 1_000) / PER_SECOND - performance.now())
  }
  await Promise.all(calls)
  return { totalMs: totalMs.toSorted((a, b) => a - b), statuses }
}

/** Refused for the attacker's sake, or failed. */
const failures = ({ statuses }: Felt): number =>
  Object.entries(statuses).reduce(
    (sum, [status, calls]) => sum + (Number(status) >= 500 || status === "429" ? calls : 0),
    0,
  )

/** Runs beside the work; what the attacker was answered. */
async function attacked<T>(
  terms: AttackTerms,
  work: () => Promise<T>,
  settleMs = 2_000,
): Promise<{ readonly felt: T; readonly told: string }> {
  const child = Bun.spawn(["bun", `${import.meta.dir}/neighbour-attack.ts`, JSON.stringify(terms)], {
    env: { ...process.env, BUN_CONFIG_MAX_HTTP_REQUESTS: "65535" },
    stdout: "pipe",
    stderr: "inherit",
  })
  const output = new Response(child.stdout).text()
  await Bun.sleep(settleMs)
  const felt = await work()
  child.kill("SIGTERM")
  await Promise.race([child.exited, Bun.sleep(3_000)])
  child.kill("SIGKILL")
  return { felt, told: (await output).trim().split("\n").at(-1) ?? "" }
}

const paths = { chat: "/v1/chat/completions", messages: "/v1/messages" }

/** The body that takes most of the event loop, four connections at a time, of every shape and two sizes. */
async function worstBody(gateway: Child, keys: readonly string[]): Promise<Attack & { readonly kind: "bodies" }> {
  const found: { readonly attack: Attack & { readonly kind: "bodies" }; readonly share: number }[] = []
  for (const shape of Object.keys(bodies) as ShapeName[]) {
    for (const mib of [32, 1]) {
      for (const path of shape === "tinyMessages" || shape === "quotes" ? Object.values(paths) : [paths.chat]) {
        const attack = { kind: "bodies", shape, mib, path, connections: 4 } as const
        const { felt } = await attacked(
          { attack, url: gateway.url, keys, model: MODEL },
          async () => {
            const before = cpuMs(gateway.pid)
            const at = performance.now()
            await Bun.sleep(700)
            const elapsed = performance.now() - at
            const after = cpuMs(gateway.pid)
            return { loop: (after.loop - before.loop) / elapsed, all: (after.all - before.all) / elapsed }
          },
          700,
        )
        found.push({ attack, share: felt.loop })
        console.log(
          `  ${shape.padEnd(20)}${String(mib).padStart(3)} MiB ${path.padEnd(22)} event loop ${percent(felt.loop)}, all threads ${percent(felt.all)}`,
        )
      }
    }
  }
  const [worst] = found.toSorted((a, b) => b.share - a.share)
  if (worst === undefined) throw new Error("there are no shapes")
  return worst.attack
}

const percent = (share: number): string => `${(share * 100).toFixed(0).padStart(3)} %`

async function main(): Promise<number> {
  const simulator = await startChild(["bun", "src/main.ts", "simulator"], { PORT: "0" }, /simulator: (\S+)/, {
    core: LOAD_CORE,
  })
  await using place = await ownPlace()
  const gateway = await startGateway(simulated(simulator.url, scripts, { [MODEL]: CAP }), place.env)
  let broken = 0
  try {
    const payer = await benchKey(gateway.url)
    const empty = await benchKeys(gateway.url, 0, 1)
    const small = await benchKeys(gateway.url, 10_000, 1)
    const many = await benchKeys(gateway.url, 1_000_000, 200)
    const rich = await benchKeys(gateway.url, 100_000_000, 1)
    const warm = await tenant(gateway.url, payer, 3)
    if (warm.statuses["200"] !== warm.totalMs.length) throw new Error(`not served: ${JSON.stringify(warm.statuses)}`)
    const search = async (keys: readonly string[]) => await worstBody(gateway, keys)
    const scenarios: readonly {
      readonly id: string
      readonly name: string
      readonly keys: readonly string[]
      readonly model: string
      readonly attack: () => Attack | Promise<Attack>
    }[] = [
      { id: "a", name: "4 × worst body, Rp 0", keys: empty, model: MODEL, attack: () => search(empty) },
      {
        id: "b",
        name: "500 slow readers",
        keys: rich,
        model: "long",
        attack: () => ({ kind: "slow readers", connections: 500 }),
      },
      {
        id: "c",
        name: "200 unfinished uploads",
        keys: small,
        model: MODEL,
        attack: () => ({ kind: "unfinished uploads", connections: 200 }),
      },
      { id: "d", name: "4 × worst body, Rp 10,000", keys: small, model: MODEL, attack: () => search(small) },
      {
        id: "e",
        name: `200 keys fill the cap of ${CAP}`,
        keys: many,
        model: MODEL,
        attack: () => ({ kind: "full cap", connections: 320 }),
      },
    ]
    console.log(
      `${"".padEnd(30)}${["calls", "5xx", "p50 ms", "p99 ms", "max ms", "ratio"].map((each) => each.padStart(9)).join("")}`,
    )
    for (const { id, name, keys, model, attack } of scenarios) {
      if (ONLY !== undefined && !ONLY.includes(id)) continue
      const chosen = await attack()
      // Right before, because a machine's other work comes and goes.
      const alone = await tenant(gateway.url, payer, SECONDS)
      report(`alone`, alone, alone)
      const terms = { attack: chosen, url: gateway.url, keys, model }
      const { felt, told } = await attacked(terms, () => tenant(gateway.url, payer, SECONDS))
      if (!report(`(${id}) ${name}`, felt, alone)) broken++
      console.log(`    ${chosen.kind === "bodies" ? `${chosen.mib} MiB of ${chosen.shape}; ` : ""}attacker: ${told}`)
      console.log(`    tenant: ${JSON.stringify(felt.statuses)}; gateway's memory: ${gateway.memory().toFixed(0)} MiB`)
    }
  } finally {
    await gateway.stop()
    await simulator.stop()
  }
  return broken
}

/** Whether it holds. */
function report(name: string, felt: Felt, alone: Felt): boolean {
  const p99 = percentile(felt.totalMs, 0.99)
  const ratio = p99 / percentile(alone.totalMs, 0.99)
  const holds = failures(felt) === 0 && ratio <= MAX_RATIO
  const figures = [
    String(felt.totalMs.length),
    String(failures(felt)),
    percentile(felt.totalMs, 0.5).toFixed(1),
    p99.toFixed(1),
    (felt.totalMs.at(-1) ?? 0).toFixed(1),
    ratio.toFixed(2),
  ]
  console.log(`${name.padEnd(30)}${figures.map((each) => each.padStart(9)).join("")}${holds ? "" : "   does not hold"}`)
  return holds
}

const broken = await main()
process.exit(broken === 0 ? 0 : 1)
