/**
 * The tool calls of one stream, by the pieces that they come in. Backends are sloppy here, each in its own way: an index that
 * is missing, or 0 for every call; an id that is missing, repeated, or new with every piece; a name that comes after the
 * first arguments.
 */
import type { Json } from "../../language/json.ts"

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
