/**
 * The suites are tested: each canary is planted into a process of its own, where the suite that is to notice it must fail,
 * for the right reason, and must pass without it. A canary that nothing notices is a hole in the suites.
 */
import { expect, test } from "bun:test"
import { join } from "node:path"
import { planted } from "./canary.ts"
import { watch } from "./detect.ts"
import { attackCanaries } from "./of-attacks.ts"
import { backupCanaries } from "./of-backups.ts"
import { booksCanaries } from "./of-the-books.ts"
import { callCanaries } from "./of-calls.ts"
import { keyCanaries } from "./of-keys.ts"
import { canaries } from "./table.ts"

test("every canary has its own name, and is one change of one file", async () => {
  expect(new Set(canaries.map(({ name }) => name)).size).toBe(canaries.length)
  for (const canary of canaries) {
    const source = await Bun.file(join(import.meta.dir, "../..", canary.file)).text()
    expect(planted(canary, source)).not.toBe(source)
  }
})

watch([...callCanaries, ...attackCanaries, ...booksCanaries, ...backupCanaries, ...keyCanaries])
