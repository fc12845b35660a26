/**
 * The tool calls of one stream, put together from pieces. Backends are sloppy here, each in its own way: an index that is
 * missing, or 0 for every call; an id that is missing, repeated, or new with every piece; a name that comes after the first
 * arguments.
 */
import { readText } from "./text.ts"
import type { ModelEvent } from "../../language/event.ts"
import { isObject, type Json, type JsonObject } from "../../language/json.ts"
import { freeText } from "./free-text.ts"
import type { ToolNames } from "./tool-names.ts"

/** As far as it is known; empty until it is. An id is never changed once it is known. */
export interface NamedCall {
  readonly id: string
  readonly name: string
}

export class OpenCalls<Call extends NamedCall> {
  readonly #make: () => Call
  readonly #calls: Call[] = []
  /** By the first id that was told of a call. */
  readonly #byId = new Map<string, Call>()
  readonly #byIndex = new Map<number, Call>()

  constructor(make: () => Call) {
    this.#make = make
  }

  /** In the order in which they began. */
  get all(): readonly Call[] {
    return this.#calls
  }

  /** The call that a piece with this index, id and name belongs to; another one where it begins one. */
  find(index: Json | undefined, id: string, name: string): Call {
    const call = this.#byId.get(id) ?? this.#at(index, id, name)
    if (id !== "" && call.id === "") this.#byId.set(id, call)
    return call
  }

  #at(index: Json | undefined, id: string, name: string): Call {
    const here = typeof index === "number" ? this.#byIndex.get(index) : undefined
    if (here !== undefined && !isAnother(here, id, name)) return here
    const last = this.#calls.at(-1)
    if (last !== undefined && name === "" && id === "") return last
    const call = this.#make()
    this.#calls.push(call)
    if (typeof index === "number") this.#byIndex.set(index, call)
    return call
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
  toldArguments: boolean
}

export class CallReader {
  readonly #names: ToolNames
  readonly #calls = new OpenCalls<Call>(() => ({
    id: "",
    name: "",
    index: undefined,
    custom: false,
    waiting: "",
    toldArguments: false,
  }))
  #told = 0

  constructor(names: ToolNames) {
    this.#names = names
  }

  get called(): boolean {
    return this.#told > 0
  }

  /** `answerId` makes an id for a call that came without one. */
  take(piece: JsonObject, answerId: string): ModelEvent[] {
    const said: JsonObject = isObject(piece.function) ? piece.function : {}
    const id = readText(piece.id)
    const name = readText(said.name)
    const call = this.#calls.find(piece.index, id, name)
    if (call.id === "") call.id = id
    if (call.name === "") call.name = name
    call.waiting += isObject(said.arguments) ? JSON.stringify(said.arguments) : readText(said.arguments)
    return call.name === "" ? [] : [...this.#announce(call, answerId), ...tell(call)]
  }

  /** The answer is over, and this is asked once: what waited for the end of its call. No arguments are `{}`, as everywhere in this language. */
  close(): ModelEvent[] {
    const events: ModelEvent[] = []
    for (const call of this.#calls.all) {
      const { index } = call
      if (index === undefined) continue
      const last = call.custom ? freeText(call.waiting) : call.toldArguments ? "" : "{}"
      if (last !== "") events.push({ type: "tool-call-delta", index, arguments: last })
    }
    return events
  }

  #announce(call: Call, answerId: string): ModelEvent[] {
    if (call.index !== undefined) return []
    const index = this.#told++
    const name = this.#names.original(call.name)
    call.index = index
    call.id ||= madeId(answerId, index)
    call.custom = this.#names.isCustom(name)
    return [{ type: "tool-call-start", index, id: call.id, name, custom: call.custom }]
  }
}

/** A custom tool's text is wrapped in JSON, and can be unwrapped only when it is whole. */
function tell(call: Call): ModelEvent[] {
  const { index, waiting } = call
  if (index === undefined || call.custom || waiting === "") return []
  call.waiting = ""
  call.toldArguments = true
  return [{ type: "tool-call-delta", index, arguments: waiting }]
}

/** An id that is the same when the same answer is read again, and of another answer another; at most 40 characters. */
const madeId = (answerId: string, index: number): string =>
  `call_${answerId.replace(/[^a-zA-Z0-9]/g, "").slice(-28)}_${index}`
