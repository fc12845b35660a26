/**
 * Large bodies to whoever has one: read, asked of a backend, let go. Where the work is done is another's (workers.ts): in
 * the gateway on another thread, in a simulation, which has none, on the spot.
 */
import type { Endpoint, ModelRequest, Target } from "../language/request.ts"
import { Failure } from "../failure/failure.ts"
import { type BackendModel, distantExchange, type Exchange } from "../wire/exchange.ts"
import { answer, type Answer, type DecodeTerms, Desk, type Question } from "./desk.ts"

/** Somebody who answers, for an account where there is a queue; a Failure where there is no room, or the body was lost. */
export interface Clerk {
  ask(question: Question, accountId: string): Promise<Answer | Failure>
  free(id: number): void
}

/** A body that names a model. */
export interface LargeBody extends Disposable {
  readonly model: string
  /** Without its conversation. */
  decode(terms: DecodeTerms): Promise<ModelRequest | Failure>
  /** `request` is what it was decoded to. */
  exchange(request: ModelRequest, backend: BackendModel, takes: Omit<Target, "model">): Promise<Exchange | Failure>
}

export class LargeBodies {
  readonly #clerk: Clerk
  #ids = 0

  constructor(clerk: Clerk) {
    this.#clerk = clerk
  }

  /** The bytes are the clerk's from now on. */
  async read(bytes: Uint8Array<ArrayBuffer>, accountId: string, endpoint: Endpoint): Promise<LargeBody | Failure> {
    const id = ++this.#ids
    const ask = <Type extends Question["type"]>(question: Extract<Question, { type: Type }>) =>
      this.#ask(question, accountId)
    const read = await ask({ type: "read", id, bytes, endpoint })
    if (read instanceof Failure) {
      this.#clerk.free(id)
      return read
    }
    return {
      model: read.model,
      async decode(terms) {
        const decoded = await ask({ type: "decode", id, terms })
        return decoded instanceof Failure ? decoded : decoded.request
      },
      async exchange(request, { format, model }, takes) {
        const terms = { backend: { format, model }, takes }
        const told = await ask({ type: "meet", id, terms })
        if (told instanceof Failure) return told
        return distantExchange(request, terms.backend, told.met.prompt, async (encoding) => {
          const found = await ask({ type: "write", id, terms: { ...terms, ...encoding } })
          return found instanceof Failure ? found : found.written
        })
      },
      [Symbol.dispose]: () => this.#clerk.free(id),
    }
  }

  async #ask<Type extends Question["type"]>(
    question: Extract<Question, { type: Type }>,
    accountId: string,
  ): Promise<Extract<Answer, { type: Type }> | Failure> {
    const told = await this.#clerk.ask(question, accountId)
    if (told instanceof Failure) return told
    if (told.type === "refused") return new Failure(told.refusal.code, told.refusal.detail)
    if (isAnswerTo(question.type, told)) return told
    throw new Error(`a desk that was asked to ${question.type} says ${told.type}`)
  }
}

const isAnswerTo = <Type extends Answer["type"]>(type: Type, told: Answer): told is Extract<Answer, { type: Type }> =>
  told.type === type

/** Answers on the spot. */
export class DirectClerk implements Clerk {
  readonly #desk = new Desk()

  async ask(question: Question): Promise<Answer> {
    return answer(this.#desk, question)
  }

  free(id: number): void {
    this.#desk.free(id)
  }
}
