/**
 * The part of a large request that leaves its thread: what admission and the reading of responses need, in a bounded size. The
 * conversation and long texts are left out. Names of tools and ids of calls stay, because responses are written with them.
 */
import type { Json, JsonObject } from "../language/json.ts"
import { callsIn, type Prompt, type Tool, type ToolCallPart } from "../language/prompt.ts"
import type { ModelRequest, SentDocument, SentMedia } from "../language/request.ts"
import { Failure } from "../failure/failure.ts"
import { clientNames, toolsOf } from "../wire/responses/tools.ts"

/** UTF-16 units of the name of a model, a tool or a value within a field. */
export const LONGEST_NAME = 512
const MAX_NAMES = 2_000
/** Of the ids of a conversation's calls, the last ones. A backend that gives an id twice counts, so its ids are short. */
const MAX_CALLS = 1_000
const LONGEST_CALL_ID = 128
/** About as much JSON: a field, and all fields together. */
const LONGEST_FIELD = 16_384
const LONGEST_BODY = 65_536
const MAX_SCALARS = 16
const LONGEST_SCALAR = 64
const LONGEST_TEXT = 1_024
const MAX_STOPS = 64
const MAX_SOURCES = 1_000

/** Fields that responses repeat, or that the reading of responses needs, come first. */
const READ = [
  "tools",
  "tool_choice",
  "functions",
  "function_call",
  "thinking",
  "reasoning",
  "text",
  "metadata",
  "user",
  "logprobs",
  "top_logprobs",
]
const LEFT_OUT = new Set(["messages", "input", "prompt", "suffix", "system", "instructions", "model"])

const tooManyNames = new Failure("request.invalid_request", {
  message: `A request of this size may name at most ${MAX_NAMES} tools, each in at most ${LONGEST_NAME} characters.`,
})

export function prunedRequest(whole: ModelRequest): ModelRequest | Failure {
  const { body, webSearch } = whole
  const request = { ...whole, ownEndUser: undefined, media: whole.media && prunedMedia(whole.media) }
  // Their names are the format's or the catalogue's own (fields.ts).
  const fields = Object.keys(body).filter((field) => !LEFT_OUT.has(field))
  const kept = [...READ.filter((field) => fields.includes(field)), ...fields.filter((field) => !READ.includes(field))]
  const pruned: JsonObject = {}
  let left = LONGEST_BODY
  for (const field of kept) {
    const value = shortened(body[field], Math.min(LONGEST_FIELD, left))
    left -= field.length + size(value)
    pruned[field] = value
  }
  if (request.endpoint === "responses") {
    const names = toolDefinitionsIn(body)
    if (names === undefined) return tooManyNames
    pruned["input"] = [{ type: "additional_tools", tools: names }]
    if (pruned["tools"] !== body["tools"]) pruned["tools"] = names
  }
  // Numbers whose text was kept (json.ts) go to no other thread.
  const sent = { ...request, body: JSON.parse(JSON.stringify(pruned)) as JsonObject }
  if (webSearch === undefined) return sent
  const { allowed, blocked } = webSearch.domains
  if (size([allowed ?? null, blocked].flat()) > LONGEST_FIELD)
    return new Failure("request.invalid_request", { message: "The lists of domains are too long." })
  const sources = [...webSearch.clientSources].filter((source) => source.length <= LONGEST_TEXT).slice(0, MAX_SOURCES)
  return { ...sent, webSearch: { ...webSearch, clientSources: new Set(sources) } }
}

/** Only this many documents are measured; of the others the counts are enough. */
const MAX_DOCUMENTS = 20

