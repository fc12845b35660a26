/** Embeddings, completions and the counts of responses, large: E3 bodies that are dear to read, E4 answers that nobody reads. */
import { type Arena, VECTORS } from "../lib/arena.ts"
import { asking } from "../lib/attacker.ts"
import { filled } from "../lib/bodies.ts"
import { USUAL } from "../lib/environment.ts"
import { forgetPeak, LOOP_MS, MEMORY_MIB, peakMib, residentMib, workOf } from "../lib/process.ts"
import { openStream } from "../lib/raw.ts"
import type { Finding, Row } from "../lib/row.ts"
import { deep, forwarded, listOf, needed, type Place, places, told } from "./texts.ts"

const MIB = 32
const lists = (place: Place, count: number, mark: string) =>
  `{"model":"${places[place].model}","encoding_format":"base64","max_tokens":1,"${places[place].field}":["${mark}",${listOf(count / 1_000, listOf(1_000, "1")).slice(1)}}`
const before = (place: Place) =>
  `{"model":"${places[place].model}","encoding_format":"base64","${places[place].field}":`

interface Dear {
  readonly tried: string
  readonly place: Place
  readonly body: (mark: string) => string | Uint8Array
  readonly told: string
}

/** A body of many values stops being read at their limit; one long text is read to its end and is over the window. */
const dear: readonly Dear[] = [
  ...(["embeddings", "completions"] as const).flatMap((place): Dear[] => [
    {
      tried: `${MIB} MiB of token ids`,
      place,
      body: () => filled(MIB, `${before(place)}[`, () => "1", "]}"),
      told: "request.invalid",
    },
    {
      tried: `${MIB} MiB of texts`,
      place,
      body: () => filled(MIB, `${before(place)}[`, () => '"a"', "]}"),
      told: "request.invalid",
    },
    {
      tried: `${MIB} MiB of brackets`,
      place,
      body: () => filled(MIB, `${before(place)}[`, () => "[", "", ""),
      told: "request.invalid",
    },
    {
      tried: `${MIB} MiB of one text`,
      place,
      body: () => filled(MIB, `${before(place)}"`, () => "word ", '"}', ""),
      told: "upstream.context_length_exceeded",
    },
    { tried: "1,000,000 token ids", place, body: (mark) => lists(place, 1_000_000, mark), told: "request.invalid" },
  ]),
  {
    tried: "500,000 token ids, which are served",
    place: "embeddings",
    body: (mark) => lists("embeddings", 500_000, mark),
    told: "200",
  },
  {
    tried: `${MIB} MiB of numbers`,
    place: "counting",
    body: () => filled(MIB, `${before("counting")}[`, () => "1", "]}"),
    told: "request.invalid",
  },
  {
    tried: `${MIB} MiB of brackets`,
    place: "counting",
    body: () => filled(MIB, `${before("counting")}[`, () => "[", "", ""),
    told: "request.invalid",
  },
  {
    tried: `${MIB} MiB of one text`,
    place: "counting",
    body: () => filled(MIB, `${before("counting")}"`, () => "word ", '"}', ""),
    told: "200",
  },
]

async function dearBodies(arena: Arena, full: boolean): Promise<Finding[]> {
  needed(arena)
  const attacker = await arena.attacker(100_000)
  const empty = await arena.attacker(0)
  const findings: Finding[] = []
  for (const { tried, place, body, told: wanted } of dear) {
    const bytes = body(attacker.plays({ counts: { input: 500_000, output: 0 } }))
    const ask = () => told(attacker.post(places[place].path, bytes))
    const cost = await workOf(arena.gateway, { tried: `${tried} at ${places[place].path}`, ask, full })
    findings.push({ ...cost, held: cost.held && cost.seen.startsWith(`${wanted}:`) })
    if (tried !== `${MIB} MiB of one text` || place === "counting") continue
    const code = await told(empty.post(places[place].path, bytes)).catch(() => "connection lost")
    findings.push({
      tried: `${tried} at ${places[place].path}, of an empty account`,
      seen: code,
      held: code === "billing.insufficient_balance",
    })
  }
  return findings
}

const DIMENSIONS = 3_072
/** As large as answers may be: a vector of so many dimensions for each of 2,048 texts. */
const vector = "A".repeat((DIMENSIONS * 4 * 4) / 3)
const asksAll = (mark: string) => ({
  model: VECTORS,
  encoding_format: "base64",
  input: [mark, ...Array.from({ length: 2_047 }, (_, index) => String(index))],
})
/** What answers of one account after the other may have together: seven eighths of what bodies may. */
const ROOM_MIB = (Number(USUAL.BODY_MEMORY_BYTES) / 2 ** 20 / 8) * 7
/** Of memory at the most, with what was only needed to read and write them. */
const UNREAD_MIB = 1_400

