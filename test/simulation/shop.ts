/** What every simulated world has: a small catalogue, accounts with little money, and their keys. Micro-rupiah. */
import type { Rates } from "../../actors/money/price.ts"
import { type Micro, micro } from "../../actors/money/micro.ts"
import type { SpendingPeriod } from "../../actors/period.ts"
import { hashApiKey } from "../../src/accounts/bearer-tokens.ts"
import { type Model, soleCredential, type Upstream } from "../../src/catalogue/model.ts"
import type { Translated } from "../../src/language/request.ts"
import type { Backend, Backends } from "../../src/upstream/providers.ts"

/** A backend of a model that has several, in the model's own name. */
const upstream = (id: string, format: Translated, more: Partial<Upstream> = {}): Upstream => ({
  provider: "first",
  format,
  model: `${id}-backend`,
  priority: 0,
  weight: 1,
  ...more,
})

const model = (id: string, format: Translated, endpoints: readonly Translated[], more: Partial<Model> = {}): Model => ({
  id,
  displayName: id,
  tier: "any",
  provider: "any",
  modality: "text",
  supportsVision: false,
  supportsTools: true,
  contextWindow: 4_000,
  maxOutputTokens: 256,
  endpoints: new Set(endpoints),
  upstreams: [upstream(id, format)],
  maxConcurrency: 8,
  fallback: [],
  strip: [],
  pass: [],
  unsupported: [],
  features: [],
  gather: true,
  createdAt: new Date(0),
  ...more,
})

export const models: readonly Model[] = [
  model("sonnet", "messages", ["chat", "messages"], {
    features: ["web_search"],
    fallback: ["small"],
    upstreams: [upstream("sonnet", "messages"), upstream("sonnet", "messages", { provider: "second", weight: 2 })],
  }),
  model("small", "chat", ["chat", "messages"], {
    contextWindow: 400,
    maxConcurrency: 2,
    fallback: ["sonnet", "wide"],
    upstreams: [
      upstream("small", "chat", { priority: 1, maxConcurrency: 1 }),
      upstream("small", "messages", { provider: "second", requestsPerMinute: 30 }),
    ],
  }),
  model("wide", "chat", ["chat", "messages"], {
    contextWindow: null,
    upstreams: [upstream("wide", "chat", { provider: "second" }), upstream("wide", "responses", { provider: "third" })],
  }),
  model("codex", "responses", ["chat", "responses"], { fallback: ["wide"] }),
]

export const rates: Readonly<Record<string, Rates>> = {
  sonnet: { input: micro(3_000n), output: micro(15_000n), cacheRead: micro(300n), cacheWrite: micro(3_750n) },
  small: { input: micro(100n), output: micro(500n), cacheRead: micro(10n), cacheWrite: micro(125n) },
  wide: { input: micro(1_000n), output: micro(4_000n), cacheRead: micro(1_000n), cacheWrite: micro(1_000n) },
  codex: { input: micro(2_001n), output: micro(9_999n), cacheRead: micro(201n), cacheWrite: micro(2_501n) },
}

/** The rates of a later price version. */
export const dearer = (of: Rates, version: number): Rates => {
  const more = (rate: Micro) => micro(rate + (rate * BigInt(version)) / 10n)
  return {
    input: more(of.input),
    output: more(of.output),
    cacheRead: more(of.cacheRead),
    cacheWrite: more(of.cacheWrite),
  }
}

/** By the key that a backend is asked with: the most calls at once that its credential is for. */
const credentialLimits: Readonly<Record<string, number>> = { "second-one": 4, "second-two": 3 }

const configured = (id: string, ...names: readonly string[]): [string, readonly Backend[]] => {
  const credentials = names.map((name) => ({
    ...soleCredential("NONE"),
    name,
    maxConcurrency: credentialLimits[`${id}-${name}`],
  }))
  const [first = soleCredential("NONE")] = credentials
  const provider = {
    id,
    label: id,
    baseUrl: "http://backend.invalid",
    headers: {},
    credentials: [first] as const,
    traceContext: true,
  }
  return [id, credentials.map((credential) => ({ provider, credential, apiKey: `${id}-${credential.name}` }))]
}

