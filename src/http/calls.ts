/** The three endpoints that call models, and the free token count of the messages format. */
import { Elysia } from "elysia"
import { authenticate } from "../gateway/authenticate.ts"
import { call } from "../gateway/call.ts"
import type { GatewayPorts } from "../gateway/ports.ts"
import { Failure } from "../failure/failure.ts"
import type { WireFormat } from "../wire/format.ts"
import { parseBody, readModel } from "../wire/body.ts"
import { readBody } from "../gateway/read-body.ts"
import { edge } from "./edge.ts"

/** One mount line a format. */
export const callController = (ports: GatewayPorts, format: WireFormat) =>
  new Elysia({ name: `call:${format.endpoint}` })
    .use(edge)
    .post(format.path, ({ request, requestId }) => call(ports, format, request, requestId), { parse: "none" })

/**
 * Answered from the estimator, free, outside the request window (decisions §8): coding agents call it many times a
 * minute. The body is a request without `max_tokens`.
 */
export const countTokensController = (ports: GatewayPorts, messages: WireFormat) =>
  new Elysia({ name: "count-tokens" }).use(edge).post(
    `${messages.path}/count_tokens`,
    async ({ request }) => {
      const caller = await authenticate(ports.actors, request.headers, false)
      if (caller instanceof Failure) return caller
      const bytes = await readBody(request, ports.limits.maxBodyBytes)
      if (bytes instanceof Failure) return bytes
      const body = parseBody(bytes)
      if (body instanceof Failure) return body
      const model = readModel(body)
      if (model instanceof Failure) return model
      const offer = ports.catalogue.find(model, ports.clock.now())
      if (offer === undefined) return new Failure("model.unknown")
      if (!offer.model.endpoints.has(messages.endpoint))
        return new Failure("request.invalid", { message: "The model is not served on this endpoint." })
      const decoded = messages.decodeRequest({ ...body, max_tokens: 1 })
      if (decoded instanceof Failure) return decoded
      return { input_tokens: Math.ceil(decoded.inputTokens * ports.calibration.factor(offer.model.id)) }
    },
    { parse: "none" },
  )
