/** One account as its owner uses it: calls with its key, the dashboard with its session, and what it was told of each call. */
import { type Endpoint, failures, paths, terminals } from "../../crash/asking.ts"
import type { Customer } from "../../crash/child.ts"
import type { Arena } from "./arena.ts"
import type { Heard, Script } from "./backend.ts"

export interface Answered {
  readonly status: number
  readonly code: string | null
  readonly requestId: string
  readonly costRp: string | null
  readonly headers: Headers
  readonly text: string
  /** The answer came to its end and is no failure. */
  readonly ended: boolean
}

export interface UsageRecord {
  readonly status: string
  readonly charge_micro: number
  readonly input_tokens: number
  readonly output_tokens: number
  readonly [field: string]: unknown
}

export interface CallOptions {
  readonly key?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

export class Attacker {
  readonly #arena: Arena
  readonly customer: Customer
  readonly paidRp: number

  constructor(arena: Arena, customer: Customer, paidRp: number) {
    this.#arena = arena
    this.customer = customer
    this.paidRp = paidRp
  }

  get key(): string {
    return this.customer.key
  }

  get accountId(): string {
    return this.customer.accountId
  }

  /** The mark that makes the backend answer by the script; it goes into the prompt. */
  plays(script: Script): string {
    return this.#arena.backend.plays(this.accountId, script)
  }

  /** What of a mark's calls came to the backend. */
  heard(mark: string): Heard[] {
    return this.#arena.backend.of(mark)
  }

  async call(endpoint: Endpoint, body: unknown, options: CallOptions = {}): Promise<Answered> {
    const response = await this.post(paths[endpoint], body, options)
    const told = await response.text().catch(() => undefined)
    const text = told ?? ""
    const stream = response.headers.get("content-type")?.includes("event-stream") === true
    const streamed = stream && endpoint !== "embeddings" ? endpoint : undefined
    const failed = streamed === undefined ? text.includes('"status":"failed"') : text.includes(failures[streamed])
    const isWhole = streamed === undefined || text.includes(terminals[streamed])
    return {
      status: response.status,
      code: response.headers.get("x-error-code"),
      requestId: response.headers.get("x-request-id") ?? "",
      costRp: response.headers.get("x-cost-rp"),
      headers: response.headers,
      text,
      ended: response.status === 200 && told !== undefined && !failed && isWhole,
    }
  }

  /** With its key. Bytes and text are sent as they stand. */
  post(path: string, body: unknown, { key = this.key, headers, signal }: CallOptions = {}): Promise<Response> {
    const sent = typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body)
    return fetch(this.#arena.url + path, {
      method: "POST",
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${key}`, ...headers },
      body: sent as BodyInit,
      ...(signal && { signal }),
    })
  }

  dashboard(path: string, method = "GET", body?: unknown): Promise<Response> {
    return fetch(this.#arena.url + path, {
      method,
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${this.customer.token}` },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
  }

  /** The final record, once it is there; undefined when it does not come within so long. */
  async record(requestId: string, withinMs = 5_000): Promise<UsageRecord | undefined> {
    const until = performance.now() + withinMs
    do {
      const response = await this.dashboard(`/usage/${requestId}`)
      if (response.ok) return (await response.json()) as UsageRecord
      await Bun.sleep(50)
    } while (performance.now() < until)
    return undefined
  }

  async moreKey(
    limits: Readonly<Record<string, unknown>> = {},
  ): Promise<{ readonly id: string; readonly key: string }> {
    const response = await this.dashboard("/keys", "POST", { name: "another", ...limits })
    if (response.status !== 201) throw new Error(`no key: ${response.status} ${await response.text()}`)
    return (await response.json()) as { id: string; key: string }
  }

  async topUp(amountRp: number): Promise<void> {
    const { gateway } = this.#arena
    await gateway.pay(await gateway.openTopUp(this.customer, amountRp), amountRp)
  }

  /** Asked again while the gateway has no answer to it. */
  async balanceMicro(): Promise<number> {
    for (let attempt = 1; ; attempt++) {
      const response = await this.dashboard("/account").catch(() => undefined)
      if (response?.ok === true) return ((await response.json()) as { balance_micro: number }).balance_micro
      if (attempt === 60) throw new Error(`no balance: ${response?.status ?? "no answer"}`)
      await Bun.sleep(500)
    }
  }
}

/** Rupiah, as they are read: Rp 1,234.5. */
export const rp = (micro: number | bigint): string =>
  `Rp ${(Number(micro) / 1e6).toLocaleString("en", { maximumFractionDigits: 2 })}`

/** A conversation of one message in the endpoint's own field. */
export const asking = (endpoint: Endpoint, model: string, prompt: string, more: object = {}): object => {
  const user = [{ role: "user", content: prompt }]
  if (endpoint === "responses" || endpoint === "embeddings") return { model, input: prompt, ...more }
  if (endpoint === "completions") return { model, prompt, ...more }
  return endpoint === "messages"
    ? { model, max_tokens: 64, messages: user, ...more }
    : { model, messages: user, ...more }
}
