/** What a process has logged is read by whoever reads its output, in whichever way it ends. */
import { describe, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { join } from "node:path"

/** The lines of a process that logs so many and then ends in some way. */
async function linesOf(lines: number, end: string, reader = "cat"): Promise<number[]> {
  const source = `
    const { logToStandardOutput } = await import(${JSON.stringify(join(import.meta.dir, "../../src/log.ts"))})
    const { log, drained } = logToStandardOutput("info")
    for (let n = 0; n < ${lines}; n++) log.info("line", { n })
    ${end}`
  const child = Bun.spawn(["sh", "-c", `"$0" -e "$1" | { ${reader}; }`, process.execPath, source], {
    stdout: "pipe",
    stderr: "ignore",
  })
  const text = await new Response(child.stdout).text()
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => (JSON.parse(line) as { readonly n: number }).n)
}

describe("no line is lost", () => {
  const all = Array.from({ length: 200 }, (_, n) => n)

  test("when the process exits", async () => {
    expect(await linesOf(200, "process.exit(0)")).toEqual(all)
  })
  test("when an error is thrown that nobody catches", async () => {
    expect(await linesOf(200, `throw new Error("a bug")`)).toEqual(all)
  })
  test("when a promise is rejected that nobody waits for", async () => {
    expect(await linesOf(200, `setTimeout(() => Promise.reject(new Error("a bug")), 1)`)).toEqual(all)
  })
  test("when the process has nothing more to do", async () => {
    expect(await linesOf(200, "")).toEqual(all)
  })
  test("when whoever reads them is slow, and the process waits before it exits", async () => {
    const many = Array.from({ length: 20_000 }, (_, n) => n)
    expect(await linesOf(many.length, "await drained(); process.exit(0)", "sleep 0.5; cat")).toEqual(many)
  })
})

test.skipIf(!existsSync("/dev/full"))(
  "where the log cannot be written the process goes on, and says so once",
  async () => {
    const source = `
    const { logToStandardOutput } = await import(${JSON.stringify(join(import.meta.dir, "../../src/log.ts"))})
    const { logStrayErrors } = await import(${JSON.stringify(join(import.meta.dir, "../../src/own-process.ts"))})
    const { log } = logToStandardOutput("info")
    logStrayErrors(log)
    for (let n = 0; n < 3; n++) log.warn("line", { n })
    setTimeout(() => process.exit(7), 100)`
    // A process that writes in vain without end hears no timer.
    for (const where of ["> /dev/full", "| true"]) {
      const command = `{ timeout -s KILL 10 "$0" -e "$1"; echo "ended with $?" >&2; } ${where}`
      const child = Bun.spawn(["bash", "-c", command, process.execPath, source], { stdout: "ignore", stderr: "pipe" })
      const complaint = await new Response(child.stderr).text()
      expect(complaint).toMatch(/^the log cannot be written: E(?:NOSPC|PIPE)[^\n]*\nended with 7\n$/)
    }
  },
)

test("a reader that stands still costs no more than its share of memory, and is told of what is missing", async () => {
  const source = `
    const { logToStandardOutput } = await import(${JSON.stringify(join(import.meta.dir, "../../src/log.ts"))})
    const { log, drained } = logToStandardOutput("info")
    const text = "x".repeat(1_000)
    // By the turn, as calls are logged: what waits is no single write.
    for (let turn = 0; turn < 400; turn++) {
      for (let n = 0; n < 100; n++) log.info("line", { text })
      await Bun.sleep(0)
    }
    await drained()
    log.info("afterwards")
    await drained()
    process.exit(0)`
  const command = `"$0" -e "$1" | { sleep 3; cat; }`
  const child = Bun.spawn(["sh", "-c", command, process.execPath, source], { stdout: "pipe", stderr: "ignore" })
  const lines = (await new Response(child.stdout).text()).split("\n").filter((line) => line !== "")
  const events = lines.map((line) => (JSON.parse(line) as { readonly event: string }).event)
  // 16 MiB and one write, of the 40 MB.
  expect(events.filter((event) => event === "line").length).toBeWithin(10_000, 20_000)
  expect(events.slice(-2).sort()).toEqual(["afterwards", "log was not written"])
}, 20_000)
