import { describe, expect, test } from "bun:test"
import type { Json } from "../../src/language/json.ts"
import type { FailureCode } from "../../src/failure/table.ts"
import { classifyBackendError, classifyErrorObject } from "../../src/wire/backend-error.ts"
import { medianWork } from "./work.ts"

const nowMs = Date.UTC(2026, 10, 20, 12, 0, 0)
const classify = (status: number, body: Json | undefined, headers: Record<string, string> = {}) =>
  classifyBackendError(status, body, new Headers(headers), nowMs)

const invalid = "upstream.invalid_request"
const unsupported = "upstream.unsupported_feature"
const overflow = "upstream.context_length_exceeded"
const limited = "upstream.rate_limited"
const down = "dependency.upstream_unavailable"

/** Vendors' own wordings, with the count and the limit that they name. */
const overflows: [string, string, [number, number]?][] = [
  ["Anthropic", "prompt is too long: 213462 tokens > 200000 maximum", [213_462, 200_000]],
  [
    "Anthropic, with max_tokens",
    "input length and `max_tokens` exceed context limit: 90402 + 116650 > 204648, decrease input length or `max_tokens` and try again",
    [207_052, 204_648],
  ],
  ["Bedrock", "Input is too long for requested model."],
  [
    "Bedrock Nova",
    "Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again.",
  ],
  [
    "OpenAI chat",
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens. Please reduce the length of the messages.",
    [8545, 8192],
  ],
  [
    "OpenAI chat, with the completion",
    "This model's maximum context length is 8191 tokens, however you requested 10346 tokens (10346 in your prompt; 5 for the completion). Please reduce your prompt; or completion length.",
    [10_346, 8191],
  ],
  ["OpenAI responses", "Your input exceeds the context window of this model. Please adjust your input and try again."],
  [
    "OpenAI, newer",
    "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 299998 tokens. Please reduce the length of the messages.",
    [299_998, 272_000],
  ],
  [
    "vLLM",
    "This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and your prompt contains at least 262145 input tokens, for a total of at least 262145 tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=262145)",
    [262_145, 262_144],
  ],
  [
    "vLLM, newer",
    "You passed 131073 input tokens and requested 1 output tokens. However, the model's context length is only 131072 tokens, resulting in a maximum input length of 131071 tokens.",
    [131_073, 131_072],
  ],
  [
    "vLLM, for the answer's sake",
    "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 8192 tokens and your request has 5000 input tokens (4096 > 8192 - 5000).",
  ],
  [
    "SGLang",
    "Requested token count exceeds the model's maximum context length of 202752 tokens. You requested a total of 202941 tokens: 170941 tokens from the input messages and 32000 tokens for the completion.",
    [202_941, 202_752],
  ],
  [
    "Together",
    "The input (263000 tokens) is longer than the model's context length (262144 tokens).",
    [263_000, 262_144],
  ],
  [
    "Google",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    [1_196_265, 1_048_575],
  ],
  ["xAI", "This model's maximum prompt length is 131072 but the request contains 537812 tokens.", [537_812, 131_072]],
  [
    "Mistral",
    "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    [65_673, 32_768],
  ],
  [
    "DeepSeek",
    "This model's maximum context length is 65536 tokens. However, you requested 70000 tokens (66000 in the messages, 4000 in the completion). Please reduce the length of the messages or completion.",
    [70_000, 65_536],
  ],
  [
    "OpenRouter",
    "This endpoint's maximum context length is 65536 tokens. However, you requested about 88665 tokens (24665 of text input, 64000 in the output).",
    [88_665, 65_536],
  ],
  ["Groq", "Please reduce the length of the messages or completion."],
  [
    "Cerebras",
    "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192",
    [9000, 8192],
  ],
  [
    "Moonshot",
    "Invalid request: Your request exceeded model token limit: 131072 (requested: 145000)",
    [145_000, 131_072],
  ],
  ["Qwen", "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]"],
  ["Zhipu", "Prompt exceeds max length"],
  ["MiniMax", "invalid params, context window exceeds limit (2013)"],
  ["Fireworks", "The prompt is too long: 140000, model maximum context length: 131071", [140_000, 131_071]],
  ["Poolside", "Input length 131393 exceeds the maximum allowed input length of 131040 tokens.", [131_393, 131_040]],
  ["parenthesised", "Input length (265330) exceeds model's maximum context length (262144).", [265_330, 262_144]],
  ["GitHub", "prompt token count of 139264 exceeds the limit of 128000", [139_264, 128_000]],
  [
    "llama.cpp",
    "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
    [5000, 4096],
  ],
  ["Ollama", "prompt too long; exceeded max context length by 12 tokens"],
  ["Cohere", "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292.", [4292, 4081]],
  ["some backend, in characters", "prompt is too long: 1540820 characters > 1048576 maximum"],
  ["some backend, in bytes", "prompt is too long: 41943040 bytes, the maximum is 33554432"],
  ["some backend, with no limit", "prompt is too long: 213462 tokens > 0 maximum"],
  [
    "some backend, with a request's number",
    "prompt is too long: 213462 tokens > 200000 maximum (request 1764439200123)",
    [213_462, 200_000],
  ],
  ["with separators", "prompt is too long: 213,462 tokens > 200,000 maximum", [213_462, 200_000]],
]

