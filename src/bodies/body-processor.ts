/**
 * Processes large bodies on a thread where nobody waits: parses and decodes them, translates them once for each backend that is
 * tried, and encodes them as bytes. A body stays here under a number until it is freed. Replies about it are small, whatever its
 * size. A decoded body comes with the paths of its fields that the backend's format has no counterpart for.
 */
import { unreachable } from "../../actors/unreachable.ts"
import { Failure } from "../failure/failure.ts"
import { type JsonObject, present, readText } from "../language/json.ts"
import type { Prompt } from "../language/prompt.ts"
import { type Endpoint, LIMIT_FIELDS, type ModelRequest, type Target } from "../language/request.ts"
import { acceptedBetas, invokeBody, unknownOfTools } from "../wire/bedrock/invoke.ts"
import { cacheKey, endUser, parseBody, readModel, setTokens } from "../wire/body.ts"
import { conversationOf } from "../wire/conversation.ts"
import { type BackendModel, clientFormatOf, formats } from "../wire/protocol.ts"
import { type DirectExchange, type EncodedBody, type EncodingOptions, exchange } from "../wire/exchange.ts"
import { type Allowance, type FieldCheck, NO_ALLOWANCE, objectsAt, presentPaths, withNames } from "../wire/fields.ts"
import { leftOut, leftOutOfOwn } from "../wire/messages/prompt-out.ts"
import { LONGEST_NAME, prunedPrompt, prunedRequest } from "./prune.ts"

export interface DecodeOptions {
  /** Defaults of fields that this use of the format omits, for the format's checks. */
  readonly more?: JsonObject
  /** Further fields that may be forwarded. */
  readonly allowance?: Allowance
  /** Undefined where no backend is called. */
  readonly call?: {
    /** Key of the end-user id that backends get. */
    readonly secret: Uint8Array
    readonly accountId: string
    /** Backends that may be tried. */
    readonly backends: readonly BackendModel[]
    /** Fields that the model refuses, and that its backends therefore do not get. */
    readonly strip: readonly string[]
    /** A retired id that the request names, in whose place another model answers. */
    readonly writtenFor?: string
    /** Names of headers and flags that are not forwarded. */
    readonly dropped: readonly string[]
    /** The conversation's name in the headers. */
    readonly conversationName: string | undefined
  }
}

/** Checks a body's shape, lists the fields that are not forwarded, and adds the end-user id. */
export function decode(
  endpoint: Endpoint,
  body: JsonObject,
  { more, allowance, call }: DecodeOptions,
): ModelRequest | Failure {
  const complete = more === undefined ? body : { ...body, ...more }
  const decoded = formats[endpoint].client.decodeRequest(complete, allowance, call?.accountId)
  if (decoded instanceof Failure || call === undefined) return decoded
  const { secret, accountId, backends, strip, dropped, conversationName, writtenFor } = call
  const terms = { ...NO_ALLOWANCE, ...allowance, writtenFor }
  const unwritten = [...strip, ...backends.flatMap(({ set }) => Object.keys(set ?? {}))]
  const stripped = unwritten.filter((name) => !LIMIT_FIELDS.has(name) && present(decoded.body[name]))
  const unsaid = backends.flatMap((backend) => untranslatableFields(decoded, backend, terms))
  const conversation = conversationOf(body, conversationName)
  return {
    ...decoded,
    inputTokens: decoded.inputTokens + Math.max(0, ...backends.map(setTokens)),
    dropped: withNames(decoded.dropped, [...dropped, ...stripped, ...unsaid]),
    endUser: endUser(secret, accountId, decoded.ownEndUser),
    conversation,
    cacheKey: backends.some(keepsByKey) ? cacheKey(secret, accountId, conversation) : undefined,
  }
}

const keepsByKey = ({ format }: BackendModel): boolean => format === "responses"

/** A failure as it travels between threads. */
type SerializedFailure = Pick<Failure, "code" | "detail">

interface TranslateOptions {
  readonly backend: BackendModel
  readonly takes: Omit<Target, "model">
}

/** `prompt` is undefined where the backend has the client's format. */
interface Translation {
  readonly prompt: Prompt | undefined
}

type EncodeOptions = TranslateOptions & EncodingOptions

interface ParsedBody {
  readonly endpoint: Endpoint
  readonly body: JsonObject
  request?: ModelRequest
  readonly exchanges: Map<string, DirectExchange>
}

export class BodyProcessor {
  readonly #bodies = new Map<number, ParsedBody>()

