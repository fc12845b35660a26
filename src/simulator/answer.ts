/**
 * Plans one answer, before any format tells it: what is thought, said and called, where the client's limit cuts it, and
 * what it counts. A content event is one token. Deltas are made when they are asked for, because an answer may be far
 * larger than what anybody wants to hold.
 */
import { isObject, type Json, type JsonObject } from "../language/json.ts"
import { type Ask, type CacheUse, type DemandedTool, objectOf } from "./ask.ts"
import type { Script, UsageReport } from "./script.ts"

export interface Answer {
  /** Unique in this simulator; the formats put their own prefixes before it. */
  readonly serial: string
  readonly createdS: number
  /** The backend's own name of the model. */
  readonly model: string
  /** Web searches, which are run first. */
  readonly searches: number
  readonly thinking: Deltas
  readonly text: Deltas
  /** The text is a refusal. */
  readonly refused: boolean
  /** The client's stop sequence that ended the text. */
  readonly stoppedBy: string | undefined
  readonly calls: readonly ToolCall[]
  /** The client's limit ended it. */
  readonly cut: boolean
  readonly usage: Usage
}

export interface Deltas {
  readonly count: number
  at(index: number): string
}

export interface ToolCall {
  readonly serial: string
  readonly name: string
  /** It takes free text: `args.input`, or the arguments' JSON where there is none. */
  readonly custom: boolean
  /** What the tool is given, in pieces; cut off where the limit is. */
  readonly pieces: readonly string[]
  readonly args: JsonObject
}

/** What this call is, apart from what it asks and what it is scripted to do. */
interface Occasion {
  readonly serial: string
  readonly seed: number
  readonly nowMs: number
  readonly model: string
  /** Nothing is to be said, whatever is scripted. */
  readonly mute: boolean
  /** What a cache had a part in, where the prompt is cached. */
  readonly cache: CacheUse | undefined
  readonly demanded: DemandedTool | undefined
}

const nothing: Deltas = { count: 0, at: () => "" }

export const planAnswer = (ask: Ask, script: Script, occasion: Occasion): Answer => {
  let budget = ask.limit ?? Infinity
  let cut = false
  const spend = (tokens: number): number => {
    const granted = Math.min(tokens, budget)
    if (granted < tokens) cut = true
    budget -= granted
    return granted
  }

  const thought = occasion.mute ? 0 : script.think
  const reasoning = spend(Math.max(thought, occasion.mute ? 0 : (script.usage.reasoning ?? thought)))
  const thinking = limited(filler(occasion.seed, script.delta), Math.min(thought, reasoning))
  const calling =
    occasion.mute || script.refusal !== undefined ? undefined : (callOf(ask, script) ?? demandOf(occasion, script))
  const meant = occasion.mute || saysNothing(calling, script) ? nothing : sentence(ask, script, occasion.seed)
  const { said, stoppedBy } = stoppedAt(meant, ask.stops)
  const text = limited(said, spend(said.count))
  const called = stoppedBy === undefined ? (calling ?? []) : []
  const fresh = script.ids === "repeated" ? "" : occasion.serial
  const calls = called.map((call, index) => planCall(call, `${fresh}${index}`, spend))
  const kept = calls.filter((call) => call.pieces.length > 0)
  const callTokens = kept.reduce((sum, call) => sum + call.pieces.length, 0)

  const { report } = script.usage
  const { cached, written } = occasion.cache ?? script.usage
  return {
    serial: occasion.serial,
    createdS: Math.floor(occasion.nowMs / 1000),
    model: occasion.model,
    searches: occasion.mute ? 0 : script.searches,
    thinking,
    text,
    refused: script.refusal !== undefined,
    stoppedBy: cut ? undefined : stoppedBy,
    calls: kept,
    cut,
    usage: {
      report,
      input: script.usage.input ?? Math.max(0, ask.promptTokens - cached - written),
      cached,
      written,
      output: script.usage.counted ?? (reasoning + text.count + callTokens) * ask.choices,
      reasoning: reasoning * ask.choices,
    },
  }
}

type Calling = readonly Pick<ToolCall, "name" | "args" | "custom">[]

