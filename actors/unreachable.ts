/** The end of a switch over a union: the compiler proves that no case is missing, and at run time it is a bug. */
export function unreachable(value: never): never {
  throw new Error(`unreachable: ${JSON.stringify(value)}`)
}

/** A value that is there by now; throws where it is not, which is a bug. */
export function defined<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("nothing has come of it so far")
  return value
}
