/**
 * Clients that call without pause, at all endpoints, streamed and not, and sometimes leave; and what each was told. A
 * client never knows that a gateway was killed: its connection ends, and it calls again.
 */
import type { Random } from "../../../actors/kernel/clock.ts"
import { bodyOf, type Endpoint, endpoints, failures, paths, terminals } from "../asking.ts"
import type { Customer } from "../child.ts"
import { lots, modelName, type Tariff } from "./models.ts"
import type { Slot } from "./slot.ts"

/** What a client knows of a call of which it saw at least the head. */
export interface Seen {
  readonly requestId: string
  readonly client: Client
  readonly endpoint: Endpoint
  readonly streamed: boolean
  readonly status: number
  readonly code: string | null
  readonly costRp: string | null
  /** `cut`: the connection was lost before the end. `left`: the client went away. */
  readonly told: "answer" | "failure" | "cut" | "left"
  /** In milliseconds of `performance.now()`. */
  readonly begunMs: number
  readonly endedMs: number
}

export interface Client {
  readonly customer: Customer
  readonly tariff: Tariff
  /** Its money or its key's budget may end in mid-answer. */
  readonly limited: boolean
}

export interface Load {
  /** Calls of which the head arrived. */
  readonly seen: Seen[]
  /** All that were begun. */
  calls: number
  /** Resolves when the last call has ended, after `over`. */
  done: Promise<unknown>
}

export interface LoadTerms {
  readonly slots: readonly Slot[]
  readonly clients: readonly Client[]
  readonly random: Random
  readonly callers: number
  readonly over: AbortSignal
}

const LEAVES = 0.1
const LONGEST_STAY_MS = 300
const HANGS_MS = 60_000

export function startLoad({ slots, clients, random, callers, over }: LoadTerms): Load {
  const seen: Seen[] = []
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]!
  const load: Load = { seen, calls: 0, done: Promise.resolve() }
  const one = async () => {
    while (!over.aborted) {
      const { gateway } = pick(slots)
      if (gateway === undefined) {
        await Bun.sleep(10)
        continue
      }
      load.calls++
      const client = pick(clients)
      const endpoint = pick(endpoints)
      const streamed = random() < 0.5 && endpoint !== "embeddings"
      const staysMs = random() < LEAVES ? random() * LONGEST_STAY_MS : undefined
      const model = modelName(client.tariff, pick(lots), endpoint)
      const call = await ask(gateway.url, client, endpoint, model, streamed, staysMs)
      if (call === undefined) await Bun.sleep(10)
      else {
        seen.push(call)
        // Who is refused for want of money or a database does not ask again at once.
        if (call.status >= 400 && call.status !== 502) await Bun.sleep(30)
      }
    }
  }
  load.done = Promise.all(Array.from({ length: callers }, one))
  return load
}

/** Undefined when not even the head of an answer came. */
async function ask(
  url: string,
  client: Client,
  endpoint: Endpoint,
  model: string,
  streamed: boolean,
  staysMs: number | undefined,
): Promise<Seen | undefined> {
  const begunMs = performance.now()
  const leaving = AbortSignal.timeout(staysMs ?? HANGS_MS)
  const response = await fetch(url + paths[endpoint], {
    method: "POST",
    headers: { Authorization: `Bearer ${client.customer.key}` },
    body: JSON.stringify(bodyOf(endpoint, model, streamed)),
    signal: leaving,
  }).catch(() => undefined)
  if (response === undefined) {
    if (staysMs === undefined && leaving.aborted) throw new Error(`a call was not answered within ${HANGS_MS} ms`)
    return undefined
  }
  let text = ""
  let whole = true
  try {
    const decoder = new TextDecoder()
    for await (const bytes of response.body!) text += decoder.decode(bytes, { stream: true })
  } catch {
    whole = false
    if (staysMs === undefined && leaving.aborted) throw new Error(`an answer did not end within ${HANGS_MS} ms`)
  }
  return {
    requestId: response.headers.get("x-request-id") ?? "",
    client,
    endpoint,
    streamed,
    status: response.status,
    code: response.headers.get("x-error-code"),
    costRp: response.headers.get("x-cost-rp"),
    told: toldBy(response.status, text, whole, endpoint, streamed) ?? (leaving.aborted ? "left" : "cut"),
    begunMs,
    endedMs: performance.now(),
  }
}

/** Undefined when the end did not come. */
function toldBy(
  status: number,
  text: string,
  whole: boolean,
  endpoint: Endpoint,
  streamed: boolean,
): Seen["told"] | undefined {
  if (status !== 200) return "failure"
  if (streamed && endpoint !== "embeddings") {
    if (text.includes(failures[endpoint])) return "failure"
    return text.includes(terminals[endpoint]) ? "answer" : undefined
  }
  if (!whole) return undefined
  // A connection that is cut before the first byte of a body of unknown length looks like its end.
  try {
    const body = JSON.parse(text) as { readonly status?: string }
    return endpoint === "responses" && body.status === "failed" ? "failure" : "answer"
  } catch {
    return undefined
  }
}
