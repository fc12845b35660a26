import { describe, expect, test } from "bun:test"
import { join } from "node:path"
import { Batches, createLog } from "../src/log.ts"

const batches = () => {
  const written: string[] = []
  const output = new Batches((text) => written.push(text))
  return { written, output, info: (line: string) => output.write(line, "info") }
}

test("the first line is written at once, and those that come right after it in one write", async () => {
  const { written, info } = batches()
  for (const line of ["a\n", "b\n", "c\n"]) info(line)
  expect(written).toEqual(["a\n"])
  await Bun.sleep(30)
  expect(written).toEqual(["a\n", "b\nc\n"])
  await Bun.sleep(30)
  info("d\n")
  expect(written.at(-1)).toBe("d\n")
})

test("a warning or an error is written at once, after what came before it", () => {
  for (const level of ["warn", "error"] as const) {
    const { written, output, info } = batches()
    info("a\n")
    info("b\n")
    output.write("c\n", level)
    expect(written).toEqual(["a\n", "b\nc\n"])
  }
})

test("no more than 64 KiB of lines are gathered", () => {
  const { written, info } = batches()
  info("a\n")
  info("b".repeat(64 * 1024 - 1))
  expect(written).toHaveLength(1)
  info("\n")
  expect(written).toHaveLength(2)
  expect(written[1]).toHaveLength(64 * 1024)
})

test("a line under the level is not made", () => {
  const lines: string[] = []
  const log = createLog("warn", (line) => lines.push(line))
  log.info("no")
  log.warn("yes", { n: 1, absent: undefined })
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    { time: expect.any(String), level: "warn", event: "yes", n: 1 },
  ])
})

/** The lines of a process that logs so many and then ends in some way. */
async function linesOf(lines: number, end: string, reader = "cat"): Promise<number[]> {
  const source = `
    const { logToStandardOutput } = await import(${JSON.stringify(join(import.meta.dir, "../src/log.ts"))})
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
