/**
 * Which fields of a request travel (decisions §13.3): those that a format's shape names, at every depth. Whatever else a
 * client writes is left out and told by name, because a field that nobody here knows may cost what no rate covers.
 * A shape says what may stand in a place; an array there is taken item by item. Pure.
 */
import { isObject, type Json, type JsonObject, present } from "../language/json.ts"
import { type DroppedFields, isRouting, passRule } from "../language/request.ts"

export type Shape =
  /** Whatever stands there: a schema, a tool's input, the client's own labels. */
  | "anything"
  | Fields
  /** A shape that holds itself. */
  | (() => Shape)
  /** The value as it is written for the backend. */
  | { readonly written: (value: Json) => Json }
  /** Only with one of these flags of `anthropic-beta`. */
  | { readonly betas: readonly string[]; readonly shape: Shape }

export interface Fields {
  readonly fields: ReadonlyMap<string, Shape>
  /** What fields that are not named may hold; undefined where they do not travel. */
  readonly others?: Shape
  /** Of the others, those that do not travel all the same. */
  readonly except?: (name: string) => boolean
  /** Whether an object in this place travels; one that does not is named by its `type`. */
  readonly isForwarded?: (object: JsonObject, betas: ReadonlySet<string>) => boolean
  /** The shape of an object that is told apart from the others in this place. */
  readonly variantOf?: (object: JsonObject) => Fields | undefined
  /**
   * The field that says something by being null; any other null here is an absent field. Left out, nulls travel as they came, since a backend may want
   * the field to be there; of the request's own fields none does.
   */
  readonly nullable?: string
}

/** Objects of which these fields travel. Names that stand without a shape hold texts, numbers, flags, or lists of them. */
export const fields = (
  plain: string,
  shaped: Readonly<Record<string, Shape>> = {},
  more: Pick<Fields, "isForwarded" | "variantOf" | "nullable"> = {},
): Fields => ({
  fields: new Map<string, Shape>([
    ...plain
      .split(" ")
      .filter((name) => name !== "")
      .map((name): [string, Shape] => [name, PLAIN]),
    ...Object.entries(shaped),
  ]),
  ...more,
})

const PLAIN: Fields = { fields: new Map() }

/** Objects that travel whole, but for what these fields may be. */
const openObject = (shaped: Readonly<Record<string, Shape>>): Fields => ({
  fields: new Map(Object.entries(shaped)),
  others: "anything",
})

/** One of these; the first stands for whatever else is written. */
export const oneOf = (...allowed: readonly [string, ...string[]]): Shape => ({
  written: (value) => (!present(value) || allowed.some((one) => one === value) ? value : allowed[0]),
})

/** Caches are kept for the short time alone: there is one rate for what is written to them. */
export const CACHE_MARK = fields("type", { ttl: oneOf("5m") })

/** Blocks that are bound to a signature as they stand: nothing is touched but the life of a cache mark. */
export const SIGNED = openObject({ cache_control: openObject({ ttl: oneOf("5m") }) })

/** What one request may say beside what its format's shape names. */
export interface Allowance {
  /** Names that travel for the model that is asked (catalogue `pass`). */
  readonly pass: readonly string[]
  /** The flags of `anthropic-beta` that travel. */
  readonly betas: readonly string[]
}

export const NO_ALLOWANCE: Allowance = { pass: [], betas: [] }

export interface FilteredBody {
  /** What travels of the client's body; a part of which all travels is that part, and no copy. */
  readonly body: JsonObject
  readonly dropped: DroppedFields
}

export function filterFields(body: JsonObject, shape: Fields, { pass, betas }: Allowance): FilteredBody {
  const sieve = new FieldFilter(betas)
  const known = sieve.value(body, widened(shape, pass))
  return { body: isObject(known) ? known : {}, dropped: sieve.dropped }
}

/** A shape with what a catalogue passes for a model. */
const widened = (shape: Fields, pass: readonly string[]): Fields =>
  pass.length === 0 ? shape : withPassed(shape, pass)

function withPassed(shape: Fields, pass: readonly string[]): Fields {
  const names = pass.filter((name) => !shape.fields.has(name) && passRule(name) === undefined)
  if (names.length === 0) return shape
  return {
    ...shape,
    fields: new Map([...shape.fields, ...names.map((name): [string, Shape] => [name, shapeOfPassed(name)])]),
  }
}

/** A template's variables are the client's own text. */
const shapeOfPassed = (name: string): Shape => (name === "chat_template_kwargs" ? "anything" : GUARDED)

/** What a passed field holds is its backend's business, but nothing in it sends the call elsewhere. */
const GUARDED: Fields = { fields: new Map(), others: () => GUARDED, except: isRouting }

const NO_BETAS: ReadonlySet<string> = new Set()

class FieldFilter {
  readonly #betas: ReadonlySet<string>
  #dropped: DroppedNames | undefined
  /** The fields that the value at hand stands in, without places in arrays: a field is named once. */
  readonly #path: string[] = []

  constructor(betas: readonly string[]) {
    this.#betas = betas.length === 0 ? NO_BETAS : new Set(betas)
  }

  get dropped(): DroppedFields {
    return this.#dropped?.result ?? NONE_DROPPED
  }

  /** What of a value travels: the very same value where all of it does, undefined where nothing does. */
  value(value: Json, shape: Shape): Json | undefined {
    if (shape === "anything") return value
    if (typeof shape === "function") return this.value(value, shape())
    if ("written" in shape) return shape.written(value)
    if ("betas" in shape) return this.#withBeta(value, shape)
    if (Array.isArray(value)) return this.#items(value, shape)
    return isObject(value) ? this.#object(value, shape) : value
  }

