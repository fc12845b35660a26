/** An account as its own person sees it. */
import { type Static, Type } from "@sinclair/typebox"
import { microToJson } from "../../../actors/money/micro.ts"
import { permissions } from "../../accounts/permissions.ts"
import { Failure } from "../../failure/failure.ts"
import type { Account } from "../../store/accounts.ts"
import { memberRoles } from "../../store/member-roles.ts"
import { operatorRoles } from "../../store/operator/role.ts"
import { described, flag, micro as microShape, oneOf, orNull, text, time } from "../shapes.ts"

export const accountShape = Type.Object(
  {
    id: text,
    email: text,
    email_proved: described(
      flag,
      "False where a mail has asked for a proof that it reaches the owner, and has none yet.",
    ),
    role: oneOf(["customer", "operator"], "Of whoever is signed in: operators also have the routes of `/operator`."),
    operator_role: orNull(oneOf(operatorRoles), "What an operator may do; each may do what those before it may."),
    member_role: oneOf(memberRoles, "What whoever is signed in may do with this account; its own person is its owner."),
    may: described(Type.Array(oneOf(permissions)), "What that role allows, as the routes' documentation has it."),
    signed_in: described(
      Type.Object({ id: text, email: text, language: oneOf(["id", "en"]) }),
      "The account of whoever is signed in: this one, or that of a member of it.",
    ),
    balance_micro: microShape,
    held_micro: described(microShape, "Held for calls under way; what can be spent is the difference."),
    claim_micro: described(
      microShape,
      "Owed for payments that were taken back and were spent already. It is settled first from whatever comes next.",
    ),
    time_zone: text,
    language: oneOf(["id", "en"]),
    low_balance_email: orNull(text),
    low_balance_threshold_micro: orNull(
      microShape,
      "A mail is sent, and an event posted to the webhook, when the balance falls below it.",
    ),
    budget_mails: described(
      flag,
      "Mails go to the same address when a key has spent 50, 80 and 100 percent of its budget.",
    ),
    buyer_name: orNull(
      text,
      "To whom its receipts and statements are made out; the e-mail address where there is none. Not shown to developers.",
    ),
    buyer_address: orNull(text),
    buyer_npwp: orNull(text, "The tax office's number: 15 or 16 digits."),
    frozen: described(flag, "Its keys are refused until an operator has looked at it."),
    agreed_version: orNull(
      text,
      "Of the terms, privacy and refund texts that its owner agreed to; the one in force is `legal_version` of `GET /about`.",
    ),
    agreed_at: orNull(time),
    created_at: time,
  },
  { $id: "Account" },
)

export const shown = (account: Account | Failure) => (account instanceof Failure ? account : accountJson(account))

export const accountJson = (account: Account): Static<typeof accountShape> => ({
  id: account.id,
  email: account.email,
  email_proved: account.emailProved,
  role: account.role,
  operator_role: account.operatorRole ?? null,
  member_role: "owner",
  may: [...permissions],
  signed_in: { id: account.id, email: account.email, language: account.language },
  balance_micro: microToJson(account.balanceMicro),
  held_micro: microToJson(account.heldMicro),
  claim_micro: microToJson(account.claimMicro),
  time_zone: account.timeZone,
  language: account.language,
  low_balance_email: account.lowBalanceEmail ?? null,
  low_balance_threshold_micro:
    account.lowBalanceThresholdMicro === undefined ? null : microToJson(account.lowBalanceThresholdMicro),
  budget_mails: account.budgetMails,
  buyer_name: account.buyerName ?? null,
  buyer_address: account.buyerAddress ?? null,
  buyer_npwp: account.buyerNpwp ?? null,
  frozen: account.frozen,
  agreed_version: account.agreed?.version ?? null,
  agreed_at: account.agreed?.at.toISOString() ?? null,
  created_at: account.createdAt.toISOString(),
})
