/**
 * Who calls: the key from either header, its actor's count of the call, the key's state (decisions §4.2–4), and its limits.
 */
import { andThen, type MaybePromise } from "../../actors/kernel/actor.ts"
import type { Clock } from "../../actors/kernel/clock.ts"
import type { Counting, CountReply, KeyRecord, KeyView, Origin, ParentKey } from "../../actors/key-record.ts"
import { microToJson, sumToJson } from "../../actors/money/micro.ts"
import { isLoopbackNetwork, networkOf, siteOf } from "../../actors/network.ts"
import { unreachable } from "../../actors/unreachable.ts"
import { apiKeyId, checkApiKey, hashSessionToken, TOKEN_PREFIX } from "../accounts/bearer-tokens.ts"
import { Failure, retryAfter } from "../failure/failure.ts"
import { turns } from "../store/gate.ts"
import type { Actors, LookUps } from "./actors.ts"
import { pagesOf } from "./eligibility.ts"
import { endedKey, ofParent } from "./purses.ts"

export interface Caller {
  /** The id of the key's actor. */
  readonly keyHash: string
  /** The hash of the secret that it called with: a rotated key has several. */
  readonly secret?: string | undefined
  readonly record: KeyRecord
}

/** A refusal of a key that is known: it has an owner, who is told of it. */
export class KeyRefused extends Failure {
  readonly keyHash: string
  readonly record: KeyRecord

  constructor({ code, detail }: Failure, { keyHash, record }: Caller) {
    super(code, detail)
    this.keyHash = keyHash
    this.record = record
  }
}

/** As nearly everybody writes it. */
const PLAIN = /^Bearer \S+$/
const BEARER_LENGTH = "Bearer ".length

/** The key that a request carries, whichever header it is in; an empty one counts as absent (decisions §8). */
export function keyFrom(headers: Headers): string | undefined {
  const authorization = headers.get("authorization") ?? ""
  if (PLAIN.test(authorization)) return authorization.slice(BEARER_LENGTH)
  const bearer = /^bearer\s/i.test(authorization) ? authorization.slice(BEARER_LENGTH).trim() : ""
  return bearer || headers.get("x-api-key")?.trim() || undefined
}

/**
 * A session or a management token: whoever sends one means it, and is told that it makes no calls. Any other bearer that is no key may be
 * another vendor's, which the client sends beside the key that is meant for this server.
 */
const isOwnToken = (bearer: string): boolean =>
  bearer.startsWith(TOKEN_PREFIX) || hashSessionToken(bearer) !== undefined

/** Where a call comes from. It hears of the page that may read what comes of it. */
export interface CallOrigin extends Origin {
  allowPage?(origin: string): void
}

/** At once where the key's actor is there. */
export function authenticate(
  actors: Actors,
  headers: Headers,
  origin: CallOrigin,
  counted = true,
): MaybePromise<Caller | Failure> {
  const calling = callerFrom(actors, headers, origin, counted)
  const page = headers.get("origin")
  return page === null
    ? calling
    : andThen(calling, (caller) => fromPage(caller, { page, host: headers.get("host"), actors, origin }))
}

/**
 * A key that lists pages is for no other one, and that is said before anything is spent; without a list nobody is asked, for
 * servers and programs on a desk send the header too. The dashboard's own page is no other.
 */
function fromPage(
  caller: Caller | Failure,
  { page, host, actors, origin }: { page: string; host: string | null; actors: Actors; origin: CallOrigin },
): MaybePromise<Caller | Failure> {
  if (caller instanceof Failure && !(caller instanceof KeyRefused)) return caller
  const { record } = caller
  const { parent } = record
  // A child that is refused by itself was not looked at together with its parent, whose list holds for what it is told too.
  if (caller instanceof KeyRefused && parent !== undefined && record.binding?.within === undefined) {
    const counting = { secret: undefined, counted: false, origin }
    return andThen(actors.keys.count(parent.keyHash, counting), (reply) => {
      if (!(reply instanceof Failure) && "record" in reply && isListed(boundBy(record, reply.record), page) === true)
        origin.allowPage?.(page)
      return caller
    })
  }
  const isOn = isListed(record, page)
  if (isOn === true) origin.allowPage?.(page)
  if (isOn !== false || caller instanceof KeyRefused) return caller
  if (URL.canParse(page) && new URL(page).host === host) return caller
  const message = "This API key may not be used from this page: its origin is not on the key's list."
  return new KeyRefused(new Failure("auth.key_not_allowed", { message }), caller)
}

