/**
 * One try at one backend, streaming or not: from forwarding to the answer's last event, which is withheld, or to a
 * fault. Times in milliseconds.
 */
import { bounded } from "../../actors/money/quote.ts"
import { sleep } from "../../actors/kernel/clock.ts"
import { type Micro, zero } from "../../actors/money/micro.ts"
import { type Tokens, totalTokens } from "../../actors/money/tokens.ts"
import type { Offer } from "../catalogue/live.ts"
import { type JsonObject, isObject, present } from "../language/json.ts"
import { answerLimit, type ModelRequest } from "../language/request.ts"
import { Failure } from "../failure/failure.ts"
import { type AnswerBounds, answerBounds } from "../upstream/answer-bounds.ts"
import { readText } from "../upstream/body.ts"
import type { Member } from "../upstream/providers.ts"
import { brokenFault, connectionFault, type Fault, overlongFault, send } from "../upstream/client.ts"
import { DEEPEST_NESTING, extentOf, MOST_VALUES } from "../wire/body.ts"
import type { Exchange } from "../wire/exchange.ts"
import type { AnswerView } from "../wire/format.ts"
import { readEvents } from "./backend-events.ts"
import type { Caller } from "./authenticate.ts"
import type { CallCosts, Try } from "./call-costs.ts"
import type { GatewayPorts } from "./ports.ts"
import { Relay, type Relayed } from "./relay.ts"
import { sharpened } from "./sharpened.ts"
import { echoedTokens, isLargeForItsPrice, vectorsOf } from "./large-answers.ts"
import type { Timeouts } from "./timeouts.ts"
import type { Seat } from "./tries.ts"
import { usesMuchTime } from "./understand.ts"
import { windowOf } from "./weigh.ts"

/** How the backend's part of a call ended. */
export type End = Answered | Failed

export interface Answered {
  readonly kind: "answered"
  /** What is charged of the backend's counts, of all turns together; undefined when those could not be read. */
  readonly tokens: Tokens | undefined
  /** The price of what was counted over the bounds (actors/money/quote.ts). */
  readonly excess: Micro
  /** A stream's terminal bytes, or a reply's body. */
  readonly last: string | JsonObject
  /** How many turns of the backend it took: one, unless the gateway ran tools in between. */
  readonly turns: number
}

export interface Failed {
  readonly kind: "failed"
  readonly fault: Fault
  /** The client has been sent something of it. */
  readonly committed: boolean
}

/** What a try needs of its call. */
export interface TriedCall extends Relayed {
  readonly requestId: string
  /** What the call holds now, and whom it asks. */
  readonly admission: { readonly seat: Seat }
  readonly caller: Pick<Caller, "record">
  readonly ports: Pick<GatewayPorts, "clock" | "fetch" | "health" | "tracing" | "threadTime">
  readonly trace: TracedAttempts | undefined
  readonly timeouts: Timeouts
  readonly costs: CallCosts
  readonly clientHeaders: Headers
  readonly asked: { readonly requestBytes: number }
  /** The first usable output has come. */
  content(): void
  /** What relays the stream that is read, or was read last; undefined where the last try came to no stream. */
  relay: Relay | undefined
}

/** Hears of a sampled call's tries. */
export interface TracedAttempts {
  attempting(turn: Turn, member: Member): void
  responded(status: number): void
  attempted(end: End): void
  header(): string | undefined
}

/** What is asked of a model, and in which words. */
export interface Turn {
  readonly request: ModelRequest
  readonly offer: Offer
  readonly exchange: Exchange
  /** The answer limit to forward, in tokens. */
  readonly answerLimit: number
}

export async function attempt(call: TriedCall, turn: Turn): Promise<End> {
  const { timeouts, ports } = call
  const { seat } = call.admission
  const watch = ports.health.watch(seat.member.id, turn.offer.model.id)
  const tried = call.costs.begin({ ...turn, member: seat.member })
  timeouts.wait()
  seat.asks()
  call.trace?.attempting(turn, seat.member)
  const end = await forward(call, turn, tried, () => {
    watch.content()
    seat.answers()
    call.content()
  })
  timeouts.rest()
  call.trace?.attempted(end)
  tried.answered = end.kind === "answered"
  const isStopped = timeouts.reason === "stopped"
  watch.ended(end, isStopped)
  if (end.kind === "answered") seat.answered(end.tokens && totalTokens(end.tokens))
  else if (!isStopped) seat.failed(end.fault)
  return end
}

