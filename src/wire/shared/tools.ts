/**
 * Tools as backends take and call them: their names, free text as an argument, and the calls of a stream. Backends take letters,
 * digits, `_` and `-` in a name, up to a length. Clients' formats take longer names and other characters. A name that the backend
 * takes is never changed; another keeps its beginning and gets a piece of its hash, and two names are never written alike. The rule
 * needs nothing but the prompt, so whoever reads the answer finds the way back without any state, and a name is written alike in
 * every turn of a conversation (a backend's cache depends on it).
 */
import { CallIds, callsIn, type ModelEvent, type Prompt, type ToolCallPart } from "../../language/prompt.ts"
import { parseToolInput } from "../../language/exact-numbers.ts"
import { type Json, type JsonObject, isObject, readText } from "../../language/json.ts"
import { ToolInputs } from "../body.ts"
import { JsonProgress } from "./json-gaps.ts"

/** Lengths, in characters. */
export interface NameLimits {
  /** A name up to this is left alone, where its characters are taken. */
  readonly longest: number
  /** What another name is shortened to. */
  readonly shortened: number
}

/** What the narrowest formats take: chat, Converse, the names of schemas. */
export const NARROW: NameLimits = { longest: 64, shortened: 64 }

const HASH_DIGITS = 8

export interface ToolNames {
  /** What the backend is told. */
  written(name: string): string
  /** What the client calls it. A name that was not written is the model's own idea, and stays. */
  original(written: string): string
  /** Whether the client's tool of this (original) name takes free text. */
  isCustom(name: string): boolean
}

export function toolNames(prompt: Prompt, limits: NameLimits): ToolNames {
  const byName = new Map<string, string>()
  const byWritten = new Map<string, string>()
  const names = namesIn(prompt)
  const [taken, others] = [
    names.filter((name) => isTaken(name, limits)),
    names.filter((name) => !isTaken(name, limits)),
  ]
  // The names that need no change come first, so that no shortened one takes theirs.
  for (const name of [...taken, ...others]) {
    let written = writtenName(name, limits)
    while ((byWritten.get(written) ?? name) !== name) written = shortened(name, `${written}\n${name}`, limits)
    byName.set(name, written)
    byWritten.set(written, name)
  }
  const custom = new Set(prompt.tools.flatMap((tool) => (tool.type === "custom" ? [tool.name] : [])))
  return {
    written: (name) => byName.get(name) ?? writtenName(name, limits),
    original: (written) => byWritten.get(written) ?? written,
    isCustom: (name) => custom.has(name),
  }
}

/** The name itself where it is taken. */
export const writtenName = (name: string, limits: NameLimits): string =>
  isTaken(name, limits) ? name : shortened(name, name, limits)

const isTaken = (name: string, { longest }: NameLimits): boolean =>
  name.length <= longest && /^[a-zA-Z0-9_-]+$/.test(name)

/** `hashed` tells apart what would be shortened alike. */
function shortened(name: string, hashed: string, limits: NameLimits): string {
  const hash = new Bun.CryptoHasher("sha256").update(hashed).digest("hex").slice(0, HASH_DIGITS)
  const kept = name.replace(/[^a-zA-Z0-9_-]/g, "_").slice(0, limits.shortened - HASH_DIGITS - 1)
  return `${kept}_${hash}`
}

/** Every tool that the prompt speaks of, those that were only called earlier too. */
function namesIn(prompt: Prompt): string[] {
  const names = new Set<string>()
  for (const tool of prompt.tools) if (tool.type !== "web-search") names.add(tool.name)
  if (prompt.toolChoice?.kind === "tool") names.add(prompt.toolChoice.name)
  // A call of a large request may come as its id alone (bodies/prune.ts).
  for (const { name } of callsIn(prompt)) if (name !== "") names.add(name)
  return [...names]
}

/** The most searches of one call at a backend: each costs there, and has no price of its own here (decisions §13.3). */
const MOST_SEARCHES = 5

