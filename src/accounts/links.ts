/**
 * Links by mail: an account's owner proves an address, moves to another one, or resets a forgotten password. Nothing here reveals to a
 * visitor who has an account (except the sign-up, decisions §10).
 */
import { networkOf } from "../../actors/network.ts"
import { Failure, invalid } from "../failure/failure.ts"
import type { AccountMailStore } from "../store/account-mails.ts"
import type { Account, ClientInfo } from "../store/accounts.ts"
import type { SessionStore } from "../store/sessions.ts"
import type { Accounts, Session, Visitor } from "./accounts.ts"
import { type AccountChanged, inForce, type KeysChanged } from "./in-force.ts"
import { ofGateway, type OwnerMail } from "./owner-mail.ts"
import type { TrialCredits } from "./adjustments.ts"
import type { Passwords } from "./fields.ts"
import { hashSessionToken } from "./bearer-tokens.ts"

export interface LinksOptions {
  readonly accounts: Accounts
  readonly store: AccountMailStore
  readonly sessions: SessionStore
  readonly passwords: Passwords
  readonly mail: OwnerMail
  readonly trial: Pick<TrialCredits, "network" | "give">
  readonly keysChanged: KeysChanged
  readonly accountChanged: AccountChanged
  /** Hears of failures in the background. */
  readonly failed: (error: unknown) => void
}

export class Links {
  readonly #parts: LinksOptions

  constructor(parts: LinksOptions) {
    this.#parts = parts
  }

  /** Sends another proof link to the account's address, if that is not proven yet. */
  async sendAgain(session: Session, from: ClientInfo): Promise<void | Failure> {
    const { accounts, mail, store } = this.#parts
    const account = await accounts.account(session)
    if (account instanceof Failure) return account
    if (account.emailProved) return undefined
    if (!mail.isOn) return noMail()
    const refused = await mail.admit({ kind: "prove", to: account.email, from: from.address, by: account.id })
    if (refused !== undefined) return refused
    await store.ask(account.id, "prove")
    return undefined
  }

  /**
   * Changes the address when its owner has opened the link that is sent there, or at once where no mail is configured. It asks for the
   * password, which the thief of a session does not know.
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
      // The limit also applies where no mail is configured, because the response reveals who has an account.
      const refused = await mail.admit({ kind: "change", to: address, from: visitor.address, by: account.id })
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

  /** Only a person who is signed in can prove the address: an owner's click must not help a stranger who signed up with it. */
  async prove(session: Session, token: string, from: ClientInfo): Promise<Account | Failure> {
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
   * The response takes the same time for every address, so it does not reveal whether there is an account. The row comes after the
   * response, and so does its place among the gateway's mails, of which an address without an account takes none. Spellings that reach
   * one person count as one address, also where they have no account and nothing is sent; so whoever asks from a network of the
   * account's owner is counted apart.
   */
  async requestPasswordReset(email: string, from: ClientInfo): Promise<void | Failure> {
    const { mail, sessions, failed } = this.#parts
    if (!mail.isOn) return noMail()
    const address = email.normalize("NFC")
    const isFromHome = await sessions.isFromHome(address, networkOf(from.address))
    const refused = await mail.admit({ kind: "reset", to: address, from: from.address, isFromHome })
    if (refused !== undefined) return refused
    this.#askReset(address, isFromHome).catch(failed)
    return undefined
  }

  async #askReset(address: string, isFromHome: boolean): Promise<void> {
    const { mail, store } = this.#parts
    if (!(await store.isTaken(address))) return
    const refused = await mail.count([ofGateway(isFromHome)])
    if (refused !== undefined) throw new Error(`a new password was asked for: ${refused.message}`)
    await store.askReset(address)
  }

  async resetPassword(token: string, password: string, from: ClientInfo): Promise<void | Failure> {
    const { store, passwords, keysChanged } = this.#parts
    const hash = hashSessionToken(token)
    // The link is checked first, because a password's hash takes tens of milliseconds.
    const link = hash === undefined ? undefined : await store.read(hash)
    if (hash === undefined || link?.kind !== "reset") return deadLink()
    const passwordHash = await passwords.hash(password, networkOf(from.address))
    if (passwordHash instanceof Failure) return passwordHash
    const revoked = await store.resetPassword(hash, passwordHash)
    if (revoked === undefined) return deadLink()
    this.#parts.accountChanged(link.accountId)
    return await inForce(keysChanged, revoked, undefined)
  }

  async #changed(session: Session, endsOthers: boolean): Promise<Account | Failure> {
    if (endsOthers) await this.#parts.sessions.endAll(session.accountId, session.id)
    this.#parts.accountChanged(session.accountId)
    return await this.#parts.accounts.account(session)
  }
}

const taken = (): Failure => invalid("'email' belongs to an account already.")
const deadLink = (): Failure => invalid("'token' is not good any more, or is another account's; ask for a new mail.")
const noMail = (): Failure =>
  new Failure("request.unsupported_feature", { message: "This gateway sends no mail; ask whoever runs it." })
