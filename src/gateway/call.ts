/**
 * One call, top to bottom: who calls and what is asked here, and then its story (story.ts). Whatever comes of it, the
 * key's limits go out with it.
 */
import type { DroppedFields } from "../language/request.ts"
import { Failure } from "../failure/failure.ts"
import { DROPPED_FIELDS, droppedHeader } from "../wire/dropped-fields.ts"
import type { WireFormat } from "../wire/format.ts"
import { authenticate } from "./authenticate.ts"
import type { StreamConnection } from "./outbox.ts"
import type { GatewayPorts } from "./ports.ts"
import { affords, paysForInput } from "./afford-body.ts"
import { rateHeaders } from "./rate-headers.ts"
import { readBody } from "./read-body.ts"
import { Story } from "./story.ts"
import { understand } from "./understand.ts"
import { weigh } from "./weigh.ts"

export async function call(
  ports: GatewayPorts,
  format: WireFormat,
  request: Request,
  requestId: string,
  connection?: StreamConnection,
): Promise<Response | Failure> {
  const { actors, limits } = ports
  if (ports.draining.aborted) return new Failure("gateway.capacity", { retryAfterS: 1 })
  const caller = await authenticate(actors, request.headers)
  if (caller instanceof Failure) return caller
  const withRates = async (answer: Response | Failure): Promise<Response | Failure> => {
    const view = await actors.keys.view(caller.keyHash)
    if (view instanceof Failure) return answer
    const headers = rateHeaders(view)
    if (answer instanceof Failure) return answer.withHeaders(headers)
    for (const [name, value] of Object.entries(headers)) answer.headers.set(name, value)
    return answer
  }

  using held = new DisposableStack()
  const share = held.use(ports.bodies.share(caller.record.accountId))
  const bytes = await readBody(request, {
    maxBytes: limits.maxBodyBytes,
    idleMs: limits.bodyIdleMs,
    clock: ports.clock,
    share,
    admit: (size, much) => affords(ports, caller, requestId, { bytes: size, much }),
  })
  if (bytes instanceof Failure) return await withRates(bytes)
  const sender = { accountId: caller.record.accountId, headers: request.headers }
  const understood = await understand(bytes, format, sender, ports)
  if (understood instanceof Failure) return await withRates(understood)
  held.defer(understood.release)
  const { model, price } = understood.offer
  const weight = await weigh(
    {
      request: understood.request,
      model,
      accountId: caller.record.accountId,
      paysFor: (tokens) => paysForInput(ports, caller, requestId, { tokens, rates: price.rates }),
    },
    ports,
  )
  const weighed = { ...understood, request: { ...understood.request, inputTokens: weight.likely }, weight }
  const story = new Story(ports, format, request, requestId, caller, weighed, connection)
  const answer = await story.tell()
  const underWay = ports.underWay.get(requestId)
  if (underWay !== undefined) {
    const untilItEnds = held.move()
    const dispose = () => untilItEnds.dispose()
    void underWay.ended.then(dispose, dispose)
  }
  return await withRates(withDropped(answer, understood.request.dropped))
}

/** Whoever wrote a field that did not travel is told so, however the call ends. */
function withDropped(answer: Response | Failure, dropped: DroppedFields): Response | Failure {
  const names = droppedHeader(dropped)
  if (names === undefined) return answer
  if (answer instanceof Failure) return answer.withHeaders({ [DROPPED_FIELDS]: names })
  answer.headers.set(DROPPED_FIELDS, names)
  return answer
}
