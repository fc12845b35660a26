/** Streams that end in a way that was free: a frozen process, a client that leaves or reads slowly, an echo. M2, M3, M6, M7. */
import { type Arena, WIDE } from "../lib/arena.ts"
import { asking, type Attacker, rp } from "../lib/attacker.ts"
import { bodies } from "../lib/bodies.ts"
import { HASTY } from "../lib/environment.ts"
import { openStream } from "../lib/raw.ts"
import type { Finding, Row, Size } from "../lib/row.ts"

const LONG = "deepseek-v3.2"
const LONG_RATES = { input: 10_416, output: 31_080 }
const worth = (input: number, output: number) => input * LONG_RATES.input + output * LONG_RATES.output

/** Streams that came whole, and what their records say. */
async function outcome(attacker: Attacker, streams: Awaited<ReturnType<Attacker["call"]>>[]): Promise<Finding["seen"]> {
  const whole = streams.filter(({ ended }) => ended)
  const records = await Promise.all(whole.map(({ requestId }) => attacker.record(requestId, 30_000)))
  const free = records.filter((record) => record?.status !== "ok" || record.charge_micro === 0)
  const [why] = free
  const said = why === undefined ? "" : ` (${why.status})`
  return `${whole.length} of ${streams.length} came whole, ${free.length} of them free${said}`
}
const NOBODY_FREE = ", 0 of them free"

async function frozenByBodies(arena: Arena, { full }: Size): Promise<Finding> {
  const victim = await arena.attacker(50_000)
  const attacker = await arena.attacker(0)
  const body = bodies.tinyMessages("claude-opus-5-5", 32)
  const streams = Array.from({ length: 24 }, (_, at) => {
    const everyMs = (2_000 + (at * 2_000) / 24) / 20
    const mark = victim.plays({ pieces: 20, everyMs, counts: { input: 30, output: 20 } })
    return victim.call("chat", asking("chat", LONG, mark, { stream: true }))
  })
  await Bun.sleep(900)
  const attacks = Array.from({ length: full ? 6 : 3 }, () => attacker.call("chat", body).catch(() => undefined))
  const seen = await outcome(victim, await Promise.all(streams))
  await Promise.all(attacks)
  return {
    tried: `24 streams end while an empty account sends ${attacks.length} bodies of 32 MiB`,
    seen,
    held: seen === `24 of 24 came whole${NOBODY_FREE}`,
  }
}

/** The process is stopped for longer than the settlement's deadline, while the ledger answers in time. */
async function frozenBySignal(arena: Arena): Promise<Finding> {
  const victim = await arena.attacker(50_000)
  const streams = Array.from({ length: 300 }, (_, at) => {
    const mark = victim.plays({ pieces: 3, everyMs: 400 + at })
    return victim.call("chat", asking("chat", WIDE, mark, { stream: true, max_tokens: 30 }))
  })
  await Bun.sleep(1_100)
  arena.gateway.signal("SIGSTOP")
  await Bun.sleep(Number(HASTY.SETTLE_DEADLINE_MS) + 1_500)
  arena.gateway.signal("SIGCONT")
  const answers = await Promise.all(streams)
  const seen = await outcome(victim, answers)
  const refused = answers.filter(({ status }) => status !== 200).map(({ code }) => code)
  return {
    tried: "300 streams end around a stop of the process, longer than SETTLE_DEADLINE_MS",
    seen: `${seen}${refused.length > 0 ? `; ${refused.length} refused (${refused[0]})` : ""}`,
    held: seen.endsWith(NOBODY_FREE) && answers.every(({ ended }) => ended),
  }
}

/** Leaves a stream long before its end. The backend must be read to it, and the call charged as any other. */
async function leaves(
  arena: Arena,
  { seconds, afterMs, stream }: { readonly seconds: number; readonly afterMs: number; readonly stream: boolean },
): Promise<Finding> {
  const attacker = await arena.attacker(50_000)
  const pieces = seconds * 4
  const mark = attacker.plays(
    stream
      ? { pieces, everyMs: 250, counts: { input: 30, output: pieces } }
      : { afterMs: seconds * 1_000, pieces, counts: { input: 30, output: pieces } },
  )
  const before = await attacker.balanceMicro()
  const leaving = AbortSignal.timeout(afterMs)
  await attacker
    .call("chat", asking("chat", LONG, mark, { stream, max_tokens: 8_000 }), { signal: leaving })
    .catch(() => {})
  const [heard] = attacker.heard(mark)
  const until = performance.now() + 3 * seconds * 1_000
  const owed = worth(30, pieces)
  const over = () => heard?.told !== undefined || heard?.cut === true || performance.now() > until
  while (!over()) await Bun.sleep(250)
  await Bun.sleep(2_000)
  const charged = before - (await attacker.balanceMicro())
  return {
    tried: `${stream ? "a stream" : "a plain call"} of ${seconds} s is left after ${afterMs / 1_000} s`,
    seen: `${rp(charged)} of ${rp(owed)}; the backend was ${heard?.cut === true ? "cut off" : "read to its end"}`,
    held: charged === owed,
  }
}

