/**
 * Accounts of people: sign-up, sign-in, sign-out, and what their owner may change. Every outcome that a person can cause
 * is a Failure; each change is committed when its promise resolves.
 */
import { nanoid } from "nanoid"
import { networkOf } from "../../actors/network.ts"
import { Failure, invalid } from "../failure/failure.ts"
import type { AccountChange, MemberRole, OwnedKey } from "../store/account-settings.ts"
import type { Account, AccountStore, ClientInfo, FirstSteps, FreezeAct } from "../store/accounts.ts"
import type { AllowanceStore } from "../store/allowances.ts"
import type { Act } from "../store/operator/audit.ts"
import { type SecondFactorStore, type SignInStep, STEP_MINUTES, STEPS_ELSEWHERE } from "../store/second-factors.ts"
import type { LookedAt, SessionRecord, SessionStore } from "../store/sessions.ts"
import { knownTimeZone, type Passwords, TimeZone, verifyPassword } from "./fields.ts"
import { type AccountChanged, inForce, type KeysChanged } from "./in-force.ts"
import type { OwnerMail } from "./owner-mail.ts"
import { createSessionToken, hashSessionToken } from "./bearer-tokens.ts"
import { type SignUpLimiter, type PasswordThrottle, tooManyFailures } from "./rate-limits.ts"

/** What a session's token stands for, and which account a call of it is about. */
export interface Session {
  readonly id: string
  /** The account that the person signs in to. */
  readonly personId: string
  /** The account that the call is about: the person's own, or one of which they are a member. */
  readonly accountId: string
  /** What the person may do with that account. */
  readonly memberRole: MemberRole
  /** In which the account's days begin. */
  readonly timeZone: string
  /** Read with each request, so that a role that was taken away is gone at once. */
  readonly role: Account["role"]
  /** Undefined for a customer. */
  readonly operatorRole: Account["operatorRole"]
  /** An operator's, in which no second factor was shown, though operators have to. */
  readonly lacksFactor: boolean
  readonly tokenHash: Uint8Array
  /** Whose pages the session shows, where it is not the person's own account. */
  readonly looksAt: LookedAt | undefined
}

export interface SignedIn {
  readonly account: Account
  readonly token: string
}

/** The password was right; the account's second factor is still asked for. */
export interface AwaitingSecondFactor {
  readonly step: string
  readonly hasPasskey: boolean
  readonly expiresAt: Date
}

export interface Credentials {
  readonly email: string
  readonly password: string
}

export interface SignUp extends Credentials {
  /** Of the texts that the person agrees to; undefined for who was shown none. */
  readonly agreedVersion?: string | undefined
}

/** From where a password is tried, and the session that a new one replaces. */
export interface Visitor extends ClientInfo {
  readonly replaces?: string | undefined
}

export interface AccountsOptions {
  readonly accounts: AccountStore
  readonly sessions: SessionStore
  readonly passwords: Passwords
  readonly slowDown: PasswordThrottle
  readonly signUps: SignUpLimiter
  readonly mail: OwnerMail
  readonly factors: SecondFactorStore
  readonly allowances: Pick<AllowanceStore, "take">
  /** Operators have their routes in sessions alone in which they have shown a second factor. */
  readonly operatorsNeedFactor: boolean
  readonly keysChanged: KeysChanged
  readonly accountChanged: AccountChanged
}

export class Accounts {
  readonly #parts: AccountsOptions

  constructor(parts: AccountsOptions) {
    this.#parts = parts
  }

