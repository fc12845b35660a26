/**
 * One attempt at one backend, streaming or not: from forwarding the request to the answer's last event, which is withheld, or to a
 * fault. Times in milliseconds.
 */
import { bounded, type Tokens, totalTokens } from "../../actors/money/price.ts"
import { sleep } from "../../actors/kernel/clock.ts"
import { type Micro, zero } from "../../actors/money/micro.ts"
import type { Offer } from "../catalogue/model.ts"
import { keepNumbers } from "../language/exact-numbers.ts"
import { type JsonObject, isObject } from "../language/json.ts"
import { answerLimit, type ModelRequest } from "../language/request.ts"
import { Failure } from "../failure/failure.ts"
import { answerBounds, type AnswerBounds, beginning, readText } from "../upstream/body.ts"
import type { Member } from "../upstream/providers.ts"
import { brokenFault, connectionFault, type Fault, overlongFault, send, withClientDetail } from "../upstream/client.ts"
import type { Exchange } from "../wire/exchange.ts"
import type { AnswerView } from "../wire/format.ts"
import {
  echoedTokens,
  EVENT_NESTING,
  isLargeForPrice,
  isTooComplex,
  readEvents,
  Relay,
  type RelayTarget,
  vectorsOf,
  wantsLogprobs,
} from "./relay.ts"
import type { Caller } from "./authenticate.ts"
import type { CallCosts, AttemptUsage } from "./call-costs.ts"
import type { GatewayPorts } from "./ports.ts"
import type { Timeouts } from "./timeouts.ts"
import type { Seat } from "./member-selector.ts"
import { usesMuchThreadTime } from "./parse-request.ts"
import { windowOf } from "./input-estimate.ts"

/** How the backend's part of a call ended. */
export type End = AnsweredEnd | FailedEnd

export interface AnsweredEnd {
  readonly kind: "answered"
  /** What is charged of the backend's counts, of all turns together; undefined when those could not be read. */
  readonly tokens: Tokens | undefined
  /** The price of what was counted over the bounds (actors/money/price.ts). */
  readonly excess: Micro
  /** A stream's terminal bytes, or a reply's body. */
  readonly last: string | JsonObject
  /** How many turns of the backend it took: one, unless the gateway ran tools in between. */
  readonly turns: number
}

export interface FailedEnd {
  readonly kind: "failed"
  readonly fault: Fault
  /** The client has been sent something of it. */
  readonly committed: boolean
}

/** What an attempt needs of its call. */
export interface AttemptedCall extends RelayTarget {
  readonly requestId: string
  /** The current admission; its seat is the member that is asked. */
  readonly admission: { readonly seat: Seat }
  readonly caller: Pick<Caller, "record">
  readonly ports: Pick<GatewayPorts, "clock" | "fetch" | "health" | "tracing" | "threadTime">
  readonly trace: TracedAttempts | undefined
  readonly timeouts: Timeouts
  readonly costs: CallCosts
  readonly clientHeaders: Headers
  readonly plan: { readonly requestBytes: number }
  /** The first usable output has come. */
  onContent(): void
  /** The relay of the last attempt; undefined where that came to no stream. */
  relay: Relay | undefined
}

/** Traces the attempts of a sampled call. */
export interface TracedAttempts {
  attempting(turn: Turn, member: Member): void
  responded(status: number): void
  attempted(end: End): void
  header(): string | undefined
}

/** One request to a model, and the exchange that writes it in the backend's format. */
export interface Turn {
  readonly request: ModelRequest
  readonly offer: Offer
  readonly exchange: Exchange
  /** The answer limit to forward, in tokens. */
  readonly answerLimit: number
}

export async function attempt(call: AttemptedCall, turn: Turn): Promise<End> {
  const { timeouts, ports } = call
  const { seat } = call.admission
  const watch = ports.health.watch(seat.member.id, turn.offer.model.id)
  const usage = call.costs.begin({ ...turn, member: seat.member })
  timeouts.startWaiting()
  seat.requestSent()
  call.trace?.attempting(turn, seat.member)
  const end = await forward(call, turn, usage, () => {
    watch.content()
    seat.onContent()
    call.onContent()
  })
  timeouts.stopWaiting()
  call.trace?.attempted(end)
  usage.isAnswered = end.kind === "answered"
  const isStopped = timeouts.reason === "stopped"
  watch.ended(end, isStopped)
  if (end.kind === "answered") seat.onSuccess(end.tokens && totalTokens(end.tokens))
  else if (!isStopped) seat.onFailure(end.fault)
  return end
}

