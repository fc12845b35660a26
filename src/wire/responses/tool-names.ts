/**
 * Tool names, there and back. This format has namespaces and longer names than the others, so a name leaves here flat,
 * of the characters and the length that every format takes, and the request that the client sent says what a name in
 * the answer was called before. A name that fits already is left alone.
 */
import { isObject, type JsonObject } from "../../language/json.ts"
import type { Prompt } from "../../language/prompt.ts"

/** What the narrowest format allows. */
const LONGEST_NAME = 64
const DIGEST_DIGITS = 8
/** What a backend of this format takes. */
const TAKEN_BY_BACKEND = /^[A-Za-z0-9_-]{1,128}$/

export interface ToolName {
  readonly name: string
  readonly namespace: string | undefined
}

/** The one flat name of a tool; the same for the same tool in every request. */
export function flatName({ name, namespace }: ToolName): string {
  const joint = namespace === undefined || namespace.endsWith("__") ? "" : "__"
  const whole = `${namespace ?? ""}${joint}${name}`
  const plain = whole.replaceAll(/[^A-Za-z0-9_-]/g, "_")
  if (plain === whole && whole.length <= LONGEST_NAME) return whole
  const digest = new Bun.CryptoHasher("sha256").update(whole).digest("hex").slice(0, DIGEST_DIGITS)
  return `${plain.slice(0, LONGEST_NAME - DIGEST_DIGITS - 1)}_${digest}`
}

/** A tool's name towards a backend of this format; the same in every turn, for the backend's cache depends on it. */
export const writtenName = (name: string): string =>
  TAKEN_BY_BACKEND.test(name) ? name : flatName({ name, namespace: undefined })

/** From the names that a backend was told to those of the prompt. */
export function originalNames({ tools }: Prompt): (written: string) => string {
  const originals = new Map<string, string>()
  for (const tool of tools) if (tool.type !== "web-search") originals.set(writtenName(tool.name), tool.name)
  return (written) => originals.get(written) ?? written
}

/** The name that an item or a tool choice writes. */
export const nameOf = ({ name, namespace }: JsonObject): ToolName | undefined =>
  typeof name === "string" && name !== ""
    ? { name, namespace: typeof namespace === "string" && namespace !== "" ? namespace : undefined }
    : undefined

/** Tools come at the top, and within the input where they were added or found later. */
export function toolsOf(body: JsonObject): JsonObject[] {
  const items = Array.isArray(body["input"]) ? body["input"].filter(isObject) : []
  const later = items.filter((item) => item["type"] === "additional_tools" || item["type"] === "tool_search_output")
  return [body, ...later].flatMap(({ tools }) => (Array.isArray(tools) ? tools.filter(isObject) : []))
}

/** A namespace's tools, each with the namespace's name; any other tool as it is. */
export function unfolded(tools: readonly JsonObject[]): JsonObject[] {
  return tools.flatMap((tool) => {
    if (tool["type"] !== "namespace") return [tool]
    const members = Array.isArray(tool["tools"]) ? tool["tools"].filter(isObject) : []
    return members.map((member) => ({ ...member, namespace: tool["name"] }))
  })
}

/** By flat name, what the client calls the tools that it offered. */
export function clientNames(body: JsonObject): ReadonlyMap<string, ToolName> {
  const names = new Map<string, ToolName>()
  for (const tool of unfolded(toolsOf(body))) {
    const name = nameOf(tool)
    if (name !== undefined) names.set(flatName(name), name)
  }
  return names
}
