/**
 * The story of a call that is understood: admit, forward, relay, settle. Nothing is told to the client before Postgres
 * has it: the head waits for the opening, the last byte for the settlement (decisions §3).
 */
import type { Opening } from "../../actors/ledger.ts"
import { sleep, type Timer } from "../../actors/kernel/clock.ts"
import { microToRupiah } from "../../actors/money/micro.ts"
import { Failure } from "../failure/failure.ts"
import type { FailureCode } from "../failure/table.ts"
import type { WireFormat } from "../wire/format.ts"
import { type Admission, admit } from "./admit.ts"
import { paysForInput } from "./afford-body.ts"
import { type Answered, attempt, type AttemptTerms, type Failed } from "./attempt.ts"
import type { Caller } from "./authenticate.ts"
import { type Candidate, candidates, type Chain } from "./candidates.ts"
import { type Delivery, deliveryOf, endingOf, unsettledRecord } from "./ending.ts"
import { fallbackOf, rerouteHeaders } from "./fallback.ts"
import type { Offer } from "../catalogue/live.ts"
import { Outbox, type StreamConnection } from "./outbox.ts"
import { Patience } from "./patience.ts"
import type { GatewayPorts } from "./ports.ts"
import type { Relay } from "./relay.ts"
import { type Routed, route } from "./route.ts"
import { type Booked, type Ending, settle } from "./settle.ts"
import { toolLoop } from "./tool-loop.ts"
import type { Understood } from "./understand.ts"
import type { InputWeight } from "./weigh.ts"
import { Verdict } from "./verdict.ts"
import { withdraw } from "./withdraw.ts"

/** How long the ledger may fail before nothing more is forwarded (decisions §3). */
const LEDGER_PATIENCE_MS = 2_000

/** Of one account's calls within some ten seconds, for want of room; beyond it a refusal takes as long as its `Retry-After`. */
const MANY_REFUSALS = 100
const REFUSAL_PACE_MS = 1_000

/** `request.inputTokens` is what it likely comes to. */
export interface Weighed extends Understood {
  readonly weight: InputWeight
}

export class Story {
  readonly #ports: GatewayPorts
  readonly #format: WireFormat
  readonly #request: Request
  readonly #requestId: string
  readonly #caller: Caller
  readonly #understood: Weighed
  readonly #outbox: Outbox
  readonly #startedAt: number
  readonly #verdict = new Verdict()
  /** What the call holds now; after a reroute another than before. */
  #admission: Admission | undefined
  #relay: Relay | undefined
  #firstTokenMs: number | undefined
  #alerted = false

