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

/** The words of a reason that a test has in its name. */
const wordsOf = (reason: RegExp): string[] =>
  reason.source
    .replace("\\(fail\\)", "")
    .split(/\.\*| > |\(\?:|[(|)]/)
    .map((words) => words.replace(/\\(.)/g, "$1").trim())
    .filter((words) => words.length > 5)

test("a canary that a test's name is to tell of names one that there is", async () => {
  const root = join(import.meta.dir, "..")
  const files = [...new Bun.Glob("**/*.test.ts").scanSync(root)].filter((file) => !file.startsWith("canaries/"))
  const sources = (await Promise.all(files.map((file) => Bun.file(join(root, file)).text()))).join("\n")
  const named = canaries.filter(({ reason }) => reason.source.startsWith("\\(fail\\)"))
  expect(named.length).toBeGreaterThan(0)
  const unknown = named.flatMap(({ name, reason }) =>
    wordsOf(reason).flatMap((words) => (sources.includes(words) ? [] : [[name, words]])),
  )
  expect(unknown).toEqual([])
})
