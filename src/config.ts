/**
 * The configuration: whatever an operator sets by the environment is read here. Times in milliseconds, sizes in bytes. A wrong value is told
 * with the variable's name, what was found and what is allowed, and nothing starts (decisions §9).
 */
import { availableParallelism } from "node:os"
import { type Static, type TSchema, Type } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"

const milliseconds = (fallback: number) => Type.Integer({ minimum: 1, maximum: 86_400_000, default: fallback })
const text = Type.String({ minLength: 1 })
/** The Indonesian tax office's number: its 15 digits as it writes them or bare, or the 16 of a newer one. */
export const NPWP = String.raw`^(?:\d{15,16}|\d{2}\.\d{3}\.\d{3}\.\d-\d{3}\.\d{3})$`

/** Variables that have a value when they are unset. */
const settings = {
  HOST: Type.String({ minLength: 1, default: "127.0.0.1" }),
  PORT: Type.Integer({ minimum: 0, maximum: 65_535, default: 8_787 }),
  REUSE_PORT: Type.Boolean({ default: false }),
  WORKERS: Type.String({
    pattern: "^(auto|[1-9]|[1-9]\\d|1\\d\\d|2[0-4]\\d|25[0-6])$",
    description: "auto, or a whole number from 1 to 256",
    default: "1",
  }),
  LOG_LEVEL: Type.Union([Type.Literal("debug"), Type.Literal("info"), Type.Literal("warn"), Type.Literal("error")], {
    default: "info",
  }),
  DATABASE_CONNECTIONS: Type.Integer({ minimum: 2, maximum: 500, default: 10 }),
  REDIS_PREFIX: Type.String({
    pattern: "^[A-Za-z0-9_.:-]{1,64}$",
    description: "1 to 64 letters, digits and characters of _.:-",
    default: "loket",
  }),
  DATA_DIR: Type.String({ minLength: 1, default: "./data" }),
  EMBEDDED_SYNC: Type.Boolean({ default: true }),
  SIGN_UPS_PER_HOUR: Type.Integer({ minimum: 1, maximum: 1_000_000, default: 60 }),
  SIGN_UPS_PER_DAY: Type.Integer({ minimum: 1, maximum: 1_000_000, default: 300 }),
  OPERATOR_SECOND_FACTOR: Type.Boolean({ default: true }),
  MAX_KEYS_PER_ACCOUNT: Type.Integer({ minimum: 1, maximum: 100_000, default: 200 }),
  MAX_BODY_BYTES: Type.Integer({ minimum: 1, maximum: 2 ** 31, default: 32 * 1024 * 1024 }),
  BODY_IDLE_TIMEOUT_MS: milliseconds(30_000),
  KEEP_ALIVE_MS: Type.Integer({ minimum: 4_000, maximum: 240_000, default: 60_000 }),
  MAX_CONCURRENCY: Type.Integer({ minimum: 1, maximum: 60_000, default: 4_096 }),
  CAPACITY_WAIT_MS: Type.Integer({ minimum: 0, maximum: 3_600_000, default: 5_000 }),
  HEARTBEAT_MS: milliseconds(8_000),
  SETTLE_DEADLINE_MS: milliseconds(10_000),
  UPSTREAM_START_TIMEOUT_MS: milliseconds(120_000),
  UPSTREAM_IDLE_TIMEOUT_MS: milliseconds(300_000),
  UPSTREAM_ANSWER_TIMEOUT_MS: milliseconds(7_200_000),
  DRAIN_LEFT_MS: milliseconds(1_800_000),
  DRAIN_MS: Type.Integer({ minimum: 0, maximum: 86_400_000, default: 120_000 }),
  PAYMENT_PROVIDER: Type.Union([Type.Literal("simulated"), Type.Literal("midtrans")], { default: "simulated" }),
  PAYMENT_SERVICE_FEE_BPS: Type.Integer({ minimum: 0, maximum: 10_000, default: 0 }),
  PAYMENT_SERVICE_FEE_RP: Type.Integer({ minimum: 0, maximum: 1_000_000, default: 0 }),
  PAYMENT_FEE_BPS: Type.Integer({ minimum: 0, maximum: 10_000, default: 0 }),
  PAYMENT_FEE_RP: Type.Integer({ minimum: 0, maximum: 1_000_000, default: 0 }),
  SELLER_PRICES_INCLUDE_VAT: Type.Boolean({ default: true }),
  ADJUSTMENT_CONFIRM_RP: Type.Integer({ minimum: 0, maximum: 1_000_000_000, default: 5_000_000 }),
  TRIAL_CREDIT_RP: Type.Integer({ minimum: 0, maximum: 1_000_000, default: 0 }),
  TRIAL_CREDITS_PER_NETWORK: Type.Integer({ minimum: 1, maximum: 100_000, default: 3 }),
  TRIAL_CREDITS_PER_DAY: Type.Integer({ minimum: 1, maximum: 100_000, default: 100 }),
  RECONCILE_HOUR: Type.Integer({ minimum: 0, maximum: 23, default: 20 }),
  EXCHANGE_RATES_EVERY_MS: Type.Integer({ minimum: 60_000, maximum: 7 * 86_400_000, default: 21_600_000 }),
  ERASE_DELETED_AFTER_DAYS: Type.Integer({ minimum: 0, maximum: 3_650, default: 30 }),
  RECONCILE_TOP_UP_DAYS: Type.Integer({ minimum: 0, maximum: 366, default: 7 }),
  MIDTRANS_BASE_URL: Type.String({
    pattern: "^https?://",
    description: "an address that begins with http:// or https://",
    default: "https://api.midtrans.com",
  }),
  OTEL_SDK_DISABLED: Type.Boolean({ default: false }),
  OTEL_EXPORTER_OTLP_PROTOCOL: Type.Union([Type.Literal("http/protobuf"), Type.Literal("http/json")], {
    default: "http/protobuf",
  }),
  OTEL_EXPORTER_OTLP_COMPRESSION: Type.Union([Type.Literal("none"), Type.Literal("gzip")], { default: "none" }),
  OTEL_EXPORTER_OTLP_TIMEOUT: milliseconds(10_000),
  OTEL_BSP_SCHEDULE_DELAY: milliseconds(5_000),
  OTEL_TRACES_SAMPLER: Type.Union(
    [
      Type.Literal("always_on"),
      Type.Literal("always_off"),
      Type.Literal("traceidratio"),
      Type.Literal("parentbased_always_on"),
      Type.Literal("parentbased_always_off"),
      Type.Literal("parentbased_traceidratio"),
    ],
    { default: "parentbased_always_on" },
  ),
  OTEL_TRACES_SAMPLER_ARG: Type.Number({ minimum: 0, maximum: 1, default: 1 }),
  OTEL_PROPAGATORS: Type.Union([Type.Literal("tracecontext"), Type.Literal("none")], { default: "tracecontext" }),
} as const satisfies Record<string, TSchema>

