/**
 * The catalogue: public with prices at `/models`, and for keys in the format of both SDK families at `/v1/models`
 * (gateway-api.md, "Model catalogue item"; decisions §8).
 */
import { type Static, Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { microToJson } from "../../actors/money/micro.ts"
import type { Model, Offer, PriceVersion } from "../catalogue/model.ts"
import { Failure } from "../failure/failure.ts"
import { ENDPOINTS } from "../language/request.ts"
import { authenticate, currentRateHeaders } from "../gateway/authenticate.ts"
import { featuresOf, mayUseSomewhere } from "../gateway/eligibility.ts"
import type { GatewayPorts } from "../gateway/ports.ts"
import { contextOf, edge } from "./edge.ts"
import { documented, open } from "./route.ts"
import { described, field, flag, integer, listOf, oneOf, orNull, rates, text, time } from "./shapes.ts"

const served = Type.Partial(
  Type.Object({
    structured_outputs: Type.Array(oneOf(ENDPOINTS)),
    web_search: Type.Array(oneOf(ENDPOINTS)),
    reasoning: described(
      Type.Array(oneOf(ENDPOINTS)),
      field(
        "It thinks before it answers, by itself or when asked to.",
        "Model berpikir sebelum menjawab, dengan sendirinya atau jika diminta.",
      ),
    ),
  }),
  {
    description: field(
      "The endpoints on which each is served; one that is served nowhere is absent.",
      "Endpoint yang melayani masing-masing; yang tidak dilayani di mana pun tidak disebut.",
    ),
  },
)
const chain = Type.Array(text, {
  description: field(
    "The models that are tried next, in order, when the backend throttles or the prompt is too large. One that costs more answers only for a key whose `fallback` is `any`.",
    "Model yang dicoba berikutnya, menurut urutan, jika backend membatasi atau prompt terlalu panjang. Yang lebih mahal hanya menjawab untuk kunci dengan `fallback` `any`.",
  ),
})
const CatalogueItem = Type.Object(
  {
    model: text,
    display_name: text,
    tier: text,
    provider: text,
    supports_vision: flag,
    supports_tools: flag,
    modality: text,
    ...rates,
    next_price: Type.Optional(
      described(
        Type.Object({ ...rates, effective_at: time }),
        field(
          "The price that is to come, and when it begins; absent where none is.",
          "Harga yang akan datang, dan kapan mulai; tidak ada jika tidak ada perubahan.",
        ),
      ),
    ),
    context_window: orNull(
      integer,
      field("Tokens; null where the limit is not verified.", "Token; null jika batasnya belum dipastikan."),
    ),
    max_output_tokens: integer,
    endpoints: Type.Array(oneOf(ENDPOINTS)),
    features: served,
    fallback: chain,
  },
  { $id: "CatalogueItem" },
)
/** What the types of the messages SDK promise of a model besides: who lists the models in use would find none. */
const IN_USE = { lifecycle: "active", deprecated_at: null, retires_at: null, line: null, capabilities: null } as const

/** As both SDK families know it. */
const ModelShape = Type.Object(
  {
    id: text,
    object: Type.Literal("model"),
    created: integer,
    owned_by: text,
    context_window: orNull(integer),
    type: Type.Literal("model"),
    display_name: text,
    created_at: time,
    max_input_tokens: orNull(
      integer,
      field("As messages SDKs name `context_window`.", "`context_window`, dengan nama yang dipakai SDK messages."),
    ),
    max_output_tokens: integer,
    max_tokens: described(
      integer,
      field(
        "As messages SDKs name `max_output_tokens`.",
        "`max_output_tokens`, dengan nama yang dipakai SDK messages.",
      ),
    ),
    lifecycle: described(
      Type.Literal("active"),
      field(
        "Always that: a retired model is not listed. The four fields after it are as messages SDKs read them, and always null.",
        "Selalu demikian: model yang dihentikan tidak tercantum. Empat kolom berikutnya sesuai yang dibaca SDK messages, dan selalu null.",
      ),
    ),
    deprecated_at: Type.Null(),
    retires_at: Type.Null(),
    line: Type.Null(),
    capabilities: Type.Null(),
    supports_vision: flag,
    supports_tools: flag,
    ...rates,
    endpoints: Type.Array(oneOf(ENDPOINTS)),
    features: served,
    fallback: chain,
  },
  { $id: "Model" },
)
const ModelList = Type.Object({
  object: Type.Literal("list"),
  ...listOf(ModelShape).properties,
  has_more: described(flag, field("Always false: all are in one list.", "Selalu false: semuanya dalam satu daftar.")),
  first_id: orNull(text),
  last_id: orNull(text),
})

export const modelsController = (ports: GatewayPorts) => {
  /** Runs for a caller with a key, with the models that it may use; the key's limits go out with whatever comes of it. */
  const forCaller = async (
    request: Request,
    set: { headers: Record<string, string | number> },
    answer: (offers: readonly Offer[]) => object | Failure,
  ): Promise<object | Failure> => {
    const caller = await authenticate(ports.actors, request.headers, contextOf(request))
    if (caller instanceof Failure) return caller
    const headers = await currentRateHeaders(ports.actors, caller.keyHash)
    const { binding } = caller.record
    const offers = ports.catalogue.offers(ports.clock.now())
    const answered = answer(binding === undefined ? offers : offers.filter((offer) => mayUseSomewhere(binding, offer)))
    if (answered instanceof Failure) return answered.withHeaders(headers)
    Object.assign(set.headers, headers)
    return answered
  }
  const searches = ports.search !== undefined
  return (
    new Elysia({ name: "models" })
      .use(edge)
      .get(
        ...open(
          "/models",
          {
            tag: "Models",
            summary: { en: "The catalogue with its prices", id: "Katalog dengan harganya" },
            answer: Type.Object({ object: Type.Literal("list"), ...listOf(CatalogueItem).properties }),
          },
          async () => {
            const now = ports.clock.now()
            const data = ports.catalogue
              .offers(now)
              .map((offer) => catalogueItem(offer, ports.catalogue.coming(offer, now), searches))
            return { object: "list" as const, data }
          },
        ),
      )
      .get(
        "/v1/models",
        ({ request, set }) => forCaller(request, set, (offers) => modelList(pageOf(offers, request), searches)),
        documented("key", {
          tag: "Models",
          summary: {
            en: "The models that the key may use, as both SDK families list them",
            id: "Model yang boleh dipakai kunci, seperti yang dibaca kedua keluarga SDK",
          },
          query: Type.Object({ after_id: Type.Optional(text), before_id: Type.Optional(text) }),
          answer: ModelList,
        }),
      )
      // Not `:id`, for an id may hold slashes, and some clients send them as they are.
      .get(
        "/v1/models/*",
        ({ request, set, params }) =>
          forCaller(request, set, (offers) => {
            const id = decoded(params["*"])
            const offer = offers.find(({ model }) => model.id === id)
            return offer === undefined ? new Failure("resource.not_found") : modelItem(offer, searches)
          }),
        documented("key", { tag: "Models", summary: { en: "One model", id: "Satu model" }, answer: ModelShape }),
      )
  )
}

function catalogueItem({ model, price }: Offer, next: PriceVersion | undefined, searches: boolean) {
  return {
    model: model.id,
    display_name: model.displayName,
    tier: model.tier,
    provider: model.provider,
    supports_vision: model.supportsVision,
    supports_tools: model.supportsTools,
    modality: model.modality,
    ...ratesJson(price),
    ...(next && { next_price: { ...ratesJson(next), effective_at: new Date(next.effectiveAt).toISOString() } }),
    context_window: model.contextWindow,
    max_output_tokens: model.maxOutputTokens,
    ...whatItServes(model, searches),
  }
}

const whatItServes = (model: Model, searches: boolean) => ({
  endpoints: [...model.endpoints],
  features: featuresOf(model, searches),
  /** The chain, in order; whether one of it may answer is for the key to say (decisions §13.6). */
  fallback: [...model.fallback],
})

const ratesJson = ({ rates: { input, output, cacheRead, cacheWrite } }: PriceVersion) => ({
  input_micro: microToJson(input),
  output_micro: microToJson(output),
  cache_read_micro: microToJson(cacheRead),
  cache_write_micro: microToJson(cacheWrite),
})

const modelItem = ({ model, price }: Offer, searches: boolean): Static<typeof ModelShape> => ({
  id: model.id,
  object: "model",
  created: Math.floor(model.createdAt.getTime() / 1_000),
  owned_by: model.provider,
  context_window: model.contextWindow,
  type: "model",
  display_name: model.displayName,
  created_at: model.createdAt.toISOString(),
  max_input_tokens: model.contextWindow,
  max_output_tokens: model.maxOutputTokens,
  max_tokens: model.maxOutputTokens,
  ...IN_USE,
  supports_vision: model.supportsVision,
  supports_tools: model.supportsTools,
  ...ratesJson(price),
  ...whatItServes(model, searches),
})

/**
 * All offers, or those after or before a model that the query names. All are in one list, but some messages SDKs ask for what comes after
 * the last one until a page is empty, whatever `has_more` says.
 */
function pageOf(offers: readonly Offer[], { url }: Request): readonly Offer[] {
  const query = new URL(url).searchParams
  const place = (name: string) => offers.findIndex(({ model }) => model.id === query.get(name))
  const before = place("before_id")
  return offers.slice(place("after_id") + 1, before < 0 ? undefined : before)
}

function modelList(offers: readonly Offer[], searches: boolean): Static<typeof ModelList> {
  const data = offers.map((offer) => modelItem(offer, searches))
  return { object: "list", data, has_more: false, first_id: data.at(0)?.id ?? null, last_id: data.at(-1)?.id ?? null }
}

/** A model id may hold characters that travel percent-encoded. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
