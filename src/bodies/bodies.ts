/**
 * Large request bodies: they are read, encoded for a backend, and freed. A `BodyExecutor` does the work: in the gateway on another
 * thread (workers.ts), in a simulation on the same one.
 */
import type { Clock } from "../../actors/kernel/clock.ts"
import { Failure } from "../failure/failure.ts"
import type { Endpoint, ModelRequest, Target } from "../language/request.ts"
import { type BackendModel, backendModel } from "../wire/protocol.ts"
import { type Exchange, isPassedThrough, remoteExchange } from "../wire/exchange.ts"
import { type BodyCommand, BodyProcessor, type BodyReply, type DecodeOptions, execute } from "./body-processor.ts"

/** Executes commands, queued by account. A Failure where there is no room or the body was lost. */
export interface BodyExecutor {
  ask(command: BodyCommand, accountId: string): Promise<BodyReply | Failure>
  free(id: number): void
}

/** A body whose model is known. */
interface LargeBody extends Disposable {
  readonly model: string
  /** The request without its conversation. */
  decode(terms: DecodeOptions): Promise<ModelRequest | Failure>
  /** `request` is the result of `decode`. */
  exchange(request: ModelRequest, backend: BackendModel, takes: Omit<Target, "model">): Promise<Exchange | Failure>
}

export class LargeBodies {
  readonly #executor: BodyExecutor
  #ids = 0

  constructor(clerk: BodyExecutor) {
    this.#executor = clerk
  }

  /** The executor owns the bytes from now on. */
  async read(bytes: Uint8Array<ArrayBuffer>, accountId: string, endpoint: Endpoint): Promise<LargeBody | Failure> {
    const id = ++this.#ids
    const ask = <Type extends BodyCommand["type"]>(command: Extract<BodyCommand, { type: Type }>) =>
      this.#ask(command, accountId)
    using held = new DisposableStack()
    held.defer(() => this.#executor.free(id))
    const read = await ask({ type: "read", id, bytes, endpoint })
    if (read instanceof Failure) return read
    const body = held.move()
    return {
      model: read.model,
      async decode(terms) {
        const decoded = await ask({ type: "decode", id, terms })
        return decoded instanceof Failure ? decoded : decoded.request
      },
      async exchange(request, backend, takes) {
        const terms = { backend: backendModel(backend), takes }
        const isKnown = isPassedThrough(endpoint, terms.backend)
        const reply = isKnown ? undefined : await ask({ type: "translate", id, terms })
        if (reply instanceof Failure) return reply
        return remoteExchange(request, terms.backend, reply?.translation.prompt, async (encoding) => {
          const found = await ask({ type: "write", id, terms: { ...terms, ...encoding } })
          return found instanceof Failure ? found : found.written
        })
      },
      [Symbol.dispose]: () => body.dispose(),
    }
  }

  async #ask<Type extends BodyCommand["type"]>(
    command: Extract<BodyCommand, { type: Type }>,
    accountId: string,
  ): Promise<Extract<BodyReply, { type: Type }> | Failure> {
    const reply = await this.#executor.ask(command, accountId)
    if (reply instanceof Failure) return reply
    if (reply.type === "refused") return new Failure(reply.refusal.code, reply.refusal.detail)
    if (isReplyTo(command.type, reply)) return reply
    throw new Error(`a body processor that was asked to ${command.type} replied to ${reply.type}`)
  }
}

const isReplyTo = <Type extends BodyReply["type"]>(
  type: Type,
  reply: BodyReply,
): reply is Extract<BodyReply, { type: Type }> => reply.type === type

/** Executes commands on the same thread. */
export class InlineBodyExecutor implements BodyExecutor {
  readonly #processor = new BodyProcessor()

  async ask(command: BodyCommand): Promise<BodyReply> {
    return execute(this.#processor, command)
  }

  free(id: number): void {
    this.#processor.free(id)
  }
}

const HALF_LIFE_MS = 10_000
/** Smaller amounts are forgotten. One body costs far more. */
const NOTHING = 0.01
const MOST_ACCOUNTS = 10_000

interface Used {
  readonly amount: number
  readonly at: number
}

/** Each account's recent use of a resource, in milliseconds or in number. Use decays by half every ten seconds. */
export class RecentUse {
  readonly #clock: Clock
  /** The latest user comes last. */
  readonly #accounts = new Map<string, Used>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  by(accountId: string): number {
    const used = this.#accounts.get(accountId)
    if (used === undefined) return 0
    const amount = used.amount * 0.5 ** ((this.#clock.monotonic() - used.at) / HALF_LIFE_MS)
    return amount < NOTHING ? 0 : amount
  }

  add(accountId: string, amount: number): void {
    const used = { amount: this.by(accountId) + amount, at: this.#clock.monotonic() }
    this.#accounts.delete(accountId)
    this.#accounts.set(accountId, used)
    for (const [oldest] of this.#accounts) {
      if (this.#accounts.size <= MOST_ACCOUNTS && this.by(oldest) > 0) break
      this.#accounts.delete(oldest)
    }
  }
}
