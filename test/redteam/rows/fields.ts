/** Fields and values that cost more at the backend than the price knows: M8, M12, M13. */
import type { Format } from "../../crash/asking.ts"
import type { Arena } from "../lib/arena.ts"
import { asking } from "../lib/attacker.ts"
import type { Finding, Row } from "../lib/row.ts"

interface Case {
  readonly format: Format
  readonly model: string
  readonly more: object
  readonly headers?: Readonly<Record<string, string>>
  /** What must not be found in the request that arrives, as its JSON or headers have it. */
  readonly never: string
  /** Must be found there. */
  readonly instead?: string
  /** Must be named in `X-Dropped-Fields`, where the call is not refused. */
  readonly named?: string
}

const M = { format: "messages", model: "claude-opus-5-5" } as const
const C = { format: "chat", model: "llama-3.3-70b" } as const
const R = { format: "responses", model: "gpt-6.1-sol" } as const
/** Chat that is translated for a messages backend. */
const T = { format: "chat", model: "claude-opus-5-5" } as const

const cached = (ttl: unknown) => [
  { type: "text", text: "You are a counter.", cache_control: { type: "ephemeral", ttl } },
]

const dear: readonly Case[] = [
  { ...M, more: { system: cached("1h") }, never: '"1h"' },
  { ...M, more: { system: cached("1H") }, never: '"1H"' },
  { ...M, more: { cache_control: { type: "ephemeral", ttl: "1h" } }, never: '"1h"' },
  {
    ...M,
    more: {
      tools: [{ name: "t", input_schema: { type: "object" }, cache_control: { type: "ephemeral", ttl: "1h" } }],
    },
    never: '"1h"',
  },
  { ...M, more: { inference_geo: "us" }, never: "inference_geo", named: "inference_geo" },
  { ...M, more: { speed: "fast" }, never: '"speed"' },
  { ...M, more: { speed: "FAST" }, never: '"speed"' },
  { ...M, more: { speed: ["fast"] }, never: '"speed"' },
  { ...M, more: { service_tier: "PRIORITY" }, never: "PRIORITY" },
  { ...M, more: { service_tier: "auto" }, never: '"auto"', instead: '"service_tier":"standard_only"' },
  { ...M, more: {}, headers: { "anthropic-beta": "context-1m-2025-08-07,fast-mode-2026-02-01" }, never: "fast-mode" },
  { ...M, more: {}, headers: { "anthropic-beta": "context-1m-2025-08-07" }, never: "context-1m", named: "context-1m" },
  { ...M, more: { brand_new_field: { dear: true } }, never: "brand_new_field", named: "brand_new_field" },
  { ...M, more: { output_config: { effort: "low", brand_new: 1 } }, never: "brand_new" },
  { ...M, more: { metadata: { user_id: "me", brand_new: 1 } }, never: "brand_new" },
  { ...C, more: { service_tier: "PRIORITY" }, never: "PRIORITY" },
  { ...C, more: { service_tier: "Priority" }, never: "Priority" },
  { ...C, more: { service_tier: ["priority"] }, never: '"priority"' },
  { ...C, more: { service_tier: { toString: "priority" } }, never: '"priority"' },
  { ...C, more: { service_tier: "auto" }, never: '"auto"', instead: '"service_tier":"default"' },
  { ...C, more: { models: ["dear"] }, never: '"models"', named: "models" },
  { ...C, more: { route: "fallback" }, never: '"route"', named: "route" },
  { ...C, more: { provider: { order: ["dear"] } }, never: '"provider"', named: "provider" },
  { ...C, more: { plugins: [{ id: "web" }] }, never: '"plugins"', named: "plugins" },
  { ...C, more: { fallbacks: ["dear"] }, never: '"fallbacks"', named: "fallbacks" },
  { ...C, more: { best_of: 50 }, never: "best_of", named: "best_of" },
  { ...C, more: { guided_regex: "(a+)+$" }, never: "guided_regex", named: "guided_regex" },
  { ...C, more: { guided_json: {} }, never: "guided_json", named: "guided_json" },
  { ...C, more: { chat_template: "{{ messages }}" }, never: '"chat_template"', named: "chat_template" },
  { ...C, more: { prompt_cache_options: { ttl: "12h" } }, never: '"12h"' },
  { ...T, more: { service_tier: "priority" }, never: '"priority"' },
  { ...T, more: { speed: "fast" }, never: '"speed"' },
  { ...R, more: { service_tier: "PRIORITY" }, never: "PRIORITY" },
  { ...R, more: { service_tier: ["priority"] }, never: '"priority"' },
  { ...R, more: { service_tier: "flex" }, never: '"default"', instead: '"flex"' },
  { ...R, more: { brand_new_field: 1 }, never: "brand_new_field", named: "brand_new_field" },
]