async function unread(arena: Arena, accounts: number): Promise<Finding[]> {
  needed(arena)
  const { pid } = arena.gateway
  const { path } = places.embeddings
  const script = { choices: 2_048, piece: vector, counts: { input: 4_096, output: 0 } }
  const everyone = await Promise.all(Array.from({ length: accounts }, () => arena.attacker(10_000)))
  const victim = await arena.attacker(10_000)
  forgetPeak(pid)
  const atFirst = residentMib(pid)
  const asked = forwarded(arena)
  const opened = []
  for (const one of everyone) {
    const streams = await Promise.all(
      Array.from({ length: 8 }, async () => {
        const stream = await openStream(arena.url, one.key, path, asksAll(one.plays(script)))
        await stream.readUntil((text) => text.includes("\r\n\r\n"), 60_000)
        stream.pause()
        return { one, stream }
      }),
    )
    opened.push(...streams)
  }
  await Bun.sleep(1_000)
  const served = opened.filter(({ stream }) => stream.text.startsWith("HTTP/1.1 200"))
  const others = opened.filter(({ stream }) => !stream.text.startsWith("HTTP/1.1 200"))
  const refused = others.filter(({ stream }) => /x-error-code: gateway\.capacity/i.test(stream.text)).length
  const memory = peakMib(pid) - atFirst
  const mib = Math.round((2_048 * vector.length) / 2 ** 20)
  const reached = forwarded(arena) - asked
  const little = asking("embeddings", VECTORS, victim.plays({ counts: { input: 9, output: 0 } }))
  const beside = await told(victim.post(path, little))
  const healthy = await fetch(`${arena.url}/healthz`, { signal: AbortSignal.timeout(5_000) }).then(
    ({ ok }) => ok,
    () => false,
  )
  // Half of those that have one read on, the others leave.
  const ends = await Promise.all(
    served.map(async ({ stream }, at) => {
      if (at % 2 === 1) return void stream.socket.destroy()
      stream.resume()
      const text = (await stream.rest(2_000)).replace(/\r\n[0-9a-f]+\r\n/g, "")
      return text.match(/"index":/g)?.length
    }),
  )
  for (const { stream } of opened) stream.socket.destroy()
  const whole = ends.filter((_, at) => at % 2 === 0)
  let again = ""
  for (let tries = 0; tries < 40 && again !== "200"; tries++) {
    again = await told(everyone[0]!.post(path, asksAll(everyone[0]!.plays(script))))
    if (again !== "200") await Bun.sleep(250)
  }
  return [
    {
      tried: `${opened.length} answers of ${mib} MiB, of ${accounts} accounts, that nobody reads`,
      seen: `${served.length} served, ${refused} refused for want of room, ${reached} forwarded; at most +${memory.toFixed(0)} MiB${healthy ? "" : "; /healthz does not answer"}`,
      held:
        served.length > 0 &&
        served.length + refused === opened.length &&
        reached === served.length &&
        served.length * mib <= ROOM_MIB &&
        memory < UNREAD_MIB &&
        healthy,
    },
    { tried: "another account's embedding beside them", seen: beside, held: beside === "200" },
    {
      tried: "half of them read on, half leave",
      seen: `${whole.filter((count) => count === 2_048).length} of ${whole.length} whole; then ${again}`,
      held: whole.every((count) => count === 2_048) && again === "200",
    },
  ]
}

/** Answers beyond what was asked for: a vector without end, numbers without end, brackets. */
async function overlong(arena: Arena): Promise<Finding[]> {
  needed(arena)
  const attacker = await arena.attacker(10_000)
  const usage = { prompt_tokens: 3, total_tokens: 3 }
  const answers = {
    "64 MiB of one vector": `"${"A".repeat(64 * 2 ** 20)}"`,
    "2,000,000 numbers": listOf(2_000_000, "0"),
    "100,000 brackets": deep,
  }
  const findings: Finding[] = []
  for (const [tried, embedding] of Object.entries(answers)) {
    const body = `{"object":"list","data":[{"object":"embedding","index":0,"embedding":${embedding}}],"usage":${JSON.stringify(usage)}}`
    const mark = attacker.plays({
      respond: (_, response) => response.writeHead(200, { "Content-Type": "application/json" }).end(body),
    })
    const ask = () => told(attacker.post(places.embeddings.path, asking("embeddings", VECTORS, mark)))
    const cost = await workOf(arena.gateway, { tried: `${tried} for one text`, ask, full: false })
    findings.push({ ...cost, held: cost.held && cost.seen.startsWith("dependency.upstream_unavailable:") })
  }
  return findings
}

export const largeTextsRows: readonly Row[] = [
  {
    id: "E3",
    wanted: `at most ${LOOP_MS} ms of the event loop, ${MEMORY_MIB} MiB, and 10 ms at a stretch`,
    play: async (arena, { full }) => [...(await dearBodies(arena, full)), ...(await overlong(arena))],
  },
  {
    id: "E4",
    wanted: "answers that nobody reads are as many as there is room for, whoever asks, and others are served",
    play: (arena, { full }) => unread(arena, full ? 10 : 4),
  },
]
