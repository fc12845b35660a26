/**
 * What an owner says of a key when it is made or changed: its limits, when it expires, what it is bound to, and the ceiling of ten
 * minutes, which an account has too.
 */
import { type Static, type TSchema, Type } from "@sinclair/typebox"
import { micro } from "../../../actors/money/micro.ts"
import { readNetwork, writeNetwork } from "../../../actors/network.ts"
import { type KeySettings, MAX_ORIGINS, readOrigin } from "../../accounts/keys.ts"
import { Failure } from "../../failure/failure.ts"
import { present } from "../../language/json.ts"
import { ENDPOINTS } from "../../language/request.ts"
import type { KeyChange as Change } from "../../store/api-keys.ts"
import type { Breaker } from "../../store/breakers.ts"
import { refused } from "../route.ts"
import { described, exactly, field, fieldAnd, flag, oneOf, orNull } from "../shapes.ts"

/** A longer list says less than no list. */
const MAX_MODELS = 64
const MAX_NETWORKS = 32

/** What turns the direction of text would turn around what is shown beside the name, too. */
export const Name = Type.RegExp(/^(?=.*\S)[^\p{Cc}\u202a-\u202e\u2066-\u2069]{1,100}$/u, {
  description: field(
    "a string of 1 to 100 characters on one line, without controls of the text's direction",
    "teks 1 sampai 100 karakter dalam satu baris, tanpa kendali arah teks",
  ),
})
const PerMinute = Type.Integer({
  minimum: 1,
  maximum: 2_147_483_647,
  description: field("an integer from 1 to 2,147,483,647", "bilangan bulat dari 1 sampai 2.147.483.647"),
})
const microOf = (description: string) => Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description })
export const periods = ["daily", "monthly", "total"] as const
const Period = oneOf(periods, field("'daily', 'monthly' or 'total'", "'daily', 'monthly', atau 'total'"))
/** Also what the header `X-Fallback` may say. */
export const fallbackChoice = oneOf(
  ["any", "never_dearer", "off"],
  field("'any', 'never_dearer' or 'off'", "'any', 'never_dearer', atau 'off'"),
)
const yesOrNo = described(flag, field("true or false", "true atau false"))

const limits = {
  requests_per_minute: PerMinute,
  tokens_per_minute: PerMinute,
  spending_limit_micro: microOf(
    field("an integer of micro-rupiah, 0 or more", "bilangan bulat mikro-rupiah, 0 atau lebih"),
  ),
  spending_period: Period,
}
const TIME = field("a time such as 2027-01-31T17:00:00Z", "waktu seperti 2027-01-31T17:00:00Z")
const FUTURE = fieldAnd(TIME, { en: " that is to come", id: " yang akan datang" })
const NETWORKS = field(
  `a list of 1 to ${MAX_NETWORKS} networks or addresses such as 203.0.113.0/24, 203.0.113.7 or 2001:db8::/32`,
  `daftar 1 sampai ${MAX_NETWORKS} jaringan atau alamat seperti 203.0.113.0/24, 203.0.113.7, atau 2001:db8::/32`,
)
const ORIGINS = field(
  `a list of 1 to ${MAX_ORIGINS} origins: https, or http on one's own machine, and a host, without a path`,
  `daftar 1 sampai ${MAX_ORIGINS} origin: https, atau http di mesin sendiri, dan sebuah host, tanpa jalur`,
)
const AN_ORIGIN = "https://app.example.com or http://localhost:5173"
const bounds = {
  expires_at: Type.String({ maxLength: 40, description: TIME }),
  models: Type.Array(Type.RegExp(/^[^\p{Cc}]{1,200}$/u), {
    minItems: 1,
    maxItems: MAX_MODELS,
    description: field(`a list of 1 to ${MAX_MODELS} models' ids`, `daftar 1 sampai ${MAX_MODELS} id model`),
  }),
  endpoints: Type.Array(oneOf(ENDPOINTS), {
    minItems: 1,
    maxItems: ENDPOINTS.length,
    description: field(
      `a list of ${ENDPOINTS.join(", ")}: one or more of them`,
      `daftar dari ${ENDPOINTS.join(", ")}: satu atau lebih`,
    ),
  }),
  networks: Type.Array(Type.String({ maxLength: 50 }), { minItems: 1, maxItems: MAX_NETWORKS, description: NETWORKS }),
  origins: Type.Array(Type.String({ maxLength: 300 }), { minItems: 1, maxItems: MAX_ORIGINS, description: ORIGINS }),
  max_rate_micro: microOf(
    field(
      "an integer of micro-rupiah for a token, 0 or more",
      "bilangan bulat mikro-rupiah untuk satu token, 0 atau lebih",
    ),
  ),
}

