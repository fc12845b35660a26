/** `/operator/accounts`: everybody's accounts, what they have, and what an operator may do about it. */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { largestMicro, type Micro, micro, microToJson, minus } from "../../../actors/money/micro.ts"
import type { Accounts } from "../../accounts/accounts.ts"
import type { Adjustments } from "../../accounts/adjustments.ts"
import { Failure } from "../../failure/failure.ts"
import type { ApiKeyStore } from "../../store/api-keys.ts"
import type { MemberStore } from "../../store/members.ts"
import type { AccountView, AccountViews, TransferRow } from "../../store/operator/accounts.ts"
import { givenRoles, operatorRoles, type RoleChange, type RoleOutcome } from "../../store/operator/role.ts"
import type { TopUpStore } from "../../store/top-ups.ts"
import { memberJson, memberShape } from "../dashboard/members.ts"
import { keyJson, keyShape } from "../dashboard/keys.ts"
import { ID, pageJson, pageQuery, readPage, Reason } from "../dashboard/page.ts"
import { type Authenticate, operatorBy } from "../dashboard/session.ts"
import { topUpShape, topUpSummary } from "../dashboard/top-ups.ts"
import { refused } from "../route.ts"
import { described, flag, integer, micro as microShape, oneOf, orNull, pageOf, text, time } from "../shapes.ts"

export interface AccountsDeps {
  readonly views: AccountViews
  readonly adjustments: Adjustments
  /** Larger adjustments, which are more often a slip of the hand, are to be confirmed. */
  readonly confirmAbove: Micro
  readonly accounts: Pick<Accounts, "freeze" | "unfreeze">
  readonly keys: Pick<ApiKeyStore, "list">
  readonly topUps: Pick<TopUpStore, "list">
  readonly members: Pick<MemberStore, "list">
  readonly changeRole: (accountId: string, change: RoleChange) => Promise<RoleOutcome | undefined>
  readonly authenticate: Authenticate
}

/** Of an account: those that work, and then the latest of the revoked. */
const KEYS_SHOWN = 100
export const ACCOUNT_ID = /^acc_[A-Za-z0-9_-]{1,40}$/

const WithReason = Type.Object({ reason: Reason })
const RoleBody = Type.Object({ role: oneOf(givenRoles, "'customer', 'support', 'finance' or 'owner'"), reason: Reason })
/** The operator's own: the same is done once under it. */
export const OnceKey = Type.RegExp(/^[A-Za-z0-9_.:-]{1,100}$/, {
  description: "a string of 1 to 100 letters, digits and _ . : -",
})
const AMOUNT = "an integer of micro-rupiah, not 0; negative takes"
const Adjustment = Type.Object({
  amount_micro: Type.Integer({ minimum: -Number(largestMicro), maximum: Number(largestMicro), description: AMOUNT }),
  reason: Reason,
  idempotency_key: OnceKey,
  confirm_large: Type.Optional(Type.Boolean({ description: "true or false" })),
})
const SearchQuery = Type.Object({
  ...pageQuery,
  query: Type.Optional(
    Type.RegExp(/^[^\p{Cc}]{1,254}$/u, {
      description: "at most 254 characters on one line: part of an e-mail address, or the beginning of an id or a key",
    }),
  ),
})

const accountShape = Type.Object(
  {
    id: text,
    email: text,
    role: oneOf(["customer", "operator"]),
    operator_role: orNull(oneOf(operatorRoles), "Null for a customer."),
    time_zone: text,
    balance_micro: microShape,
    held_micro: described(microShape, "Held for calls under way."),
    leased_micro: described(microShape, "What gateway processes may spend without asking, what is held included."),
    unleased_micro: microShape,
    claim_micro: described(
      microShape,
      "What the account owes for payments that were taken back; settled before anything else.",
    ),
    key_count: integer,
    created_at: time,
    deleted_at: orNull(time),
    frozen: flag,
    frozen_at: orNull(time),
    frozen_reason: orNull(text),
  },
  { $id: "OperatorAccount" },
)
const AccountDetail = Type.Intersect([
  accountShape,
  Type.Object({
    keys: Type.Array(keyShape),
    top_ups: Type.Array(topUpShape),
    members: Type.Array(memberShape),
    confirm_above_micro: described(microShape, "An adjustment of more than this, either way, needs `confirm_large`."),
  }),
])
const TransferShape = Type.Object({
  id: integer,
  created_at: time,
  amount_micro: described(microShape, "What came is positive."),
  balance_micro: described(microShape, "After this transfer."),
  counterpart: text,
  reason: text,
  for: described(text, "A call's request id, a top-up's reference, an adjustment's key."),
  note: orNull(text),
})

