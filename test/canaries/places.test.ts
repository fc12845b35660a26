/** Each canary finds its place in the sources. A part of `bun run check`, because any change may take one away. */
import { expect, test } from "bun:test"
import { join } from "node:path"
import { planted } from "./canary.ts"
import { canaries } from "./table.ts"

test("every canary has its own name, and is one change of one file", async () => {
  expect(new Set(canaries.map(({ name }) => name)).size).toBe(canaries.length)
  for (const canary of canaries) {
    const source = await Bun.file(join(import.meta.dir, "../..", canary.file)).text()
    expect(planted(canary, source)).not.toBe(source)
  }
})
