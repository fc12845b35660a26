/**
 * The betas that Bedrock knows, out of those that a client asks for: one that it does not know is a 400 for the whole
 * request. Coding agents send their vendor's betas to whatever gateway they are pointed at, so the others are left out.
 */
import { isObject, type JsonObject } from "../../language/json.ts"
import { beginsWith } from "../../language/shape.ts"

/**
 * Bedrock user guide, "Anthropic Claude Messages API: request and response", and what agents were seen to use there. Not
 * those that cost more than a catalogue's rates: a longer window, and compaction, which is not in the counts.
 */
const TAKEN = new Set([
  "computer-use-2024-10-22",
  "computer-use-2025-01-24",
  "computer-use-2025-11-24",
  "token-efficient-tools-2025-02-19",
  "output-128k-2025-02-19",
  "interleaved-thinking-2025-05-14",
  "dev-full-thinking-2025-05-14",
  "fine-grained-tool-streaming-2025-05-14",
  "context-management-2025-06-27",
  "tool-search-tool-2025-10-19",
  "tool-examples-2025-10-29",
  "effort-2025-11-24",
])

/** What goes by other names there. */
const RENAMED: Readonly<Record<string, readonly string[]>> = {
  "advanced-tool-use-2025-11-20": ["tool-search-tool-2025-10-19", "tool-examples-2025-10-29"],
}

/** Whether a flag that a client asks for means something there, by whatever name. */
export const isTaken = (beta: string): boolean => TAKEN.has(beta) || Object.hasOwn(RENAMED, beta)

/** In the order asked for, each once. What is no beta any more with the vendor itself may still be one here. */
export function takenBetas(betas: readonly string[], body: JsonObject): readonly string[] {
  const { model, output_config: output, tools } = body
  const asked = [...betas]
  if (isObject(output) && output["effort"] !== undefined && typeof model === "string" && model.includes("opus-4-5"))
    asked.push("effort-2025-11-24")
  if (Array.isArray(tools) && tools.some((tool) => isObject(tool) && beginsWith(tool["type"], "tool_search_tool")))
    asked.push("tool-search-tool-2025-10-19")
  return [...new Set(asked.flatMap((beta) => RENAMED[beta] ?? [beta]))].filter((beta) => TAKEN.has(beta))
}
