/** How a modelled backend sends its answer: what of it, how fast, and what comes after. Times in milliseconds. */
import type { Translated } from "../../src/language/request.ts"
import { errorEvent, wordEvent } from "./backend-answers.ts"
import type { Fault } from "./faults.ts"
import type { Stage } from "./stage.ts"

export interface Sending {
  readonly pieces: readonly string[]
  readonly end: "close" | "break" | "hang"
  /** The whole answer is there, to its end. */
  readonly intact: boolean
  readonly pause: () => number
  /** Breaks the connection off when the gateway has not read for so long. */
  readonly patienceMs?: number
  /** Sent without end in place of more pieces. */
  readonly forever?: string
  /** From this piece on nothing is a whole event. */
  readonly noEventFrom?: number
}

interface Terms {
  readonly stage: Stage
  readonly format: Translated
  readonly streams: boolean
  /** The request, as it could be repeated. */
  readonly text: string
  /** The whole answer. */
  readonly pieces: readonly string[]
}

/** How long a backend waits for a gateway that does not read. */
const SLOW_READER_MS = 2_000

export function sendingOf(terms: Terms, fault: Fault | undefined): Sending {
  const { pieces, stage } = terms
  const usual = { pieces, end: "close", intact: true, pause: () => stage.delay(40) } as const
  return { ...usual, ...(fault && manners[fault]?.(terms)) }
}

const manners: { readonly [F in Fault]?: (terms: Terms) => Partial<Sending> } = {
  "backend hangs up after the head": () => ({ pieces: [], end: "break", intact: false }),
  "backend hangs up in mid-answer": (terms) => ({ ...firstOf(terms), end: "break" }),
  "backend falls silent in mid-answer": (terms) => ({ ...firstOf(terms), end: "hang" }),
  "backend ends without a terminal event": (terms) => firstOf(terms),
  "backend sends an error in its answer": (terms) =>
    firstOf(terms, terms.streams ? errorEvent(terms.format) : `{"error":{"message":"broken"}}`),
  "backend sends damaged bytes": (terms) => firstOf(terms, `data: {"id": \ufffd\n\n`),
  "backend is slow": ({ stage }) => ({ pause: () => stage.delay(5_000) }),
  "backend repeats the request at its end": ({ pieces, text }) => ({
    pieces: [...pieces.slice(0, -1), repeating(pieces.at(-1) ?? "", text)],
  }),
  "backend sends its events in pieces": (terms) => {
    const { pieces } = firstOf(terms)
    const scraps = (terms.pieces[pieces.length] ?? "").slice(0, 60).split("")
    return { ...inDribbles(terms), pieces: [...pieces, ...scraps], end: "hang", noEventFrom: pieces.length }
  },
  "backend sends comments only": (terms) => {
    const pieces = terms.streams ? firstOf(terms).pieces : []
    const forever = terms.streams ? ": still here\n\n" : " "
    return { ...inDribbles(terms), pieces, forever, noEventFrom: pieces.length }
  },
  "backend never ends": (terms) => {
    const forever = terms.streams ? wordEvent(terms.format, "more ") : " "
    return { ...inDribbles(terms), pieces: terms.pieces.slice(0, 2), forever }
  },
  "backend answers at length": (terms) => ({
    pieces: lengthened(terms, 10 + Math.floor(terms.stage.random() * 12)),
    pause: () => terms.stage.delay(5_000),
  }),
  "backend sends fast and hangs up on who reads slowly": (terms) => ({
    pieces: lengthened(terms, 30, "at length ".repeat(300)),
    pause: () => terms.stage.delay(8),
    patienceMs: SLOW_READER_MS,
  }),
}

/** Only a part of the answer comes, and perhaps something else after it. */
function firstOf({ stage, pieces }: Terms, ...more: readonly string[]) {
  const kept = Math.floor(stage.random() * pieces.length)
  return { pieces: [...pieces.slice(0, kept), ...more], intact: false }
}

const inDribbles = ({ stage }: Terms) => ({ intact: false, pause: () => 500 + stage.delay(1_500) })

/** So many words more, after the first ones. */
function lengthened({ pieces, format, streams }: Terms, count: number, word = "more "): readonly string[] {
  if (!streams) return pieces
  return [...pieces.slice(0, 2), ...Array.from({ length: count }, () => wordEvent(format, word)), ...pieces.slice(2)]
}

/** The same event or reply with the request in it, as some write it: each character escaped. */
function repeating(piece: string, text: string): string {
  const escaped = text.replaceAll(/./gsu, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`)
  return piece.replace("{", () => `{"request":"${escaped}",`)
}
