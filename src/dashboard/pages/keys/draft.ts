/** A key's name and limits, from the form's text fields to the API's bodies and back. An empty field means no limit. */
import type { BreakerSettings } from "../../components/spending.tsx"
import type { ApiKey } from "../../api/queries.ts"
import { amountText, parseRupiah, parseWhole, typedLine } from "../../i18n/figures.ts"
import { type CallFormat, callFormats } from "../../components/values.tsx"
import type { Language } from "../../i18n/language.tsx"

export const periods = ["daily", "monthly", "total"] as const
type Period = (typeof periods)[number]

export const fallbacks = ["never_dearer", "any", "off"] as const
type Fallback = (typeof fallbacks)[number]

/** What the form's fields contain, as text. */
export interface KeyDraft {
  readonly name: string
  readonly spendingLimit: string
  readonly period: Period
  readonly requestsPerMinute: string
  readonly tokensPerMinute: string
  readonly fallback: Fallback
  readonly showsBalance: boolean
  readonly replaysRetries: boolean
  /** ISO 8601, so that a time which nobody touches stays what it is; null for a key that does not expire. */
  readonly expiresAt: string | null
  /** Null for all. */
  readonly models: readonly string[] | null
  readonly endpoints: readonly CallFormat[]
  /** One in each line. */
  readonly networks: string
  /** One a line. */
  readonly origins: string
  /** Rupiah for a million tokens. */
  readonly maxRate: string
}

export interface KeySettings {
  readonly name: string
  readonly spending_limit_micro: number | null
  readonly spending_period: Period | null
  readonly requests_per_minute: number | null
  readonly tokens_per_minute: number | null
  readonly fallback: Fallback
  readonly shows_balance: boolean
  readonly replays_retries: boolean
  readonly expires_at: string | null
  readonly models: string[] | null
  readonly endpoints: CallFormat[] | null
  readonly networks: string[] | null
  readonly origins: string[] | null
  readonly max_rate_micro: number | null
}

export type WrongField =
  | "name"
  | "amount"
  | "too-much"
  | "requests"
  | "tokens"
  | "models"
  | "endpoints"
  | "networks"
  | "origins"
  | "rate"

/** As the API checks it. */
const NAME = /^[^\p{Cc}]{1,100}$/u
/** The API's largest integer is 2^53 − 1 micro-rupiah, a little more. */
const MAX_MICRO = 9_000_000_000n * 1_000_000n
const MAX_PER_MINUTE = 2_147_483_647
const MAX_MODELS = 64
const MAX_NETWORKS = 32
const MAX_ORIGINS = 16

export const emptyDraft: KeyDraft = {
  name: "",
  spendingLimit: "",
  period: "monthly",
  requestsPerMinute: "",
  tokensPerMinute: "",
  fallback: "never_dearer",
  showsBalance: true,
  replaysRetries: true,
  expiresAt: null,
  models: null,
  endpoints: callFormats,
  networks: "",
  origins: "",
  maxRate: "",
}

/** The fields of an existing key, before anything is edited. */
export function draftOf(key: ApiKey, language: Language): KeyDraft {
  const limit = key.spending_limit_micro
  return {
    name: key.name,
    spendingLimit: limit === null ? "" : amountText(BigInt(limit), language),
    period: key.spending_period ?? "monthly",
    requestsPerMinute: writtenWhole(key.requests_per_minute, language),
    tokensPerMinute: writtenWhole(key.tokens_per_minute, language),
    fallback: key.fallback,
    showsBalance: key.shows_balance,
    replaysRetries: key.replays_retries,
    expiresAt: key.expires_at,
    models: key.models,
    endpoints: key.endpoints ?? callFormats,
    networks: key.networks?.join("\n") ?? "",
    origins: key.origins?.join("\n") ?? "",
    maxRate: writtenWhole(key.max_rate_micro, language),
  }
}

export const writtenWhole = (value: number | null, language: Language): string =>
  value === null ? "" : amountText(BigInt(value) * 1_000_000n, language)