/** Models have from one member to four. */
export const backends: Backends = new Map([
  configured("first", "only"),
  configured("second", "one", "two"),
  configured("third", "only"),
])

/** What each account starts with. */
export const accounts = [
  { accountId: "acc_rich", micro: 500_000_000n },
  { accountId: "acc_middling", micro: 9_000_000n },
  { accountId: "acc_poor", micro: 1_500_000n },
  { accountId: "acc_broke", micro: 0n },
] as const

/** Which owners move to. */
export const zones = ["Asia/Jakarta", "Pacific/Kiritimati", "Etc/GMT+12", "America/New_York", "UTC"] as const

interface ShopKey {
  readonly keyId: string
  readonly parentId?: string
  readonly accountId: string
  /** What a client sends: a form and a checksum of its own, so it is not made up here. */
  readonly secret: string
  readonly requestsPerMinute?: number
  readonly tokensPerMinute?: number
  readonly budget?: { readonly limit: bigint; readonly period: SpendingPeriod }
  /** False where what an SDK sends again is a call like any other. */
  readonly replaysRetries?: boolean
}

export const keys: readonly ShopKey[] = [
  { keyId: "key_rich", accountId: "acc_rich", secret: "sk-loket-r4hmlsMR0T3Wn4ZAKsDcS28onaGcDm0TdNprPqgv0fcGKw" },
  {
    keyId: "key_daily",
    accountId: "acc_rich",
    secret: "sk-loket-zrywoZoJtOmkYDXERh0c8vfZkAp6Xs3vyIabAVBi0z8YVA",
    budget: { limit: 4_000_000n, period: "daily" },
  },
  {
    keyId: "key_middling",
    accountId: "acc_middling",
    secret: "sk-loket-nfhX7ve8spcOj4RwZxxaSb6xMxAKxWWy6Sito0q82KL12M",
    budget: { limit: 6_000_000n, period: "total" },
  },
  {
    keyId: "key_windowed",
    accountId: "acc_middling",
    secret: "sk-loket-O92aUnTBAAU6rPeFzLRFt0O96jOZs1KZKBo9XJFI3FY1xI",
    requestsPerMinute: 20,
    tokensPerMinute: 3_000,
  },
  {
    keyId: "key_poor",
    accountId: "acc_poor",
    secret: "sk-loket-1d77LWQfPztAclTYKPHy8RBfTxq2a1OOr4Pnmur52pHSjw",
    replaysRetries: false,
  },
  {
    keyId: "key_broke",
    accountId: "acc_broke",
    secret: "sk-loket-OxfQQy6mSmHSxkN8m9Y3Xt9vKzpNHiAYnZ0Gw1Q71muwoD",
    budget: { limit: 1_000_000n, period: "monthly" },
  },
  {
    keyId: "key_pupil",
    parentId: "key_daily",
    accountId: "acc_rich",
    secret: "sk-loket-ZILUFwe7RuoPusAZUX2Mm1BtGENc97aEmZ43SP6K3Do9ao",
    budget: { limit: 3_000_000n, period: "total" },
  },
  {
    keyId: "key_class",
    parentId: "key_daily",
    accountId: "acc_rich",
    secret: "sk-loket-itryGsdDab8LvK3qv1KusGE5bwmvGPpgMZyAHWTk1Qbqq8",
  },
  {
    keyId: "key_helper",
    parentId: "key_middling",
    accountId: "acc_middling",
    secret: "sk-loket-Nkq7mDm4XoXQASqAtSPkkBzXb8TiElr3aNRUM8n712SP4i",
    budget: { limit: 2_000_000n, period: "daily" },
    requestsPerMinute: 30,
  },
  {
    keyId: "key_hasty",
    parentId: "key_windowed",
    accountId: "acc_middling",
    secret: "sk-loket-0DjraVbfU3nymdWhNEEtgGQ47FAvoyzqNriwYn7n2rxRvb",
  },
]

/** As the books know the secret of a key. */
export const hashOf = (secret: string): string => Buffer.from(hashApiKey(secret)).toString("hex")

/** How many of them are nobody's children: those come first. */
export const ownKeys = keys.filter(({ parentId }) => parentId === undefined).length
