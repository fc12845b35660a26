/**
 * What a backend's error is to the client: a code of the failure table (decisions §7). The one place that reads a
 * backend's words. They are only ever matched against, never passed on; of a context overflow two numbers are taken.
 *
 * An error inside a stream has no status, so it is given the one that it would have had, and then judged the same way.
 */
import { type ErrorFacts, isContextOverflow, contextOverflowMessage, readError } from "./error-facts.ts"
import type { Json } from "../language/json.ts"
import { Failure } from "../failure/failure.ts"

export interface BackendError {
  readonly failure: Failure
  /** The fault is the operator's (credentials, quota, a wrong model name), who is to be told. */
  readonly alert: boolean
  /** The field of the request that it names, as it names it: not for a client's eyes before it is known as one of its own. */
  readonly field: string
  /** The words by which it was taken for the operator's fault. Where the request has them too, they are the client's own. */
  readonly operatorWords: string | undefined
}

/** Judges a response that is not 2xx. `body` is its text or parsed JSON; words that are not `believed` say nothing of the operator. */
export const classifyBackendError = (
  status: number,
  body: Json | undefined,
  headers: Pick<Headers, "get">,
  nowMs: number,
  believed = true,
): BackendError => {
  const facts = readError(body)
  const operatorWords = believed ? operatorWordsIn(facts) : undefined
  const { failure, alert } = judge(status, facts, operatorWords)
  const retryAfterS = status === 429 || status >= 500 ? parseRetryAfter(headers.get("retry-after"), nowMs) : undefined
  return {
    failure: retryAfterS === undefined ? failure : new Failure(failure.code, { retryAfterS }),
    alert,
    field: facts.field,
    operatorWords,
  }
}

/** Judges an error that a backend reports inside a stream or a 2xx body: the event or body that carries it. */
export const classifyErrorObject = (body: Json | undefined): Failure => {
  const facts = readError(body)
  const { failure, alert } = judge(impliedStatus(facts), facts, operatorWordsIn(facts))
  return alert ? new Failure(failure.code, { ...failure.detail, alert }) : failure
}

const judge = (
  status: number,
  facts: ErrorFacts,
  operatorWords: string | undefined,
): Pick<BackendError, "failure" | "alert"> => {
  const operators = operatorWords !== undefined || facts.overflowCodes.some((name) => operatorNames.has(name))
  switch (status) {
    case 400:
    case 422:
      if (operators) return { failure: new Failure("dependency.upstream_unavailable"), alert: true }
      return { failure: requestFault(facts), alert: false }
    case 403:
      if (contentWording.test(facts.text)) return { failure: new Failure("upstream.invalid_request"), alert: false }
      break
    case 413:
      // Whatever limit of the backend it is, the way out is that of a context overflow: a larger model, a shorter prompt.
      return { failure: overflow(facts), alert: false }
    case 429:
      return { failure: new Failure("upstream.rate_limited"), alert: operators && !throttleWording.test(facts.text) }
  }
  return {
    failure: new Failure("dependency.upstream_unavailable"),
    alert: operators || (status >= 401 && status <= 404),
  }
}

const requestFault = (facts: ErrorFacts): Failure => {
  if (isContextOverflow(facts)) return overflow(facts)
  if (isOfSystemRole(facts)) return new Failure("upstream.unsupported_feature", { message: SYSTEM_ROLE })
  const unsupported =
    facts.overflowCodes.some((name) => unsupportedNames.has(name)) || unsupportedWording.test(facts.text)
  return new Failure(unsupported ? "upstream.unsupported_feature" : "upstream.invalid_request")
}

const overflow = (facts: ErrorFacts): Failure => {
  const message = contextOverflowMessage(facts.text)
  return new Failure("upstream.context_length_exceeded", message === undefined ? {} : { message })
}

