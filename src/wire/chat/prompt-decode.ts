/**
 * A client's chat request into the neutral language. What has no place there is refused, or harmless and listed in
 * docs/formats.md; the request's shape, as far as admission needed it, has been checked (request.ts).
 */
import type { Json, JsonObject } from "../../language/json.ts"
import { isObject, present } from "../../language/json.ts"
import type { OutputFormat, Prompt, Sampling } from "../../language/prompt.ts"
import type { ModelRequest } from "../../language/request.ts"
import { misshapen, notServed, readObject, readObjects, shown } from "../../language/shape.ts"
import { Failure } from "../../failure/failure.ts"
import { readConversation } from "./messages-decode.ts"
import { readReasoning } from "./reasoning.ts"
import { readToolUse } from "./tools-decode.ts"

export function decodePrompt(request: ModelRequest): Prompt | Failure {
  const { body } = request
  if (request.choices > 1)
    return notServed(`'n' is ${request.choices}; this model gives one answer a call, so call it once for each.`)
  const messages = readObjects(body.messages, "messages")
  if (messages instanceof Failure) return messages
  const conversation = readConversation(messages)
  if (conversation instanceof Failure) return conversation
  const toolUse = readToolUse(body)
  if (toolUse instanceof Failure) return toolUse
  const stopSequences = readStop(body.stop)
  if (stopSequences instanceof Failure) return stopSequences
  const sampling = readSampling(body)
  if (sampling instanceof Failure) return sampling
  const output = readOutput(body.response_format)
  if (output instanceof Failure) return output
  const reasoning = readReasoning(body, request.maxOutputTokens)
  if (reasoning instanceof Failure) return reasoning
  return {
    ...conversation,
    ...toolUse,
    stopSequences,
    sampling,
    output,
    reasoning,
  }
}

function readStop(value: Json | undefined): string[] | Failure {
  if (!present(value)) return []
  const all: Json[] = Array.isArray(value) ? value : [value]
  const texts = all.filter((stop) => typeof stop === "string")
  if (texts.length < all.length)
    return misshapen(`'stop' is ${shown(value)}; it must be a string or a list of strings.`)
  return texts.filter((stop) => stop !== "")
}

function readSampling(body: JsonObject): Sampling | Failure {
  const temperature = readNumber(body, "temperature")
  if (temperature instanceof Failure) return temperature
  const topP = readNumber(body, "top_p")
  if (topP instanceof Failure) return topP
  const topK = readNumber(body, "top_k")
  if (topK instanceof Failure) return topK
  return { temperature, topP, topK }
}

function readNumber(body: JsonObject, field: string): number | undefined | Failure {
  const value = body[field]
  if (!present(value)) return undefined
  return typeof value === "number" ? value : misshapen(`'${field}' is ${shown(value)}; it must be a number.`)
}

function readOutput(value: Json | undefined): OutputFormat | undefined | Failure {
  const format = readObject(value, "response_format")
  if (format instanceof Failure) return format
  if (format === undefined || format.type === "text") return undefined
  if (format.type === "json_object") return { kind: "json" }
  if (format.type !== "json_schema")
    return misshapen(
      `'response_format.type' is ${shown(format.type)}; it must be one of text, json_object, json_schema.`,
    )
  const definition: JsonObject = isObject(format.json_schema) ? format.json_schema : {}
  const { name, description, schema, strict } = definition
  if (!isObject(schema))
    return misshapen(`'response_format.json_schema.schema' is ${shown(schema)}; it must be an object.`)
  return {
    kind: "schema",
    name: typeof name === "string" ? name : undefined,
    description: typeof description === "string" ? description : undefined,
    schema,
    strict: typeof strict === "boolean" ? strict : undefined,
  }
}