export const operatorAccountsController = (deps: AccountsDeps) => {
  const { views, adjustments, confirmAbove, accounts, keys, topUps, members, changeRole, authenticate } = deps
  const operators = operatorBy(authenticate)
  const found = async (id: string): Promise<AccountView | Failure> =>
    (ACCOUNT_ID.test(id) ? await views.find(id) : undefined) ?? new Failure("resource.not_found")
  return new Elysia({ name: "operator/accounts" })
    .get(
      ...operators(
        "/operator/accounts",
        {
          tag: "Operator",
          role: "support",
          summary: "Accounts, the newest first",
          query: SearchQuery,
          answer: pageOf(accountShape),
        },
        async ({ query }) => {
          const page = readPage(query, [ACCOUNT_ID])
          if (page instanceof Failure) return page
          const [after] = page.after ?? []
          const words = query.query?.trim().normalize("NFC") || undefined
          const rows = await views.search({ query: words, after, limit: page.limit + 1 })
          return pageJson(rows, page, { item: accountJson, placeOf: ({ id }) => [id] })
        },
      ),
    )
    .get(
      ...operators(
        "/operator/accounts/:id",
        { tag: "Operator", role: "support", summary: "One account with its keys and top-ups", answer: AccountDetail },
        async ({ params }) => {
          const account = await found(params.id)
          if (account instanceof Failure) return account
          const [ofKeys, ofTopUps, ofMembers] = await Promise.all([
            keys.list(account.id, { after: undefined, limit: KEYS_SHOWN }),
            topUps.list(account.id),
            members.list(account.id),
          ])
          return {
            ...accountJson(account),
            keys: ofKeys.map(keyJson),
            top_ups: ofTopUps.map(topUpSummary),
            members: ofMembers.map(memberJson),
            confirm_above_micro: microToJson(confirmAbove),
          }
        },
      ),
    )
    .get(
      ...operators(
        "/operator/accounts/:id/transfers",
        {
          tag: "Operator",
          role: "support",
          summary: "The account's ledger, the newest first",
          query: Type.Object(pageQuery),
          answer: pageOf(TransferShape),
        },
        async ({ params, query }) => {
          const page = readPage(query, [ID])
          if (page instanceof Failure) return page
          const account = await found(params.id)
          if (account instanceof Failure) return account
          const [before] = page.after ?? []
          const rows = await views.transfers(account.id, {
            before: before === undefined ? undefined : BigInt(before),
            limit: page.limit + 1,
          })
          return pageJson(rows, page, { item: transferJson, placeOf: ({ id }) => [String(id)] })
        },
      ),
    )
    .post(
      ...operators(
        "/operator/accounts/:id/adjustments",
        {
          tag: "Operator",
          role: "finance",
          summary: "Give or take balance; once for each `idempotency_key`. At most what is free can be taken",
          description:
            "More than `confirm_above_micro` of the account (ADJUSTMENT_CONFIRM_RP) needs `confirm_large`; without it nothing is changed.",
          body: Adjustment,
          answer: Type.Object({ account_id: text, amount_micro: microShape, balance_micro: microShape }),
          status: 201,
        },
        async ({ params, body, operator }) => {
          if (body.amount_micro === 0) return refused("amount_micro", AMOUNT)
          if (Math.abs(body.amount_micro) > confirmAbove && body.confirm_large !== true)
            return new Failure("request.invalid", {
              message: `'amount_micro' is ${body.amount_micro}: more than ${confirmAbove} micro-rupiah at once is to be confirmed.`,
              hint: "Send 'confirm_large': true if it is meant.",
            })
          const account = await found(params.id)
          if (account instanceof Failure) return account
          const amountMicro = micro(BigInt(body.amount_micro))
          const balance = await adjustments.make(
            { accountId: account.id, amountMicro, reason: body.reason, idempotencyKey: body.idempotency_key },
            operator.act,
          )
          if (balance instanceof Failure) return balance
          return { account_id: account.id, amount_micro: body.amount_micro, balance_micro: microToJson(balance) }
        },
      ),
    )
    .post(
      ...operators(
        "/operator/accounts/:id/freeze",
        {
          tag: "Operator",
          role: "support",
          summary: "No more calls by its keys, and no new ones",
          body: WithReason,
          answer: accountShape,
        },
        async ({ params, body, operator }) => {
          const account = await found(params.id)
          if (account instanceof Failure) return account
          const frozen = await accounts.freeze(account.id, body.reason, operator.act)
          return frozen instanceof Failure ? frozen : shown(await found(account.id))
        },
      ),
    )
    .post(
      ...operators(
        "/operator/accounts/:id/unfreeze",
        { tag: "Operator", role: "support", summary: "Calls again", body: WithReason, answer: accountShape },
        async ({ params, body, operator }) => {
          const account = await found(params.id)
          if (account instanceof Failure) return account
          const unfrozen = await accounts.unfreeze(account.id, { act: operator.act, reason: body.reason })
          return unfrozen instanceof Failure ? unfrozen : shown(await found(account.id))
        },
      ),
    )
    .post(
      ...operators(
        "/operator/accounts/:id/role",
        {
          tag: "Operator",
          role: "owner",
          summary: "Make an account an operator's of this role, or a customer's again; its sessions end",
          body: RoleBody,
          answer: accountShape,
        },
        async ({ params, body, operator }) => {
          const account = await found(params.id)
          if (account instanceof Failure) return account
          const change = { role: body.role, act: operator.act, reason: body.reason, keepsAnOwner: true }
          const outcome = await changeRole(account.id, change)
          if (outcome === undefined) return new Failure("resource.not_found")
          if (outcome.kind === "last-owner") {
            const message = "'role' cannot be taken from the last owner: make somebody else an owner first."
            return new Failure("request.invalid", { message })
          }
          return shown(await found(account.id))
        },
      ),
    )
}

