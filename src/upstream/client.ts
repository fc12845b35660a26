/**
 * One call to a backend: which headers and body are sent, and what the response or the failure means (decisions §7, §12.13). A
 * backend's error text is only used to classify the error.
 */
import type { Clock } from "../../actors/kernel/clock.ts"
import { Failure } from "../failure/failure.ts"
import type { Json, JsonObject } from "../language/json.ts"
import { classifyBackendError } from "../wire/backend-error.ts"
import { bedrockError, decodeEventStream, EVENT_STREAM_TYPE, signedHeaders } from "./bedrock.ts"
import { invokeBody } from "../wire/bedrock/invoke.ts"
import type { BackendProtocol } from "../wire/protocol.ts"
import type { EncodedBody } from "../wire/exchange.ts"
import { requestedBetas } from "../wire/shared/betas.ts"
import { decompressed } from "./body.ts"
import type { Backend } from "./providers.ts"
import type { Offer } from "../catalogue/model.ts"
import type { ModelRequest } from "../language/request.ts"
import { promptTooLongMessage } from "../wire/error-facts.ts"

interface UpstreamCall {
  readonly backend: Backend
  readonly protocol: BackendProtocol
  /** The path, including its `/v1` where it has one. */
  readonly path: string
  readonly body: JsonObject | EncodedBody
  /** The client's headers. Only those of an allow-list are forwarded. */
  readonly clientHeaders: Headers
  /** Undefined where the trace is not propagated to the backend. */
  readonly traceParent: string | undefined
  readonly signal: AbortSignal
}

/** The part of the global `fetch` that calls to backends need. */
export type Fetch = (url: string, init: BunFetchRequestInit & { readonly decompress: boolean }) => Promise<Response>

/** What stands between the gateway and its backends. */
interface Network {
  readonly fetch: Fetch
  readonly clock: Clock
}

/** Why a call failed, and whether it may be retried. */
export interface Fault {
  readonly failure: Failure
  /** The call may be retried after this time. Undefined when it may not. */
  readonly retryAfterMs: number | undefined
  /** The backend's response had begun (its head was a 2xx). */
  readonly opened: boolean
  /** The operator's credentials or configuration are at fault. */
  readonly alert: boolean
  /** HTTP status of the refusal. Undefined if there was none. */
  readonly status: number | undefined
  /** The field that a refusal names, in the backend's terms (`messages.0.content`). Clients never see it unchanged. */
  readonly field?: string
}

/** A 429 is worth waiting for only when the backend says that it is this short. */
const SHORT_RETRY_AFTER_S = 2
/** How much of an error body is read to classify it. */
const ERROR_BODY_BYTES = 65_536
/** How long a refusal's body is waited for, in milliseconds: its status is known. */
const ERROR_BODY_MS = 5_000

export async function send(call: UpstreamCall, network: Network): Promise<Response | Fault> {
  const url = call.backend.provider.baseUrl + call.path
  const body = isEncoded(call.body) ? call.body : JSON.stringify(bodyFor(call, call.body))
  const headers = call.backend.signing === undefined ? headersFor(call) : await signedFor(call, url, body, network)
  let response: Response
  try {
    response = await network.fetch(url, {
      method: "POST",
      headers,
      body: typeof body === "string" ? body : body.blob,
      signal: call.signal,
      redirect: "manual",
      timeout: false,
      // Decompressed here in chunks, so that the size of the decompressed response is bounded.
      decompress: false,
    })
  } catch {
    return connectionFault(false)
  }
  const plain = decompressed(response)
  if (plain === undefined) {
    await response.body?.cancel().catch(() => {})
    return { ...connectionFault(response.ok), retryAfterMs: undefined, alert: true, status: response.status }
  }
  return response.ok ? decodeEventStream(plain) : await readRefusal(plain, call, network)
}

/** The connection could not be made, or broke. `opened`: the head of the response had arrived. */
export const connectionFault = (opened: boolean): Fault => ({
  failure: new Failure("dependency.upstream_unavailable"),
  retryAfterMs: 0,
  opened,
  alert: false,
  status: undefined,
})

/** A response, or an event, over the bounds. A retry would not make it smaller. */
export const overlongFault: Fault = { ...connectionFault(true), retryAfterMs: undefined, alert: true }

