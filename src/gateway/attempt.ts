/**
 * One try at one backend, streaming or not: from forwarding to the answer's last event, which is withheld, or to a
 * fault. Times in milliseconds.
 */
import { bounded } from "../../actors/money/bounds.ts"
import { type Micro, zero } from "../../actors/money/micro.ts"
import type { Tokens } from "../../actors/money/tokens.ts"
import { type JsonObject, isObject, present } from "../language/json.ts"
import type { ModelRequest } from "../language/request.ts"
import { Failure } from "../failure/failure.ts"
import { type AnswerBounds, answerBounds } from "../upstream/answer-bounds.ts"
import { readText } from "../upstream/body.ts"
import { brokenFault, connectionFault, type Fault, type Network, overlongFault, send } from "../upstream/client.ts"
import type { AnswerView } from "../wire/codec.ts"
import { DEEPEST_NESTING, extentOf, MOST_VALUES } from "../wire/body.ts"
import type { StreamPosition } from "../wire/format.ts"
import { tooLong } from "../wire/overflow.ts"
import type { Watch } from "./backend-health.ts"
import type { Candidate } from "./candidates.ts"
import type { Outbox } from "./outbox.ts"
import type { Patience } from "./patience.ts"
import { Relay } from "./relay.ts"

export interface AttemptTerms {
  readonly requestId: string
  readonly network: Network
  /** Wall clock at the call's opening. */
  readonly nowMs: number
  readonly request: ModelRequest
  /** The size of the client's body. */
  readonly requestBytes: number
  readonly candidate: Candidate
  readonly answerLimit: number
  readonly clientHeaders: Headers
  readonly outbox: Outbox
  readonly patience: Patience
  readonly onContent: () => void
  /** Begins to watch one try. */
  readonly watch: () => Watch
  /** The relay that a heartbeat may ask to let go of what it holds. */
  readonly onRelay: (relay: Relay) => void
}

export interface Answered {
  readonly kind: "answered"
  /** What is charged of the backend's counts; undefined when those could not be read. */
  readonly tokens: Tokens | undefined
  /** The price of what was counted over the bounds. */
  readonly excess: Micro
  /** A stream's terminal bytes, or a reply's body. */
  readonly last: string | JsonObject
  /** How many turns of the backend it took: one, unless the gateway ran tools in between. */
  readonly turns: number
  /** Tries of later turns beyond the first of each. */
  readonly retries?: number
}

export interface Failed {
  readonly kind: "failed"
  readonly fault: Fault
  /** The client has been sent something of it. */
  readonly told: boolean
  /** It gave usable output. */
  readonly usable: boolean
  readonly position: StreamPosition | undefined
  readonly retries?: number
}

export async function attempt(terms: AttemptTerms): Promise<Answered | Failed> {
  const watch = terms.watch()
  const onContent = () => {
    watch.content()
    terms.onContent()
  }
  const end = await forward({ ...terms, onContent })
  watch.ended(end, terms.patience.givenUp)
  return end
}

async function forward(terms: AttemptTerms): Promise<Answered | Failed> {
  const { network, request, candidate, clientHeaders, patience } = terms
  const { backend, exchange, offer } = candidate
  const { model } = offer
  const body = await exchange.encodeRequest(terms.answerLimit, clientHeaders.get("anthropic-beta"))
  if (body instanceof Failure) return failed({ ...brokenFault(body), opened: false })
  const { signal } = patience
  const response = await patience.during(
    send({ backend, format: exchange.backend, path: exchange.path, body, clientHeaders, signal }, network),
  )
  if (!(response instanceof Response)) return failed(numbered(patience.blame(response), terms))
  const view: AnswerView = {
    model: model.id,
    includeUsage: request.includeUsage,
    requestId: terms.requestId,
    nowMs: terms.nowMs,
    inputTokens: request.inputTokens,
    request,
  }
  return request.stream ? await streamed(terms, response, view) : await whole(terms, response, view)
}

