/**
 * `bun bench/endurance.ts`: many paced streams at once, and then many calls one after the other. Says how many broke,
 * what memory each stream took, and whether memory is flat. STREAMS, SECONDS and CALLS make it shorter.
 */
import { startChild } from "./child.ts"
import { benchKey, simulated, startGateway } from "./gateway.ts"

const STREAMS = Number(process.env["STREAMS"] ?? 2_000)
const SECONDS = Number(process.env["SECONDS"] ?? 60)
const CALLS = Number(process.env["CALLS"] ?? 200_000)
const CLIENTS = 64
const PACE_MS = 200
const SAMPLES = 20

const simulator = await startChild(["bun", "src/simulator/main.ts"], { PORT: "0" }, /simulator: (\S+)/, "1")
const gateway = await startGateway(
  simulated(simulator.url, {
    paced: `output=${Math.ceil((SECONDS * 1_000) / PACE_MS)}&pace=${PACE_MS}`,
    quick: "output=5",
  }),
)
const headers = { Authorization: `Bearer ${await benchKey(gateway.url)}`, "Content-Type": "application/json" }

const call = async (model: string, stream: boolean): Promise<boolean> => {
  const body = JSON.stringify({ model, stream, max_tokens: 1_000, messages: [{ role: "user", content: "Hello" }] })
  try {
    const response = await fetch(`${gateway.url}/v1/chat/completions`, { method: "POST", headers, body })
    const text = await response.text()
    return response.ok && (stream ? text.endsWith("data: [DONE]\n\n") : text.includes("choices"))
  } catch {
    return false
  }
}

async function streams(): Promise<void> {
  await call("quick", true)
  const before = gateway.memory()
  const cpu = gateway.cpu()
  let peak = before
  const watch = setInterval(() => (peak = Math.max(peak, gateway.memory())), 250)
  const startedAt = performance.now()
  const whole = await Promise.all(Array.from({ length: STREAMS }, () => call("paced", true)))
  clearInterval(watch)
  const seconds = (performance.now() - startedAt) / 1_000
  const broken = whole.filter((ended) => !ended).length
  console.log(
    `${STREAMS} streams of ${SECONDS} s, an event each ${PACE_MS} ms: ${broken} broken, ${seconds.toFixed(1)} s in all`,
  )
  console.log(
    `  memory ${before.toFixed(0)} MiB before, ${peak.toFixed(0)} at most: ${(((peak - before) * 1024) / STREAMS).toFixed(0)} KiB a stream`,
  )
  console.log(`  ${(((gateway.cpu() - cpu) / seconds) * 100).toFixed(0)} % of a core`)
}

async function calls(): Promise<void> {
  let left = CALLS
  let failed = 0
  const memory: number[] = []
  const client = async () => {
    while (left-- > 0) {
      if (!(await call("quick", left % 2 === 0))) failed++
      if (left % Math.ceil(CALLS / SAMPLES) === 0) memory.push(gateway.memory())
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, client))
  console.log(`${CALLS} calls, half of them streamed: ${failed} failed`)
  console.log(`  memory on the way, MiB: ${memory.map((mib) => mib.toFixed(0)).join(" ")}`)
}

await streams()
await calls()
await gateway.stop()
await simulator.stop()
process.exit(0)
