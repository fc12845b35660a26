/**
 * A Bedrock on loopback that behaves as the vendor's documents say: it checks the credentials of each call (a bearer key,
 * or the signature, reckoned here from the raw request), the path, and that the body holds nothing that it does not know.
 * What it answers is put in line by the test.
 */
import { createHash, createHmac } from "node:crypto"
import type { JsonObject } from "../../src/language/json.ts"

/** One answer: a body, frames, or an error as Bedrock tells it. */
export type BedrockAnswer =
  | { readonly reply: JsonObject }
  | { readonly frames: readonly Uint8Array[]; readonly cutOff?: boolean }
  | { readonly error: string; readonly status: number; readonly message: string }

export interface BedrockCall {
  /** The model's id, as the path names it. */
  readonly model: string
  readonly operation: string
  readonly body: JsonObject
  readonly headers: Headers
}

export interface BedrockServer extends AsyncDisposable {
  readonly url: string
  readonly calls: BedrockCall[]
  /** What the next calls are answered, one after the other. */
  next(...answers: BedrockAnswer[]): void
}

export const BEARER = "bedrock-api-key"
export const SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"

const OPERATIONS = ["invoke", "invoke-with-response-stream", "converse", "converse-stream"]
const BETAS = ["interleaved-thinking-2025-05-14", "tool-search-tool-2025-10-19", "tool-examples-2025-10-29"]
const FIELDS = {
  invoke:
    "anthropic_version anthropic_beta max_tokens messages system stop_sequences temperature top_p top_k tools tool_choice thinking output_config",
  converse: "messages system inferenceConfig toolConfig additionalModelRequestFields outputConfig",
}

export function startBedrock(): BedrockServer {
  const calls: BedrockCall[] = []
  const answers: BedrockAnswer[] = []
  const server = Bun.serve({
    port: 0,
    async fetch(request) {
      const text = await request.text()
      const refused = credentialFault(request, text)
      if (refused !== undefined) return failure({ error: "AccessDeniedException", status: 403, message: refused })
      const [, root, id = "", operation = ""] = new URL(request.url).pathname.split("/")
      if (root !== "model" || !OPERATIONS.includes(operation))
        return failure({ error: "UnknownOperationException", status: 404, message: "" })
      const body: JsonObject = JSON.parse(text)
      const fault = bodyFault(operation, body)
      if (fault !== undefined) return failure({ error: "ValidationException", status: 400, message: fault })
      calls.push({ model: decodeURIComponent(id), operation, body, headers: request.headers })
      const answer = answers.shift()
      if (answer === undefined) throw new Error("the test put no answer in line")
      if ("error" in answer) return failure(answer)
      if ("reply" in answer) return Response.json(answer.reply)
      return streamed(answer)
    },
  })
  return {
    url: `http://localhost:${server.port}`,
    calls,
    next: (...more) => void answers.push(...more),
    [Symbol.asyncDispose]: () => server.stop(true),
  }
}

const failure = ({ error, status, message }: Extract<BedrockAnswer, { error: string }>): Response =>
  Response.json({ message }, { status, headers: { "x-amzn-ErrorType": `${error}:http://internal.amazon.com/coral/` } })

/** In pieces of 50 bytes, so that hardly a frame comes whole. */
function streamed({ frames, cutOff }: Extract<BedrockAnswer, { frames: readonly Uint8Array[] }>): Response {
  const whole = Buffer.concat(frames)
  const bytes = cutOff ? whole.subarray(0, -5) : whole
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (let at = 0; at < bytes.length; at += 50) controller.enqueue(new Uint8Array(bytes.subarray(at, at + 50)))
      controller.close()
    },
  })
  return new Response(body, { headers: { "Content-Type": "application/vnd.amazon.eventstream" } })
}

function bodyFault(operation: string, body: JsonObject): string | undefined {
  const isInvoke = operation.startsWith("invoke")
  const known = FIELDS[isInvoke ? "invoke" : "converse"].split(" ")
  const unknown = Object.keys(body).find((field) => !known.includes(field))
  if (unknown !== undefined) return `${unknown}: Extra inputs are not permitted`
  if (!isInvoke) return undefined
  if (body["anthropic_version"] !== "bedrock-2023-05-31") return "anthropic_version: Field required"
  const betas = body["anthropic_beta"] ?? []
  if (!Array.isArray(betas) || betas.some((beta) => typeof beta !== "string" || !BETAS.includes(beta)))
    return "invalid beta flag"
  return JSON.stringify(body).includes('"scope"')
    ? "system.0.cache_control.ephemeral.scope: Extra inputs are not permitted"
    : undefined
}

function credentialFault(request: Request, body: string): string | undefined {
  const authorization = request.headers.get("Authorization") ?? ""
  if (request.headers.has("x-api-key")) return "x-api-key is no header of this service"
  if (authorization === `Bearer ${BEARER}`) return undefined
  const found = /^AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE\/(\S+), SignedHeaders=(\S+), Signature=(\S+)$/.exec(
    authorization,
  )
  if (found === null) return "The security token included in the request is invalid."
  const [, scope = "", signed = "", signature] = found
  return signature === expectedSignature(request, body, scope, signed)
    ? undefined
    : "The request signature we calculated does not match the signature you provided."
}

/** IAM user guide, "Create a signed AWS API request". */
function expectedSignature(request: Request, body: string, scope: string, signed: string): string {
  const path = new URL(request.url).pathname.split("/").map(encodeURIComponent).join("/")
  const headers = signed.split(";").map((name) => `${name}:${request.headers.get(name)}\n`)
  const canonical = [request.method, path, "", headers.join(""), signed, sha256(body)].join("\n")
  const text = ["AWS4-HMAC-SHA256", request.headers.get("x-amz-date"), scope, sha256(canonical)].join("\n")
  const key = scope.split("/").reduce<Buffer | string>((secret, part) => hmac(secret, part), `AWS4${SECRET}`)
  return hmac(key, text).toString("hex")
}

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex")
const hmac = (key: Buffer | string, text: string): Buffer => createHmac("sha256", key).update(text).digest()
