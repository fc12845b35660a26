/**
 * One call, top to bottom: who calls and what is asked here, and then its story (story.ts). Whatever comes of it, the
 * key's limits go out with it.
 */
import type { KeyView } from "../../actors/key.ts"
import { Failure } from "../failure/failure.ts"
import type { WireFormat } from "../wire/format.ts"
import { authenticate } from "./authenticate.ts"
import type { GatewayPorts } from "./ports.ts"
import { rateHeaders } from "./rate-headers.ts"
import { readBody } from "./read-body.ts"
import { Story } from "./story.ts"
import { understand } from "./understand.ts"

export async function call(
  ports: GatewayPorts,
  format: WireFormat,
  request: Request,
  requestId: string,
): Promise<Response | Failure> {
  const { actors, limits } = ports
  if (ports.draining.aborted) return new Failure("gateway.capacity", { retryAfterS: 1 })
  const caller = await authenticate(actors, request.headers)
  if (caller instanceof Failure) return caller
  const withRates = async (answer: Response | Failure): Promise<Response | Failure> => {
    const view = await actors.keys.ask<KeyView>(caller.keyHash, (reply) => ({ type: "view", reply }))
    if (view.kind !== "ok") return answer
    const headers = rateHeaders(view.value)
    if (answer instanceof Failure) return answer.withHeaders(headers)
    for (const [name, value] of Object.entries(headers)) answer.headers.set(name, value)
    return answer
  }

  const bytes = await readBody(request, limits.maxBodyBytes)
  if (bytes instanceof Failure) return await withRates(bytes)
  const understood = understand(bytes, format, ports)
  if (understood instanceof Failure) return await withRates(understood)
  const story = new Story(ports, format, request, requestId, caller, understood)
  return await withRates(await story.tell())
}