const shown = (account: AccountView | Failure) => (account instanceof Failure ? account : accountJson(account))

export const accountJson = (account: AccountView) => ({
  id: account.id,
  email: account.email,
  role: account.role,
  operator_role: account.operatorRole ?? null,
  time_zone: account.timeZone,
  balance_micro: microToJson(account.balanceMicro),
  held_micro: microToJson(account.heldMicro),
  leased_micro: microToJson(account.leasedMicro),
  unleased_micro: microToJson(minus(account.balanceMicro, account.leasedMicro)),
  claim_micro: microToJson(account.claimMicro),
  key_count: account.keys,
  created_at: account.createdAt.toISOString(),
  deleted_at: account.deletedAt?.toISOString() ?? null,
  frozen: account.frozen !== undefined,
  frozen_at: account.frozen?.at.toISOString() ?? null,
  frozen_reason: account.frozen?.reason ?? null,
})

/** `for` is what a transfer belongs to: a call's request id, a top-up's reference, an adjustment's key. */
const transferJson = (transfer: TransferRow) => ({
  id: Number(transfer.id),
  created_at: transfer.at.toISOString(),
  amount_micro: microToJson(transfer.amountMicro),
  balance_micro: microToJson(transfer.balanceMicro),
  counterpart: transfer.counterpart,
  reason: transfer.reason,
  for: transfer.idempotencyKey.slice(transfer.idempotencyKey.lastIndexOf(":") + 1),
  note: transfer.note ?? null,
})
