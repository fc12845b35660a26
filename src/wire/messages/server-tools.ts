/**
 * The web search of a messages request. The client asks for it by a dated type, as of a tool that runs at the vendor's;
 * here the gateway runs it (src/gateway/tool-loop.ts), so the backend is offered a plain tool of the same name in its
 * place. What a client sends back of earlier searches is said in the plain tool's words too (server-tools-history.ts).
 */
import { family } from "../shared/betas.ts"
import { readMessages } from "./content.ts"
import { Failure } from "../../failure/failure.ts"
import { isObject, type Json, type JsonObject, present } from "../../language/json.ts"
import type { WebSearchOptions } from "../../language/request.ts"
import { misshapen, readCount, shown } from "../../language/shape.ts"
import { SEARCH_TOOL } from "./server-tools-blocks.ts"
import { expandHistory, hasSearched } from "./server-tools-history.ts"

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

/** An empty list says nothing, like an absent one. */
function readDomains(tool: JsonObject, field: string): string[] | undefined | Failure {
  const value = tool[field]
  if (!present(value)) return undefined
  const items = Array.isArray(value) ? value : [value]
  const domains = items.filter((domain): domain is string => typeof domain === "string" && domain !== "")
  if (!Array.isArray(value) || domains.length < items.length)
    return misshapen(`'${field}' is ${shown(value)}; it must be an array of domains.`)
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
