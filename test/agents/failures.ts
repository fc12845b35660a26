/**
 * What each agent makes of each failure: how many calls it sends, for how long, and what its user is told. Prints the
 * rows from which the table in docs/clients.md is written. `bun test/agents/failures.ts [case] [agent]`; everything takes
 * ten minutes, because some agents try again for as long as they are let. A call is counted where it enters the gateway.
 */
import { join } from "node:path"
import type { Translated } from "../../src/language/request.ts"
import { type ModelWish, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { type Agent, agents, Desk, run } from "./agents.ts"

const timeoutMs = 75_000
const prompt = "Read ticket.txt and say its number."

interface Case {
  readonly name: string
  readonly script?: string
  readonly model?: Partial<ModelWish>
  readonly limits?: Readonly<Record<string, unknown>>
  readonly balanceRp?: number
  readonly key?: string
  readonly env?: Readonly<Record<string, string>>
}

const cases: readonly Case[] = [
  { name: "401 auth.api_key_invalid", key: "sk-loket-nobody" },
  { name: "402 billing.insufficient_balance", balanceRp: 0 },
  { name: "413 request.too_large", env: { MAX_BODY_BYTES: "4000" } },
  { name: "400 upstream.context_length_exceeded", model: { context_window: 1_000 } },
  { name: "429 rate_limit.rpm_exceeded, Retry-After up to 60", limits: { requests_per_minute: 1 } },
  { name: "429 upstream.rate_limited, Retry-After: 5, twice", script: "fault=status&status=429&retry_after=5&times=2" },
  { name: "429 upstream.rate_limited, Retry-After: 3600", script: "fault=status&status=429&retry_after=3600" },
  { name: "429 upstream.rate_limited, no Retry-After", script: "fault=status&status=429" },
  { name: "429 quota.key_limit_exceeded, daily", limits: { spending_limit_micro: 0, spending_period: "daily" } },
  { name: "429 quota.key_limit_exceeded, total", limits: { spending_limit_micro: 0, spending_period: "total" } },
  { name: "502 dependency.upstream_unavailable", script: "fault=status&status=500" },
  { name: "an error in mid-stream", script: "text=one+two+three+four&fault=error-event&after=2" },
  { name: "a backend's stream that is cut", script: "text=one+two+three+four&fault=cut&after=2" },
  { name: "a backend's connection that is reset", script: "text=one+two+three+four&fault=reset&after=2" },
]

/** The gateway with a turnstile before it, which counts and remembers what each call was answered. */
function turnstile(gateway: TestGateway) {
  const answers: string[] = []
  const server = Bun.serve({
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      const { pathname, search } = new URL(request.url)
      const answer = await fetch(gateway.url + pathname + search, {
        method: request.method,
        headers: request.headers,
        body: request.body,
      })
      const counts = request.method === "POST" && !pathname.endsWith("/count_tokens")
      if (counts) answers.push(String(answer.status))
      return answer
    },
  })
  return { answers, url: server.url.origin, [Symbol.asyncDispose]: () => server.stop(true) }
}

/** `200 × 2, 401 × 11`: how often each came, in the order in which they first did. */
function counted(answers: readonly string[]): string {
  const times = new Map<string, number>()
  for (const answer of answers) times.set(answer, (times.get(answer) ?? 0) + 1)
  return [...times].map(([answer, count]) => (count === 1 ? answer : `${answer} × ${count}`)).join(", ")
}

/** What Copilot CLI prints after all else. */
const SUMMARY = /^(?:Changes|Duration|Tokens|Requests|Resume)\s/

/** The last line that was printed. */
function lastWords(stdout: string, stderr: string): string {
  // oxlint-disable-next-line no-control-regex -- colours of a terminal
  const plain = `${stderr}\n${stdout}`.replaceAll(/\u001B\[[\d;]*m/g, "")
  const lines = plain.split("\n").filter((line) => line.trim() !== "" && !SUMMARY.test(line))
  return (lines.at(-1) ?? "").replaceAll("|", "\\|").slice(0, 400)
}

async function row(gateway: TestGateway, one: Case, agent: Agent, format: Translated): Promise<string> {
  await using desk = await Desk.clear()
  const ticket = join(desk.work, "ticket.txt")
  await Bun.write(ticket, "no. 1178")
  const person = await gateway.person(one.balanceRp ?? 100_000)
  const key = one.key ?? (await gateway.key(person, one.limits)).key
  const steps = one.script?.startsWith("text") ? [] : [agent.read(ticket)]
  const plain = `steps=${encodeURIComponent(JSON.stringify(steps))}${one.script?.startsWith("text") ? "" : "&text=Number+1178."}`
  const model = await gateway.model({
    format,
    features: ["web_search"],
    context_window: 400_000,
    max_output_tokens: 32_000,
    ...one.model,
    script: one.script === undefined ? plain : `${plain}&${one.script}`,
  })
  await using gate = turnstile(gateway)
  const target = { url: gate.url, key, model, format, contextWindow: one.model?.context_window ?? 400_000 }
  const { exitCode, stopped, seconds, stdout, stderr } = await run(agent, target, desk, { prompt, timeoutMs })
  const end = stopped ? `still at it after ${timeoutMs / 1_000} s` : `exit ${exitCode} after ${seconds.toFixed(0)} s`
  const cells = [one.name, `${agent.name} (${format})`, counted(gate.answers), end, lastWords(stdout, stderr)]
  return `| ${cells.join(" | ")} |`
}

const [wantedCase = "", wantedAgent = ""] = process.argv.slice(2)
for (const one of cases.filter(({ name }) => name.includes(wantedCase))) {
  await using gateway = await startTestGateway({ env: one.env ?? {} })
  const rows = agents
    .filter(({ name }) => name.includes(wantedAgent))
    .map((agent) => row(gateway, one, agent, agent.formats[0] ?? "chat"))
  await Bun.write(Bun.stdout, `${(await Promise.all(rows)).join("\n")}\n`)
}
process.exit(0)
