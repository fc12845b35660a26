/**
 * The embedded Postgres, in a worker of its own, because it runs each statement to its end without letting go of its
 * thread. Told where its files and its socket are, it answers "ready" once; told to stop, it closes the database. When the
 * database has failed it says why, and is of no more use.
 */
import { type Start, start, type Stop } from "./start.ts"

export type ToWorker = { readonly start: Start } | { readonly stop: true }
export type FromWorker =
  | "ready"
  | "stopped"
  | { readonly failed: string }
  /** It is tried again. */
  | { readonly checkpointFailed: string }

declare const self: Worker

const tell = (message: FromWorker): void => self.postMessage(message, [])
const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

const onFailure = (error: unknown): void => tell({ failed: messageOf(error) })
const onCheckpointFailed = (error: Error): void => tell({ checkpointFailed: error.message })

let running: Promise<Stop> | undefined

async function receive(message: ToWorker): Promise<FromWorker> {
  if ("start" in message) {
    running = start(message.start, { failed: onFailure, checkpointFailed: onCheckpointFailed })
    await running
    return "ready"
  }
  const stop = await running
  await stop?.()
  return "stopped"
}

self.addEventListener("message", (event: MessageEvent<ToWorker>) => {
  receive(event.data).then(tell, onFailure)
})
