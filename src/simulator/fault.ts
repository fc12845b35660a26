/**
 * The ways in which a call can be made to go wrong. `after` counts content events (text, thinking and argument deltas)
 * that are sent before it happens; 0 is before any event at all, `preamble` after those that carry no content yet.
 * A fault whose place lies behind the last content event happens before the terminal event, so that it always does.
 */

/**
 * Reads a script's parameters one by one and remembers what it did not like. Each is taken when it is read, so what is
 * left over at the end is what nobody knows: a misspelling, or a parameter of a fault that is not played.
 */
export class Parameters {
  readonly #values: URLSearchParams
  readonly #problems: string[] = []

  constructor(query: string, override: string) {
    this.#values = new URLSearchParams(query)
    for (const [name, value] of new URLSearchParams(override)) this.#values.set(name, value)
  }

  text(name: string): string | undefined {
    const value = this.#values.get(name) ?? undefined
    this.#values.delete(name)
    return value
  }

  integer(name: string, least = 0): number | undefined {
    const value = this.text(name)
    if (value === undefined) return undefined
    const number = /^\d{1,16}$/.test(value) ? Number(value) : -1
    if (number < least) this.complain(`${name} must be an integer of at least ${least}, not "${value}"`)
    return Math.max(number, least)
  }

  oneOf<T extends string>(name: string, allowed: readonly T[]): T | undefined {
    const value = this.text(name)
    if (value === undefined) return undefined
    const found = allowed.find((one) => one === value)
    if (found === undefined) this.complain(`${name} must be one of ${allowed.join(", ")}, not "${value}"`)
    return found
  }

  /** Some of what is allowed, with commas between. */
  someOf<T extends string>(name: string, allowed: readonly T[]): T[] {
    const found = this.text(name)?.split(",") ?? []
    for (const one of found)
      if (!allowed.some((known) => known === one))
        this.complain(`${name} must be some of ${allowed.join(", ")}, not "${one}"`)
    return allowed.filter((known) => found.includes(known))
  }

  json(name: string): unknown {
    const value = this.text(name)
    if (value === undefined) return undefined
    try {
      return JSON.parse(value)
    } catch {
      this.complain(`${name} is not JSON`)
      return undefined
    }
  }

  complain(problem: string): void {
    this.#problems.push(problem)
  }

  /** The first problem, an unknown parameter included. */
  problem(): string | undefined {
    const [known] = this.#problems
    if (known !== undefined) return known
    const [unknown] = this.#values.keys()
    return unknown === undefined ? undefined : `"${unknown}" is not a parameter of this script`
  }
}

export type After = number | "preamble"

/** What a vendor can complain of; each format has its own words for it (format.ts). */
export type Complaint = "overloaded" | "rate-limited" | "context" | "unsupported" | "server"

/**
 * Fields that OpenAI's chat completions do not take: the older name of the answer limit on models that think, and metadata of an
 * answer that is not to be stored. No fault: it is so in each call.
 */
export const refusableFields = ["max_tokens", "metadata"] as const
export type RefusableField = (typeof refusableFields)[number]

export type Fault =
  /** An error status before anything else. */
  | StatusFault
  | { readonly kind: "complaint"; readonly complaint: Complaint }
  /** `refuse` closes the connection before the head, `silent` never answers. */
  | { readonly kind: "refuse" }
  | { readonly kind: "silent" }
  /** A whole answer with nothing in it. */
  | { readonly kind: "empty" }
  /** `reset` tears the connection, `cut` ends the stream as if it were whole, `garbage` sends an event that is no JSON. */
  | { readonly kind: "reset" | "cut" | "garbage"; readonly after: After }
  /** The format's in-stream error; `failed` is the response object of that status, which only responses have. */
  | { readonly kind: "error-event" | "failed"; readonly after: After; readonly complaint: Complaint }
  /** Sends nothing for a while, then goes on. */
  | { readonly kind: "stall"; readonly after: After; readonly stallMs: number }

/** What can befall an answer on its way; the others come in its place. */
export type AnswerFault = Exclude<Fault, { kind: "status" | "complaint" | "refuse" | "silent" }>

export const comesInsteadOfAnswer = (fault: Fault): boolean =>
  fault.kind === "status" || fault.kind === "complaint" || fault.kind === "refuse" || fault.kind === "silent"

export interface StatusFault {
  readonly kind: "status"
  readonly status: number
  /** Sent as it is written, so that nonsense can be sent too. */
  readonly retryAfter: string | undefined
  readonly message: string | undefined
  readonly code: string | undefined
  /** `vendor` is the format's own error body, `json` somebody else's, `html` a proxy's page. */
  readonly body: "vendor" | "json" | "html" | "empty"
}

const complaints = ["overloaded", "rate-limited", "context", "unsupported", "server"] as const

/** By the name that a script gives it. */
const readers = {
  status: (parameters) => readStatus(parameters),
  context: () => ({ kind: "complaint", complaint: "context" }),
  unsupported: () => ({ kind: "complaint", complaint: "unsupported" }),
  refuse: () => ({ kind: "refuse" }),
  silent: () => ({ kind: "silent" }),
  empty: () => ({ kind: "empty" }),
  reset: (parameters) => ({ kind: "reset", after: readAfter(parameters) }),
  "late-reset": () => ({ kind: "reset", after: Infinity }),
  cut: (parameters) => ({ kind: "cut", after: readAfter(parameters) }),
  garbage: (parameters) => ({ kind: "garbage", after: readAfter(parameters) }),
  "error-event": (parameters) => ({
    kind: "error-event",
    after: readAfter(parameters),
    complaint: readComplaint(parameters),
  }),
  failed: (parameters) => ({ kind: "failed", after: readAfter(parameters), complaint: readComplaint(parameters) }),
  stall: (parameters) => ({
    kind: "stall",
    after: readAfter(parameters),
    stallMs: parameters.integer("stall") ?? 0,
  }),
} satisfies Record<string, (parameters: Parameters) => Fault>

const kinds = Object.keys(readers) as (keyof typeof readers)[]

export const readFault = (parameters: Parameters): Fault | undefined => {
  const kind = parameters.oneOf("fault", kinds)
  return kind === undefined ? undefined : readers[kind](parameters)
}

const readComplaint = (parameters: Parameters): Complaint => parameters.oneOf("error", complaints) ?? "overloaded"

const readStatus = (parameters: Parameters): StatusFault => {
  const status = parameters.integer("status") ?? 500
  if (status < 400 || status > 599) parameters.complain(`status must be 400 to 599, not "${status}"`)
  return {
    kind: "status",
    status,
    retryAfter: parameters.text("retry_after"),
    message: parameters.text("message"),
    code: parameters.text("code"),
    body: parameters.oneOf("body", ["vendor", "json", "html", "empty"] as const) ?? "vendor",
  }
}

const readAfter = (parameters: Parameters): After => {
  const value = parameters.text("after") ?? "0"
  if (value === "preamble") return value
  if (/^\d{1,9}$/.test(value)) return Number(value)
  parameters.complain(`after must be a number of content events or "preamble", not "${value}"`)
  return 0
}

/** Where a whole body is cut: at a quotation mark, because a cut between the halves of a surrogate pair would change the text. */
export const placeOf = (after: After, body: string): number => {
  if (after === 0) return 0
  return after === Infinity ? body.length - 1 : body.lastIndexOf('"', body.length / 2)
}

/** Whether the fault comes before this event, when so many content events were sent. */
export const isDue = (after: After, contents: number, next: string): boolean => {
  if (next === "terminal") return true
  return after === "preamble" ? next === "content" : contents >= after
}
