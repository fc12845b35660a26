/**
 * A responses stream put together into the response that a call without a stream would have got: the one that its last
 * event carries. Some backends leave the output out there, having sent each item before; then it is made of those.
 */
import { isObject, type Json, type JsonObject } from "../../language/json.ts"
import type { Gatherer } from "../format.ts"
import { eventType, type SseEvent } from "../sse.ts"

export const gatherer = (): Gatherer => new ResponseGatherer()

class ResponseGatherer implements Gatherer {
  readonly #items = new Map<number, Json>()
  #response: JsonObject = {}

  take(event: SseEvent, body: JsonObject | undefined): void {
    if (body === undefined) return
    const { item, output_index: index, response } = body
    const type = eventType(event, body)
    if (type === "response.output_item.done" && isObject(item))
      this.#items.set(typeof index === "number" ? index : this.#items.size, item)
    if ((type === "response.completed" || type === "response.incomplete") && isObject(response))
      this.#response = response
  }

  reply(): JsonObject {
    const { output } = this.#response
    if ((Array.isArray(output) && output.length > 0) || this.#items.size === 0) return this.#response
    const items = [...this.#items].sort(([one], [other]) => one - other)
    return { ...this.#response, output: items.map(([, item]) => item) }
  }
}
