/** Backends that are out to hurt: D5. */
import { gzipSync } from "node:zlib"
import type { Arena } from "../lib/arena.ts"
import { asking } from "../lib/attacker.ts"
import type { Script } from "../lib/backend.ts"
import { forgetPeak, peakMib, ping, residentMib } from "../lib/process.ts"
import { drained } from "../lib/raw.ts"
import type { Finding, Row, Size } from "../lib/row.ts"

const MODEL = "gpt-oss-20b"
const MEMORY_MIB = 200

async function huge(arena: Arena, tried: string, script: Script): Promise<Finding> {
  const attacker = await arena.attacker(10_000)
  const mark = attacker.plays(script)
  const { pid } = arena.gateway
  const pings = await ping(arena.gateway)
  forgetPeak(pid)
  const before = residentMib(pid)
  const at = performance.now()
  const { status, code } = await attacker.call("chat", asking("chat", MODEL, mark, { max_tokens: 50 }))
  const seconds = (performance.now() - at) / 1_000
  const { workedMs } = await pings.stop()
  const memory = peakMib(pid) - before
  const tries = attacker.heard(mark).length
  return {
    tried,
    seen: `${code ?? status} after ${seconds.toFixed(1)} s, ${tries} tries, +${memory.toFixed(0)} MiB, event loop ${workedMs.toFixed(0)} ms at a stretch`,
    held: status === 502 && tries === 1 && memory < MEMORY_MIB && workedMs < 100,
  }
}

const JSON_HEAD = { "Content-Type": "application/json" }

async function sizes(arena: Arena, { full }: Size): Promise<Finding[]> {
  const mib = full ? 1_500 : 300
  const zeros = gzipSync(Buffer.alloc(mib * 2 ** 20), { level: 6 })
  const space = Buffer.alloc(2 ** 20, " ")
  const flood = (total: number): Script => ({
    respond: async (_, response) => {
      response.writeHead(200, JSON_HEAD)
      for (let sent = 0; sent < total && !response.destroyed; sent++) {
        if (!response.write(space)) await drained(response)
      }
      response.end("{}")
    },
  })
  return [
    await huge(arena, `${mib} MiB of zeros as ${(zeros.length / 2 ** 20).toFixed(1)} MiB of gzip`, {
      respond: (_, response) => {
        response.writeHead(200, { ...JSON_HEAD, "Content-Encoding": "gzip" })
        response.end(zeros)
      },
    }),
    await huge(arena, `${mib} MiB of white space before the JSON`, flood(mib)),
  ]
}

/** Something every second, and never an event. */
async function trickles(arena: Arena): Promise<Finding> {
  const attacker = await arena.attacker(10_000)
  const content = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: "x" }, finish_reason: null }] })}\n\n`
  const mark = attacker.plays({
    respond: async (_, response) => {
      response.writeHead(200, { "Content-Type": "text/event-stream" })
      response.write(content)
      while (!response.destroyed) {
        response.write(": \n")
        await Bun.sleep(500)
      }
    },
  })
  const at = performance.now()
  const leaving = AbortSignal.timeout(20_000)
  const answer = await attacker
    .call("chat", asking("chat", MODEL, mark, { stream: true, max_tokens: 50 }), { signal: leaving })
    .catch(() => undefined)
  const seconds = (performance.now() - at) / 1_000
  const over = answer !== undefined && seconds < 15
  return {
    tried: "a comment twice a second after the first content, with an idle time of 3 s",
    seen: over ? `ended after ${seconds.toFixed(1)} s` : "still open after 20 s",
    held: over,
  }
}

export const backendsRows: readonly Row[] = [
  { id: "D5", wanted: "502, one try, read by pieces up to a bound", play: sizes },
  {
    id: "D5",
    place: "hasty",
    wanted: "whole events count against the idle time",
    play: async (arena) => [await trickles(arena)],
  },
]