  /** Parses a body and returns its model, which is checked first. */
  read(id: number, bytes: Uint8Array, endpoint: Endpoint): string | Failure {
    const body = parseBody(bytes, undefined, formats[endpoint].client.takesTokenIds)
    if (body instanceof Failure) return body
    const model = readModel(body)
    if (model instanceof Failure) return model
    if (model.length > LONGEST_NAME) return new Failure("model.unknown")
    this.#bodies.set(id, { endpoint, body, exchanges: new Map() })
    return model
  }

  decode(id: number, terms: DecodeOptions): ModelRequest | Failure {
    const known = this.#body(id)
    const request = decode(known.endpoint, known.body, terms)
    if (request instanceof Failure) return request
    known.request = request
    return prunedRequest(request)
  }

  translate(id: number, terms: TranslateOptions): Translation | Failure {
    const translation = this.#exchange(id, terms)
    if (translation instanceof Failure) return translation
    const prompt = translation.prompt && prunedPrompt(translation.prompt)
    return prompt instanceof Failure ? prompt : { prompt }
  }

  write(id: number, terms: EncodeOptions): EncodedBody | Failure {
    const translation = this.#exchange(id, terms)
    if (translation instanceof Failure) return translation
    const { assistantTurn, maxOutputTokens, anthropicBeta, stream } = terms
    const asked = stream ? translation.asStream() : translation
    const body = (assistantTurn === undefined ? asked : asked.continued(assistantTurn)).encodeRequest(maxOutputTokens)
    const text = JSON.stringify(translation.backend === "bedrock-invoke" ? invokeBody(body, anthropicBeta) : body)
    const sha256 = translation.backend.startsWith("bedrock")
      ? new Bun.CryptoHasher("sha256").update(text).digest("hex")
      : ""
    return { blob: new Blob([text]), sha256 }
  }

  free(id: number): void {
    this.#bodies.delete(id)
  }

  /** Only the translation for the current backend is kept. */
  #exchange(id: number, { backend, takes }: TranslateOptions): DirectExchange | Failure {
    const { request, exchanges } = this.#body(id)
    if (request === undefined) throw new Error("a body that nobody has understood")
    const key = JSON.stringify([backend, takes])
    const known = exchanges.get(key)
    if (known !== undefined) return known
    const translation = exchange(request, backend, takes)
    if (translation instanceof Failure) return translation
    exchanges.clear()
    exchanges.set(key, translation)
    return translation
  }

  #body(id: number): ParsedBody {
    const body = this.#bodies.get(id)
    if (body === undefined) throw new Error("a body that is not here")
    return body
  }
}

/** `id` is the number of the body. */
export type BodyCommand =
  | {
      readonly type: "read"
      readonly id: number
      readonly bytes: Uint8Array<ArrayBuffer>
      readonly endpoint: Endpoint
    }
  | { readonly type: "decode"; readonly id: number; readonly terms: DecodeOptions }
  | { readonly type: "translate"; readonly id: number; readonly terms: TranslateOptions }
  | { readonly type: "write"; readonly id: number; readonly terms: EncodeOptions }

export type BodyReply =
  | { readonly type: "read"; readonly model: string }
  | { readonly type: "decode"; readonly request: ModelRequest }
  | { readonly type: "translate"; readonly translation: Translation }
  | { readonly type: "write"; readonly written: EncodedBody }
  | { readonly type: "refused"; readonly refusal: SerializedFailure }

/** Executes one command. */
export function execute(processor: BodyProcessor, command: BodyCommand): BodyReply {
  const { type, id } = command
  switch (type) {
    case "read": {
      const model = processor.read(id, command.bytes, command.endpoint)
      return model instanceof Failure ? refused(model) : { type, model }
    }
    case "decode": {
      const request = processor.decode(id, command.terms)
      return request instanceof Failure ? refused(request) : { type, request }
    }
    case "translate": {
      const translation = processor.translate(id, command.terms)
      return translation instanceof Failure ? refused(translation) : { type, translation }
    }
    case "write": {
      const written = processor.write(id, command.terms)
      return written instanceof Failure ? refused(written) : { type, written }
    }
    default:
      return unreachable(type)
  }
}

const refused = ({ code, detail }: Failure): BodyReply => ({ type: "refused", refusal: { code, detail } })

const paths = (names: string): readonly string[] => names.split(" ")

/**
 * Fields of a request that have no counterpart in the backend's format. They are left out, because the answer is still valid without
 * them (docs/formats.md). Paths are dotted, without array indices. Cache marks are only hints and are not listed.
 */
