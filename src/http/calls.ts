/** The three endpoints that call models, and the free token count of the messages format. */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { affordsBody, affordsInput } from "../gateway/admit.ts"
import { authenticate } from "../gateway/authenticate.ts"
import { call } from "../gateway/call.ts"
import type { GatewayPorts } from "../gateway/ports.ts"
import { Failure } from "../failure/failure.ts"
import { formats } from "../wire/exchange.ts"
import type { ClientSide } from "../wire/format.ts"
import { readBody } from "../gateway/read-body.ts"
import { readRequest } from "../gateway/understand.ts"
import { weigh } from "../gateway/weigh.ts"
import type { Endpoint } from "../language/request.ts"
import { fallbackChoice } from "./dashboard/keys.ts"
import { edge } from "./edge.ts"
import { documented, type RouteTerms } from "./route.ts"
import { anyObject, flag, integer, text } from "./shapes.ts"

const messages = Type.Array(anyObject)
const body = (fields: Parameters<typeof Type.Object>[0]) =>
  Type.Object({ model: text, ...fields, stream: Type.Optional(flag) }, { additionalProperties: true })
const COSTS =
  "Answers that do not stream carry `X-Cost-Rp`, what the call cost in Rupiah; of a stream it is read from `GET /usage/{request_id}`. Fields that the format does not have, and that the model's entry does not pass, are left out and named in `X-Dropped-Fields`: dotted paths, at most 20, then `...`."

/** What the document says of each endpoint's own. The formats' readers check the bodies. */
const terms: Readonly<Record<Endpoint, Pick<RouteTerms, "summary" | "description" | "body">>> = {
  chat: { summary: "Chat completions", description: COSTS, body: body({ messages }) },
  messages: { summary: "Messages", description: COSTS, body: body({ max_tokens: integer, messages }) },
  responses: {
    summary: "Responses",
    description: `${COSTS} Without streaming, a failure after the first keepalive is a body with \`status: "failed"\` under 200.`,
    body: body({ input: Type.Union([text, messages]) }),
  },
}

const headers = Type.Object({
  "X-Fallback": Type.Optional({
    ...fallbackChoice,
    description:
      "For this call in place of the key's `fallback`; a key that is `off` stays off. A rerouted answer has the headers `X-Model` and `X-Rerouted-From`, unless its head had gone with a heartbeat; `model` in the body always names the model that answered.",
  }),
})

/** Every format that clients speak. */
export function callsController(ports: GatewayPorts) {
  const app = new Elysia({ name: "calls" })
  for (const { client } of Object.values(formats)) {
    app.use(callController(ports, client))
    if (client.countPath !== undefined) app.use(countTokensController(ports, client, client.countPath))
  }
  return app
}

const callController = (ports: GatewayPorts, format: ClientSide) =>
  new Elysia({ name: `call:${format.endpoint}` }).use(edge).post(
    format.path,
    ({ request, requestId, connection }) => call(ports, format, request, requestId, connection),
    documented("key", {
      tag: "Calls",
      ...terms[format.endpoint],
      headers,
      answer: anyObject,
      media: "text/event-stream",
    }),
  )

/**
 * Answered from the estimator, free, outside the request window (decisions §8): coding agents call it many times a
 * minute. The body is a request without `max_tokens`.
 */
const countTokensController = (ports: GatewayPorts, format: ClientSide, path: string) =>
  new Elysia({ name: "count-tokens" }).use(edge).post(
    path,
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
        admit: (size, much) => (much ? affordsBody(ports, caller, requestId, { bytes: size, much }) : undefined),
      })
      if (bytes instanceof Failure) return bytes
      const read = await readRequest(bytes, format.endpoint, ports, accountId)
      if (read instanceof Failure) return read
      using held = new DisposableStack()
      held.defer(() => read.release())
      const offer = ports.catalogue.find(read.model, clock.now())
      if (offer === undefined) return new Failure("model.unknown")
      if (!offer.model.endpoints.has(format.endpoint))
        return new Failure("request.invalid", { message: "The model is not served on this endpoint." })
      // A request needs an answer limit, and the count does not.
      const decoded = await read.decode({ more: { max_tokens: 1 } })
      if (decoded instanceof Failure) return decoded
      const paysFor = (tokens: number) => affordsInput(ports, caller, requestId, { tokens, rates: offer.price.rates })
      const { likely } = await weigh({ request: decoded, model: offer.model, accountId, paysFor }, ports)
      return { input_tokens: likely }
    },
    documented("key", {
      tag: "Calls",
      summary: "An estimate of a request's input tokens, free",
      body: body({ messages }),
      answer: Type.Object({ input_tokens: integer }),
    }),
  )