describe.each(overflows)("%s says that the prompt is too long", (_, message, numbers) => {
  test.each([
    ["as an error object", { error: { message, type: "invalid_request_error", code: null } }],
    ["with the message at the top", { object: "error", message }],
    ["as plain text", message],
  ])("%s", (_, body) => {
    const { failure, alert } = classify(400, body)
    expect([failure.code, alert]).toEqual([overflow, false])
    const said = numbers && `prompt is too long: ${numbers[0]} tokens > ${numbers[1]} maximum`
    expect(failure.detail.message).toBe(said)
  })
})

describe("a role that a backend takes nowhere is named in words by which Claude Code goes on without it", () => {
  const told = "role 'system' is not supported on this model, or not where it stands"
  test.each([
    ["Anthropic", { type: "error", error: { message: "role 'system' is not supported on this model" } }],
    [
      "Anthropic, before",
      { error: { message: `messages: Unexpected role "system". The Messages API accepts a top-level \`system\`` } },
    ],
    ["DeepSeek", "messages[1].role: unknown variant `system`, expected `user` or `assistant` at line 1 column 1932"],
    ["MiMo", { error: { message: "messages[1].role must be either 'user' or 'assistant', but got 'system'" } }],
    ["Codex", { detail: "System messages are not allowed" }],
    ["llama.cpp", { error: { message: "Jinja: System message must be at the beginning." } }],
    ["vLLM", { detail: [{ loc: ["body", "messages", 1, "role"], msg: "Input should be 'user' or 'assistant'" }] }],
    ["a path before the words", { error: { message: "messages.1.role: Input should be 'user' or 'assistant'" } }],
  ])("%s", (_, body) => {
    const { failure, alert } = classify(400, body)
    expect([failure.code, failure.message, alert]).toEqual([unsupported, told, false])
    expect(/role .{0,2}system/i.test(failure.message) && failure.message.includes("not supported")).toBe(true)
  })
  test.each([
    "the system prompt is not supported with images",
    "content: unknown variant `file`, expected `text`",
    "messages.1.content: Input should be 'user' or 'assistant'",
    "system: text content blocks must be non-empty",
  ])("and no other: %s", (message) => expect(classify(400, { error: { message } }).failure.message).not.toBe(told))
})