const unsupportedNames = new Set([
  "unsupported_parameter",
  "unsupported_value",
  "unsupported_feature",
  "unknown_parameter",
  "not_supported",
  "extra_forbidden",
])

/** OpenAI, Anthropic, Bedrock, Google, Ollama, vLLM, Mistral, pydantic-based servers. */
const unsupportedWording =
  /unsupported (?:parameter|value|feature)|unrecognized request argument|unknown parameter|unknown name "|\bnot (?:currently |yet )?supported\b|\b(?:does not|doesn't|do not|not) support\b|extra (?:inputs|fields) (?:are )?not permitted|is deprecated for this model|not available (?:for|with|on) this model|not enabled for this model|requires --enable-auto-tool-choice/i

/**
 * Of a backend that does not take the role, or not where it stands. Claude Code, which writes it unasked, says the same in the user's turn
 * once it reads "not supported" and a `role` that `system` follows within three characters.
 */
const SYSTEM_ROLE = "role 'system' is not supported on this model, or not where it stands"

/** Anthropic, Codex, servers on serde (DeepSeek), MiMo, llama.cpp's templates. */
const systemRoleWording =
  /\brole\W{1,3}system\b.{0,30}\bnot supported|\bunexpected role\W{1,3}system\b|\bunknown variant\W{1,3}system\b|\bgot\W{1,3}system\b|\bsystem (?:role|messages?) (?:is|are) not (?:allowed|supported)|\bsystem message must be at the beginning/i
/** Servers on pydantic name the field, and not what stands there. */
const roleField = /^messages\b.{0,20}\brole$/
const isOfSystemRole = ({ text, field }: ErrorFacts): boolean =>
  systemRoleWording.test(text) || (roleField.test(field) && /\binput should be 'user' or 'assistant'/i.test(text))

/** The operator's account at the backend is at fault, not the customer's request, whatever the status says. */
const operatorNames = new Set([
  "insufficient_quota",
  "billing_error",
  "billing_hard_limit_reached",
  "account_deactivated",
  "api_key_invalid",
  "invalid_api_key",
  "authentication_error",
  "permission_error",
  "model_not_found",
])
const operatorWording =
  /credit balance is too low|insufficient balance|specified api usage limits|api key not valid|(?:organization|account|workspace) (?:has been|is) (?:disabled|deactivated|suspended)/i

const operatorWordsIn = ({ text }: ErrorFacts): string | undefined =>
  operatorWording.exec(text.split(messageWithin).map(unquoted).join("\n"))?.[0]

/** Where one vendor's error stands in another's text, its message begins here, as JSON or as Python writes it. */
const messageWithin = /["'](?:message|error|detail)\\*["']\s*:\s*\\*["']/i
/** An apostrophe stands in or after a word. */
const quotations = [
  /(?<![\p{L}\p{N}])'(?:[\s\S]*'(?![\p{L}\p{N}])|[\s\S]*)/u,
  ...['"', "`", "‘’", "“”", "«»", "「」"].map((pair) => {
    const [open = "", close = open] = pair
    return new RegExp(`${open}(?:[\\s\\S]*${close}|[\\s\\S]*)`)
  }),
]

/**
 * Without what a backend quotes, which a client has written: of each kind of quotation marks all from the first one, for a client may write
 * them too, to the last, or to the end where none closes.
 */
const unquoted = (text: string): string => quotations.reduce((left, quotation) => left.replace(quotation, "…"), text)

/**
 * Of a 429 that passes within a minute, though it has the name of an empty purse (Alibaba's Model Studio). Taken for one, it would hold all
 * models of the credential back.
 */
const throttleWording = /(?<!free )allocated quota exceeded|\/error-code#token-limit\b/i

/**
 * Of a 403 that refuses what was said and not who says it (OpenRouter, xAI). Taken for one of the credential, a customer could have it held
 * back from everybody.
 */
const contentWording = /\b(?:input|content|prompt) (?:was|is|has been) flagged\b|\bcontent violates usage guidelines\b/i