/** Variables that may be absent. */
const options = {
  MAX_UNREAD_BYTES: Type.Integer({ minimum: 65_536, maximum: 2 ** 40 }),
  BODY_MEMORY_BYTES: Type.Integer({ minimum: 1, maximum: 2 ** 40 }),
  METRICS_PORT: Type.Integer({ minimum: 0, maximum: 65_535 }),
  DATABASE_URL: Type.String({
    pattern: "^postgres(ql)?://",
    description: "an address that begins with postgres:// or postgresql://",
  }),
  REDIS_URL: Type.String({
    pattern: "^rediss?://([^/?#@\\s]*@)?[^/?#@\\s]+(/\\d{0,4})?$",
    description: "an address such as redis://user:password@host:6379, or rediss:// with TLS",
  }),
  SEARCH_URL: Type.String({ pattern: "^https?://", description: "an address that begins with http:// or https://" }),
  CATALOGUE_FILE: text,
  PROVIDERS_FILE: text,
  LEGAL_TEXTS_DIR: text,
  CLIENT_ADDRESS_HEADER: Type.String({
    pattern: "^[A-Za-z][A-Za-z0-9-]*$",
    description: "the name of a header, such as X-Forwarded-For",
  }),
  PAYMENT_SIMULATED_SECRET: Type.String(),
  MIDTRANS_SERVER_KEY: text,
  SELLER_NAME: Type.String({ minLength: 1, maxLength: 200, description: "a name of at most 200 characters" }),
  SELLER_ADDRESS: Type.String({ minLength: 1, maxLength: 500, description: "an address of at most 500 characters" }),
  SELLER_NPWP: Type.String({ pattern: NPWP, description: "an NPWP of 15 or 16 digits, such as 01.234.567.8-901.000" }),
  SELLER_VAT_BPS: Type.Integer({ minimum: 1, maximum: 10_000 }),
  SMTP_URL: Type.String({
    pattern: "^smtps?://([^/?#\\s]*@)?[^/?#@\\s]+/?(\\?[^#@\\s]*)?$",
    description: "an address that begins with smtp:// or smtps://, with %XX for / ? and # in its user or password",
  }),
  MAIL_FROM: Type.String({
    pattern: "^([^<>\\x00-\\x1f\\x7f]*<[^<>@\\s]+@[^<>@\\s]+>|[^<>@,;\\s]+@[^<>@,;\\s]+)$",
    description: "an address, or a name with one, as in Loket <no-reply@example.com>",
  }),
  PUBLIC_URL: Type.String({
    pattern: "^https?://[^/?#@\\s]+/?$",
    description: "the address at which people reach the dashboard, such as https://loket.example, without a path",
  }),
  EXCHANGE_RATES_FROM: Type.String({
    pattern: "^(https://[^\\s]+|/[^\\0]*)$",
    description: "an address that begins with https://, or the absolute path of a file",
  }),
  SUPPORT_CONTACT: Type.String({
    pattern: "^(https://\\S+|[^\\s@]+@[^\\s@]+)$",
    description: "an e-mail address, or an address that begins with https://",
  }),
  OTEL_EXPORTER_OTLP_ENDPOINT: Type.String({
    pattern: "^https?://[^/?#@\\s]+(/[^?#\\s]*)?$",
    description: "an address such as http://127.0.0.1:4318, without a user, a query and a fragment",
  }),
  OTEL_EXPORTER_OTLP_HEADERS: Type.String({
    description: "headers as name=value, with commas between them, and anything else in a value as %XX",
  }),
  OTEL_SERVICE_NAME: text,
  OTEL_RESOURCE_ATTRIBUTES: Type.String({
    description: "attributes as name=value, with commas between them, and anything else in a value as %XX",
  }),
} as const satisfies Record<string, TSchema>

