/**
 * Reads a script's parameters one by one and remembers what it did not like. Each is taken when it is read, so what is
 * left over at the end is what nobody knows: a misspelling, or a parameter of a fault that is not played.
 */
export class Parameters {
  readonly #values: URLSearchParams
  readonly #problems: string[] = []

  constructor(query: string, override: string) {
    this.#values = new URLSearchParams(query)
    for (const [name, value] of new URLSearchParams(override)) this.#values.set(name, value)
  }

  text(name: string): string | undefined {
    const value = this.#values.get(name) ?? undefined
    this.#values.delete(name)
    return value
  }

  integer(name: string, least = 0): number | undefined {
    const value = this.text(name)
    if (value === undefined) return undefined
    const number = /^\d{1,16}$/.test(value) ? Number(value) : -1
    if (number < least) this.complain(`${name} must be an integer of at least ${least}, not "${value}"`)
    return Math.max(number, least)
  }

  oneOf<T extends string>(name: string, allowed: readonly T[]): T | undefined {
    const value = this.text(name)
    if (value === undefined) return undefined
    const found = allowed.find((one) => one === value)
    if (found === undefined) this.complain(`${name} must be one of ${allowed.join(", ")}, not "${value}"`)
    return found
  }

  json(name: string): unknown {
    const value = this.text(name)
    if (value === undefined) return undefined
    try {
      return JSON.parse(value)
    } catch {
      this.complain(`${name} is not JSON`)
      return undefined
    }
  }

  complain(problem: string): void {
    this.#problems.push(problem)
  }

  /** The first problem, an unknown parameter included. */
  problem(): string | undefined {
    const [known] = this.#problems
    if (known !== undefined) return known
    const [unknown] = this.#values.keys()
    return unknown === undefined ? undefined : `"${unknown}" is not a parameter of this script`
  }
}
