/**
 * The half of a format that the neutral language has no words for: a client of it is served by backends that speak it, and by
 * no others. The catalogue sees to that (src/catalogue/references.ts).
 */
import { notServed } from "../../language/shape.ts"
import type { BackendSide, ClientSide } from "../format.ts"

const refused = () => notServed("This model's backend does not speak the format of this endpoint.")
const never = (): never => {
  throw new Error("there is nothing to translate in this format")
}

export const untranslatedClient: Pick<ClientSide, "decodePrompt" | "eventEncoder" | "encodeReply"> = {
  decodePrompt: refused,
  eventEncoder: never,
  encodeReply: never,
}

export const untranslatedBackend: Pick<BackendSide, "encodePrompt" | "decodeReply"> = {
  encodePrompt: refused,
  decodeReply: never,
}

/** Of a format that has no streams. */
export const unstreamed: Pick<ClientSide, "streamFailure"> & Pick<BackendSide, "stream" | "gatherer"> = {
  streamFailure: never,
  stream: never,
  gatherer: never,
}
