/** What the documents tell an operator to watch is held against what a running gateway exports. */
import { expect, test } from "bun:test"
import { join } from "node:path"
import { startTestGateway } from "./gateway/harness.ts"

const root = join(import.meta.dir, "..")
const read = (path: string) => Bun.file(join(root, path)).text()
const operating = await read("docs/operating.md")

/** What a running gateway exports, as it is scraped. */
async function scrape(env: Readonly<Record<string, string>> = {}): Promise<string> {
  await using gateway = await startTestGateway({ env: { METRICS_PORT: "0", ...env } })
  return await (await fetch(gateway.server.metricsUrl ?? "")).text()
}

// One shares its database with others, and one is alone with the embedded one.
const scraped = { shared: await scrape(), alone: await scrape({ DATABASE_URL: "" }) }
/** By name, with its type. */
const metrics = new Map(
  Object.values(scraped).flatMap((text) =>
    [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name = "", type = ""]) => [name, type] as const),
  ),
)

test("every metric that is exported is documented, and no other is", () => {
  const section = operating.slice(operating.indexOf("**Metrics**"), operating.indexOf("**The books.**"))
  const documented = [...section.matchAll(/^\| (`.*?) \|/gm)].flatMap(([, names = ""]) =>
    [...names.matchAll(/`(\w+)`/g)].map(([, name]) => `loket_${name}`),
  )
  expect(documented.sort()).toEqual([...metrics.keys()].sort())
  for (const [name, type] of metrics) expect([name, name.endsWith("_total")]).toEqual([name, type === "counter"])
})

test("the embedded database tells how much of its log a start would read again, and a server does not", () => {
  expect(Number(/^loket_embedded_redo_bytes (\d+)$/m.exec(scraped.alone)?.[1])).toBeGreaterThan(0)
  expect(scraped.shared).not.toContain("loket_embedded_redo_bytes")
})
