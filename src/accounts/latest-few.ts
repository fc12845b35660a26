/** Values by name, of which only so many are kept: the one that was set longest ago goes first. */
export class LatestFew<Value> {
  readonly #kept: number
  readonly #values = new Map<string, Value>()

  constructor(kept: number) {
    this.#kept = kept
  }

  get(name: string): Value | undefined {
    return this.#values.get(name)
  }

  set(name: string, value: Value): void {
    // Put in anew, so that the map's order is the order of last use.
    this.#values.delete(name)
    this.#values.set(name, value)
    if (this.#values.size <= this.#kept) return
    for (const oldest of this.#values.keys()) {
      this.#values.delete(oldest)
      return
    }
  }

  delete(name: string): void {
    this.#values.delete(name)
  }
}
