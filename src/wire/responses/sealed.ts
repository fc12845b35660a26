/**
 * Another format's seal on thinking, carried in the `encrypted_content` of a reasoning item: the one field of this
 * format that its clients keep and send back untouched. A messages backend takes its own thinking back only with its
 * signature, so without the envelope a conversation through this format would lose it after one turn.
 */
import type { Seal } from "../../language/prompt.ts"

const envelope = (by: Seal["by"]): string => `loket.${by}.`
const FOREIGN: readonly Seal["by"][] = ["messages", "messages-redacted"]

export const sealedContent = ({ by, data }: Seal): string => (by === "responses" ? data : envelope(by) + data)

export function readSeal(content: string): Seal {
  const by = FOREIGN.find((by) => content.startsWith(envelope(by)))
  return by === undefined ? { by: "responses", data: content } : { by, data: content.slice(envelope(by).length) }
}
