/** Nobody but the user of the process opens its files, whatever mode their directory had before. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openEmbedded } from "../../../src/store/embedded/open.ts"

let root: string
let dataDir: string
let warnings: string[]
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "loket-private-"))
  chmodSync(root, 0o755)
  dataDir = join(root, "data")
  mkdirSync(dataDir)
  chmodSync(dataDir, 0o755)
  warnings = []
})
afterEach(() => rmSync(root, { recursive: true }))

const open = () => openEmbedded({ dataDir, onOpenToOthers: (path) => warnings.push(path) })

const everything = () => [
  dataDir,
  ...readdirSync(dataDir, { recursive: true, withFileTypes: true }).map(({ parentPath, name }) =>
    join(parentPath, name),
  ),
]

/** Files and directories that others may do anything with. */
const wide = () => everything().filter((path) => (statSync(path).mode & 0o077) !== 0)

/** What another user can read, write or list. Undefined where it cannot be tried. */
function reachedByNobody(): string[] | undefined {
  const tried = Bun.spawnSync(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", "true"])
  if (process.getuid?.() !== 0 || !tried.success) return undefined
  const script = 'for path; do { test -r "$path" || test -w "$path"; } && echo "$path"; done; true'
  const asked = Bun.spawnSync(
    ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", script, "sh", ...everything()],
    { cwd: "/" },
  )
  if (!asked.success) throw new Error(asked.stderr.toString())
  return asked.stdout.toString().split("\n").filter(Boolean)
}

function expectClosed(): void {
  expect(wide()).toEqual([])
  const reached = reachedByNobody()
  if (reached === undefined) process.stderr.write("left out: no other user can be taken on here\n")
  else expect(reached).toEqual([])
}

test("a directory that was open to all is closed with all that is made in it, and files of old are mended", async () => {
  const before = process.umask(0o022)
  try {
    const embedded = await open()
    expectClosed()
    await embedded.close()
    for (const path of everything()) chmodSync(path, statSync(path).isDirectory() ? 0o777 : 0o666)
    mkdirSync(join(dataDir, "withdrawals"))
    writeFileSync(join(dataDir, "withdrawals", "1.json"), "{}")
    writeFileSync(join(dataDir, "demo.json"), "{}")
    // Of when the directory was a server's gateway's.
    mkdirSync(join(dataDir, "timelines"))
    const again = await open()
    expectClosed()
    await again.close()
    expectClosed()
    expect(warnings).toEqual([])
  } finally {
    process.umask(before)
  }
})

test("a directory with things of somebody else's is left as it is, and what is ours in it is closed", async () => {
  chmodSync(dataDir, 0o775)
  writeFileSync(join(dataDir, "notes.txt"), "mine")
  chmodSync(join(dataDir, "notes.txt"), 0o664)
  const embedded = await open()
  expect(statSync(dataDir).mode & 0o777).toBe(0o775)
  expect(statSync(join(dataDir, "notes.txt")).mode & 0o777).toBe(0o664)
  expect(wide().toSorted()).toEqual([dataDir, join(dataDir, "notes.txt")])
  expect(warnings).toEqual([dataDir])
  await embedded.close()
})

test("where others may not rename anything, a directory that is shared is no reason for a warning", async () => {
  chmodSync(dataDir, 0o1777)
  writeFileSync(join(dataDir, "notes.txt"), "mine")
  const embedded = await open()
  expect(statSync(dataDir).mode & 0o7777).toBe(0o1777)
  expect(warnings).toEqual([])
  await embedded.close()
})

test("root is not let into another user's database, who could then not open what root wrote", async () => {
  if (process.getuid?.() !== 0) {
    process.stderr.write("left out: files of another user need root\n")
    return
  }
  await (await open()).close()
  for (const path of everything()) chownSync(path, 65534, 65534)
  expect(await open().then(() => "opened", String)).toContain(`${join(dataDir, "pg")} belongs to user 65534`)
  expect(everything().filter((path) => statSync(path).uid !== 65534)).toEqual([])
})

test("what another user owns and this one may not close is told", async () => {
  if (process.getuid?.() !== 0) {
    process.stderr.write("left out: files of another user need root\n")
    return
  }
  chownSync(dataDir, 65534, 65534)
  chmodSync(dataDir, 0o777)
  const source = join(import.meta.dir, "../../../src/store/embedded/database-files.ts")
  const program = `import { closeToOthers } from ${JSON.stringify(source)}
    process.setuid(12345)
    console.log(JSON.stringify(closeToOthers(${JSON.stringify(dataDir)})))`
  const child = Bun.spawnSync([process.execPath, "-e", program])
  expect(JSON.parse(child.stdout.toString())).toEqual([dataDir])
})
