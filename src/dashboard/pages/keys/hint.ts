import type { ApiKey } from "../../api/queries.ts"

/** What may be shown of a key that is there: enough to find it again in a file of settings. */
export const hintOf = ({ prefix, last4 }: Pick<ApiKey, "prefix" | "last4">): string => `${prefix}…${last4}`
