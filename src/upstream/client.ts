/**
 * One call to a backend: what travels, and what its answer or its failure means (decisions §7, §12.13). A backend's text
 * is read to classify it and goes no further.
 */
import type { Clock } from "../../actors/kernel/clock.ts"
import { Failure } from "../failure/failure.ts"
import type { JsonObject } from "../language/json.ts"
import { classifyBackendError } from "../wire/backend-error.ts"
import { bedrockError } from "../wire/bedrock/error.ts"
import { invokeBody } from "../wire/bedrock/invoke.ts"
import type { Manner, WrittenBody } from "../wire/exchange.ts"
import { askedBetas } from "../wire/shared/betas.ts"
import { FRAMED, signedHeaders, unframed } from "./bedrock.ts"
import { decoded } from "./body.ts"
import type { Backend } from "./providers.ts"

export interface UpstreamCall {
  readonly backend: Backend
  readonly format: Manner
  /** With its `/v1`, where it has one. */
  readonly path: string
  readonly body: JsonObject | WrittenBody
  /** The client's headers, of which only an allow-list travels. */
  readonly clientHeaders: Headers
  /** Undefined where the backend is not told which trace it is in. */
  readonly traceParent: string | undefined
  readonly signal: AbortSignal
}

/** The part of the global `fetch` that calls to backends need. */
export type Fetch = (url: string, init: BunFetchRequestInit & { readonly decompress: boolean }) => Promise<Response>

/** What stands between the gateway and its backends. */
export interface Network {
  readonly fetch: Fetch
  readonly clock: Clock
}

/** Why a call came to nothing, and what may be done about it. */
export interface Fault {
  readonly failure: Failure
  /** The same call may be sent again, after at least so many milliseconds; undefined when it may not. */
  readonly retryAfterMs: number | undefined
  /** The backend's stream or answer had begun (its head was a 2xx). */
  readonly opened: boolean
  /** The operator should look: our credentials or our configuration are at fault. */
  readonly alert: boolean
  /** HTTP status of the refusal; undefined when there was none. */
  readonly status: number | undefined
  /** The field of the request that a refusal names, as the backend names it (`messages.0.content`): nothing that a client may see as it is. */
  readonly field?: string
}

/** A 429 is worth waiting for only when the backend says that it is this short. */
const SHORT_RETRY_AFTER_S = 2
/** How much of an error body is read to classify it. */
const ERROR_BODY_BYTES = 65_536

export async function send(call: UpstreamCall, network: Network): Promise<Response | Fault> {
  const url = call.backend.provider.baseUrl + call.path
  const body = isWritten(call.body) ? call.body : JSON.stringify(bodyFor(call, call.body))
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
      // Decompressed here, piece by piece, so that a small answer cannot become a large one unseen.
      decompress: false,
    })
  } catch {
    return connectionFault(false)
  }
  const plain = decoded(response)
  if (plain === undefined) {
    await response.body?.cancel()
    return { ...connectionFault(response.ok), retryAfterMs: undefined, alert: true, status: response.status }
  }
  return response.ok ? unframed(plain) : await refusal(plain, call, network)
}

/** A connection that could not be made, or broke: `opened` when the head of the answer had come. */
export const connectionFault = (opened: boolean): Fault => ({
  failure: new Failure("dependency.upstream_unavailable"),
  retryAfterMs: 0,
  opened,
  alert: false,
  status: undefined,
})

/** An answer, or an event of one, that is larger than any can be. Sent again it would be no smaller. */
export const overlongFault: Fault = { ...connectionFault(true), retryAfterMs: undefined, alert: true }

/** What a backend says went wrong in an answer that it had begun; only what may pass is worth another try. */
export const brokenFault = (failure: Failure): Fault => ({
  ...connectionFault(true),
  failure,
  retryAfterMs: failure.code === "dependency.upstream_unavailable" ? 0 : undefined,
})

