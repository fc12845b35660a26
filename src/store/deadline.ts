/**
 * Waiting no longer than so many milliseconds of running time: postgres.js has no limit of its own on how long an answer may
 * take, and one that arrived while this process stood still has arrived (decisions §13.1).
 */
import { systemClock } from "../../actors/kernel/clock.ts"

export class NoAnswer extends Error {
  override readonly name = "NoAnswer"
}

/** Resolves after `ms`, or when `sooner` does. */
export async function pause(ms: number, sooner: Promise<void>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = systemClock.after(ms, resolve)
  await Promise.race([promise, sooner])
  timer.cancel()
}

/** The promise's outcome, or a `NoAnswer` after `ms`. What the promise does later is nobody's any more. */
export async function within<T>(ms: number, promise: PromiseLike<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = systemClock.after(ms, () => reject(new NoAnswer(`no answer within ${Math.round(ms)} ms`)))
  try {
    return await Promise.race([promise, late])
  } finally {
    timer.cancel()
  }
}