const classified: [string, number, Json | undefined, FailureCode, boolean][] = [
  [
    "a value out of range",
    400,
    { error: { message: "temperature: range: 0..1", type: "invalid_request_error" } },
    invalid,
    false,
  ],
  ["no body at all", 400, "", invalid, false],
  ["a page of HTML", 422, "<html><body>Unprocessable</body></html>", invalid, false],
  [
    "an answer limit that is too large",
    400,
    {
      error: {
        message: "max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens for the model",
      },
    },
    invalid,
    false,
  ],
  ["a picture that is too large", 400, { message: "image exceeds the limit of 5 MB" }, invalid, false],
  ["an overflow by code alone", 400, { error: { message: "x", code: "context_length_exceeded" } }, overflow, false],
  [
    "a message over the string bound",
    400,
    {
      error: {
        code: "string_above_max_length",
        param: "messages[0].content",
        message:
          "string too long. Expected a string with maximum length 1048576, but got a string with length 1540820 instead.",
      },
    },
    overflow,
    false,
  ],
  [
    "a message that is wrong otherwise",
    400,
    { error: { code: "invalid_value", param: "messages[0].content", message: "x" } },
    invalid,
    false,
  ],
  [
    "another field over the string bound",
    400,
    { error: { code: "string_above_max_length", param: "prompt_cache_key" } },
    invalid,
    false,
  ],
  [
    "a parameter not taken",
    400,
    {
      error: {
        message: "Unsupported parameter: 'temperature' is not supported with this model.",
        code: "unsupported_parameter",
      },
    },
    unsupported,
    false,
  ],
  ["tools not served", 400, { error: "registry.example/llm:8b does not support tools" }, unsupported, false],
  ["a field not known", 400, { error: { message: "foo: Extra inputs are not permitted" } }, unsupported, false],
  [
    "a field not known, as a list",
    422,
    { detail: [{ type: "extra_forbidden", loc: ["body", "x"], msg: "no" }] },
    unsupported,
    false,
  ],
  [
    "a missing field, as a list",
    422,
    { detail: [{ type: "missing", loc: ["body"], msg: "Field required" }] },
    invalid,
    false,
  ],
  [
    "our empty purse there",
    400,
    { error: { message: "Your credit balance is too low to access the API." } },
    down,
    true,
  ],
  [
    "our key there, as a list",
    400,
    [{ error: { code: 400, message: "API key not valid.", status: "INVALID_ARGUMENT" } }],
    down,
    true,
  ],
  ["a wrong key", 401, { error: { message: "Incorrect API key" } }, down, true],
  ["no money", 402, { error: { message: "Insufficient Balance" } }, down, true],
  ["no permission", 403, "", down, true],
  [
    "moderation, as OpenRouter tells it",
    403,
    {
      error: {
        code: 403,
        message: 'This model requires moderation. Your input was flagged for "violence". No credits were charged.',
        metadata: { reasons: ["violence"], flagged_input: "..." },
      },
    },
    invalid,
    false,
  ],
  [
    "moderation, as xAI tells it",
    403,
    {
      code: "The caller does not have permission to execute the specified operation",
      error: "Content violates usage guidelines. Team: t, API key ID: k, Model: m, Failed check: SAFETY_CHECK_TYPE_BIO",
    },
    invalid,
    false,
  ],
  ["our account's own bar", 403, { error: { message: "Your account was flagged for review." } }, down, true],
  ["wrong method", 405, "", down, false],
  ["no such model", 404, { error: { type: "not_found_error", message: "model: x" } }, down, true],
  ["a time-out", 408, "", down, false],
  [
    "a body too large",
    413,
    { error: { type: "request_too_large", message: "Request exceeds the maximum size" } },
    overflow,
    false,
  ],
  ["throttling", 429, { message: "Too many tokens, please wait before trying again." }, limited, false],
  ["our quota used up", 429, { error: { code: "insufficient_quota", message: "quota" } }, limited, true],
  [
    "too many tokens a minute, in the words of an empty purse",
    429,
    {
      error: {
        code: "insufficient_quota",
        message:
          "You exceeded your current quota, please check your plan and billing details. For details, see: https://help.aliyun.com/zh/model-studio/error-code#token-limit",
      },
    },
    limited,
    false,
  ],
  [
    "too many tokens a second, under the name of an empty purse",
    429,
    { error: { code: "insufficient_quota", message: "Allocated quota exceeded, please increase your quota limit." } },
    limited,
    false,
  ],
  [
    "free tokens that are used up",
    429,
    { error: { code: "insufficient_quota", message: "Free allocated quota exceeded." } },
    limited,
    true,
  ],
  ["a fault", 500, { error: { type: "api_error" } }, down, false],
  ["overload", 529, { type: "error", error: { type: "overloaded_error", message: "Overloaded" } }, down, false],
  ["our empty purse there, as a fault", 500, { error: { message: "Insufficient balance" } }, down, true],
  ["a status of no meaning", 302, undefined, down, false],
]

