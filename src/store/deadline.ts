/** Waiting no longer than so many milliseconds: postgres.js has no limit of its own on how long an answer may take. */

export class NoAnswer extends Error {
  override readonly name = "NoAnswer"
}

/** Resolves after `ms`, or when `sooner` does. */
export async function pause(ms: number, sooner: Promise<void>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, ms)
  await Promise.race([promise, sooner])
  clearTimeout(timer)
}

/** The promise's outcome, or a `NoAnswer` after `ms`. What the promise does later is nobody's any more. */
export async function within<T>(ms: number, promise: PromiseLike<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new NoAnswer(`no answer within ${Math.round(ms)} ms`)), ms)
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
