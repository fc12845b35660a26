/**
 * What a backend's error says, wherever its vendor put it. No two vendors agree on the shape, so the known places are
 * read in order, and only those: the rest of a body may quote the customer's own words, which must not be judged.
 */
import { isObject, type Json, type JsonObject } from "../language/json.ts"

export interface ErrorFacts {
  /** Codes and types in lower case, the most specific first. */
  readonly names: readonly string[]
  readonly text: string
  /** The parameter that is at fault, where one is named. */
  readonly param: string
  /** The same, also where it stands before a colon or as a path of steps: `messages.0.content`. May be anything. */
  readonly field: string
}

/** Longer texts are not read: a wording stands in the first sentences, and a hostile text costs no time. */
const maxText = 4096

/**
 * Gathers names and words from the shapes in use: `{error:{…}}`, `{error:"…"}`, `{message,type,code}`, `{detail}` with a
 * text or a list, `[{error}]`, and another vendor's error as text within `error.metadata.raw`.
 */
export const readError = (body: Json | undefined): ErrorFacts => {
  const parsed = typeof body === "string" ? parsedOr(body) : body
  const outer = Array.isArray(parsed) ? parsed[0] : parsed
  if (!isObject(outer))
    return { names: [], text: typeof outer === "string" ? outer.slice(0, maxText) : "", param: "", field: "" }
  const inner: JsonObject = isObject(outer.error) ? outer.error : {}
  const first = Array.isArray(outer.detail) ? outer.detail[0] : undefined
  const detail: JsonObject = isObject(first) ? first : {}
  const raw = isObject(inner.metadata) ? inner.metadata.raw : undefined
  const names = [inner.code, detail.type, inner.type, inner.status, outer.code, outer.type]
  const texts = [inner.message, outer.message, outer.Message, outer.error, outer.detail, detail.msg, raw]
  const param = [inner.param, outer.param].find((named) => typeof named === "string") ?? ""
  const [message] = [inner.message, outer.message].filter((text) => typeof text === "string")
  return {
    names: names
      .filter((name) => typeof name === "string" || typeof name === "number")
      .map((name) => String(name).toLowerCase()),
    text: texts
      .filter((text) => typeof text === "string")
      .join("\n")
      .slice(0, maxText),
    param,
    field: param === "" ? stepsOf(detail.loc) || (/^[\w.[\]]{1,200}(?=: )/.exec(message ?? "")?.[0] ?? "") : param,
  }
}

/** Where servers on pydantic say it: `["body", "messages", 0, "content"]`. */
const stepsOf = (steps: Json | undefined): string =>
  Array.isArray(steps) && steps.length <= 20
    ? steps
        .map((step) => (typeof step === "object" ? "" : String(step)))
        .join(".")
        .replace(/^body\./, "")
    : ""

const parsedOr = (text: string): Json => {
  try {
    return JSON.parse(text) as Json
  } catch {
    return text
  }
}
