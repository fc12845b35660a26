/** An account as its own person sees it. */
import { type Static, Type } from "@sinclair/typebox"
import { microToJson, sumToJson } from "../../../actors/money/micro.ts"
import {
  AgreedVersion,
  BuyerAddress,
  BuyerName,
  Email,
  NewPassword,
  Npwp,
  SomeEmail,
  TimeZone,
} from "../../accounts/fields.ts"
import { permissions } from "../../accounts/members.ts"
import { Failure } from "../../failure/failure.ts"
import type { Account } from "../../store/accounts.ts"
import { memberRoles } from "../../store/account-settings.ts"
import { operatorRoles } from "../../store/operator/role.ts"
import { described, field, flag, micro as microShape, oneOf, orNull, text, time } from "../shapes.ts"

/** What people type is described where it is checked, in English, for refusals. */
for (const [{ description = "" }, indonesian] of [
  [Email, "alamat e-mail paling banyak 254 karakter"],
  [SomeEmail, "teks paling banyak 254 karakter dalam satu baris"],
  [NewPassword, "teks 10 sampai 256 karakter"],
  [AgreedVersion, "versi ketentuan yang berlaku, seperti disebut `GET /about`"],
  [BuyerName, "nama 1 sampai 200 karakter dalam satu baris, tanpa kendali arah teks"],
  [BuyerAddress, "alamat paling banyak 500 karakter dan 6 baris, tanpa kendali arah teks"],
  [Npwp, "NPWP 15 atau 16 angka, seperti 01.234.567.8-901.000"],
  [TimeZone, "zona waktu IANA seperti Asia/Jakarta"],
] as const)
  field(description, indonesian)

export const accountShape = Type.Object(
  {
    id: text,
    email: text,
    email_proved: described(
      flag,
      field(
        "False where a mail has asked for a proof that it reaches the owner, and has none yet.",
        "False jika e-mail sudah meminta bukti bahwa alamatnya sampai ke pemilik, dan buktinya belum ada.",
      ),
    ),
    role: oneOf(
      ["customer", "operator"],
      field(
        "Of whoever is signed in: operators also have the routes of `/operator`.",
        "Milik yang masuk: operator juga mempunyai alamat di bawah `/operator`.",
      ),
    ),
    operator_role: orNull(
      oneOf(operatorRoles),
      field(
        "What an operator may do; each may do what those before it may.",
        "Apa yang boleh dilakukan operator; masing-masing boleh melakukan yang boleh dilakukan peran sebelumnya.",
      ),
    ),
    member_role: oneOf(
      memberRoles,
      field(
        "What whoever is signed in may do with this account; its own person is its owner.",
        "Apa yang boleh dilakukan yang masuk dengan akun ini; pemilik akun adalah `owner`.",
      ),
    ),
    may: described(
      Type.Array(oneOf(permissions)),
      field(
        "What that role allows, as the routes' documentation has it.",
        "Yang diizinkan peran itu, seperti dalam dokumentasi alamatnya.",
      ),
    ),
    signed_in: described(
      Type.Object({ id: text, email: text, language: oneOf(["id", "en"]) }),
      field(
        "The account of whoever is signed in: this one, or that of a member of it.",
        "Akun milik yang masuk: akun ini, atau akun seorang anggotanya.",
      ),
    ),
    seen: described(
      orNull(Type.Object({ until: time })),
      field(
        "Where an operator sees the account as its customer does: until when. Null for everybody else.",
        "Jika operator melihat akun seperti pelanggannya: sampai kapan. Null untuk yang lain.",
      ),
    ),
    balance_micro: microShape,
    held_micro: described(
      microShape,
      field(
        "Held for calls under way; what can be spent is the difference.",
        "Ditahan untuk panggilan yang sedang berjalan; yang dapat dipakai adalah selisihnya.",
      ),
    ),
    claim_micro: described(
      microShape,
      field(
        "Owed for payments that were taken back and were spent already. It is settled first from whatever comes next.",
        "Utang untuk pembayaran yang ditarik kembali padahal sudah terpakai. Dilunasi lebih dulu dari apa pun yang masuk.",
      ),
    ),
    time_zone: text,
    language: oneOf(["id", "en"]),
    low_balance_email: orNull(text),
    low_balance_threshold_micro: orNull(
      microShape,
      field(
        "A mail is sent, and an event posted to the webhook, when the balance falls below it.",
        "E-mail dan peristiwa webhook dikirim jika saldo turun di bawahnya.",
      ),
    ),
    budget_mails: described(
      flag,
      field(
        "Mails go to the same address when a key has spent 50, 80 and 100 percent of its budget.",
        "E-mail dikirim ke alamat yang sama jika kunci memakai 50, 80, dan 100 persen anggarannya.",
      ),
    ),
    buyer_name: orNull(
      text,
      field(
        "To whom its receipts and statements are made out; the e-mail address where there is none. Not shown to developers.",
        "Atas nama siapa kuitansi dan mutasi dibuat; alamat e-mail jika tidak ada. Tidak ditampilkan kepada developer.",
      ),
    ),
    buyer_address: orNull(text),
    buyer_npwp: orNull(
      text,
      field("The tax office's number: 15 or 16 digits.", "Nomor dari kantor pajak: 15 atau 16 angka."),
    ),
    frozen: described(
      flag,
      field(
        "Its keys are refused until an operator has looked at it.",
        "Kuncinya ditolak sampai operator memeriksanya.",
      ),
    ),
    agreed_version: orNull(
      text,
      field(
        "Of the terms, privacy and refund texts that its owner agreed to; the one in force is `legal_version` of `GET /about`.",
        "Dari ketentuan, kebijakan privasi, dan ketentuan pengembalian dana yang disetujui pemiliknya; yang berlaku adalah `legal_version` di `GET /about`.",
      ),
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
  seen: null,
  balance_micro: sumToJson(account.balanceMicro),
  held_micro: sumToJson(account.heldMicro),
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

/** A `balance` event. */
export interface LiveBalance {
  readonly account_id: string
  readonly balance_micro: number
  readonly held_micro: number
}

export const liveBalance = ({ id, balanceMicro, heldMicro }: Account): LiveBalance => ({
  account_id: id,
  balance_micro: sumToJson(balanceMicro),
  held_micro: sumToJson(heldMicro),
})
