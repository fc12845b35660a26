/**
 * What admission needs to know of a request, whatever format it came in. Of the body what is known stays as it was parsed:
 * a backend of the same format gets it back, written anew, with only what the gateway owns changed.
 */
import { isObject, type Json, type JsonObject, present } from "./json.ts"
import type { Effort } from "./prompt.ts"

/** The wire formats that are told in the neutral language: a client of one may be served by a backend of another. */
export const TRANSLATED = ["chat", "messages", "responses"] as const
export type Translated = (typeof TRANSLATED)[number]

/**
 * The wire formats that clients speak, by the name that the catalogue's `endpoints` uses. Those that are not translated are of
 * models whose backends speak them.
 */
export const ENDPOINTS = [...TRANSLATED, "completions", "embeddings"] as const
export type Endpoint = (typeof ENDPOINTS)[number]

/** What a request makes use of and a model may not have. */
export type Feature = "vision" | "tools" | "structured_outputs" | "web_search"

const IMAGES: readonly unknown[] = ["image", "image_url", "input_image", "computer_screenshot"]

/** Whether a part or a block is an image, in any of the formats. */
export const isImage = ({ type }: JsonObject): boolean => IMAGES.includes(type)

/** An SVG that is sent as a file is read as text. */
const IMAGE_FILE = /^(?:data:)?image\/(?!svg)/i

/** How PNG, JPEG, GIF and WebP begin in base64, behind a type that says nothing or none at all. */
const IMAGE_DATA =
  /^(?:data:(?:application\/octet-stream)?(?:;[^,]{0,64})?,)?(?:iVBORw0KGgo|\/9j\/|R0lGOD|UklGR.{7}RUJQ)/
