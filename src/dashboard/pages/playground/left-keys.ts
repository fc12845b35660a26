/** Trial keys that this browser made and has not seen revoked: their ids, never their secrets. */
const STORED = "loket.trial-keys"
/** Before that another tab may be using it. */
const LEFT_AFTER_MS = 24 * 60 * 60 * 1_000

type Remembered = Readonly<Record<string, number>>

/** Those that nobody can be using any more. */
export const leftKeys = (now: number): readonly string[] =>
  Object.entries(remembered()).flatMap(([id, madeAt]) => (now - madeAt >= LEFT_AFTER_MS ? [id] : []))

export const rememberKey = (id: string, now: number): void => store({ ...remembered(), [id]: now })

export function forgetKey(id: string): void {
  const { [id]: _, ...others } = remembered()
  store(others)
}

function remembered(): Remembered {
  try {
    return JSON.parse(localStorage.getItem(STORED) ?? "{}") as Remembered
  } catch {
    return {}
  }
}

const store = (keys: Remembered): void => localStorage.setItem(STORED, JSON.stringify(keys))
