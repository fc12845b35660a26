/**
 * One call, top to bottom: who calls, what is asked, which models may answer; then it is under way (under-way.ts). Whatever
 * comes of it, the key's limits go out with it.
 */
import { type Soon, soon } from "../../actors/kernel/actor.ts"
import type { LedgerView } from "../../actors/ledger.ts"
import type { Offer } from "../catalogue/live.ts"
import { Failure } from "../failure/failure.ts"
import { DROPPED_FIELDS, droppedHeader } from "../wire/dropped-fields.ts"
import type { ClientSide } from "../wire/format.ts"
import { affordsBody, affordsInput } from "./admit.ts"
import type { Answer } from "./answering.ts"
import { authenticate, type Caller, rateHeaders } from "./authenticate.ts"
import { type CallTrace, traceCall } from "./call-trace.ts"
import { candidates, type Chain, fallbackOf } from "./candidates.ts"
import type { StreamConnection } from "./outbox.ts"
import type { GatewayPorts } from "./ports.ts"
import { readBody } from "./read-body.ts"
import { Call } from "./under-way.ts"
import { type Understood, understand, usesMuchTime } from "./understand.ts"
import { type InputWeight, type Weighed, weigh } from "./weigh.ts"

/** How long the ledger may fail before nothing more is forwarded (decisions §3). */
const LEDGER_LAG_MS = 2_000

export async function call(
  ports: GatewayPorts,
  format: ClientSide,
  request: Request,
  requestId: string,
  connection?: StreamConnection,
): Promise<Response | Failure> {
  if (ports.draining.aborted) return new Failure("gateway.capacity", { retryAfterS: 1 })
  const startedAt = ports.clock.now()
  const calling = authenticate(ports.actors, request.headers)
  const caller = calling instanceof Promise ? await calling : calling
  if (caller instanceof Failure) return caller
  const trace = traceCall(ports.tracing, format, request, { requestId, startedAt })
  const answer = await answered({ ports, format, request, requestId, caller, connection, trace })
  trace?.answered(answer)
  const viewing = ports.actors.keys.view(caller.keyHash)
  const view = viewing instanceof Promise ? await viewing : viewing
  const rates = view instanceof Failure ? {} : rateHeaders(view)
  if (answer instanceof Failure) return answer.withHeaders(rates)
  return new Response(answer.body, { headers: Object.assign(rates, answer.headers) })
}

interface Received {
  readonly ports: GatewayPorts
  readonly format: ClientSide
  readonly request: Request
  readonly requestId: string
  readonly caller: Caller
  readonly connection: StreamConnection | undefined
  readonly trace: CallTrace | undefined
}

/** What was taken for the call is given back when it is over. */
async function answered(received: Received): Promise<Answer | Failure> {
  const { ports, format, request, requestId, caller } = received
  const { limits, clock } = ports
  const { accountId } = caller.record
  const share = ports.bodies.share(accountId)
  let understood: Understood | Failure | undefined
  const release = () => {
    if (understood !== undefined && !(understood instanceof Failure)) understood.release()
    share[Symbol.dispose]()
  }
  let isUnderWay = false
  try {
    const bytes = await readBody(request, {
      maxBytes: limits.maxBodyBytes,
      idleMs: limits.bodyIdleMs,
      clock,
      share,
      admit: (size, holdsMuch) => {
        const much = holdsMuch || usesMuchTime(ports, accountId)
        return affordsBody(ports, caller, requestId, { bytes: size, much })
      },
    })
    if (bytes instanceof Failure) return bytes
    const sender = { accountId, keyId: caller.record.keyId, headers: request.headers }
    understood = await understand(bytes, format, sender, ports)
    if (understood instanceof Failure) return understood
    const { model, price } = understood.offer
    const paysFor = (tokens: number) => affordsInput(ports, caller, requestId, { tokens, rates: price.rates })
    const weighing = weigh({ request: understood.request, model, accountId, paysFor }, ports)
    const weight = weighing instanceof Promise ? await weighing : weighing
    const asked = weighed(understood, weight)
    const choosing = chainOf(received, asked)
    const chain = choosing instanceof Promise ? await choosing : choosing
    if (chain instanceof Failure) return withDropped(chain, asked)
    isUnderWay = true
    return withDropped(await underWay(received, asked, chain, release), asked)
  } finally {
    if (!isUnderWay) release()
  }
}

/** From here on the request's input tokens are what it likely comes to. */
function weighed(understood: Understood, weight: InputWeight): Weighed {
  const { offer, exchange, conversation, large, requestBytes, release } = understood
  const isAsEstimated = understood.request.inputTokens === weight.likely
  const request = isAsEstimated ? understood.request : { ...understood.request, inputTokens: weight.likely }
  return { request, offer, exchange, conversation, large, requestBytes, release, weight }
}

/** The models that may answer; a Failure also where the ledger is too far behind for any (decisions §3). */
function chainOf({ ports, request, requestId, caller }: Received, asked: Weighed): Soon<Chain | Failure> {
  const fallback = fallbackOf(caller.record.fallback, request.headers)
  if (fallback instanceof Failure) return fallback
  const tokens = asked.request.inputTokens
  const affords = ({ price: { rates } }: Offer) => affordsInput(ports, caller, requestId, { tokens, rates })
  return soon(candidates(asked, { fallback, affords }, ports), (chain) => {
    if (chain instanceof Failure) return chain
    return soon(ports.actors.ledger.view(caller.record.accountId), (ledger) => ifInTime(ledger, chain))
  })
}

function ifInTime(ledger: LedgerView | Failure, chain: Chain): Chain | Failure {
  if (ledger instanceof Failure) return ledger
  return ledger.lagMs > LEDGER_LAG_MS ? new Failure("dependency.database_unavailable") : chain
}

function underWay(
  { ports, format, request, requestId, caller, connection, trace }: Received,
  asked: Weighed,
  chain: Chain,
  release: () => void,
): Promise<Answer | Failure> {
  const clientHeaders = request.headers
  trace?.asked(asked)
  const call = new Call({ ports, format, requestId, caller, asked, chain, clientHeaders, connection, trace, release })
  if (request.signal.aborted) call.leave()
  request.signal.addEventListener("abort", () => call.leave())
  call.begin()
  return call.answer
}

/** Whoever wrote a field that did not travel is told so, however the call ends. */
function withDropped(answer: Answer | Failure, { request: { dropped } }: Weighed): Answer | Failure {
  const names = droppedHeader(dropped)
  if (names === undefined) return answer
  const header = { [DROPPED_FIELDS]: names }
  if (answer instanceof Failure) return answer.withHeaders(header)
  return { ...answer, headers: { ...answer.headers, ...header } }
}
