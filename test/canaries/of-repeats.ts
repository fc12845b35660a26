/** Faults in what is taken for a repeat of a call that an SDK has sent before. */
import type { Canary } from "./canary.ts"

const deduplication = { file: "src/gateway/call-deduplication.ts", detector: "worlds" } as const
const retries = { file: "src/gateway/sdk-retries.ts", detector: "worlds" } as const

export const repeatCanaries: readonly Canary[] = [
  {
    ...retries,
    name: "a repeat is known by its length alone",
    means: "Whoever counts what it sends is given the answer to another question.",
    find: "      if (call.fingerprint !== fingerprint) continue\n",
    replace: "",
    reason: /which asked for something else|is told that its key is another/,
  },
  {
    ...deduplication,
    name: "a call that was never sent before is a repeat",
    means: "Several samples that are asked for at once are one answer.",
    find: "retries > 0 ? this.#retries.find(call)",
    replace: "retries >= 0 ? this.#retries.find(call)",
    reason: /and was never sent before/,
  },
  {
    ...retries,
    name: "what nobody reads any more is not repeated",
    means: "A stream that is cut is paid for twice, because the SDK asks again.",
    find: "if (call.shared.hasLeft) return call",
    replace: "if (call.shared.hasLeft) continue",
    reason: /is charged beside req_\d+, which it repeats/,
  },
  {
    ...retries,
    name: "a connection that is dead and not missed is waited for",
    means: "On a mobile network each call that is sent again is paid for twice.",
    find: "return equal.length === 1 && !mayBeRefused ? equal[0] : undefined",
    replace: "return equal.length === 1 && mayBeRefused ? equal[0] : undefined",
    reason: /is charged beside req_\d+, which it repeats/,
  },
  {
    file: "src/gateway/call.ts",
    detector: "worlds",
    name: "what an SDK sends again is a repeat whatever the owner says",
    means: "Software that counts its own retries never gets another answer.",
    find: "caller.record.replaysRetries === false ? undefined : retryCountOf(request.headers)",
    replace: "retryCountOf(request.headers)",
    reason: /which its owner has turned off/,
  },
  {
    file: "src/gateway/replayable-call.ts",
    detector: "worlds",
    name: "what has come through is given again",
    means: "Whoever always counts one too many has the same answer again and again for nothing.",
    find: "    this.isKeptOnDelivery = durable !== undefined\n",
    replace: "    this.isKeptOnDelivery = true\n",
    reason: /which had come through/,
  },
  {
    file: "src/gateway/shared-response.ts",
    detector: "worlds",
    name: "who joins an answer misses its beginning",
    means: "A stream that is asked for again begins in mid-sentence.",
    find: "    this.#flushTexts()\n    reader.catchUp(this.#chunks)",
    replace: "    reader.catchUp(this.#chunks)",
    reason: /and is given other bytes|without a terminal event/,
  },
]
