/** Draws papers off the event loop: each in a thread of its own, which is ended when it is done or takes too long. */
import type { Paper } from "./paper.ts"
import { workerUrl } from "./reader.ts"
import type { Drawn, ToWorker } from "./worker.ts"

/** Two thousand rows take half a second. */
const MOST_TIME_MS = 15_000

/** The file. Rejects when the paper cannot be drawn, or not in time. Who calls bounds how many are drawn at once. */
export async function print(paper: Paper): Promise<Uint8Array> {
  const worker = new Worker(workerUrl)
  const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>()
  worker.addEventListener("message", ({ data }: MessageEvent<Drawn>) => {
    if (typeof data.drawn === "string") reject(new Error(data.drawn))
    else resolve(data.drawn)
  })
  worker.addEventListener("error", ({ message }) => reject(new Error(message)))
  const timer = setTimeout(() => reject(new Error(`a paper was not drawn in ${MOST_TIME_MS} ms`)), MOST_TIME_MS)
  try {
    worker.postMessage({ paper } satisfies ToWorker, [])
    return await promise
  } finally {
    clearTimeout(timer)
    worker.terminate()
  }
}
