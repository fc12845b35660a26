/**
 * Who calls: the key from either header, its actor's count of the call, the key's state (decisions §4.2–4), and its limits.
 */
import type { Soon } from "../../actors/kernel/actor.ts"
import type { CountReply, KeyView } from "../../actors/key.ts"
import type { KeyRecord } from "../../actors/key-record.ts"
import { microToJson } from "../../actors/money/micro.ts"
import { unreachable } from "../../actors/unreachable.ts"
import { accountFrozen } from "../accounts/accounts.ts"
import { apiKeyId, checkApiKey } from "../accounts/api-key.ts"
import { Failure } from "../failure/failure.ts"
import type { Actors } from "./actors.ts"

export interface Caller {
  /** The id of the key's actor. */
  readonly keyHash: string
  readonly record: KeyRecord
}

/** As nearly everybody writes it. */
const PLAIN = /^Bearer \S+$/
const BEARER_LENGTH = "Bearer ".length

/** The key that a request carries, whichever header it is in; an empty one counts as absent (decisions §8). */
function keyFrom(headers: Headers): string | undefined {
  const authorization = headers.get("authorization") ?? ""
  if (PLAIN.test(authorization)) return authorization.slice(BEARER_LENGTH)
  const bearer = /^bearer\s+(.*\S)/i.exec(authorization)?.[1]
  return bearer ?? (headers.get("x-api-key")?.trim() || undefined)
}

/** At once where the key's actor is there. */
export function authenticate(actors: Actors, headers: Headers, counted = true): Soon<Caller | Failure> {
  const key = keyFrom(headers)
  if (key === undefined) return new Failure("auth.api_key_missing")
  if (!checkApiKey(key)) return new Failure("auth.api_key_invalid")
  const secret = apiKeyId(key)
  const first = actors.keys.count(secret, secret, counted)
  if (first instanceof Promise || (!(first instanceof Failure) && first.kind === "moved")) {
    return authenticateMoved(actors, secret, first, counted)
  }
  return callerOf(actors, secret, first)
}

/** A rotated key has several secrets and one actor: one window and one budget. */
async function authenticateMoved(
  actors: Actors,
  secret: string,
  counting: Soon<CountReply | Failure>,
  counted: boolean,
): Promise<Caller | Failure> {
  const first = await counting
  if (first instanceof Failure || first.kind !== "moved") return callerOf(actors, secret, first)
  return callerOf(actors, first.to, await actors.keys.count(first.to, secret, counted))
}

function callerOf(actors: Actors, keyHash: string, reply: CountReply | Failure): Caller | Failure {
  if (reply instanceof Failure) return reply
  switch (reply.kind) {
    case "unknown":
      // Guesses must not fill the memory, and a key that is made a moment later must be known.
      actors.keys.putAway(keyHash)
      return new Failure("auth.api_key_invalid")
    case "moved":
      throw new Error("the actor of a key's first secret is the key's own")
    case "ended":
      return new Failure("auth.api_key_revoked")
    case "requests-exceeded":
      return new Failure("rate_limit.rpm_exceeded", {
        retryAfterS: reply.retryAfterS,
        headers: rateHeaders(reply.view),
      })
    case "revoked":
      return new Failure("auth.api_key_revoked", { headers: rateHeaders(reply.view) })
    case "account-deleted":
      return new Failure("auth.account_deleted", { headers: rateHeaders(reply.view) })
    case "account-frozen":
      return accountFrozen().withHeaders(rateHeaders(reply.view))
    case "active":
      return { keyHash, record: reply.record }
    default:
      return unreachable(reply)
  }
}

/** The rate headers of a key, for the limits that it has (gateway-api.md, "Limits"). */
export function rateHeaders(view: KeyView): Record<string, string> {
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
    headers["X-Key-Usage-Micro"] = String(microToJson(budget.usage))
    headers["X-Key-Remaining-Micro"] = String(microToJson(budget.remaining))
    headers["X-Key-Limit-Period"] = budget.period
  }
  return headers
}