async function forward(call: AttemptedCall, turn: Turn, usage: AttemptUsage, onContent: () => void): Promise<End> {
  const { timeouts, clientHeaders, ports } = call
  const { exchange, offer } = turn
  const { member } = call.admission.seat
  call.relay = undefined
  const isGathering = isGathered(turn)
  const outgoing = isGathering ? exchange.asStream() : exchange
  const pendingBody = outgoing.encodeRequest(turn.answerLimit, clientHeaders.get("anthropic-beta"))
  const body = pendingBody instanceof Promise ? await pendingBody : pendingBody
  if (body instanceof Failure) return failed({ ...brokenFault(body), opened: false })
  const { signal } = timeouts
  const { backend } = member
  const traceParent = backend.provider.traceContext ? ports.tracing?.header(call.trace, clientHeaders) : undefined
  const response = await send(
    { backend, protocol: exchange.backend, path: outgoing.path, body, clientHeaders, traceParent, signal },
    ports,
  )
  if (!(response instanceof Response)) return failed(withClientDetail(timeouts.explain(response), turn))
  timeouts.onActivity()
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
  const answer: BackendAnswer = { turn, response, view, usage, onContent }
  if (request.stream) return await (isJson(response) ? relayOrFail(call, answer) : relayStream(call, answer))
  return isGathering && !isJson(response) ? await gatherStream(call, answer) : await readWhole(call, answer)
}

/** In tokens. An answer that may be longer is asked for as a stream and gathered, so that only silence ends it (decisions §13.12). */
const MAX_WHOLE_TOKENS = 8_192

const isGathered = ({ request, offer, answerLimit: maxOutputTokens }: Turn): boolean =>
  !request.stream &&
  offer.model.gather &&
  answerLimit(request, { maxOutputTokens }) > MAX_WHOLE_TOKENS &&
  !choosesBest(request)

/** Backends of completions refuse to stream the best of several answers. */
const choosesBest = ({ body: { best_of: made } }: ModelRequest): boolean => typeof made === "number" && made > 1

/** Some backends answer in one piece whatever they are asked. */
const isJson = ({ headers }: Response): boolean =>
  headers.get("content-type")?.toLowerCase().startsWith("application/json") === true

/** An answer that has begun. */
interface BackendAnswer {
  readonly turn: Turn
  readonly response: Response
  readonly view: AnswerView
  readonly usage: AttemptUsage
  readonly onContent: () => void
}

async function relayStream(
  call: AttemptedCall,
  { turn, response, view, usage, onContent }: BackendAnswer,
): Promise<End> {
  if (response.body === null) return failed(connectionFault(true))
  const reader = turn.exchange.streamReader(view)
  const relay = new Relay(reader, boundsOf(call, turn), call, { onContent, output: usage.output })
  call.relay = relay
  const end = await relay.run(response.body, call.ports.clock)
  usage.setCounts(reader.tokens(), reader.searches())
  if ("terminal" in end) return { kind: "answered", ...chargeable(reader.tokens(), turn), last: end.terminal, turns: 1 }
  return failed(withClientDetail(call.timeouts.explain(end), turn), relay.committed)
}

/** Nothing of it is committed before all of it is there, so that what breaks it off may be tried again. */
async function gatherStream(
  call: AttemptedCall,
  { turn, response, view, usage, onContent }: BackendAnswer,
): Promise<End> {
  const { exchange } = turn
  const bounds = boundsOf(call, turn)
  if (response.body === null) return failed(connectionFault(true))
  const stream = exchange.gather(bounds.replyBytes)
  let hasContent = false
  const end = await readEvents(response.body, bounds, call.ports.clock, (events) => {
    for (let event = events.next(); event !== undefined; event = events.next()) {
      if (event instanceof Failure || isTooComplex(event.data, bounds, EVENT_NESTING)) return overlongFault
      const step = stream.read(event)
      call.onBackendActivity(step === "working")
      if (step instanceof Failure) return brokenFault(step)
      if (step === "overlong") return overlongFault
      if (stream.hasContent && !hasContent) onContent()
      hasContent = stream.hasContent
      if (hasContent) usage.output.event(event.data.length)
      if (step === "whole") return { body: stream.reply() }
    }
    return undefined
  })
  usage.setCounts(stream.tokens(), stream.searches())
  if (!("body" in end)) return failed(withClientDetail(call.timeouts.explain(end), turn))
  const reply = exchange.readReply(end.body, view)
  if (reply instanceof Failure) return failed(withClientDetail(brokenFault(reply), turn))
  onContent()
  usage.setCounts(reply.tokens, reply.searches)
  return { kind: "answered", ...chargeable(reply.tokens, turn), last: reply.body, turns: 1 }
}