test.each(classified)("a backend's %s", (_, status, body, code, alert) => {
  const found = classify(status, body)
  expect([found.failure.code, found.alert]).toEqual([code, alert])
  // Parsed or not, the body is read the same.
  const text = typeof body === "string" ? body : JSON.stringify(body)
  expect(classify(status, text)).toEqual(found)
})

const alertOf = (error: Json) => classifyErrorObject({ error }).detail.alert
const WORDS = "credit balance is too low"
const quoting: [string, string][] = [
  ["a single one", `Input tag '${WORDS}' found using 'type' does not match any of the expected tags: 'text', 'image'`],
  ["a double one", `Invalid value: "${WORDS}". Supported values are: "low" and "high".`],
  ["backticks", `unknown variant \`${WORDS}\`, expected one of \`low\`, \`high\``],
  ["printed ones", `“${WORDS}” is none of ‘low’ and ‘high’`],
  ["corners", `参数错误：「${WORDS}」`],
  ["angles", `valeur inconnue « ${WORDS} »`],
  ["marks that the client has written too", `Invalid value: 'x' ${WORDS} 'y'. Supported values are: 'low'.`],
  ["double marks that the client has written too", `Invalid value: "x" ${WORDS} "y".`],
  ["one that is cut off", `Invalid value: '${"x".repeat(3_000)} ${WORDS}${" x".repeat(2_000)}'`],
  ["one whose marks are not alike", `Invalid value: '"${WORDS}'`],
  ["one before an apostrophe", `Input tag '${WORDS}' isn't expected; the tool's schema doesn't have it`],
  ["one after an apostrophe", `The tool's input doesn't have '${WORDS}'`],
  [
    "one after a message of Python",
    `Error code: 400 - {'error': {'message': "Invalid value: '${WORDS}'", 'code': None}}`,
  ],
]

test.each(quoting)("what a client has said is not the operator's fault, quoted in %s", (_, message) => {
  for (const [status, code] of [
    [400, invalid],
    [422, invalid],
    [429, limited],
    [500, down],
  ] as const)
    expect([status, classify(status, { error: { message } })]).toMatchObject([
      status,
      { failure: { code }, alert: false, operatorWords: undefined },
    ])
  expect(alertOf({ message, type: "invalid_request_error" })).toBeUndefined()
})

const anthropic = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade."
const ofOperator: [string, string][] = [
  ["as it is", anthropic],
  ["beside an apostrophe", `We couldn't serve this: your organization's ${WORDS}.`],
  ["after a plural's apostrophe", `The users' ${WORDS}.`],
  ["before what is quoted", `Insufficient balance for "gpt", see 'billing'`],
  ["after what is quoted", `Model 'claude': this organization has been disabled.`],
  ["within JSON", `Upstream said: {"type":"error","error":{"type":"invalid_request_error","message":"${anthropic}"}}`],
  ["within JSON in JSON", `{\\"error\\":{\\"message\\":\\"${anthropic}\\"}}`],
  ["as Python writes it", `Error code: 400 - {'type': 'error', 'error': {'type': 'x', 'message': '${anthropic}'}}`],
  ["before another's error", `${anthropic} {"error":"x"}`],
  [
    "of a limit",
    "You have reached your specified API usage limits. You will regain access on 2027-01-01 at 00:00 UTC.",
  ],
]

test.each(ofOperator)("the operator's fault is known by its words %s", (_, message) => {
  for (const status of [400, 422])
    for (const body of [{ error: { message } }, { error: { message: "x", metadata: { raw: message } } }]) {
      const { failure, alert, operatorWords = "" } = classify(status, body)
      expect([failure.code, alert, message.includes(operatorWords)]).toEqual([down, true, true])
      const doubted = classifyBackendError(status, body, new Headers(), nowMs, false)
      expect([doubted.failure.code, doubted.alert]).toEqual([invalid, false])
    }
})

test("a name of the operator's fault is believed whatever the words are", () => {
  const named = { error: { code: "billing_error", message: WORDS } }
  expect(classifyBackendError(400, named, new Headers(), nowMs, false).alert).toBe(true)
})

