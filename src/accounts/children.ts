/**
 * Management tokens, which the owner of a key makes in the dashboard, and what is done with them: children of that key, for each member of
 * a class or a team. A token makes no calls, and opens nothing of its account.
 */
import { nanoid } from "nanoid"
import type { WindowView } from "../../actors/window.ts"
import { Failure } from "../failure/failure.ts"
import type { KeyChange, KeyPage } from "../store/api-keys.ts"
import type { ChangeName } from "../store/idempotency-keys.ts"
import type { KeyRecord } from "../store/key-rows.ts"
import type { KeyName } from "../store/key-secrets.ts"
import { type ManagementToken, type ManagementTokenStore, MOST_TOKENS } from "../store/management-tokens.ts"
import { accountFrozen } from "./accounts.ts"
import { apiKeyHints, checkToken, createToken, hashApiKey, TOKEN_PREFIX } from "./api-key.ts"
import type { AccountChanged } from "./in-force.ts"
import type { Keys, KeyWishes } from "./keys.ts"
import { outsideParent } from "./within-parent.ts"

/** Of one token, all processes together: a thousand children are made in a few minutes. */
export const USES_A_MINUTE = 300
/** Tokens whose uses are remembered; more than come within a minute. */
export const MOST_MANAGERS = 10_000

/** Whoever came with a token. */
export interface Manager {
  readonly tokenId: string
  readonly accountId: string
  /** The key whose children it makes. */
  readonly keyId: string
}

export interface ChildrenParts {
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
  readonly #count: ChildrenParts["count"]

  constructor({ store, keys, accountChanged, count }: ChildrenParts) {
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
        return accountFrozen()
      case "done before":
        return new Failure("idempotency.finished")
      case "child":
        return invalid("A child of a key has no children, and so no management token.")
      case "revoked":
        return invalid("A revoked key has no children, and so no management token.")
      case "too many":
        return invalid(`A key has at most ${MOST_TOKENS} management tokens; revoke one that is not needed.`)
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
    if (holder.isAccountFrozen) return accountFrozen()
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
    wishes: KeyWishes,
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

const invalid = (message: string): Failure => new Failure("request.invalid", { message })
