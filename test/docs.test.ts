/** What the documents promise is held against what is there. */
import { expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { dirname, join } from "node:path"
import { Glob } from "bun"
import manifest from "../package.json" with { type: "json" }
import { providers } from "../seeds/providers.json" with { type: "json" }
import { readConfig } from "../src/config.ts"
import { faultNames } from "./crash/torture/faults.ts"

const root = join(import.meta.dir, "..")
const read = (path: string) => Bun.file(join(root, path)).text()
const operating = await read("docs/operating.md")
const readme = await read("README.md")

test("every variable is documented with its default, and no other is", () => {
  const config = readConfig({})
  if (Array.isArray(config)) throw new Error(config.join("\n"))
  const { secret: _, ...variables } = config
  const wanted: Record<string, string> = {}
  for (const [name, value] of Object.entries(variables)) wanted[name] = value === undefined ? "" : `\`${value}\``
  for (const { api_key_env } of providers) wanted[api_key_env] = ""
  const documented: Record<string, string> = {}
  for (const [, name, value] of operating.matchAll(/^\| `([A-Z_]+)` \| ?(.*?) ?\| /gm))
    documented[name ?? ""] = value ?? ""
  expect(documented).toEqual(wanted)
})

test("every metric is documented, and no other is", async () => {
  const source = await read("src/http/metrics.ts")
  const served = [...source.matchAll(/#(counter|gauge|seconds)\(\s*"(\w+)"/g)].map(([, kind, name]) =>
    kind === "counter" ? `${name}_total` : (name ?? ""),
  )
  const section = operating.slice(operating.indexOf("**Metrics**"), operating.indexOf("**The books.**"))
  const documented = [...section.matchAll(/^\| (`.*?) \|/gm)].flatMap(([, names]) =>
    [...(names ?? "").matchAll(/`(\w+)`/g)].map(([, name]) => name ?? ""),
  )
  expect(served.length).toBeGreaterThan(10)
  expect(documented.sort()).toEqual(served.sort())
})

test("every event of the log is documented, and no other is", async () => {
  const logged = new Set<string>()
  for (const path of new Glob("src/**/*.ts").scanSync(root)) {
    const source = await read(path)
    for (const [, event] of source.matchAll(/log\.(?:info|warn|error)\("([^"]+)"/g)) logged.add(event ?? "")
  }
  const section = operating.slice(operating.indexOf("**Logs**"), operating.indexOf("**Metrics**"))
  const documented = [...section.matchAll(/^\| (`.*?) \|/gm)].flatMap(([, names]) =>
    [...(names ?? "").matchAll(/`([^`]+)`/g)].map(([, name]) => name ?? ""),
  )
  expect(documented.sort()).toEqual([...logged].sort())
})

test("the README's commands are there", () => {
  const scripts = new Set(Object.keys(manifest.scripts))
  const told = [...readme.matchAll(/bun(?:@[\d.]+)? run ([a-z:]+)/g)].map(([, name]) => name ?? "")
  expect(told.filter((name) => !scripts.has(name))).toEqual([])
  expect([...scripts].filter((name) => !name.startsWith("check:") && !told.includes(name))).toEqual([])
})

test("the version of Bun is one everywhere", async () => {
  const versions = [...readme.matchAll(/bun@([\d.]+)/g)].map(([, version]) => version)
  const ci = /^BUN_VERSION=(\S+)$/m.exec(await read(".ci/run"))?.[1]
  expect(new Set([...versions, ci, manifest.engines.bun.replace(">=", "")]).size).toBe(1)
})

test("every link between documents leads somewhere", async () => {
  const patterns = ["*.md", "{docs,actors,src,seeds}/**/*.md"]
  const documents = patterns.flatMap((pattern) => [...new Glob(pattern).scanSync(root)])
  expect(documents).toContain("ARCHITECTURE.md")
  for (const path of documents) {
    for (const [, target] of (await read(path)).matchAll(/\]\((?!https?:)([^)#\s]+)[^)]*\)/g)) {
      expect([path, target, existsSync(join(root, dirname(path), target ?? ""))]).toEqual([path, target, true])
    }
  }
})

test("every test that is named on the page on reliability is there, under that name", async () => {
  const page = await read("docs/reliability.md")
  const table = page.slice(page.indexOf("| What happens |"), page.indexOf("## How a call can end"))
  const [, , ...rows] = table.split("\n").filter((line) => line.startsWith("|"))
  expect(rows.length).toBeGreaterThan(10)
  expect(rows.filter((row) => !/`test\/[^`]+\.test\.ts`/.test(row))).toEqual([])
  for (const [, path = "", name = ""] of page.matchAll(/`(test\/[^`]+\.test\.ts)`(?:: _([^_]+)_)?/g)) {
    expect([path, existsSync(join(root, path))]).toEqual([path, true])
    // What a name is told of at run time is an ellipsis on the page.
    const parts = name.split("…").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"))
    if (name !== "") expect(await read(path)).toMatch(new RegExp(`["\`]${parts.join("[^\n]*")}["\`]`))
  }
})

test("every fault that torture strikes with is on the page on reliability", async () => {
  const page = await read("docs/reliability.md")
  expect(faultNames.filter((name) => !page.includes(`\`${name}\``))).toEqual([])
})
