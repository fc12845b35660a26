/** A first-in-first-out queue in one array: taking from the front is O(1), and space is given back when it empties. */
export class Mailbox<T> {
  #items: (T | undefined)[] = []
  #head = 0

  get size(): number {
    return this.#items.length - this.#head
  }

  put(item: T): void {
    this.#items.push(item)
  }

  take(): T | undefined {
    const item = this.#items[this.#head]
    if (item === undefined) return undefined
    this.#items[this.#head++] = undefined
    if (this.#head === this.#items.length) {
      this.#items.length = 0
      this.#head = 0
    } else if (this.#head > 1_024 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    }
    return item
  }

  peek(): T | undefined {
    return this.#items[this.#head]
  }
}
