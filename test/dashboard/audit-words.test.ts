/** The audit log's page has words for each act, in both languages: a code would stand there in English. */
import { expect, test } from "bun:test"
import { Glob } from "bun"

/** All literal actions of statements that write into the log. */
async function actions(): Promise<readonly string[]> {
  const found = new Set<string>()
  for await (const path of new Glob("src/{store,command}/**/*.{ts,sql}").scan(".")) {
    const source = await Bun.file(path).text()
    for (const [, after = ""] of source.matchAll(/insert into audit_log \(([^]{0,320})/g)) {
      for (const [, action = ""] of after.matchAll(/['"]([a-z_]+\.[a-z_]+)['"]/g)) found.add(action)
      const [, kind] = /`([a-z_]+)\.\$\{change\.to\}`/.exec(after) ?? []
      if (kind !== undefined)
        for (const [, to = ""] of source.matchAll(/readonly to: "(\w+)"/g)) found.add(`${kind}.${to}`)
    }
  }
  return [...found].sort()
}

test("every act that is written has its words in both languages", async () => {
  const page = await Bun.file("src/dashboard/pages/operator/audit.tsx").text()
  const all = await actions()
  expect(all.length).toBeGreaterThan(20)
  expect(all).toContain("refund.paid_out")
  expect(all.filter((action) => page.split(`"${action}": `).length !== 3)).toEqual([])
}, 60_000)
