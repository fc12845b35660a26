/** The end of a switch over a union: the compiler proves that no case is missing, and at run time it is a bug. */
export function unreachable(value: never): never {
  throw new Error(`unreachable: ${JSON.stringify(value)}`)
}