async function echo(arena: Arena, backslashes: number, output: number): Promise<Finding> {
  const attacker = await arena.attacker(100_000)
  const model = "gpt-6.1-sol"
  const mark = attacker.plays({
    pieces: output,
    piece: "echo ",
    counts: { input: 30, output },
    echoes: "instructions",
  })
  const instructions = "\\".repeat(backslashes)
  const body = asking("responses", model, mark, { stream: true, instructions, max_output_tokens: output })
  const { status, code, requestId, ended } = await attacker.call("responses", body)
  const record = await attacker.record(requestId, status === 200 ? 5_000 : 0)
  const refused = status >= 400 && status < 500
  return {
    tried: `instructions of ${backslashes.toLocaleString("en")} backslashes, echoed in the closing event`,
    seen: refused
      ? `refused: ${code}`
      : `${status} ${ended ? "whole" : "failed at its end"}, ${record?.status} ${rp(record?.charge_micro ?? 0)}`,
    held: refused ? attacker.heard(mark).length === 0 : ended && record?.status === "ok" && record.charge_micro > 0,
  }
}

/** Stops reading in mid-stream, behind a backend that hangs up on consumers that take nothing. */
async function slowReader(arena: Arena, { full }: Size): Promise<Finding> {
  const attacker = await arena.attacker(50_000)
  const pieces = full ? 80_000 : 40_000
  const patienceMs = full ? 5_000 : 2_000
  const pauseMs = full ? 14_000 : 5_000
  const mark = attacker.plays({ pieces, piece: "s".repeat(200), patienceMs, counts: { input: 30, output: pieces } })
  const stream = await openStream(arena.url, attacker.key, "/v1/chat/completions", {
    ...asking("chat", LONG, mark, { stream: true }),
  })
  await stream.readUntil((_, bytes) => bytes > 2 ** 20)
  stream.pause()
  await Bun.sleep(pauseMs)
  stream.resume()
  const text = await stream.rest()
  const [heard] = attacker.heard(mark)
  const whole = text.includes("data: [DONE]") && !text.includes('data: {"error"')
  const record = await attacker.record(stream.requestId)
  return {
    tried: `${pieces.toLocaleString("en")} chunks, the client reads nothing for ${pauseMs / 1_000} s, the backend's patience is ${patienceMs / 1_000} s`,
    seen: `${whole ? "whole" : "broken off"}; the backend ${heard?.hungUp === true ? "hung up" : "was never blocked"}; ${record?.status} ${rp(record?.charge_micro ?? 0)}`,
    held: whole && record?.status === "ok" && record.charge_micro === worth(30, pieces),
  }
}

export const streamsRows: readonly Row[] = [
  {
    id: "M2",
    long: true,
    wanted: "every stream that came whole is charged",
    play: async (arena, size) => [await frozenByBodies(arena, size)],
  },
  {
    id: "M2",
    place: "hasty",
    wanted: "a late timer is no evidence",
    play: async (arena) => [await frozenByBodies(arena, { full: false }), await frozenBySignal(arena)],
  },
  {
    id: "M3",
    beside: true,
    wanted: "the backend is read to its end, and the call charged",
    play: (arena, { full }) =>
      Promise.all([
        leaves(
          arena,
          full ? { seconds: 150, afterMs: 85_000, stream: true } : { seconds: 70, afterMs: 4_000, stream: true },
        ),
        leaves(arena, { seconds: full ? 100 : 66, afterMs: 2_000, stream: false }),
      ]),
  },
  {
    id: "M6",
    wanted: "what may be sent in one event grows with the request",
    play: async (arena, { full }) => [await echo(arena, 4_193_974, full ? 2_000 : 200)],
  },
  {
    id: "M7",
    wanted: "the backend never waits for a client, and a pause loses nothing",
    play: async (arena, size) => [await slowReader(arena, size)],
  },
]
