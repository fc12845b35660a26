/** Waits that end: each says what it waited for. */

/** Waits for a condition; throws with `what` after a minute, which is long for the slowest machine. */
export async function eventually<T>(
  what: string,
  look: () => T | Promise<T>,
  holds: (value: T) => boolean,
): Promise<T> {
  const until = performance.now() + 60_000
  for (;;) {
    const value = await look()
    if (holds(value)) return value
    if (performance.now() > until) throw new Error(`${what}: it stays ${Bun.inspect(value)}`)
    await Bun.sleep(5)
  }
}

/** Waits until something is so; after two minutes it throws with the condition, as it stands in the source. */
export async function until(holds: () => boolean | Promise<boolean>, everyMs = 5, withinMs = 120_000): Promise<void> {
  const end = performance.now() + withinMs
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`waited ${withinMs / 1_000} s in vain until ${holds.toString()}`)
    await Bun.sleep(everyMs)
  }
}