/** Undefined of a key that lists no pages. */
const isListed = (record: KeyRecord, page: string): boolean | undefined =>
  pagesOf(record)?.every((pages) => pages.has(page))

function callerFrom(
  actors: Actors,
  headers: Headers,
  origin: Origin,
  counted: boolean,
): MaybePromise<Caller | Failure> {
  const sent = keyFrom(headers)
  if (sent === undefined) return new Failure("auth.api_key_missing")
  const key = checkApiKey(sent) || isOwnToken(sent) ? sent : (headers.get("x-api-key")?.trim() ?? "")
  if (!checkApiKey(key))
    return new Failure(sent.startsWith(TOKEN_PREFIX) ? "auth.management_token" : "auth.api_key_invalid")
  const secret = apiKeyId(key)
  const counting = { secret, counted, origin }
  const first = actors.keys.has(secret) ? actors.keys.count(secret, counting) : lookUp(actors, counting, secret)
  if (first instanceof Promise || (!(first instanceof Failure) && first.kind === "moved")) {
    return authenticateMoved(actors, counting, secret, first)
  }
  return callerOf(actors, counting, secret, first)
}

/**
 * Of one network so many keys are looked up at once that have no actor yet, as sessions are: a key that nobody has is of no account
 * that it could wait in the line of. A customer's thousand keys may all call right after a start, so any number waits, for as long
 * as an actor's start may take. Loopback is not counted, as with sign-ups.
 */
const LOOK_UPS_AT_ONCE = 16
const LOOK_UP_WAIT_MS = 5_000
export const lookUpsOf = (clock: Clock): LookUps =>
  turns({
    atOnce: LOOK_UPS_AT_ONCE,
    most: Infinity,
    waitMs: LOOK_UP_WAIT_MS,
    clock,
    refused: () => new Failure("dependency.database_unavailable"),
  })

function lookUp(actors: Actors, counting: Counting, secret: string): Promise<CountReply | Failure> {
  const count = async () => await actors.keys.count(secret, counting)
  const network = networkOf(counting.origin?.address ?? "")
  return isLoopbackNetwork(network) ? count() : actors.lookUps(siteOf(network), count)
}

/** A rotated key has several secrets and one actor: one window and one budget. */
async function authenticateMoved(
  actors: Actors,
  counting: Counting,
  secret: string,
  replying: MaybePromise<CountReply | Failure>,
): Promise<Caller | Failure> {
  const first = await replying
  if (first instanceof Failure || first.kind !== "moved") return callerOf(actors, counting, secret, first)
  return callerOf(actors, counting, first.to, await actors.keys.count(first.to, counting))
}

function callerOf(
  actors: Actors,
  counting: Counting,
  keyHash: string,
  reply: CountReply | Failure,
): MaybePromise<Caller | Failure> {
  if (reply instanceof Failure) return reply
  if (reply.kind === "unknown") {
    // Guesses must not fill the memory, and a key that is made a moment later must be known.
    actors.keys.passivate(keyHash)
    return new Failure("auth.api_key_invalid")
  }
  if (reply.kind === "moved") throw new Error("the actor of a key's first secret is the key's own")
  if (reply.kind !== "active") return refusedBy(reply, counting, keyHash)
  const { record, countedAtMs } = reply
  const caller = { keyHash, secret: counting.secret, record }
  if (record.parent === undefined) return caller
  return underParent(actors, counting, { ...caller, countedAtMs }, record.parent)
}

type Refused = Exclude<CountReply, { readonly kind: "unknown" | "moved" | "active" }>

