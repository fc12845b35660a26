/** What an owner sets against spending that runs away, and the warnings of it. */
import { Failure } from "../failure/failure.ts"
import {
  type AccountBreaker,
  type Breaker,
  type BreakerStore,
  purseOf,
  type ShownAccountBreaker,
} from "../store/breakers.ts"
import type { SpendingAlert, SpendingAlertStore } from "../store/alerts.ts"
import type { Session } from "./accounts.ts"
import { type AccountChanged, inForce, type KeysChanged } from "./in-force.ts"

export interface BreakersOptions {
  readonly store: BreakerStore
  readonly alerts: Pick<SpendingAlertStore, "list" | "dismiss">
  readonly accountChanged: AccountChanged
  readonly keysChanged: KeysChanged
  /** The purse of a ceiling that is another now, or that counts anew. */
  readonly ceilingChanged: (purse: string) => void
}

/** The account's own breaker, and what is unusual now. */
export interface BreakerView extends ShownAccountBreaker {
  readonly alerts: readonly SpendingAlert[]
}

export class Breakers {
  readonly #parts: BreakersOptions

  constructor(parts: BreakersOptions) {
    this.#parts = parts
  }

  async view({ accountId }: Session): Promise<BreakerView | Failure> {
    const { store, alerts } = this.#parts
    const [own, found] = await Promise.all([store.ofAccount(accountId), alerts.list(accountId)])
    return own === undefined ? new Failure("auth.unauthorized") : { ...own, alerts: found }
  }

  async setAccount(session: Session, breaker: AccountBreaker): Promise<BreakerView | Failure> {
    const { store, accountChanged, ceilingChanged, keysChanged } = this.#parts
    const keys = await store.setAccount(session.accountId, breaker)
    accountChanged(session.accountId)
    ceilingChanged(purseOf(session.accountId))
    const applied = await inForce(keysChanged, keys, undefined)
    return applied instanceof Failure ? applied : await this.view(session)
  }

  async setKey({ accountId }: Session, keyId: string, breaker: Breaker): Promise<Breaker | Failure> {
    const { store, accountChanged, ceilingChanged, keysChanged } = this.#parts
    const key = await store.setKey({ accountId, keyId }, breaker)
    if (key === undefined) return new Failure("resource.not_found")
    accountChanged(accountId)
    ceilingChanged(purseOf(accountId, keyId))
    return await inForce(keysChanged, [key], breaker)
  }

  /** Of the account, or of one of its keys: calls are taken again, and the ten minutes begin anew. */
  async resume({ accountId }: Session, keyId?: string): Promise<void | Failure> {
    const { store, accountChanged, ceilingChanged, keysChanged } = this.#parts
    const keys = await store.resume(accountId, keyId)
    if (keyId !== undefined && keys.length === 0) return new Failure("resource.not_found")
    accountChanged(accountId)
    ceilingChanged(purseOf(accountId, keyId))
    return await inForce(keysChanged, keys, undefined)
  }

  async dismiss({ accountId }: Session): Promise<void> {
    await this.#parts.alerts.dismiss(accountId)
    this.#parts.accountChanged(accountId)
  }
}