  constructor(
    ports: GatewayPorts,
    format: WireFormat,
    request: Request,
    requestId: string,
    caller: Caller,
    understood: Weighed,
    connection?: StreamConnection,
  ) {
    this.#ports = ports
    this.#startedAt = ports.clock.monotonic()
    this.#format = format
    this.#request = request
    this.#requestId = requestId
    this.#caller = caller
    this.#understood = understood
    this.#outbox = new Outbox({
      clock: ports.clock,
      heartbeat: this.#heartbeat,
      heartbeatMs: ports.limits.heartbeatMs,
      stallMs: ports.limits.readerStallMs,
      unread: ports.unread,
      connection,
      beforeHeartbeat: () => this.#relay?.release(),
    })
    if (request.signal.aborted) this.#outbox.leave()
    request.signal.addEventListener("abort", () => this.#outbox.leave())
  }

  /** A comment between events, white space before a JSON body, or nothing (decisions §6). */
  get #heartbeat(): string | undefined {
    if (this.#understood.request.stream) return ": heartbeat\n"
    return this.#format.failedReply === undefined ? undefined : " "
  }

  async tell(): Promise<Response | Failure> {
    const { actors, clock, limits } = this.#ports
    const openedAt = clock.now()
    const fallback = fallbackOf(this.#caller.record.fallback, this.#request.headers)
    if (fallback instanceof Failure) return fallback
    const pays = ({ price: { rates } }: Offer) => {
      const tokens = this.#understood.request.inputTokens
      return paysForInput(this.#ports, this.#caller, this.#requestId, { tokens, rates })
    }
    const chain = await candidates(this.#understood, { fallback, pays }, this.#ports, openedAt)
    if (chain instanceof Failure) return chain
    const ledger = await actors.ledger.view()
    if (ledger instanceof Failure) return ledger
    if (ledger.lagMs > LEDGER_PATIENCE_MS) return new Failure("dependency.database_unavailable")
    const admitted = await this.#admit(chain.first)
    if (admitted instanceof Failure) return await this.#refused(admitted)
    // Checked in the turn in which the call is put under way, so that a drain that has begun sees every call.
    if (this.#outbox.left.aborted || this.#ports.draining.aborted) {
      admitted[Symbol.dispose]()
      return new Failure("gateway.capacity", { retryAfterS: 1 })
    }

    const opening = this.#opening(admitted, openedAt)
    const opened = actors.ledger.open(opening)
    const patience = new Patience({
      clock,
      startMs: limits.upstreamStartMs,
      idleMs: limits.upstreamIdleMs,
      wholeMs: limits.upstreamAnswerMs,
    })
    this.#outbox.watchSilence()
    const delivered = this.#forward(chain, admitted, patience, opening)
      .catch((error: unknown) => this.#crash(error, opening))
      .then((delivery) => this.#deliver(delivery))
      .finally(() => this.#ports.underWay.delete(this.#requestId))
    this.#ports.underWay.set(this.#requestId, { ended: delivered, giveUp: () => patience.giveUp() })

    const early = await Promise.race([delivered, this.#outbox.started])
    if (early !== undefined) return early
    return await this.#head(opened, patience, opening)
  }

  /** An account whose calls come again at once, each time that there is no room, is told so a second later. */
  async #refused(failure: Failure): Promise<Failure> {
    if (failure.code !== "gateway.capacity") return failure
    const { refusals, clock } = this.#ports
    const { accountId } = this.#caller.record
    refusals.add(accountId, 1)
    if (refusals.by(accountId) > MANY_REFUSALS) await sleep(clock, REFUSAL_PACE_MS)
    return failure
  }

  /** The head of an answer that has begun: it goes once the opening is durable, or the settlement that says it all. */
  async #head(opened: Promise<"durable" | Failure>, patience: Patience, opening: Opening): Promise<Response | Failure> {
    if ((await opened) instanceof Failure && this.#verdict.withdraw()) {
      patience.giveUp()
      this.#outbox.leave()
      await this.#withdraw(opening, "dependency.database_unavailable")
      return new Failure("dependency.database_unavailable")
    }
    const streamed = this.#understood.request.stream
    // Before anything of an answer is told, another model may still take it over.
    const decided = this.#firstTokenMs !== undefined || this.#relay?.told === true
    const headers = {
      "Content-Type": streamed ? "text/event-stream; charset=utf-8" : "application/json",
      "Cache-Control": "no-store",
      ...(streamed && { "X-Accel-Buffering": "no" }),
      ...(decided && this.#rerouted),
    }
    return new Response(this.#outbox.stream(), { headers })
  }

  async #admit(candidate: Candidate): Promise<Admission | Failure> {
    const window = candidate.offer.model.contextWindow ?? this.#ports.catalogue.largestWindow
    const { least, most } = this.#understood.weight
    const admitted = await admit(this.#ports.actors, {
      requestId: this.#requestId,
      caller: this.#caller,
      request: this.#understood.request,
      leastInputTokens: Math.min(least, window),
      mostInputTokens: Math.min(most, window),
      offer: candidate.offer,
      leastAnswerTokens: candidate.exchange.leastAnswerTokens,
      clock: this.#ports.clock,
      capacityWaitMs: this.#ports.limits.capacityWaitMs,
      left: this.#outbox.left,
    })
    if (!(admitted instanceof Failure)) this.#admission = admitted
    return admitted
  }

  #opening(admission: Admission, openedAt: number): Opening {
    const { request, offer } = this.#understood
    const { record } = this.#caller
    return {
      requestId: this.#requestId,
      accountId: record.accountId,
      keyId: record.keyId,
      leaseId: admission.leaseId,
      model: offer.model.id,
      endpoint: request.endpoint,
      streamed: request.stream,
      hold: admission.hold,
      priceId: admission.offer.price.id,
      openedAt,
      starts: admission.starts,
    }
  }

  async #forward(chain: Chain, admitted: Admission, patience: Patience, opening: Opening): Promise<Delivery> {
    using _ = patience
    using _drain = this.#drainWhenLeft(patience)
    const routed = await route({
      chain,
      patience,
      clock: this.#ports.clock,
      random: this.#ports.random,
      admitted,
      admit: (candidate) => this.#admit(candidate),
      attempt: (candidate, admission) => this.#attempt(candidate, admission, patience),
      wanted: () => !this.#outbox.left.aborted,
    })
    using admission = routed.admission
    const ending = endingOf(routed, {
      streamed: this.#understood.request.stream,
      drainedOut: patience.givenUp && this.#outbox.left.aborted,
      firstTokenMs: this.#firstTokenMs,
      durationMs: this.#elapsedMs(),
    })
    const { actors, withdrawals } = this.#ports
    const booked = await settle(actors, withdrawals, {
      keyHash: this.#caller.keyHash,
      opening: asAdmitted(opening, admission),
      admission,
      ending,
      markers: routed.markers,
      verdict: this.#verdict,
    })
    this.#report(routed, ending, booked)
    this.#learn(routed, ending, booked)
    return deliveryOf(routed, booked)
  }

  /** A client that goes away leaves its backend to be read on for a while, and no longer. */
  #drainWhenLeft(patience: Patience): Disposable {
    const { clock, limits } = this.#ports
    let timer: Timer | undefined
    const drain = () => {
      timer = clock.after(limits.drainLeftMs, () => patience.giveUp())
    }
    this.#outbox.left.addEventListener("abort", drain)
    return {
      [Symbol.dispose]: () => {
        this.#outbox.left.removeEventListener("abort", drain)
        timer?.cancel()
      },
    }
  }

  /** A bug of ours ended the story: the client is told, nothing is charged, and the record says whose fault it was. */
  async #crash(error: unknown, opening: Opening): Promise<Delivery> {
    this.#admission?.[Symbol.dispose]()
    this.#ports.crashed(this.#requestId, error)
    await this.#withdraw(opening, "internal.panic")
    const { model } = this.#understood.offer
    return { kind: "failure", failure: new Failure("internal.panic"), model: model.id, position: undefined }
  }

  /** Before a failure is told of a call that may have been booked, or may still be. */
  async #withdraw(opening: Opening, errorCode: FailureCode): Promise<void> {
    const { actors, withdrawals } = this.#ports
    const record = unsettledRecord(this.#understood.offer, errorCode, this.#firstTokenMs, this.#elapsedMs())
    const booked = asAdmitted(opening, this.#admission ?? opening)
    await withdraw(actors, withdrawals, { opening: booked, records: [record], voided: true })
  }

  async #attempt(candidate: Candidate, admission: Admission, patience: Patience): Promise<Answered | Failed> {
    const { request } = this.#understood
    const { search, random, clock, fetch } = this.#ports
    const terms: AttemptTerms = {
      requestId: this.#requestId,
      network: { fetch, clock },
      nowMs: this.#ports.clock.now(),
      request,
      requestBytes: this.#understood.requestBytes,
      candidate,
      answerLimit: admission.answerLimit,
      clientHeaders: this.#request.headers,
      outbox: this.#outbox,
      patience,
      watch: () => {
        const { model } = candidate.offer
        return this.#ports.health.watch(model.upstream.provider, model.id)
      },
      onRelay: (relay) => (this.#relay = relay),
      onContent: () => {
        patience.started()
        this.#firstTokenMs ??= this.#elapsedMs()
      },
    }
    const { webSearch: wish } = request
    const wanted = () => !this.#outbox.left.aborted
    const end =
      wish === undefined || search === undefined
        ? await attempt(terms)
        : await toolLoop({ attempt: terms, wish, search, hold: admission.hold, random, wanted })
    // Told at once: a retry or another model of the chain may hide it from everyone else.
    if (end.kind === "failed" && end.fault.alert) {
      this.#alerted = true
      const { model } = candidate.offer
      const { status } = end.fault
      this.#ports.alerted({ requestId: this.#requestId, model: model.id, provider: model.upstream.provider, status })
    }
    return end
  }

  /** Tells what is left to tell; the whole answer where nothing has been sent yet, undefined where the head has gone. */
  #deliver(delivery: Delivery): Response | Failure | undefined {
    if (delivery.kind === "failure" && !this.#outbox.isStarted) {
      this.#outbox.end()
      return delivery.failure
    }
    if (delivery.kind === "reply" && !this.#outbox.isStarted) {
      this.#outbox.end()
      const cost = { "X-Cost-Rp": microToRupiah(delivery.charge) }
      const headers = { "Content-Type": "application/json", ...cost, ...this.#rerouted }
      return new Response(JSON.stringify(delivery.body), { headers })
    }
    this.#outbox.write(this.#lastBytes(delivery))
    this.#outbox.end()
    return undefined
  }

  get #rerouted(): Record<string, string> {
    return rerouteHeaders(this.#understood.offer, this.#admission?.offer)
  }

  #lastBytes(delivery: Delivery): string {
    if (delivery.kind === "stream") return delivery.last
    if (delivery.kind === "reply") return JSON.stringify(delivery.body)
    const { failure, model, position } = delivery
    const context = { requestId: this.#requestId, model, position, nowMs: this.#ports.clock.now() }
    if (this.#understood.request.stream) {
      return this.#format.streamFailure(failure, { ...context, started: this.#relay?.told ?? false })
    }
    return JSON.stringify(this.#format.failedReply?.(failure, context) ?? failure.body(this.#requestId))
  }

  /** What the backend counted of the prompt corrects the estimates to come; one turn says it exactly. */
  #learn({ admission }: Routed, { status, tokens, turns, excess }: Ending, { absorbed }: Booked): void {
    if (status !== "ok" || tokens === undefined || turns > 1) return
    const { calibration, factors } = this.#ports
    const { request, weight } = this.#understood
    const counted = tokens.input + tokens.cacheRead + tokens.cacheWrite
    const { id } = admission.offer.model
    // What a file comes to says nothing of how a model cuts text.
    if (request.media === undefined) calibration.learn(id, weight.texts, counted)
    if (absorbed <= excess || counted <= request.inputTokens) return
    const { accountId } = this.#caller.record
    if (weight.documents === 0) factors.learn(accountId, id, "texts", counted / weight.texts)
    else factors.learn(accountId, id, "documents", (counted - weight.texts) / weight.documents)
  }

  #report({ admission }: Routed, ending: Ending, booked: Booked): void {
    this.#ports.finished({
      requestId: this.#requestId,
      accountId: this.#caller.record.accountId,
      keyId: this.#caller.record.keyId,
      model: admission.offer.model.id,
      endpoint: this.#understood.request.endpoint,
      booked,
      ending,
      alert: this.#alerted,
    })
  }

  #elapsedMs(): number {
    return Math.round(this.#ports.clock.monotonic() - this.#startedAt)
  }
}

/** After a reroute a call is charged, and its charge taken back, under the lease and in the periods of its last admission. */
const asAdmitted = (opening: Opening, { leaseId, starts }: Pick<Opening, "leaseId" | "starts">): Opening => ({
  ...opening,
  leaseId,
  starts,
})
