/** The kinds of mail to people about their accounts, and one that is due. */
import type { Language } from "./account-settings.ts"
import type { MemberRole } from "./members.ts"

/** Those with a link: a proof of the account's address, one of the address that is to take over, a forgotten password. */
export const linkKinds = ["prove", "change", "reset"] as const
export type LinkKind = (typeof linkKinds)[number]
/** What an owner is told of, so that a stranger's doing is noticed. */
export type TellKind =
  | "password-changed"
  | "password-reset"
  | "email-changed"
  | "factor-on"
  | "factor-off"
  | "app-removed"
  | "passkey-added"
  | "passkey-removed"
  | "codes-renewed"
  | "code-used"
  | "member-joined"
  | "member-raised"
export type OwnMailKind = LinkKind | TellKind
/** An invitation goes to somebody else's address; its link is a row of `invitations`. */
export type MailKind = OwnMailKind | "invitation"

export const isLink = (kind: MailKind): kind is LinkKind => linkKinds.some((link) => link === kind)

export interface DueMail {
  readonly id: bigint
  readonly accountId: string
  readonly kind: MailKind
  readonly email: string
  readonly language: Language
  /** Of an invitation that still stands. */
  readonly invitation: InvitationOfMail | undefined
}

export interface InvitationOfMail {
  readonly id: string
  readonly role: MemberRole
  /** The address of the account that invites. */
  readonly from: string
}
