/**
 * Accounts of people: sign-up, sign-in, sign-out, and what their owner may change. Every outcome that a person can cause
 * is a Failure; each change is committed when its promise resolves.
 */
import { nanoid } from "nanoid"
import { Failure } from "../failure/failure.ts"
import type { AccountChange, OwnedKey } from "../store/account-settings.ts"
import type { Account, AccountStore, FirstSteps, StoredCredentials, Whereabouts } from "../store/accounts.ts"
import type { Act } from "../store/operator/audit.ts"
import type { SessionRecord, SessionStore } from "../store/sessions.ts"
import { knownTimeZone, TimeZone } from "./fields.ts"
import type { Passwords } from "./password.ts"
import { networkOf } from "./network.ts"
import { createSessionToken, hashSessionToken } from "./session-token.ts"
import type { SignUps } from "./sign-ups.ts"
import type { SlowDown } from "./slow-down.ts"

/** What a session's token stands for. */
export interface Session {
  readonly id: string
  readonly accountId: string
  /** In which the account's days begin. */
  readonly timeZone: string
  /** Read with each request, so that a role that was taken away is gone at once. */
  readonly role: Account["role"]
  readonly tokenHash: Uint8Array
}

export interface SignedIn {
  readonly account: Account
  readonly token: string
}

export interface Credentials {
  readonly email: string
  readonly password: string
}

/** From where a password is tried, and the session that a new one replaces. */
export interface Visitor extends Whereabouts {
  readonly replaces?: string | undefined
}

/**
 * Sends the live actors of keys the news that their records, or their account's, have changed; called after the commit. True
 * once that is in force in this process, false when it took too long: the change stands (decisions §13.8).
 */
export type KeysChanged = (keys: readonly OwnedKey[]) => Promise<boolean>

/** `answer` once the committed change is in force (decisions §13.8): the next call must not contradict it. */
export async function inForce<T>(keysChanged: KeysChanged, keys: readonly OwnedKey[], answer: T): Promise<T | Failure> {
  if (await keysChanged(keys)) return answer
  return new Failure("dependency.database_unavailable", {
    message: "The change is made, but the gateway has not read it yet; it takes effect when the database answers.",
  })
}

/** Tells whoever looks at an account that something of it, or of its keys, is not what it was; called after the commit. */
export type AccountChanged = (accountId: string) => void

export interface AccountsParts {
  readonly accounts: AccountStore
  readonly sessions: SessionStore
  readonly passwords: Passwords
  readonly slowDown: SlowDown
  readonly signUps: SignUps
  readonly keysChanged: KeysChanged
  readonly accountChanged: AccountChanged
}

export class Accounts {
  readonly #parts: AccountsParts

  constructor(parts: AccountsParts) {
    this.#parts = parts
  }

