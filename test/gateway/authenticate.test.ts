/** Which key a request carries. */
import { expect, test } from "bun:test"
import { keyFrom } from "../../src/gateway/authenticate.ts"

const from = (authorization: string, key = "") => keyFrom(new Headers({ authorization, "x-api-key": key }))

test.each([
  ["Bearer one", "one"],
  ["bearer  one", "one"],
  ["BEARER\tone", "one"],
  ["Bearer one two", "one two"],
  ["Bearer \u00a0one\u00a0", "one"],
])("%j has a key", (header, key) => expect(from(header, "another")).toBe(key))

test.each(["", "Bearer", "Bearer ", "Bearer \u00a0", "Basic one", "Bearerone"])("%j has none", (header) => {
  expect(from(header)).toBeUndefined()
  expect(from(header, "another")).toBe("another")
})

test("white space without end takes no time", () => {
  const header = `Bearer${"\u00a0".repeat(30_000)}`
  const begunAt = performance.now()
  expect(from(header)).toBeUndefined()
  expect(performance.now() - begunAt).toBeLessThan(50)
})
