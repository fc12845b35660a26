/** The three endpoints that call models, and the free token count of the messages format. */
import { Elysia } from "elysia"
import { affords, paysForInput } from "../gateway/afford-body.ts"
import { authenticate } from "../gateway/authenticate.ts"
import { call } from "../gateway/call.ts"
import type { GatewayPorts } from "../gateway/ports.ts"
import { Failure } from "../failure/failure.ts"
import type { WireFormat } from "../wire/format.ts"
import { readBody } from "../gateway/read-body.ts"
import { readRequest } from "../gateway/understand.ts"
import { weigh } from "../gateway/weigh.ts"
import { edge } from "./edge.ts"

/** One mount line a format. */
export const callController = (ports: GatewayPorts, format: WireFormat) =>
  new Elysia({ name: `call:${format.endpoint}` })
    .use(edge)
    .post(format.path, ({ request, requestId, connection }) => call(ports, format, request, requestId, connection), {
      parse: "none",
    })

/**
 * Answered from the estimator, free, outside the request window (decisions §8): coding agents call it many times a
 * minute. The body is a request without `max_tokens`.
 */
export const countTokensController = (ports: GatewayPorts, messages: WireFormat) =>
  new Elysia({ name: "count-tokens" }).use(edge).post(
    `${messages.path}/count_tokens`,
    async ({ request, requestId }) => {
      const caller = await authenticate(ports.actors, request.headers, false)
      if (caller instanceof Failure) return caller
      const { limits, clock } = ports
      const { accountId } = caller.record
      using share = ports.bodies.share(accountId)
      const bytes = await readBody(request, {
        maxBytes: limits.maxBodyBytes,
        idleMs: limits.bodyIdleMs,
        clock,
        share,
        // Free, so that one large body is nobody's business; but not many at once of whoever has no money.
        admit: async (size, much) =>
          much ? await affords(ports, caller, requestId, { bytes: size, much }) : undefined,
      })
      if (bytes instanceof Failure) return bytes
      const read = await readRequest(bytes, messages.endpoint, ports, accountId)
      if (read instanceof Failure) return read
      using held = new DisposableStack()
      held.defer(read.release)
      const offer = ports.catalogue.find(read.model, clock.now())
      if (offer === undefined) return new Failure("model.unknown")
      if (!offer.model.endpoints.has(messages.endpoint))
        return new Failure("request.invalid", { message: "The model is not served on this endpoint." })
      // A request needs an answer limit, and the count does not.
      const decoded = await read.decode({ more: { max_tokens: 1 } })
      if (decoded instanceof Failure) return decoded
      const paysFor = (tokens: number) => paysForInput(ports, caller, requestId, { tokens, rates: offer.price.rates })
      const { likely } = await weigh({ request: decoded, model: offer.model, accountId, paysFor }, ports)
      return { input_tokens: likely }
    },
    { parse: "none" },
  )
