/**
 * What a backend's `set` in the catalogue may hold: nothing that routes, prices, streams or limits, and nothing that the gateway writes
 * itself.
 */
import type { Json, JsonObject } from "../language/json.ts"
import { bareName, passRule } from "../language/request.ts"

const MOST_SET_BYTES = 4_096
const DEEPEST_SET = 8

/** Beside those that no catalogue passes. */
const WRITTEN = new Set(
  (
    "messages input instructions system prompt suffix functions stream streamoptions store background conversation thread " +
    "previousresponseid container user safetyidentifier metadata maxtoolcalls toolconfig inferenceconfig"
  ).split(" "),
)
/** Searches, sound, summaries and haste have prices of their own. */
const PRICED = new Set(
  "modalities audio contextmanagement compaction performanceconfig enablesearch searchoptions searchparameters".split(
    " ",
  ),
)

/** What would be right in the place of a field that cannot be set, by its path; undefined where all of it can. */
export function setProblem(set: JsonObject): { readonly path: string; readonly allowed: string } | undefined {
  for (const name of Object.keys(set)) {
    if (WRITTEN.has(bareName(name))) return { path: name, allowed: "a field that the gateway does not write itself" }
    if (PRICED.has(bareName(name))) return { path: name, allowed: "a field that costs no more than the model's rates" }
  }
  if (Buffer.byteLength(JSON.stringify(set)) > MOST_SET_BYTES)
    return { path: "", allowed: `at most ${MOST_SET_BYTES} bytes of JSON` }
  return problemIn(set, "", 1)
}

function problemIn(value: Json | undefined, path: string, depth: number): ReturnType<typeof setProblem> {
  if (typeof value === "string") return isStorable(value) ? undefined : { path, allowed: STORABLE }
  if (typeof value !== "object" || value === null) return undefined
  if (depth > DEEPEST_SET) return { path, allowed: `values that are at most ${DEEPEST_SET} deep` }
  // A template's variables are its own.
  const isFree = path === "chat_template_kwargs" || path.startsWith("chat_template_kwargs.")
  for (const [name, inner] of Object.entries(value)) {
    const at = path === "" ? name : Array.isArray(value) ? `${path}[${name}]` : `${path}.${name}`
    const allowed = isStorable(name) ? (isFree || Array.isArray(value) ? undefined : passRule(name)) : STORABLE
    const problem = allowed === undefined ? problemIn(inner, at, depth + 1) : { path: at, allowed }
    if (problem !== undefined) return problem
  }
  return undefined
}

/** Postgres keeps no other. */
const STORABLE = "a text of whole characters without NUL"
const isStorable = (text: string): boolean => text.isWellFormed() && !text.includes("\0")
