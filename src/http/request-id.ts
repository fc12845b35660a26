/**
 * Request ids: `req_`, nine characters of milliseconds since the epoch in base 36, and a nanoid. Ids sort by the time of
 * their creation, which keeps the usage table's index append-mostly (decisions §1).
 */
import { customAlphabet } from "nanoid"

// Without `_` and `-`, so that ids of one millisecond differ only in letters and digits and select with a double click.
const suffix = customAlphabet("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 18)

/** What all ids of this millisecond begin with, and so sorts before them. Their nine characters end in year 5188. */
export const firstRequestId = (ms: number): string =>
  `req_${Math.min(Math.max(0, ms), 36 ** 9 - 1)
    .toString(36)
    .padStart(9, "0")}`

export const newRequestId = (nowMs: number): string => `req_${nowMs.toString(36).padStart(9, "0")}${suffix()}`
