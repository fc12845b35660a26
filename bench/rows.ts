/** What is measured of each target: a kind of call and how many clients make it at once. */
import type { AnswerOptions } from "./backend.ts"
import type { Kind, TargetName } from "./targets.ts"

export const OUTPUT = 20
const LONG_OUTPUT = 200
export const PACE_MS = 200
const PACED_EVENTS = 50
const PACED_STREAMS = 2_000
/** Of the row that has the embedded database's goal. */
export const EMBEDDED_CLIENTS = 32
/** Over it an answer in one piece is asked for as a stream and put together (decisions §13.12). */
const GATHERED_TOKENS = 9_000

interface Call {
  readonly answer: string
  readonly promptBytes: number
  readonly headers?: Readonly<Record<string, string>>
  /** The client's limit of the answer, in tokens. */
  readonly maxTokens?: number
  /** The client has the answer in one piece, whatever the backend sends; only by these targets. */
  readonly whole?: readonly TargetName[]
}

/** With every call of the OpenAI and the Anthropic SDK: it may be sent again. */
const SDK = { "X-Stainless-Retry-Count": "0" }

/** The backend's answers. `apart` sends each event in a turn of its own, the others all in one piece. */
export const answers: Readonly<Record<string, AnswerOptions>> = {
  plain: { output: OUTPUT, stream: false },
  "stream-20": { output: OUTPUT, stream: true },
  "stream-200": { output: LONG_OUTPUT, stream: true },
  "apart-200": { output: LONG_OUTPUT, stream: true, paceMs: 0 },
  paced: { output: PACED_EVENTS, stream: true, paceMs: PACE_MS },
}

export const calls = {
  plain: { answer: "plain", promptBytes: 1_024 },
  "32k": { answer: "plain", promptBytes: 32 * 1_024 },
  "256k": { answer: "plain", promptBytes: 256 * 1_024 },
  "plain-sdk": { answer: "plain", promptBytes: 1_024, headers: SDK },
  gathered: {
    answer: "stream-20",
    promptBytes: 1_024,
    maxTokens: GATHERED_TOKENS,
    whole: ["postgres", "million", "embedded"],
  },
  "stream-20": { answer: "stream-20", promptBytes: 1_024 },
  "stream-20-sdk": { answer: "stream-20", promptBytes: 1_024, headers: SDK },
  "stream-200": { answer: "stream-200", promptBytes: 1_024 },
  "apart-200": { answer: "apart-200", promptBytes: 1_024 },
  paced: { answer: "paced", promptBytes: 1_024 },
} as const satisfies Readonly<Record<string, Call>>

export type CallName = keyof typeof calls

export interface Row {
  readonly call: CallName
  readonly kind: Kind
  readonly clients: number
  /** Undefined: all that can serve it. */
  readonly targets?: readonly TargetName[]
}

/** Content events between the short and the long stream: what an event costs is the difference. */
export const EVENTS_BETWEEN = LONG_OUTPUT - OUTPUT

const termsOf = (call: CallName): Call => calls[call]

const isStream = (call: CallName): boolean =>
  termsOf(call).whole === undefined && answers[termsOf(call).answer]?.stream === true

export const headersOf = (call: CallName): Readonly<Record<string, string>> => termsOf(call).headers ?? {}

export const endingOf = (call: CallName): string => (isStream(call) ? "[DONE]" : "}")

export function bodyOf(call: CallName, model: string): string {
  const make = (content: string) =>
    JSON.stringify({
      model,
      stream: isStream(call),
      max_tokens: termsOf(call).maxTokens,
      messages: [{ role: "user", content }],
    })
  const words = "The old harbour had been quiet for years before the ferry came back, and nobody minded. "
  const length = calls[call].promptBytes - make("").length
  return make(words.repeat(Math.ceil(length / words.length)).slice(0, length))
}

export interface RowFilter {
  readonly only: readonly string[] | undefined
  readonly clients: readonly number[] | undefined
  /** All combinations; without it those with many clients or one are plain calls and short streams alone. */
  readonly full: boolean
}

export function rowsOf({ only, clients, full }: RowFilter): Row[] {
  const rows: Row[] = []
  for (const call of Object.keys(calls) as CallName[]) {
    if (only !== undefined && !only.includes(call)) continue
    for (const kind of ["same", "translated"] as const) {
      for (const count of call === "paced" ? [PACED_STREAMS] : (clients ?? [64, 1, 512])) {
        const central = kind === "same" && (call === "plain" || call === "stream-20")
        const usual = call === "paced" ? kind === "same" : count === 64 || central
        const { whole } = termsOf(call)
        if (full || usual || (clients !== undefined && call !== "paced"))
          rows.push({ call, kind, clients: count, ...(whole !== undefined && { targets: whole }) })
      }
    }
  }
  if (clients === undefined && (only === undefined || only.includes("plain")))
    rows.push({ call: "plain", kind: "same", clients: EMBEDDED_CLIENTS, targets: ["embedded"] })
  return rows
}
