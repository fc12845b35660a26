/** The tool calls of one chat stream as neutral events: a call is told when its name is known. */
import type { ModelEvent } from "../../language/event.ts"
import { isObject, type Json, type JsonObject } from "../../language/json.ts"
import { OpenCalls } from "./open-calls.ts"
import type { ToolNames } from "./tool-names.ts"
import { customInput } from "./tools-encode.ts"

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
    const id = textOr(piece.id, "")
    const name = textOr(said.name, "")
    const call = this.#calls.find(piece.index, id, name)
    if (call.id === "") call.id = id
    if (call.name === "") call.name = name
    call.waiting += isObject(said.arguments) ? JSON.stringify(said.arguments) : textOr(said.arguments, "")
    return call.name === "" ? [] : [...this.#announce(call, answerId), ...tell(call)]
  }

  /** The answer is over, and this is asked once: what waited for the end of its call. No arguments are `{}`, as everywhere in this language. */
  close(): ModelEvent[] {
    const events: ModelEvent[] = []
    for (const call of this.#calls.all) {
      const { index } = call
      if (index === undefined) continue
      const last = call.custom ? customInput(call.waiting) : call.toldArguments ? "" : "{}"
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

const textOr = (value: Json | undefined, otherwise: string): string => (typeof value === "string" ? value : otherwise)