  async signUp({ email, password, agreedVersion }: SignUp, from: ClientInfo): Promise<SignedIn | Failure> {
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
      attempt.notChecked()
      return passwordHash
    }
    const { token, hash } = createSessionToken()
    const account = await this.#parts.accounts.create({
      id: `acc_${nanoid()}`,
      email: email.normalize("NFC"),
      emailUnproved: this.#parts.mail.isOn,
      passwordHash,
      agreedVersion,
      sessionHash: hash,
      from: shown(from),
      network: networkOf(from.address),
    })
    if (account === undefined) {
      return invalid("'email' belongs to an account already; sign in instead.")
    }
    attempt.succeeded()
    await this.#parts.mail.welcome(account.id, account.email, from.address)
    return { account, token }
  }

  async signIn({ email, password }: Credentials, visitor: Visitor): Promise<SignedIn | AwaitingSecondFactor | Failure> {
    const address = email.normalize("NFC")
    const found = await this.#parts.accounts.credentialsOf(address, networkOf(visitor.address))
    const verified = await verifyPassword(this.#parts, { found, password, email: address, address: visitor.address })
    if (verified instanceof Failure) return verified
    if (!verified || found === undefined) return wrongCredentials()

    const step = { accountId: found.id, email: found.email, passwordHash: found.passwordHash }
    if (found.hasFactor) {
      const elsewhere = {
        name: `sign-ins of ${found.id}, elsewhere`,
        most: STEPS_ELSEWHERE,
        seconds: STEP_MINUTES * 60,
      }
      const waitS = found.isKnownNetwork ? undefined : await this.#parts.allowances.take(elsewhere)
      if (waitS !== undefined) return tooManyFailures(waitS * 1_000)
      const { token, hash } = createSessionToken()
      await this.#parts.factors.openStep({ ...step, tokenHash: hash })
      return { step: token, hasPasskey: found.hasPasskey, expiresAt: new Date(Date.now() + STEP_MINUTES * 60_000) }
    }
    return (await this.openSession({ ...step, showedFactor: false }, visitor)) ?? wrongCredentials()
  }

  /** Undefined when the password was changed, or the account deleted, since the password was verified. */
  async openSession(
    { accountId, passwordHash, showedFactor }: SignInStep & { readonly showedFactor: boolean },
    visitor: Visitor,
  ): Promise<SignedIn | undefined> {
    const { token, hash } = createSessionToken()
    const replaces = visitor.replaces === undefined ? undefined : hashSessionToken(visitor.replaces)
    const account = await this.#parts.sessions.open({
      accountId,
      passwordHash,
      showedFactor,
      tokenHash: hash,
      replaces,
      from: shown(visitor),
      network: networkOf(visitor.address),
    })
    return account && { account, token }
  }

  /** A session about the person's own account; what it looks at is another step (`whoseAccount`). */
  async session(token: string, from: ClientInfo): Promise<Session | Failure> {
    const tokenHash = hashSessionToken(token)
    if (tokenHash === undefined) return new Failure("auth.unauthorized")
    const owner = await this.#parts.sessions.ownerOf(tokenHash, shown(from))
    if (owner === undefined) return new Failure("auth.unauthorized")
    const { sessionId: id, showedFactor, ...rest } = owner
    const lacksFactor = rest.role === "operator" && this.#parts.operatorsNeedFactor && !showedFactor
    return { id, personId: rest.accountId, memberRole: "owner", ...rest, lacksFactor, tokenHash }
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
    const confirmed = await this.confirm(session, current, visitor)
    if (confirmed instanceof Failure) return confirmed
    const passwordHash = await this.#parts.passwords.hash(replacement, networkOf(visitor.address))
    if (passwordHash instanceof Failure) return passwordHash
    const changed = await this.#parts.accounts.changePassword(session.accountId, {
      from: confirmed,
      to: passwordHash,
      network: networkOf(visitor.address),
    })
    return changed ? undefined : wrongPassword()
  }

  async account({ accountId }: Pick<Session, "accountId">): Promise<Account | Failure> {
    return (await this.#parts.accounts.read(accountId)) ?? new Failure("auth.unauthorized")
  }

  firstSteps(session: Session): Promise<FirstSteps> {
    return this.#parts.accounts.firstSteps(session.accountId)
  }

  async change(session: Session, change: AccountChange): Promise<Account | Failure> {
    const { timeZone } = change
    const isKnown = timeZone === undefined || knownTimeZone(timeZone)
    const keys = isKnown ? await this.#parts.accounts.change(session.accountId, change) : undefined
    if (keys === undefined) {
      return invalid(`'time_zone' must be ${TimeZone.description}.`)
    }
    this.#parts.accountChanged(session.accountId)
    // A key's budget is of a calendar period in this zone.
    const applied = timeZone === undefined ? undefined : await this.#inForce(keys)
    return applied instanceof Failure ? applied : await this.account(session)
  }

  async agree(session: Session, version: string): Promise<Account | Failure> {
    await this.#parts.accounts.agree(session.accountId, version)
    this.#parts.accountChanged(session.accountId)
    return await this.account(session)
  }

  async delete(session: Session, password: string, visitor: Visitor): Promise<void | Failure> {
    const confirmed = await this.confirm(session, password, visitor)
    if (confirmed instanceof Failure) return confirmed
    const keys = await this.#parts.accounts.delete(session.accountId)
    if (keys === "last-owner") {
      const message = "The last owner's account cannot be deleted: make somebody else an owner first."
      return invalid(message)
    }
    this.#parts.accountChanged(session.accountId)
    return await this.#inForce(keys)
  }

  /**
   * From now on its keys are refused, and none are made. Calls under way end as usual, top-ups credit, and the dashboard
   * can be read. An account that is frozen already keeps its reason.
   */
  async freeze(accountId: string, reason: string, act?: FreezeAct): Promise<void | Failure> {
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
  async confirm(session: Session, password: string, visitor: Visitor): Promise<string | Failure> {
    const found = await this.#parts.accounts.credentialsById(session.accountId, networkOf(visitor.address))
    if (found === undefined) return new Failure("auth.unauthorized")
    const verified = await verifyPassword(this.#parts, {
      found,
      password,
      email: found.email,
      address: visitor.address,
    })
    if (verified instanceof Failure) return verified
    return verified ? found.passwordHash : wrongPassword()
  }

  #inForce(keys: readonly OwnedKey[]): Promise<void | Failure> {
    return inForce(this.#parts.keysChanged, keys, undefined)
  }
}

/** A browser may call itself anything, at any length. */
const shown = ({ address, userAgent }: ClientInfo): ClientInfo => ({
  address,
  userAgent: userAgent.replaceAll(/\p{Cc}/gu, " ").slice(0, 300),
})

const wrongCredentials = (): Failure =>
  new Failure("auth.unauthorized", { message: "The e-mail address or the password is wrong." })
const wrongPassword = (): Failure => new Failure("auth.unauthorized", { message: "The password is wrong." })
