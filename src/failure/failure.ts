/**
 * An expected bad outcome, as a value. Whatever can go wrong in an expected way returns `T | Failure`; bugs throw.
 * A failure names a code of the table and may sharpen its message; it never carries a status or a backend's text.
 */
import { type FailureCode, failureRow, type StreamCode } from "./table.ts"

export interface FailureDetail {
  /** Instead of the table's fixed message, where a number or a name helps. Never a backend's text. */
  readonly message?: string
  readonly hint?: string
  /** Whole seconds to wait at least, sent as `Retry-After`. */
  readonly retryAfterS?: number
  /** A sharper short code inside a stream, where the class is wider than the reason (a time-out is one of many 502s). */
  readonly stream?: StreamCode
  /** Further response headers, such as `Allow` or the key's rate headers. */
  readonly headers?: Readonly<Record<string, string>>
  /** It is the operator's to mend, such as a key or a quota at a backend, and raises an alert. */
  readonly alert?: boolean
}

export class Failure {
  readonly code: FailureCode
  readonly detail: FailureDetail

  constructor(code: FailureCode, detail: FailureDetail = {}) {
    this.code = code
    this.detail = detail
  }

  get status(): number {
    return failureRow(this.code).status
  }
  get retryable(): boolean {
    return failureRow(this.code).retryable
  }
  get message(): string {
    return this.detail.message ?? failureRow(this.code).message
  }
  get hint(): string | undefined {
    return this.detail.hint ?? failureRow(this.code).hint
  }

  /** The same failure with more headers, for what only an outer layer knows. */
  withHeaders(headers: Readonly<Record<string, string>>): Failure {
    return new Failure(this.code, { ...this.detail, headers: { ...this.detail.headers, ...headers } })
  }

  /** The error body (gateway-api.md, "Error body"): `type` is the part of the code after its last dot. */
  body(requestId: string): Record<string, string | boolean> {
    const { hint } = this
    return {
      error: this.message,
      code: this.code,
      type: this.code.slice(this.code.lastIndexOf(".") + 1),
      request_id: requestId,
      retryable: this.retryable,
      ...(hint === undefined ? {} : { hint }),
    }
  }
}

/** A request that says something wrong, and what. */
export const invalid = (message: string): Failure => new Failure("request.invalid", { message })

/** No room for now; the next try may find some. */
export const noCapacity = (): Failure => new Failure("gateway.capacity", { retryAfterS: 1 })

/** Undefined: no wait helps. */
export const retryAfter = (retryAfterS: number | undefined): FailureDetail =>
  retryAfterS === undefined ? {} : { retryAfterS }

/** What `Retry-After` says of a wait in seconds: whole ones, and at least one. */
export const wholeSeconds = (waitS: number): number => Math.max(1, Math.ceil(waitS))
