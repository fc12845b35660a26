/** The three endpoints that call models, and the free token count of the messages format. */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { meansOfCall } from "../gateway/afford.ts"
import { authenticate } from "../gateway/authenticate.ts"
import { endpointRefused, modelRefused } from "../gateway/binding.ts"
import { call } from "../gateway/call.ts"
import type { GatewayPorts } from "../gateway/ports.ts"
import { Failure } from "../failure/failure.ts"
import { formats } from "../wire/exchange.ts"
import type { ClientSide } from "../wire/format.ts"
import { readBody } from "../gateway/read-body.ts"
import { ORIGINAL_REQUEST_ID } from "../gateway/repeatable.ts"
import { IDEMPOTENCY_KEY, KEY_DESCRIPTION } from "../idempotency-key.ts"
import { readRequest } from "../gateway/understand.ts"
import { RUN_NAME } from "../gateway/runs.ts"
import { weigh } from "../gateway/weigh.ts"
import type { Endpoint } from "../language/request.ts"
import { fallbackChoice } from "./dashboard/key-settings.ts"
import { dryRunAnswer } from "./dry-run-answer.ts"
import { type DryRuns, dryRunHeader, isDryRun } from "./dry-runs.ts"
import { contextOf, edge } from "./edge.ts"
import { documented, type RouteTerms } from "./route.ts"
import { anyObject, flag, integer, text } from "./shapes.ts"

const messages = Type.Array(anyObject)
const body = (fields: Parameters<typeof Type.Object>[0]) =>
  Type.Object({ model: text, ...fields, stream: Type.Optional(flag) }, { additionalProperties: true })
const COSTS =
  "Answers that do not stream carry `X-Cost-Rp`, what the call cost in Rupiah; a stream says it in micro-rupiah in the comment line `: cost_micro=… request_id=…` right before its last event, 0 where nothing is charged, and `GET /usage/{request_id}` has it too. Fields that the format does not have, and that the model's entry does not pass, are left out and named in `X-Dropped-Fields`: dotted paths, at most 20, then `...`."

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
  "X-Dry-Run": dryRunHeader,
  [IDEMPOTENCY_KEY]: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      description: `${KEY_DESCRIPTION}, made anew for each call: within 24 hours the call is made and charged once, however often it is sent with the same API key and body. While it runs, a repeat reads along from the first byte, at most four at a time; for ten minutes after its end it gets the same bytes again. Then 409 \`idempotency.finished\` names the call and what it cost; with another body, 409 \`idempotency.mismatch\`; on another machine, while it runs there, 409 \`idempotency.in_progress\`. A replay has \`Idempotency-Replayed: true\`, the first call's id in \`${ORIGINAL_REQUEST_ID}\` and its \`X-Cost-Rp\`; it counts in the request window, costs nothing, and has no usage record. A call that failed frees its key. What an SDK sends again by itself (\`x-stainless-retry-count\` of 1 or more) needs no key: see \`replays_retries\` of a key.`,
    }),
  ),
  "X-Run-Id": Type.Optional(
    Type.RegExp(RUN_NAME, {
      description:
        "The run that the call is one of: 1 to 64 letters, digits, `.`, `_`, `:` and `-`, of which the first is a letter or a digit. All calls of the key with this id spend at most the run's budget; then, and from the run's end on (7 days after its first call), they are answered 402 `quota.run_limit_exceeded`. Answers carry `X-Run-Limit-Micro`, `X-Run-Usage-Micro` and `X-Run-Remaining-Micro`.",
    }),
  ),
  "X-Run-Budget-Rp": Type.Optional(
    Type.RegExp(/^[1-9]\d{0,9}$/, {
      description:
        "The run's budget in whole rupiah, from 1 to 1,000,000,000. The first call of a run has to say it; another value later is 400 `run.budget_mismatch`.",
    }),
  ),
  "X-Fallback": Type.Optional({
    ...fallbackChoice,
    description:
      "For this call in place of the key's `fallback`; a key that is `off` stays off. A rerouted answer has the headers `X-Model` and `X-Rerouted-From`, unless its head had gone with a heartbeat; `model` in the body always names the model that answered.",
  }),
})

/** Every format that clients speak. */
export function callsController(ports: GatewayPorts, dryRuns: DryRuns) {
  const app = new Elysia({ name: "calls" })
  for (const { client } of Object.values(formats)) {
    app.use(callController(ports, dryRuns, client))
    if (client.countPath !== undefined) app.use(countTokensController(ports, client, client.countPath))
  }
  return app
}

const callController = (ports: GatewayPorts, dryRuns: DryRuns, format: ClientSide) =>
  new Elysia({ name: `call:${format.endpoint}` }).use(edge).post(
    format.path,
    ({ request }) =>
      isDryRun(request)
        ? dryRuns.answer(format, request, contextOf(request))
        : call(ports, format, request, contextOf(request)),
    documented("key", {
      tag: "Calls",
      ...terms[format.endpoint],
      headers,
      answer: Type.Union([anyObject, dryRunAnswer]),
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
      const caller = await authenticate(ports.actors, request.headers, contextOf(request), false)
      if (caller instanceof Failure) return caller
      const notHere = endpointRefused(caller.record, format.endpoint)
      if (notHere !== undefined) return notHere
      const { limits, clock } = ports
      const { accountId } = caller.record
      const means = meansOfCall(ports, caller, requestId)
      using share = ports.bodies.share(accountId)
      const bytes = await readBody(request, {
        maxBytes: limits.maxBodyBytes,
        idleMs: limits.bodyIdleMs,
        clock,
        share,
        // Free, so that one large body is nobody's business; but not many at once of whoever has no money.
        admit: (size, much) => (much ? means.body({ bytes: size, much }) : undefined),
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
      const notFor = modelRefused(caller.record.binding, read.model, offer)
      if (notFor !== undefined) return notFor
      // A request needs an answer limit, and the count does not.
      const decoded = await read.decode({ more: { max_tokens: 1 } })
      if (decoded instanceof Failure) return decoded
      const paysFor = (tokens: number) => means.input({ tokens, rates: offer.price.rates })
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