function refusedBy(reply: Refused, { origin }: Counting, keyHash: string): KeyRefused {
  switch (reply.kind) {
    case "ended":
      return new KeyRefused(endedKey("revoked"), { keyHash, record: reply.record })
    // Without the key's limits: they are nobody's business elsewhere.
    case "elsewhere": {
      const message = `This API key may not be used from ${origin?.address || "an unknown address"}.`
      return new KeyRefused(new Failure("auth.key_not_allowed", { message }), { keyHash, record: reply.record })
    }
    case "requests-exceeded": {
      const { retryAfterS } = reply
      return refusedKey(new Failure("rate_limit.rpm_exceeded", { retryAfterS }), { ...reply, keyHash })
    }
    case "revoked":
    case "expired":
    case "account-deleted":
    case "account-frozen":
      return refusedKey(endedKey(reply.kind), { ...reply, keyHash })
    case "paused":
      return refusedKey(new Failure("quota.key_paused", retryAfter(reply.pauseEndsInS)), { ...reply, keyHash })
    default:
      return unreachable(reply)
  }
}

/**
 * A child's call is its parent's too: counted in its window, from where it may be used, and none once it is refused. What is bound
 * holds as it is when the call comes. The child's holder is told nothing of the parent's limits. What the parent does not count the
 * child has not used up either: who polls gets through when there is room (decisions §12.1).
 */
function underParent(
  actors: Actors,
  counting: Counting,
  { countedAtMs, ...caller }: Caller & { readonly countedAtMs: number | undefined },
  parent: ParentKey,
): MaybePromise<Caller | Failure> {
  const counted = actors.keys.count(parent.keyHash, { ...counting, secret: undefined })
  return andThen(counted, (reply) => {
    if (reply instanceof Failure) return reply
    if (reply.kind === "active") return { ...caller, record: boundBy(caller.record, reply.record) }
    const isUncounted = reply.kind === "requests-exceeded" || reply.kind === "elsewhere"
    if (isUncounted && countedAtMs !== undefined) actors.keys.uncount(caller.keyHash, countedAtMs)
    const isThere = reply.kind !== "unknown" && reply.kind !== "moved"
    const failure = isThere ? refusedBy(reply, counting, parent.keyHash) : endedKey("revoked")
    return new KeyRefused(
      ofParent(failure),
      isThere ? { ...caller, record: boundBy(caller.record, reply.record) } : caller,
    )
  })
}

/** A parent that goes without fallback has no child that falls back. */
const boundBy = (child: KeyRecord, parent: KeyRecord): KeyRecord => ({
  ...child,
  fallback: parent.fallback === "off" ? "off" : child.fallback,
  binding: parent.binding === undefined ? child.binding : { ...child.binding, within: parent.binding },
  breakers: [...new Set([...(child.breakers ?? []), ...(parent.breakers ?? [])])],
})

const refusedKey = (failure: Failure, { view, ...caller }: Caller & { readonly view: KeyView }) =>
  new KeyRefused(failure.withHeaders(rateHeaders(view)), caller)

/** As they are now; none where the key's actor does not say. */
export const currentRateHeaders = ({ keys }: Actors, keyHash: string): MaybePromise<Record<string, string>> =>
  andThen(keys.view(keyHash), (view) => (view instanceof Failure ? {} : rateHeaders(view)))

/** The rate headers of a key, for the limits that it has (gateway-api.md, "Limits"). */
function rateHeaders(view: KeyView): Record<string, string> {
  const { requests, tokens, budget } = view
  const headers: Record<string, string> = {}
  if (requests !== undefined) {
    headers["X-RateLimit-Limit"] = String(requests.limit)
    headers["X-RateLimit-Remaining"] = String(requests.remaining)
    headers["X-RateLimit-Reset"] = String(requests.resetS)
  }
  if (tokens !== undefined) {
    headers["X-RateLimit-Limit-Tokens"] = String(tokens.limit)
    headers["X-RateLimit-Remaining-Tokens"] = String(tokens.remaining)
    headers["X-RateLimit-Reset-Tokens"] = String(tokens.resetS)
  }
  if (budget !== undefined) {
    headers["X-Key-Limit-Micro"] = String(microToJson(budget.limit))
    headers["X-Key-Usage-Micro"] = String(sumToJson(budget.usage))
    headers["X-Key-Remaining-Micro"] = String(microToJson(budget.remaining))
    headers["X-Key-Limit-Period"] = budget.period
  }
  return headers
}
