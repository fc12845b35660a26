/**
 * What backends speak, by the name that the catalogue's `upstream.format` uses: the clients' formats, and those that only
 * backends have. Bedrock's models are named by their provider's own ids, which tell how each is called.
 */
import { ENDPOINTS } from "./request.ts"

export const BACKEND_FORMATS = [...ENDPOINTS, "bedrock"] as const
export type BackendFormat = (typeof BACKEND_FORMATS)[number]
