/**
 * `REDIS_URL=redis://127.0.0.1:6379 bun bench/redis.ts`: what a question to the count of a key's window costs (src/redis/), by how many are asked at
 * once. It writes keys of its own there, which last a minute.
 */
import { systemClock } from "../actors/kernel/clock.ts"
import { logToStandardOutput } from "../src/log.ts"
import { RedisCounts } from "../src/redis/counts.ts"
import { percentile } from "./load.ts"

const TIMES = Number(process.env["TIMES"] ?? 20_000)
const KEYS = 200

const counts = new RedisCounts({
  url: process.env["REDIS_URL"] ?? "redis://127.0.0.1:6379",
  prefix: `bench-${process.pid}`,
  clock: systemClock,
  random: Math.random,
  log: logToStandardOutput("warn").log,
  // It is asked as fast as it can be, which no gateway does.
  waits: { answerMs: 5_000, tellingMs: 1 },
})
counts.start(() => {})
while (counts.state !== "exact") await Bun.sleep(1)

const take = (n: number) =>
  new Promise<void>((resolve, reject) => {
    counts.take(`key-${n % KEYS}:requests`, { amount: 1, limit: 1_000_000 }, (counted) => {
      if (counted === undefined) reject(new Error("Redis did not answer"))
      else resolve()
    })
  })

for (const clients of [1, 16, 64]) {
  const tookMs: number[] = []
  let n = 0
  const cpu = process.cpuUsage()
  const began = performance.now()
  const client = async () => {
    while (n++ < TIMES) {
      const asked = performance.now()
      await take(n)
      tookMs.push(performance.now() - asked)
    }
  }
  await Promise.all(Array.from({ length: clients }, client))
  const seconds = (performance.now() - began) / 1_000
  const { user, system } = process.cpuUsage(cpu)
  const sorted = tookMs.toSorted((a, b) => a - b)
  const [p50, p99] = [0.5, 0.99].map((p) => percentile(sorted, p).toFixed(3))
  console.log(
    `${clients} at once: p50 ${p50} ms, p99 ${p99} ms, ${Math.round(TIMES / seconds)}/s, ${((user + system) / TIMES).toFixed(1)} µs of CPU each`,
  )
}
counts.stop()
