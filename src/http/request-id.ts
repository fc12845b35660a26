/**
 * Request ids: `req_`, nine characters of milliseconds since the epoch in base 36, and a nanoid. Ids sort by the time of
 * their creation, which keeps the usage table's index append-mostly (decisions §1).
 */
import { customAlphabet } from "nanoid"

// Without `_` and `-`, so that ids of one millisecond differ only in letters and digits and select with a double click.
const suffix = customAlphabet("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 18)

export const newRequestId = (nowMs: number): string => `req_${nowMs.toString(36).padStart(9, "0")}${suffix()}`
