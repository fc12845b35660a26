/** Texts as they stand in JSON that others wrote. */
import type { Json } from "../../language/json.ts"

/** What is no text is an empty one. */
export const readText = (value: Json | undefined): string => (typeof value === "string" ? value : "")

/** A text with something in it. */
export const isText = (value: Json | undefined): value is string => typeof value === "string" && value !== ""

/** Said by one coding agent to its vendor alone; its changing value defeats every other backend's cache. */
export const BILLING_HEADER = "x-anthropic-billing-header"

/** A text or a list with something in it: what makes an event usable output. */
export const filled = (value: unknown): boolean =>
  (typeof value === "string" || Array.isArray(value)) && value.length > 0
