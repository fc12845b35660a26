/** A failure in a messages stream: the format's own `error` event, which its SDKs raise (decisions §6, §12.8). */
import type { Failure } from "../../failure/failure.ts"
import type { FailureContext } from "../format.ts"
import { encodeSse } from "../sse.ts"
import { messagesErrorType, toldMessage } from "../stream-error.ts"

export const streamFailure = (failure: Failure, { requestId }: FailureContext): string =>
  encodeSse(
    "error",
    JSON.stringify({
      type: "error",
      error: { type: messagesErrorType(failure), message: toldMessage(failure) },
      request_id: requestId,
    }),
  )
