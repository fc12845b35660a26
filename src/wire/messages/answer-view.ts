/** What an answer says to a messages client beside what the backend said. */
import { isObject } from "../../language/json.ts"
import type { ModelRequest } from "../../language/request.ts"
import type { AnswerView } from "../codec.ts"

/** An id of this format's own kind is kept; else the answer is named after the request. */
export const messageId = (id: string | undefined, { requestId }: Pick<AnswerView, "requestId">): string =>
  id?.startsWith("msg_") === true ? id : `msg_${requestId.replace(/^req_/, "")}`

/**
 * Whether the client is to read thinking. Only one that asked for it is: others read the answer's text in its first
 * block (gateway-api.md, "POST /v1/messages"), also from a model that cannot be kept from thinking.
 */
export function tellsThinking({ body }: ModelRequest): boolean {
  const { thinking } = body
  return isObject(thinking) && thinking["type"] !== "disabled" && thinking["display"] !== "omitted"
}
