/**
 * A set in one array, in no order: each element knows its place, and the last one takes the place of one that leaves. For what
 * comes and goes with every call. A `Set` or a `Map` that has been there for long keeps alive what left it: JavaScriptCore's
 * outgrown tables point to the tables after them, and only a collection of the whole heap sees that nobody asks for them.
 */

/** One that is in one such set at the most. */
export interface Placed {
  /** Its index there; undefined outside. For the set alone. */
  place: number | undefined
}

export class DenseSet<T extends Placed> {
  readonly #elements: T[] = []

  get size(): number {
    return this.#elements.length
  }

  has(element: T): boolean {
    return element.place !== undefined && this.#elements[element.place] === element
  }

  add(element: T): void {
    if (this.has(element)) return
    if (element.place !== undefined) throw new Error("it is in another set already")
    element.place = this.#elements.push(element) - 1
  }

  /** Whether it was in it. */
  delete(element: T): boolean {
    const { place } = element
    if (place === undefined || this.#elements[place] !== element) return false
    element.place = undefined
    const last = this.#elements.pop()
    if (last !== undefined && last !== element) {
      this.#elements[place] = last
      last.place = place
    }
    return true
  }

  /** All of now: what is done with them may change the set. */
  all(): readonly T[] {
    return [...this.#elements]
  }
}