const UNTRANSLATABLE: Readonly<Record<Endpoint, readonly string[]>> = {
  chat: paths(
    "seed logprobs top_logprobs logit_bias presence_penalty frequency_penalty metadata prediction " +
      "prompt_cache_retention prompt_cache_options messages.name",
  ),
  messages: paths(
    "context_management output_config.task_budget thinking.block_binding messages.output_config messages.clear_at " +
      "messages.content.citations messages.content.transformations tools.defer_loading tools.eager_input_streaming " +
      "tools.input_examples tools.allowed_callers tools.max_characters",
  ),
  responses: paths(
    "top_logprobs truncation prompt_cache_retention prompt_cache_options client_metadata " +
      "text.verbosity reasoning.context stream_options input.phase tools.defer_loading",
  ),
  completions: [],
  embeddings: [],
}

/** The same of what stands in a list. It is named by its type, as what is forwarded to nobody is. */
const UNTRANSLATABLE_TYPES: Readonly<Partial<Record<Endpoint, Readonly<Record<string, RegExp>>>>> = {
  messages: { tools: /^tool_search_/, "messages.content": /^(?:server|mcp)_tool_use$|_tool_result$/ },
  responses: {
    tools: /^(?:tool_search|local_shell|shell|apply_patch)$/,
    input: /^(?:web_search_call|tool_search_call)$/,
  },
}

/** A key of the cache is left out where it is no text: it is a hint, for which no call is refused. */
const CACHE_KEY = paths("prompt_cache_key")

/** Converse cannot be asked for one call at most. */
const ONE_CALL = paths("parallel_tool_calls")

/** Asked for in vain where true: of the models behind the messages format and Converse only some know it. */
const STRICT = paths("tools.strict tools.function.strict tools.tools.strict")

/** The same of how closely an image is to be looked at, which neither format has. */
const DETAIL = paths("messages.content.image_url.detail input.content.detail input.output.detail")

/** Fields of the vendor's own format that InvokeModel does not take. */
const UNTRANSLATABLE_FOR_INVOKE = paths(
  "output_config.task_budget messages.output_config messages.clear_at tools.allowed_callers",
)

/** By what the backend speaks, whatever the client's format. Of the backends that speak chat only some know a key of the cache. */
const LACKING: Readonly<Partial<Record<Endpoint, readonly string[]>>> = {
  chat: paths("top_k prompt_cache_key"),
  responses: paths("top_k"),
}
const LACKING_ELSEWHERE = paths("verbosity prompt_cache_key")

type Terms = Allowance & { readonly writtenFor: string | undefined }

/** The paths of fields in a request that its backend does not get. */
function untranslatableFields({ endpoint, body }: ModelRequest, backend: BackendModel, terms: Terms): string[] {
  const { pass, betas, writtenFor } = terms
  const spoken = clientFormatOf(backend)
  if (spoken === endpoint) {
    if (backend.format === "messages") return leftOutOfOwn(body, backend.model, writtenFor)
    if (backend.format !== "bedrock") return []
    const ofTools = unknownOfTools(acceptedBetas(betas, body)).map((name) => `tools.${name}`)
    return presentPaths(body, [...UNTRANSLATABLE_FOR_INVOKE, ...ofTools])
  }
  const lacking = (spoken && LACKING[spoken]) ?? LACKING_ELSEWHERE
  // Every format has a counterpart of these two.
  const lost = pass.filter((name) => name !== "thinking" && name !== "top_k")
  return [
    ...presentPaths(body, [...UNTRANSLATABLE[endpoint], ...lacking]),
    ...untranslatableTypes(endpoint, body),
    ...(spoken === undefined || spoken === "messages"
      ? [...presentPaths(body, STRICT, isTrue), ...presentPaths(body, DETAIL, isChosen)]
      : []),
    ...(spoken === "messages" ? leftOut(body, backend.model) : []),
    ...(spoken === "responses" ? presentPaths(body, CACHE_KEY, isNoText) : []),
    ...(spoken === undefined && endpoint === "responses" ? presentPaths(body, ONE_CALL, isFalse) : []),
    ...lost.filter((name) => present(body[name])),
  ]
}

function untranslatableTypes(endpoint: Endpoint, body: JsonObject): string[] {
  return Object.entries(UNTRANSLATABLE_TYPES[endpoint] ?? {}).flatMap(([list, named]) => {
    const types = objectsAt(body, list.split(".")).map((item) => readText(item["type"]))
    return [...new Set(types)].filter((type) => named.test(type)).map((type) => `${list}.${type}`)
  })
}

const isTrue: FieldCheck = (value) => value === true
const isNoText: FieldCheck = (value) => present(value) && typeof value !== "string"
const isFalse: FieldCheck = (value) => value === false
const isChosen: FieldCheck = (value) => present(value) && value !== "auto"
