/**
 * Who may import whom. Every file belongs to a room, every room has a rank, and an import goes to the same room or to
 * one of a lower rank: nothing points up, so there are no cycles of rooms. A type counts like a value: what a room must
 * know of another is the same either way.
 */
import { expect, test } from "bun:test"
import { join } from "node:path"
import { Glob } from "bun"
import { parseSync } from "oxc-parser"

/** From the bottom up. Rooms on one line know nothing of each other. */
const ranks: readonly (readonly string[])[] = [
  ["actors/unreachable.ts", "actors/network.ts", "actors/kernel", "actors/money"],
  ["actors/period.ts", "actors/lease.ts", "actors/fair-queue.ts", "actors/pool.ts"],
  ["actors/window.ts", "actors/leased-purse.ts", "actors/batch.ts"],
  ["actors/counted-window.ts", "actors/ledger-lane.ts", "actors/backend.ts"],
  ["actors/key-limits.ts"],
  ["actors/key-record.ts"],
  ["actors/account.ts", "actors/key.ts", "actors/ledger.ts", "actors/run.ts", "actors/slots.ts"],
  ["src/event-stream.ts", "src/failure", "src/config.ts", "src/legal", "src/log.ts"],
  ["src/language", "src/own-process.ts"],
  ["src/search", "src/pdf"],
  ["src/catalogue", "src/wire", "src/simulator"],
  ["src/upstream", "src/store", "src/redis", "src/bodies", "src/traces"],
  ["src/accounts", "src/payments"],
  ["src/reconciliation"],
  ["src/gateway"],
  ["src/http"],
  ["src/reconcile.ts", "src/dashboard"],
  ["src/build.ts", "src/server"],
  ["src/workers"],
  ["src/command"],
  ["src/main.ts"],
]

/** What the browser runs; below `serve/` is what serves it. */
const isPage = (file: string) => file.startsWith("src/dashboard/") && !file.startsWith("src/dashboard/serve/")

/** What the page runs too. It imports nothing, so nothing of the server comes with it. */
const sharedLeaf = "src/event-stream.ts"

/** Beside the tests and the benches. */
const simulatorUsers = ["src/command/serve.ts"]

const rankOf = new Map(ranks.flatMap((rooms, rank) => rooms.map((room) => [room, rank] as const)))
const root = join(import.meta.dir, "..")

const rank = (file: string): number => rankOf.get(roomOf(file)) ?? -1

/** `src/http/dashboard/usage.ts` is in the room `src/http`; a file that lies in a root is a room of its own. */
const roomOf = (file: string): string => file.split("/").slice(0, 2).join("/")

interface Import {
  readonly from: string
  readonly to: string
  /** Types alone: nothing is left of it at run time. */
  readonly erased: boolean
  /** Loaded when it is wanted, and not with the file. */
  readonly dynamic?: true
}