/** The status that an error of this name would have had as a response. */
const statusOfName: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  badrequesterror: 400,
  bad_request_error: 400,
  bad_request: 400,
  invalid_argument: 400,
  failed_precondition: 400,
  validationexception: 400,
  validation_error: 400,
  context_length_exceeded: 400,
  model_context_window_exceeded: 400,
  exceed_context_size_error: 400,
  string_above_max_length: 400,
  unknown_parameter: 400,
  bio_policy: 400,
  misalignment_policy_violation: 400,
  content_policy_violation: 400,
  failed_to_download_image: 400,
  empty_image_file: 400,
  invalid_api_key: 401,
  authentication_error: 401,
  billing_error: 402,
  permission_error: 403,
  not_found_error: 404,
  model_not_found: 404,
  request_too_large: 413,
  rate_limit_error: 429,
  rate_limit_exceeded: 429,
  rate_limited: 429,
  rate_limit: 429,
  too_many_requests: 429,
  insufficient_quota: 429,
  throttling_error: 429,
  throttlingexception: 429,
  resource_exhausted: 429,
}
const requestFaultName = /^(?:invalid|image|unsupported)_/

const impliedStatus = (facts: ErrorFacts): number => {
  for (const name of facts.overflowCodes) {
    const status = statusOfName[name]
    if (status !== undefined) return status
    if (/^[45]\d\d$/.test(name)) return Number(name)
    if (requestFaultName.test(name)) return 400
  }
  return isContextOverflow(facts) ? 400 : 500
}

// A backend's `Retry-After` (RFC 9110, section 10.2.3), in whole seconds: a number or one of the three HTTP date forms.
// It is forwarded to clients that obey it for an hour, so what is not plausible is dropped (decisions §12.11).

const plausibleS = 86_400
const maximumS = 3_600

export const parseRetryAfter = (value: string | null | undefined, nowMs: number): number | undefined => {
  const text = value?.trim() ?? ""
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : secondsUntil(text, nowMs)
  return seconds >= 0 && seconds <= plausibleS ? Math.min(Math.max(0, seconds), maximumS) : undefined
}

/** NaN, which is neither above nor below a bound, for what is no date. */
const secondsUntil = (text: string, nowMs: number): number => Math.ceil((httpDateMs(text, nowMs) - nowMs) / 1000)

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
const clock = String.raw`(?<hour>\d\d):(?<minute>\d\d):(?<second>\d\d)`
const forms = [
  new RegExp(String.raw`^[A-Z][a-z]{2}, (?<day>\d\d) (?<month>[A-Z][a-z]{2}) (?<year>\d{4}) ${clock} GMT$`),
  new RegExp(String.raw`^[A-Z][a-z]{5,8}, (?<day>\d\d)-(?<month>[A-Z][a-z]{2})-(?<year>\d\d) ${clock} GMT$`),
  new RegExp(String.raw`^[A-Z][a-z]{2} (?<month>[A-Z][a-z]{2}) (?<day>[ \d]\d) ${clock} (?<year>\d{4})$`),
]

const httpDateMs = (text: string, nowMs: number): number => {
  for (const form of forms) {
    const parts = form.exec(text)?.groups
    if (parts === undefined) continue
    const month = months.indexOf(parts.month ?? "")
    if (month === -1) return Number.NaN
    const year = fullYear(Number(parts.year), nowMs)
    return Date.UTC(year, month, Number(parts.day), Number(parts.hour), Number(parts.minute), Number(parts.second))
  }
  return Number.NaN
}

/** Two digits are a year of this century. In which one a year far from now is (RFC 9110, section 5.6.7) makes no difference: it is not plausible. */
const fullYear = (year: number, nowMs: number): number => {
  if (year > 99) return year
  const thisYear = new Date(nowMs).getUTCFullYear()
  return thisYear - (thisYear % 100) + year
}
