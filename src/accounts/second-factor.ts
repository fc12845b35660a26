/**
 * The second factor of an account: codes of an authenticator app (TOTP, RFC 6238: six digits, 30 seconds, one step early or
 * late), passkeys, and recovery codes for who has lost them. A code is taken once. Tries are counted by account in the database,
 * whatever the sessions and processes that they come by. Those from networks where nobody has signed in to the account have a count of
 * their own: a stranger who knows the password guesses there, and keeps the owner out of nothing at home. API keys know nothing of it.
 */
import { nanoid } from "nanoid"
import { Secret, TOTP } from "otpauth"
import { isLoopbackNetwork, networkOf } from "../../actors/network.ts"
import { Failure, invalid, wholeSeconds } from "../failure/failure.ts"
import type { AllowanceStore } from "../store/allowances.ts"
import type { Account, ClientInfo } from "../store/accounts.ts"
import { type Passkey, PASSKEYS, type PasskeyStore } from "../store/passkeys.ts"
import type { SecondFactorState, SecondFactorStore } from "../store/second-factors.ts"
import type { SessionStore } from "../store/sessions.ts"
import type { Accounts, Session, SignedIn, Visitor } from "./accounts.ts"
import { CODE_LENGTH, hashOf, newCodes, normalized, PERIOD_S, stepOf } from "./fields.ts"
import type { Assertion, Attestation, CreationOptions, Passkeys, RequestOptions } from "./passkeys.ts"
import { isPasskeyId } from "./passkeys.ts"
import { hashSessionToken } from "./bearer-tokens.ts"
import type { PasswordThrottle } from "./rate-limits.ts"

/** Wrong codes of an account in an hour, from its own networks and from all others: three of a million codes are right at any time. */
export const CODE_TRIES = 10
/** Sign-ins by passkey that one network may begin in as long as one is good. */
export const PASSKEY_SIGN_INS = { most: 300, seconds: 300 }
const HOUR_S = 3_600
const SECRET_BYTES = 20

export interface SecondFactorOptions {
  readonly accounts: Accounts
  readonly store: SecondFactorStore
  readonly passkeys: Passkeys
  readonly passkeyStore: PasskeyStore
  readonly slowDown: PasswordThrottle
  readonly sessions: SessionStore
  readonly allowances: AllowanceStore
  readonly now: () => number
}

/** What an authenticator app is set up with. */
export interface NewApp {
  readonly secret: string
  /** `otpauth://…`, as apps read it from a QR code. */
  readonly uri: string
}

/** One of the two: a code of the app or for recovery, or what a passkey has signed. */
export interface Shown {
  readonly code?: string
  readonly passkey?: Assertion
}

interface Proof extends Shown {
  readonly password: string
}

export interface NewPasskeyAnswer {
  readonly passkey: Passkey
  /** Shown this once, where the account had none. */
  readonly codes: readonly string[] | undefined
}

export class SecondFactors {
  readonly #parts: SecondFactorOptions

  constructor(parts: SecondFactorOptions) {
    this.#parts = parts
  }

  state(session: Session): Promise<SecondFactorState> {
    return this.#parts.store.state(session.accountId)
  }

  /** A secret that counts for nothing until `confirm` has seen a code of it. */
  async begin(session: Session, proof: Proof, visitor: Visitor): Promise<NewApp | Failure> {
    const { store } = this.#parts
    const account = await this.#mayAdd(session, proof, visitor)
    if (account instanceof Failure) return account
    const secret = new Secret({ size: SECRET_BYTES })
    if (!(await store.propose(account.id, secret.bytes))) return alreadySet()
    const app = new TOTP({ issuer: "Loket", label: account.email, secret, period: PERIOD_S })
    return { secret: secret.base32, uri: app.toString() }
  }

