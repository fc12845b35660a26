/**
 * Management tokens, which the owner of a key makes in the dashboard, and what is done with them: children of that key, for each member of
 * a class or a team. A token makes no calls, and opens nothing of its account.
 */
import { nanoid } from "nanoid"
import type { Micro } from "../../actors/money/micro.ts"
import { isPartOf, readNetwork } from "../../actors/network.ts"
import type { SpendingPeriod } from "../../actors/period.ts"
import type { WindowView } from "../../actors/window.ts"
import { Failure, invalid } from "../failure/failure.ts"
import type { KeyChange, KeyPage } from "../store/api-keys.ts"
import type { ChangeName } from "../store/idempotency-keys.ts"
import type { KeyName } from "../store/account-settings.ts"
import type { KeyBudget, KeyRecord } from "../store/key-rows.ts"
import { type ManagementToken, type ManagementTokenStore, MAX_TOKENS } from "../store/credentials.ts"
import { apiKeyHints, checkToken, createToken, hashApiKey, TOKEN_PREFIX } from "./bearer-tokens.ts"
import type { AccountChanged } from "./in-force.ts"
import type { Keys, KeySettings } from "./keys.ts"

/** Of one token, all processes together: a thousand children are made in a few minutes. */
export const USES_A_MINUTE = 300
/** Tokens whose uses are remembered; more than come within a minute. */
export const MAX_MANAGERS = 10_000

/** Whoever came with a token. */
export interface Manager {
  readonly tokenId: string
  readonly accountId: string
  /** The key whose children it makes. */
  readonly keyId: string
}

export interface ChildrenOptions {
  readonly store: ManagementTokenStore
  readonly keys: Keys
  readonly accountChanged: AccountChanged
  /** Of a token's uses, a minute. */
  readonly count: (tokenId: string) => WindowView | { readonly retryAfterS: number }
}

export class Children {
  readonly #store: ManagementTokenStore
  readonly #keys: Keys
  readonly #accountChanged: AccountChanged
  readonly #count: ChildrenOptions["count"]

  constructor({ store, keys, accountChanged, count }: ChildrenOptions) {
    this.#store = store
    this.#keys = keys
    this.#accountChanged = accountChanged
    this.#count = count
  }

