/**
 * How long the token estimate takes per kilobyte of prompt, in microseconds, for texts of different kinds. Each is
 * measured over about a megabyte, after a warm-up, as the best of five runs.
 */
import { estimateInputTokens } from "../src/wire/estimate.ts"

const samples: Readonly<Record<string, string>> = {
  prose: "The old harbour had been quiet for years before the ferry came back, and nobody minded. ",
  code: "export const total = (rows: readonly Row[]): number => rows.reduce((sum, row) => sum + row.value, 0)\n",
  json: '{"id":"call_91","name":"read_file","arguments":{"path":"src/main.ts","offset":120,"limit":40}},',
  chinese: "余额不足时，网关必须在转发请求之前拒绝调用，并且不收取任何费用。",
  base64: "iVBORw0KGgoAAAANSUhEUgAABQAAAALQCAYAAADPfd1WAAAAAXNSR0IArs4c6QAAAARnQU1BAACx",
}
const LENGTH = 1 << 20
const RUNS = 5

for (const [name, sample] of Object.entries(samples)) {
  const content = sample.repeat(Math.ceil(LENGTH / sample.length)).slice(0, LENGTH)
  const kilobytes = Buffer.byteLength(content) / 1024
  const prompt = { messages: [{ role: "user", content }], tools: [], schemas: [] }
  let best = Number.POSITIVE_INFINITY
  let tokens = 0
  for (let run = 0; run < RUNS; run++) {
    const start = Bun.nanoseconds()
    tokens = estimateInputTokens(prompt)
    best = Math.min(best, Bun.nanoseconds() - start)
  }
  const perKilobyteUs = best / 1000 / kilobytes
  console.log(`${name.padEnd(8)} ${perKilobyteUs.toFixed(2)} µs/KB  ${(best / 1e6).toFixed(2)} ms  ${tokens} tokens`)
}
