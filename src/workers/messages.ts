/** What a supervisor and its workers say to each other, as JSON over the channel that a worker is started with. */
import type { Ready } from "../http/health.ts"

/** A question is answered with its `id`; an answer that comes late is dropped. */
export type Question = "alive" | "metrics" | "readiness"

export interface Answers {
  readonly alive: true
  readonly metrics: object[]
  readonly readiness: Ready
}

export interface ToWorker {
  readonly id: number
  readonly ask: Question
}

export type FromWorker =
  /** It takes calls at this address. */
  | { readonly listening: string }
  | { readonly id: number; readonly answer: Answers[Question] }
  /** The last word of one that stops: all that it has counted. */
  | { readonly last: object[] }

/** Set in a worker's environment by its supervisor, and by nobody else. */
export const WORKER_VARIABLE = "LOKET_WORKER"