  async tokens(key: KeyName): Promise<readonly ManagementToken[] | Failure> {
    const [record, tokens] = await Promise.all([this.#keys.read(key), this.#store.list(key)])
    return record === undefined ? new Failure("resource.not_found") : tokens
  }

  async createToken(
    key: KeyName,
    name: string,
    change?: ChangeName,
  ): Promise<{ readonly token: string; readonly record: ManagementToken } | Failure> {
    const token = createToken()
    const fresh = { id: `mgt_${nanoid()}`, name, hash: hashApiKey(token), ...apiKeyHints(token) }
    const record = await this.#store.create(key, fresh, change)
    switch (record) {
      case "no key":
        return new Failure("resource.not_found")
      case "frozen":
        return new Failure("auth.account_frozen")
      case "done before":
        return new Failure("idempotency.finished")
      case "child":
        return invalid("A child of a key has no children, and so no management token.")
      case "revoked":
        return invalid("A revoked key has no children, and so no management token.")
      case "too many":
        return invalid(`A key has at most ${MAX_TOKENS} management tokens; revoke one that is not needed.`)
      default:
        this.#accountChanged(key.accountId)
        return { token, record }
    }
  }

  async revokeToken(key: KeyName, tokenId: string): Promise<"revoked" | Failure> {
    if (!(await this.#store.revoke(key, tokenId))) return new Failure("resource.not_found")
    this.#accountChanged(key.accountId)
    return "revoked"
  }

  /** `secret` is undefined where there is none. */
  async authenticate(secret: string | undefined): Promise<Manager | Failure> {
    if (secret === undefined) return new Failure("auth.management_token_invalid")
    if (!secret.startsWith(TOKEN_PREFIX)) return new Failure("auth.management_token_required")
    const holder = checkToken(secret) ? await this.#store.find(hashApiKey(secret)) : undefined
    if (holder === undefined || holder.isRevoked) return new Failure("auth.management_token_invalid")
    const { tokenId, accountId, keyId } = holder
    const counted = this.#count(tokenId)
    if ("retryAfterS" in counted) {
      const message = "The management token's limit of requests per minute is reached."
      return new Failure("rate_limit.rpm_exceeded", { message, retryAfterS: counted.retryAfterS })
    }
    if (holder.isExpired) return new Failure("auth.api_key_expired")
    if (holder.isAccountDeleted) return new Failure("auth.account_deleted")
    if (holder.isAccountFrozen) return new Failure("auth.account_frozen")
    return { tokenId, accountId, keyId }
  }

  list({ accountId, keyId }: Manager, page: KeyPage): Promise<readonly KeyRecord[]> {
    return this.#keys.list({ accountId }, { ...page, childrenOf: keyId })
  }

  async read(manager: Manager, keyId: string): Promise<KeyRecord | Failure> {
    return (await this.#keys.read(childOf(manager, keyId))) ?? new Failure("resource.not_found")
  }

  /** What is not said is the parent's, as it is when a call comes. */
  async create(
    manager: Manager,
    wishes: KeySettings,
    change?: ChangeName,
  ): Promise<{ readonly key: string; readonly record: KeyRecord } | Failure> {
    const parent = await this.#keys.read(manager)
    if (parent === undefined) return new Failure("auth.management_token_invalid")
    const outside = outsideParent(wishes, parent, undefined)
    if (outside !== undefined) return outside
    const { fallback = parent.fallback, replaysRetries = parent.replaysRetries } = wishes
    const child = { ...wishes, fallback, replaysRetries, showsBalance: false }
    return await this.#keys.create(manager, child, change, manager.keyId)
  }

  async change(manager: Manager, keyId: string, change: KeyChange): Promise<KeyRecord | Failure> {
    const [parent, child] = await Promise.all([this.#keys.read(manager), this.#keys.read(childOf(manager, keyId))])
    if (parent === undefined || child === undefined) return new Failure("resource.not_found")
    const outside = outsideParent(change, parent, child.budget)
    if (outside !== undefined) return outside
    return await this.#keys.change(childOf(manager, keyId), change)
  }

  async revoke(manager: Manager, keyId: string): Promise<KeyRecord | Failure> {
    return await this.#keys.revoke(childOf(manager, keyId))
  }
}

const childOf = ({ accountId, keyId: parent }: Manager, keyId: string): KeyName => ({
  accountId,
  keyId,
  childOf: parent,
})

type Parent = Pick<
  KeyRecord,
  | "requestsPerMinute"
  | "tokensPerMinute"
  | "budget"
  | "fallback"
  | "expiresAt"
  | "models"
  | "endpoints"
  | "networks"
  | "origins"
  | "maxRateMicro"
>

/**
 * Whether what is said of a child lies inside its parent's limits. Whatever is said, the parent's hold for each call
 * as they are then (gateway/purses.ts): this refuses what could never be had. Micro-rupiah. `budget` is what the
 * child has, of which a change may say only the limit or the period.
 */
function outsideParent(
  change: KeyChange,
  parent: Parent,
  budget: Pick<KeyBudget, "limitMicro" | "period"> | undefined,
): Failure | undefined {
  const {
    requestsPerMinute,
    tokensPerMinute,
    expiresAt,
    maxRateMicro,
    models,
    endpoints,
    networks,
    origins,
    fallback,
  } = change
  if (!most(requestsPerMinute, parent.requestsPerMinute)) {
    return outside("requests_per_minute", `at most ${parent.requestsPerMinute}`)
  }
  if (!most(tokensPerMinute, parent.tokensPerMinute)) {
    return outside("tokens_per_minute", `at most ${parent.tokensPerMinute}`)
  }
  const limit = mostOf(parent.budget, change.spendingPeriod ?? budget?.period)
  const wished = change.spendingLimitMicro === undefined ? budget?.limitMicro : change.spendingLimitMicro
  const isSaid = change.spendingLimitMicro !== undefined || change.spendingPeriod !== undefined
  if (isSaid && !most(wished, limit)) return outside("spending_limit_micro", `at most ${limit}`)
  if (!most(expiresAt?.getTime(), parent.expiresAt?.getTime())) {
    return outside("expires_at", `${parent.expiresAt?.toISOString()} or before`)
  }
  if (!listed(models, parent.models)) return outside("models", `of ${parent.models?.join(", ")}`)
  if (!listed(endpoints, parent.endpoints)) return outside("endpoints", `of ${parent.endpoints?.join(", ")}`)
  if (!areWithin(networks, parent.networks)) return outside("networks", `within ${parent.networks?.join(", ")}`)
  // Without a list no page may call, so a child's lies in none.
  if (!listed(origins, parent.origins ?? [])) return outside("origins", `of ${parent.origins?.join(", ") ?? "none"}`)
  if (!most(maxRateMicro, parent.maxRateMicro)) return outside("max_rate_micro", `at most ${parent.maxRateMicro}`)
  if (parent.fallback === "off" && fallback !== undefined && fallback !== "off") return outside("fallback", "'off'")
  return undefined
}

const most = <T extends number | bigint>(value: T | null | undefined, limit: T | null | undefined): boolean =>
  value === null || value === undefined || limit === null || limit === undefined || value <= limit

const listed = (values: readonly string[] | null | undefined, all: readonly string[] | null): boolean =>
  !values || all === null || values.every((value) => all.includes(value))

const lengths: Readonly<Record<SpendingPeriod, number>> = { daily: 1, monthly: 2, total: 3 }

/** A longer period has several of the parent's in it, and so may come to more. */
const mostOf = (parent: Parent["budget"], period: SpendingPeriod | undefined): Micro | undefined =>
  parent === undefined || period === undefined || lengths[period] > lengths[parent.period]
    ? undefined
    : parent.limitMicro

function areWithin(networks: readonly string[] | null | undefined, ofParent: readonly string[] | null): boolean {
  if (!networks || ofParent === null) return true
  const all = ofParent.flatMap((text) => readNetwork(text) ?? [])
  return networks.every((text) => {
    const network = readNetwork(text)
    return network !== undefined && isPartOf(network, all)
  })
}

const outside = (field: string, must: string): Failure =>
  invalid(`'${field}' must be ${must}: the key that it is a child of has no more.`)
