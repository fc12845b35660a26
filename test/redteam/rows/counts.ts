/** What the backend counted, and what of it the customer pays: M1, M9, M10. */
import type { Arena } from "../lib/arena.ts"
import { asking, type Attacker, rp } from "../lib/attacker.ts"
import type { Finding, Row } from "../lib/row.ts"
import type { Counts } from "../lib/speech.ts"

const MODEL = "llama-3.3-70b"
const RATE = 12_096
const LIMIT = 8_192

interface Case {
  readonly tried: string
  readonly body: object
  readonly counts: Counts
  readonly choices?: number
  /** What the customer should pay, in micro-rupiah. */
  readonly chargeMicro: number
  readonly times?: number
}

async function play(attacker: Attacker, each: Case): Promise<Finding> {
  const { tried, body, counts, choices = 1, chargeMicro, times = 1 } = each
  const mark = attacker.plays({ counts, choices })
  const answers = await Promise.all(
    Array.from({ length: times }, () => attacker.call("chat", asking("chat", MODEL, mark, body))),
  )
  const records = await Promise.all(answers.map(({ requestId }) => attacker.record(requestId)))
  const charges = records.map((record) => record?.charge_micro)
  const seen = answers.map(
    ({ status, code }, at) => `${code ?? status} ${records[at]?.status ?? "no record"} ${rp(charges[at] ?? 0)}`,
  )
  const [first = "nothing"] = seen
  return {
    tried: times === 1 ? tried : `${tried}, ${times} at once`,
    seen: `${first} of ${rp(chargeMicro)}${times > 1 ? `; ${charges.filter((charge) => charge === 0).length} free` : ""}`,
    held: answers.every(({ ended }) => ended) && charges.every((charge) => charge === chargeMicro),
  }
}

const cases: readonly Case[] = [
  {
    tried: "n = 20, 147,456 output tokens",
    body: { n: 20, max_tokens: LIMIT },
    counts: { input: 30, output: 147_456 },
    choices: 20,
    chargeMicro: (147_456 + 30) * RATE,
    times: 10,
  },
  {
    tried: "n = 20, exactly 20 × the limit",
    body: { n: 20, max_tokens: LIMIT },
    counts: { input: 30, output: 20 * LIMIT },
    choices: 20,
    chargeMicro: (20 * LIMIT + 30) * RATE,
  },
  {
    tried: "n = 20, one token over 20 × the limit",
    body: { n: 20, max_tokens: LIMIT },
    counts: { input: 30, output: 20 * LIMIT + 1 },
    choices: 20,
    chargeMicro: (20 * LIMIT + 30) * RATE,
  },
  {
    tried: "n = 128 × 8,000, streamed",
    body: { n: 128, max_tokens: 8_000, stream: true },
    counts: { input: 30, output: 1_024_000 },
    choices: 128,
    chargeMicro: (1_024_000 + 30) * RATE,
  },
]

const limits: readonly Case[] = [
  {
    tried: "max_tokens 5, 80,000 counted",
    body: { max_tokens: 5 },
    counts: { input: 30, output: 80_000 },
    chargeMicro: 35 * RATE,
  },
  {
    tried: "max_tokens 5, n = 3, 80,000 counted",
    body: { max_tokens: 5, n: 3 },
    counts: { input: 30, output: 80_000 },
    choices: 3,
    chargeMicro: 45 * RATE,
  },
  {
    tried: "max_tokens 5, exactly 5",
    body: { max_tokens: 5 },
    counts: { input: 30, output: 5 },
    chargeMicro: 35 * RATE,
  },
  {
    tried: "max_completion_tokens 5, streamed, 6 counted",
    body: { max_completion_tokens: 5, stream: true },
    counts: { input: 30, output: 6 },
    chargeMicro: 35 * RATE,
  },
  {
    tried: "no limit, one over the model's own",
    body: {},
    counts: { input: 30, output: LIMIT + 1 },
    chargeMicro: (LIMIT + 30) * RATE,
  },
  {
    tried: "two words counted as window + 1",
    body: { max_tokens: 5 },
    counts: { input: 131_073, output: 5 },
    chargeMicro: (131_072 + 5) * RATE,
  },
]

/** Counts that nobody can be charged by. */
const unreadable: readonly (readonly [string, unknown])[] = [
  ["0 and 0 for an answer with text", { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }],
  ["negative", { prompt_tokens: 30, completion_tokens: -1, total_tokens: 29 }],
  ["a string", { prompt_tokens: "30", completion_tokens: 5, total_tokens: 35 }],
  ["a fraction", { prompt_tokens: 30.5, completion_tokens: 5, total_tokens: 35.5 }],
  ["missing", null],
]

async function missing(arena: Arena): Promise<Finding[]> {
  const attacker = await arena.attacker(10_000)
  const findings: Finding[] = []
  for (const stream of [false, true]) {
    for (const [tried, usage] of unreadable) {
      const mark = attacker.plays({ usage })
      const body = asking("chat", MODEL, mark, { max_tokens: 20, stream })
      const { status, requestId } = await attacker.call("chat", body)
      const record = await attacker.record(requestId)
      findings.push({
        tried: `${tried}${stream ? ", streamed" : ""}`,
        seen: `${status} ${record?.status} ${rp(record?.charge_micro ?? 0)}`,
        held: record?.status === "usage_missing" && record.charge_micro === 0,
      })
    }
  }
  return findings
}

const each = async (arena: Arena, balanceRp: number, all: readonly Case[]): Promise<Finding[]> => {
  const findings: Finding[] = []
  for (const one of all) findings.push(await play(await arena.attacker(balanceRp), one))
  return findings
}

export const countsRows: readonly Row[] = [
  {
    id: "M1",
    wanted: "each of n answers is charged, up to n × the limit",
    play: (arena) => each(arena, 100_000, cases),
  },
  { id: "M9", wanted: "charged up to the bound, the rest absorbed", play: (arena) => each(arena, 100_000, limits) },
  { id: "M10", wanted: "usage_missing, charge 0", play: missing },
]