export const NewKey = exactly({
  name: Name,
  ...Type.Partial(Type.Object({ ...limits, ...bounds, expires_at: described(bounds.expires_at, FUTURE) })).properties,
  fallback: Type.Optional(fallbackChoice),
  shows_balance: Type.Optional(yesOrNo),
  replays_retries: Type.Optional(yesOrNo),
})

/** In a change null is a value: it removes. */
const removable = <T extends TSchema>(schema: T) =>
  Type.Optional(
    orNull(schema, fieldAnd(schema.description, { en: ", or null for none", id: ", atau null untuk tidak ada" })),
  )
export const KeyChange = exactly({
  name: Type.Optional(Name),
  requests_per_minute: removable(limits.requests_per_minute),
  tokens_per_minute: removable(limits.tokens_per_minute),
  spending_limit_micro: removable(limits.spending_limit_micro),
  spending_period: removable(limits.spending_period),
  expires_at: removable(bounds.expires_at),
  models: removable(bounds.models),
  endpoints: removable(bounds.endpoints),
  networks: removable(bounds.networks),
  origins: removable(bounds.origins),
  max_rate_micro: removable(bounds.max_rate_micro),
  fallback: Type.Optional(fallbackChoice),
  shows_balance: Type.Optional(yesOrNo),
  replays_retries: Type.Optional(yesOrNo),
})

/** A key that has expired when it is made is a mistake; to one that is there any time may be given. */
export function toWishes(body: Static<typeof NewKey>, nowMs: number): KeySettings | Failure {
  const change = toChange(body)
  if (change instanceof Failure) return change
  const {
    expiresAt = null,
    models = null,
    endpoints = null,
    networks = null,
    origins = null,
    maxRateMicro = null,
  } = change
  if (expiresAt !== null && expiresAt.getTime() <= nowMs) return refused("expires_at", FUTURE)
  return {
    name: body.name,
    requestsPerMinute: body.requests_per_minute,
    tokensPerMinute: body.tokens_per_minute,
    spendingLimitMicro: change.spendingLimitMicro ?? undefined,
    spendingPeriod: body.spending_period,
    fallback: body.fallback,
    showsBalance: body.shows_balance,
    replaysRetries: body.replays_retries,
    expiresAt,
    models,
    endpoints,
    networks,
    origins,
    maxRateMicro,
  }
}

export function toChange(body: Static<typeof KeyChange>): Change | Failure {
  const expiresAt = present(body.expires_at)
    ? (timeFrom(body.expires_at) ?? refused("expires_at", TIME))
    : body.expires_at
  if (expiresAt instanceof Failure) return expiresAt
  const networks = present(body.networks) ? networksOf(body.networks) : body.networks
  if (networks instanceof Failure) return networks
  const origins = present(body.origins) ? originsOf(body.origins) : body.origins
  if (origins instanceof Failure) return origins
  return {
    name: body.name,
    requestsPerMinute: body.requests_per_minute,
    tokensPerMinute: body.tokens_per_minute,
    spendingLimitMicro: microFrom(body.spending_limit_micro),
    spendingPeriod: body.spending_period,
    fallback: body.fallback,
    showsBalance: body.shows_balance,
    replaysRetries: body.replays_retries,
    expiresAt,
    models: present(body.models) ? [...new Set(body.models)] : body.models,
    endpoints: present(body.endpoints) ? ENDPOINTS.filter((known) => body.endpoints?.includes(known)) : body.endpoints,
    networks,
    origins,
    maxRateMicro: microFrom(body.max_rate_micro),
  }
}

const microFrom = (value: number | null | undefined) => (present(value) ? micro(BigInt(value)) : value)

/** As late as anything that reads ISO 8601 can write. */
const LATEST_MS = Date.parse("9999-12-31T23:59:59.999Z")

