import { expect, test } from "bun:test"
import { readdirSync, readFileSync } from "node:fs"
import { rows } from "./rows.ts"

/** Every test file that may name a line: the contract's own, and the configuration's. */
const texts = readdirSync(import.meta.dir)
  .filter((name) => name.endsWith(".test.ts") && name !== "rows.test.ts")
  .map((name) => `${import.meta.dir}/${name}`)
  .concat(`${import.meta.dir}/../config.test.ts`, `${import.meta.dir}/../processes/config.test.ts`)
  .map((path) => readFileSync(path, "utf8"))

test("every line of the contract has a test that names it", () => {
  const without = rows.filter(([id]) => !texts.some((text) => text.includes(`"${id}"`)))
  expect(without.map(([id, text]) => `${id}: ${text}`)).toEqual([])
})

test("no two lines have the same id", () => {
  expect(new Set(rows.map(([id]) => id)).size).toBe(rows.length)
})
