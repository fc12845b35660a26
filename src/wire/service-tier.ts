/**
 * At what price a backend computes (decisions §13.3). The catalogue's rates are those of the standard tier, so that is what
 * every body asks for in so many words: left out, the backend's account would decide. A cheaper tier may be asked for.
 */
import type { Endpoint } from "../language/request.ts"
import { type Json, type JsonObject, present } from "../language/json.ts"
import { notServed, shown } from "../language/shape.ts"
import type { Failure } from "../failure/failure.ts"

const SERVED: readonly Json[] = ["auto", "default", "flex", "standard", "standard_only"]

/** Whatever is not one of these words, letter by letter, may be a dearer one to some backend. */
export function refuseTier({ service_tier: tier }: JsonObject): Failure | undefined {
  if (!present(tier) || SERVED.includes(tier)) return undefined
  return notServed(`'service_tier' is ${shown(tier)}; only the default tier and flex are served.`)
}

/** The tier to write, in a backend's format. */
export function serviceTier(backend: Endpoint, { service_tier: tier }: JsonObject): string {
  if (tier === "flex") return tier
  return backend === "messages" ? "standard_only" : "default"
}
