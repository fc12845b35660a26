/**
 * A Bedrock error as the other backends would have told it (Bedrock API reference, "Common errors"; InvokeModel,
 * "Errors"): its kind stands in a header or in `__type`, and its status does not always say whose fault it is.
 */
import { type Json, isObject, type JsonObject } from "../../language/json.ts"

export interface ToldError {
  readonly status: number
  readonly body: JsonObject
}

/** Status and name to judge a kind by, where its own status would be judged otherwise. */
const KINDS: Readonly<Record<string, readonly [status: number, name: string]>> = {
  throttlingexception: [429, "rate_limit_error"],
  toomanyrequestsexception: [429, "rate_limit_error"],
  // A quota of the operator's account; told as a 400.
  servicequotaexceededexception: [429, "insufficient_quota"],
  // Being loaded, which passes; told as a 429.
  modelnotreadyexception: [503, "overloaded_error"],
  // The model failed, not the request; told as a 424.
  modelerrorexception: [500, "api_error"],
  modelstreamerrorexception: [500, "api_error"],
  accessdeniedexception: [403, "permission_error"],
  unrecognizedclientexception: [403, "authentication_error"],
  invalidsignatureexception: [403, "authentication_error"],
  incompletesignature: [403, "authentication_error"],
  missingauthenticationtokenexception: [403, "authentication_error"],
  expiredtokenexception: [403, "authentication_error"],
  resourcenotfoundexception: [404, "model_not_found"],
}

/** A ValidationException that the catalogue is at fault for: the model's name, or what may be called under it. */
const misconfigured =
  /model identifier is invalid|on-demand throughput|inference profile|not authorized to perform|access to (?:this|the) model|end of (?:its|it's) life|marked by provider as legacy/i

export function bedrockError(status: number, body: Json | undefined, headers: Pick<Headers, "get">): ToldError {
  const told: JsonObject = isObject(body) ? body : {}
  const text = [told["message"], told["Message"], body].find((value) => typeof value === "string") ?? ""
  const kind = kindOf(headers.get("x-amzn-errortype") ?? told["__type"])
  const [judged, name] =
    KINDS[kind] ?? (status === 400 && misconfigured.test(text) ? [404, "model_not_found"] : [status, kind])
  return { status: judged, body: { error: { type: name, message: text } } }
}

/** From `com.amazon.coral.service#AccessDeniedException` and `ThrottlingException:http://…`. */
const kindOf = (value: Json | undefined): string =>
  typeof value === "string" ? (value.split(":")[0]?.split("#").at(-1) ?? "").toLowerCase() : ""