const linesOf = (text: string): string[] =>
  text
    .split(/[\n,]/)
    .map((line) => line.trim())
    .filter((line) => line !== "")

/** The body to send, or which fields are wrong. */
export function readDraft(draft: KeyDraft, language: Language): KeySettings | ReadonlySet<WrongField> {
  const name = typedLine(draft.name)
  const limit = draft.spendingLimit.trim() === "" ? null : parseRupiah(draft.spendingLimit, language)
  const requests = perMinute(draft.requestsPerMinute, language)
  const tokens = perMinute(draft.tokensPerMinute, language)
  const rate = draft.maxRate.trim() === "" ? null : parseWhole(draft.maxRate, language)
  const networks = linesOf(draft.networks)
  const origins = linesOf(draft.origins)
  const { models } = draft
  const wrong = new Set<WrongField>()
  if (!NAME.test(name)) wrong.add("name")
  if (limit === undefined) wrong.add("amount")
  else if (limit !== null && limit > MAX_MICRO) wrong.add("too-much")
  if (requests === undefined) wrong.add("requests")
  if (tokens === undefined) wrong.add("tokens")
  if (models !== null && (models.length === 0 || models.length > MAX_MODELS)) wrong.add("models")
  if (draft.endpoints.length === 0) wrong.add("endpoints")
  if (networks.length > MAX_NETWORKS) wrong.add("networks")
  if (origins.length > MAX_ORIGINS) wrong.add("origins")
  if (rate === undefined) wrong.add("rate")
  if (wrong.size > 0 || limit === undefined || requests === undefined || tokens === undefined || rate === undefined)
    return wrong
  return {
    name,
    spending_limit_micro: limit === null ? null : Number(limit),
    spending_period: limit === null ? null : draft.period,
    requests_per_minute: requests,
    tokens_per_minute: tokens,
    fallback: draft.fallback,
    shows_balance: draft.showsBalance,
    replays_retries: draft.replaysRetries,
    expires_at: draft.expiresAt,
    models: models && [...models],
    endpoints: draft.endpoints.length === callFormats.length ? null : [...draft.endpoints],
    networks: networks.length === 0 ? null : networks,
    origins: origins.length === 0 ? null : origins,
    max_rate_micro: rate,
  }
}

/** What of it was edited: the rest may have been changed elsewhere meanwhile, and stays as it is there. */
export function editsOf(settings: KeySettings, key: ApiKey, language: Language): Partial<KeySettings> {
  const before = readDraft(draftOf(key, language), language)
  if (!("name" in before)) return settings
  const isSame = (name: keyof KeySettings) => JSON.stringify(settings[name]) === JSON.stringify(before[name])
  const names = Object.keys(settings) as readonly (keyof KeySettings)[]
  return Object.fromEntries(names.filter((name) => !isSame(name)).map((name) => [name, settings[name]]))
}

function perMinute(text: string, language: Language): number | null | undefined {
  if (text.trim() === "") return null
  const value = parseWhole(text, language)
  return value === undefined || value < 1 || value > MAX_PER_MINUTE ? undefined : value
}

/** The body of a creation, where limits that are not set are left out. */
export const creationBody = (
  { name, fallback, shows_balance, replays_retries, ...limits }: KeySettings,
  breaker?: BreakerSettings,
) => ({
  name,
  fallback,
  shows_balance,
  replays_retries,
  ...(Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== null)) as SetLimits),
  ...(breaker !== undefined && breaker.ceiling_micro !== null && ceilingOf(breaker, breaker.ceiling_micro)),
})
const ceilingOf = ({ action, pause_minutes: minutes }: BreakerSettings, ceiling: number) => ({
  breaker_ceiling_micro: ceiling,
  breaker_action: action,
  ...(action === "stop" && minutes !== null && { breaker_pause_minutes: minutes }),
})
type Limits = Omit<KeySettings, "name" | "fallback" | "shows_balance" | "replays_retries">
type SetLimits = { readonly [Name in keyof Limits]?: NonNullable<Limits[Name]> }