/** Undefined for what is no instant: a day that no month has, or a time without an offset, which is another one in each zone. */
export function timeFrom(text: string): Date | undefined {
  try {
    const ms = Temporal.Instant.from(text).epochMilliseconds
    return ms > 0 && ms <= LATEST_MS ? new Date(ms) : undefined
  } catch {
    return undefined
  }
}

/** As browsers write them, each once. */
function originsOf(texts: readonly string[]): readonly string[] | Failure {
  const written = new Set<string>()
  for (const text of texts) {
    const origin = readOrigin(text.trim())
    if (origin === undefined)
      return refused("origins", `${ORIGINS}, such as ${AN_ORIGIN}; ${JSON.stringify(text)} is none`)
    written.add(origin)
  }
  return [...written]
}

/** Each written in one way, and once. */
function networksOf(texts: readonly string[]): readonly string[] | Failure {
  const written = new Set<string>()
  for (const text of texts) {
    const network = readNetwork(text.trim())
    if (network === undefined) return refused("networks", `${NETWORKS}; ${JSON.stringify(text)} is none`)
    written.add(writeNetwork(network))
  }
  return [...written]
}

const Ceiling = Type.Integer({
  minimum: 1,
  maximum: Number.MAX_SAFE_INTEGER,
  description: field("an integer of micro-rupiah, 1 or more", "bilangan bulat mikro-rupiah, 1 atau lebih"),
})
export const PauseMinutes = Type.Integer({
  minimum: 1,
  maximum: 10_080,
  description: field("an integer of minutes from 1 to 10,080", "bilangan bulat menit dari 1 sampai 10.080"),
})
const breakerAction = oneOf(
  ["warn", "stop"],
  field(
    "'warn' or 'stop': a warning, or 403 `quota.key_paused` from the ceiling on, before it is passed",
    "'warn' atau 'stop': peringatan, atau 403 `quota.key_paused` sejak batasnya, sebelum terlampaui",
  ),
)
export const breakerFields = {
  ceiling_micro: orNull(
    Ceiling,
    fieldAnd(Ceiling.description, {
      en: ", or null for none: within any ten minutes",
      id: ", atau null untuk tidak ada: dalam sepuluh menit mana pun",
    }),
  ),
  action: Type.Optional(breakerAction),
  pause_minutes: Type.Optional(
    orNull(
      PauseMinutes,
      fieldAnd(PauseMinutes.description, {
        en: ", or null: after how long a stop is over by itself",
        id: ", atau null: setelah berapa lama penghentian berakhir sendiri",
      }),
    ),
  ),
}
export const KeyBreaker = exactly(breakerFields)

/** Without an action it warns. */
export const toBreaker = ({
  ceiling_micro: ceiling,
  action,
  pause_minutes: minutes,
}: Static<typeof KeyBreaker>): Breaker => ({
  ceilingMicro: ceiling === null ? undefined : micro(BigInt(ceiling)),
  stops: action === "stop",
  pauseMinutes: minutes ?? undefined,
})

/** What an owner says of a key that is made, and not of a child: its ceiling of ten minutes too. */
export const NewOwnKey = exactly({
  ...NewKey.properties,
  breaker_ceiling_micro: Type.Optional(
    described(
      Ceiling,
      fieldAnd(Ceiling.description, { en: ": within any ten minutes", id: ": dalam sepuluh menit mana pun" }),
    ),
  ),
  breaker_action: Type.Optional(breakerAction),
  breaker_pause_minutes: Type.Optional(
    described(
      PauseMinutes,
      fieldAnd(PauseMinutes.description, {
        en: ": after how long a stop is over by itself",
        id: ": setelah berapa lama penghentian berakhir sendiri",
      }),
    ),
  ),
})

/** Undefined where none is asked for. What says how to stop without saying when is a mistake. */
export function newBreaker(body: Static<typeof NewOwnKey>): Breaker | Failure | undefined {
  const { breaker_ceiling_micro: ceiling, breaker_action: action, breaker_pause_minutes: minutes } = body
  if (ceiling !== undefined) {
    return toBreaker({ ceiling_micro: ceiling, ...(action && { action }), ...(minutes && { pause_minutes: minutes }) })
  }
  if (action === undefined && minutes === undefined) return undefined
  const lone = action === undefined ? "breaker_pause_minutes" : "breaker_action"
  return new Failure("request.invalid", { message: `'${lone}' needs a 'breaker_ceiling_micro'.` })
}
