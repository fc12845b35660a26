/** Customers who call one gateway until they are told to stop, and what became of their calls. */
import type { Customer } from "./child.ts"

/** A stream, read to its end: `whole`, or what was wrong with it. */
async function call(url: string, { key }: Customer, model: string): Promise<string> {
  try {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { Authorization: `Bearer ${key}` },
      body: JSON.stringify({ model, stream: true, messages: [{ role: "user", content: "Hello" }] }),
    })
    const text = await response.text()
    return response.ok && text.endsWith("data: [DONE]\n\n") ? "whole" : `${response.status} ${text}`
  } catch (error) {
    return String(error)
  }
}

const BACK_OFF_MS = 100

/** So many callers of one customer, each of whom calls again when a call has ended. */
export function calling(url: string, customer: Customer, model: string, callers: number) {
  const outcomes: string[] = []
  const over = new AbortController()
  const all = Array.from({ length: callers }, async () => {
    while (!over.signal.aborted) {
      const outcome = await call(url, customer, model)
      outcomes.push(outcome)
      // As SDKs do. A connection made at once may still come to the socket of the process that is dying, and break as well.
      if (outcome !== "whole") await Bun.sleep(BACK_OFF_MS)
    }
  })
  return {
    outcomes,
    /** So many more have ended. */
    more: async (count: number) => {
      const wanted = outcomes.length + count
      while (outcomes.length < wanted) await Bun.sleep(50)
    },
    async stop() {
      over.abort()
      await Promise.all(all)
      return outcomes
    },
  }
}