async function refusal(response: Response, { format }: UpstreamCall, { clock }: Network): Promise<Fault> {
  const text = await firstBytes(response)
  const told = { status: response.status, body: parsed(text) }
  const isBedrock = format === "bedrock-invoke" || format === "bedrock-converse"
  const { status, body } = isBedrock ? bedrockError(told.status, told.body, response.headers) : told
  const { failure, alert, field } = classifyBackendError(status, body, response.headers, clock.now())
  return { failure, retryAfterMs: retryDelay(status, failure), opened: false, alert, status, field }
}

function retryDelay(status: number, failure: Failure): number | undefined {
  const { retryAfterS } = failure.detail
  if (status === 429) {
    return retryAfterS !== undefined && retryAfterS <= SHORT_RETRY_AFTER_S ? retryAfterS * 1_000 : undefined
  }
  return status === 408 || status >= 500 ? 0 : undefined
}

async function firstBytes(response: Response): Promise<string> {
  const reader = response.body?.getReader()
  if (reader === undefined) return ""
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
    // What has been read is enough, and the status says the rest.
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

/** In the envelope of InvokeModel the client's betas stand in the body. */
const bodyFor = ({ format, clientHeaders }: UpstreamCall, body: JsonObject): JsonObject =>
  format === "bedrock-invoke" ? invokeBody(body, clientHeaders.get("anthropic-beta")) : body

const isWritten = (body: JsonObject | WrittenBody): body is WrittenBody => body["blob"] instanceof Blob

/** A provider whose calls are signed gets no key of another kind: the signature is of everything else that is sent. */
async function signedFor(
  call: UpstreamCall,
  url: string,
  body: string | WrittenBody,
  { clock }: Network,
): Promise<Headers> {
  const headers = headersFor(call)
  const { signing: key } = call.backend
  if (key === undefined) return headers
  headers.delete("x-api-key")
  headers.delete("Authorization")
  // The hash of a body that was written elsewhere comes with it, and then nothing else of it is asked for.
  if (typeof body !== "string") headers.set("X-Amz-Content-Sha256", body.sha256)
  const signed = typeof body === "string" ? body : ""
  return await signedHeaders({ url, headers, body: signed, key, now: new Date(clock.now()) })
}

/** What is the same in every call to a backend, in each protocol. */
const prepared = new WeakMap<Backend, Map<Manner, Headers>>()

/** Towards messages backends the version and beta headers travel too; the provider's own headers override all. */
function headersFor({ backend, format, clientHeaders, traceParent }: UpstreamCall): Headers {
  const known = prepared.get(backend)?.get(format)
  const fixed = known ?? fixedHeaders(backend, format)
  if (known === undefined) prepared.set(backend, new Map(prepared.get(backend)).set(format, fixed))
  if (format !== "messages" && backend.signing === undefined && traceParent === undefined) return fixed
  const headers = new Headers(fixed)
  if (traceParent !== undefined) headers.set("traceparent", traceParent)
  if (format !== "messages") return headers
  const own = Object.keys(backend.provider.headers).map((name) => name.toLowerCase())
  const version = clientHeaders.get("anthropic-version")
  if (version && !own.includes("anthropic-version")) headers.set("anthropic-version", version)
  const { listed } = askedBetas(clientHeaders.get("anthropic-beta"))
  if (listed.length > 0 && !own.includes("anthropic-beta")) headers.set("anthropic-beta", listed.join(","))
  return headers
}

function fixedHeaders({ apiKey, provider }: Backend, format: Manner): Headers {
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
    if (format === "bedrock-converse") headers.set("Accept", `application/json, ${FRAMED}`)
    headers.set("Authorization", `Bearer ${apiKey}`)
  }
  for (const [name, value] of Object.entries(provider.headers)) headers.set(name, value)
  return headers
}

/** A request waits for no more than so many others to be prepared. */
const MOST_AT_ONCE = 32

/**
 * Requests to backends leave in groups. Bun's HTTP client has a thread of its own, and waking it costs more than what
 * it does for a request: those of one turn of the event loop wake it once (docs/performance.md). The same function,
 * whose requests leave when all that can be read of sockets now has been, or when enough of them wait.
 */
export function inGroups(fetch: Fetch, later: (run: () => void) => void = setImmediate): Fetch {
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
      if (waiting.length === MOST_AT_ONCE) leave()
    })
}
