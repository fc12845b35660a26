/**
 * A PANIC of the embedded Postgres, such as of a disk with no room for its log. A server would end all its processes and
 * recover; the embedded one has nobody to do so, and answers every statement with the same PANIC from then on.
 */
const MARK = Buffer.from("SPANIC\0VPANIC\0")

/** What the panic says, if there is one among the answers: an ErrorResponse of that severity. */
export function panicIn(answers: Uint8Array): string | undefined {
  const bytes = Buffer.from(answers.buffer, answers.byteOffset, answers.byteLength)
  const start = bytes.indexOf(MARK)
  if (start < 0) return undefined
  // Fields are a letter and a text that ends in a zero byte; an empty one ends the message.
  const end = bytes.indexOf("\0\0", start)
  const fields = bytes.toString("utf8", start, end < 0 ? bytes.length : end).split("\0")
  return fields.find((field) => field.startsWith("M"))?.slice(1) ?? ""
}
