/** What the documents promise is held against what is there. */
import { expect, test } from "bun:test"
import { existsSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, dirname, join } from "node:path"
import { Glob } from "bun"
import manifest from "../package.json" with { type: "json" }
import { providers } from "../seeds/providers.json" with { type: "json" }
import { readConfig } from "../src/config.ts"
import { faultNames } from "./crash/torture/faults.ts"
import { pairFaultNames } from "./crash/torture/pair.ts"

const root = join(import.meta.dir, "..")
const read = (path: string) => Bun.file(join(root, path)).text()
const operating = await read("docs/operating.md")
const readme = await read("README.md")
const unit = await read("docs/operating/loket@.service")

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

test("every event of the log is documented, and no other is", async () => {
  const logged = new Set<string>()
  for (const path of new Glob("src/**/*.ts").scanSync(root)) {
    const source = await read(path)
    for (const [, event] of source.matchAll(
      /(?:log\??\.(?:info|warn|error)\(|\beveryMs: [^]{0,200}?\bfailed: )"([^"]+)"/g,
    ))
      logged.add(event ?? "")
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
    // Pages of the gateway, which link to each other as such.
    if (path.startsWith("src/legal/")) continue
    for (const [, target] of (await read(path)).matchAll(/\]\((?!https?:)([^)#\s]+)[^)]*\)/g)) {
      expect([path, target, existsSync(join(root, dirname(path), target ?? ""))]).toEqual([path, target, true])
    }
  }
})

test("every file that a document names is there", async () => {
  const patterns = ["*.md", "{docs,actors,seeds}/**/*.md", "src/**/README.md"]
  const missing: string[] = []
  for (const path of patterns.flatMap((pattern) => [...new Glob(pattern).scanSync(root)])) {
    for (const [, named = ""] of (await read(path)).matchAll(/`((?:src|actors|test|docs|seeds|bench)\/[\w./-]+)`/g))
      if (!existsSync(join(root, named))) missing.push(`${path}: ${named}`)
  }
  expect(missing).toEqual([])
})

test("every file that a document names without its folder is there: of a README in its own folder", async () => {
  const sources = [...new Glob("{src,actors,test,bench,seeds}/**/*.{ts,tsx,sql,css,json}").scanSync(root)].filter(
    isOurs,
  )
  const documents = ["*.md", "docs/*.md", "docs/{operating,performance}/*.md", "{actors,src,seeds}/**/README.md"]
  const missing: string[] = []
  let named = 0
  for (const path of documents.flatMap((pattern) => [...new Glob(pattern).scanSync(root)])) {
    const folder = basename(path) === "README.md" && dirname(path) !== "." ? `${dirname(path)}/` : ""
    const near = sources.filter((source) => source.startsWith(folder))
    for (const [, name = ""] of (await read(path)).matchAll(/`([\w./-]+\.(?:tsx?|sql|css))`/g)) {
      named++
      if (!existsSync(join(root, name)) && !near.some((source) => source.endsWith(`/${name}`)))
        missing.push(`${path}: ${name}`)
    }
  }
  expect(missing).toEqual([])
  expect(named).toBeGreaterThan(100)
})

/** The bench and the agents' tests install packages of their own below their folders. */
const isOurs = (path: string) => !path.includes("node_modules/")

test("every file that a comment names is there", async () => {
  const paths = [...new Glob("{src,actors,test,bench}/**/*.{ts,tsx,sql,md}").scanSync(root)].filter(isOurs)
  const files = new Set(paths.map((path) => basename(path)))
  const missing: string[] = []
  for (const path of paths.filter((each) => /\.tsx?$/.test(each))) {
    for (const [comment] of (await read(path)).matchAll(/^ *(?:\*|\/[*/]).*$/gm))
      for (const [named] of comment.matchAll(/[\w.-]+\.(?:tsx?|sql)\b/g))
        if (!files.has(named)) missing.push(`${path}: ${named}`)
  }
  expect(missing).toEqual([])
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
  expect([...faultNames, ...pairFaultNames].filter((name) => !page.includes(`\`${name}\``))).toEqual([])
})

/** Headings by name, each with its numbered points; a section of the decisions goes by its number too. */
async function placesOf(path: string): Promise<Map<string, Set<string>>> {
  const places = new Map<string, Set<string>>()
  let points = new Set<string>()
  for (const line of (await read(path)).split("\n")) {
    const heading = /^#+ (?:(\d+)\. )?(.+)$/.exec(line)
    if (heading !== null) {
      points = new Set()
      for (const name of [heading[1], heading[2]]) if (name !== undefined) places.set(name, points)
    }
    const point = /^(?:(\d+)\. |- \*\*(.+?)\*\*)/.exec(line)
    if (point !== null) points.add(point[1] ?? point[2] ?? "")
  }
  return places
}

const decisions = await placesOf("docs/spec/decisions.md")
const specification = await placesOf("docs/spec/gateway-api.md")
const wire = await placesOf("docs/spec/wire.md")

/** The citations in a text that lead nowhere. Lines of a comment are read as one. */
function lostCitations(text: string): string[] {
  const flat = text.replaceAll(/\s*\n\s*(?:\*(?!\/)|\/\/)?\s*/g, " ")
  const lost: string[] = []
  for (const [whole, section = "", first, last] of flat.matchAll(/§(\d+)(?:\.(\d+)(?:–(\d+))?)?/g)) {
    const points = decisions.get(section)
    const named = [first, last].filter((point) => point !== undefined)
    if (points === undefined || !named.every((point) => points.has(point))) lost.push(whole)
  }
  for (const [document, places] of [
    ["gateway-api.md", specification],
    ["wire.md", wire],
  ] as const) {
    const citation = new RegExp(`\\b${document.replace(".", "\\.")}((?:(?:,| and) "[^"]+"(?: \\d+)?)*)`, "g")
    for (const [whole, cited = ""] of flat.matchAll(citation)) {
      const named = [...cited.matchAll(/"([^"]+)"(?: (\d+))?/g)]
      const points = [...places.values()]
      const isThere = ([, name = "", point]: readonly string[]) =>
        point === undefined
          ? places.has(name) || points.some((each) => each.has(name))
          : places.get(name)?.has(point) === true
      if (named.length === 0 || !named.every(isThere)) lost.push(whole)
    }
  }
  return lost
}

test("every citation of the specification, the decisions and what is known of the wire leads to a place", async () => {
  const patterns = ["{src,actors,bench}/**/*.{ts,tsx,md,sql}", "seeds/*", "*.md", "docs/*.md", "docs/decisions/*.md"]
  const tests = [...new Glob("test/**/*.{ts,tsx,md}").scanSync(root)].filter((path) => path !== "test/docs.test.ts")
  const paths = [...patterns.flatMap((pattern) => [...new Glob(pattern).scanSync(root)]), ...tests]
  const lost: Record<string, string[]> = {}
  for (const path of paths.filter(isOurs)) {
    const text = await read(path)
    const citations = lostCitations(text)
    // A comment says the rule, or where it stands; "the specification" alone says neither.
    if (/\.tsx?$/.test(path) && /\bspecification's?\b/i.test(text)) citations.push("specification")
    if (citations.length > 0) lost[path] = citations
  }
  expect(lost).toEqual({})
  expect(paths.length).toBeGreaterThan(500)
})

test("a citation of a place that is not there is found", () => {
  const found = 'decisions §3, §12.2–3; gateway-api.md, "Billing rules" 7, "Limits"; wire.md, "C→M"'
  expect(lostCitations(found)).toEqual([])
  expect(lostCitations("(decisions §14)")).toEqual(["§14"])
  expect(lostCitations("decisions §4.2–19")).toEqual(["§4.2–19"])
  expect(lostCitations("over two lines (decisions\n * §13.99)")).toEqual(["§13.99"])
  expect(lostCitations('gateway-api.md, "Billing rules" 70')).toEqual(['gateway-api.md, "Billing rules" 70'])
  expect(lostCitations('gateway-api.md, "Limits", "Nothing"')).toEqual(['gateway-api.md, "Limits", "Nothing"'])
  expect(lostCitations("gateway-api.md says so")).toEqual(["gateway-api.md"])
  expect(lostCitations('wire.md, "C→X"')).toEqual(['wire.md, "C→X"'])
})

test("systemd starts the unit with the watchdog that the process answers", async () => {
  for (const line of ["Type=notify", "WatchdogSec=20", "TimeoutStartSec=900"]) expect(unit).toContain(`\n${line}\n`)
  // By itself systemd gives a service up for good that ends five times within ten seconds, as while a database lets nobody in.
  expect(unit.split("[Service]")).toEqual([
    expect.stringContaining("\nStartLimitIntervalSec=0\n"),
    expect.stringMatching(/\nRestart=always\nRestartSec=\d\n/),
  ])
})

const analyze = Bun.which("systemd-analyze")

test.skipIf(analyze === null)("systemd understands the unit", async () => {
  const directory = mkdtempSync(join(tmpdir(), "loket-unit-"))
  // An instance of it, with a program and a user that are on this machine.
  const file = join(directory, "loket@1.service")
  await Bun.write(file, unit.replace("/usr/local/bin/loket", "/bin/true").replace("User=loket", "User=daemon"))
  const { stderr } = Bun.spawnSync([analyze!, "verify", file])
  rmSync(directory, { recursive: true })
  expect(
    stderr
      .toString()
      .split("\n")
      .filter((line) => line.includes("loket@")),
  ).toEqual([])
})
