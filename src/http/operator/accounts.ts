/** `/operator/accounts`: everybody's accounts, what they have, and what an operator may do about it. */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { largestMicro, micro, microToJson, minus } from "../../../actors/money/micro.ts"
import type { Accounts } from "../../accounts/accounts.ts"
import type { Adjustments } from "../../accounts/adjustments.ts"
import { Failure } from "../../failure/failure.ts"
import type { ApiKeyStore } from "../../store/api-keys.ts"
import type { AccountView, AccountViews, TransferRow } from "../../store/operator/accounts.ts"
import type { TopUpStore } from "../../store/top-ups.ts"
import { bodyReader } from "../dashboard/body.ts"
import { asks, takes } from "../dashboard/contract.ts"
import { keyJson } from "../dashboard/keys.ts"
import { topUpSummary } from "../dashboard/top-ups.ts"
import type { OperatorGate } from "./gate.ts"
import { ID, type PageQuery, pageJson, pageOf, Reason, refused } from "../dashboard/page.ts"

export interface AccountsDeps {
  readonly views: AccountViews
  readonly adjustments: Adjustments
  readonly accounts: Pick<Accounts, "freeze" | "unfreeze">
  readonly keys: Pick<ApiKeyStore, "list">
  readonly topUps: Pick<TopUpStore, "list">
  readonly gate: OperatorGate
}

/** Of an account: those that work, and then the latest of the revoked. */
const KEYS_SHOWN = 100
const ACCOUNT_ID = /^acc_[A-Za-z0-9_-]{1,40}$/
const QUERY = /^[^\p{Cc}]{1,254}$/u

const readReason = bodyReader(Type.Object({ reason: Reason }))
const readAdjustment = bodyReader(
  Type.Object({
    amount_micro: Type.Integer({
      minimum: -Number(largestMicro),
      maximum: Number(largestMicro),
      description: "an integer of micro-rupiah, not 0; negative takes",
    }),
    reason: Reason,
    idempotency_key: Type.RegExp(/^[A-Za-z0-9_.:-]{1,100}$/, {
      description: "a string of 1 to 100 letters, digits and _ . : -",
    }),
  }),
)

export const operatorAccountsController = ({ views, adjustments, accounts, keys, topUps, gate }: AccountsDeps) => {
  const found = async (id: string): Promise<AccountView | Failure> =>
    (ACCOUNT_ID.test(id) ? await views.find(id) : undefined) ?? new Failure("resource.not_found")
  return new Elysia({ name: "operator/accounts" })
    .get(
      "/operator/accounts",
      async ({ request }) => {
        const operator = await gate(request)
        if (operator instanceof Failure) return operator
        const page = pageOf(request.url, [ACCOUNT_ID])
        if (page instanceof Failure) return page
        const query = new URL(request.url).searchParams.get("query")?.trim().normalize("NFC") || undefined
        if (query !== undefined && !QUERY.test(query)) return refused("query", "at most 254 characters on one line")
        const [after] = page.after ?? []
        const rows = await views.search({ query, after, limit: page.limit + 1 })
        return pageJson(rows, page, { item: accountJson, placeOf: ({ id }) => [id] })
      },
      asks<PageQuery & { readonly query?: string }>(),
    )
    .get("/operator/accounts/:id", async ({ request, params }) => {
      const operator = await gate(request)
      if (operator instanceof Failure) return operator
      const account = await found(params.id)
      if (account instanceof Failure) return account
      const [ofKeys, ofTopUps] = await Promise.all([
        keys.list(account.id, { after: undefined, limit: KEYS_SHOWN }),
        topUps.list(account.id),
      ])
      return { ...accountJson(account), keys: ofKeys.map(keyJson), top_ups: ofTopUps.map(topUpSummary) }
    })
    .get(
      "/operator/accounts/:id/transfers",
      async ({ request, params }) => {
        const operator = await gate(request)
        if (operator instanceof Failure) return operator
        const page = pageOf(request.url, [ID])
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
      asks<PageQuery>(),
    )
    .post(
      "/operator/accounts/:id/adjustments",
      async ({ request, params, set }) => {
        const operator = await gate(request)
        if (operator instanceof Failure) return operator
        const body = await readAdjustment(request)
        if (body instanceof Failure) return body
        if (body.amount_micro === 0) return refused("amount_micro", "an integer of micro-rupiah, not 0; negative takes")
        const account = await found(params.id)
        if (account instanceof Failure) return account
        const amountMicro = micro(BigInt(body.amount_micro))
        const balance = await adjustments.make(
          { accountId: account.id, amountMicro, reason: body.reason, idempotencyKey: body.idempotency_key },
          operator.act,
        )
        if (balance instanceof Failure) return balance
        set.status = 201
        return { account_id: account.id, amount_micro: body.amount_micro, balance_micro: microToJson(balance) }
      },
      takes(readAdjustment),
    )
    .post(
      "/operator/accounts/:id/freeze",
      async ({ request, params }) => {
        const operator = await gate(request)
        if (operator instanceof Failure) return operator
        const body = await readReason(request)
        if (body instanceof Failure) return body
        const account = await found(params.id)
        if (account instanceof Failure) return account
        const frozen = await accounts.freeze(account.id, body.reason, operator.act)
        if (frozen instanceof Failure) return frozen
        return answer(await found(account.id))
      },
      takes(readReason),
    )
    .post(
      "/operator/accounts/:id/unfreeze",
      async ({ request, params }) => {
        const operator = await gate(request)
        if (operator instanceof Failure) return operator
        const body = await readReason(request)
        if (body instanceof Failure) return body
        const account = await found(params.id)
        if (account instanceof Failure) return account
        const unfrozen = await accounts.unfreeze(account.id, { act: operator.act, reason: body.reason })
        if (unfrozen instanceof Failure) return unfrozen
        return answer(await found(account.id))
      },
      takes(readReason),
    )
}

const answer = (account: AccountView | Failure) => (account instanceof Failure ? account : accountJson(account))

const accountJson = (account: AccountView) => ({
  id: account.id,
  email: account.email,
  role: account.role,
  time_zone: account.timeZone,
  balance_micro: microToJson(account.balanceMicro),
  held_micro: microToJson(account.heldMicro),
  leased_micro: microToJson(account.leasedMicro),
  unleased_micro: microToJson(minus(account.balanceMicro, account.leasedMicro)),
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
