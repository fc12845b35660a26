/** A failed API call: the error body that the server sent (gateway-api.md, "Error body"), or that it was not reached. */
import type { ErrorBody } from "../../http/errors.ts"

/** An error body. The codes of errors inside a stream are shorter. */
type ErrorDetails = Omit<ErrorBody, "code"> & { readonly code: string }

export class ApiFailure extends Error {
  /** Undefined when the gateway did not answer at all. */
  readonly body: ErrorDetails | undefined
  readonly status: number
  /** The least time to wait, in seconds. */
  readonly retryAfterS: number | undefined

  constructor(body: ErrorDetails | undefined, status: number, retryAfterS?: number) {
    super(body?.error ?? "no answer")
    this.name = "ApiFailure"
    this.body = body
    this.status = status
    this.retryAfterS = retryAfterS
  }

  get code(): string | undefined {
    return this.body?.code
  }
}

export const isSignedOut = (error: unknown): boolean =>
  error instanceof ApiFailure && error.body?.code === "auth.unauthorized"

/** The failure of a response that did not come through the typed client: of the model endpoints. */
export async function failureOf(response: Response): Promise<ApiFailure> {
  const body: unknown = await response.json().catch(() => undefined)
  return new ApiFailure(errorBody(body), response.status, retryAfterS(response))
}

export function retryAfterS(response: Response | undefined): number | undefined {
  const seconds = Number(response?.headers.get("retry-after") ?? Number.NaN)
  return Number.isFinite(seconds) ? seconds : undefined
}

export function errorBody(value: unknown): ErrorBody | undefined {
  const isBody = typeof value === "object" && value !== null && "code" in value && "request_id" in value
  return isBody ? (value as ErrorBody) : undefined
}

const MAX_RETRIES = 2

/** Whether a failed query is repeated by itself: when the server calls the failure retryable, or the connection failed. */
export const mayRetry = (failures: number, error: Error): boolean =>
  failures < MAX_RETRIES && error instanceof ApiFailure && (error.body?.retryable ?? error.status === 0)