const IMAGE_NAME = /\.(?:png|jpe?g|gif|webp)(?:[?#]|$)/i

/** Whether a part is an image, or a file that its sender calls one, or that begins as one. A model without vision takes none of them. */
export function holdsImage(part: JsonObject): boolean {
  const { source, file, file_data: data, file_url: address } = part
  const from = isObject(source) ? source : {}
  const { media_type: called = "" } = from
  const sent = isObject(file) ? file["file_data"] : (data ?? (isUntyped(called) ? from["data"] : called))
  return (
    isImage(part) ||
    matches(sent, IMAGE_FILE) ||
    matches(sent, IMAGE_DATA) ||
    matches(address ?? from["url"], IMAGE_NAME)
  )
}

const isUntyped = (called: Json): boolean => called === "" || called === null || called === "application/octet-stream"
const matches = (text: Json | undefined, pattern: RegExp): boolean => typeof text === "string" && pattern.test(text)

/** Which field of a part holds its image or its file; one that is not named is its own place. */
const PLACES: Readonly<Record<string, string>> = {
  image: "source",
  document: "source",
  image_url: "image_url",
  input_image: "image_url",
  computer_screenshot: "image_url",
  file: "file",
}

interface Media {
  /** Addresses and data of an image or a file: where the part's type keeps them, and where another type would. */
  readonly own: readonly string[]
  readonly others: readonly string[]
  /** As the client says. */
  readonly mediaType: Json | undefined
  readonly detail: Json | undefined
}

/** Whatever a backend may find in a part: it reads what it knows of, and no check has said what else stands beside that. */
export function mediaOf(part: JsonObject): Media {
  const { type, source: from, image_url: image, file } = part
  const place = typeof type === "string" ? PLACES[type] : undefined
  const own: string[] = []
  const others: string[] = []
  const add = (name: string | undefined, ...values: readonly (Json | undefined)[]) => {
    for (const value of values) if (typeof value === "string") (place === name ? own : others).push(value)
  }
  const source = isObject(from) && from["type"] !== "text" && from["type"] !== "content" ? from : {}
  add("source", source["url"], source["data"])
  const { url, detail } = isObject(image) ? image : { url: image }
  add("image_url", url)
  if (isObject(file)) add("file", file["file_data"])
  add(undefined, part["file_url"], part["file_data"])
  return { own, others, mediaType: source["media_type"], detail: type === "image_url" ? detail : part["detail"] }
}

export interface ModelRequest {
  readonly endpoint: Endpoint
  /** What of the client's body travels (decisions §13.3). */
  readonly body: JsonObject
  /** What does not. */
  readonly dropped: DroppedFields
  /** The client's own name of its end user, which does not travel as it is. */
  readonly ownEndUser: string | undefined
  /** What backends are told of who asks (decisions §13.18). */
  readonly endUser?: string
  /** What it goes on with. Left out where nothing is called. */
  readonly conversation?: Conversation
  /** By which a backend finds what it keeps of prompts that begin alike, where the client wrote no key of its own. */
  readonly cacheKey?: string | undefined
  /** Catalogue id, as the client wrote it. */
  readonly model: string
  readonly stream: boolean
  /** Estimated input tokens, images and tools included. */
  readonly inputTokens: number
  /** The client's own limit on answer tokens (thinking included), where it set one. */
  readonly maxOutputTokens: number | undefined
  /** How many prompts it has, each of which has the model's window for itself; left out, it is one. */
  readonly prompts?: number
  /** How many answers are made: `n` on chat, on completions that or `best_of` for each prompt, else 1. */
  readonly choices: number
  readonly features: ReadonlySet<Feature>
  /** Left out where there are neither images nor documents. */
  readonly media?: SentMedia | undefined
  /** Chat and completions only: the client asked for the stream's usage chunk. */
  readonly includeUsage: boolean
  /** Messages only: a web search that the gateway is to run for the model. */
  readonly webSearch?: WebSearchOptions | undefined
}

/** As its client tells it: by a name, or by how its prompt opens. Short, whatever was sent. */
export type Conversation = { readonly name: string } | { readonly opening: string }

/** Names of what was left out of a body. */
export interface DroppedFields {
  /** Dotted paths, bounded in number. */
  readonly names: readonly string[]
  /** There were others, which are not named. */
  readonly more: boolean
}

/** Images and documents, of which not all is known before a backend counts them. Tokens. */
export interface SentMedia {
  readonly images: SentImages
  readonly documents: readonly SentDocument[]
}

/** All images together. */
export interface SentImages {
  /** What `inputTokens` has of them: as large as they are, or as small as the client asks for. */
  readonly likely: number
  /** Where the backend does not know of `detail`. */
  readonly whole: number
  /** All of them as large as any. */
  readonly most: number
}

export interface SentDocument {
  /** What `inputTokens` has of it. */
  readonly likely: number
  /** The most that it may come to; Infinity where nothing is known but the window. */
  readonly most: number
  /** Its content was looked at; else `likely` is a guess by its size. */
  readonly known: boolean
  /** It stands behind an address, and only the backend ever sees it. */
  readonly remote?: boolean
  /** Of a PDF, in base64: a parser can tell more. A blob is one that threads share. */
  readonly pdf?: string | Blob
}

/** What a client says of the web search that it offers to the model. */
export interface WebSearchOptions {
  /** The most searches of one call. */
  readonly maxUses: number | undefined
  /** Domains stand for their subdomains too; `allowed` undefined is every site. */
  readonly domains: { readonly allowed: readonly string[] | undefined; readonly blocked: readonly string[] }
  /** Where results come from that the client itself gave, whose citations are told as they are. */
  readonly clientSources: ReadonlySet<string>
}

/** What chat backends may want of a prompt beside what the format says of it (docs/formats.md, "Backends that want it otherwise"). */
export const NEEDS = ["system_role", "system_first", "answer_after_tools", "short_call_ids"] as const
export type Need = (typeof NEEDS)[number]

/** What one backend of a model wants otherwise than others of its format (catalogue `upstream`). */
export interface Adaptation {
  /** Fields of the operator's, written into every request over what the client wrote there. */
  readonly set?: JsonObject | undefined
  /** The efforts that it takes. Undefined for all. */
  readonly efforts?: readonly Effort[] | undefined
  readonly needs?: readonly Need[] | undefined
}

/** The model that a body is written for. */
export interface Target extends Adaptation {
  /** The backend's own name of the model. */
  readonly model: string
  /** Top-level parameters that this model does not take, removed in silence (catalogue `strip`). */
  readonly strip: readonly string[]
  /** Names of fields that this model takes beside those of its format (catalogue `pass`). */
  readonly pass?: readonly string[]
  /** The longest answer that this model gives, in tokens. */
  readonly modelLimit?: number
  /** A name of the model that the client wrote its request for, where this one answers in its place. */
  readonly writtenFor?: string
}

/** What the gateway changes in a body before it forwards it. */
export interface Forwarding extends Target {
  /** The answer limit to forward, per choice. It is always written, so that no answer can cost more than is held. */
  readonly maxOutputTokens: number
  /** The answer is asked for as a stream, whatever the client asked for. */
  readonly stream: boolean
}

/** The limit to write: what the gateway allows, and never more than the client asked for. */
export const answerLimit = (
  request: Pick<ModelRequest, "maxOutputTokens">,
  { maxOutputTokens }: Pick<Forwarding, "maxOutputTokens">,
): number => Math.min(request.maxOutputTokens ?? maxOutputTokens, maxOutputTokens)

/** The least budget of thinking that the Claude family takes, in tokens. */
export const MIN_BUDGET = 1024

/**
 * A budget of thinking under a lowered answer limit (decisions §3): it shrinks in proportion, so that room for the answer stays. It is
 * at least `MIN_BUDGET` and under the limit; undefined where none fits.
 */
export const lowerBudget = (budget: number, asked: number, limit: number): number | undefined =>
  limit <= MIN_BUDGET ? undefined : Math.min(Math.max(Math.floor((budget / asked) * limit), MIN_BUDGET), limit - 1)

/** Names of the answer limit, which travels under one of them whatever a model's `strip` says. */
export const LIMIT_FIELDS: ReadonlySet<string> = new Set(["max_tokens", "max_completion_tokens", "max_output_tokens"])

/** How a format writes a body for its own backends. */
export interface Forwarded {
  /** The format's own fields: others were let in for the model that was asked, and another of its chain may not take them. */
  readonly known: ReadonlyMap<string, unknown>
  /** Of these, what the gateway writes itself. */
  readonly rewritten: ReadonlySet<string>
}

/**
 * A shallow copy of the body with what every format changes alike, without what is rewritten. `stream` is written as it was
 * understood, so that `null` is not left to the backend's reading; nothing is ever stored at a backend (decisions §8).
 */
export function forwardedBody(
  request: ModelRequest,
  forwarding: Forwarding,
  { known, rewritten }: Forwarded,
): JsonObject {
  const { pass, strip, model, stream } = forwarding
  const body: JsonObject = {}
  for (const name of Object.keys(request.body)) {
    if (rewritten.has(name) || name === "stream" || strip.includes(name)) continue
    if (known.has(name) || pass?.includes(name) === true) body[name] = request.body[name]
  }
  body["model"] = model
  if (stream) body["stream"] = true
  if (present(body["store"])) body["store"] = false
  return body
}

/** Writes what is the gateway's to say, if the model takes it. */
export function own(body: JsonObject, { strip }: Target, name: string, value: Json | undefined): void {
  if (value !== undefined && !strip.includes(name)) body[name] = value
}

/**
 * What backends speak, by the name that the catalogue's `upstream.format` uses: the clients' formats, and those that
 * only backends have. Bedrock's models are named by their provider's own ids, which tell how each is called.
 */
export const BACKEND_FORMATS = [...ENDPOINTS, "bedrock"] as const
export type BackendFormat = (typeof BACKEND_FORMATS)[number]

// Fields that send a call elsewhere, or make it another or more than one, whatever a catalogue passes on: other models,
// hosts and speeds, more answers, longer ones, a longer cache.

/** Told without their case and their separators. */
export function isRouting(name: string): boolean {
  const bare = bareName(name)
  return ROUTING.has(bare) || bare.startsWith("guided")
}

/** A field's name without its case and its separators, by which servers differ. */
export const bareName = (name: string): string => name.toLowerCase().replaceAll(/[-_.\s]/g, "")

const ROUTING = new Set(
  (
    "model models route routes routing router provider providers plugins transforms fallback fallbacks n bestof speed " +
    "servicetier inferencegeo prewarm generate mode ttl tools mcpservers websearchoptions extrabody proto " +
    "numreturnsequences candidatecount maxnewtokens maxtokenstosample maxgenlen numpredict"
  ).split(" "),
)

/** What a field has to be that a catalogue passes; undefined where it is. A backend could obey another limit than the one that is paid for. */
export function passRule(name: string): string | undefined {
  if (isRouting(name)) return "a field that routes nothing"
  return LIMITS.has(bareName(name)) ? "a field that limits no answer" : undefined
}

/** Deeper down they limit something else. */
const LIMITS = new Set("maxtokens maxcompletiontokens maxoutputtokens maxlength".split(" "))
