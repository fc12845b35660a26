/** One account as its owner uses it: calls with its key, the dashboard with its session, and what it was told of each call. */
import { paths, failures, type Format, terminals } from "../../crash/asking.ts"
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

  async call(format: Format, body: unknown, options: CallOptions = {}): Promise<Answered> {
    const sent = typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body)
    const response = await fetch(this.#arena.url + paths[format], {
      method: "POST",
      headers: {
        "Content-Type": "application/json",
        Authorization: `Bearer ${options.key ?? this.key}`,
        ...options.headers,
      },
      body: sent as BodyInit,
      ...(options.signal && { signal: options.signal }),
    })
    const told = await response.text().catch(() => undefined)
    const text = told ?? ""
    const stream = response.headers.get("content-type")?.includes("event-stream") === true
    const failed = stream ? text.includes(failures[format]) : text.includes('"status":"failed"')
    return {
      status: response.status,
      code: response.headers.get("x-error-code"),
      requestId: response.headers.get("x-request-id") ?? "",
      costRp: response.headers.get("x-cost-rp"),
      headers: response.headers,
      text,
      ended: response.status === 200 && told !== undefined && !failed && (!stream || text.includes(terminals[format])),
    }
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

/** A conversation of one message in the format's own field. */
export const asking = (format: Format, model: string, prompt: string, more: object = {}): object => {
  const user = [{ role: "user", content: prompt }]
  if (format === "responses") return { model, input: prompt, ...more }
  return format === "messages" ? { model, max_tokens: 64, messages: user, ...more } : { model, messages: user, ...more }
}
