import { expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Descriptors } from "../../src/http/connection.ts"

test("from eight tenths of the limit on it is crowded", async () => {
  const directory = mkdtempSync(join(tmpdir(), "loket-proc-"))
  mkdirSync(join(directory, "fd"))
  writeFileSync(
    join(directory, "limits"),
    "Limit   Soft Limit   Hard Limit\nMax open files            10        20     files\n",
  )
  const descriptors = new Descriptors(directory)
  for (let n = 0; n < 9; n++) {
    writeFileSync(join(directory, "fd", String(n)), "")
    expect(await descriptors.look()).toEqual({ open: n + 1, limit: 10 })
    expect(descriptors.crowded).toBe(n + 1 > 8)
  }
  rmSync(directory, { recursive: true })
})

test("a system that refuses to tell is an error, and one that never tells is none", async () => {
  const directory = mkdtempSync(join(tmpdir(), "loket-proc-"))
  const looked = new Descriptors(directory).look()
  expect(await looked.catch((error: NodeJS.ErrnoException) => error.code)).toBe("ENOENT")
  rmSync(directory, { recursive: true })
  expect(await new Descriptors(directory).look()).toBeUndefined()
})