  async signUp({ email, password }: Credentials, from: Whereabouts): Promise<SignedIn | Failure> {
    const admitted = await this.#parts.signUps.admit(from.address)
    if (admitted instanceof Failure) return admitted
    // The answer shows that an address is taken; whoever tries one after the other waits, as at the sign-in.
    const attempt = await this.#parts.slowDown.attempt({
      account: `sign-up ${email.toLowerCase()}`,
      address: from.address,
      isKnown: false,
    })
    if (attempt instanceof Failure) return attempt
    const passwordHash = await this.#parts.passwords.hash(password, networkOf(from.address))
    if (passwordHash instanceof Failure) {
      attempt.unjudged()
      return passwordHash
    }
    const { token, hash } = createSessionToken()
    const account = await this.#parts.accounts.create({
      id: `acc_${nanoid()}`,
      email: email.normalize("NFC"),
      passwordHash,
      sessionHash: hash,
      from: shown(from),
      network: networkOf(from.address),
    })
    if (account === undefined) {
      return new Failure("request.invalid", { message: "'email' belongs to an account already; sign in instead." })
    }
    attempt.succeeded()
    return { account, token }
  }

  async signIn({ email, password }: Credentials, visitor: Visitor): Promise<SignedIn | Failure> {
    const address = email.normalize("NFC")
    const found = await this.#parts.accounts.credentialsOf(address, networkOf(visitor.address))
    const judged = await this.#judge(found, password, address, visitor)
    if (judged instanceof Failure) return judged
    if (!judged || found === undefined) return wrongCredentials()

    const { token, hash } = createSessionToken()
    const replaces = visitor.replaces === undefined ? undefined : hashSessionToken(visitor.replaces)
    const account = await this.#parts.sessions.open({
      accountId: found.id,
      passwordHash: found.passwordHash,
      tokenHash: hash,
      replaces,
      from: shown(visitor),
      network: networkOf(visitor.address),
    })
    // The password was changed, or the account deleted, since it was read.
    if (account === undefined) return wrongCredentials()
    return { account, token }
  }

  async session(token: string, from: Whereabouts): Promise<Session | Failure> {
    const tokenHash = hashSessionToken(token)
    if (tokenHash === undefined) return new Failure("auth.unauthorized")
    const owner = await this.#parts.sessions.ownerOf(tokenHash, shown(from))
    if (owner === undefined) return new Failure("auth.unauthorized")
    const { sessionId: id, ...rest } = owner
    return { id, ...rest, tokenHash }
  }

  signOut(session: Session): Promise<void> {
    return this.#parts.sessions.end(session.tokenHash)
  }

  sessions(session: Session): Promise<readonly SessionRecord[]> {
    return this.#parts.sessions.list(session.accountId)
  }

  async endSession(session: Session, id: string): Promise<void | Failure> {
    const ended = await this.#parts.sessions.endOne(session.accountId, id)
    return ended ? undefined : new Failure("resource.not_found")
  }

  endOtherSessions(session: Session): Promise<void> {
    return this.#parts.sessions.endAll(session.accountId, session.id)
  }

  /**
   * Ends every session of the account, the caller's too: whoever changes a password because somebody else has a session
   * must not have to guess which one is left (decisions §10).
   */
  async changePassword(
    session: Session,
    { current, replacement }: { readonly current: string; readonly replacement: string },
    visitor: Visitor,
  ): Promise<void | Failure> {
    const confirmed = await this.#confirm(session, current, visitor)
    if (confirmed instanceof Failure) return confirmed
    const passwordHash = await this.#parts.passwords.hash(replacement, networkOf(visitor.address))
    if (passwordHash instanceof Failure) return passwordHash
    const changed = await this.#parts.accounts.changePassword(session.accountId, {
      from: confirmed,
      to: passwordHash,
      network: networkOf(visitor.address),
    })
    if (!changed) return wrongPassword()
    // A sign-in with the old password that was committing meanwhile was invisible to that statement.
    await this.#parts.sessions.endAll(session.accountId)
    return undefined
  }

  async account(session: Session): Promise<Account | Failure> {
    return (await this.#parts.accounts.read(session.accountId)) ?? new Failure("auth.unauthorized")
  }

  firstSteps(session: Session): Promise<FirstSteps> {
    return this.#parts.accounts.firstSteps(session.accountId)
  }

  async change(session: Session, change: AccountChange): Promise<Account | Failure> {
    const { timeZone } = change
    const isKnown = timeZone === undefined || knownTimeZone(timeZone)
    const keys = isKnown ? await this.#parts.accounts.change(session.accountId, change) : undefined
    if (keys === undefined) {
      return new Failure("request.invalid", { message: `'time_zone' must be ${TimeZone.description}.` })
    }
    this.#parts.accountChanged(session.accountId)
    // A key's budget is of a calendar period in this zone.
    const applied = timeZone === undefined ? undefined : await this.#inForce(keys)
    return applied instanceof Failure ? applied : await this.account(session)
  }

  async delete(session: Session, password: string, visitor: Visitor): Promise<void | Failure> {
    const confirmed = await this.#confirm(session, password, visitor)
    if (confirmed instanceof Failure) return confirmed
    return await this.#inForce(await this.#parts.accounts.delete(session.accountId))
  }

  /**
   * From now on its keys are refused, and none are made. Calls under way end as usual, top-ups credit, and the dashboard
   * can be read. An account that is frozen already keeps its reason.
   */
  async freeze(accountId: string, reason: string, act?: Act): Promise<void | Failure> {
    const keys = await this.#parts.accounts.freeze(accountId, reason, act)
    this.#parts.accountChanged(accountId)
    return await this.#inForce(keys)
  }

  async unfreeze(accountId: string, by?: { readonly act: Act; readonly reason: string }): Promise<void | Failure> {
    const keys = await this.#parts.accounts.unfreeze(accountId, by)
    this.#parts.accountChanged(accountId)
    return await this.#inForce(keys)
  }

  /** The account's password hash, when the password is its own. */
  async #confirm(session: Session, password: string, visitor: Visitor): Promise<string | Failure> {
    const found = await this.#parts.accounts.credentialsById(session.accountId, networkOf(visitor.address))
    if (found === undefined) return new Failure("auth.unauthorized")
    const judged = await this.#judge(found, password, found.email, visitor)
    if (judged instanceof Failure) return judged
    return judged ? found.passwordHash : wrongPassword()
  }

  /**
   * A session whose token was stolen may guess no faster than anybody else, and its network does not become a known one by
   * being used: only a right password makes it one.
   */
  async #judge(
    found: StoredCredentials | undefined,
    password: string,
    email: string,
    { address }: Visitor,
  ): Promise<boolean | Failure> {
    const isKnown = found?.isKnownNetwork ?? false
    const attempt = await this.#parts.slowDown.attempt({ account: email.toLowerCase(), address, isKnown })
    if (attempt instanceof Failure) return attempt
    const matches = await this.#parts.passwords.verify(password, found?.passwordHash, networkOf(address))
    if (matches instanceof Failure) {
      attempt.unjudged()
      return matches
    }
    if (matches) attempt.succeeded()
    return matches
  }

  #inForce(keys: readonly OwnedKey[]): Promise<void | Failure> {
    return inForce(this.#parts.keysChanged, keys, undefined)
  }
}

/** The refusal of a frozen account. */
export const accountFrozen = (): Failure => new Failure("auth.account_frozen")

/** A browser may call itself anything, at any length. */
const shown = ({ address, userAgent }: Whereabouts): Whereabouts => ({
  address,
  userAgent: userAgent.replaceAll(/\p{Cc}/gu, " ").slice(0, 300),
})

const wrongCredentials = (): Failure =>
  new Failure("auth.unauthorized", { message: "The e-mail address or the password is wrong." })
const wrongPassword = (): Failure => new Failure("auth.unauthorized", { message: "The password is wrong." })