  /** Returns the recovery codes, this once. All other sessions end. */
  async confirm(session: Session, code: string): Promise<readonly string[] | Failure> {
    const { store, sessions } = this.#parts
    const { accountId } = session
    const app = await store.secretOf(accountId)
    if (app === undefined || app.isConfirmed) return app === undefined ? notSet() : alreadySet()
    const tries = triesOf(accountId, true)
    const refused = await this.#try(tries)
    if (refused !== undefined) return refused
    const step = stepOf(app.secret, code, this.#parts.now())
    if (step === undefined) return wrongCode()
    const codes = newCodes()
    const codeHashes = codes.map(hashOf)
    if (!(await store.confirm(accountId, { secret: app.secret, step, codeHashes, sessionId: session.id })))
      return alreadySet()
    // A sign-in by password alone that was committing meanwhile was invisible to that statement.
    await sessions.endAll(accountId, session.id)
    await this.#right(tries)
    return codes
  }

  async newRecoveryCodes(session: Session, proof: Proof, visitor: Visitor): Promise<readonly string[] | Failure> {
    const proved = await this.#prove(session, proof, visitor)
    if (proved instanceof Failure) return proved
    const codes = newCodes()
    await this.#parts.store.replaceCodes(session.accountId, codes.map(hashOf))
    return codes
  }

  async remove(session: Session, proof: Proof, visitor: Visitor): Promise<void | Failure> {
    const proved = await this.#prove(session, proof, visitor)
    if (proved instanceof Failure) return proved
    return (await this.#parts.store.removeApp(session.accountId, session.id)) ? undefined : notSet()
  }

  /** The second step of a sign-in, whose first one was the password. Its token is good for nothing else. */
  async signIn(token: string, shown: Shown, visitor: Visitor): Promise<SignedIn | Failure> {
    const { accounts, store } = this.#parts
    const tokenHash = hashSessionToken(token)
    const network = networkOf(visitor.address)
    const step = tokenHash === undefined ? undefined : await store.stepOf(tokenHash, network)
    if (tokenHash === undefined || step === undefined) return stepOver()
    const { isKnownNetwork, ...of } = step
    const asked = { purpose: "step", boundTo: tokenHash, tries: triesOf(of.accountId, isKnownNetwork) } as const
    const taken = await this.#take(of.accountId, shown, asked)
    if (taken instanceof Failure) return taken
    const signedIn = await accounts.openSession({ ...of, showedFactor: true }, visitor)
    await store.endStep(tokenHash)
    return signedIn ?? stepOver()
  }

  /** What is to be signed for the second step of a sign-in. */
  async requestForStep(token: string, { address }: ClientInfo): Promise<RequestOptions | Failure> {
    const tokenHash = hashSessionToken(token)
    const step = tokenHash === undefined ? undefined : await this.#parts.store.stepOf(tokenHash, networkOf(address))
    if (tokenHash === undefined || step === undefined) return stepOver()
    return await this.#parts.passkeys.request("step", tokenHash, step.accountId)
  }

  /** What is to be signed to change something of the account's second factors. */
  requestForProof({ tokenHash, accountId }: Session): Promise<RequestOptions | Failure> {
    return this.#parts.passkeys.request("prove", tokenHash, accountId)
  }

  /** What is to be signed by whoever is not said yet. */
  async requestForSignIn({ address }: ClientInfo): Promise<RequestOptions | Failure> {
    const network = networkOf(address)
    const name = `passkey sign-ins from ${network}`
    const waitS = isLoopbackNetwork(network)
      ? undefined
      : await this.#parts.allowances.take({ name, ...PASSKEY_SIGN_INS })
    return waitS === undefined ? await this.#parts.passkeys.request("sign-in") : tooMany("sign-ins", waitS)
  }

  /** A device that has verified its owner is both factors. Wrong ones are slowed down by network, as wrong passwords are. */
  async signInByPasskey(assertion: Assertion, visitor: Visitor): Promise<SignedIn | Failure> {
    const { accounts, passkeys, slowDown } = this.#parts
    const { address } = visitor
    const account = `passkey ${assertion.id.slice(0, 64)}`
    const attempt = await slowDown.attempt({ account, address, isKnown: false })
    if (attempt instanceof Failure) return attempt
    const owner = await passkeys.verify(assertion, "sign-in").catch((error: unknown) => {
      attempt.notChecked()
      throw error
    })
    if (owner instanceof Failure) return owner
    attempt.succeeded()
    return (await accounts.openSession({ ...owner, showedFactor: true }, visitor)) ?? stepOver()
  }

  async beginPasskey(session: Session, proof: Proof, visitor: Visitor): Promise<CreationOptions | Failure> {
    const account = await this.#mayAdd(session, proof, visitor)
    if (account instanceof Failure) return account
    if ((await this.#parts.passkeyStore.list(session.accountId)).length >= PASSKEYS) return tooManyPasskeys()
    return await this.#parts.passkeys.offer(account, session.tokenHash)
  }

  /** Its challenge was given to who had proved to be the owner, in this session. */
  async addPasskey(session: Session, name: string, made: Attestation): Promise<NewPasskeyAnswer | Failure> {
    const { passkeys, passkeyStore, sessions } = this.#parts
    const { accountId } = session
    const credential = await passkeys.verifyNew(made, session.tokenHash)
    if (credential instanceof Failure) return credential
    const codes = newCodes()
    const id = `pk_${nanoid()}`
    const row = { ...credential, id, accountId, name, sessionId: session.id, codeHashes: codes.map(hashOf) }
    // Two at once may have looked for the same place.
    const added = (await passkeyStore.add(row)) ?? (await passkeyStore.add(row))
    if (added === undefined) return tooManyPasskeys()
    // A sign-in by password alone that was committing meanwhile was invisible to that statement.
    if (added.isFirst) await sessions.endAll(accountId, session.id)
    const passkey = (await passkeyStore.list(accountId)).find((one) => one.id === id)
    if (passkey === undefined) return new Failure("resource.not_found")
    return { passkey, codes: added.codesCount ? codes : undefined }
  }

  async removePasskey(session: Session, id: string, proof: Proof, visitor: Visitor): Promise<void | Failure> {
    const { passkeyStore } = this.#parts
    const proved = await this.#prove(session, proof, visitor)
    if (proved instanceof Failure) return proved
    const isRemoved = isPasskeyId(id) && (await passkeyStore.remove(session.accountId, id, session.id))
    return isRemoved ? undefined : new Failure("resource.not_found")
  }

  /** The account, to which its owner may add a factor: who has one shows it. */
  async #mayAdd(session: Session, proof: Proof, visitor: Visitor): Promise<Account | Failure> {
    const { accounts, store, passkeyStore } = this.#parts
    const { accountId } = session
    const [app, passkeys] = [await store.secretOf(accountId), await passkeyStore.list(accountId)]
    const hasFactor = app?.isConfirmed === true || passkeys.length > 0
    const proved = hasFactor
      ? await this.#prove(session, proof, visitor)
      : await accounts.confirm(session, proof.password, visitor)
    if (proved instanceof Failure) return proved
    const account = await accounts.account(session)
    if (account instanceof Failure) return account
    // Else a stranger who signed up with somebody's address keeps its owner out for ever.
    if (!account.emailProved)
      return new Failure("auth.forbidden", { message: "Prove the account's e-mail address first." })
    return account
  }

  async #prove(session: Session, { password, ...shown }: Proof, visitor: ClientInfo): Promise<void | Failure> {
    const confirmed = await this.#parts.accounts.confirm(session, password, visitor)
    if (confirmed instanceof Failure) return confirmed
    const { accountId, tokenHash: boundTo } = session
    return await this.#take(accountId, shown, { purpose: "prove", boundTo, tries: triesOf(accountId, true) })
  }

  /** Uses a code up, of the app or for recovery, or what a passkey has signed for this. */
  async #take(accountId: string, { code: typed, passkey }: Shown, asked: Challenge): Promise<void | Failure> {
    const { store, passkeyStore, passkeys } = this.#parts
    const app = await store.secretOf(accountId)
    const hasApp = app?.isConfirmed === true
    if (!hasApp && (await passkeyStore.list(accountId)).length === 0) return notSet()
    if ((typed === undefined) === (passkey === undefined)) return oneOfBoth()
    const refused = await this.#try(asked.tries)
    if (refused !== undefined) return refused
    const code = normalized(typed ?? "")
    if (passkey !== undefined) {
      const owner = await passkeys.verify(passkey, asked.purpose, asked.boundTo)
      if (owner instanceof Failure) return owner
      if (owner.accountId !== accountId) return wrongCode()
    } else if (code.length === CODE_LENGTH) {
      if (!(await store.takeCode(accountId, hashOf(code)))) return wrongCode()
    } else {
      const step = hasApp ? stepOf(app.secret, code, this.#parts.now()) : undefined
      if (step === undefined || !(await store.takeStep(accountId, step))) return wrongCode()
    }
    await this.#right(asked.tries)
    return undefined
  }

  /** Counted before it is judged, so that a thousand at once are not all the first. */
  async #try(tries: string): Promise<Failure | undefined> {
    const waitS = await this.#parts.allowances.take({ name: tries, most: CODE_TRIES, seconds: HOUR_S })
    return waitS === undefined ? undefined : tooMany("wrong codes", waitS)
  }

  #right(tries: string): Promise<void> {
    return this.#parts.allowances.clear(tries)
  }
}

const triesOf = (accountId: string, isKnownNetwork: boolean): string =>
  `factor of ${accountId}${isKnownNetwork ? "" : ", elsewhere"}`

/** What a passkey's signature must be for, and where the try is counted. */
interface Challenge {
  readonly purpose: "step" | "prove"
  readonly boundTo: Uint8Array
  readonly tries: string
}

const tooMany = (what: string, waitS: number): Failure =>
  new Failure("auth.unauthorized", {
    message: `There were too many ${what}; wait before the next.`,
    retryAfterS: wholeSeconds(waitS),
  })
const oneOfBoth = (): Failure => invalid("Show either 'code' or 'passkey'.")
const tooManyPasskeys = (): Failure =>
  invalid(`An account has at most ${PASSKEYS} passkeys, each once; remove one first.`)
const wrongCode = (): Failure =>
  new Failure("auth.unauthorized", { message: "The code is wrong, was used before, or is over." })
const stepOver = (): Failure =>
  new Failure("auth.unauthorized", { message: "The sign-in took too long; begin again.", hint: "sign in again" })
const notSet = (): Failure => invalid("The account has no second factor.")
const alreadySet = (): Failure => invalid("The account has a second factor already; remove it first.")
