/** Budgets and keys: M5, M11, M14. */
import type { Arena } from "../lib/arena.ts"
import { asking, rp } from "../lib/attacker.ts"
import type { Finding, Row } from "../lib/row.ts"

const BUDGET_MICRO = 100_000_000
const HOURS = [-10, -8, -6, -4, -3, -1, 1, 3, 5, 7, 9, 12]

/** `Etc/GMT+5` is five hours behind. */
const zone = (hours: number) => `Etc/GMT${hours > 0 ? "-" : "+"}${Math.abs(hours)}`

async function timeZones(arena: Arena): Promise<Finding[]> {
  const attacker = await arena.attacker(50_000)
  // A zone in which it is before noon, so that no day ends by itself while the row is played.
  const hour = new Date().getUTCHours()
  const home = HOURS.find((each) => (hour + each + 24) % 24 < 12) ?? 7
  await attacker.dashboard("/account", "PATCH", { time_zone: zone(home) })
  const findings: Finding[] = []
  for (const period of ["daily", "monthly", "total"]) {
    const { id, key } = await attacker.moreKey({ spending_limit_micro: BUDGET_MICRO, spending_period: period })
    let spent = 0
    for (const each of [home, ...HOURS, home]) {
      await attacker.dashboard("/account", "PATCH", { time_zone: zone(each) })
      const mark = attacker.plays({ counts: { input: 30, output: 3_000 } })
      const { requestId, status } = await attacker.call(
        "chat",
        asking("chat", "deepseek-v3.2", mark, { max_tokens: 3_000 }),
        { key },
      )
      if (status === 200) spent += (await attacker.record(requestId))?.charge_micro ?? 0
    }
    await attacker.dashboard("/account", "PATCH", { time_zone: zone(home) })
    await attacker.dashboard(`/keys/${id}/revoke`, "POST")
    findings.push({
      tried: `${HOURS.length} time zones on a ${period} budget of ${rp(BUDGET_MICRO)}`,
      seen: `${rp(spent)} spent`,
      held: spent > 0 && spent <= BUDGET_MICRO,
    })
  }
  return findings
}

type Change = (arena: Arena) => Promise<{ readonly key: string; readonly now: () => Promise<Response> }>

/** What a change of the dashboard forbids, tried the moment after it was told. */
const changes: readonly (readonly [string, string, Change])[] = [
  [
    "a key that is revoked",
    "auth.api_key_revoked",
    async (arena) => {
      const attacker = await arena.attacker(10_000)
      const { keyId, key } = attacker.customer
      return { key, now: () => attacker.dashboard(`/keys/${keyId}/revoke`, "POST") }
    },
  ],
  [
    "an account that is deleted",
    "auth.account_deleted",
    async (arena) => {
      const attacker = await arena.attacker(10_000)
      return {
        key: attacker.key,
        now: () => attacker.dashboard("/account", "DELETE", { password: "correct horse battery" }),
      }
    },
  ],
  [
    "a budget that is lowered to almost nothing",
    "quota.key_limit_exceeded",
    async (arena) => {
      const attacker = await arena.attacker(10_000, { spending_limit_micro: 1_000_000_000, spending_period: "total" })
      const { keyId } = attacker.customer
      const limits = { spending_limit_micro: 1, spending_period: "total" }
      return { key: attacker.key, now: () => attacker.dashboard(`/keys/${keyId}`, "PATCH", limits) }
    },
  ],
]

