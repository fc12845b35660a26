/**
 * Members of an account: people who sign in to an account of their own and have a role in this one, and what each role may do.
 * Who is invited gets a link, good for seven days and one use, for a person whose address it was sent to. Where no mail
 * leaves, whoever invites hands the link over. Nothing here tells whether an address has an account.
 */
import { nanoid } from "nanoid"
import { unreachable } from "../../actors/unreachable.ts"
import { Failure, invalid, wholeSeconds } from "../failure/failure.ts"
import { type MemberRole, memberRoles } from "../store/account-settings.ts"
import type { ClientInfo } from "../store/accounts.ts"
import { actingAs } from "../store/database.ts"
import type { AllowanceStore } from "../store/allowances.ts"
import {
  type AcceptRefusal,
  type Invitation,
  type InviteRefusal,
  type Member,
  type Membership,
  type MemberStore,
  MAX_MEMBERS,
  MAX_MEMBERSHIPS,
  type OpenInvitation,
} from "../store/members.ts"
import type { SessionStore } from "../store/sessions.ts"
import { type Accounts, type Session } from "./accounts.ts"
import { createSessionToken, hashSessionToken } from "./bearer-tokens.ts"
import type { AccountChanged } from "./in-force.ts"
import { invitationPath, type OwnerMail } from "./owner-mail.ts"

/** Of one account; each is a mail to whom the account names. */
export const INVITATIONS_A_DAY = 20
const DAY_S = 86_400

interface MembersOptions {
  readonly store: MemberStore
  readonly accounts: Pick<Accounts, "account">
  readonly sessions: Pick<SessionStore, "lookAt">
  readonly mail: OwnerMail
  readonly allowances: Pick<AllowanceStore, "take">
  readonly accountChanged: AccountChanged
}

export interface Invited {
  readonly invitation: Invitation
  /** The link's path below the dashboard, where no mail takes it to whom it is for. Shown this once. */
  readonly path: string | undefined
}

export class Members {
  readonly #parts: MembersOptions

  constructor(parts: MembersOptions) {
    this.#parts = parts
  }

  async list({ accountId }: Session): Promise<{
    readonly members: readonly Member[]
    readonly invitations: readonly Invitation[]
  }> {
    const { store } = this.#parts
    const [members, invitations] = await Promise.all([store.list(accountId), store.invitations(accountId)])
    return { members, invitations }
  }

  /** An address that was invited before gets another link, in this role. */
  async invite(
    session: Session,
    { email, role }: { readonly email: string; readonly role: MemberRole },
    from: ClientInfo,
  ): Promise<Invited | Failure> {
    const { accounts, store, mail } = this.#parts
    const account = await accounts.account(session)
    if (account instanceof Failure) return account
    if (mail.isOn && !account.emailProved) return unproved()
    const address = email.normalize("NFC")
    const admitted = await this.#admit(session, address, from)
    if (admitted !== undefined) return admitted
    const { token, hash } = createSessionToken()
    const { accountId, personId } = session
    const id = `inv_${nanoid()}`
    const tokenHash = mail.isOn ? undefined : hash
    const refusal = await store.invite({ id, accountId, email: address, role, invitedBy: personId, tokenHash })
    if (refusal !== undefined) return inviteRefused(refusal)
    const invitation = await this.#invitation(session, id)
    if (invitation instanceof Failure) return invitation
    return { invitation, path: mail.isOn ? undefined : invitationPath(token) }
  }

  async inviteAgain(session: Session, id: string, from: ClientInfo): Promise<Invited | Failure> {
    const invitation = await this.#invitation(session, id)
    return invitation instanceof Failure ? invitation : await this.invite(session, invitation, from)
  }

