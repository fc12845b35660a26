/**
 * What is wrong with a seed file, said so that an operator finds the place: file, entry, field, what was found and what
 * is allowed. All problems of a file are told at once, because a start that fails five times for five typos is rude.
 */
import type { TSchema } from "@sinclair/typebox"
import { Value, ValueErrorType } from "@sinclair/typebox/value"
import { isObject } from "../language/json.ts"

export interface CatalogueProblem {
  readonly file: string
  /** The entry, such as `model "claude-opus-5"`; absent when it is the file as a whole. */
  readonly entry?: string
  /** The field's path inside the entry; absent when it is the entry as a whole. */
  readonly field?: string
  /** What was found, as a phrase that follows "found". */
  readonly found: string
  /** What would have been right, as a phrase that follows "allowed". */
  readonly allowed: string
  /** A field that this version does not know. It is passed over, so that a file may serve two versions at once. */
  readonly unknown?: true
}

export const describeProblem = ({ file, entry, field, found, allowed }: CatalogueProblem): string =>
  `${[file, entry, field].filter((part) => part !== undefined).join(": ")}: found ${found}; allowed: ${allowed}`

/** A value as it is shown in a message: JSON, cut where it is long. */
export function shown(value: unknown): string {
  if (value === undefined) return "nothing"
  const json = JSON.stringify(value)
  return json.length > 60 ? `${json.slice(0, 57)}…` : json
}

/** Everything in which `value` departs from the schema; one problem a field. */
export function shapeProblems(file: string, schema: TSchema, value: unknown): CatalogueProblem[] {
  const problems = new Map<string, CatalogueProblem>()
  for (const error of Value.Errors(schema, value)) {
    if (problems.has(error.path)) continue
    const unknownField = error.type === ValueErrorType.ObjectAdditionalProperties
    problems.set(error.path, {
      file,
      ...place(value, error.path),
      found: unknownField ? `a field that is not known, ${shown(error.value)}` : shown(error.value),
      allowed: error.schema.description ?? error.message,
      ...(unknownField ? { unknown: true } : {}),
    })
  }
  return [...problems.values()]
}

/** From a JSON pointer such as `/models/3/upstream/format` to the entry's own name and the path inside it. */
function place(root: unknown, pointer: string): Pick<CatalogueProblem, "entry" | "field"> {
  const [collection, index, ...inside] = pointer
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
  if (collection === undefined) return {}
  if (index === undefined) return { field: collection }
  const entries = isObject(root) ? root[collection] : undefined
  const entry: unknown = Array.isArray(entries) ? entries[Number(index)] : undefined
  const field = inside.reduce(
    (path, part) => (/^\d+$/.test(part) ? `${path}[${part}]` : path === "" ? part : `${path}.${part}`),
    "",
  )
  return { entry: entryName(collection, index, entry), ...(field === "" ? {} : { field }) }
}

function entryName(collection: string, index: string, entry: unknown): string {
  const id = isObject(entry) ? (entry["model"] ?? entry["id"]) : undefined
  if (typeof id !== "string" || id === "") return `${collection}[${index}]`
  return `${nouns[collection] ?? collection} ${shown(id)}`
}
const nouns: Readonly<Record<string, string>> = { models: "model", aliases: "alias", providers: "provider" }
