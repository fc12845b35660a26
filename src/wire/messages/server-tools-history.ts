/**
 * Earlier searches, as a client sends them back within the assistant's message, told anew as calls of a plain tool: the
 * message is parted at each search, and a user's turn with the results stands in between. The loop says its own turns
 * to the backend through here too, so what the model reads of a search is the same while it runs and ever after.
 */
import { isObject, type Json, type JsonObject } from "../../language/json.ts"
import { continuesTurn, plainCall, plainResult, SEARCH_TOOL } from "./server-tools-blocks.ts"

const isSearch = ({ type, name }: JsonObject): boolean => type === "server_tool_use" && name === SEARCH_TOOL
const isResult = ({ type }: JsonObject): boolean => type === "web_search_tool_result"

export const hasSearched = (messages: readonly Json[]): boolean =>
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