/** Where a stream was asked for, a failure may come in one piece, but no answer. */
async function relayOrFail(call: AttemptedCall, answer: BackendAnswer): Promise<End> {
  const { turn, view, usage } = answer
  const begun = await beginning(answer.response).catch(() => undefined)
  if (begun === undefined) return failed(call.timeouts.explain(connectionFault(true)))
  const { response } = begun
  if (!begun.isObject) return await relayStream(call, { ...answer, response })
  const bounds = boundsOf(call, turn)
  const text = await textOf(call, response, bounds)
  if (typeof text !== "string") return text
  const body = isTooComplex(text, bounds) ? undefined : parseJson(text)
  const reply = isObject(body) ? turn.exchange.readReply(body, view) : undefined
  if (reply instanceof Failure) return failed(withClientDetail({ ...brokenFault(reply), opened: false }, turn))
  if (reply !== undefined) usage.setCounts(reply.tokens, reply.searches)
  return failed(unreadableAnswer)
}

async function readWhole(call: AttemptedCall, answer: BackendAnswer): Promise<End> {
  const bounds = boundsOf(call, answer.turn)
  const text = await textOf(call, answer.response, bounds)
  if (typeof text !== "string") return text
  if (text.length <= HEAVY_LENGTH || !isLargeForPrice(answer.turn.request)) return readReply(call, answer, bounds, text)
  call.timeouts.stopWaiting()
  await waitForFairTurn(call)
  const { clock, threadTime } = call.ports
  const begunAt = clock.monotonic()
  const end = readReply(call, answer, bounds, text)
  // It is written as well.
  threadTime.add(call.caller.record.accountId, 2 * (clock.monotonic() - begunAt))
  return end
}

async function textOf(call: AttemptedCall, response: Response, bounds: AnswerBounds): Promise<string | FailedEnd> {
  try {
    const text = await readText(response, bounds.replyBytes, () => call.timeouts.onActivity())
    return text ?? failed(overlongFault)
  } catch {
    return failed(call.timeouts.explain(connectionFault(true)))
  }
}

/** Vectors of a hundred texts take the thread for a tenth of a second, to parse and to write them. */
const HEAVY_LENGTH = 262_144
const TURN_MS = 200

/** An account that has used much of the thread lately waits before its answer is parsed, until the time for its first content is over. */
async function waitForFairTurn({ ports, caller, timeouts }: AttemptedCall): Promise<void> {
  const { accountId } = caller.record
  const mayWait = () => timeouts.reason === undefined && usesMuchThreadTime(ports, accountId)
  while (mayWait()) await sleep(ports.clock, TURN_MS)
}

function readReply(call: AttemptedCall, answer: BackendAnswer, bounds: AnswerBounds, text: string): End {
  const { turn, view, usage, onContent } = answer
  if (isTooComplex(text, bounds)) return failed(overlongFault)
  usage.output.whole(text.length)
  const body = parseJson(text)
  if (!isObject(body)) return failed(unreadableAnswer)
  keepNumbers(body, text)
  const reply = turn.exchange.readReply(body, view)
  if (reply instanceof Failure) return failed(withClientDetail(brokenFault(reply), turn))
  call.timeouts.stopWaiting()
  onContent()
  usage.setCounts(reply.tokens, reply.searches)
  return { kind: "answered", ...chargeable(reply.tokens, turn), last: reply.body, turns: 1 }
}

function chargeable(
  tokens: Tokens | undefined,
  { request, offer, answerLimit }: Turn,
): Pick<AnsweredEnd, "tokens" | "excess"> {
  const { model, price } = offer
  const bounds = { contextWindow: windowOf(model, request), answerLimit, choices: request.choices }
  return tokens === undefined ? { tokens, excess: zero } : bounded(tokens, bounds, price.rates)
}

const boundsOf = ({ plan: { requestBytes } }: AttemptedCall, { request, answerLimit }: Turn): AnswerBounds =>
  answerBounds({
    requestBytes,
    answerLimit,
    choices: request.choices,
    echoedTokens: echoedTokens(request),
    logprobs: wantsLogprobs(request),
    vectors: vectorsOf(request),
  })

const failed = (fault: Fault, committed = false): FailedEnd => ({ kind: "failed", fault, committed })

/** An answer that is no JSON object: cut short, or not from the backend at all. */
const unreadableAnswer: Fault = { ...connectionFault(true), alert: true }

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
