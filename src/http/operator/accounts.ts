/** `/operator/accounts`: everybody's accounts, what they have, and what an operator may do about it. */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { largestMicro, type Micro, micro, microToJson, sumToJson } from "../../../actors/money/micro.ts"
import type { Accounts } from "../../accounts/accounts.ts"
import type { Adjustments } from "../../accounts/adjustments.ts"
import { Failure } from "../../failure/failure.ts"
import type { ApiKeyStore } from "../../store/api-keys.ts"
import type { MemberStore } from "../../store/members.ts"
import type { AuditStore } from "../../store/operator/audit.ts"
import type { AccountView, AccountViews, TransferRow } from "../../store/operator/accounts.ts"
import { givenRoles, type RoleChange, type RoleOutcome } from "../../store/operator/role.ts"
import type { TopUpStore } from "../../store/top-ups.ts"
import { memberJson } from "../dashboard/members.ts"
import { keyJson } from "../dashboard/key-json.ts"
import { csvFile, csvQuery, jsonCells, MAX_EXPORTED, pageJson, pageQuery, readPage, Reason } from "../dashboard/page.ts"
import { type Authenticate, operatorBy } from "../dashboard/session.ts"
import { topUpSummary } from "../dashboard/top-ups.ts"
import { refused } from "../route.ts"
import { exactly, field, micro as microShape, oneOf, pageOf, text } from "../shapes.ts"
import { AccountDetail, TransferShape, accountJson, accountShape, shown, transferJson } from "./account-json.ts"

