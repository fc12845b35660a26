/**
 * The catalogue as the gateway uses it: what is sold, where each model's backend is, and what a token costs.
 * Prices are kept apart from models because a model has many over time, and a record names the one it was charged at.
 */
import type { Rates } from "../../actors/money/price.ts"
import type { BackendFormat } from "../language/backend-format.ts"
import type { Endpoint } from "../language/request.ts"

export interface Model {
  /** Catalogue id, case-sensitive: what clients write. */
  readonly id: string
  readonly displayName: string
  readonly tier: string
  /** The label that is shown; `upstream.provider` is the id that routes. */
  readonly provider: string
  readonly modality: string
  readonly supportsVision: boolean
  readonly supportsTools: boolean
  /** Tokens; null where the hard limit is not verified. */
  readonly contextWindow: number | null
  readonly maxOutputTokens: number
  readonly endpoints: ReadonlySet<Endpoint>
  readonly upstream: Upstream
  /** Concurrent requests, over all customers. */
  readonly maxConcurrency: number
  /** The whole chain, in order; ids of live models. */
  readonly fallback: readonly string[]
  /** Top-level request parameters that are removed before forwarding. */
  readonly strip: readonly string[]
  /** Top-level request parameters that travel beside those of the format (docs/formats.md, "Fields that travel"). */
  readonly pass: readonly string[]
  /** Refused for this model on every endpoint: a feature ("tools"), or a top-level request parameter by its name. */
  readonly unsupported: readonly string[]
  /** Served for this model where the endpoint allows it; what is not listed is not served. */
  readonly features: readonly SoldFeature[]
  /** A long answer that does not stream is asked for as a stream and gathered (decisions §13.12). */
  readonly gather: boolean
  readonly createdAt: Date
}

interface Upstream {
  /** Id of a provider in the providers file. */
  readonly provider: string
  readonly format: BackendFormat
  /** The backend's own name of the model. */
  readonly model: string
}

/** What a model sells only where the catalogue lists it. */
export type SoldFeature = "structured_outputs" | "web_search"

export interface PriceVersion {
  readonly id: bigint
  readonly model: string
  /** Micro-rupiah for one token. */
  readonly rates: Rates
  /** Milliseconds since the epoch, as `inForce` of the pricing module takes it. */
  readonly effectiveAt: number
}

/** A retired id that is still routable (gateway-api.md, "Versioning" 4): billed and answered as its target. */
export interface Alias {
  readonly id: string
  readonly target: string
  /** From then on the id is unknown. */
  readonly until: Date
}

export interface Catalogue {
  /** Live models, in the order they are shown in. */
  readonly models: readonly Model[]
  /** All versions, also past and coming ones, by model and time. */
  readonly prices: readonly PriceVersion[]
  /** Also those whose grace is over: time passes while the catalogue is in memory. */
  readonly aliases: readonly Alias[]
}

/** A place to forward to. It is unconfigured while the variable that holds its key is unset. */
export interface Provider {
  readonly id: string
  readonly label: string
  /** Without `/v1` and without a trailing slash. */
  readonly baseUrl: string
  readonly apiKeyEnv: string
  /** Where calls are signed (AWS SigV4) and carry no key: `apiKeyEnv` then holds the access key's id. */
  readonly signing?: ProviderSigning | undefined
  /** Sent with every call; they override the credentials that the gateway would send. */
  readonly headers: Readonly<Record<string, string>>
}

interface ProviderSigning {
  readonly region: string
  /** The variable of the secret access key. */
  readonly secretKeyEnv: string
  /** The variable of the session token, for temporary credentials. */
  readonly sessionTokenEnv: string | undefined
}
