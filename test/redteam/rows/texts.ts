/** Embeddings, completions and the counts of responses: E1 odd bodies, E2 who may not, E5 what the backend counted. */
import { type Arena, COMPLETES, TEXT_WINDOW, VECTORS } from "../lib/arena.ts"
import { type Answered, asking, type Attacker, rp } from "../lib/attacker.ts"
import { type Finding, NotPlayed, type Row } from "../lib/row.ts"
import type { Counts } from "../lib/speech.ts"

/** Whose body is read: its path, a model that is served there, and the field of its texts. */
export const places = {
  embeddings: { path: "/v1/embeddings", model: VECTORS, field: "input" },
  completions: { path: "/v1/completions", model: COMPLETES, field: "prompt" },
  counting: { path: "/v1/responses/input_tokens", model: "gpt-6.1-sol", field: "input" },
} as const
export type Place = keyof typeof places
const everywhere = Object.keys(places) as Place[]

export function needed({ models }: Arena): void {
  if (!models.has(VECTORS)) throw new NotPlayed("this gateway has no embeddings")
}

export const forwarded = ({ backend }: Arena): number =>
  backend.heard.filter(({ format }) => format === "embeddings" || format === "completions").length

export async function told(response: Promise<Response>): Promise<string> {
  const { status, headers, body } = await response
  await body?.cancel()
  return headers.get("x-error-code") ?? String(status)
}

/** The fields as they stand in the body, behind the model. */
const send = (attacker: Attacker, place: Place, fields: string, key = attacker.key): Promise<string> =>
  told(attacker.post(places[place].path, `{"model":"${places[place].model}",${fields}}`, { key }))

