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

test("where none is left to look with it is crowded, and is not when some are free again", async () => {
  const source = `
    const { closeSync, openSync } = await import("node:fs")
    const { Descriptors } = await import(${JSON.stringify(join(import.meta.dir, "../../src/http/connection.ts"))})
    const descriptors = new Descriptors()
    const seen = async () => [await descriptors.look().then(() => "seen", ({ code }) => code), descriptors.crowded]
    const told = [await seen()]
    const opened = []
    try {
      for (;;) opened.push(openSync("/dev/null", "r"))
    } catch {}
    told.push(await seen())
    for (const each of opened) closeSync(each)
    told.push(await seen())
    console.log(JSON.stringify(told))
    process.exit(0)`
  const child = Bun.spawn(["sh", "-c", `ulimit -n 64; exec "$0" -e "$1"`, process.execPath, source])
  expect(JSON.parse(await new Response(child.stdout).text())).toEqual([
    ["seen", false],
    ["EMFILE", true],
    ["seen", false],
  ])
})
