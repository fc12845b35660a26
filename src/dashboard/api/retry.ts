/** Which failed questions are asked again by themselves. */
import { ApiFailure } from "./failure.ts"

const TRIES = 2

/** What the server calls retryable, or a connection that failed; neither for long. */
export const mayRetry = (failures: number, error: Error): boolean =>
  failures < TRIES && error instanceof ApiFailure && (error.body?.retryable ?? error.status === 0)
