/**
 * `docs/errors.md`, made of the error table: `bun test/failure/document.ts` writes it. A test holds the file against what
 * is made here, so that the document cannot say anything else than the gateway does.
 */
import { type FailureCode, failureCodes, failureRow } from "../../src/failure/table.ts"

export function errorsDocument(): string {
  return [head, ...failureCodes.map(entry), streams].join("\n")
}

function entry(code: FailureCode): string {
  const { status, retryable, condition, message, hint } = failureRow(code)
  const advice = retryable ? "Worth a retry." : "The same request never succeeds."
  const told = hint === undefined ? message : `${message} ${hint}`
  return `## ${status} \`${code}\`\n\n${condition}\n\n${advice} Message: “${told}”\n`
}

const head = `# Errors

<!-- Made by \`bun test/failure/document.ts\` from src/failure/table.ts. Do not edit. -->

Every error has the same JSON body, on every endpoint:

- \`error\`: the message, for people. It may change; never branch on it.
- \`code\`: the identifier below. Branch on this.
- \`type\`: the part of \`code\` after its last dot.
- \`request_id\`: the same as the headers \`X-Request-Id\` and \`request-id\`. Name it when you ask for help.
- \`retryable\`: whether the same request may succeed later.
- \`hint\`: what to do about it, where there is something.

What has the code in an SDK:

| SDK | An error with a status | A failure inside a stream |
| --- | --- | --- |
| OpenAI and Anthropic, TypeScript | \`error.headers.get("x-error-code")\`; \`error.code\` and \`error.type\` are empty, because \`error\` in the body is a sentence | \`error.code\` (OpenAI; \`response.failed\` is an event, and has \`response.error.code\`), \`error.type\` (Anthropic): [below](#inside-a-stream) |
| OpenAI and Anthropic, Python | \`error.response.headers["x-error-code"]\` | as above |
| AI SDK | \`error.responseHeaders["x-error-code"]\` of an \`APICallError\` | a part of the type \`error\`, or \`onError\` |

A request that is no HTTP (a broken line or header, a head that is too large, two lengths) is refused before any of this, with a bare 400, 431 or 505: it
has no body, no code and no request id.

The headers repeat the code (\`X-Error-Code\`), and say \`x-should-retry: false\` where a retry is pointless, which the
vendors' SDKs obey. \`Retry-After\` is sent wherever the wait is known, in whole seconds; it is the least that makes sense.
Without it, wait exponentially longer with jitter, four or five times at most.
`

/** What can still go wrong once a call has been forwarded; all else is refused with its own status. */
const afterForwarding = failureCodes.filter((code) =>
  /^(upstream|internal|gateway)\.|upstream_unavailable|^billing\.rec/.test(code),
)

/** One line for each name under which codes are told. */
const list = (nameOf: (code: FailureCode) => string): string =>
  [...Map.groupBy(afterForwarding, nameOf)]
    .map(([name, codes]) => `- \`${name}\`: ${codes.map((code) => `\`${code}\``).join(", ")}`)
    .join("\n")

const streams = `# Inside a stream

Once a stream has begun, its status is 200 and a failure is told inside of it. Chat completions: a chunk with \`error\`,
then \`[DONE]\`. Responses: \`response.failed\`, and the same object under 200 when keepalives of an answer in one piece
have been sent. Messages: \`event: error\`. A client that looks at the status alone takes a failed stream for an empty
answer.

The short \`code\` of chat completions and responses (\`upstream_timeout\` is a backend that did not begin in time, fell silent, or did not come to an end in time):

${list((code) => failureRow(code).stream)}

The \`type\` of messages:

${list((code) => failureRow(code).messagesType)}
`

if (import.meta.main) await Bun.write(new URL("../../docs/errors.md", import.meta.url), errorsDocument())