/** What is written where a backend searches by itself. */
export const mostSearches = (asked: Json | undefined): number =>
  typeof asked === "number" && asked < MOST_SEARCHES ? asked : MOST_SEARCHES

/**
 * Tools that take free text, towards backends that know functions alone: a function with one string, whose description says
 * what the tool's grammar asks for. The way back takes the text out of the arguments again.
 */
export function freeTextSchema(grammar: JsonObject | undefined): JsonObject {
  const input: JsonObject = { type: "string" }
  if (typeof grammar?.["definition"] === "string") {
    const syntax = typeof grammar["syntax"] === "string" ? `${grammar["syntax"]} ` : ""
    input["description"] = `Text that follows this ${syntax}grammar:\n${grammar["definition"]}`
  }
  return { type: "object", properties: { input }, required: ["input"], additionalProperties: false }
}

/** The text that the arguments hold; a model that wrote something else is taken at its word. */
export function freeText(written: string): string {
  try {
    const parsed: unknown = JSON.parse(written)
    return isObject(parsed) && typeof parsed["input"] === "string" ? parsed["input"] : written
  } catch {
    return written
  }
}

/**
 * A call's input, where a format has it as an object. Arguments that are none, such as those that an answer limit cut
 * off, are kept as they are under `raw`: a conversation must not end for good because one call in it went wrong.
 */
export function toolInput(call: Pick<ToolCallPart, "arguments" | "custom">, inputs = new ToolInputs()): JsonObject {
  const { arguments: text, custom } = call
  if (custom) return { input: text }
  return (inputs.take(text) ? inputOf(text) : undefined) ?? { raw: text }
}

/** The same as a text, which stays as it is where it is of an object, and where it has too many values to tell. */
export function toolInputText(call: Pick<ToolCallPart, "arguments" | "custom">, inputs: ToolInputs): string {
  const { arguments: text, custom } = call
  const isKept = !custom && text.trim() !== "" && (!inputs.take(text) || inputOf(text) !== undefined)
  return isKept ? text : JSON.stringify(toolInput(call))
}

/** Undefined where it is no object. */
function inputOf(text: string): JsonObject | undefined {
  if (text.trim() === "") return {}
  try {
    const parsed = parseToolInput(text)
    return isObject(parsed) ? parsed : undefined
  } catch {
    return undefined
  }
}

/** As far as it is known; empty until it is. An id is never changed once it is known. */
interface NamedCall {
  readonly id: string
  readonly name: string
}

interface CallPiece {
  readonly index: Json | undefined
  /** Empty where the piece has none, as the other texts. */
  readonly id: string
  readonly name: string
  readonly arguments: string
}

/**
 * The tool calls of one stream, put together from pieces. Backends are sloppy here, each in its own way: an index that is missing,
 * or 0 for every call; an id that is missing, repeated, or new with every piece; a name that comes after the first arguments.
 */
export class OpenCalls<Call extends NamedCall> {
  readonly #make: () => Call
  readonly #calls: Call[] = []
  /** By the first id that was told of a call. */
  readonly #byId = new Map<string, Call>()
  readonly #byIndex = new Map<number, Call>()
  readonly #arguments = new Map<Call, JsonProgress>()

  constructor(make: () => Call) {
    this.#make = make
  }

  /** In the order in which they began. */
  get all(): readonly Call[] {
    return this.#calls
  }

  /** The call that a piece belongs to; another one where it begins one. Each piece is asked for once. */
  find(piece: CallPiece): Call {
    const { id } = piece
    const named = this.#byId.get(id)
    const call = named === undefined || this.#sharesId(named, piece) ? this.#at(piece) : named
    if (id !== "" && call.id === "") this.#byId.set(id, call)
    this.#arguments.get(call)?.push(piece.arguments)
    return call
  }