const texts = [
  ["null", "1", "true", "{}", "[]", "[[]]", "[[[1]]]", "[null]", "[{}]"],
  ['["a",1]', '[1,"a"]', "[[1],1]", "[-1]", "[1.5]", "[1e400]", "[2147483648]", "[9007199254740993]", '{"0":"a"}'],
].flat()
const counts = ["-1", "0", "1.5", "1e308", "1e400", '"5"', "true", "[]", "9007199254740993"]
export const listOf = (count: number, unit: string) => `[${`${unit},`.repeat(count).slice(0, -1)}]`
export const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`

const odd: Readonly<Record<Place, readonly string[]>> = {
  embeddings: [
    '"user":"nothing asked"',
    '"input":""',
    '"input":["a",""]',
    ...texts.map((value) => `"input":${value}`),
    ...counts.map((value) => `"input":"a","dimensions":${value}`),
    ...['"int8"', "1", '["base64"]', "{}"].map((value) => `"input":"a","encoding_format":${value}`),
    `"input":${listOf(101, '"a"')}`,
    `"encoding_format":"base64","input":${listOf(2_049, '"a"')}`,
    `"encoding_format":"base64","input":${listOf(1_000, listOf(1_000, "1"))}`,
    `"encoding_format":"base64","input":${listOf(200_001, '"a"')}`,
    `"input":${deep}`,
  ],
  completions: [
    '"user":"nothing asked"',
    ...texts.map((value) => `"prompt":${value}`),
    ...["max_tokens", "n", "best_of"].flatMap((field) => counts.map((value) => `"prompt":"a","${field}":${value}`)),
    ...["n", "best_of"].map((field) => `"prompt":"a","${field}":129`),
    ...["stream", "echo"].flatMap((field) => ['"yes"', "1", "[]"].map((value) => `"prompt":"a","${field}":${value}`)),
    '"prompt":"a","suffix":["b"]',
    '"prompt":"a","suffix":1',
    '"prompt":"a","stream_options":[]',
    '"prompt":"a","echo":true,"n":2',
    `"prompt":${listOf(64, '"a"')},"n":3`,
    `"prompt":${listOf(129, '"a"')}`,
    `"prompt":${listOf(1_000, listOf(1_000, "1"))}`,
    `"prompt":${deep}`,
  ],
  counting: [
    ...["1", "true", "{}", "[1]", "[null]", "[[]]"].map((value) => `"input":${value}`),
    '"input":[{"role":"user","content":1}]',
    `"input":${listOf(1_000_000, "1")}`,
    `"input":${listOf(200_001, '"a"')}`,
    `"input":${deep}`,
    `"input":"a","tools":${deep}`,
  ],
}

async function oddBodies(arena: Arena): Promise<Finding[]> {
  needed(arena)
  const attacker = await arena.attacker(10_000)
  const before = forwarded(arena)
  const findings: Finding[] = []
  for (const place of everywhere) {
    const wrong: string[] = []
    for (const fields of odd[place]) {
      const code = await send(attacker, place, fields)
      if (!code.startsWith("request.invalid")) wrong.push(`${fields.slice(0, 60)}: ${code}`)
    }
    findings.push({
      tried: `${odd[place].length} odd bodies at ${places[place].path}`,
      seen: wrong.length === 0 ? "refused each" : wrong.join("; "),
      held: wrong.length === 0,
    })
  }
  const asked = forwarded(arena) - before
  const left = await attacker.balanceMicro()
  findings.push({
    tried: "what came of them",
    seen: `${asked} forwarded, ${rp(left)} left of ${rp(10_000_000_000)}`,
    held: asked === 0 && left === 10_000_000_000,
  })
  const polluted = '"__proto__":{"n":1e9,"input":"b"},"constructor":{"prototype":{"model":"x"}}'
  for (const place of everywhere) {
    const code = await send(attacker, place, `${polluted},"${places[place].field}":"${attacker.plays({})}"`)
    findings.push({
      tried: `__proto__ and constructor at ${places[place].path}`,
      seen: code,
      held: code === "200" || code === "request.invalid",
    })
  }
  return findings
}

/** Counting is free; nothing else is, and nothing is for a key that is none any more. */
const refusals: Readonly<Record<"an empty account" | "a revoked key" | "a key for chat alone", string>> = {
  "an empty account": "billing.insufficient_balance",
  "a revoked key": "auth.api_key_revoked",
  "a key for chat alone": "auth.key_not_allowed",
}

async function strangers(arena: Arena): Promise<Finding[]> {
  needed(arena)
  const [empty, paid] = [await arena.attacker(0), await arena.attacker(10_000)]
  const before = forwarded(arena)
  const bound = await paid.moreKey({ endpoints: ["chat"] })
  const revoked = await paid.moreKey()
  await send(paid, "embeddings", `"input":"${paid.plays({})}"`, revoked.key)
  await paid.dashboard(`/keys/${revoked.id}/revoke`, "POST")
  const keys = { "an empty account": empty.key, "a revoked key": revoked.key, "a key for chat alone": bound.key }
  const findings: Finding[] = []
  for (const [who, code] of Object.entries(refusals) as [keyof typeof refusals, string][]) {
    for (const place of everywhere) {
      const wanted = who === "an empty account" && place === "counting" ? "200" : code
      const fields = `"${places[place].field}":"a word"`
      const seen = await Promise.all(Array.from({ length: 8 }, () => send(paid, place, fields, keys[who])))
      findings.push({
        tried: `${who} at ${places[place].path}, 8 at once`,
        seen: [...new Set(seen)].join(", "),
        held: seen.every((each) => each === wanted),
      })
    }
  }
  const asked = forwarded(arena) - before
  findings.push({ tried: "what came of them", seen: `${asked - 1} forwarded`, held: asked === 1 })
  return findings
}

interface Counted {
  readonly tried: string
  readonly place: "embeddings" | "completions"
  readonly more: object
  readonly counts: Counts
  readonly choices?: number
  readonly chargeMicro: number
}

const twice = (mark: string, field: string) => ({ [field]: [mark, "a"] })
const counted: readonly Counted[] = [
  {
    tried: "two texts, counted as two windows and one",
    place: "embeddings",
    more: {},
    counts: { input: 2 * TEXT_WINDOW + 1, output: 0 },
    choices: 2,
    chargeMicro: 2 * TEXT_WINDOW * 1_000,
  },
  {
    tried: "vectors that are counted as output",
    place: "embeddings",
    more: {},
    counts: { input: 30, output: 5_000 },
    choices: 2,
    chargeMicro: 30_000,
  },
  {
    tried: "best_of 4 of two prompts, 8 × the limit and one",
    place: "completions",
    more: { n: 2, best_of: 4, max_tokens: 100 },
    counts: { input: 30, output: 801 },
    choices: 4,
    chargeMicro: 30_000 + 800 * 5_000,
  },
  {
    tried: "no limit, which is 16 for each of two, and one",
    place: "completions",
    more: {},
    counts: { input: 30, output: 33 },
    choices: 2,
    chargeMicro: 30_000 + 32 * 5_000,
  },
  {
    tried: "an echo, streamed, counted as two windows and one",
    place: "completions",
    more: { echo: true, stream: true, max_tokens: 5 },
    counts: { input: 2 * TEXT_WINDOW + 1, output: 10 },
    choices: 2,
    chargeMicro: 2 * TEXT_WINDOW * 1_000 + 10 * 5_000,
  },
]

async function bounds(arena: Arena): Promise<Finding[]> {
  needed(arena)
  const attacker = await arena.attacker(100_000)
  const findings: Finding[] = []
  const seenOf = async ({ status, code, requestId }: Answered) => {
    const record = await attacker.record(requestId)
    return { record, seen: `${code ?? status} ${record?.status} ${rp(record?.charge_micro ?? 0)}` }
  }
  for (const { tried, place, more, counts: told, choices = 1, chargeMicro } of counted) {
    const mark = attacker.plays({ counts: told, choices, pieces: 4 })
    const { model, field } = places[place]
    const answer = await attacker.call(place, { model, ...twice(mark, field), ...more })
    const { record, seen } = await seenOf(answer)
    findings.push({
      tried: `${place}: ${tried}`,
      seen: `${seen} of ${rp(chargeMicro)}`,
      held: answer.ended && record?.charge_micro === chargeMicro,
    })
  }
  for (const place of ["embeddings", "completions"] as const) {
    for (const usage of [
      null,
      { prompt_tokens: -1, total_tokens: -1 },
      { prompt_tokens: 1e20, completion_tokens: 1 },
    ]) {
      const answer = await attacker.call(place, asking(place, places[place].model, attacker.plays({ usage })))
      const { record, seen } = await seenOf(answer)
      findings.push({
        tried: `${place}: counts of ${JSON.stringify(usage)}`,
        seen,
        held: record?.status === "usage_missing" && record.charge_micro === 0,
      })
    }
  }
  return findings
}

export const textsRows: readonly Row[] = [
  { id: "E1", wanted: "400 each, nothing forwarded, nothing charged", play: oddBodies },
  { id: "E2", wanted: "refused before anything is forwarded; counting is free", play: strangers },
  { id: "E5", wanted: "charged up to the bound, the rest absorbed; unreadable counts are free", play: bounds },
]