/** A call is made when the request offers tools, and as many rounds of results as are scripted have not come back. */
const callOf = (ask: Ask, script: Script): Calling | undefined => {
  const { tool } = script
  const step = script.steps?.[ask.allToolResults]
  if (step !== undefined && ask.tools.includes(step.tool))
    return [{ name: step.tool, args: step.args, custom: ask.customTools.includes(step.tool) }]
  if (tool === undefined) return undefined
  const name = tool.name === "*" ? ask.tools[0] : ask.tools.find((offered) => offered === tool.name)
  if (name === undefined || Math.ceil(ask.toolResults / tool.parallel) >= tool.rounds) return undefined
  const custom = ask.customTools.includes(name)
  return Array.from({ length: tool.parallel }, () => ({ name, args: tool.args, custom }))
}

/** What a client demands is called where nothing is scripted. */
const demandOf = ({ demanded }: Occasion, { tool, steps, text, output }: Script): Calling | undefined => {
  const isScripted = [tool, steps, text, output].some((one) => one !== undefined)
  if (demanded === undefined || isScripted) return undefined
  return [{ name: demanded.name, args: objectOf(sample(demanded.schema)) ?? {}, custom: false }]
}

const planCall = (call: Calling[number], serial: string, spend: (tokens: number) => number): ToolCall => {
  const { input } = call.args
  const pieces = slices(call.custom && typeof input === "string" ? input : JSON.stringify(call.args), 8)
  return { ...call, serial, pieces: pieces.slice(0, spend(pieces.length)) }
}

/** A script that names a tool which the request does not offer is a mistake, or a tool that got lost on the way here. */
export const missingTool = (ask: Ask, script: Script): string | undefined => {
  const name = script.steps?.[ask.allToolResults]?.tool ?? script.tool?.name
  if (name === undefined || name === "*" || ask.tools.length === 0 || ask.tools.includes(name)) return undefined
  return `the script calls "${name}", the request offers ${ask.tools.join(", ")}`
}

/** Beside a tool call only what is scripted is said. */
const saysNothing = (calling: Calling | undefined, script: Script): boolean =>
  calling !== undefined && script.text === undefined && script.output === undefined

const words = "the quick keeper of the counter takes a coin, tears a ticket and lets one more traveller pass through,"
  .split(" ")
  .map((word) => `${word} `)

/** Endless words, the same for the same seed; `size` makes each delta exactly as long. */
const filler = (seed: number, size: number | undefined): Deltas => {
  if (size !== undefined) {
    const block = words.join("").repeat(Math.ceil(size / 100) + 1)
    const piece = block.slice(0, size)
    return { count: Infinity, at: () => piece }
  }
  return { count: Infinity, at: (index) => words[(index + seed) % words.length] ?? "" }
}

const limited = (deltas: Deltas, count: number): Deltas => ({
  count: Math.min(deltas.count, count),
  at: (index) => deltas.at(index),
})

/** What is said: the literal text, or filler where a length is scripted, or what the client's schema asks for, or a friendly echo. */
const sentence = (ask: Ask, script: Script, seed: number): Deltas => {
  const { output, delta } = script
  const text = script.refusal ?? script.text
  if (text === undefined && (output !== undefined || delta !== undefined)) {
    return limited(filler(seed, delta), output ?? 8)
  }
  const whole = text ?? greeting(ask)
  if (whole === "") return nothing
  const pieces = delta === undefined ? (whole.match(/\s*\S+\s*$|\s*\S+/g) ?? [whole]) : slices(whole, delta)
  return { count: output ?? pieces.length, at: (index) => pieces[index % pieces.length] ?? "" }
}

/** A vendor ends the text right before the stop sequence that it would have come to first. */
const stoppedAt = (
  meant: Deltas,
  stops: readonly string[],
): { readonly said: Deltas; readonly stoppedBy: string | undefined } => {
  if (stops.length === 0 || meant.count === 0) return { said: meant, stoppedBy: undefined }
  const text = whole(meant)
  const found = stops.flatMap((stop) => (text.includes(stop) ? [{ stop, at: text.indexOf(stop) }] : []))
  const [first] = found.toSorted((one, other) => one.at - other.at)
  if (first === undefined) return { said: meant, stoppedBy: undefined }
  const pieces = text.slice(0, first.at).match(/\s*\S+\s*$|\s*\S+/g) ?? []
  return { said: { count: pieces.length, at: (index) => pieces[index] ?? "" }, stoppedBy: first.stop }
}

