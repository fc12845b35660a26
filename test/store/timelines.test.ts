import { afterEach, beforeEach, expect, test } from "bun:test"
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Timelines } from "../../src/store/hosts.ts"

let directory: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "loket-timelines-"))
})
afterEach(() => rmSync(directory, { recursive: true }))

test("the highest timeline of each system is known to who comes later, and to who is there already", async () => {
  const kept = join(directory, "timelines")
  const neighbour = new Timelines(kept)
  expect(await neighbour.highest("77")).toBe(0)
  const first = new Timelines(kept)
  // Eleven is more than nine, though not as text.
  for (const timeline of [2, 11, 9]) await first.saw("77", timeline)
  await first.saw("78", 3)
  for (const each of [first, neighbour, new Timelines(kept)]) {
    expect(await each.highest("77")).toBe(11)
    expect(await each.highest("78")).toBe(3)
    expect(await each.highest("7")).toBe(0)
  }
  expect(readdirSync(kept).toSorted()).toEqual(["77-11", "77-2", "78-3"])
})

test("a disk that takes nothing is told, and what was seen counts for as long as the process lives", async () => {
  const file = join(directory, "file")
  writeFileSync(file, "")
  const told: unknown[] = []
  const timelines = new Timelines(join(file, "timelines"), (error) => told.push(error))
  await timelines.saw("77", 2)
  expect(told).toHaveLength(1)
  expect(await timelines.highest("77")).toBe(2)
})

test("without a directory it is kept in memory", async () => {
  const timelines = new Timelines()
  await timelines.saw("77", 2)
  expect(await timelines.highest("77")).toBe(2)
})
