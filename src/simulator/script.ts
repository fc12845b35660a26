/**
 * What a caller scripts for one call: the URL query behind the `?` of a model's name, with the `x-simulator` header's
 * parameters laid over it. Times are milliseconds, sizes are tokens.
 * A parameter that nothing reads is a mistake in somebody's test, so it is refused by name and never skipped.
 */
import { isObject, type JsonObject } from "../language/json.ts"
import { type Fault, Parameters, type RefusableField, readFault, refusableFields } from "./fault.ts"

/** How the counts are told; all but `honest` are what a gateway must not believe. */
export type UsageReport = "honest" | "none" | "null" | "negative" | "fraction" | "string" | "huge"

export interface Script {
  /** Before the head of a streamed answer. */
  readonly headMs: number
  /** Before the first event of a stream, or the head of an answer in one piece. */
  readonly ttftMs: number
  /** Between two content events. */
  readonly paceMs: number
  readonly output: number | undefined
  readonly text: string | undefined
  /** Said instead of an answer, and told as the format tells a refusal. */
  readonly refusal: string | undefined
  /** Characters per content event. */
  readonly delta: number | undefined
  readonly think: number
  readonly tool: ToolScript | undefined
  /** `repeated`: the ids of calls begin anew in each answer, as some backends have them. */
  readonly ids: "fresh" | "repeated"
  /** Tool calls in a row, one an answer: as many as results have come back are behind it. Then comes the text. */
  readonly steps: readonly StepScript[] | undefined
  /** Web searches that are run before anything is said. */
  readonly searches: number
  readonly usage: UsageScript
  /** Prompts are cached for the credential that asks, and counted so. */
  readonly caches: boolean
  /** Chat only: a request that has one of these is refused, in OpenAI's words. */
  readonly refuses: readonly RefusableField[]
  readonly fault: Fault | undefined
  /** How many calls of this very script the fault hits. */
  readonly times: number
}

interface ToolScript {
  /** `*` is the first tool that the request offers. */
  readonly name: string
  readonly args: JsonObject
  readonly parallel: number
  /** How often in a row the answer is a tool call, counted by the results that came back. */
  readonly rounds: number
}

interface StepScript {
  readonly tool: string
  readonly args: JsonObject
}

interface UsageScript {
  readonly report: UsageReport
  /** Prompt tokens that no cache had a part in. */
  readonly input: number | undefined
  readonly cached: number
  readonly written: number
  readonly reasoning: number | undefined
  /** Answer tokens that are told, whatever was said and whatever the limit. */
  readonly counted: number | undefined
}

export class ScriptProblem {
  readonly message: string

  constructor(message: string) {
    this.message = message
  }
}

const reports = ["honest", "none", "null", "negative", "fraction", "string", "huge"] as const

export const parseScript = (query: string, override = ""): Script | ScriptProblem => {
  const parameters = new Parameters(query, override)
  const script: Script = {
    headMs: parameters.integer("head") ?? 0,
    ttftMs: parameters.integer("ttft") ?? 0,
    paceMs: parameters.integer("pace") ?? 0,
    output: parameters.integer("output"),
    text: parameters.text("text"),
    refusal: parameters.text("refusal"),
    delta: parameters.integer("delta", 1),
    think: parameters.integer("think") ?? 0,
    tool: readTool(parameters),
    ids: parameters.oneOf("ids", ["repeated"] as const) ?? "fresh",
    steps: readSteps(parameters),
    searches: parameters.integer("searches") ?? 0,
    usage: {
      report: parameters.oneOf("usage", reports) ?? "honest",
      input: parameters.integer("input"),
      cached: parameters.integer("cached") ?? 0,
      written: parameters.integer("written") ?? 0,
      reasoning: parameters.integer("reasoning"),
      counted: parameters.integer("counted"),
    },
    caches: parameters.oneOf("cache", ["prefix"]) !== undefined,
    refuses: parameters.someOf("refuses", refusableFields),
    fault: readFault(parameters),
    times: parameters.integer("times", 1) ?? Infinity,
  }
  if (script.caches && script.usage.cached + script.usage.written > 0)
    parameters.complain("cached and written are counted by the cache, where there is one")
  const problem = parameters.problem()
  return problem === undefined ? script : new ScriptProblem(problem)
}

const readTool = (parameters: Parameters): ToolScript | undefined => {
  const name = parameters.text("tool")
  if (name === undefined) return undefined
  const args: unknown = parameters.json("args") ?? {}
  if (!isObject(args)) parameters.complain("args must be a JSON object")
  return {
    name,
    args: isObject(args) ? args : {},
    parallel: parameters.integer("tools", 1) ?? 1,
    rounds: parameters.integer("rounds", 1) ?? 1,
  }
}

/** `[["read",{"path":"a"}],["write",{"path":"b"}]]`: names and arguments. */
const readSteps = (parameters: Parameters): StepScript[] | undefined => {
  const value = parameters.json("steps")
  if (value === undefined) return undefined
  const steps = (Array.isArray(value) ? value : [value]).map((step: unknown): StepScript | undefined => {
    const [tool, args]: readonly unknown[] = Array.isArray(step) ? step : []
    return typeof tool === "string" && isObject(args) ? { tool, args } : undefined
  })
  const known = steps.filter((step) => step !== undefined)
  if (known.length < steps.length)
    parameters.complain("steps must be an array of pairs, a tool's name and its arguments")
  return known
}

/** `claude-sim?ttft=200` is the model `claude-sim` with a script. */
export const splitModel = (model: string): { readonly name: string; readonly query: string } => {
  const mark = model.indexOf("?")
  return mark < 0 ? { name: model, query: "" } : { name: model.slice(0, mark), query: model.slice(mark + 1) }
}

export interface Call {
  readonly path: string
  /** With the journal off, empty. */
  readonly headers: Readonly<Record<string, string>>
  /** Undefined when it was no JSON object, or with the journal off. */
  readonly body: JsonObject | undefined
  /** The upstream model's name with its script, as the caller wrote it. */
  readonly model: string
  /** Undefined when the request was refused before its script was read. */
  readonly script: Script | undefined
  /** Milliseconds since the epoch. */
  readonly startedAt: number
  readonly endedAt: number | undefined
  readonly outcome: "running" | "finished" | "faulted" | "client-left"
}

export type OpenCall = { -readonly [Field in keyof Call]: Call[Field] }

const kept = 10_000

/**
 * What the simulator was asked and how each call ended, for tests to look into. Bounded: the oldest calls are
 * forgotten.
 */
export class Journal {
  #calls: OpenCall[] = []

  open(call: OpenCall): OpenCall {
    if (this.#calls.length >= 2 * kept) this.#calls = this.#calls.slice(-kept)
    this.#calls.push(call)
    return call
  }

  /** Oldest first. */
  get calls(): readonly Call[] {
    return this.#calls.slice(-kept)
  }

  clear(): void {
    this.#calls = []
  }
}