  #withBeta(value: Json, { betas, shape }: Extract<Shape, { readonly betas: readonly string[] }>): Json | undefined {
    if (betas.some((beta) => this.#betas.has(beta))) return this.value(value, shape)
    return value === null ? undefined : this.#drop()
  }

  #items(items: Json[], shape: Fields): Json[] {
    let kept: Json[] | undefined
    for (let place = 0; place < items.length; place++) {
      const item = items[place] ?? null
      // Where objects are judged, nothing else stands in a list of them.
      const one = shape.isForwarded !== undefined && !isObject(item) ? this.#drop() : this.value(item, shape)
      if (one === item) kept?.push(one)
      else {
        kept ??= items.slice(0, place)
        if (one !== undefined) kept.push(one)
      }
    }
    return kept ?? items
  }

  #object(object: JsonObject, shape: Fields): JsonObject | undefined {
    const other = shape.variantOf?.(object)
    if (other !== undefined) return this.#object(object, other)
    if (shape.isForwarded?.(object, this.#betas) === false) {
      const { type } = object
      return this.#dropNamed(typeof type === "string" ? type : "type")
    }
    const names = Object.keys(object)
    let kept: [string, Json][] | undefined
    for (let place = 0; place < names.length; place++) {
      const name = names[place] ?? ""
      const value = object[name]
      if (value === undefined) continue
      const one = this.#field(name, value, shape)
      if (one === value) kept?.push([name, value])
      else {
        kept ??= entriesOf(object, names.slice(0, place))
        if (one !== undefined) kept.push([name, one])
      }
    }
    // Defined and not assigned, so that a `__proto__` key stays a harmless key.
    return kept === undefined ? object : Object.fromEntries(kept)
  }

  #field(name: string, value: Json, shape: Fields): Json | undefined {
    const one = shape.fields.get(name) ?? (shape.except?.(name) === true ? undefined : shape.others)
    if (value === null && (one === undefined || this.#isAbsent(name, shape))) return undefined
    if (one === undefined) return this.#dropNamed(name)
    this.#path.push(name)
    const kept = this.value(value, one)
    this.#path.pop()
    return kept
  }

  /**
   * `null` in an optional field is an absent field (decisions §12.7), and nobody is told of what is not there. No format has a field of the request
   * itself that says something by being null, and there are backends that refuse `"tools": null` and take a request without tools.
   */
  #isAbsent(name: string, { nullable }: Fields): boolean {
    return nullable === undefined ? this.#path.length === 0 : name !== nullable
  }

  #dropNamed(name: string): undefined {
    this.#path.push(name)
    this.#drop()
    this.#path.pop()
  }

  #drop(): undefined {
    this.#dropped ??= new DroppedNames()
    this.#dropped.add(this.#path)
  }
}

const entriesOf = (object: JsonObject, names: readonly string[]) =>
  names.map((name): [string, Json] => [name, object[name] ?? null])

/**
 * The names of what was left out of a request, as the response header `X-Dropped-Fields` tells them: dotted paths
 * without the places in arrays, each once, at most 20. A header holds ASCII, so that there were more, or one whose
 * name cannot stand in a header, is told by a last member of three dots.
 */
export const DROPPED_FIELDS = "X-Dropped-Fields"
const MAX_NAMES = 20
/** Three dots are no name. */
const NAME = /^(?!\.+$)[A-Za-z0-9_.-]+$/
const LONGEST_NAME = 64
const MORE = "..."

export const NONE_DROPPED: DroppedFields = { names: [], more: false }

/** Collects them; bounded, whatever a client writes. */
class DroppedNames {
  readonly #names = new Set<string>()
  #more = false

  add(path: readonly string[]): void {
    if (this.#more && this.#names.size === MAX_NAMES) return
    // A long name may stand above thousands of others, so it is not copied for each.
    const isLong = path.reduce((sum, { length }) => sum + length + 1, -1) > LONGEST_NAME
    const name = isLong ? "" : path.join(".")
    if (!NAME.test(name)) this.#more = true
    else if (this.#names.size < MAX_NAMES) this.#names.add(name)
    else if (!this.#names.has(name)) this.#more = true
  }

  get result(): DroppedFields {
    return { names: [...this.#names], more: this.#more }
  }
}

/** With more names: fields that the backend's format has no words for, flags of `anthropic-beta` that do not travel. */
export function withNames(dropped: DroppedFields, others: readonly string[]): DroppedFields {
  if (others.length === 0) return dropped
  const { names, more } = dropped
  const all = new DroppedNames()
  for (const name of [...names, ...others]) all.add([name])
  const { result } = all
  return { ...result, more: result.more || more }
}

/** The header's value; undefined where nothing was left out. */
export function droppedFieldsHeader({ names, more }: DroppedFields): string | undefined {
  if (names.length === 0 && !more) return undefined
  const members = more ? [...names, MORE] : names
  return members.join(", ")
}

export type FieldCheck = (value: Json | undefined) => boolean

/** Of dotted paths without array indices those that `body` has, or that have such a value. */
export const presentPaths = (body: JsonObject, all: readonly string[], is: FieldCheck = present): string[] =>
  all.filter((path) => hasPath(body, path.split("."), is))

function hasPath(value: Json | undefined, [name, ...rest]: readonly string[], is: FieldCheck): boolean {
  if (name === undefined) return is(value)
  if (Array.isArray(value)) return value.some((item) => hasPath(item, [name, ...rest], is))
  return isObject(value) && hasPath(value[name], rest, is)
}

/** What stands at the end of a path, the items of lists each for itself. */
export function objectsAt(value: Json | undefined, path: readonly string[]): JsonObject[] {
  if (Array.isArray(value)) return value.flatMap((item) => objectsAt(item, path))
  const [name, ...rest] = path
  if (!isObject(value)) return []
  return name === undefined ? [value] : objectsAt(value[name], rest)
}