export type Config = { readonly [Name in keyof typeof settings]: Static<(typeof settings)[Name]> } & {
  readonly [Name in keyof typeof options]: Static<(typeof options)[Name]> | undefined
} & {
  /** A variable that another file names, such as a provider's key. Empty counts as unset. */
  readonly secret: (name: string) => string | undefined
}

/** Of the largest body: one account alone may hold half of seven eighths (src/gateway/read-body.ts). */
const MIN_BODY_MEMORY = 16 / 7

/** The configuration, or one line for each wrong variable. */
export function readConfig(environment: Readonly<Record<string, string | undefined>>): Config | string[] {
  const secret = (name: string) => environment[name] || undefined
  const values: Record<string, unknown> = {}
  const problems: string[] = []
  for (const [name, schema] of Object.entries<TSchema>({ ...settings, ...options })) {
    const found = environment[name]
    // PAYMENT_SIMULATED_SECRET="" is as good as none, and so is any other variable that is set to nothing.
    const value = found === undefined || found === "" ? schema.default : parse(schema, found)
    if (value === undefined || (Value.Check(schema, value) && isReadable(name, value))) values[name] = value
    else problems.push(`${name} is ${JSON.stringify(shown(name, found ?? ""))}; allowed is ${allowed(schema)}`)
  }
  if (problems.length === 0 && values["SMTP_URL"] !== undefined && values["MAIL_FROM"] === undefined) {
    problems.push("MAIL_FROM is unset; SMTP_URL needs it, as in Loket <no-reply@example.com>")
  }
  if (problems.length === 0 && values["SELLER_VAT_BPS"] !== undefined && values["SELLER_NPWP"] === undefined) {
    problems.push("SELLER_NPWP is unset; SELLER_VAT_BPS needs it: only who is registered with the tax office takes VAT")
  }
  if (
    problems.length === 0 &&
    values["SELLER_NAME"] === undefined &&
    (values["SELLER_ADDRESS"] ?? values["SELLER_NPWP"]) !== undefined
  ) {
    problems.push("SELLER_NAME is unset; SELLER_ADDRESS and SELLER_NPWP need it")
  }
  if (
    problems.length === 0 &&
    values["TRIAL_CREDIT_RP"] !== 0 &&
    (values["SMTP_URL"] === undefined || values["PUBLIC_URL"] === undefined)
  ) {
    problems.push(
      "TRIAL_CREDIT_RP is set; it needs SMTP_URL and PUBLIC_URL: it is given once for an address that is proved, and without mail none is",
    )
  }
  const { MAX_BODY_BYTES: largest, BODY_MEMORY_BYTES: memory } = values
  if (typeof largest === "number" && typeof memory === "number" && memory < MIN_BODY_MEMORY * largest) {
    problems.push(`BODY_MEMORY_BYTES is ${memory}; it must be at least 16/7 of MAX_BODY_BYTES, which is ${largest}`)
  }
  if (problems.length === 0 && values["DATABASE_URL"] === undefined && workersOf(values as Pick<Config, "WORKERS">) > 1)
    problems.push("WORKERS is over 1 and DATABASE_URL is unset; the embedded database admits one process")
  problems.push(...unreadLists(values))
  if (problems.length > 0) return problems
  return { ...values, secret } as Config
}