  #at({ index, id, name, arguments: begun }: CallPiece): Call {
    const here = typeof index === "number" ? this.#byIndex.get(index) : undefined
    if (here !== undefined && !isAnother(here, id, name) && !this.#isAgain(here, name, begun)) return here
    const last = this.#calls.at(-1)
    if (last !== undefined && name === "" && id === "") return last
    const call = this.#make()
    this.#calls.push(call)
    this.#arguments.set(call, new JsonProgress())
    if (typeof index === "number") this.#byIndex.set(index, call)
    return call
  }

  /** Some backends give several calls one id. Of each the index is another then, and it is told by its name again. */
  #sharesId(call: Call, { index, name }: CallPiece): boolean {
    if (name === "" || call.name === "" || typeof index !== "number" || this.#byIndex.get(index) === call) return false
    return name !== call.name || this.#arguments.get(call)?.whole === true
  }

  /** Without ids a tool that is called twice at one index is told by its name again, and arguments that begin after whole ones. */
  #isAgain(call: Call, name: string, begun: string): boolean {
    return name !== "" && name === call.name && begun.startsWith("{") && this.#arguments.get(call)?.whole === true
  }
}

/** A piece at a call's index is of another call when it has a name again, and another name or another id. */
const isAnother = (call: NamedCall, id: string, name: string): boolean =>
  call.name !== "" && name !== "" && (name !== call.name || (id !== "" && call.id !== ""))

interface Call {
  /** The backend's own. */
  id: string
  name: string
  /** Among the calls that were told of; undefined until the name is known. */
  index: number | undefined
  custom: boolean
  /** Arguments that are not told yet. */
  waiting: string
  argumentsSent: boolean
}

export class CallReader {
  readonly #names: ToolNames
  readonly #calls = new OpenCalls<Call>(() => ({
    id: "",
    name: "",
    index: undefined,
    custom: false,
    waiting: "",
    argumentsSent: false,
  }))
  readonly #ids: CallIds
  #started = 0

  constructor(prompt: Prompt) {
    this.#names = toolNames(prompt, NARROW)
    this.#ids = new CallIds(prompt)
  }

  get called(): boolean {
    return this.#started > 0
  }

  /** `answerId` makes an id for a call that came without one. */
  take(piece: JsonObject, answerId: string): ModelEvent[] {
    const said: JsonObject = isObject(piece.function) ? piece.function : {}
    const id = readText(piece.id)
    const name = readText(said.name)
    const text = isObject(said.arguments) ? JSON.stringify(said.arguments) : readText(said.arguments)
    const call = this.#calls.find({ index: piece.index, id, name, arguments: text })
    if (call.id === "") call.id = this.#ids.own(id)
    if (call.name === "") call.name = name
    call.waiting += text
    return call.name === "" ? [] : [...this.#announce(call, answerId), ...tell(call)]
  }

  /** The answer is over, and this is asked once: what waited for the end of its call. No arguments are `{}`, as everywhere in this language. */
  close(): ModelEvent[] {
    const events: ModelEvent[] = []
    for (const { index, custom, waiting, argumentsSent } of this.#calls.all) {
      if (index === undefined) continue
      const last = custom ? freeText(waiting) : argumentsSent ? "" : "{}"
      if (last !== "") events.push({ type: "tool-call-delta", index, arguments: last })
    }
    return events
  }

  #announce(call: Call, answerId: string): ModelEvent[] {
    if (call.index !== undefined) return []
    const index = this.#started++
    const name = this.#names.original(call.name)
    call.index = index
    call.id ||= this.#ids.made(answerId, index)
    call.custom = this.#names.isCustom(name)
    return [{ type: "tool-call-start", index, id: call.id, name, custom: call.custom }]
  }
}

/** A custom tool's text is wrapped in JSON, and can be unwrapped only when it is whole. */
function tell(call: Call): ModelEvent[] {
  const { index, waiting } = call
  if (index === undefined || call.custom || waiting === "") return []
  call.waiting = ""
  call.argumentsSent = true
  return [{ type: "tool-call-delta", index, arguments: waiting }]
}

/** Arguments that are not were cut off, or are not what a model was asked for. */
export function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
