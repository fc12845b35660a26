/** Each canary finds its place in the sources. A part of `bun run check`, because any change may take one away. */
import { expect, test } from "bun:test"
import { join } from "node:path"
import { migrations } from "../../src/store/migrations/index.ts"
import { planted } from "./canary.ts"
import { canaries } from "./table.ts"

test("every canary has its own name, and is one change of one file", async () => {
  expect(new Set(canaries.map(({ name }) => name)).size).toBe(canaries.length)
  for (const canary of canaries) {
    const source = await Bun.file(join(import.meta.dir, "../..", canary.file)).text()
    expect(planted(canary, source)).not.toBe(source)
  }
})

test("a canary in a migration is where what it changes was made last, and is not replaced by a later one", () => {
  const inMigrations = canaries.filter(({ file }) => file.startsWith("src/store/migrations/"))
  expect(inMigrations.length).toBeGreaterThan(0)
  for (const { name, file, find } of inMigrations) {
    const last = migrations.findLast(({ sql }) => sql.includes(find))
    expect([name, file]).toEqual([name, `src/store/migrations/${last?.name}`])
  }
})
