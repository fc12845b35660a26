/** The side of a process that a supervisor has started: it says where it listens, answers questions, and ends with its supervisor. */
import type { Server } from "../server/server.ts"
import { type Answers, type FromWorker, type Question, type ToWorker, WORKER_VARIABLE } from "./messages.ts"

type Told = Pick<Server, "url" | "metrics" | "readiness">

export const isWorker = (environment: Readonly<Record<string, string | undefined>>): boolean =>
  environment[WORKER_VARIABLE] !== undefined && process.send !== undefined

/** `orphaned`: the supervisor is gone, so that nobody would start this one again or stop it. */
export function serveAsWorker(server: Told, orphaned: () => void): { readonly stopped: () => Promise<void> } {
  const answers: { readonly [Q in Question]: () => Answers[Q] | Promise<Answers[Q]> } = {
    alive: () => true,
    metrics: () => server.metrics(),
    readiness: () => server.readiness(),
  }
  process.on("message", ({ id, ask }: ToWorker) => {
    // What fails is not answered, and counts as late.
    void (async () => say({ id, answer: await answers[ask]() }))().catch(() => {})
  })
  if (process.connected) process.once("disconnect", orphaned)
  else orphaned()
  void say({ listening: server.url })
  return { stopped: async () => say({ last: await server.metrics() }) }
}

/** Resolves when it has left, or cannot. */
const say = (message: FromWorker): Promise<void> =>
  new Promise((resolve) => {
    if (process.connected) process.send?.(message, undefined, undefined, () => resolve())
    else resolve()
  })
