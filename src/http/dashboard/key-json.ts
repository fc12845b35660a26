/** API keys in answers: the schemas of a key, its use and its spending, and how they are written. */
import { type Static, Type } from "@sinclair/typebox"
import { larger, microToJson, sumToJson, zero } from "../../../actors/money/micro.ts"
import type { KeyView } from "../../../actors/key-record.ts"
import type { WindowView } from "../../../actors/window.ts"
import { ENDPOINTS } from "../../language/request.ts"
import type { KeyRecord } from "../../store/key-rows.ts"
import { described, field, flag, integer, micro as microShape, oneOf, orNull, text, time } from "../shapes.ts"
import { fallbackChoice, periods } from "./key-settings.ts"

export const keyShape = Type.Object(
  {
    id: text,
    name: text,
    prefix: text,
    last4: text,
    status: oneOf(["active", "expired", "revoked"]),
    requests_per_minute: orNull(integer),
    tokens_per_minute: orNull(integer),
    spending_limit_micro: orNull(microShape),
    spending_period: orNull(oneOf(periods)),
    fallback: described(
      fallbackChoice,
      field(
        "Which models of a chain may answer for the one that was asked for: `any`, only those none of whose four rates is above its (`never_dearer`, the default), or none (`off`).",
        "Model mana dalam rantai yang boleh menjawab menggantikan model yang diminta: semua (`any`), hanya yang tidak satu pun dari keempat tarifnya lebih tinggi (`never_dearer`, bawaan), atau tidak ada (`off`).",
      ),
    ),
    shows_balance: described(
      flag,
      field(
        "Whether `GET /v1/balance` answers whoever holds the key; never of a child.",
        "Apakah `GET /v1/balance` menjawab siapa pun yang memegang kunci ini; tidak pernah untuk kunci anak.",
      ),
    ),
    replays_retries: described(
      flag,
      field(
        "Whether a call that an SDK sends again by itself (`x-stainless-retry-count` of 1 or more, with the very same body) gets the answer of a call that is under way, or that ended within two minutes and whose answer did not come through. It costs nothing then.",
        "Apakah panggilan yang dikirim ulang sendiri oleh SDK (`x-stainless-retry-count` 1 atau lebih, dengan badan yang persis sama) mendapat jawaban panggilan yang sedang berjalan, atau yang berakhir dalam dua menit dan jawabannya tidak sampai. Jika ya, gratis.",
      ),
    ),
    parent_id: orNull(text, field("The key whose child it is.", "Kunci induknya.")),
    children: described(
      integer,
      field("Of a key: its children that were not revoked.", "Untuk kunci: anaknya yang belum dicabut."),
    ),
    breaker_ceiling_micro: orNull(
      microShape,
      field(
        "The most within ten minutes: `PUT /keys/{id}/breaker`.",
        "Paling banyak dalam sepuluh menit: `PUT /keys/{id}/breaker`.",
      ),
    ),
    breaker_action: oneOf(["warn", "stop"]),
    breaker_pause_minutes: orNull(integer),
    paused: orNull(
      Type.Object({ since: time, until: orNull(time, field("Null until it is resumed.", "Null sampai dilanjutkan.")) }),
      field(
        "It has come to its ceiling of ten minutes, and its calls are refused: `POST /keys/{id}/resume`.",
        "Kunci mencapai batas sepuluh menitnya, dan panggilannya ditolak: `POST /keys/{id}/resume`.",
      ),
    ),
    spent_micro: orNull(
      microShape,
      field(
        "Settled in the current period; null for a key without a spending limit.",
        "Dibukukan dalam periode berjalan; null untuk kunci tanpa batas pengeluaran.",
      ),
    ),
    created_at: time,
    revoked_at: orNull(time),
    last_used_at: orNull(
      time,
      field("When the last call came that was forwarded.", "Kapan panggilan terakhir yang diteruskan datang."),
    ),
    expires_at: orNull(
      time,
      field(
        "From when on it makes no calls; null for a key that does not expire.",
        "Sejak kapan kunci tidak dapat memanggil; null untuk kunci tanpa batas waktu.",
      ),
    ),
    models: orNull(
      Type.Array(text),
      field(
        "The models that it may use, by whichever way a call comes to them; null for all.",
        "Model yang boleh dipakainya, lewat jalan mana pun panggilan sampai ke sana; null untuk semua.",
      ),
    ),
    endpoints: orNull(
      Type.Array(oneOf(ENDPOINTS)),
      field("The wire formats that it may use; null for all.", "Format yang boleh dipakainya; null untuk semua."),
    ),
    networks: orNull(
      Type.Array(text),
      field(
        "From where it may be used (CIDR); null for everywhere.",
        "Dari mana kunci boleh dipakai (CIDR); null dari mana pun.",
      ),
    ),
    origins: orNull(
      Type.Array(text),
      field(
        "Of pages that may call with it from a browser; null for none. A call that comes from another page is refused.",
        "Dari halaman yang boleh memanggil dengannya dari peramban; null untuk tidak ada. Panggilan dari halaman lain ditolak.",
      ),
    ),
    max_rate_micro: orNull(
      microShape,
      field(
        "For one token: no rate of a model that it uses is above it, of the four in force when a call comes; null for any.",
        "Untuk satu token: tidak satu pun dari keempat tarif model yang dipakainya, yang berlaku saat panggilan datang, di atasnya; null untuk berapa pun.",
      ),
    ),
    previous_expires_at: orNull(
      time,
      field("Until when the secret before a rotation works.", "Sampai kapan rahasia sebelum rotasi berlaku."),
    ),
  },
  { $id: "Key" },
)
const window = orNull(Type.Object({ limit: integer, used: integer, resets_in_s: integer }))
/** What is used of each limit now. */
export const keyUsage = Type.Object(
  {
    requests: window,
    tokens: window,
    budget: orNull(
      Type.Object({
        limit_micro: integer,
        used_micro: described(
          microShape,
          field("With what calls under way hold of it.", "Termasuk yang ditahan panggilan yang sedang berjalan."),
        ),
        resets_at: orNull(text),
      }),
    ),
  },
  {
    description: field(
      "What is used of each limit now; of windows, what the process that answers has counted.",
      "Pemakaian setiap batas saat ini; untuk jendela, menurut hitungan proses yang menjawab.",
    ),
  },
)
export const KeyWithUsage = Type.Intersect([keyShape, Type.Object({ usage: keyUsage })])
const keySpending = Type.Object(
  {
    today_micro: microShape,
    month_micro: microShape,
    days_micro: described(
      Type.Array(integer),
      field("Of each of the days, today the last.", "Untuk setiap hari, yang terakhir hari ini."),
    ),
  },
  {
    description: field(
      "What was settled of the key and its children, by the account's calendar: where `days` is asked for.",
      "Yang dibukukan untuk kunci dan anaknya, menurut kalender akun: jika `days` diminta.",
    ),
  },
)
export const ListedKey = Type.Intersect([KeyWithUsage, Type.Object({ spending: Type.Optional(keySpending) })])
export const KeyWithSecret = Type.Intersect([KeyWithUsage, Type.Object({ key: text })])

