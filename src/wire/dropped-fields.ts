/**
 * The names of what was left out of a request, as the response header `X-Dropped-Fields` tells them: dotted paths without
 * the places in arrays, each once, at most 20. A header holds ASCII, so that there were more, or one whose name cannot
 * stand in a header, is told by a last member of three dots.
 */
import type { DroppedFields } from "../language/request.ts"

export const DROPPED_FIELDS = "X-Dropped-Fields"
const MOST_NAMES = 20
/** Three dots are no name. */
const NAME = /^(?!\.+$)[A-Za-z0-9_.-]{1,64}$/
const MORE = "..."

export const NONE_DROPPED: DroppedFields = { names: [], more: false }

/** Collects them; bounded, whatever a client writes. */
export class DroppedNames {
  readonly #names = new Set<string>()
  #more = false

  add(path: readonly string[]): void {
    if (this.#more && this.#names.size === MOST_NAMES) return
    const name = path.join(".")
    if (!NAME.test(name)) this.#more = true
    else if (this.#names.size < MOST_NAMES) this.#names.add(name)
    else if (!this.#names.has(name)) this.#more = true
  }

  get told(): DroppedFields {
    return { names: [...this.#names], more: this.#more }
  }
}

/** With more names: fields that the backend's format has no words for, flags of `anthropic-beta` that do not travel. */
export function withNames(dropped: DroppedFields, others: readonly string[]): DroppedFields {
  if (others.length === 0) return dropped
  const { names, more } = dropped
  const all = new DroppedNames()
  for (const name of [...names, ...others]) all.add([name])
  const { told } = all
  return { ...told, more: told.more || more }
}

/** The header's value; undefined where nothing was left out. */
export function droppedHeader({ names, more }: DroppedFields): string | undefined {
  if (names.length === 0 && !more) return undefined
  const members = more ? [...names, MORE] : names
  return members.join(", ")
}
