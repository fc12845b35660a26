/** Faults by which customers once had answers for nothing, or paid for what they had not asked for. */
import type { Canary } from "./canary.ts"

const bounds = { file: "actors/money/price.ts", detector: "worlds" } as const
const underWay = { file: "src/gateway/call-actor.ts", detector: "worlds" } as const
const attempt = { file: "src/gateway/attempt.ts", detector: "worlds" } as const
const clock = { file: "actors/kernel/clock.ts", detector: "worlds" } as const

export const attackCanaries: readonly Canary[] = [
  {
    ...clock,
    name: "a deadline passes while the process stands still",
    means: "Whoever freezes the process with a large body makes the answers free that end in that moment.",
    find: "  const due = machine.running() + delayMs\n",
    replace: "  if (delayMs >= 0) return machine.wait(delayMs, run)\n  const due = machine.running() + delayMs\n",
    reason: /for the process's own lateness|an answer is given away/,
  },
  {
    ...attempt,
    name: "a count is believed up to the limit of one answer",
    means: "Twenty answers to one question cost nothing.",
    find: "tokens === undefined ? { tokens, excess: zero }",
    replace: "tokens === undefined || tokens.output > answerLimit ? { tokens: undefined, excess: zero }",
    reason: /an answer that was counted is taken for uncounted/,
  },
  {
    ...bounds,
    name: "a count is charged whatever was asked for",
    means: "A customer who asks for five tokens pays for eighty thousand, because a backend counts them.",
    find: "const output = Math.min(counted.output, bounds.answerLimit * bounds.choices)",
    replace: "const output = counted.output",
    reason: /more is charged than was asked for/,
  },
  {
    ...bounds,
    name: "several answers are bounded as one",
    means: "Whoever asks for twenty answers at once pays for one.",
    find: "bounds.answerLimit * bounds.choices",
    replace: "bounds.answerLimit",
    reason: /the house bears what was asked for within the limit/,
  },
  {
    file: "actors/period.ts",
    detector: "worlds",
    name: "a new time zone begins a new day",
    means: "Whoever moves through twelve time zones spends a daily and a monthly budget twelve times.",
    find: "period !== undefined && nowMs < period.end ? period : undefined",
    replace: "period !== undefined && nowMs < 0 ? period : undefined",
    reason: /not true that a budget begins anew when its day or month is over, and not before/,
  },
  {
    file: "src/store/budget-leases.ts",
    detector: "time zones",
    name: "a budget is leased for a day that begins while another runs on",
    means: "A process that has not heard of a new time zone spends a budget twice at the old zone's midnight.",
    find: "and r.started_at < ${from} and r.ends_at > ${from}",
    replace: "and r.started_at < ${from} and r.ends_at < ${from}",
    reason: /\(fail\) who has not heard of the new zone leases nothing/,
  },
  {
    file: "actors/slots.ts",
    detector: "slots",
    name: "the last quarter of the slots is anybody's",
    means: "One account with many keys takes a whole model, and the calls of all others are told 429.",
    find: "return this.#presence.held(accountId) < share",
    replace: "return share > 0",
    reason: /\(fail\) slots > of the last quarter never go to an account with its share/,
  },
  {
    file: "actors/fair-queue.ts",
    detector: "slots",
    name: "a full queue is full for everybody",
    means: "One account fills the queue, and the calls of all others are told 429 at once.",
    find: "if (most.size > (own?.size ?? 0) + 1) return newest(largest(most.byKey.values()))",
    replace: "",
    reason: /\(fail\) slots > (are given to an account with few|refuse an account with less)/,
  },
  {
    file: "actors/window.ts",
    detector: "windows",
    name: "a minute has sixty buckets",
    means: "A call at second 0.9 and one at 60.1 are both let in, and a limit is passed by those of a second.",
    find: "const BUCKETS = 61",
    replace: "const BUCKETS = 60",
    reason: /\(fail\) a sliding window > still counts the oldest second/,
  },
  {
    file: "src/gateway/candidates.ts",
    detector: "chains",
    name: "a model may answer whose cached tokens alone are dearer",
    means: "A call that was throttled is billed at many times the rate of the model that was asked for.",
    find: '= ["input", "output", "cacheRead", "cacheWrite"]',
    replace: '= ["input", "output"]',
    reason: /\(fail\) a model of the chain whose rate of .*(Read|Write) alone is above/,
  },
  {
    name: "a new time zone ends the day that runs",
    means: "Whoever moves west has a fresh budget at every midnight on the way.",
    file: "actors/period.ts",
    find: "end: span(zoned(ownEnd - 1, to), period).end",
    replace: "end: span(zoned(nowMs, to), period).end",
    detector: "books",
    reason: /"move": "(load-key|change-time-zone|grow-budget)|check constraint/,
  },
  {
    ...bounds,
    name: "input over the window is charged",
    means: "Who asks a short question pays for as many tokens as a backend says that it counted.",
    find: "bounds.contextWindow ?? Number.MAX_SAFE_INTEGER",
    replace: "Number.MAX_SAFE_INTEGER",
    reason: /more is charged than was asked for/,
  },
  {
    ...underWay,
    name: "the backend of a client that left is given up soon",
    means: "Whoever leaves a long answer soon before its end has all that came until then for nothing.",
    find: "clock.after(this.ports.limits.drainLeftMs,",
    replace: "clock.after(4_000,",
    reason: /a backend was not read to its end/,
  },
  {
    file: "src/gateway/relay.ts",
    detector: "worlds",
    name: "a backend waits for a client that does not read",
    means:
      "Behind a backend that hangs up on slow readers, whoever stops reading has what came until then for nothing.",
    find: "const end = await readEvents(body, this",
    replace: `const waits = async (bytes, out) => {
      while (this.#call.outbox.unread > 4_096 && !this.#call.outbox.hasLeft)
        await new Promise((resolve) => void clock.after(50, resolve))
      out.enqueue(bytes)
    }
    const slow = body.pipeThrough(new TransformStream({ transform: waits }, undefined, { highWaterMark: 0 }))
    const end = await readEvents(slow, this`,
    reason: /a backend had to wait for a client/,
  },
  {
    name: "what clients leave unread is not bounded",
    means: "A few hundred slow readers of long answers take all memory, and everybody's process ends.",
    file: "src/gateway/outbox.ts",
    find: "while (this.#total > this.#limit) {",
    replace: "while (this.#total < 0) {",
    detector: "worlds",
    reason: /bytes for clients that do not read/,
  },
  {
    file: "src/gateway/response-writer.ts",
    detector: "worlds",
    name: "a client that was cut off pays nothing",
    means: "Whoever reads slowly enough to be cut off has an answer for nothing.",
    find: 'onLeave: () => call.receive({ type: "client-left" }),',
    replace: `onLeave: () => {
        call.receive({ type: "client-left" })
        if (/lookAtReader|at add/.test(new Error().stack)) call.stop()
      },`,
    reason: /a backend was not read to its end/,
  },
  {
    file: "src/wire/estimate.ts",
    detector: "images",
    name: "what stands beside an image's address says how large it is",
    means: "An account with a few rupiah has the largest images read, and the house pays for them.",
    find: "walk.addImage(own.length === 0 ? [undefined] : sources, detail)",
    replace: "walk.addImage([others[0] ?? own[0]], detail)",
    reason: /\(fail\) what a backend reads is counted, whatever stands beside it:/,
  },
  {
    file: "src/wire/backend-error.ts",
    detector: "refusals",
    name: "what a backend quotes is taken for its own words",
    means: "A customer who writes of an empty purse closes the operator's key for everybody.",
    find: 'text.split(messageWithin).map(unquoted).join("\\n")',
    replace: "text",
    reason: /\(fail\) what a client has said is not the operator's fault/,
  },
  {
    file: "src/gateway/input-estimate.ts",
    detector: "calibration",
    name: "one account alone is the median",
    means: "The first customer after a start has all others' calls held at more than half above what they are.",
    find: "sorted.length < 2 ? 1 : ",
    replace: "",
    reason: /\(fail\) what one account sends raises its own estimates, and nobody else's/,
  },
]
