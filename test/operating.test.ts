/** What the documents tell an operator to watch is held against what a running gateway exports. */
import { expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { CombinedMetrics } from "../src/workers/worker-process.ts"
import { startTestGateway } from "./gateway/harness.ts"
import { scratchDirectory } from "./processes/dev-process.ts"

const root = join(import.meta.dir, "..")
const read = (path: string) => Bun.file(join(root, path)).text()
const operating = await read("docs/operating.md")

/** What a running gateway exports, as it is scraped. */
async function scrape(env: Readonly<Record<string, string>> = {}): Promise<string> {
  await using gateway = await startTestGateway({ env: { METRICS_PORT: "0", ...env } })
  return await (await fetch(gateway.server.metricsUrl ?? "")).text()
}

// One shares its database with others, and one is alone with the embedded one.
const scraped = {
  shared: await scrape({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9", REDIS_URL: "redis://127.0.0.1:9" }),
  alone: await scrape({ DATABASE_URL: "" }),
}
/** What a supervisor adds of its own. */
const supervised = await new CombinedMetrics(() => ({ wanted: 2, listening: 2 })).text([])
/** By name, with its type. */
const metrics = new Map(
  [...Object.values(scraped), supervised].flatMap((text) =>
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

// ---- Alert rules, their cards and the dashboard ----

const ALERT_TESTS = ["alerts.test.yml", "alerts-of-days.test.yml"]

interface Rule {
  readonly record?: string
  readonly alert?: string
  readonly expr: string
  readonly annotations?: Readonly<Record<string, string>>
}
interface AlertTest {
  readonly alertname: string
  readonly exp_alerts: readonly unknown[]
}
interface Panel {
  readonly id: number
  readonly title: string
  readonly targets?: readonly { readonly expr: string }[]
}

const { groups } = Bun.YAML.parse(await read("docs/operating/alerts.yml")) as { groups: { rules: Rule[] }[] }
const rules = groups.flatMap((group) => group.rules)
const alerts = rules.flatMap(({ alert, ...rule }) => (alert === undefined ? [] : [{ ...rule, alert }]))
const recorded = rules.map(({ record }) => record)
const { panels } = JSON.parse(await read("docs/operating/grafana.json")) as { panels: Panel[] }
const cards = await read("docs/operating/incidents.md")

/** Metrics that an expression names; a histogram goes by its own name. What Prometheus itself makes is not among them. */
function metricsIn(expression: string): string[] {
  const text = expression.replaceAll(/"(?:[^"\\]|\\.)*"/g, "").replaceAll(/\bby \([^)]*\)/g, "")
  const names = [...text.matchAll(/\bloket[\w:]*/g)].map(([name]) => name)
  return names.map((name) => (metrics.has(name) ? name : name.replace(/_(?:bucket|sum|count)$/, "")))
}
const unknown = (expression: string): string[] =>
  metricsIn(expression).filter((name) => !metrics.has(name) && !recorded.includes(name))

test("every metric that a rule names is exported, and a name that is not is found", () => {
  expect(alerts.length).toBeGreaterThan(20)
  expect(rules.flatMap(({ expr }) => unknown(expr))).toEqual([])
  expect(rules.filter(({ expr }) => metricsIn(expr).length === 0).map(({ alert }) => alert)).toEqual(["LoketDown"])
  expect(unknown('sum by (loket_x) (rate(loket_slot{of="loket_y"}[5m])) > loket_slots')).toEqual(["loket_slot"])
})

test("each panel has an id of its own", () => {
  const ids = panels.map(({ id }) => id)
  expect(ids.length).toBe(new Set(ids).size)
  expect(ids).not.toContain(undefined)
})

test("every metric that a panel names is exported, and every metric has its panel", () => {
  const shown = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
  expect(shown.flatMap(unknown)).toEqual([])
  expect([...metrics.keys()].filter((name) => !shown.flatMap(metricsIn).includes(name))).toEqual([
    "loket_reconciliation_success_timestamp_seconds",
  ])
})

test("every event that a rule names is one of the log's", () => {
  const section = operating.slice(operating.indexOf("**Logs**"), operating.indexOf("**Metrics**"))
  const named = rules.flatMap(({ expr }) =>
    [...expr.matchAll(/event=~?"([^"]+)"/g)].flatMap(([, events = ""]) => events.split("|")),
  )
  expect(named.length).toBeGreaterThan(5)
  expect(named.filter((event) => !section.includes(`\`${event}\``))).toEqual([])
})

test("every alert has its card, which says what it means, what to look at and what to do, and no card is without an alert", () => {
  const written = new Map(
    cards
      .split(/^## /m)
      .flatMap((card, index) => (index === 0 ? [] : [[card.slice(0, card.indexOf("\n")), card] as const])),
  )
  expect([...written.keys()].sort()).toEqual(alerts.map(({ alert }) => alert).sort())
  for (const [name, card] of written)
    expect([
      name,
      ["**Means.**", "ook at**", "**Do.**|**do**"].filter(
        (part) => !part.split("|").some((each) => card.includes(each)),
      ),
    ]).toEqual([name, []])
  for (const { alert, annotations } of alerts)
    expect([alert, annotations?.["card"]]).toEqual([alert, `docs/operating/incidents.md#${alert.toLowerCase()}`])
})

test("every alert is tried where it fires and where it does not", async () => {
  const files = await Promise.all(ALERT_TESTS.map((file) => read(`docs/operating/${file}`)))
  const tried = files
    .flatMap((file) => (Bun.YAML.parse(file) as { tests: { alert_rule_test: AlertTest[] }[] }).tests)
    .flatMap((each) => each.alert_rule_test)
  const fires = (wanted: boolean) =>
    new Set(tried.filter(({ exp_alerts }) => exp_alerts.length > 0 === wanted).map(({ alertname }) => alertname))
  for (const wanted of [true, false]) expect([...fires(wanted)].sort()).toEqual(alerts.map(({ alert }) => alert).sort())
})

const promtool = Bun.which("promtool")
if (promtool === null) process.stderr.write("left out: promtool is not on this machine\n")

test.skipIf(promtool === null)(
  "Prometheus accepts the rules and what the panels ask, and the rules' tests hold",
  () => {
    // Grafana fills in its variables before it asks.
    const asked = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
    const filledIn = asked.map((expr) => expr.replaceAll("$instance", ".*").replaceAll("$__rate_interval", "5m"))
    using directory = scratchDirectory()
    const file = join(directory.path, "panels.yml")
    const panelRules = filledIn.map((expr, n) => ({ record: `panel:${n}`, expr }))
    writeFileSync(file, JSON.stringify({ groups: [{ name: "panels", rules: panelRules }] }))
    for (const args of [
      ["check", "rules", "alerts.yml"],
      ["test", "rules", ...ALERT_TESTS],
      ["check", "rules", file],
    ]) {
      const { exitCode, stdout, stderr } = Bun.spawnSync([promtool!, ...args], { cwd: join(root, "docs/operating") })
      expect([exitCode === 0 ? "" : `${stdout.toString()}${stderr.toString()}`, args]).toEqual(["", args])
    }
  },
)
