/** Whether a password is an account's own. Guesses are slowed down, and those of who has no account are judged alike. */
import { Failure } from "../failure/failure.ts"
import type { StoredCredentials } from "../store/credentials.ts"
import { networkOf } from "./network.ts"
import type { Passwords } from "./password.ts"
import type { SlowDown } from "./slow-down.ts"

interface Parts {
  readonly passwords: Passwords
  readonly slowDown: SlowDown
}

interface Tried {
  /** Undefined where nobody has the address. */
  readonly found: StoredCredentials | undefined
  readonly password: string
  readonly email: string
  /** From which it is tried. */
  readonly address: string
}

/**
 * A session whose token was stolen may guess no faster than anybody else, and its network does not become a known one by
 * being used: only a right password makes it one.
 */
export async function judgePassword(
  { passwords, slowDown }: Parts,
  { found, password, email, address }: Tried,
): Promise<boolean | Failure> {
  const isKnown = found?.isKnownNetwork ?? false
  const attempt = await slowDown.attempt({ account: email.toLowerCase(), address, isKnown })
  if (attempt instanceof Failure) return attempt
  const matches = await passwords.verify(password, found?.passwordHash, networkOf(address))
  if (matches instanceof Failure) {
    attempt.unjudged()
    return matches
  }
  if (matches) attempt.succeeded()
  return matches
}