/** An error inside a response that had begun. Only a temporary one may be retried. */
export const brokenFault = (failure: Failure): Fault => ({
  ...connectionFault(true),
  failure,
  retryAfterMs: failure.code === "dependency.upstream_unavailable" ? 0 : undefined,
  alert: failure.detail.alert === true,
})

async function readRefusal(response: Response, call: UpstreamCall, { clock }: Network): Promise<Fault> {
  const { protocol, body: sent } = call
  const text = await firstBytes(response, clock)
  const received = { status: response.status, body: parsed(text) }
  const isBedrock = protocol === "bedrock-invoke" || protocol === "bedrock-converse"
  const { status, body } = isBedrock ? bedrockError(received.status, received.body, response.headers) : received
  const classify = (isBelieved = true) => classifyBackendError(status, body, response.headers, clock.now(), isBelieved)
  const found = classify()
  const words = found.operatorWords
  const isEcho =
    words !== undefined && (isEncoded(sent) ? await sent.blob.text() : JSON.stringify(sent)).includes(words)
  const { failure, alert, field } = isEcho ? classify(false) : found
  return { failure, retryAfterMs: retryDelay(status, failure), opened: false, alert, status, field }
}

function retryDelay(status: number, failure: Failure): number | undefined {
  const { retryAfterS } = failure.detail
  if (status === 429) {
    return retryAfterS !== undefined && retryAfterS <= SHORT_RETRY_AFTER_S ? retryAfterS * 1_000 : undefined
  }
  return status === 408 || status >= 500 ? 0 : undefined
}

async function firstBytes(response: Response, clock: Clock): Promise<string> {
  const reader = response.body?.getReader()
  if (reader === undefined) return ""
  const timer = clock.after(ERROR_BODY_MS, () => void reader.cancel().catch(() => {}))
  const decoder = new TextDecoder()
  let text = ""
  try {
    while (text.length < ERROR_BODY_BYTES) {
      const { done, value } = await reader.read()
      if (done) return text
      text += decoder.decode(value, { stream: true })
    }
    await reader.cancel()
  } catch {
    // The status and the bytes so far are enough.
  } finally {
    timer.cancel()
  }
  return text
}

