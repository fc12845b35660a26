/**
 * The protocol of a backend: its format, its path, and the envelope of a body. The list of formats is here: nothing else names them
 * all.
 */
import type { Failure } from "../failure/failure.ts"
import type { JsonObject } from "../language/json.ts"
import type { Adaptation, BackendFormat, Endpoint } from "../language/request.ts"
import { converseFormat } from "./bedrock/converse.ts"
import { bedrockFamily, type BedrockOperation, bedrockPath, refuseInvoke } from "./bedrock/invoke.ts"
import { chatFormat } from "./chat/format.ts"
import { completionsFormat } from "./completions.ts"
import { embeddingsFormat } from "./embeddings.ts"
import type { ClientFormat, ClientSide, Format } from "./format.ts"
import { messagesFormat } from "./messages/format.ts"
import { responsesFormat } from "./responses/format.ts"

/** The protocol of a backend: its headers, and the envelope of the body. */
export type BackendProtocol = Endpoint | "bedrock-invoke" | "bedrock-converse"

/** A model at a backend: its format, its name there, and what that backend wants otherwise. */
export interface BackendModel extends Adaptation {
  readonly format: BackendFormat
  readonly model: string
}

/** Without what else a catalogue knows of it. */
export const backendModel = ({ format, model, set, efforts, needs }: BackendModel): BackendModel => ({
  format,
  model,
  ...(set !== undefined && { set }),
  ...(efforts !== undefined && { efforts }),
  ...(needs !== undefined && { needs }),
})

/** The formats that clients speak. */
export const formats: Readonly<Record<Endpoint, ClientFormat>> = {
  chat: chatFormat,
  messages: messagesFormat,
  responses: responsesFormat,
  completions: completionsFormat,
  embeddings: embeddingsFormat,
}

/** A backend's protocol with its path and format. */
export interface ProtocolBinding {
  readonly protocol: BackendProtocol
  readonly path: (stream: boolean) => string
  readonly format: Format
  /** Refuses a body of this format that asks for something that this backend does not support. */
  readonly refuse?: (body: JsonObject) => Failure | undefined
}

/** Whether a model's backend takes the messages format, in any envelope. */
export const takesMessagesFormat = ({ format, model }: BackendModel): boolean =>
  format === "messages" || (format === "bedrock" && bedrockFamily(model) === "claude")

/** The client format that a backend speaks, in any envelope. Undefined for a format that no client speaks. */
export function clientFormatOf(backend: BackendModel): Endpoint | undefined {
  if (takesMessagesFormat(backend)) return "messages"
  return backend.format === "bedrock" ? undefined : backend.format
}

export function protocolOf(backend: BackendModel): ProtocolBinding {
  if (backend.format !== "bedrock") return directProtocols[backend.format]
  const path = (operation: BedrockOperation) => (stream: boolean) => bedrockPath(backend.model, operation, stream)
  return takesMessagesFormat(backend)
    ? { protocol: "bedrock-invoke", path: path("invoke"), format: messagesFormat, refuse: refuseInvoke }
    : { protocol: "bedrock-converse", path: path("converse"), format: converseFormat }
}

const protocolOfFormat = (format: ClientFormat): ProtocolBinding => ({
  protocol: format.client.endpoint,
  path: () => format.client.path,
  format,
})

const directProtocols: Readonly<Record<Endpoint, ProtocolBinding>> = {
  chat: protocolOfFormat(chatFormat),
  messages: protocolOfFormat(messagesFormat),
  responses: protocolOfFormat(responsesFormat),
  completions: protocolOfFormat(completionsFormat),
  embeddings: protocolOfFormat(embeddingsFormat),
}

export const isClientFormat = ({ format }: ProtocolBinding, { endpoint }: ClientSide): boolean =>
  format.client?.endpoint === endpoint
