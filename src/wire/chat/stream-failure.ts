/**
 * A failure in a chat stream: one chunk whose top-level key is `error`, then the end mark (gateway-api.md, "Events" 4).
 */
import type { Failure } from "../../failure/failure.ts"
import type { FailureContext } from "../format.ts"
import { encodeSse } from "../sse.ts"
import { openErrorType, streamCode, toldMessage } from "../stream-error.ts"

export const streamFailure = (failure: Failure, { requestId }: FailureContext): string => {
  const error = {
    message: toldMessage(failure),
    type: openErrorType(failure),
    code: streamCode(failure),
    request_id: requestId,
  }
  return encodeSse("", JSON.stringify({ error })) + encodeSse("", "[DONE]")
}