async function atOnce(arena: Arena, tries: number): Promise<Finding[]> {
  const findings: Finding[] = []
  for (const [tried, code, prepare] of changes) {
    let passed = 0
    let failed = ""
    for (let attempt = 0; attempt < tries; attempt++) {
      const { key, now } = await prepare(arena)
      const someone = arena.attackers.at(-1)!
      const ask = () =>
        someone.call("chat", asking("chat", "gpt-oss-20b", someone.plays({}), { max_tokens: 5 }), { key })
      await ask()
      const done = await now()
      if (!done.ok) failed = `${done.status} ${await done.text()}`
      const calls: ReturnType<typeof ask>[] = []
      for (let at = 0; at < 8; at++) {
        calls.push(ask())
        await Bun.sleep(2)
      }
      if ((await Promise.all(calls)).some((answer) => answer.code !== code)) passed++
    }
    findings.push({
      tried: `${tried}, ${tries} times, called from the moment on that it was told`,
      seen: failed === "" ? `${passed} times a call passed` : failed,
      held: passed === 0 && failed === "",
    })
  }
  return findings
}

const CHEAP = "claude-haiku-5-5"

async function dearer(arena: Arena): Promise<Finding[]> {
  const attacker = await arena.attacker(100_000)
  const long = "a long story of tickets ".repeat(40_000)
  const findings: Finding[] = []
  const throttled = attacker.plays({
    respond: (heard, response) => {
      const { model } = heard
      const cheap = model.includes("haiku-5-5")
      if (!cheap) heard.told = { input: 30, output: 5 }
      response.writeHead(cheap ? 429 : 200, { "Content-Type": "application/json" })
      const usage = { input_tokens: 30, output_tokens: 5 }
      const content = [{ type: "text", text: "dear" }]
      const answer = { id: "msg", type: "message", role: "assistant", model, content, stop_reason: "end_turn", usage }
      response.end(JSON.stringify(cheap ? { type: "error", error: { type: "rate_limit_error" } } : answer))
    },
  })
  const cases = [
    ["a backend's 429", throttled, 429, "upstream.rate_limited"],
    ["a prompt over the window", `${attacker.plays({})} ${long}`, 400, "upstream.context_length_exceeded"],
  ] as const
  for (const [tried, prompt, status, code] of cases) {
    const answer = await attacker.call("messages", asking("messages", CHEAP, prompt))
    findings.push({
      tried: `${CHEAP}, ${tried}`,
      seen: `${answer.code ?? answer.status}${answer.status === 200 ? ` from ${modelOf(answer.text)} for Rp ${answer.costRp}` : ""}`,
      held: answer.status === status && answer.code === code,
    })
    const widened = await attacker.call("messages", asking("messages", CHEAP, prompt), {
      headers: { "X-Fallback": "off" },
    })
    findings.push({
      tried: `the same with X-Fallback: off`,
      seen: `${widened.code ?? widened.status}`,
      held: widened.status === status && widened.code === code,
    })
  }
  const willing = await attacker.moreKey({ fallback: "any" })
  const rerouted = await attacker.call("messages", asking("messages", CHEAP, throttled), { key: willing.key })
  findings.push({
    tried: "the 429 with a key whose fallback is any",
    seen: `${rerouted.code ?? rerouted.status}, X-Model: ${rerouted.headers.get("x-model")}, X-Rerouted-From: ${rerouted.headers.get("x-rerouted-from")}`,
    held: rerouted.status === 200 && rerouted.headers.get("x-rerouted-from") === CHEAP,
  })
  const never = await attacker.moreKey({ fallback: "off" })
  const narrow = await attacker.call("messages", asking("messages", CHEAP, throttled), {
    key: never.key,
    headers: { "X-Fallback": "any" },
  })
  findings.push({
    tried: "a key whose fallback is off, with X-Fallback: any",
    seen: `${narrow.code ?? narrow.status}`,
    held: narrow.status === 429 && narrow.code === "upstream.rate_limited",
  })
  return findings
}

const modelOf = (text: string): string => /"model":"([^"]+)"/.exec(text)?.[1] ?? ""

export const keysRows: readonly Row[] = [
  { id: "M5", wanted: "a new zone renews no budget", play: timeZones },
  { id: "M11", wanted: "told is in force", play: (arena, { full }) => atOnce(arena, full ? 20 : 8) },
  { id: "M14", wanted: "no dearer answer without a yes", play: dearer },
]