/** A file becomes a blob, which threads share. */
function prunedMedia({ documents, ...media }: SentMedia): SentMedia {
  const first = documents
    .slice(0, MAX_DOCUMENTS)
    .map((one) => (typeof one.pdf === "string" ? { ...one, pdf: new Blob([one.pdf]) } : one))
  const others = documents.slice(MAX_DOCUMENTS)
  const kinds = [{ known: true }, { known: false }, { known: false, remote: true }]
  const together = kinds.flatMap(({ known, remote = false }): SentDocument[] => {
    const some = others.filter((one) => one.known === known && (one.remote ?? false) === remote)
    const sum = (count: (one: SentDocument) => number) => some.reduce((all, one) => all + count(one), 0)
    return some.length === 0 ? [] : [{ likely: sum((one) => one.likely), most: sum((one) => one.most), known, remote }]
  })
  return { ...media, documents: [...first, ...together] }
}

/** Keeps the tools' names in their order, so that both threads map them alike, and the ids of calls, so that no answer has one again. */
export function prunedPrompt(prompt: Prompt): Prompt | Failure {
  const tools = prompt.tools.map(named)
  const offered = new Set(tools.flatMap((tool) => (tool.type === "web-search" ? [] : [tool.name])))
  const calls = callsIn(prompt)
  const called = new Set(calls.map(({ name }) => name).filter((name) => !offered.has(name)))
  const chosen = prompt.toolChoice?.kind === "tool" ? [prompt.toolChoice.name] : []
  const names = [...offered, ...called, ...chosen]
  if (tools.length + called.size > MAX_NAMES || names.some((name) => name.length > LONGEST_NAME)) return tooManyNames
  const ids = new Set(calls.map(({ id }) => id).filter((id) => id.length <= LONGEST_CALL_ID))
  const parts = [
    ...[...called].map((name) => ({ ...someCall, name })),
    ...[...ids].slice(-MAX_CALLS).map((id) => ({ ...someCall, id })),
  ]
  return {
    ...prompt,
    instructions: [],
    turns: parts.length === 0 ? [] : [{ role: "assistant", parts }],
    tools,
    stopSequences: prompt.stopSequences.filter((stop) => stop.length <= LONGEST_TEXT).slice(0, MAX_STOPS),
    output: undefined,
  }
}

/** Names and ids come apart: which of them belong together is not needed. */
const someCall: ToolCallPart = { type: "tool-call", id: "", name: "", arguments: "", custom: false }

function named(tool: Tool): Tool {
  if (tool.type === "web-search") return { type: "web-search", options: {} }
  const { name } = tool
  return tool.type === "custom"
    ? { type: "custom", name, description: undefined, grammar: undefined }
    : { type: "function", name, description: undefined, parameters: {}, strict: undefined }
}

/** The definitions of tools in a request of the responses format. */
function toolDefinitionsIn(body: JsonObject): JsonObject[] | undefined {
  const names = [...clientNames(body).values()]
  if (toolsOf(body).length > MAX_NAMES || names.length > MAX_NAMES) return undefined
  if (names.some(({ name, namespace = "" }) => name.length + namespace.length > LONGEST_NAME)) return undefined
  return names.map(({ name, namespace }) => ({ name, ...(namespace !== undefined && { namespace }) }))
}

/** A short value unchanged. Of a long one, its presence and its beginning. */
function shortened(value: Json | undefined, longest: number): Json {
  if (typeof value === "string") return value.slice(0, LONGEST_TEXT)
  if (typeof value !== "object" || value === null) return value ?? null
  if (size(value) <= longest) return value
  return Array.isArray(value) ? [{}] : scalarsOf(value)
}

/** The first scalar fields, such as the requested kind of thinking. */
const scalarsOf = (value: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(value)
      .filter(([name, inner]) => name.length <= LONGEST_NAME && (typeof inner !== "object" || inner === null))
      .slice(0, MAX_SCALARS)
      .map(([name, inner]) => [name, typeof inner === "string" ? inner.slice(0, LONGEST_SCALAR) : inner]),
  )

/** The approximate length as JSON. Counting stops past the limit. */
function size(value: Json): number {
  if (typeof value === "string") return value.length + 2
  if (typeof value !== "object" || value === null) return 8
  let sum = 2
  for (const [name, inner] of Object.entries(value)) {
    sum += name.length + 4 + size(inner ?? null)
    if (sum > LONGEST_FIELD) return sum
  }
  return sum
}
