/**
 * Where one stream stands, which is the same in every format: has usable output come, is it over. A step's kind follows
 * from that, so the formats only say whether an event carries content.
 */
import type { Failure } from "../failure/failure.ts"
import type { SentStep, StreamStep } from "./format.ts"

export class Steps {
  #content = false
  #ended = false

  /** True after the terminal event or a failure: whatever a backend sends then is ignored. */
  get ended(): boolean {
    return this.#ended
  }

  /** Usable output has come. */
  get hasContent(): boolean {
    return this.#content
  }

  /** An event without content is a preamble until content came, and a trailer from then on. */
  step(hasContent: boolean, bytes: string): SentStep {
    if (hasContent) {
      this.#content = true
      return { kind: "content", bytes }
    }
    return { kind: this.#content ? "trailer" : "preamble", bytes }
  }

  terminal(bytes: string): SentStep {
    this.#ended = true
    return { kind: "terminal", bytes }
  }

  failure(failure: Failure): StreamStep {
    this.#ended = true
    return { kind: "failure", failure }
  }

  /** For what is not to reach the client. */
  nothing(): SentStep {
    return this.step(false, "")
  }
}

/** A string or list with something in it: what makes an event usable output. */
export const filled = (value: unknown): boolean =>
  (typeof value === "string" || Array.isArray(value)) && value.length > 0
