/** Faults in what decides, and in what becomes of a call. */
import type { Canary } from "./canary.ts"

const settle = { file: "src/gateway/settle.ts", detector: "worlds" } as const
const underWay = { file: "src/gateway/under-way.ts", detector: "worlds" } as const
const booking = { file: "src/gateway/booking.ts", detector: "worlds" } as const
const admit = { file: "src/gateway/admit.ts", detector: "worlds" } as const
const ledger = { file: "actors/ledger.ts", detector: "ledger" } as const
const lane = { file: "actors/ledger-lane.ts", detector: "ledger" } as const
const purse = { file: "actors/money/purse.ts", detector: "purse" } as const

export const callCanaries: readonly Canary[] = [
  {
    ...underWay,
    name: "the head goes before the opening is durable",
    means: "A client has a request id, the process dies, and there is never a record of it.",
    find: "if (this.#isOpened === true || this.#booking?.isDurable === true) {",
    replace: "if (this.#booking !== undefined) {",
    reason: /an answer began and has no record/,
  },
  {
    ...booking,
    name: "the last byte goes before the settlement is durable",
    means: "An answer is seen to its end, the process dies, and nobody is charged for it.",
    find: "bill.record)).then(answered)",
    replace: 'bill.record))\n    answered("durable")',
    reason: /the cost that was told is not the charge|has no record|cannot be held/,
  },
  {
    ...booking,
    name: "503 is told and the call is not withdrawn",
    means: "A client is told that nothing was deducted, asks again, and pays for both.",
    find: "settling.withdraw(ports.actors, ports.withdrawals, settling.settlement(billed, this.#bill.record)).then(",
    replace: "Promise.resolve().then(",
    reason: /a failure was told and charged/,
  },
  {
    ...underWay,
    name: "a client that leaves is refunded",
    means: "Whoever hangs up before the last byte never pays.",
    find: "there(this.#booking).settle(end, isDrainedOut)",
    replace: `const failure = new Failure("dependency.upstream_unavailable")
    const refunded = { kind: "failed", committed: true, fault: { failure, opened: true, alert: false } }
    there(this.#booking).settle(this.hasLeft ? refunded : end, false)`,
    reason: /an answer that came whole is not charged/,
  },
  {
    ...booking,
    name: "a call is priced when it is settled",
    means: "A change of rates acts on calls that were admitted before it.",
    find: "    this.#isCharging = true\n",
    replace: `    this.#isCharging = true
    const { catalogue, clock } = this.#call.ports
    Object.assign(this.#admission, { offer: catalogue.find(this.#admission.offer.model.id, clock.now()) })\n`,
    reason: /it is priced by version \d+, and version \d+ was in force/,
  },
  {
    ...settle,
    name: "a charge is not of the rates in its record",
    means: "A customer who multiplies tokens and rates comes to less than was charged.",
    find: "const actual = price(tokens, admission.offer.price.rates)",
    replace: `const { rates } = admission.offer.price
  const actual = price(tokens, { ...rates, output: (rates.output * 11n) / 10n })`,
    reason: /not true that a charge is its tokens at its price version/,
  },
  {
    ...settle,
    name: "a marker is charged",
    means: "A model that was rerouted from is paid for, and the one that answered too.",
    find: "charge: zero,\n  absorbed: zero,\n  excess: zero,\n  turns: 1,\n  attempts: marker.attempts,",
    replace: "charge: 1n,\n  absorbed: zero,\n  excess: zero,\n  turns: 1,\n  attempts: marker.attempts,",
    reason: /only an answer is charged|does not hold|charge|record/,
  },
  {
    name: "an answer without counts is charged",
    means: "A backend that counts nothing is paid for by guesswork.",
    file: "src/gateway/settle.ts",
    find: "  const { admission } = call\n  const { status, errorCode }",
    replace: `  const { admission } = call
  const counted = { input: 20, cacheRead: 0, cacheWrite: 0, output: 20 }
  if (end.kind === "answered" && end.tokens === undefined) end = { ...end, tokens: counted }
  const { status, errorCode }`,
    detector: "worlds",
    reason: /what no backend has counted is charged/,
  },
  {
    ...admit,
    name: "the account's hold is not given back",
    means: "Each call that is refused, or fails, locks some of its customer's money until the process ends.",
    find: "actors.accounts.release(record.accountId, requestId)",
    replace: "",
    reason: /is held of|req_\d+ holds already/,
  },
  {
    ...admit,
    name: "the key's hold is not given back",
    means: "Each call that is refused, or fails, locks some of its key's budget until the process ends.",
    find: "actors.keys.release(keyHash, requestId)",
    replace: "",
    reason: /reserved twice/,
  },
  {
    ...admit,
    name: "a model's slot is not given back",
    means: "A model stands still after as many calls as it takes at once.",
    find: "actors.models.release(model.id, requestId)",
    replace: "",
    reason: /at rest the slots of/,
  },
  {
    ...admit,
    name: "a hold under the worst case does not lower the answer's limit",
    means: "An answer costs more than is held for it, and the house pays the rest.",
    find: "const answerLimit = affordableLimit(hold, quoted)",
    replace: "const answerLimit = quoted.answerLimit",
    reason: /the house bears what was asked for within the limit/,
  },
  {
    name: "nothing is held",
    means: "A hundred calls at once are forwarded on money for one.",
    file: "actors/leased-purse.ts",
    find: "this.#purse.hold(terms.requestId, hold)",
    replace: "this.#purse.hold(terms.requestId, zero)",
    detector: "worlds",
    reason: /the house bears what was asked for within the limit/,
  },
  {
    ...lane,
    name: "durable is said before the commit",
    means: "What clients were told is lost when the process dies.",
    find: "    this.#queue.push(entry)\n",
    replace: "    this.#queue.push(entry)\n    if (entry.kind !== 'barrier') entry.reply('durable')\n",
    reason: /\(fail\) .*(tells nobody until it is known|one batch after it)/,
  },
  {
    ...lane,
    name: "a void of what is queued is dropped",
    means: "A client was told 503, and is charged by the next batch.",
    find: "if (queued !== undefined) queued.settlement = voided",
    replace: "if (queued !== undefined) void voided",
    reason: /\(fail\) .*replaces a settlement that is voided before it was sent/,
  },
  {
    ...lane,
    name: "a void does not reach the commit that is tried again",
    means: "A client was told 503, and is charged when the database is back.",
    find: "if (sent !== undefined) sent.settlement = voided",
    replace: "if (sent !== undefined) void sent",
    reason: /\(fail\) .*never tries a settlement again that was voided/,
  },
  {
    ...ledger,
    name: "a void overtakes its settlement",
    means: "There is nothing to take back yet; then the charge is booked.",
    find: 'this.#add({ kind: "settle", settlement: voided, reply: () => {} }, accountId)',
    replace: "void accountId",
    reason: /\(fail\) .*follows a settlement that may have been sent by its reversal/,
  },
  {
    ...lane,
    name: "a settlement overtakes what was sent before it",
    means: "A call is ended before it was opened, and stays open for ever.",
    find: "    this.#queue.push(entry)\n",
    replace: "    if (entry.kind === 'settle') this.#queue.unshift(entry)\n    else this.#queue.push(entry)\n",
    reason: /\(fail\) .*commits the first settlement at once/,
  },
  {
    ...purse,
    name: "a charge goes beyond the hold and what is free",
    means: "A balance goes below zero.",
    find: "const charge = smaller(actual, notNegative(this.available))",
    replace: "const charge = actual",
    reason: /\(fail\) over any history a purse conserves money/,
  },
  {
    ...purse,
    name: "a hold that ends is settled twice",
    means: "A customer's purse is empty after half of what was paid for it.",
    find: "this.#settled = plus(this.#settled, charge)",
    replace: "this.#settled = plus(this.#settled, plus(charge, charge))",
    reason: /\(fail\) over any history a purse conserves money/,
  },
  {
    ...purse,
    name: "a growth that was retried is granted twice",
    means: "A process spends money that others have leased.",
    find: "if (granted > this.#granted) this.#granted = granted",
    replace: "this.#granted = plus(this.#granted, granted)",
    reason: /\(fail\) over any history a purse conserves money/,
  },
  {
    name: "a span has the prompt",
    means: "What customers wrote lies at whoever keeps the traces.",
    file: "src/gateway/call-trace.ts",
    find: '"gen_ai.request.model": model.id, ...stream })',
    replace: '"gen_ai.request.model": model.id, ...stream, "gen_ai.input.messages": JSON.stringify(request.body) })',
    detector: "traces",
    reason: /\(fail\) .*holds nothing of what people and backends write/,
  },
  {
    name: "a call waits for its spans to be sent",
    means: "A collector that hangs holds up every call.",
    file: "src/gateway/call.ts",
    find: "  trace?.answered(answer)\n",
    replace: "  trace?.answered(answer)\n  await ports.tracing?.stop()\n",
    detector: "traces",
    reason: /\(fail\) a collector that hangs holds up no call/,
  },
  {
    name: "the end of a process waits for its collector",
    means: "A deploy stands still, or kills what is still being written.",
    file: "src/traces/collector.ts",
    find: "setTimeout(() => this.#end.abort(), withinMs)",
    replace: "setTimeout(() => {}, withinMs)",
    detector: "a collector",
    reason: /\(fail\) .*does not hold up the end of the process/,
  },
  {
    name: "a purse keeps what it gives back",
    means: "Two processes spend the same money.",
    file: "actors/money/purse.ts",
    find: "    this.#returned = plus(this.#returned, amount)\n",
    replace: "",
    detector: "leases",
    reason: /\(fail\) over five hundred interleavings three processes promise no more than there is/,
  },
]
