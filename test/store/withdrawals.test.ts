import { expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Settlement } from "../../actors/ledger.ts"
import { micro, zero } from "../../actors/money/micro.ts"
import { noTokens } from "../../actors/money/price.ts"
import { createLog } from "../../src/log.ts"
import { WithdrawalFiles } from "../../src/store/withdrawals.ts"

const withdrawn = (requestId: string): Settlement => ({
  opening: {
    requestId,
    accountId: "acc_1",
    keyId: "key_1",
    leaseId: 2n ** 60n,
    model: "1n",
    endpoint: "chat",
    streamed: false,
    hold: micro(5n),
    priceId: 7n,
    openedAt: 1,
    starts: { daily: 0, monthly: 0, total: 0 },
  },
  records: [
    {
      part: 0,
      model: "m",
      priceId: 7n,
      status: "billing_error",
      tokens: noTokens,
      charge: zero,
      absorbed: zero,
      excess: zero,
      turns: 1,
      attempts: 1,
      errorCode: undefined,
      flagged: true,
      firstTokenMs: undefined,
      durationMs: 3,
      member: undefined,
      cost: undefined,
    },
  ],
  voided: true,
})

function place() {
  const directory = mkdtempSync(join(tmpdir(), "loket-withdrawals-"))
  const complaints: string[] = []
  const log = createLog("warn", (line) => complaints.push(line))
  return {
    directory,
    complaints,
    open: (path = directory, installation = "one") => new WithdrawalFiles(path, installation, log),
    files: () => readdirSync(directory),
    [Symbol.dispose]: () => rmSync(directory, { recursive: true, force: true }),
  }
}

/** What is forgotten is deleted a moment later. */
async function emptied(files: () => readonly string[]): Promise<void> {
  while (files().length > 0) await Bun.sleep(5)
}

test("what was kept is there for the next process, whole, and gone when the database has it", async () => {
  using there = place()
  const first = there.open()
  await Promise.all(["a", "b", "c"].map((id) => first.keep(withdrawn(id))))
  await first.keep(withdrawn("d"))
  expect(there.files()).toHaveLength(2)
  expect(first.waiting).toBe(4)

  const second = there.open()
  const kept = await second.kept()
  expect(kept.toSorted((x, y) => (x.opening.requestId < y.opening.requestId ? -1 : 1))).toEqual(
    ["a", "b", "c", "d"].map(withdrawn),
  )
  second.forget("a")
  second.forget("b")
  await Bun.sleep(20)
  expect(there.files()).toHaveLength(2)
  expect(second.waiting).toBe(2)
  for (const id of ["c", "d"]) second.forget(id)
  await emptied(there.files)
  expect(second.waiting).toBe(0)
  expect(await there.open().kept()).toEqual([])
})

test("what is forgotten before it is written does not stay", async () => {
  using there = place()
  const files = there.open()
  const keeping = files.keep(withdrawn("a"))
  files.forget("a")
  await keeping
  await emptied(there.files)
})

test("what another process of the installation forgets meanwhile is in the database, and keeps nobody from starting", async () => {
  using there = place()
  const first = there.open()
  const ids = Array.from({ length: 40 }, (_, n) => `req_${n}`)
  for (const id of ids) await first.keep(withdrawn(id))
  const reading = there.open().kept()
  for (const id of ids) first.forget(id)
  expect((await reading).length).toBeLessThan(ids.length)
  await emptied(there.files)
})

test("a directory that does not exist has nothing, and is made when something is to be kept", async () => {
  using there = place()
  const path = join(there.directory, "data", "withdrawals")
  expect(await there.open(path).kept()).toEqual([])
  // As whoever clears the directory of a process that runs.
  rmSync(join(there.directory, "data"), { recursive: true })
  await there.open(path).keep(withdrawn("a"))
  expect(await there.open(path).kept()).toEqual([withdrawn("a")])
  const [file = ""] = readdirSync(path)
  // Nobody else on the machine may read it.
  for (const own of [path, join(path, file)]) expect(statSync(own).mode & 0o077).toBe(0)
})

test("what another installation keeps in the directory is not taken back, and stays", async () => {
  using there = place()
  const other = there.open(there.directory, "two")
  await other.keep(withdrawn("its"))
  await there.open().keep(withdrawn("ours"))
  // Of before files had a name in them.
  const [its = ""] = there.files().filter((file) => file.includes(".two."))
  writeFileSync(join(there.directory, "0-older.json"), await Bun.file(join(there.directory, its)).text())
  const files = there.open()
  expect((await files.kept()).map(({ opening }) => opening.requestId).sort()).toEqual(["its", "ours"])
  for (const id of ["its", "ours"]) files.forget(id)
  while (there.files().length > 1) await Bun.sleep(1)
  expect(there.files()).toEqual([its])
  expect(await there.open(there.directory, "two").kept()).toEqual([withdrawn("its")])
})

test("a file that is not what was written is told, and left alone", async () => {
  using there = place()
  await there.open().keep(withdrawn("a"))
  const [whole = ""] = there.files()
  const text = await Bun.file(join(there.directory, whole)).text()
  writeFileSync(join(there.directory, "0-torn.json"), text.slice(0, -10))
  writeFileSync(join(there.directory, "0-half.one.json.unfinished"), text.slice(0, 10))
  expect(await there.open().kept()).toEqual([withdrawn("a")])
  expect(there.complaints).toEqual([expect.stringContaining("0-torn.json")])
  expect(there.files()).toHaveLength(3)
})

test("a place that takes nothing is told at the start, before any call needs it", async () => {
  using there = place()
  const path = join(there.directory, "data", "withdrawals")
  mkdirSync(join(there.directory, "data"))
  // A file system whose files nobody can make, root neither.
  expect(await there.open("/proc/withdrawals").kept()).toEqual([])
  expect(there.complaints).toEqual([expect.stringMatching(/"error","event":"withdrawals not kept".*ENOENT/)])
  expect(await there.open(path).kept()).toEqual([])
  expect(there.complaints).toHaveLength(1)
})

test("a disk that takes nothing is told with the calls, and nobody waits for it", async () => {
  using there = place()
  writeFileSync(join(there.directory, "file"), "")
  const files = there.open(join(there.directory, "file", "withdrawals"))
  await Promise.all(["a", "b"].map((id) => files.keep(withdrawn(id))))
  expect(there.complaints).toEqual([expect.stringMatching(/"withdrawals not kept".*"a b"/)])
  const refused = await files.kept().catch(String)
  expect(refused).toMatch(/withdrawals cannot be read \(ENOTDIR\), and calls in it may not be charged: set/)
})
