/**
 * The web search of a messages request. The client asks for it by a dated type, as of a tool that runs at the vendor's;
 * here the gateway runs it (src/gateway/tool-loop.ts), so the backend is offered a plain tool of the same name in its
 * place. What a client sends back of earlier searches is said in the plain tool's words too.
 */
import { family } from "../shared/betas.ts"
import { continuesTurn, plainCall, plainResult, readMessages, SEARCH_TOOL } from "./content.ts"
import { Failure } from "../../failure/failure.ts"
import { isObject, type Json, type JsonObject, misshapen, present, readCount, shown } from "../../language/json.ts"
import type { WebSearchOptions } from "../../language/request.ts"

const isWebSearch = (tool: JsonObject): boolean => family(tool) === "web_search"

/** The web search that is asked for, the first of several; undefined where none is. `blocks` are those of all messages. */
export function readWebSearch(body: JsonObject, blocks: readonly JsonObject[]): WebSearchOptions | undefined | Failure {
  const tools = Array.isArray(body["tools"]) ? body["tools"].filter((tool) => isObject(tool)) : []
  const tool = tools.find(isWebSearch)
  if (tool === undefined) return undefined
  if (tools.some((other) => other["name"] === SEARCH_TOOL && !isWebSearch(other)))
    return misshapen(`'tools' has another tool named "${SEARCH_TOOL}"; names must be unique.`)
  const maxUses = readCount(tool, "max_uses")
  if (maxUses instanceof Failure) return maxUses
  const allowed = readDomains(tool, "allowed_domains")
  if (allowed instanceof Failure) return allowed
  const blocked = readDomains(tool, "blocked_domains")
  if (blocked instanceof Failure) return blocked
  if (allowed !== undefined && blocked !== undefined)
    return misshapen("'allowed_domains' and 'blocked_domains' exclude each other; send one of them.")
  const sources = blocks.flatMap(({ type, source }) =>
    type === "search_result" && typeof source === "string" ? [source] : [],
  )
  return {
    maxUses,
    domains: { allowed, blocked: blocked ?? [] },
    clientSources: new Set(sources),
  }
}

/** Each is compared with each address that a search finds, and none of these is longer than the second. */
const MAX_DOMAINS = 1_000
const LONGEST_DOMAIN = 2_000

/** An empty list says nothing, like an absent one. */
function readDomains(tool: JsonObject, field: string): string[] | undefined | Failure {
  const value = tool[field]
  if (!present(value)) return undefined
  const items = Array.isArray(value) ? value : [value]
  const domains = items.filter((domain): domain is string => typeof domain === "string" && domain !== "")
  if (!Array.isArray(value) || domains.length < items.length)
    return misshapen(`'${field}' is ${shown(value)}; it must be an array of domains.`)
  if (domains.length > MAX_DOMAINS || domains.some(({ length }) => length > LONGEST_DOMAIN))
    return misshapen(`'${field}' must be at most ${MAX_DOMAINS} domains of at most ${LONGEST_DOMAIN} characters.`)
  return domains.length === 0 ? undefined : domains
}

/**
 * The body as a backend is to read it: the plain tool for the vendor's, and earlier searches as calls of it. Where the
 * client offers no tools any more, backends refuse the traces of a tool that nobody declares, so it is declared and
 * forbidden.
 */
export function withPlainSearch(body: JsonObject): JsonObject {
  const offered = Array.isArray(body["tools"]) ? body["tools"] : []
  const messages = Array.isArray(body["messages"]) ? body["messages"] : []
  const tool = offered.find((one) => isObject(one) && isWebSearch(one))
  const searched = hasSearched(messages)
  if (tool === undefined && !searched) return body
  const tools = offered
    .filter((one) => one === tool || !(isObject(one) && isWebSearch(one)))
    .map((one) => (one === tool && isObject(one) ? plainTool(one) : one))
  const plain = {
    ...body,
    tools,
    messages: searched ? expandHistory(messages, tool !== undefined && canCite(body)) : messages,
  }
  return tools.length > 0 ? plain : { ...plain, tools: [plainTool({})], tool_choice: { type: "none" } }
}

/** The vendor takes citations for all results and documents of a request or for none, and not with structured outputs. */
function canCite({ messages, output_config: config, output_format: format }: JsonObject): boolean {
  if (present(format) || (isObject(config) && present(config["format"]))) return false
  const blocks = readMessages(messages)
  if (blocks instanceof Failure) return false
  return blocks
    .filter(({ type }) => type === "document" || type === "search_result")
    .every(({ citations }) => isObject(citations) && citations["enabled"] === true)
}

