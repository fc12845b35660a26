/** Accounts and transfers in the answers to operators: their schemas, and how they are written. */
import { Type } from "@sinclair/typebox"
import { microToJson, minus, sumToJson } from "../../../actors/money/micro.ts"
import { Failure } from "../../failure/failure.ts"
import type { AccountView, TransferRow } from "../../store/operator/accounts.ts"
import { operatorRoles } from "../../store/operator/role.ts"
import { memberShape } from "../dashboard/members.ts"
import { keyShape } from "../dashboard/key-json.ts"
import { topUpShape } from "../dashboard/top-ups.ts"
import { described, field, flag, integer, micro as microShape, oneOf, orNull, text, time } from "../shapes.ts"

export const accountShape = Type.Object(
  {
    id: text,
    email: text,
    role: oneOf(["customer", "operator"]),
    operator_role: orNull(oneOf(operatorRoles), field("Null for a customer.", "Null untuk pelanggan.")),
    time_zone: text,
    balance_micro: microShape,
    held_micro: described(
      microShape,
      field("Held for calls under way.", "Ditahan untuk panggilan yang sedang berjalan."),
    ),
    leased_micro: described(
      microShape,
      field(
        "What gateway processes may spend without asking, what is held included.",
        "Yang boleh dipakai proses gateway tanpa bertanya, termasuk yang ditahan.",
      ),
    ),
    unleased_micro: microShape,
    claim_micro: described(
      microShape,
      field(
        "What the account owes for payments that were taken back; settled before anything else.",
        "Utang akun untuk pembayaran yang ditarik kembali; dilunasi sebelum yang lain.",
      ),
    ),
    key_count: integer,
    active_key_count: described(integer, field("Those that are not revoked.", "Yang tidak dicabut.")),
    created_at: time,
    deleted_at: orNull(time),
    frozen: flag,
    frozen_at: orNull(time),
    frozen_reason: orNull(text),
    paused_at: orNull(
      time,
      field(
        "It has come to its owner's ceiling for all keys together, and its calls are refused.",
        "Batas pemiliknya untuk semua kunci bersama tercapai, dan panggilannya ditolak.",
      ),
    ),
    paused_until: orNull(time, field("Null until its owner resumes it.", "Null sampai pemiliknya melanjutkannya.")),
  },
  { $id: "OperatorAccount" },
)
export const AccountDetail = Type.Intersect([
  accountShape,
  Type.Object({
    keys: described(
      Type.Array(keyShape),
      field(
        "At most 100 of `key_count`: those that work, and then the latest of the revoked. `…/keys` has all.",
        "Paling banyak 100 dari `key_count`: yang berlaku, lalu yang terakhir dicabut. `…/keys` memuat semuanya.",
      ),
    ),
    top_ups: Type.Array(topUpShape),
    members: Type.Array(memberShape),
    confirm_above_micro: described(
      microShape,
      field(
        "An adjustment of more than this, either way, needs `confirm_large`.",
        "Penyesuaian lebih dari ini, ke arah mana pun, memerlukan `confirm_large`.",
      ),
    ),
  }),
])
export const TransferShape = Type.Object({
  id: described(text, field("Of a call's charge its request id.", "Untuk biaya panggilan: id permintaannya.")),
  created_at: time,
  amount_micro: described(microShape, field("What came is positive.", "Yang masuk bernilai positif.")),
  balance_micro: described(microShape, field("After this transfer.", "Setelah transaksi ini.")),
  counterpart: text,
  reason: text,
  for: described(
    text,
    field(
      "A call's request id, a top-up's reference, an adjustment's key.",
      "Id permintaan sebuah panggilan, rujukan isi saldo, atau kunci penyesuaian.",
    ),
  ),
  note: orNull(text),
})

export const shown = (account: AccountView | Failure) => (account instanceof Failure ? account : accountJson(account))

export const accountJson = (account: AccountView) => ({
  id: account.id,
  email: account.email,
  role: account.role,
  operator_role: account.operatorRole ?? null,
  time_zone: account.timeZone,
  balance_micro: sumToJson(account.balanceMicro),
  held_micro: sumToJson(account.heldMicro),
  leased_micro: sumToJson(account.leasedMicro),
  unleased_micro: sumToJson(minus(account.balanceMicro, account.leasedMicro)),
  claim_micro: sumToJson(account.claimMicro),
  key_count: account.keys,
  active_key_count: account.activeKeys,
  created_at: account.createdAt.toISOString(),
  deleted_at: account.deletedAt?.toISOString() ?? null,
  frozen: account.frozen !== undefined,
  frozen_at: account.frozen?.at.toISOString() ?? null,
  frozen_reason: account.frozen?.reason ?? null,
  paused_at: account.paused?.since.toISOString() ?? null,
  paused_until: account.paused?.until?.toISOString() ?? null,
})

/** `for` is what a transfer belongs to: a call's request id, a top-up's reference, an adjustment's key. */
export const transferJson = (transfer: TransferRow) => ({
  id: transfer.id,
  created_at: transfer.at.toISOString(),
  amount_micro: microToJson(transfer.amountMicro),
  balance_micro: sumToJson(transfer.balanceMicro),
  counterpart: transfer.counterpart,
  reason: transfer.reason,
  for: transfer.idempotencyKey.slice(transfer.idempotencyKey.lastIndexOf(":") + 1),
  note: transfer.note ?? null,
})