function importsOf(from: string, text: string): Import[] {
  const { module, errors } = parseSync(from, text)
  if (errors.length > 0) throw new Error(`${from}: ${errors[0]?.message}`)
  const named = [
    ...module.staticImports.map(({ moduleRequest, entries }) => ({
      name: moduleRequest.value,
      erased: entries.length > 0 && entries.every(({ isType }) => isType),
    })),
    ...module.staticExports.flatMap(({ entries }) =>
      entries.map(({ moduleRequest, isType }) => ({ name: moduleRequest?.value ?? "", erased: isType })),
    ),
    ...module.dynamicImports.map(({ moduleRequest }) => ({
      name: text.slice(moduleRequest.start, moduleRequest.end).replace(/^["'`]|["'`]$/g, ""),
      erased: false,
      dynamic: true as const,
    })),
  ]
  return named
    .filter(({ name }) => name.startsWith("."))
    .map(({ name, ...rest }) => ({ from, to: join(from, "..", name), ...rest }))
    .filter(({ to }) => /^(actors|src|test|bench)\//.test(to))
}

const files = [...new Glob("{actors,src}/**/*.{ts,tsx}").scanSync(root)]
  .filter((file) => !file.endsWith(".d.ts"))
  .sort()
const imports = (
  await Promise.all(files.map(async (file) => importsOf(file, await Bun.file(join(root, file)).text())))
).flat()

const told = ({ from, to }: Import) => `${from} imports ${to}`

test("the parser sees types, values, re-exports and dynamic imports", () => {
  const text = `import type { A } from "./a.ts"
    import { type B } from "../b.ts"
    export { c } from "./c.ts"
    export * from "./d.ts"
    const e = import("./e.ts")`
  const found = importsOf("src/room/file.ts", text).map(({ to }) => to)
  expect(found.sort()).toEqual(["src/b.ts", "src/room/a.ts", "src/room/c.ts", "src/room/d.ts", "src/room/e.ts"])
})

test("every room has a rank, and every rank's room is there", () => {
  expect([...new Set(files.map(roomOf))].sort()).toEqual([...rankOf.keys()].sort())
})

test("nothing points up, and rooms of one rank know nothing of each other", () => {
  const wrong = imports.filter(({ from, to }) => roomOf(from) !== roomOf(to) && rank(from) <= rank(to))
  expect(wrong.map(told)).toEqual([])
})

test("a wire format knows no other one: what two of them need stands above them", () => {
  const formats = ["bedrock", "chat", "messages", "responses"]
  const formatOf = (file: string) => formats.find((format) => file.startsWith(`src/wire/${format}/`))
  const sideways = imports.filter(({ from, to }) => {
    const other = formatOf(to)
    const shared = from.startsWith("src/wire/shared/") || from === "src/wire/estimate.ts"
    return other !== undefined && (shared || (formatOf(from) ?? other) !== other)
  })
  expect(imports.some(({ from }) => formatOf(from) !== undefined)).toBe(true)
  expect(sideways.map(told)).toEqual([])
})

test("the page takes types from the server, and one leaf that imports nothing", () => {
  const taken = imports.filter(({ from, to }) => isPage(from) && !isPage(to))
  expect(taken.length).toBeGreaterThan(0)
  const values = taken.filter(({ erased }) => !erased)
  expect([...new Set(values.map(({ to }) => to))]).toEqual([sharedLeaf])
  expect(imports.filter(({ from }) => from === sharedLeaf).map(told)).toEqual([])
})

test("what decides does not know what talks", () => {
  expect(imports.filter(({ from, to }) => from.startsWith("actors/") && !to.startsWith("actors/")).map(told)).toEqual(
    [],
  )
})

test("the simulator is for the commands that start it, the tests and the benches alone", () => {
  const users = imports.filter(({ from, to }) => roomOf(to) === "src/simulator" && roomOf(from) !== "src/simulator")
  expect([...new Set(users.map(({ from }) => from))]).toEqual(simulatorUsers)
})

test("no files import each other in a circle", () => {
  const targets = Map.groupBy(imports, ({ from }) => from)
  const done = new Set<string>()
  const circleFrom = (file: string, path: readonly string[]): readonly string[] | undefined => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file]
    if (done.has(file)) return undefined
    for (const { to } of targets.get(file) ?? []) {
      const circle = circleFrom(to, [...path, file])
      if (circle !== undefined) return circle
    }
    done.add(file)
    return undefined
  }
  for (const file of files) expect(circleFrom(file, [])).toBeUndefined()
})

test("no command loads the gateway, but the one that starts it and when it does", () => {
  const loaded = new Set(["src/main.ts"])
  for (const file of loaded)
    for (const { from, to, erased, dynamic } of imports)
      if (from === file && !erased && dynamic === undefined) loaded.add(to)
  expect(loaded.size).toBeGreaterThan(100)
  expect([...loaded].filter((file) => roomOf(file) === "src/server")).toEqual([])
  expect(
    imports.some(
      ({ from, to, dynamic }) => dynamic === true && from === "src/command/serve.ts" && roomOf(to) === "src/server",
    ),
  ).toBe(true)
})