/** Variables that are one address each. `DATABASE_URL` may name several servers (src/store/hosts.ts). */
const addresses: readonly string[] = [
  "REDIS_URL",
  "SEARCH_URL",
  "SMTP_URL",
  "PUBLIC_URL",
  "MIDTRANS_BASE_URL",
  "EXCHANGE_RATES_FROM",
  "OTEL_EXPORTER_OTLP_ENDPOINT",
]

/** What has the form of an address may still be none, such as with a port that there is not. */
const isReadable = (name: string, value: unknown): boolean =>
  !addresses.includes(name) || String(value).startsWith("/") || URL.canParse(String(value))

/** What stands in a list is not told: one may be a key. */
function unreadLists(values: Readonly<Record<string, unknown>>): string[] {
  return (["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_RESOURCE_ATTRIBUTES"] as const).flatMap((name) => {
    const list = values[name]
    return typeof list !== "string" || pairsOf(list, name === "OTEL_EXPORTER_OTLP_HEADERS") !== undefined
      ? []
      : [`${name} cannot be read; allowed is ${options[name].description}`]
  })
}

const PAIR = /^\s*([!#$%&'*+.^_`|~0-9A-Za-z/-]+)\s*=([\x20-\x7e]*)$/
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/

/** The pairs of a list in W3C Baggage's form without properties, as the OTLP exporter's specification has it; undefined when it is none. */
export function pairsOf(list: string, asHeaders: boolean): Readonly<Record<string, string>> | undefined {
  const pairs: Record<string, string> = {}
  for (const each of list.split(",")) {
    if (each.trim() === "") continue
    const [, name = "", written = ""] = PAIR.exec(each) ?? []
    const value = decoded(written.trim())
    if (name === "" || value === undefined || /\p{Cc}/u.test(value)) return undefined
    if (asHeaders && !(HEADER_NAME.test(name) && /^[\x20-\x7e]*$/.test(value))) return undefined
    pairs[name] = value
  }
  return pairs
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

function parse(schema: TSchema, found: string): unknown {
  if (schema.type === "integer") return /^\d{1,15}$/.test(found) ? Number(found) : found
  if (schema.type === "number") return /^(\d{1,15}(\.\d{1,15})?|\.\d{1,15})$/.test(found) ? Number(found) : found
  if (schema.type === "boolean") return found === "true" || (found === "false" ? false : found)
  return found
}

/** What was found, without what an address may hold of passwords and keys, or libpq's words for one: it goes to a terminal and into logs. */
const shown = (name: string, found: string): string =>
  found
    .replace(name === "MAIL_FROM" || name === "SUPPORT_CONTACT" ? /(\/\/).*@/s : /(\/\/|^(?!.*\/\/)).*@/s, "$1***@")
    .replace(/([?#]).*/s, "$1***")
    .replace(/\b(pass\w*|pwd)\s*=.*/is, "$1=***")

function allowed(schema: TSchema): string {
  if (schema.type === "integer") return `a whole number from ${schema.minimum} to ${schema.maximum}`
  if (schema.type === "number") return `a number from ${schema.minimum} to ${schema.maximum}`
  if (schema.type === "boolean") return "true, false"
  if (Array.isArray(schema.anyOf)) return schema.anyOf.map((choice: { const: string }) => choice.const).join(", ")
  return schema.description ?? "any text"
}

/** How many processes serve; `auto` is one for each core that this one may use. */
export const workersOf = ({ WORKERS }: Pick<Config, "WORKERS">): number =>
  WORKERS === "auto" ? Math.min(MAX_WORKERS, availableParallelism()) : Number(WORKERS)

const MAX_WORKERS = 256

/** Every variable that is read, but for those that other files name. */
export const variableNames: readonly string[] = Object.keys({ ...settings, ...options })

/** Binds a socket. Bun's own words tell neither that the host is wrong nor which port it was. */
export function bound<Bound>(
  name: "PORT" | "METRICS_PORT",
  config: Pick<Config, "HOST" | typeof name>,
  bind: () => Bound,
): Bound {
  try {
    return bind()
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new Error(`HOST and ${name}: ${config.HOST}:${config[name]} cannot be listened on (${why})`, { cause: error })
  }
}
