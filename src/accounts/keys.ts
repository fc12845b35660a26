/**
 * The API keys of an account. The full key exists in this process only while it is being created; afterwards there is its
 * hash. Whoever holds a live key is told of each change after it is committed.
 */
import { nanoid } from "nanoid"
import type { KeyView } from "../../actors/key.ts"
import type { Micro } from "../../actors/money/micro.ts"
import type { SpendingPeriod } from "../../actors/period.ts"
import { Failure } from "../failure/failure.ts"
import { type ApiKeyStore, type KeyChange, type KeyRecord, SECRETS_A_DAY } from "../store/api-keys.ts"
import { accountFrozen, type KeyChanged, type Session } from "./accounts.ts"
import { apiKeyHints, createApiKey, hashApiKey } from "./api-key.ts"

export interface KeyWishes {
  readonly name: string
  readonly requestsPerMinute: number | undefined
  readonly tokensPerMinute: number | undefined
  readonly spendingLimitMicro: Micro | undefined
  readonly spendingPeriod: SpendingPeriod | undefined
}

export interface KeysParts {
  readonly store: ApiKeyStore
  readonly keyChanged: KeyChanged
  /** What a key's actor says of its windows and its budget; undefined while it has none, when nothing is counted or held. */
  readonly live: (keyHash: Uint8Array) => Promise<KeyView | undefined>
}

export class Keys {
  readonly #store: ApiKeyStore
  readonly #keyChanged: KeyChanged
  readonly live: KeysParts["live"]

  constructor({ store, keyChanged, live }: KeysParts) {
    this.#store = store
    this.live = live
    this.#keyChanged = keyChanged
  }

  list(session: Session): Promise<readonly KeyRecord[]> {
    return this.#store.list(session.accountId)
  }

  async create(
    session: Session,
    wishes: KeyWishes,
  ): Promise<{ readonly key: string; readonly record: KeyRecord } | Failure> {
    if ((wishes.spendingLimitMicro === undefined) !== (wishes.spendingPeriod === undefined)) return halfBudget()
    const key = createApiKey()
    const record = await this.#store.create({
      id: `key_${nanoid()}`,
      accountId: session.accountId,
      name: wishes.name,
      keyHash: hashApiKey(key),
      ...apiKeyHints(key),
      requestsPerMinute: wishes.requestsPerMinute ?? null,
      tokensPerMinute: wishes.tokensPerMinute ?? null,
      spendingLimitMicro: wishes.spendingLimitMicro ?? null,
      spendingPeriod: wishes.spendingPeriod ?? null,
    })
    if (record === undefined) return accountFrozen()
    this.#tell(record)
    return { key, record }
  }

  /** Null removes; removing the limit removes its period, and the reverse. */
  async change(session: Session, keyId: string, change: KeyChange): Promise<KeyRecord | Failure> {
    const { spendingLimitMicro: limit, spendingPeriod: period } = change
    if (limit !== undefined && period !== undefined && (limit === null) !== (period === null)) return halfBudget()
    const record = await this.#store.change({ accountId: session.accountId, keyId }, change)
    if (record === "no budget") return halfBudget()
    return this.#told(record)
  }

  async revoke(session: Session, keyId: string): Promise<KeyRecord | Failure> {
    return this.#told(await this.#store.revoke({ accountId: session.accountId, keyId }))
  }

  /**
   * Another secret for the same key, whose windows, budget and spending stay what they are. The one before works for so long
   * more; none at all where it has leaked.
   */
  async rotate(
    session: Session,
    keyId: string,
    overlapS: number,
  ): Promise<{ readonly key: string; readonly record: KeyRecord } | Failure> {
    const key = createApiKey()
    const secret = { keyHash: hashApiKey(key), ...apiKeyHints(key), overlapS }
    const record = await this.#store.rotate({ accountId: session.accountId, keyId }, secret)
    if (record === "frozen") return accountFrozen()
    if (record === "revoked") {
      return new Failure("request.invalid", { message: "A revoked key cannot be rotated; make another." })
    }
    if (record === "too often") {
      return new Failure("request.invalid", {
        message: `A key has at most ${SECRETS_A_DAY} secrets a day; make another.`,
      })
    }
    const told = this.#told(record)
    return told instanceof Failure ? told : { key, record: told }
  }

  #told(record: KeyRecord | undefined): KeyRecord | Failure {
    if (record === undefined) return new Failure("resource.not_found")
    this.#tell(record)
    return record
  }

  #tell(record: KeyRecord): void {
    this.#keyChanged(record.id, record.keyHash)
  }
}

const halfBudget = (): Failure =>
  new Failure("request.invalid", { message: "'spending_limit_micro' and 'spending_period' go together." })
