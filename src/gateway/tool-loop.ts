/**
 * The server-side tool loop: a model that asks for a web search is answered by the gateway, which searches and calls its
 * backend again, until the model is done (decisions §8). The client is told one answer. Every turn is priced on its own
 * tokens and their sum is charged, so a turn is only begun when the hold still pays for it.
 */
import { sleep } from "../../actors/kernel/clock.ts"
import { type Micro, plus, zero } from "../../actors/money/micro.ts"
import { furtherLimit, noTokens, type Tokens, totalTokens } from "../../actors/money/price.ts"
import { Failure } from "../failure/failure.ts"
import type { JsonObject } from "../language/json.ts"
import type { ModelRequest, WebSearchOptions } from "../language/request.ts"
import type { Search } from "../search/searx.ts"
import { estimateInputTokens } from "../wire/estimate.ts"
import type { Exchange } from "../wire/exchange.ts"
import {
  type GatewayEnd,
  SearchedAnswer,
  type Turn,
  turnOfReply,
  TurnReader,
} from "../wire/messages/server-tools-answer.ts"
import { type FoundPage, type SearchErrorCode, searchId } from "../wire/messages/content.ts"
import { type Admission, SEARCH_LOOP } from "./admit.ts"
import {
  type AnsweredEnd,
  attempt,
  type End,
  type FailedEnd,
  type AttemptedCall,
  type Turn as AskedTurn,
} from "./attempt.ts"
import type { GatewayPorts } from "./ports.ts"

/** Where the client names no limit of its own; a model may ask for several at once. */
const MAX_SEARCHES = 20
/** In UTF-16 units. */
const LONGEST_QUERY = 1_000

/** What a loop needs of its call. */
export interface LoopedCall extends RetriedCall {
  /** What the call holds now. */
  readonly admission: Admission
}

export interface Loop {
  readonly first: AskedTurn
  readonly webSearch: WebSearchOptions
  readonly search: Search
  /** Of a later turn. */
  readonly hooks?: RetryHooks
}

export async function toolLoop(call: LoopedCall, loop: Loop): Promise<End> {
  return await new ToolLoop(call, loop).run()
}

interface PlayedTurn extends Pick<AnsweredEnd, "tokens" | "excess"> {
  readonly kind: "played"
  readonly turn: Turn
}

class ToolLoop {
  readonly #call: LoopedCall
  readonly #loop: Loop
  readonly #answer = new SearchedAnswer()
  /** What was withheld of a stream until there was something to tell. */
  #buffered = ""
  /** Of all turns; undefined once one could not be read. */
  #tokens: Tokens | undefined = noTokens
  #excess: Micro = zero
  /** What the turns so far have said. */
  #said: JsonObject | undefined

  constructor(call: LoopedCall, loop: Loop) {
    this.#call = call
    this.#loop = loop
  }

  async run(): Promise<End> {
    let { request, answerLimit } = this.#loop.first
    for (let turns = 1; ; turns++) {
      const played = await this.#play(request, answerLimit, turns)
      if (played.kind === "failed") {
        if (turns === 1) return played
        // Estimates are shy of some texts: the backend says what `#next` did not foresee, and the turns before it are paid for.
        if (isOverflow(played)) return this.#done(turns - 1, "model_context_window_exceeded")
        // A later turn's failure is the answer's: what was sent cannot be taken back, and nothing is begun anew.
        return laterFailed(played)
      }
      const { turn, tokens, excess } = played
      this.#answer.take(turn)
      this.#tokens = sum(this.#tokens, tokens)
      this.#excess = plus(this.#excess, excess)
      if (turn.searches.length === 0 || turn.end["stop_reason"] !== "tool_use") return this.#done(turns)
      await this.#search(turn, turns)
      // The client's own tools are its to run; it has the searches' results when it comes back with theirs.
      if (turn.blocks.some(({ type }) => type === "tool_use")) return this.#done(turns)
      const next = this.#next(request, tokens, turns)
      if (typeof next === "string") return this.#done(turns, next)
      request = next.request
      answerLimit = next.answerLimit
    }
  }

