/**
 * Whether the pieces of a JSON object seen so far make a whole one, without keeping them. Nothing is validated: only
 * brackets and strings are followed.
 */
export class JsonProgress {
  #depth = 0
  #begun = false
  #inString = false
  #escaped = false

  /** The object that began has ended. */
  get whole(): boolean {
    return this.#begun && this.#depth === 0
  }

  push(piece: string): void {
    for (const character of piece) this.#take(character)
  }

  #take(character: string): void {
    if (this.#inString) {
      if (this.#escaped) this.#escaped = false
      else if (character === "\\") this.#escaped = true
      else if (character === '"') this.#inString = false
      return
    }
    if (character === '"') this.#inString = true
    else if (character === "{" || character === "[") {
      this.#depth++
      this.#begun = true
    } else if (character === "}" || character === "]") this.#depth--
  }
}