const nested: readonly Case[] = [
  {
    ...M,
    more: { context_management: { edits: [{ type: "compact_20260112" }] } },
    headers: { "anthropic-beta": "compact-2026-01-12" },
    never: "compact_20260112",
  },
  {
    ...M,
    more: {
      context_management: { edits: [{ type: "COMPACT_20260112", trigger: { type: "input_tokens", value: 1 } }] },
    },
    never: "COMPACT",
  },
  { ...R, more: { prompt_cache_options: { ttl: "12h" } }, never: '"12h"' },
  { ...R, more: { prompt_cache_options: { prewarm: true } }, never: "prewarm" },
  { ...R, more: { reasoning: { effort: "low", mode: "pro" } }, never: '"pro"' },
  { ...R, more: { generate: false }, never: '"generate"', named: "generate" },
  { ...R, more: { context_management: [{ type: "compaction", compact_threshold: 1_000 }] }, never: "compaction" },
]

const searching = { tools: [{ type: "web_search" }] }
const searches: readonly Case[] = [
  { ...R, more: { ...searching, max_tool_calls: 128 }, never: '"max_tool_calls":128', instead: '"max_tool_calls":5' },
  { ...R, more: searching, never: '"max_tool_calls":6', instead: '"max_tool_calls":5' },
  { ...R, more: { ...searching, max_tool_calls: 2 }, never: '"max_tool_calls":5', instead: '"max_tool_calls":2' },
  { ...R, more: { ...searching, max_tool_calls: -1 }, never: '"max_tool_calls":-1' },
  { ...R, more: { ...searching, max_tool_calls: "128" }, never: "128" },
  { ...R, more: { tools: [{ type: "web_search_preview" }], max_tool_calls: 128 }, never: '"max_tool_calls":128' },
]

async function play(arena: Arena, cases: readonly Case[]): Promise<Finding[]> {
  const attacker = await arena.attacker(100_000)
  const findings: Finding[] = []
  for (const { format, model, more, headers = {}, never, instead, named } of cases) {
    const mark = attacker.plays({})
    const answer = await attacker.call(format, asking(format, model, mark, more), { headers })
    const [heard] = attacker.heard(mark)
    const arrived = heard === undefined ? undefined : JSON.stringify(heard.body) + JSON.stringify(heard.headers)
    const travelled = arrived?.includes(never) === true
    const misses = instead !== undefined && arrived !== undefined && !arrived.includes(instead)
    const dropped = answer.headers.get("x-dropped-fields")
    const unnamed = named !== undefined && dropped?.includes(named) !== true
    const told =
      arrived === undefined
        ? `refused: ${answer.code ?? answer.status}`
        : `${travelled ? `${never} travels` : "does not travel"}${misses ? `, and ${instead} is missing` : ""}${dropped === null ? "" : `, dropped: ${dropped}`}${unnamed ? ", not named" : ""}`
    findings.push({
      tried: `${format} ${shown(more, headers)}`,
      seen: told,
      held: arrived === undefined ? answer.status === 400 && instead === undefined : !travelled && !misses && !unnamed,
    })
  }
  return findings
}

/** What a backend finds is input that no prompt told of. */
async function crowd(arena: Arena): Promise<Finding> {
  const attacker = await arena.attacker(10_000)
  const mark = attacker.plays({ counts: { input: 60_000, output: 5 }, afterMs: 2_000 })
  const body = asking("responses", R.model, mark, { ...searching, max_output_tokens: 16 })
  const answers = await Promise.all(Array.from({ length: 40 }, () => attacker.call("responses", body)))
  const answered = answers.filter(({ ended }) => ended).length
  return {
    tried: "40 searches at once on Rp 10,000, each of which finds 60,000 tokens",
    seen: `${answered} answered`,
    // Each holds half of what is left, down to what the prompt alone costs.
    held: answered <= 16,
  }
}

const shown = (more: object, headers: Readonly<Record<string, string>>): string => {
  const text =
    Object.keys(headers).length === 0 ? JSON.stringify(more) : `${JSON.stringify(more)} ${JSON.stringify(headers)}`
  return text.length > 110 ? `${text.slice(0, 109)}…` : text
}

export const fieldsRows: readonly Row[] = [
  { id: "M8", wanted: "dropped and named, or refused", play: (arena) => play(arena, dear) },
  { id: "M12", wanted: "stripped, or its tokens are counted", play: (arena) => play(arena, nested) },
  {
    id: "M13",
    wanted: "at most 5 searches are asked for, and what they find is held for",
    play: async (arena) => [...(await play(arena, searches)), await crowd(arena)],
  },
]
