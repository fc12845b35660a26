/** `data:` URLs with base64 in them (RFC 2397), which is how this format carries images and files inline. */
import type { DataSource } from "../../language/prompt.ts"

export const dataUrl = ({ mediaType, base64 }: DataSource): string => `data:${mediaType};base64,${base64}`

/** Undefined where it is no such URL. Only the head is looked at: what follows may be megabytes. */
export function readDataUrl(url: string): DataSource | undefined {
  const comma = url.indexOf(",")
  if (comma < 0 || !url.slice(0, 5).toLowerCase().startsWith("data:")) return undefined
  const [mediaType = "", ...parameters] = url.slice(5, comma).split(";")
  if (mediaType === "" || parameters.at(-1)?.toLowerCase() !== "base64") return undefined
  return { kind: "data", mediaType, base64: url.slice(comma + 1) }
}
