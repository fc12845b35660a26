/** One call's turn to be answered: who asked what, and what the script makes of it. */
import type { Answer } from "./answer.ts"
import type { Ask } from "./ask.ts"
import type { Client } from "./client.ts"
import type { Fault } from "./fault.ts"
import type { SimulatedFormat } from "./format.ts"
import type { Script } from "./script.ts"

export interface Turn {
  readonly client: Client
  readonly format: SimulatedFormat
  readonly ask: Ask
  readonly script: Script
  /** The script's fault, while it still hits. */
  readonly fault: Fault | undefined
  readonly answer: Answer
}

export type Ending = "finished" | "faulted"
