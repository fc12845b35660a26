/**
 * Somebody with a balance and a key, who watches what each call costs in all the places that tell: the answer's header,
 * the usage record, and the balance.
 */
import { expect } from "bun:test"
import type { Person, TestGateway } from "../gateway/harness.ts"

/** The answer of seven tokens, the tokens as the tests' models are scripted, and what they cost at the tests' rates. */
export const answer = "Your train leaves from platform nine now"
export const script = `input=100&cached=40&written=20&output=7&text=${encodeURIComponent(answer)}`
const chargeMicro = 100 * 1_000 + 40 * 100 + 20 * 1_250 + 7 * 5_000
export const costRp = "0.164"

export class Buyer {
  readonly gateway: TestGateway
  readonly person: Person
  readonly key: string

  private constructor(gateway: TestGateway, person: Person, key: string) {
    this.gateway = gateway
    this.person = person
    this.key = key
  }

  static async with(gateway: TestGateway, balanceRp: number, limits: Record<string, unknown> = {}): Promise<Buyer> {
    const person = await gateway.person(balanceRp)
    return new Buyer(gateway, person, (await gateway.key(person, limits)).key)
  }

  /** Runs one call, and holds its receipt against the balance; `requestId` is read from what the call comes to. */
  async buys<T>(call: () => Promise<T>, requestId: (answer: T) => string | null | undefined): Promise<T> {
    const before = await this.gateway.balance(this.person)
    const answer = await call()
    expect(await this.gateway.usage(this.person, requestId(answer) ?? "")).toMatchObject({
      input_tokens: 100,
      cache_read_tokens: 40,
      cache_write_tokens: 20,
      output_tokens: 7,
      charge_micro: chargeMicro,
      status: "ok",
    })
    const after = await this.gateway.balance(this.person)
    expect(before.balance_micro - after.balance_micro).toBe(chargeMicro)
    expect(after.held_micro).toBe(0)
    return answer
  }
}

/** The network as it is, with a count of what an SDK sent over it. */
export function countingFetch() {
  const counted = { calls: 0 }
  const fetchAndCount = (...args: Parameters<typeof fetch>) => {
    counted.calls++
    return fetch(...args)
  }
  return { counted, fetch: fetchAndCount }
}

/** What a promise is rejected with. */
export const thrownBy = (promise: PromiseLike<unknown>): Promise<unknown> =>
  Promise.resolve(promise).then(
    (value) => {
      throw new Error(`it did not fail, but came to ${JSON.stringify(value)}`)
    },
    (error: unknown) => error,
  )