  async revoke({ accountId }: Session, id: string): Promise<void | Failure> {
    return (await this.#parts.store.revoke(accountId, id)) ? undefined : new Failure("resource.not_found")
  }

  async changeRole(session: Session, memberId: string, role: MemberRole): Promise<Member | Failure> {
    const { store, accountChanged } = this.#parts
    const { accountId, personId } = session
    const raisedFrom = memberRoles.filter((before) => isRaised(before, role))
    const isChanged = await store.changeRole({ accountId, memberId }, role, personId, raisedFrom)
    if (!isChanged) return new Failure("resource.not_found")
    accountChanged(accountId)
    const member = (await store.list(accountId)).find(({ id }) => id === memberId)
    return member ?? new Failure("resource.not_found")
  }

  async remove({ accountId, personId }: Session, memberId: string): Promise<void | Failure> {
    const removed = await this.#parts.store.remove({ accountId, memberId }, personId)
    if (!removed) return new Failure("resource.not_found")
    this.#parts.accountChanged(accountId)
    return undefined
  }

  /** The accounts in which the person has a role. */
  memberships({ personId }: Session): Promise<readonly Membership[]> {
    return this.#parts.store.memberships(personId)
  }

  async leave({ personId }: Session, accountId: string): Promise<void | Failure> {
    const member = { accountId, memberId: personId }
    const left = await actingAs(member, () => this.#parts.store.remove(member, personId))
    if (!left) return new Failure("resource.not_found")
    this.#parts.accountChanged(accountId)
    return undefined
  }

  /** Which account this session shows from now on. */
  async lookAt(session: Session, accountId: string): Promise<void | Failure> {
    const own = accountId === session.personId
    const shown = { id: session.id, accountId: session.personId }
    const done = await this.#parts.sessions.lookAt(shown, own ? undefined : accountId)
    return done ? undefined : new Failure("resource.not_found")
  }

  /** What a link's token is for, for whoever has it. */
  async open(token: string): Promise<OpenInvitation | Failure> {
    const hash = hashSessionToken(token)
    const found = hash && (await this.#parts.store.open(hash))
    return found ?? deadLink()
  }

  async accept({ personId }: Session, token: string): Promise<{ readonly accountId: string } | Failure> {
    const { store, accountChanged } = this.#parts
    const hash = hashSessionToken(token)
    const outcome = hash === undefined ? "no link" : await store.accept(hash, personId)
    if (typeof outcome === "string") return acceptRefused(outcome)
    accountChanged(outcome.accountId)
    accountChanged(personId)
    return outcome
  }

  async #admit({ accountId }: Session, to: string, { address: from }: ClientInfo): Promise<Failure | undefined> {
    const { allowances, mail } = this.#parts
    const name = `invitations ${accountId}`
    const waitS = await allowances.take({ name, most: INVITATIONS_A_DAY, seconds: DAY_S })
    if (waitS !== undefined) return new Failure("rate_limit.mail", { retryAfterS: wholeSeconds(waitS) })
    return mail.isOn ? await mail.admit({ kind: "invitation", to, from }) : undefined
  }

  async #invitation({ accountId }: Session, id: string): Promise<Invitation | Failure> {
    const found = (await this.#parts.store.invitations(accountId)).find((each) => each.id === id)
    return found ?? new Failure("resource.not_found")
  }
}

const unproved = (): Failure => invalid("Prove the account's own e-mail address before you invite others.")
const deadLink = (): Failure => invalid("'token' is not good any more; ask whoever invited you for another link.")

function inviteRefused(refusal: InviteRefusal): Failure {
  switch (refusal) {
    case "not allowed":
      return new Failure("auth.role_required")
    case "frozen":
      return new Failure("auth.account_frozen")
    case "own":
      return invalid("'email' is the account's own address.")
    case "member":
      return invalid("'email' is a member's address already; change the member's role instead.")
    case "too many":
      return invalid(`An account has at most ${MAX_MEMBERS} members, open invitations included.`)
    default:
      return unreachable(refusal)
  }
}

function acceptRefused(refusal: AcceptRefusal): Failure {
  switch (refusal) {
    case "no link":
      return deadLink()
    case "other address":
      return invalid("The invitation is for another e-mail address; sign in to the account that has it.")
    case "not proved":
      return invalid("Prove your account's e-mail address first, by the link that was mailed to it.")
    case "too many":
      return invalid(`A person is a member of at most ${MAX_MEMBERSHIPS} accounts; leave another one first.`)
    default:
      return unreachable(refusal)
  }
}

/**
 * What each role may do with an account: the one table. A route names what it takes (`may`), so who may call which
 * route follows from here; what is a person's own (`self`) is never the account's that is looked at.
 */
const table = {
  /** The balance, keys without their secrets, usage, runs, what happens live. */
  read: ["owner", "billing", "developer", "viewer"],
  /** Top-ups, statements and receipts, with the buyer's name and tax number. */
  books: ["owner", "billing", "viewer"],
  /** Topping up, to whom receipts are made out, and who is mailed of a low balance. */
  pay: ["owner", "billing"],
  /** Keys, runs and the webhook, whose address may be a secret. */
  build: ["owner", "developer"],
  /** The account's breaker: its ceiling, and going on after a stop. */
  guard: ["owner", "billing", "developer"],
  /** Members, the account's history, its time zone. */
  manage: ["owner"],
} as const satisfies Readonly<Record<string, readonly MemberRole[]>>

export type Permission = keyof typeof table
export const permissions = Object.keys(table) as readonly Permission[]

/** In the order of `memberRoles`. */
export const rolesThatMay = (permission: Permission): readonly MemberRole[] => table[permission]

export const mayDo = (role: MemberRole, permission: Permission): boolean => rolesThatMay(permission).includes(role)

/** Whether the new role may do anything that the one before might not. */
const isRaised = (from: MemberRole, to: MemberRole): boolean =>
  permissions.some((permission) => mayDo(to, permission) && !mayDo(from, permission))

/** Undefined where the role may. */
export function refusalOf(role: MemberRole, permission: Permission): Failure | undefined {
  if (mayDo(role, permission)) return undefined
  const needed = rolesThatMay(permission).map((each) => `'${each}'`)
  const message = `This takes the role ${needed.join(" or ")} in this account; yours is '${role}'.`
  return new Failure("auth.role_required", { message })
}
