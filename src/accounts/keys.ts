/**
 * The API keys of an account. The full key exists in this process only while it is being created; afterwards there is its
 * hash. The live actor of a key learns of each change after it is committed.
 */
import { nanoid } from "nanoid"
import type { Fallback, KeyView } from "../../actors/key-record.ts"
import type { Micro } from "../../actors/money/micro.ts"
import type { SpendingPeriod } from "../../actors/period.ts"
import { unreachable } from "../../actors/unreachable.ts"
import { Failure } from "../failure/failure.ts"
import type { ApiKeyStore, ChildCounts, KeyChange, KeyCounts, KeyPage, NotMade } from "../store/api-keys.ts"
import type { Breaker } from "../store/breakers.ts"
import type { KeyBounds, KeyRecord } from "../store/key-rows.ts"
import type { ChangeName } from "../store/idempotency-keys.ts"
import { type KeyName, SECRETS_A_DAY } from "../store/key-secrets.ts"
import { accountFrozen } from "./accounts.ts"
import { type AccountChanged, inForce, type KeysChanged } from "./in-force.ts"
import { apiKeyHints, createApiKey, hashApiKey } from "./api-key.ts"

export interface KeyWishes extends KeyBounds {
  readonly name: string
  readonly requestsPerMinute: number | undefined
  readonly tokensPerMinute: number | undefined
  readonly spendingLimitMicro: Micro | undefined
  readonly spendingPeriod: SpendingPeriod | undefined
  readonly fallback: Fallback | undefined
  readonly showsBalance: boolean | undefined
  readonly replaysRetries: boolean | undefined
  /** Undefined for none. */
  readonly breaker?: Breaker | undefined
}

export interface KeysParts {
  readonly store: ApiKeyStore
  readonly keysChanged: KeysChanged
  readonly accountChanged: AccountChanged
  /** Has what keys list of pages read anew. */
  readonly originsChanged: () => Promise<void>
  /** That work, of one account. */
  readonly mostKeys: number
  /** Whether calls can name a model so. */
  readonly isModel: (id: string) => boolean
  /** What a key's actor says of its windows and its budget; undefined while it has none, when nothing is counted or held. */
  readonly live: (keyHash: Uint8Array) => Promise<KeyView | undefined>
}

/** In 24 hours an account makes so many times the keys that it may have: revoked ones stay as rows. */
const MADE_A_DAY = 5

/** Of one key, of all keys of an account, and made of them in 24 hours: beside what an account has of keys of its own. */
const CHILDREN = { ofKey: 1_000, active: 5_000, aDay: 5_000 }

interface Owner {
  readonly accountId: string
}

export class Keys {
  readonly #store: ApiKeyStore
  readonly #keysChanged: KeysChanged
  readonly #accountChanged: AccountChanged
  readonly #originsChanged: KeysParts["originsChanged"]
  readonly #mostKeys: number
  readonly #isModel: KeysParts["isModel"]
  readonly live: KeysParts["live"]

  constructor({ store, keysChanged, accountChanged, originsChanged, live, mostKeys, isModel }: KeysParts) {
    this.#isModel = isModel
    this.#accountChanged = accountChanged
    this.#originsChanged = originsChanged
    this.#store = store
    this.live = live
    this.#keysChanged = keysChanged
    this.#mostKeys = mostKeys
  }

  list({ accountId }: Owner, page: KeyPage): Promise<readonly KeyRecord[]> {
    return this.#store.list(accountId, page)
  }

  read(key: KeyName): Promise<KeyRecord | undefined> {
    return this.#store.read(key)
  }