function parsed(text: string) {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** InvokeModel takes the client's betas in the body. */
const bodyFor = ({ protocol, clientHeaders }: UpstreamCall, body: JsonObject): JsonObject =>
  protocol === "bedrock-invoke" ? invokeBody(body, clientHeaders.get("anthropic-beta")) : body

const isEncoded = (body: JsonObject | EncodedBody): body is EncodedBody => body["blob"] instanceof Blob

/** A signed call carries no other credential. The signature covers everything else that is sent. */
async function signedFor(
  call: UpstreamCall,
  url: string,
  body: string | EncodedBody,
  { clock }: Network,
): Promise<Headers> {
  const headers = headersFor(call)
  const { signing: key } = call.backend
  if (key === undefined) return headers
  headers.delete("x-api-key")
  headers.delete("Authorization")
  // A body that another thread has encoded comes with its hash, so it is not hashed again.
  if (typeof body !== "string") headers.set("X-Amz-Content-Sha256", body.sha256)
  const signed = typeof body === "string" ? body : ""
  return await signedHeaders({ url, headers, body: signed, key, now: new Date(clock.now()) })
}

/** The headers that all calls to a backend share, by protocol. */
const headersOf = new WeakMap<Backend, Map<BackendProtocol, Headers>>()

/** Messages backends also get the version and beta headers. The provider's own headers override all. */
function headersFor({ backend, protocol, clientHeaders, traceParent }: UpstreamCall): Headers {
  const known = headersOf.get(backend)?.get(protocol)
  const fixed = known ?? fixedHeaders(backend, protocol)
  if (known === undefined) headersOf.set(backend, new Map(headersOf.get(backend)).set(protocol, fixed))
  if (protocol !== "messages" && backend.signing === undefined && traceParent === undefined) return fixed
  const headers = new Headers(fixed)
  if (traceParent !== undefined) headers.set("traceparent", traceParent)
  if (protocol !== "messages") return headers
  const own = Object.keys(backend.provider.headers).map((name) => name.toLowerCase())
  const version = clientHeaders.get("anthropic-version")
  if (version && !own.includes("anthropic-version")) headers.set("anthropic-version", version)
  const { listed } = requestedBetas(clientHeaders.get("anthropic-beta"))
  if (listed.length > 0 && !own.includes("anthropic-beta")) headers.set("anthropic-beta", listed.join(","))
  return headers
}

function fixedHeaders({ apiKey, provider }: Backend, format: BackendProtocol): Headers {
  const headers = new Headers({
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
    "Accept-Encoding": "identity",
  })
  if (format === "messages") {
    headers.set("x-api-key", apiKey)
    headers.set("anthropic-version", "2023-06-01")
  } else {
    if (format === "bedrock-invoke") headers.set("Accept", "application/json")
    if (format === "bedrock-converse") headers.set("Accept", `application/json, ${EVENT_STREAM_TYPE}`)
    headers.set("Authorization", `Bearer ${apiKey}`)
  }
  for (const [name, value] of Object.entries(provider.headers)) headers.set(name, value)
  return headers
}

/** A full batch leaves at once. */
const MAX_AT_ONCE = 32

/**
 * A `fetch` whose requests leave in batches. Bun's HTTP client has a thread of its own, and waking it costs more than its work for
 * one request. The requests of one turn of the event loop wake it once (docs/performance/tried.md). A batch leaves when all sockets
 * have been read, or when it is full.
 */
export function batchRequests(fetch: Fetch, later: (run: () => void) => void = setImmediate): Fetch {
  let waiting: (() => void)[] = []
  const leave = () => {
    const all = waiting
    waiting = []
    for (const go of all) go()
  }
  return (url, init) =>
    new Promise((resolve, reject) => {
      const go = () => {
        try {
          resolve(fetch(url, init))
        } catch (error) {
          reject(error)
        }
      }
      if (waiting.push(go) === 1) later(leave)
      if (waiting.length === MAX_AT_ONCE) leave()
    })
}

// Adds to a backend's refusal what the client can act on: the field of its own request, or the numbers of a context overflow.

interface RequestTurn {
  readonly request: ModelRequest
  readonly offer: Offer
}

/** The fault with a message as exact as the gateway knows it, and without the backend's own words. */
export function withClientDetail(fault: Fault, turn: RequestTurn): Fault {
  const { code, detail } = fault.failure
  if (code === "upstream.context_length_exceeded") return withNumbers(fault, turn)
  if (code !== "upstream.invalid_request" && code !== "upstream.unsupported_feature") return fault
  if (detail.message !== undefined) return fault
  const field = clientField(fault.field ?? "", turn.request.body)
  if (field === "") return fault
  const words = code === "upstream.invalid_request" ? "rejected" : "does not support"
  const failure = new Failure(code, { ...detail, message: `The model's backend ${words} '${field}' of the request.` })
  return { ...fault, failure }
}

/** As many steps of a field's path as lead somewhere in the client's own body, its lists by number. */
function clientField(path: string, body: JsonObject): string {
  const known: string[] = []
  let here: Json | undefined = body
  for (const step of path.split(/[.[\]]+/, MAX_STEPS)) {
    if (!NAMEABLE.test(step) || typeof here !== "object" || here === null || !Object.hasOwn(here, step)) break
    known.push(step)
    here = (here as JsonObject)[step]
  }
  return known.join(".")
}

const MAX_STEPS = 10
const NAMEABLE = /^\w{1,64}$/

/**
 * Coding agents compact their history by the numbers in a context overflow (decisions §7). Where the backend gave none,
 * they are ours; an estimate that says the prompt fits is wrong by at least one token.
 */
function withNumbers(fault: Fault, { offer: { model }, request }: RequestTurn): Fault {
  const { code, detail } = fault.failure
  if (code !== "upstream.context_length_exceeded" || detail.message !== undefined) return fault
  if (model.contextWindow === null) return fault
  const count = Math.max(request.inputTokens, model.contextWindow + 1)
  const message = promptTooLongMessage({ count, limit: model.contextWindow })
  return { ...fault, failure: new Failure(code, { ...detail, message }) }
}
