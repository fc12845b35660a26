import { expect, test } from "bun:test"
import { Batches, counting, createLog } from "../src/log.ts"

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

test("warnings and errors are counted, also those under the level, and nothing else is", () => {
  const lines: string[] = []
  const counted: string[] = []
  const log = counting(
    createLog("error", (line) => lines.push(line)),
    (level, event) => counted.push(`${level} ${event}`),
  )
  log.debug("a")
  log.info("b")
  log.warn("c", { n: 1 })
  log.error("d", { n: 2 })
  expect(counted).toEqual(["warn c", "error d"])
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([{ level: "error", event: "d", n: 2 }])
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
