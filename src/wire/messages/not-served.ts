/**
 * What a messages request may not ask for, because the operator's one account at the backend stands behind every
 * customer (decisions §8): state that is kept there would leak from one customer to another, another model or speed
 * there would cost what the catalogue's rates do not cover.
 */
import { isObject, type Json, type JsonObject, present } from "../../language/json.ts"
import { notServed, shown } from "../../language/shape.ts"
import { Failure } from "../../failure/failure.ts"
import { refuseTier } from "../service-tier.ts"

const STATE = ["container", "thread", "mcp_servers", "user_profile_id", "workspace_id"]
const REROUTES = ["fallbacks", "fallback_credit_token", "billing_policy"]

export function refuseNotServed(body: JsonObject, blocks: readonly JsonObject[]): Failure | undefined {
  const state = STATE.find((field) => asksFor(body[field]))
  if (state === "thread") return threads
  if (state !== undefined) return notServed(`'${state}' names state or servers at the backend; leave it out.`)
  const reroute = REROUTES.find((field) => asksFor(body[field]))
  if (reroute !== undefined) return notServed(`'${reroute}' changes what the call costs at the backend; leave it out.`)
  const { speed } = body
  if (present(speed) && speed !== "standard")
    return notServed(`'speed' is ${shown(speed)}; only the standard speed is served.`)
  if (blocks.some(namesFile)) return notServed("File ids name state kept at the backend; send the data itself instead.")
  return refuseTier(body)
}

/** The vendor's SDK asks for one by default wherever it runs tools, and its users have never heard of it. */
const threads = new Failure("request.unsupported_feature", {
  message: "'thread' would keep the conversation at the backend, which is not served; send all of it with each call.",
  hint: "With the vendor's SDK, pass `thread: false` to its tool runner.",
})

/** Absent, null and an empty list ask for nothing. */
const asksFor = (value: Json | undefined): boolean => present(value) && !(Array.isArray(value) && value.length === 0)

function namesFile(block: JsonObject): boolean {
  const { type, source } = block
  return type === "container_upload" || (isObject(source) && (source["type"] === "file" || present(source["file_id"])))
}
