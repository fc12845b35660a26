/**
 * Every way in which a call can end: what befalls it, and where it is then; what its record says, who bears what the backend
 * is paid, and what its client hears. Data, which endings.test.ts plays cell by cell and docs/reliability.md shows.
 */
import type { UsageStatus } from "../../actors/ledger.ts"

/** Where a call is. */
export const states = {
  waiting: "waits for a slot",
  trying: "is forwarded, nothing has come",
  relaying: "content has come",
  draining: "its client has left",
  settling: "the answer is whole, the ledger is asked",
} as const
export type State = keyof typeof states

/** What befalls it. */
export const causes = {
  "client leaves": "the client closes its connection",
  "client is slow": "the client takes nothing for a while, and then the rest",
  "client half-closes": "the client closes its sending side, which is leaving",
  "backend breaks": "the backend's connection is reset",
  "backend hangs": "the backend says nothing more",
  "backend lies": "the backend counts more than was asked for",
  "backend echoes": "an event repeats a large request",
  deadline: "the time allowed for this is over",
  drain: "SIGTERM, and the call comes to its end within `DRAIN_MS`",
  "drain is over": "SIGTERM, and it does not",
  crash: "SIGKILL",
  late: "the process stands still for longer than any deadline",
} as const
export type Cause = keyof typeof causes

export interface Ending {
  /** Nothing is recorded of a call that was not forwarded. */
  readonly record: UsageStatus | "none"
  /** Who bears the backend's bill: the customer by a charge; the house, free for the customer; both; nobody, for there is none. */
  readonly pays: "customer" | "house" | "both" | "nobody"
  readonly hears: "the whole answer" | "a failure" | "a refusal" | "nothing more"
}

const whole: Ending = { record: "ok", pays: "customer", hears: "the whole answer" }
const unheard: Ending = { record: "ok", pays: "customer", hears: "nothing more" }
const broken: Ending = { record: "upstream_error", pays: "house", hears: "a failure" }
const refused: Ending = { record: "none", pays: "nobody", hears: "a refusal" }

const noBackendYet = "no backend is called yet"
const backendDone = "the backend has ended"
const clientGone = "there is no client any more"

/** A text says why there is no such case. */
export const endings: Readonly<Record<Cause, Readonly<Record<State, Ending | string>>>> = {
  "client leaves": {
    waiting: { record: "none", pays: "nobody", hears: "nothing more" },
    trying: unheard,
    relaying: unheard,
    draining: clientGone,
    settling: unheard,
  },
  "client is slow": { waiting: whole, trying: whole, relaying: whole, draining: clientGone, settling: whole },
  "client half-closes": {
    waiting: { record: "none", pays: "nobody", hears: "nothing more" },
    trying: unheard,
    relaying: unheard,
    draining: clientGone,
    settling: unheard,
  },
  "backend breaks": {
    waiting: noBackendYet,
    trying: { ...broken, record: "aborted_stream" },
    relaying: broken,
    draining: { ...broken, hears: "nothing more" },
    settling: backendDone,
  },
  "backend hangs": {
    waiting: noBackendYet,
    trying: { ...broken, record: "aborted_stream" },
    relaying: broken,
    draining: { ...broken, hears: "nothing more" },
    settling: backendDone,
  },
  "backend lies": {
    waiting: noBackendYet,
    trying: { ...whole, pays: "both" },
    relaying: { ...whole, pays: "both" },
    draining: { ...unheard, pays: "both" },
    settling: backendDone,
  },
  "backend echoes": { waiting: noBackendYet, trying: whole, relaying: whole, draining: unheard, settling: backendDone },
  deadline: {
    waiting: refused,
    trying: { ...broken, record: "aborted_stream" },
    relaying: broken,
    draining: { record: "usage_missing", pays: "house", hears: "nothing more" },
    settling: { record: "billing_error", pays: "house", hears: "the whole answer" },
  },
  drain: { waiting: refused, trying: whole, relaying: whole, draining: unheard, settling: whole },
  "drain is over": {
    waiting: refused,
    trying: { ...broken, record: "aborted_stream" },
    relaying: broken,
    draining: { record: "usage_missing", pays: "house", hears: "nothing more" },
    settling: whole,
  },
  crash: {
    waiting: { record: "none", pays: "nobody", hears: "nothing more" },
    trying: { record: "billing_error", pays: "house", hears: "nothing more" },
    relaying: { record: "billing_error", pays: "house", hears: "nothing more" },
    draining: { record: "billing_error", pays: "house", hears: "nothing more" },
    settling: { record: "billing_error", pays: "house", hears: "nothing more" },
  },
  late: { waiting: whole, trying: whole, relaying: whole, draining: unheard, settling: whole },
}

const payers: Record<Ending["pays"], string> = {
  customer: "the customer",
  house: "the house",
  both: "the customer up to the bound, the house the rest",
  nobody: "nobody",
}

const cell = (ending: Ending | string): string =>
  typeof ending === "string"
    ? `_${ending}_`
    : `${ending.record === "none" ? "no record" : `\`${ending.record}\``}; ${payers[ending.pays]} pays; hears ${ending.hears}`

/** The table of docs/reliability.md. */
export function endingsTable(): string {
  const names = Object.keys(states) as State[]
  const rows = Object.entries(endings).map(
    ([cause, row]) =>
      `| **${cause}**: ${causes[cause as Cause]} | ${names.map((state) => cell(row[state])).join(" | ")} |`,
  )
  const head = names.map((state) => `_${state}_: ${states[state]}`)
  return [`| | ${head.join(" | ")} |`, `|${"---|".repeat(names.length + 1)}`, ...rows].join("\n")
}
