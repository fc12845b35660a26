/**
 * The dashboard's API, typed by the server's own routes (Eden). Types alone come from there: nothing of the server is in
 * the page. The session is a cookie that the page never sees.
 */
import { treaty } from "@elysiajs/eden/treaty2"
import type { DashboardApi } from "../../http/dashboard/api.ts"
import type { ErrorBody } from "../../http/edge.ts"

interface Parts {
  readonly fetch: (input: string, init?: RequestInit) => Promise<Response>
  readonly now: () => number
  readonly pause: (ms: number) => Promise<void>
  readonly newKey: () => string
  /** Ends one request, with its answer's body. */
  readonly limit: () => AbortSignal
}

interface Intent {
  readonly key: string
  readonly untilMs: number
}

/** Longer than anything that the server itself waits for. */
export const LIMIT_S = 60
const PAUSES_MS = [400, 1_500]
const KEPT_MS = 10 * 60_000
const MOST_KEPT = 100
/** How often it is asked what became of a change that is being carried out. */
const LOOKS = 10

const inPage: Parts = {
  fetch: (input, init) => fetch(input, init),
  now: Date.now,
  pause: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  // `randomUUID` is not there over plain http.
  newKey: () =>
    [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join(""),
  limit: () => AbortSignal.timeout(1_000 * LIMIT_S),
}

/**
 * The one way in which the page sends. A change carries an `Idempotency-Key`, made anew for each change that a person means,
 * not for each time that it is sent: whether a lost one was carried out is not known, so it is sent again with the same key,
 * by itself twice, and by who presses again within ten minutes. A file may take as long as it does; anything else has a limit.
 * Milliseconds.
 */
export function sender({ fetch, now, pause, newKey, limit }: Parts = inPage) {
  /** Changes whose outcome is not known, by what would be sent. */
  const open = new Map<string, Intent>()

  const intentOf = (sent: string): Intent => {
    for (const [other, { untilMs }] of open) if (untilMs <= now() || open.size > MOST_KEPT) open.delete(other)
    const intent = open.get(sent) ?? { key: newKey(), untilMs: now() + KEPT_MS }
    open.set(sent, intent)
    return intent
  }

  return async (input: string, init: RequestInit = {}, { isFile = false } = {}): Promise<Response> => {
    const { method = "GET", body, signal } = init
    const once = (sent: RequestInit) => {
      // All that is kept of an account is a file too.
      if (isFile || input.endsWith("/account/export")) return fetch(input, sent)
      return fetch(input, { ...sent, signal: signal ? AbortSignal.any([signal, limit()]) : limit() })
    }
    const isChange = method !== "GET" && method !== "HEAD"
    // Who signs in or up has no account yet to which a key could belong.
    if (!isChange || /\/auth\/sign-(?:in|up)$/.test(input)) return await once(init)
    const sent = `${method} ${input}\n${typeof body === "string" ? body : ""}`
    const intent = intentOf(sent)
    const headers = new Headers(init.headers)
    headers.set("Idempotency-Key", intent.key)
    const response = await persistently({ pause }, () => once({ ...init, headers }), signal)
    if (response.status < 500 && !isInProgress(response) && open.get(sent) === intent) open.delete(sent)
    return response
  }
}

async function persistently(
  { pause }: Pick<Parts, "pause">,
  send: () => Promise<Response>,
  signal: AbortSignal | null | undefined,
): Promise<Response> {
  let looks = 0
  for (let lost = 0; ;) {
    try {
      const response = await send()
      if (!isInProgress(response) || ++looks > LOOKS) return response
      await pause(1_000 * Number(response.headers.get("retry-after") ?? 1))
    } catch (error) {
      const pauseMs = PAUSES_MS[lost++]
      if (pauseMs === undefined || signal?.aborted === true || isLate(error)) throw error
      await pause(pauseMs)
    }
  }
}

/** The limit has ended it: who waited so long is not made to wait again. */
const isLate = (error: unknown): boolean => error instanceof DOMException && error.name === "TimeoutError"

const isInProgress = ({ status, headers }: Response): boolean =>
  status === 409 && headers.get("x-error-code") === "idempotency.in_progress"

const send = sender()

/** Times stay text, as the API sends them. They are parsed where they are shown. */
export const api = treaty<DashboardApi>(location.origin, {
  parseDate: false,
  // The client asks for more than the one call signature that it uses.
  fetcher: ((input: string, init?: RequestInit) => send(input, meant(input, init))) as typeof fetch,
})

interface Answered {
  readonly data: unknown
  readonly error: { readonly value: unknown } | null
  readonly status: number
  readonly response: Response | undefined
}
type Data<A> = A extends { readonly error: null; readonly data: infer T } ? T : never

/** The data that a call of the client returns. Throws an ApiFailure, as queries and mutations expect it. */
export async function unwrap<A extends Answered>(call: Promise<A>): Promise<Data<A>> {
  const { data, error, status, response } = await call.catch(unreached)
  if (error === null) return data as Data<A>
  // A request that could not be sent has no response, and a status that the client makes up.
  if (response === undefined) return unreached(error.value)
  throw new ApiFailure(errorBody(error.value), status, retryAfterS(response))
}

function unreached(cause: unknown): never {
  throw new ApiFailure(undefined, 0, undefined, { cause })
}

/** An error body. The codes of errors inside a stream are shorter. */
type ErrorDetails = Omit<ErrorBody, "code"> & { readonly code: string }

/**
 * A failed API call: the error body that the server sent (gateway-api.md, "Error body"), that something before the server
 * answered in its place, or that nothing was reached.
 */
export class ApiFailure extends Error {
  /** Undefined when the gateway did not answer itself. */
  readonly body: ErrorDetails | undefined
  /** 0 when nothing answered. */
  readonly status: number
  /** The least time to wait, in seconds. */
  readonly retryAfterS: number | undefined

  constructor(body: ErrorDetails | undefined, status: number, retryAfterS?: number, options?: ErrorOptions) {
    super(body?.error ?? "no answer", options)
    this.name = "ApiFailure"
    this.body = body
    this.status = status
    this.retryAfterS = retryAfterS
  }

  get code(): string | undefined {
    return this.body?.code
  }

  /** The server may be there, but has not answered within `LIMIT_S`. */
  get isLate(): boolean {
    return isLate(this.cause)
  }
}

/** The session looks at another account than this page, or at one of which the person is no member any more. */
export const isElsewhere = (error: unknown): boolean =>
  error instanceof ApiFailure && (error.code === "auth.other_account" || error.code === "auth.membership_ended")

/** A value is not allowed, or what is asked for is not possible as things are. */
export const isInvalid = (error: unknown): error is ApiFailure =>
  error instanceof ApiFailure && error.code === "request.invalid"

export const isSignedOut = (error: unknown): boolean =>
  error instanceof ApiFailure && error.body?.code === "auth.unauthorized"

/** The failure of a response that did not come through the typed client: of the model endpoints. */
export async function failureOf(response: Response): Promise<ApiFailure> {
  const body: unknown = await response.json().catch(() => undefined)
  return new ApiFailure(errorBody(body), response.status, retryAfterS(response))
}

function retryAfterS(response: Response | undefined): number | undefined {
  const seconds = Number(response?.headers.get("retry-after") ?? Number.NaN)
  return Number.isFinite(seconds) ? seconds : undefined
}

function errorBody(value: unknown): ErrorBody | undefined {
  const isBody = typeof value === "object" && value !== null && "code" in value && "request_id" in value
  return isBody ? (value as ErrorBody) : undefined
}

const MAX_RETRIES = 2

/** Of a proxy whose gateway is away for a moment, such as during an upgrade; 0: the connection failed. */
const PASSING: readonly number[] = [0, 502, 503, 504]

/** A longer wait is told, and not waited for. Seconds. */
const LONGEST_WAIT_S = 10

const waitS = (error: Error): number => (error instanceof ApiFailure ? (error.retryAfterS ?? 0) : 0)

/** Whether a failed query is repeated by itself: when the server calls the failure retryable and soon over, or nothing reached the server. */
export const mayRetry = (failures: number, error: Error): boolean =>
  failures < MAX_RETRIES &&
  error instanceof ApiFailure &&
  !error.isLate &&
  waitS(error) <= LONGEST_WAIT_S &&
  (error.body?.retryable ?? PASSING.includes(error.status))

/** After how long it is: not before the server says. Milliseconds. */
export const retryInMs = (failures: number, error: Error): number => 1_000 * Math.max(2 ** failures, waitS(error))

/**
 * Which account this page is about. Every call says so, because the choice is the session's and another tab may have made
 * another one meanwhile: the server then refuses what was meant for the account before.
 */
let shown: string | undefined

/** Before anything is asked for; undefined for a visitor. */
export const pageIsAbout = (accountId: string | undefined): void => void (shown = accountId)

/** The account itself is asked for without, because its answer says which one it is. */
const isTheQuestion = (input: string, method: string): boolean =>
  method === "GET" && new URL(input, location.origin).pathname === "/account"

function meant(input: string, init: RequestInit = {}): RequestInit {
  if (shown === undefined || isTheQuestion(input, init.method ?? "GET")) return init
  const headers = new Headers(init.headers)
  headers.set("X-Account-Id", shown)
  return { ...init, headers }
}

/** A file, and the name that the server gives it. It is whole, or an `ApiFailure`. */
export async function fileAt(path: string): Promise<{ readonly content: Blob; readonly name: string }> {
  const response = await send(path, meant(path), { isFile: true }).catch(unreached)
  if (!response.ok) throw await failureOf(response)
  const [, name = ""] = /filename="([^"]+)"/.exec(response.headers.get("content-disposition") ?? "") ?? []
  return { content: await response.blob().catch(unreached), name }
}