const greeting = (ask: Ask): string => {
  if (ask.schema !== undefined) return JSON.stringify(sample(ask.schema))
  if (ask.toolResults > 0) return "Thank you, the tool's result has arrived and all is well."
  const heard = ask.lastUserText.trim().replaceAll(/\s+/g, " ")
  if (heard === "") return "Hello from the simulator."
  return `Hello from the simulator. You said: ${heard.slice(0, 60).toWellFormed()}`
}

const slices = (text: string, size: number): string[] => {
  const characters = Array.from(text)
  const pieces: string[] = []
  for (let at = 0; at < characters.length; at += size) pieces.push(characters.slice(at, at + size).join(""))
  return pieces
}

export const whole = (deltas: Deltas): string => {
  let text = ""
  for (let index = 0; index < deltas.count; index += 1) text += deltas.at(index)
  return text
}

/** A schema may refer to itself; deeper than this nobody asks. */
const deepest = 16
const most = 100

/**
 * The smallest answer that a JSON schema allows, so that structured output can be tried out where nothing is
 * scripted. Of the schemas that vendors take for it: objects, lists, alternatives, constants, and references within
 * the schema.
 */
export const sample = (schema: Json | undefined, root: Json | undefined = schema, depth = 0): Json => {
  if (!isObject(schema) || depth > deepest) return null
  const { $ref, const: constant, enum: allowed, default: usual, type } = schema
  if (typeof $ref === "string") return sample(referred($ref, root), root, depth + 1)
  const [given] = [constant, ...(Array.isArray(allowed) ? allowed : []), usual].filter((value) => value !== undefined)
  if (given !== undefined) return given
  const [alternative] = [schema["anyOf"], schema["oneOf"], schema["allOf"]].flatMap((all) =>
    Array.isArray(all) ? all : [],
  )
  if (alternative !== undefined) return sample(alternative, root, depth + 1)
  const kind = Array.isArray(type) ? type[0] : type
  if (kind === "string") return "simulated"
  if (kind === "integer" || kind === "number") return typeof schema["minimum"] === "number" ? schema["minimum"] : 1
  if (kind === "boolean") return true
  if (kind === "null") return null
  if (kind === "array")
    return Array.from({ length: Math.min(fewest(schema), most) }, () => sample(schema["items"], root, depth + 1))
  return sampleObject(schema, root, depth)
}

const sampleObject = ({ properties }: JsonObject, root: Json | undefined, depth: number): Json =>
  Object.fromEntries(
    Object.entries(isObject(properties) ? properties : {}).map(([name, value]) => [
      name,
      sample(value, root, depth + 1),
    ]),
  )

const fewest = ({ minItems }: JsonObject): number => (typeof minItems === "number" && minItems > 0 ? minItems : 0)

/** `#/$defs/name` */
const referred = (reference: string, root: Json | undefined): Json | undefined => {
  let here = root
  for (const step of reference.split("/").slice(1)) here = isObject(here) ? here[step] : undefined
  return here
}

/** Disjoint buckets, `reasoning` being part of `output`. Each format adds them up as its vendor does. */
interface Usage {
  readonly report: UsageReport
  readonly input: number
  readonly cached: number
  readonly written: number
  readonly output: number
  readonly reasoning: number
}

const asIs = (count: number): Json => count

/** A count as it is reported: a hostile report twists every number that money could depend on. */
const reports: Record<UsageReport, (count: number) => Json> = {
  honest: asIs,
  none: asIs,
  null: asIs,
  negative: (count) => -count - 1,
  fraction: (count) => count + 0.5,
  string: String,
  huge: () => 1e18,
}

export const reported = (count: number, report: UsageReport): Json => reports[report](count)

/** A usage object under its key, or none, or null. */
export const usageField = (report: UsageReport, usage: () => JsonObject): { usage?: JsonObject | null } => {
  if (report === "none") return {}
  return { usage: report === "null" ? null : usage() }
}
