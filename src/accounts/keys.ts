/**
 * The API keys of an account. The full key is only in memory while it is created; afterwards only its hash exists. The live actor of a
 * key is notified of each change after the commit.
 */
import { nanoid } from "nanoid"
import type { Fallback, KeyView } from "../../actors/key-record.ts"
import type { Micro } from "../../actors/money/micro.ts"
import type { SpendingPeriod } from "../../actors/period.ts"
import { unreachable } from "../../actors/unreachable.ts"
import { Failure, invalid } from "../failure/failure.ts"
import type { ApiKeyStore, ChildCounts, KeyChange, KeyCounts, KeyPage, NotMade } from "../store/api-keys.ts"
import type { Breaker } from "../store/breakers.ts"
import type { ChangeName } from "../store/idempotency-keys.ts"
import type { KeyName } from "../store/account-settings.ts"
import { type KeyBounds, type KeyRecord, SECRETS_A_DAY } from "../store/key-rows.ts"
import type { PageOriginStore } from "../store/live-keys.ts"
import { apiKeyHints, createApiKey, hashApiKey } from "./bearer-tokens.ts"
import { type AccountChanged, inForce, type KeysChanged } from "./in-force.ts"

export interface KeySettings extends KeyBounds {
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

interface KeysOptions {
  readonly store: ApiKeyStore
  readonly keysChanged: KeysChanged
  readonly accountChanged: AccountChanged
  /** Reloads the origins that keys list. */
  readonly originsChanged: () => Promise<void>
  /** The maximum of active keys of one account. */
  readonly mostKeys: number
  /** Whether this is the name of a model. */
  readonly isModel: (id: string) => boolean
  /** The windows and the budget in a key's actor. Undefined without an actor; then nothing is counted or held. */
  readonly live: (keyHash: Uint8Array) => Promise<KeyView | undefined>
}

/** In 24 hours an account may create this many times its maximum of keys. Revoked keys stay as rows. */
const MADE_A_DAY = 5

/** Children of one key, of all keys of an account, and created in 24 hours. They are counted apart from the account's own keys. */
const CHILDREN = { ofKey: 1_000, active: 5_000, aDay: 5_000 }

interface Owner {
  readonly accountId: string
}

export class Keys {
  readonly #store: ApiKeyStore
  readonly #keysChanged: KeysChanged
  readonly #accountChanged: AccountChanged
  readonly #originsChanged: KeysOptions["originsChanged"]
  readonly #mostKeys: number
  readonly #isModel: KeysOptions["isModel"]
  readonly live: KeysOptions["live"]

  constructor({ store, keysChanged, accountChanged, originsChanged, live, mostKeys, isModel }: KeysOptions) {
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

  /** `parentId`: the new key is a child of this one. */
  async create(
    { accountId }: Owner,
    wishes: KeySettings,
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
    if (origins !== null) await this.#refreshOrigins()
    return { key, record }
  }

  /** Null removes a field. The spending limit and its period are removed together. */
  async change(name: KeyName, change: KeyChange): Promise<KeyRecord | Failure> {
    const { spendingLimitMicro: limit, spendingPeriod: period } = change
    if (limit !== undefined && period !== undefined && (limit === null) !== (period === null)) return halfBudget()
    if (this.#unknownModel(change.models) !== undefined) {
      // A model that has left the catalogue may stay on the list.
      const known = await this.#store.read(name)
      const unknown = this.#unknownModel(change.models, known?.models)
      if (known !== undefined && unknown !== undefined) return noModel(unknown)
    }
    const record = await this.#store.change(name, change)
    if (record === "no budget") return halfBudget()
    if (change.origins !== undefined) await this.#refreshOrigins()
    return await this.#applied(name, record)
  }

  /** `by`: an operator and why, for the audit log. */
  async revoke(name: KeyName, by?: Parameters<ApiKeyStore["revoke"]>[1]): Promise<KeyRecord | Failure> {
    const record = await this.#store.revoke(name, by)
    if (record?.origins) await this.#refreshOrigins()
    return await this.#applied(name, record)
  }

  /** Calls are checked against their key, so a stale list only affects pre-flights, until the next reading. */
  async #refreshOrigins(): Promise<void> {
    await this.#originsChanged().catch(() => {})
  }

  /**
   * Rotates a key's secret. Its windows, budget and spending stay. The old secret works for the overlap, or ends at once if it has
   * leaked.
   */
  async rotate(
    name: KeyName,
    overlapS: number,
    change?: ChangeName,
  ): Promise<{ readonly key: string; readonly record: KeyRecord } | Failure> {
    const key = createApiKey()
    const secret = { keyHash: hashApiKey(key), ...apiKeyHints(key), overlapS }
    const record = await this.#store.rotate(name, secret, change)
    if (record === "frozen") return new Failure("auth.account_frozen")
    if (record === "done before") return new Failure("idempotency.finished")
    if (record === "revoked") {
      return invalid("A revoked key cannot be rotated; make another.")
    }
    if (record === "too often") {
      return invalid(`A key has at most ${SECRETS_A_DAY} secrets a day; make another.`)
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
      return new Failure("auth.account_frozen")
    case "done before":
      return new Failure("idempotency.finished")
    case "no parent":
      return new Failure("auth.management_token_invalid")
    case "too many":
      return invalid(
        "ofKey" in counts
          ? `A key has at most ${counts.ofKey} active children, and an account ${counts.active}; revoke one that is not needed.`
          : `An account has at most ${counts.active} active keys; revoke one that is not needed.`,
      )
    case "too many today":
      return invalid(
        `An account makes at most ${counts.aDay} ${"ofKey" in counts ? "children of keys" : "keys"} in 24 hours; make another later.`,
      )
    default:
      return unreachable(why)
  }
}

const noModel = (id: string): Failure => invalid(`'models' names ${JSON.stringify(id)}, which is not in the catalogue.`)
const halfBudget = (): Failure => invalid("'spending_limit_micro' and 'spending_period' go together.")

// Origins of web pages that may call with a key (docs/decisions/2026-11-23-pages-call-with-keys-that-list-them.md). All origins that any
// key lists are in memory, so that a pre-flight, which anybody may send, needs no database.

/** Origins of one key. */
export const MAX_ORIGINS = 16
const LONGEST_ORIGIN = 260
/** Hosts of pages under development. */
const OWN_MACHINE = new Set(["localhost", "127.0.0.1", "[::1]"])

/** The origin as browsers write it. Undefined unless it is of a page on https or on localhost. */
export function readOrigin(text: string): string | undefined {
  if (text.length > LONGEST_ORIGIN || !/^https?:\/\/[^/?#@*\\\s]+$/i.test(text) || !URL.canParse(text)) return undefined
  const { protocol, hostname, origin } = new URL(text)
  return protocol === "https:" || OWN_MACHINE.has(hostname) ? origin : undefined
}

export class PageOrigins {
  readonly #store: PageOriginStore
  #known: ReadonlySet<string> = new Set()
  #reading: Promise<void> = Promise.resolve()
  #next: Promise<void> | undefined

  constructor(store: PageOriginStore) {
    this.#store = store
  }

  has(origin: string): boolean {
    return this.#known.has(origin)
  }

  /** Resolves when everything committed before the call is known. At most one reading runs and one waits. */
  refresh(): Promise<void> {
    this.#next ??= this.#reading
      .catch(() => {})
      .then(() => {
        this.#next = undefined
        return (this.#reading = this.#read())
      })
    return this.#next
  }

  async #read(): Promise<void> {
    this.#known = new Set(await this.#store.read())
  }
}