/** For usage bars: what is used of each limit now, as far as this process knows. */
export function usageJson({ requestsPerMinute, tokensPerMinute, budget }: KeyRecord, view: KeyView | undefined) {
  return {
    requests: windowJson(requestsPerMinute, view?.requests),
    tokens: windowJson(tokensPerMinute, view?.tokens),
    budget:
      budget === undefined
        ? null
        : {
            limit_micro: microToJson(budget.limitMicro),
            used_micro: sumToJson(larger(budget.spentMicro, view?.budget?.usage ?? zero)),
            resets_at: budget.endsAt?.toISOString() ?? null,
          },
  }
}

export const spendingJson = ({ spending }: KeyRecord) =>
  spending === undefined
    ? {}
    : {
        spending: {
          today_micro: sumToJson(spending.todayMicro),
          month_micro: sumToJson(spending.monthMicro),
          days_micro: spending.daysMicro.map(sumToJson),
        },
      }

const windowJson = (limit: number | undefined, now: WindowView | undefined) =>
  limit === undefined
    ? null
    : { limit, used: now === undefined ? 0 : now.limit - now.remaining, resets_in_s: now?.resetS ?? 0 }

/** A child of a key that was revoked is so too. */
function keyStatus(key: KeyRecord): "active" | "expired" | "revoked" {
  const { revokedAt, isParentRevoked, expiresAt } = key
  if (revokedAt !== undefined || isParentRevoked) return "revoked"
  return expiresAt !== null && expiresAt.getTime() <= Date.now() ? "expired" : "active"
}

/** As a person is told it: the calls of one that is paused by its breaker are refused too. */
export function keyState(key: KeyRecord): ReturnType<typeof keyStatus> | "paused" {
  const status = keyStatus(key)
  return status === "active" && key.paused !== undefined ? "paused" : status
}

export const keyJson = (key: KeyRecord): Static<typeof keyShape> => ({
  id: key.id,
  name: key.name,
  prefix: key.prefix,
  last4: key.last4,
  status: keyStatus(key),
  requests_per_minute: key.requestsPerMinute ?? null,
  tokens_per_minute: key.tokensPerMinute ?? null,
  spending_limit_micro: key.budget === undefined ? null : microToJson(key.budget.limitMicro),
  spending_period: key.budget?.period ?? null,
  fallback: key.fallback,
  shows_balance: key.showsBalance,
  replays_retries: key.replaysRetries,
  breaker_ceiling_micro: key.breakerCeilingMicro === undefined ? null : microToJson(key.breakerCeilingMicro),
  breaker_action: key.breakerStops ? "stop" : "warn",
  breaker_pause_minutes: key.breakerPauseMinutes ?? null,
  parent_id: key.parentId ?? null,
  children: key.children,
  paused:
    key.paused === undefined
      ? null
      : { since: key.paused.since.toISOString(), until: key.paused.until?.toISOString() ?? null },
  spent_micro: key.budget === undefined ? null : sumToJson(key.budget.spentMicro),
  created_at: key.createdAt.toISOString(),
  last_used_at: key.lastUsedAt?.toISOString() ?? null,
  expires_at: key.expiresAt?.toISOString() ?? null,
  models: key.models && [...key.models],
  endpoints: key.endpoints && [...key.endpoints],
  networks: key.networks && [...key.networks],
  origins: key.origins && [...key.origins],
  max_rate_micro: key.maxRateMicro === null ? null : microToJson(key.maxRateMicro),
  previous_expires_at: key.previousExpiresAt?.toISOString() ?? null,
  revoked_at: key.revokedAt?.toISOString() ?? null,
})
