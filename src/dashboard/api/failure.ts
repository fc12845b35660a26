/** What went wrong: the error body of an answer (gateway-api.md, "Error body"), or that the server could not be reached. */
import type { ErrorBody } from "../../http/dashboard/contract.ts"

/** The body of an error, or what a stream says of one, whose codes are short. */
type ToldError = Omit<ErrorBody, "code"> & { readonly code: string }

export class ApiFailure extends Error {
  /** Undefined when there was no answer of the gateway at all. */
  readonly body: ToldError | undefined
  readonly status: number
  /** Seconds to wait at least. */
  readonly retryAfterS: number | undefined

  constructor(body: ToldError | undefined, status: number, retryAfterS?: number) {
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

interface Answered {
  readonly data: unknown
  readonly error: { readonly value: unknown } | null
  readonly status: number
  readonly response: Response
}
type Data<A> = A extends { readonly error: null; readonly data: infer T } ? T : never

/** What a call of the client was told, or an ApiFailure: what queries and mutations want. */
export async function told<A extends Answered>(call: Promise<A>): Promise<Data<A>> {
  const { data, error, status, response } = await call.catch(() => {
    throw new ApiFailure(undefined, 0)
  })
  if (error === null) return data as Data<A>
  throw new ApiFailure(errorBody(error.value), status, retryAfterS(response))
}

/** Of an answer to a call that the client does not make: the models' own paths. */
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
