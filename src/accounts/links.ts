/**
 * What an account's owner does by mail: proves an address, moves to another one, and sets a new password when the old one is
 * forgotten. Nothing here tells a visitor who has an account (but for the sign-up, decisions §10).
 */
import { Failure } from "../failure/failure.ts"
import type { AccountMailStore } from "../store/account-mails.ts"
import type { Account, Whereabouts } from "../store/accounts.ts"
import type { SessionStore } from "../store/sessions.ts"
import type { Accounts, Session, Visitor } from "./accounts.ts"
import { type AccountChanged, inForce, type KeysChanged } from "./in-force.ts"
import { networkOf } from "./network.ts"
import type { OwnerMail } from "./owner-mail.ts"
import type { TrialCredits } from "./trial-credit.ts"
import type { Passwords } from "./password.ts"
import { hashSessionToken } from "./session-token.ts"

export interface LinksParts {
  readonly accounts: Accounts
  readonly store: AccountMailStore
  readonly sessions: SessionStore
  readonly passwords: Passwords
  readonly mail: OwnerMail
  readonly trial: Pick<TrialCredits, "network" | "give">
  readonly keysChanged: KeysChanged
  readonly accountChanged: AccountChanged
  /** Something failed that nobody waits for. */
  readonly failed: (error: unknown) => void
}

export class Links {
  readonly #parts: LinksParts

  constructor(parts: LinksParts) {
    this.#parts = parts
  }

  /** Sends the account's address another proof, if it needs one. */
  async sendAgain(session: Session, from: Whereabouts): Promise<void | Failure> {
    const { accounts, mail, store } = this.#parts
    const account = await accounts.account(session)
    if (account instanceof Failure) return account
    if (account.emailProved) return undefined
    if (!mail.isOn) return noMail()
    const refused = await mail.admit({ to: account.email, from: from.address, by: account.id })
    if (refused !== undefined) return refused
    await store.ask(account.id, "prove")
    return undefined
  }

  /**
   * The new address takes over when its owner has opened the link that is sent there; where no mail leaves, at once. Whoever
   * has a stolen session does not know the password.
   */
  async changeEmail(
    session: Session,
    { email, password }: { readonly email: string; readonly password: string },
    visitor: Visitor,
  ): Promise<Account | Failure> {
    const { accounts, mail, store } = this.#parts
    const confirmed = await accounts.confirm(session, password, visitor)
    if (confirmed instanceof Failure) return confirmed
    const address = email.normalize("NFC")
    const account = await accounts.account(session)
    if (account instanceof Failure || account.email === address) return account
    const isOther = account.email.toLowerCase() !== address.toLowerCase()
    if (isOther) {
      // Asked for where no mail leaves too: the answer shows who has an account.
      const refused = await mail.admit({ to: address, from: visitor.address, by: account.id })
      if (refused !== undefined) return refused
      if (await store.isTaken(address)) return taken()
    }
    if (mail.isOn && isOther) {
      await store.ask(account.id, "change", address)
      return account
    }
    if ((await store.changeEmail(account.id, address)) === "taken") return taken()
    return await this.#changed(session, isOther)
  }

  /** Only whoever is signed in to the account proves its address: an owner's click does not help a stranger who signed up with it. */
  async prove(session: Session, token: string, from: Whereabouts): Promise<Account | Failure> {
    const { store, trial } = this.#parts
    const hash = hashSessionToken(token)
    const trialNetwork = await trial.network(from.address)
    const outcome = hash === undefined ? "no link" : await store.prove(hash, session.accountId, trialNetwork)
    if (outcome === "taken") return taken()
    if (outcome === "no link") return deadLink()
    const account = await this.#changed(session, outcome !== "proved")
    if (outcome !== "proved" || account instanceof Failure) return account
    if (trialNetwork === undefined) return account
    await trial.give(account.id)
    return await this.#parts.accounts.account(session)
  }

  /**
   * The caller waits for what is the same for every address, and not for whether there is an account: the look-up and the row
   * come after the answer.
   */
  async forgotten(email: string, from: Whereabouts): Promise<void | Failure> {
    const { mail, store, failed } = this.#parts
    if (!mail.isOn) return noMail()
    const address = email.normalize("NFC")
    const refused = await mail.admit({ to: address, from: from.address })
    if (refused !== undefined) return refused
    store.askReset(address).catch(failed)
    return undefined
  }

  async resetPassword(token: string, password: string, from: Whereabouts): Promise<void | Failure> {
    const { store, sessions, passwords, mail, keysChanged } = this.#parts
    const hash = hashSessionToken(token)
    // Whoever has no link makes no work: a password's hash takes tens of milliseconds.
    const link = hash === undefined ? undefined : await store.read(hash)
    if (hash === undefined || link?.kind !== "reset") return deadLink()
    const passwordHash = await passwords.hash(password, networkOf(from.address))
    if (passwordHash instanceof Failure) return passwordHash
    const revoked = await store.resetPassword(hash, passwordHash)
    if (revoked === undefined) return deadLink()
    // A sign-in with the old password that was committing meanwhile was invisible to that statement.
    await sessions.endAll(link.accountId)
    await mail.tell(link.accountId, "password-reset")
    this.#parts.accountChanged(link.accountId)
    return await inForce(keysChanged, revoked, undefined)
  }

  async #changed(session: Session, endsOthers: boolean): Promise<Account | Failure> {
    if (endsOthers) await this.#parts.sessions.endAll(session.accountId, session.id)
    this.#parts.accountChanged(session.accountId)
    return await this.#parts.accounts.account(session)
  }
}

const taken = (): Failure => new Failure("request.invalid", { message: "'email' belongs to an account already." })
const deadLink = (): Failure =>
  new Failure("request.invalid", {
    message: "'token' is not good any more, or is another account's; ask for a new mail.",
  })
const noMail = (): Failure =>
  new Failure("request.unsupported_feature", { message: "This gateway sends no mail; ask whoever runs it." })