async function forward(call: TriedCall, turn: Turn, tried: Try, onContent: () => void): Promise<End> {
  const { timeouts, clientHeaders, ports } = call
  const { exchange, offer } = turn
  const { member } = call.admission.seat
  call.relay = undefined
  const gathers = isGathered(turn)
  const asked = gathers ? exchange.asStream() : exchange
  const encoding = asked.encodeRequest(turn.answerLimit, clientHeaders.get("anthropic-beta"))
  const body = encoding instanceof Promise ? await encoding : encoding
  if (body instanceof Failure) return failed({ ...brokenFault(body), opened: false })
  const { signal } = timeouts
  const { backend } = member
  const traceParent = backend.provider.traceContext ? ports.tracing?.header(call.trace, clientHeaders) : undefined
  const response = await send(
    { backend, format: exchange.backend, path: asked.path, body, clientHeaders, traceParent, signal },
    ports,
  )
  if (!(response instanceof Response)) return failed(sharpened(timeouts.explain(response), turn))
  timeouts.heard()
  call.trace?.responded(response.status)
  const { request } = turn
  const view: AnswerView = {
    model: offer.model.id,
    includeUsage: request.includeUsage,
    requestId: call.requestId,
    nowMs: ports.clock.now(),
    inputTokens: request.inputTokens,
    request,
  }
  const answer: Answer = { turn, response, view, tried, onContent }
  if (request.stream) return await streamed(call, answer)
  return gathers && !isJson(response) ? await gathered(call, answer) : await whole(call, answer)
}

/** In tokens. An answer that may be longer is asked for as a stream and gathered, so that only silence ends it (decisions §13.12). */
const LONGEST_WHOLE = 8_192

const isGathered = ({ request, offer, answerLimit: maxOutputTokens }: Turn): boolean =>
  !request.stream && offer.model.gather && answerLimit(request, { maxOutputTokens }) > LONGEST_WHOLE

/** Some backends answer in one piece whatever they are asked. */
const isJson = ({ headers }: Response): boolean => headers.get("content-type")?.startsWith("application/json") === true

/** An answer that has begun. */
interface Answer {
  readonly turn: Turn
  readonly response: Response
  readonly view: AnswerView
  readonly tried: Try
  readonly onContent: () => void
}

async function streamed(call: TriedCall, { turn, response, view, tried, onContent }: Answer): Promise<End> {
  if (response.body === null) return failed(connectionFault(true))
  const reader = turn.exchange.streamReader(view)
  const relay = new Relay(reader, boundsOf(call, turn), call, { onContent, received: tried.received })
  call.relay = relay
  const end = await relay.run(response.body, call.ports.clock)
  tried.counts(reader.tokens(), reader.searches())
  if ("terminal" in end) return { kind: "answered", ...charged(reader.tokens(), turn), last: end.terminal, turns: 1 }
  return failed(sharpened(call.timeouts.explain(end), turn), relay.committed)
}

/** Nothing of it is committed before all of it is there, so that what breaks it off may be tried again. */
async function gathered(call: TriedCall, { turn, response, view, tried, onContent }: Answer): Promise<End> {
  const { exchange } = turn
  const bounds = boundsOf(call, turn)
  if (response.body === null) return failed(connectionFault(true))
  const stream = exchange.gather(bounds.replyBytes)
  let hasContent = false
  const end = await readEvents(response.body, bounds, call.ports.clock, (events) => {
    for (let event = events.next(); event !== undefined; event = events.next()) {
      if (event instanceof Failure || hasTooMuch(event.data, turn.request)) return overlongFault
      call.heard()
      const came = stream.read(event)
      if (came instanceof Failure) return brokenFault(came)
      if (came === "overlong") return overlongFault
      if (stream.hasContent && !hasContent) onContent()
      hasContent = stream.hasContent
      if (hasContent) tried.received.event(event.data.length)
      if (came === "whole") return { body: stream.reply() }
    }
    return undefined
  })
  tried.counts(stream.tokens(), stream.searches())
  if (!("body" in end)) return failed(sharpened(call.timeouts.explain(end), turn))
  const reply = exchange.readReply(end.body, view)
  if (reply instanceof Failure) return failed(sharpened(brokenFault(reply), turn))
  onContent()
  tried.counts(reply.tokens, reply.searches)
  return { kind: "answered", ...charged(reply.tokens, turn), last: reply.body, turns: 1 }
}