export interface AccountsDeps {
  readonly views: AccountViews
  readonly audit: Pick<AuditStore, "exported">
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
const RoleBody = Type.Object({
  role: oneOf(
    givenRoles,
    field("'customer', 'support', 'finance' or 'owner'", "'customer', 'support', 'finance', atau 'owner'"),
  ),
  reason: Reason,
})
/** The operator's own: the same is done once under it. */
export const OnceKey = Type.RegExp(/^[A-Za-z0-9_.:-]{1,100}$/, {
  description: field("a string of 1 to 100 letters, digits and _ . : -", "teks 1 sampai 100 huruf, angka, dan _ . : -"),
})
const AMOUNT = field(
  "an integer of micro-rupiah, not 0; negative takes",
  "bilangan bulat mikro-rupiah, bukan 0; yang negatif mengambil",
)
const Adjustment = exactly({
  amount_micro: Type.Integer({ minimum: -Number(largestMicro), maximum: Number(largestMicro), description: AMOUNT }),
  reason: Reason,
  idempotency_key: OnceKey,
  confirm_large: Type.Optional(Type.Boolean({ description: field("true or false", "true atau false") })),
})
const SearchQuery = Type.Object({
  ...pageQuery,
  query: Type.Optional(
    Type.RegExp(/^[^\p{Cc}]{1,254}$/u, {
      description: field(
        "at most 254 characters on one line: part of an e-mail address, the beginning of an account's id, a key's id or a key, or the whole id of a call or a top-up, or reference of a payment",
        "paling banyak 254 karakter dalam satu baris: sebagian alamat e-mail, awal ID akun, ID kunci, atau kunci, atau ID panggilan, ID isi saldo, atau rujukan pembayaran selengkapnya",
      ),
    }),
  ),
})

/** The words of a place in an account's ledger (`TransferPlace`). */
const NONE = "-"
const TRANSFER = /^(?:\d{1,18}|-)$/
const CALL = /^(?:req_[A-Za-z0-9]{1,40}|-)$/

const ACCOUNT_COLUMNS = Object.keys(accountShape.properties)
const TRANSFER_COLUMNS = Object.keys(TransferShape.properties)

export const operatorAccountsController = (deps: AccountsDeps) => {
  const { views, audit, adjustments, confirmAbove, accounts, keys, topUps, members, changeRole, authenticate } = deps
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
          summary: { en: "Accounts, the newest first", id: "Semua akun, dari yang terbaru" },
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
        "/operator/accounts/export.csv",
        {
          tag: "Operator",
          role: "support",
          summary: { en: "Accounts as CSV", id: "Semua akun, sebagai CSV" },
          query: Type.Object({ query: SearchQuery.properties.query, ...csvQuery }),
          media: "text/csv",
        },
        async ({ query: { query, lang }, operator }) => {
          await audit.exported(operator.act, { list: "accounts", filters: { query } })
          const words = query?.trim().normalize("NFC") || undefined
          return await csvFile<AccountView>({
            name: "loket-accounts",
            columns: ACCOUNT_COLUMNS,
            notation: lang,
            cells: (account) => jsonCells(ACCOUNT_COLUMNS)(accountJson(account)),
            read: ({ limit, after }) => views.search({ query: words, after: after?.id, limit }),
            most: MAX_EXPORTED,
          })
        },
      ),
    )
    .get(
      ...operators(
        "/operator/accounts/:id/transfers/export.csv",
        {
          tag: "Operator",
          role: "support",
          summary: { en: "An account's transfers as CSV", id: "Transaksi buku besar sebuah akun, sebagai CSV" },
          query: Type.Object(csvQuery),
          media: "text/csv",
        },
        async ({ params, query: { lang }, operator }) => {
          const account = await found(params.id)
          if (account instanceof Failure) return account
          await audit.exported(operator.act, { list: "transfers", accountId: account.id, filters: {} })
          return await csvFile<TransferRow>({
            name: "loket-transfers",
            columns: TRANSFER_COLUMNS,
            notation: lang,
            cells: (transfer) => jsonCells(TRANSFER_COLUMNS)(transferJson(transfer)),
            read: ({ limit, after }) => views.transfers(account.id, { before: after?.place, limit }),
            // Each page sums what is newer than it.
            page: 5_000,
            most: MAX_EXPORTED,
          })
        },
      ),
    )
    .get(
      ...operators(
        "/operator/accounts/:id",
        {
          tag: "Operator",
          role: "support",
          summary: { en: "One account with its keys and top-ups", id: "Satu akun dengan kunci dan isi saldonya" },
          answer: AccountDetail,
        },
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
          summary: { en: "The account's ledger, the newest first", id: "Buku besar akun, dari yang terbaru" },
          query: Type.Object(pageQuery),
          answer: pageOf(TransferShape),
        },
        async ({ params, query }) => {
          const page = readPage(query, [TRANSFER, CALL])
          if (page instanceof Failure) return page
          const account = await found(params.id)
          if (account instanceof Failure) return account
          const [transfer = NONE, call = NONE] = page.after ?? []
          const rows = await views.transfers(account.id, {
            before: {
              transfer: transfer === NONE ? undefined : BigInt(transfer),
              call: call === NONE ? undefined : call,
            },
            limit: page.limit + 1,
          })
          return pageJson(rows, page, {
            item: transferJson,
            placeOf: ({ place }) => [String(place.transfer ?? NONE), place.call ?? NONE],
          })
        },
      ),
    )
    .post(
      ...operators(
        "/operator/accounts/:id/adjustments",
        {
          tag: "Operator",
          role: "finance",
          summary: {
            en: "Give or take balance; once for each `idempotency_key`. At most what is free can be taken",
            id: "Tambah atau kurangi saldo; sekali untuk setiap `idempotency_key`. Paling banyak sebesar saldo yang bebas yang dapat diambil",
          },
          description: {
            en: "More than `confirm_above_micro` of the account (ADJUSTMENT_CONFIRM_RP) needs `confirm_large`; without it nothing is changed. The customer reads `reason` on the statement.",
            id: "Lebih dari `confirm_above_micro` akun (ADJUSTMENT_CONFIRM_RP) memerlukan `confirm_large`; tanpa itu tidak ada yang diubah. Pelanggan membaca `reason` di mutasinya.",
          },
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
          return { account_id: account.id, amount_micro: body.amount_micro, balance_micro: sumToJson(balance) }
        },
      ),
    )
    .post(
      ...operators(
        "/operator/accounts/:id/freeze",
        {
          tag: "Operator",
          role: "support",
          summary: {
            en: "No more calls by its keys, and no new ones",
            id: "Bekukan akun: kuncinya tidak lagi dilayani, dan kunci baru tidak dapat dibuat",
          },
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
        {
          tag: "Operator",
          role: "support",
          summary: { en: "Calls again", id: "Cairkan akun: kuncinya dilayani lagi" },
          body: WithReason,
          answer: accountShape,
        },
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
          summary: {
            en: "Make an account an operator's of this role, or a customer's again; its sessions end",
            id: "Jadikan akun milik operator dengan peran ini, atau pelanggan lagi; sesinya berakhir",
          },
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