test("quotations are looked for in a time that grows with the text", () => {
  for (const mark of ["'", '"', "`", "\\", "'message':'", " '"]) {
    const work = (length: number) => {
      const message = mark.repeat(length / mark.length)
      return medianWork(() => {
        for (let time = 0; time < 300; time++) classify(400, { error: { message } })
      })
    }
    work(4_000)
    expect(work(4_000)).toBeLessThan(24 * work(500))
  }
})

const inStream: [Json | undefined, FailureCode][] = [
  [{ type: "error", error: { type: "overloaded_error", message: "Overloaded" } }, down],
  [{ type: "error", error: { type: "rate_limit_error", message: "slow down" } }, limited],
  [{ type: "error", error: { type: "invalid_request_error", message: "prompt is too long" } }, overflow],
  [{ type: "error", error: { type: "authentication_error", message: "x" } }, down],
  [{ error: { type: "server_error", code: null, message: "x" } }, down],
  [{ error: { code: "rate_limit_exceeded", message: "x" } }, limited],
  [{ error: { code: "invalid_prompt", message: "x" } }, invalid],
  [{ error: { code: "image_too_large", message: "x" } }, invalid],
  [{ error: { code: 429, message: "x" } }, limited],
  [{ error: { code: 502, message: "Provider returned error" } }, down],
  [
    {
      error: {
        code: 400,
        message: "Provider returned error",
        metadata: { raw: '{"error":{"message":"prompt is too long"}}' },
      },
    },
    overflow,
  ],
  [{ type: "error", code: "context_length_exceeded", message: "x", param: null }, overflow],
  [{ error: "prompt too long" }, overflow],
  [{ error: {} }, down],
  [{}, down],
  [null, down],
]

test.each(inStream)("an error inside a stream: %j", (body, code) => {
  expect(classifyErrorObject(body).code).toBe(code)
})

test("an error inside a stream that is the operator's to mend raises an alert, and no other does", () => {
  for (const type of ["authentication_error", "permission_error", "billing_error", "not_found_error"])
    expect({ type, alert: alertOf({ type, message: "x" }) }).toEqual({ type, alert: true })
  expect(alertOf({ code: "insufficient_quota", message: "x" })).toBe(true)
  for (const type of ["overloaded_error", "rate_limit_error", "invalid_request_error", "server_error"])
    expect({ type, alert: alertOf({ type, message: "x" }) }).toEqual({ type, alert: undefined })
})

/** To look for numbers in so many characters of them. */
function numbersWork(length: number) {
  const message = `prompt is too long ${"1,".repeat(length / 2)}`
  return medianWork(() => {
    for (let time = 0; time < 300; time++) classifyErrorObject({ error: { message } })
  })
}

test("numbers are looked for in a time that grows with the text", () => {
  numbersWork(4_000)
  expect(numbersWork(4_000)).toBeLessThan(24 * numbersWork(500))
})

test("a backend's words never reach the client", () => {
  const secret = "org-SECRET"
  for (const status of [400, 401, 404, 413, 422, 429, 500]) {
    for (const text of [secret, `${secret} prompt is too long: 5 tokens > 4 maximum`, `${secret} is not supported`]) {
      const { failure } = classify(status, { error: { message: text, code: secret, type: secret } })
      expect(JSON.stringify(failure.body("req_1"))).not.toContain(secret)
    }
  }
})

describe("a backend's Retry-After", () => {
  test("is forwarded where the backend throttles or is down", () => {
    expect(classify(429, "", { "retry-after": "7" }).failure.detail.retryAfterS).toBe(7)
    expect(classify(503, "", { "retry-after": "7" }).failure.detail.retryAfterS).toBe(7)
  })
  test("is forwarded with a failure that a retry helps, and with no other", () => {
    const statuses = [400, 408, 428, 429, 430, 499, 500, 501, 599]
    const forwarded = statuses.filter(
      (status) => classify(status, "", { "retry-after": "7" }).failure.detail.retryAfterS,
    )
    expect(forwarded).toEqual([429, 500, 501, 599])
  })
  test("is dropped where it is not plausible", () => {
    expect(classify(429, "", { "retry-after": "1000000" }).failure.detail).toEqual({})
  })
})
