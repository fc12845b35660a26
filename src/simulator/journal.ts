/**
 * What the simulator was asked and how each call ended, for tests to look into. Bounded: the oldest calls are forgotten.
 */
import type { JsonObject } from "../language/json.ts"
import type { Script } from "./script.ts"

export interface Call {
  readonly path: string
  /** With the journal off, empty. */
  readonly headers: Readonly<Record<string, string>>
  /** Undefined when it was no JSON object, or with the journal off. */
  readonly body: JsonObject | undefined
  /** The upstream model's name with its script, as the caller wrote it. */
  readonly model: string
  /** Undefined when the request was refused before its script was read. */
  readonly script: Script | undefined
  /** Milliseconds since the epoch. */
  readonly startedAt: number
  readonly endedAt: number | undefined
  readonly outcome: "running" | "finished" | "faulted" | "client-left"
}

export type OpenCall = { -readonly [Field in keyof Call]: Call[Field] }

const kept = 10_000

export class Journal {
  #calls: OpenCall[] = []

  open(call: OpenCall): OpenCall {
    if (this.#calls.length >= 2 * kept) this.#calls = this.#calls.slice(-kept)
    this.#calls.push(call)
    return call
  }

  /** Oldest first. */
  get calls(): readonly Call[] {
    return this.#calls.slice(-kept)
  }

  clear(): void {
    this.#calls = []
  }
}
