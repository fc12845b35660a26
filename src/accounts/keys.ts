/**
 * The API keys of an account. The full key exists in this process only while it is being created; afterwards there is its
 * hash. The live actor of a key learns of each change after it is committed.
 */
import { nanoid } from "nanoid"
import type { KeyView } from "../../actors/key.ts"
import type { Fallback } from "../../actors/key-record.ts"
import type { Micro } from "../../actors/money/micro.ts"
import type { SpendingPeriod } from "../../actors/period.ts"
import { Failure } from "../failure/failure.ts"
import type { ApiKeyStore, KeyChange, KeyPage, KeyRecord } from "../store/api-keys.ts"
import { SECRETS_A_DAY } from "../store/key-secrets.ts"
import { type AccountChanged, accountFrozen, inForce, type KeysChanged, type Session } from "./accounts.ts"
import { apiKeyHints, createApiKey, hashApiKey } from "./api-key.ts"

export interface KeyWishes {
  readonly name: string
  readonly requestsPerMinute: number | undefined
  readonly tokensPerMinute: number | undefined
  readonly spendingLimitMicro: Micro | undefined
  readonly spendingPeriod: SpendingPeriod | undefined
  readonly fallback: Fallback | undefined
}

export interface KeysParts {
  readonly store: ApiKeyStore
  readonly keysChanged: KeysChanged
  readonly accountChanged: AccountChanged
  /** That work, of one account. */
  readonly mostKeys: number
  /** What a key's actor says of its windows and its budget; undefined while it has none, when nothing is counted or held. */
  readonly live: (keyHash: Uint8Array) => Promise<KeyView | undefined>
}

/** In 24 hours an account makes so many times the keys that it may have: revoked ones stay as rows. */
const MADE_A_DAY = 5

export class Keys {
  readonly #store: ApiKeyStore
  readonly #keysChanged: KeysChanged
  readonly #accountChanged: AccountChanged
  readonly #mostKeys: number
  readonly live: KeysParts["live"]

  constructor({ store, keysChanged, accountChanged, live, mostKeys }: KeysParts) {
    this.#accountChanged = accountChanged
    this.#store = store
    this.live = live
    this.#keysChanged = keysChanged
    this.#mostKeys = mostKeys
  }

  list(session: Session, page: KeyPage): Promise<readonly KeyRecord[]> {
    return this.#store.list(session.accountId, page)
  }

  async create(
    session: Session,
    wishes: KeyWishes,
  ): Promise<{ readonly key: string; readonly record: KeyRecord } | Failure> {
    if ((wishes.spendingLimitMicro === undefined) !== (wishes.spendingPeriod === undefined)) return halfBudget()
    const key = createApiKey()
    const settings = {
      id: `key_${nanoid()}`,
      accountId: session.accountId,
      name: wishes.name,
      keyHash: hashApiKey(key),
      ...apiKeyHints(key),
      requestsPerMinute: wishes.requestsPerMinute ?? null,
      tokensPerMinute: wishes.tokensPerMinute ?? null,
      spendingLimitMicro: wishes.spendingLimitMicro ?? null,
      spendingPeriod: wishes.spendingPeriod ?? null,
      fallback: wishes.fallback ?? ("never_dearer" as const),
    }
    const counts = { active: this.#mostKeys, aDay: this.#mostKeys * MADE_A_DAY }
    const record = await this.#store.create(settings, counts)
    switch (record) {
      case "frozen":
        return accountFrozen()
      case "too many":
        return tooMany(`An account has at most ${counts.active} active keys; revoke one that is not needed.`)
      case "too many today":
        return tooMany(`An account makes at most ${counts.aDay} keys in 24 hours; make another later.`)
      default:
        this.#accountChanged(session.accountId)
        return { key, record }
    }
  }

  /** Null removes; removing the limit removes its period, and the reverse. */
  async change(session: Session, keyId: string, change: KeyChange): Promise<KeyRecord | Failure> {
    const { spendingLimitMicro: limit, spendingPeriod: period } = change
    if (limit !== undefined && period !== undefined && (limit === null) !== (period === null)) return halfBudget()
    const record = await this.#store.change({ accountId: session.accountId, keyId }, change)
    if (record === "no budget") return halfBudget()
    return await this.#applied(session, record)
  }

  async revoke(session: Session, keyId: string): Promise<KeyRecord | Failure> {
    return await this.#applied(session, await this.#store.revoke({ accountId: session.accountId, keyId }))
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
    const applied = await this.#applied(session, record)
    return applied instanceof Failure ? applied : { key, record: applied }
  }

  async #applied({ accountId }: Session, record: KeyRecord | undefined): Promise<KeyRecord | Failure> {
    if (record === undefined) return new Failure("resource.not_found")
    this.#accountChanged(accountId)
    return await inForce(this.#keysChanged, [record], record)
  }
}

const tooMany = (message: string): Failure => new Failure("request.invalid", { message })
const halfBudget = (): Failure =>
  new Failure("request.invalid", { message: "'spending_limit_micro' and 'spending_period' go together." })