  /** One turn; a later one is tried again by itself, at other members too, and has a time of its own to begin. */
  async #play(request: ModelRequest, answerLimit: number, turn: number): Promise<FailedEnd | PlayedTurn> {
    let read: (() => Turn) | undefined
    const once = () => {
      const exchange = this.#exchange((reading) => (read = reading))
      return attempt(this.#call, { request, answerLimit, offer: this.#loop.first.offer, exchange })
    }
    if (turn > 1) this.#call.timeouts.beginTurn()
    const end = await (turn === 1 ? once() : retry(once, this.#call, laterHooks(this.#loop.hooks)))
    if (end.kind === "failed") return end
    if (typeof end.last === "string") this.#buffered += end.last
    if (read === undefined) throw new Error("an answer that nobody has read")
    return { kind: "played", turn: read(), tokens: end.tokens, excess: end.excess }
  }

  /** The member's own exchange, of which a turn is withheld what only the whole answer can say. */
  #exchange(onRead: (turn: () => Turn) => void): Exchange {
    const { blocksSent } = this.#answer
    const { exchange: own } = this.#call.admission.seat
    const exchange = this.#said === undefined ? own : own.continued(this.#said)
    const reading = { blocksSent, clientSources: this.#loop.webSearch.clientSources }
    const { backend, path, minAnswerTokens } = exchange
    return {
      backend,
      path,
      minAnswerTokens,
      encodeRequest: (maxOutputTokens, anthropicBeta) => exchange.encodeRequest(maxOutputTokens, anthropicBeta),
      continued: (said) => exchange.continued(said),
      asStream: () => exchange.asStream(),
      gather: (mostLength) => exchange.gather(mostLength),
      readReply(body, view) {
        const reply = exchange.readReply(body, view)
        if (!(reply instanceof Failure)) onRead(() => turnOfReply(reply.body, reading))
        return reply
      },
      streamReader(view) {
        const reader = new TurnReader(exchange.streamReader(view), reading)
        onRead(() => reader.turn())
        return reader
      },
    }
  }

  /** Runs a turn's searches side by side, and tells of each when those before it are told. */
  async #search({ searches }: Turn, turn: number): Promise<void> {
    const { requestId } = this.#call
    this.#call.onContent()
    const running = searches.map((input) => this.#run(input))
    for (const [place, input] of searches.entries()) {
      const id = searchId(requestId, turn, place)
      this.#tell(this.#answer.ask(id, input))
      this.#tell(this.#answer.found(id, (await running[place]) ?? "unavailable"))
    }
  }

  /** Nothing that goes wrong with a search is a failure of the call: the model is told, and goes on. */
  async #run({ query }: JsonObject): Promise<readonly FoundPage[] | SearchErrorCode> {
    const { webSearch, search } = this.#loop
    if (typeof query !== "string" || query.trim() === "") return "invalid_tool_input"
    if (query.length > LONGEST_QUERY) return "query_too_long"
    if (this.#answer.searches >= Math.min(webSearch.maxUses ?? MAX_SEARCHES, MAX_SEARCHES)) return "max_uses_exceeded"
    this.#answer.countSearch()
    return await search(query, webSearch.domains, this.#call.timeouts.signal)
  }

  /** The next turn, or why there is none: the format's own reasons, after which a client may go on. */
  #next(
    request: ModelRequest,
    tokens: Tokens | undefined,
    turns: number,
  ): { readonly request: ModelRequest; readonly answerLimit: number } | GatewayEnd {
    const { first } = this.#loop
    const { model, price } = first.offer
    const spent = this.#tokens
    if (turns === SEARCH_LOOP.turns || !this.#call.isClientWaiting || tokens === undefined || spent === undefined)
      return "pause_turn"
    const answerLeft =
      Math.min(first.request.maxOutputTokens ?? model.maxOutputTokens, model.maxOutputTokens) - spent.output
    if (answerLeft < 1) return "max_tokens"
    const message = this.#answer.message()
    // What was counted and what was found since; a backend that counts shyly is not believed.
    const counted = totalTokens(tokens) + estimate(this.#answer.newest())
    const inputTokens = Math.max(first.request.inputTokens + estimate([message]), counted)
    if (model.contextWindow !== null && inputTokens > model.contextWindow) return "model_context_window_exceeded"
    const answerLimit = furtherLimit(this.#call.admission.hold, spent, {
      inputTokens,
      clientLimit: answerLeft,
      modelLimit: model.maxOutputTokens,
      choices: 1,
      rates: price.rates,
    })
    if (answerLimit === undefined) return "pause_turn"
    this.#said = message
    return { request: { ...request, inputTokens }, answerLimit }
  }

  #tell(events: string): void {
    if (!this.#loop.first.request.stream) return
    const held = this.#buffered
    this.#buffered = ""
    this.#call.onCommit()
    this.#call.write(held + events)
  }

  #done(turns: number, end?: GatewayEnd): AnsweredEnd {
    const last = this.#loop.first.request.stream
      ? this.#buffered + this.#answer.lastEvents(this.#tokens, end)
      : this.#answer.reply(this.#tokens, end)
    const tokens = this.#tokens
    return {
      kind: "answered",
      tokens,
      excess: tokens === undefined ? zero : this.#excess,
      last,
      turns,
    }
  }
}

/** The hooks have heard of it already. */
const laterFailed = (end: FailedEnd) => ({ ...end, committed: true, isReported: true })

/** A prompt that is too long ends the answer with the turns before it, whatever another member would take. */
const laterHooks = ({ moveToAnother: move, ...hooks }: RetryHooks = {}): RetryHooks =>
  move === undefined ? hooks : { ...hooks, moveToAnother: async (end) => !isOverflow(end) && (await move(end)) }

/** Said of the prompt, before anything of an answer. */
const isOverflow = ({ fault, committed }: FailedEnd): boolean =>
  !committed && fault.failure.code === "upstream.context_length_exceeded"

const estimate = (messages: JsonObject[]): number => estimateInputTokens({ messages, tools: [], schemas: [] })

/** Undefined where one is, or where the sum is past what counts can be. */
function sum(one: Tokens | undefined, other: Tokens | undefined): Tokens | undefined {
  if (one === undefined || other === undefined) return undefined
  const both = {
    input: one.input + other.input,
    cacheRead: one.cacheRead + other.cacheRead,
    cacheWrite: one.cacheWrite + other.cacheWrite,
    output: one.output + other.output,
  }
  return Number.isSafeInteger(totalTokens(both)) ? both : undefined
}

const MAX_ATTEMPTS = 3
const BACKOFF_MS = 200

/** What retries need of their call. */
interface RetriedCall extends AttemptedCall {
  readonly ports: Pick<GatewayPorts, "clock" | "fetch" | "health" | "tracing" | "threadTime" | "random">
  /** The client is still connected, so that another attempt, turn or model is of use to it. */
  readonly isClientWaiting: boolean
  /** Attempts at the current model; the first attempt of each further turn is not counted. */
  attempts: number
}

/** What is done between attempts. */
export interface RetryHooks {
  /** Called with each attempt that failed. */
  readonly onFailure?: (end: FailedEnd) => void
  /** Moves the call to another member of the pool; true if it did, and then there is no backoff. */
  readonly moveToAnother?: (end: FailedEnd) => Promise<boolean>
  /** Whether the same member may be asked again. */
  readonly mayRetrySame?: () => boolean
}

/**
 * Tries of one model before the first content: one member of its pool after the other, then with back-off (decisions
 * §7). Milliseconds. Tries until there is an answer, something of it was committed, or more tries are of no use: each
 * member that is well once, and then the same one again with back-off.
 */
export async function retry(once: () => Promise<End>, call: RetriedCall, hooks: RetryHooks = {}): Promise<End> {
  for (let attempts = 1; ; attempts++) {
    const end = await once()
    if (end.kind === "failed" && !("isReported" in end)) hooks.onFailure?.(end)
    if (end.kind === "answered" || end.committed) return end
    const { retryAfterMs } = end.fault
    const mayContinue = call.isClientWaiting && call.timeouts.reason === undefined
    if (mayContinue && hooks.moveToAnother !== undefined && (await hooks.moveToAnother(end))) {
      if (!call.isClientWaiting) return end
      call.attempts++
      continue
    }
    if (attempts >= MAX_ATTEMPTS || retryAfterMs === undefined || !call.isClientWaiting) return end
    if (hooks.mayRetrySame?.() === false) return end
    // Full jitter: anything from nothing to the exponential step, and never sooner than the backend asks.
    const backoffMs = call.ports.random() * BACKOFF_MS * 2 ** (attempts - 1)
    const waitMs = Math.max(backoffMs, retryAfterMs)
    if (waitMs >= call.timeouts.startLeftMs) return end
    await sleep(call.ports.clock, waitMs)
    if (!call.isClientWaiting) return end
    call.attempts++
  }
}
