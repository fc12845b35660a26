/** Keys of calls in memory: each operation does what its statement does (src/store/call-keys.ts), at once and whole. */
import { micro } from "../../actors/money/micro.ts"
import type { CallClaim, CallKeyRow, CallKeyStatements, Receipt } from "../../src/store/call-keys.ts"
import { type Tables, usageId } from "./model-tables.ts"

type Name = Pick<CallClaim, "keyId" | "keyHash">

const nameOf = ({ keyId, keyHash }: Name): string => `${keyId} ${Buffer.from(keyHash).toString("hex")}`

export class ModelCallKeys implements CallKeyStatements {
  readonly #tables: Tables
  readonly #rows = new Map<string, CallClaim>()

  constructor(tables: Tables) {
    this.#tables = tables
  }

  async takeCallKey(claim: CallClaim): Promise<boolean> {
    const row = this.#rows.get(nameOf(claim))
    const isFree = row === undefined || row.requestId === claim.requestId || this.#isOver(row)
    if (isFree) this.#rows.set(nameOf(claim), claim)
    return isFree
  }

  async readCallKey(name: Name): Promise<CallKeyRow | undefined> {
    const row = this.#rows.get(nameOf(name))
    if (row === undefined) return undefined
    const { fingerprint, requestId, processId } = row
    return { fingerprint, requestId, processId, receipt: this.#receipt(requestId) }
  }

  async takeCallKeyOver(claim: CallClaim, from: string): Promise<boolean> {
    const row = this.#rows.get(nameOf(claim))
    if (row?.processId !== claim.processId || ![from, claim.requestId].includes(row.requestId)) return false
    this.#rows.set(nameOf(claim), claim)
    return true
  }

  async freeCallKey(claim: Name & Pick<CallClaim, "requestId">): Promise<void> {
    if (this.#rows.get(nameOf(claim))?.requestId === claim.requestId) this.#rows.delete(nameOf(claim))
  }

  #isOver({ requestId, processId, accountId }: CallClaim): boolean {
    const { usage, openings, openLeases } = this.#tables
    if (usage.has(usageId(requestId, 0))) return this.#receipt(requestId) === undefined
    return (
      !this.#tables.lives(processId) && !openings.has(requestId) && openLeases.get(accountId)?.has(processId) !== true
    )
  }

  #receipt(requestId: string): Receipt | undefined {
    const row = this.#tables.usage.get(usageId(requestId, 0))
    if (row === undefined) return undefined
    const { status, tokens, charge, attempts, errorCode } = row
    const isAnswered = status === "ok" || status === "usage_missing" || (status === "billing_error" && attempts > 0)
    if (!isAnswered || errorCode !== undefined) return undefined
    return {
      requestId,
      status,
      charge: micro(charge),
      inputTokens: BigInt(tokens.input),
      outputTokens: BigInt(tokens.output),
      cacheReadTokens: BigInt(tokens.cacheRead),
      cacheWriteTokens: BigInt(tokens.cacheWrite),
    }
  }
}