async function streamed(terms: AttemptTerms, response: Response, view: AnswerView): Promise<Answered | Failed> {
  const { outbox, patience } = terms
  if (response.body === null) return failed(connectionFault(true))
  const reader = terms.candidate.exchange.streamReader(view)
  const relay = new Relay({
    reader,
    outbox,
    bounds: boundsOf(terms),
    onEvent: () => patience.heard(),
    onContent: terms.onContent,
  })
  terms.onRelay(relay)
  const end = await patience.during(relay.run(patience.source(response.body)))
  if ("terminal" in end) return { kind: "answered", ...charged(reader.tokens(), terms), last: end.terminal, turns: 1 }
  return failed(numbered(patience.blame(end), terms), {
    told: relay.told,
    usable: relay.usable,
    position: reader.position(),
  })
}

async function whole(terms: AttemptTerms, response: Response, view: AnswerView): Promise<Answered | Failed> {
  const { patience } = terms
  let text: string | undefined
  try {
    text = await patience.during(readText(response, boundsOf(terms).replyBytes, () => patience.heard()))
  } catch {
    return failed(patience.blame(connectionFault(true)))
  }
  if (text === undefined || hasTooMuch(text, terms.request)) return failed(overlongFault)
  const body = parsed(text)
  if (!isObject(body)) return failed(unreadable)
  const reply = terms.candidate.exchange.readReply(body, view)
  if (reply instanceof Failure) return failed(numbered(brokenFault(reply), terms))
  terms.onContent()
  return { kind: "answered", ...charged(reply.tokens, terms), last: reply.body, turns: 1 }
}

function charged(
  tokens: Tokens | undefined,
  { request, candidate, answerLimit }: AttemptTerms,
): Pick<Answered, "tokens" | "excess"> {
  const { model, price } = candidate.offer
  const bounds = { contextWindow: model.contextWindow, answerLimit, choices: request.choices }
  return tokens === undefined ? { tokens, excess: zero } : bounded(tokens, bounds, price.rates)
}

const boundsOf = ({ request, requestBytes, answerLimit }: AttemptTerms): AnswerBounds =>
  answerBounds({
    requestBytes,
    answerLimit,
    choices: request.choices,
    logprobs: wantsLogprobs(request),
  })

const wantsLogprobs = ({ body }: ModelRequest): boolean => present(body["logprobs"]) || present(body["top_logprobs"])

/** Below this an answer is parsed and written whatever it holds. */
const HARMLESS_LENGTH = 16_384

/** Parsing costs by values more than by bytes, and only the likelihoods of tokens are so many. What nests too deep cannot be written. */
function hasTooMuch(text: string, request: ModelRequest): boolean {
  if (text.length <= HARMLESS_LENGTH) return false
  const { depth, values } = extentOf(Buffer.from(text))
  return depth > DEEPEST_NESTING || (values > MOST_VALUES && !wantsLogprobs(request))
}

const failed = (fault: Fault, relayed: Partial<Omit<Failed, "kind" | "fault">> = {}): Failed => ({
  kind: "failed",
  fault,
  told: false,
  usable: false,
  position: undefined,
  ...relayed,
})

/** An answer that is no JSON object: cut short, or not from the backend at all. */
const unreadable: Fault = { ...connectionFault(true), alert: true }

/**
 * Coding agents compact their history by the numbers in a context overflow (decisions §7). Where the backend told none,
 * they are ours; an estimate that says the prompt fits is wrong by at least one token.
 */
function numbered(fault: Fault, { candidate, request }: AttemptTerms): Fault {
  const { model } = candidate.offer
  const { code, detail } = fault.failure
  if (code !== "upstream.context_length_exceeded" || detail.message !== undefined) return fault
  if (model.contextWindow === null) return fault
  const count = Math.max(request.inputTokens, model.contextWindow + 1)
  const message = tooLong({ count, limit: model.contextWindow })
  return { ...fault, failure: new Failure(code, { ...detail, message }) }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