  /** `parentId`: it is a child of this key. */
  async create(
    { accountId }: Owner,
    wishes: KeyWishes,
    change?: ChangeName,
    parentId?: string,
  ): Promise<{ readonly key: string; readonly record: KeyRecord } | Failure> {
    if ((wishes.spendingLimitMicro === undefined) !== (wishes.spendingPeriod === undefined)) return halfBudget()
    const unknown = this.#unknownModel(wishes.models)
    if (unknown !== undefined) return noModel(unknown)
    const key = createApiKey()
    const { expiresAt, models, endpoints, networks, origins, maxRateMicro } = wishes
    const settings = {
      id: `key_${nanoid()}`,
      accountId,
      parentId,
      name: wishes.name,
      keyHash: hashApiKey(key),
      ...apiKeyHints(key),
      requestsPerMinute: wishes.requestsPerMinute ?? null,
      tokensPerMinute: wishes.tokensPerMinute ?? null,
      spendingLimitMicro: wishes.spendingLimitMicro ?? null,
      spendingPeriod: wishes.spendingPeriod ?? null,
      fallback: wishes.fallback ?? ("never_dearer" as const),
      showsBalance: wishes.showsBalance ?? true,
      replaysRetries: wishes.replaysRetries ?? true,
      breaker: wishes.breaker,
      expiresAt,
      models,
      endpoints,
      networks,
      origins,
      maxRateMicro,
    }
    const counts = parentId === undefined ? { active: this.#mostKeys, aDay: this.#mostKeys * MADE_A_DAY } : CHILDREN
    const record = await this.#store.create(settings, counts, change)
    if (typeof record === "string") return notMade(record, counts)
    this.#accountChanged(accountId)
    if (origins !== null) await this.#toldOrigins()
    return { key, record }
  }

  /** Null removes; removing the limit removes its period, and the reverse. */
  async change(name: KeyName, change: KeyChange): Promise<KeyRecord | Failure> {
    const { spendingLimitMicro: limit, spendingPeriod: period } = change
    if (limit !== undefined && period !== undefined && (limit === null) !== (period === null)) return halfBudget()
    if (this.#unknownModel(change.models) !== undefined) {
      // One that was taken from the catalogue since may stay on the list.
      const known = await this.#store.read(name)
      const unknown = this.#unknownModel(change.models, known?.models)
      if (known !== undefined && unknown !== undefined) return noModel(unknown)
    }
    const record = await this.#store.change(name, change)
    if (record === "no budget") return halfBudget()
    if (change.origins !== undefined) await this.#toldOrigins()
    return await this.#applied(name, record)
  }

  async revoke(name: KeyName): Promise<KeyRecord | Failure> {
    const record = await this.#store.revoke(name)
    if (record?.origins) await this.#toldOrigins()
    return await this.#applied(name, record)
  }

  /** Calls are judged by their key, so that one that is not told yet is a pre-flight at the most; the next reading has it. */
  async #toldOrigins(): Promise<void> {
    await this.#originsChanged().catch(() => {})
  }

  /**
   * Another secret for the same key, whose windows, budget and spending stay what they are. The one before works for so long
   * more; none at all where it has leaked.
   */
  async rotate(
    name: KeyName,
    overlapS: number,
    change?: ChangeName,
  ): Promise<{ readonly key: string; readonly record: KeyRecord } | Failure> {
    const key = createApiKey()
    const secret = { keyHash: hashApiKey(key), ...apiKeyHints(key), overlapS }
    const record = await this.#store.rotate(name, secret, change)
    if (record === "frozen") return accountFrozen()
    if (record === "done before") return new Failure("idempotency.finished")
    if (record === "revoked") {
      return new Failure("request.invalid", { message: "A revoked key cannot be rotated; make another." })
    }
    if (record === "too often") {
      return new Failure("request.invalid", {
        message: `A key has at most ${SECRETS_A_DAY} secrets a day; make another.`,
      })
    }
    const applied = await this.#applied(name, record)
    return applied instanceof Failure ? applied : { key, record: applied }
  }

  #unknownModel(
    models: readonly string[] | null | undefined,
    known: readonly string[] | null = [],
  ): string | undefined {
    return models?.find((id) => !this.#isModel(id) && known?.includes(id) !== true)
  }

  async #applied({ accountId }: Owner, record: KeyRecord | undefined): Promise<KeyRecord | Failure> {
    if (record === undefined) return new Failure("resource.not_found")
    this.#accountChanged(accountId)
    return await inForce(this.#keysChanged, [record], record)
  }
}

function notMade(why: NotMade, counts: KeyCounts | ChildCounts): Failure {
  switch (why) {
    case "frozen":
      return accountFrozen()
    case "done before":
      return new Failure("idempotency.finished")
    case "no parent":
      return new Failure("auth.management_token_invalid")
    case "too many":
      return tooMany(
        "ofKey" in counts
          ? `A key has at most ${counts.ofKey} active children, and an account ${counts.active}; revoke one that is not needed.`
          : `An account has at most ${counts.active} active keys; revoke one that is not needed.`,
      )
    case "too many today":
      return tooMany(
        `An account makes at most ${counts.aDay} ${"ofKey" in counts ? "children of keys" : "keys"} in 24 hours; make another later.`,
      )
    default:
      return unreachable(why)
  }
}

const noModel = (id: string): Failure =>
  new Failure("request.invalid", { message: `'models' names ${JSON.stringify(id)}, which is not in the catalogue.` })
const tooMany = (message: string): Failure => new Failure("request.invalid", { message })
const halfBudget = (): Failure =>
  new Failure("request.invalid", { message: "'spending_limit_micro' and 'spending_period' go together." })