async function whole(call: TriedCall, answer: Answer): Promise<End> {
  const { timeouts } = call
  const { turn, response } = answer
  let text: string | undefined
  try {
    text = await readText(response, boundsOf(call, turn).replyBytes, () => timeouts.heard())
  } catch {
    return failed(timeouts.explain(connectionFault(true)))
  }
  if (text === undefined) return failed(overlongFault)
  if (text.length <= HEAVY_LENGTH || !isLargeForItsPrice(turn.request)) return read(call, answer, text)
  timeouts.rest()
  await itsTurn(call)
  const { clock, threadTime } = call.ports
  const begunAt = clock.monotonic()
  const end = read(call, answer, text)
  // It is written as well.
  threadTime.add(call.caller.record.accountId, 2 * (clock.monotonic() - begunAt))
  return end
}

/** Vectors of a hundred texts take the thread for a tenth of a second, to parse and to write them. */
const HEAVY_LENGTH = 262_144
const TURN_MS = 200
const LONGEST_WAIT_MS = 300_000

/** An account that has used much of the thread lately waits until that is forgotten, its answer in hand. */
async function itsTurn({ ports, caller }: TriedCall): Promise<void> {
  const { accountId } = caller.record
  for (let waitedMs = 0; waitedMs < LONGEST_WAIT_MS && usesMuchTime(ports, accountId); waitedMs += TURN_MS)
    await sleep(ports.clock, TURN_MS)
}

function read({ timeouts }: TriedCall, { turn, view, tried, onContent }: Answer, text: string): End {
  if (hasTooMuch(text, turn.request)) return failed(overlongFault)
  tried.received.whole(text.length)
  const body = parsed(text)
  if (!isObject(body)) return failed(unreadable)
  const reply = turn.exchange.readReply(body, view)
  if (reply instanceof Failure) return failed(sharpened(brokenFault(reply), turn))
  timeouts.rest()
  onContent()
  tried.counts(reply.tokens, reply.searches)
  return { kind: "answered", ...charged(reply.tokens, turn), last: reply.body, turns: 1 }
}

function charged(
  tokens: Tokens | undefined,
  { request, offer, answerLimit }: Turn,
): Pick<Answered, "tokens" | "excess"> {
  const { model, price } = offer
  const bounds = { contextWindow: windowOf(model, request), answerLimit, choices: request.choices }
  return tokens === undefined ? { tokens, excess: zero } : bounded(tokens, bounds, price.rates)
}

const boundsOf = ({ asked: { requestBytes } }: TriedCall, { request, answerLimit }: Turn): AnswerBounds =>
  answerBounds({
    requestBytes,
    answerLimit,
    choices: request.choices,
    echoedTokens: echoedTokens(request),
    logprobs: wantsLogprobs(request),
    vectors: vectorsOf(request),
  })

const wantsLogprobs = ({ body }: ModelRequest): boolean => present(body["logprobs"]) || present(body["top_logprobs"])

/** Below this an answer is parsed and written whatever it holds. */
const HARMLESS_LENGTH = 16_384
/** Of vectors: as many texts as are taken for vectors in numbers (src/wire/embeddings.ts), of 4,096 dimensions each. */
const MOST_NUMBERS = 409_600

/** Parsing costs by values more than by bytes, and only likelihoods of tokens and vectors are so many. What nests too deep cannot be written. */
function hasTooMuch(text: string, request: ModelRequest): boolean {
  if (text.length <= HARMLESS_LENGTH) return false
  const most = MOST_VALUES + (vectorsOf(request) > 0 ? MOST_NUMBERS : 0)
  const { depth, values } = extentOf(Buffer.from(text), most)
  return depth > DEEPEST_NESTING || (values > most && !wantsLogprobs(request))
}

const failed = (fault: Fault, committed = false): Failed => ({ kind: "failed", fault, committed })

/** An answer that is no JSON object: cut short, or not from the backend at all. */
const unreadable: Fault = { ...connectionFault(true), alert: true }

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