function plainTool({ user_location: location, cache_control: mark }: JsonObject): JsonObject {
  const where = isObject(location)
    ? ["city", "region", "country", "timezone"].map((key) => location[key]).filter((value) => typeof value === "string")
    : []
  return {
    name: SEARCH_TOOL,
    description:
      "Searches the web and answers with the best results, each with its address, its title and an excerpt. Use it for " +
      "what is recent, what changes, and what has to be checked." +
      (where.length > 0 ? ` The user is in ${where.join(", ")}.` : ""),
    input_schema: {
      type: "object",
      properties: { query: { type: "string", description: "What to search for, in a few words." } },
      required: ["query"],
    },
    ...(present(mark) && { cache_control: mark }),
  }
}

/** What is forced in the first turn would be forced for ever; after it the model decides. */
function freeChoice(choice: Json | undefined): Json | undefined {
  if (!isObject(choice) || (choice["type"] !== "tool" && choice["type"] !== "any")) return choice
  const { disable_parallel_tool_use: single } = choice
  return { type: "auto", ...(present(single) && { disable_parallel_tool_use: single }) }
}

// A conversation gone on with by the gateway: what the assistant said comes after it, and no tool is forced any more.

export function continuedBody(body: JsonObject, said: JsonObject): JsonObject {
  const { messages: asked, tool_choice: choice } = body
  return {
    ...body,
    messages: [...(Array.isArray(asked) ? asked : []), said],
    ...(choice !== undefined && { tool_choice: freeChoice(choice) }),
  }
}

// Earlier searches, as a client sends them back within the assistant's message, told anew as calls of a plain tool: the
// message is parted at each search, and a user's turn with the results stands in between. The loop says its own turns
// to the backend through here too, so what the model reads of a search is the same while it runs and ever after.

const isSearch = ({ type, name }: JsonObject): boolean => type === "server_tool_use" && name === SEARCH_TOOL
const isResult = ({ type }: JsonObject): boolean => type === "web_search_tool_result"

const hasSearched = (messages: readonly Json[]): boolean =>
  messages.some((message) => isObject(message) && isSearched(message))

const isSearched = (message: JsonObject): boolean =>
  message["role"] === "assistant" && blocksOf(message).some((block) => isSearch(block) || isResult(block))

const blocksOf = ({ content }: JsonObject): JsonObject[] =>
  Array.isArray(content) ? content.filter((block) => isObject(block)) : []

/** One turn of the model: what it said and called, and what came of its searches. */
interface Turn {
  readonly said: Json[]
  readonly results: JsonObject[]
}

/** `cited` says whether the model is to cite what was found. */
export function expandHistory(messages: readonly Json[], cited: boolean): Json[] {
  const expanded: Json[] = []
  /** Results that the next turn of the user begins with. */
  let owed: JsonObject[] = []
  const pay = () => {
    if (owed.length > 0) expanded.push({ role: "user", content: owed })
    owed = []
  }
  for (const message of messages) {
    if (!isObject(message)) continue
    if (owed.length > 0 && message["role"] === "user") {
      expanded.push({ ...message, content: [...owed, ...asBlocks(message["content"])] })
      owed = []
      continue
    }
    pay()
    if (!isSearched(message)) {
      expanded.push(message)
      continue
    }
    for (const { said, results } of turnsOf(blocksOf(message), cited)) {
      pay()
      if (said.length > 0) expanded.push({ ...message, content: said })
      owed = results
    }
  }
  pay()
  return expanded
}

const asBlocks = (content: Json | undefined): Json[] =>
  Array.isArray(content) ? content : [{ type: "text", text: content ?? "" }]

function turnsOf(blocks: readonly JsonObject[], cited: boolean): Turn[] {
  const results = new Map(blocks.filter(isResult).map((result) => [result["tool_use_id"], result]))
  let turn: Turn = { said: [], results: [] }
  const turns = [turn]
  for (const block of blocks) {
    if (isResult(block)) continue
    const { id } = block
    const together = isSearch(block) && typeof id === "string" && continuesTurn(id)
    if (turn.results.length > 0 && !together) {
      turn = { said: [], results: [] }
      turns.push(turn)
    }
    if (isSearch(block)) {
      turn.said.push(plainCall(block))
      turn.results.push(plainResult(id, results.get(id), cited))
    } else if (!isEmptyText(block)) turn.said.push(withoutWebCitations(block))
  }
  return turns
}

/** The vendor answers with texts that it does not take back. */
const isEmptyText = ({ type, text }: JsonObject): boolean => type === "text" && text === ""

/** They point to results in words that only the vendor's own search has. */
function withoutWebCitations(block: JsonObject): JsonObject {
  const { citations, ...rest } = block
  if (!Array.isArray(citations)) return block
  const kept = citations.filter((one) => !(isObject(one) && one["type"] === "web_search_result_location"))
  return kept.length === citations.length ? block : { ...rest, ...(kept.length > 0 && { citations: kept }) }
}
