/**
 * A model of Bedrock by the name that the catalogue gives it: a model id, an inference profile's id, or an ARN. After a
 * `#` stands the model's own id where the name does not tell it, as with an application inference profile's ARN. The
 * vendor's models (Claude) are called in their own format by InvokeModel, all others by Converse.
 */

export type BedrockFamily = "claude" | "nova" | "nova-2" | "gpt-oss" | "other"

export function bedrockFamily(name: string): BedrockFamily {
  if (name.includes("anthropic.")) return "claude"
  if (name.includes("amazon.nova")) return name.includes("amazon.nova-2") ? "nova-2" : "nova"
  return name.includes("openai.gpt-oss") ? "gpt-oss" : "other"
}

export type BedrockOperation = "invoke" | "converse"

const STREAMED = { invoke: "invoke-with-response-stream", converse: "converse-stream" } as const

/** Where the model is called. Its id is one segment of the path, whatever it holds. */
export function bedrockPath(name: string, operation: BedrockOperation, stream: boolean): string {
  const [id = name] = name.split("#")
  return `/model/${escaped(id)}/${stream ? STREAMED[operation] : operation}`
}

/** All but the unreserved characters of RFC 3986, as the signature has it. */
const escaped = (id: string): string =>
  encodeURIComponent(id).replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
