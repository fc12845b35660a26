/**
 * Each agent at work through the gateway: it reads a file, writes another and says what it did, on models of the format
 * that it speaks and on models that are translated for it. The backend plays the model; everything else is the agent's
 * own doing. Run by `bun run test:agents`, because the agents are large and are installed for it alone.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { join } from "node:path"
import type { Translated } from "../../src/language/request.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { type Agent, agents, Desk, run, type Step } from "./agents.ts"

const prompt = "Read ticket.txt, then write its number to copy.txt."
const contextWindow = 400_000
const timeoutMs = 60_000
const backends: readonly Translated[] = ["chat", "messages", "responses"]

let gateway: TestGateway

beforeAll(async () => {
  gateway = await startTestGateway()
})
afterAll(() => gateway[Symbol.asyncDispose]())

const scripted = (steps: readonly Step[]): string =>
  `think=3&text=The+copy+is+made.&steps=${encodeURIComponent(JSON.stringify(steps))}`

interface Row {
  readonly status: string
  readonly charge_micro: number
  readonly output_tokens: number
}

/** The page of usage that a customer sees. */
const usagePage = async (person: Person): Promise<readonly Row[]> => {
  const response = await gateway.dashboard(person, "/usage?limit=100")
  return ((await response.json()) as { data: Row[] }).data
}

/** Does the task on a model of that backend, and holds the receipts against the balance. */
async function works(agent: Agent, format: Translated, backend: Translated, modelId?: string): Promise<void> {
  await using desk = await Desk.clear()
  const person = await gateway.person(100_000)
  const { key } = await gateway.key(person)
  const ticket = join(desk.work, "ticket.txt")
  const copy = join(desk.work, "copy.txt")
  const number = crypto.randomUUID()
  await Bun.write(ticket, number)
  const model = await gateway.model({
    ...(modelId !== undefined && { model: modelId }),
    format: backend,
    endpoints: [format],
    script: scripted([agent.read(ticket), agent.write(copy, number)]),
    context_window: contextWindow,
    max_output_tokens: 128_000,
    features: ["web_search"],
  })
  const before = await gateway.balance(person)
  gateway.simulator.reset()

  const target = { url: gateway.url, key, model, format, contextWindow }
  const { exitCode, stdout, stderr } = await run(agent, target, desk, { prompt, timeoutMs })

  expect({ exitCode, stdout, stderr }).toMatchObject({
    exitCode: 0,
    stdout: expect.stringContaining("The copy is made."),
  })
  expect(await Bun.file(copy).text()).toBe(number)

  const calls = gateway.simulator.calls
  // The number is in the script too, and so in the model's name.
  const seen = calls.filter(({ body }) => JSON.stringify({ ...body, model: "" }).includes(number))
  expect(seen.length).toBe(2)
  const rows = await usagePage(person)
  expect(rows.map(({ status }) => status)).toEqual(calls.map(() => "ok"))
  const after = await gateway.balance(person)
  expect(rows.reduce((sum, row) => sum + row.charge_micro, 0)).toBe(before.balance_micro - after.balance_micro)
  expect(rows.every((row) => row.charge_micro > 0 && row.output_tokens > 0)).toBeTrue()
  expect(after.held_micro).toBe(0)
}

const pairs = agents.flatMap((agent) =>
  agent.formats.flatMap((format) => backends.map((backend) => ({ name: agent.name, agent, format, backend }))),
)

test.each(pairs)(
  "$name reads and writes files, in $format on a backend of $backend, and pays for each call",
  ({ agent, format, backend }) => works(agent, format, backend),
  timeoutMs,
)

const codex = agents.find(({ name }) => name === "Codex")!
const inCode = ([tool, args]: Step, prefix: string): Step => [
  `${prefix}exec`,
  { input: `text(await tools.${tool}(${JSON.stringify(args)}))` },
]

test.each(backends)(
  "Codex knows a model of its vendor, and calls its tools in code: on a backend of %s",
  (backend) => {
    // A name within a namespace becomes one name where the backend's format has no namespaces.
    const prefix = backend === "responses" ? "" : "functions__"
    const agent: Agent = {
      ...codex,
      read: (path) => inCode(codex.read(path), prefix),
      write: (path, content) => inCode(codex.write(path, content), prefix),
    }
    return works(agent, "responses", backend, "gpt-6.1-sol")
  },
  timeoutMs,
)

/** `told`: the window that it is told of, by which one compacts before a call is refused. */
const compacting = [
  { name: "Claude Code", told: contextWindow, narrow: 40_000, continuing: () => ["--continue"] },
  {
    name: "Copilot CLI",
    told: 14_000,
    narrow: 14_000,
    continuing: (model: string) => ["--continue", `--model=${model}`],
  },
]

test.each(compacting)(
  "$name compacts a conversation that its model's window no longer holds, and goes on",
  async ({ name: named, told, narrow: window, continuing }) => {
    await using desk = await Desk.clear()
    const { key } = await gateway.key(await gateway.person(100_000))
    const agent = agents.find(({ name }) => name === named)!
    const format = agent.formats[0] ?? "chat"
    const parts = [0, 1, 2, 3].map((part) => join(desk.work, `part-${part}.txt`))
    const mark = crypto.randomUUID()
    const lines = Array.from({ length: 200 }, () => `a line of the log that is read, under the mark ${mark}`)
    for (const part of parts) await Bun.write(part, lines.join("\n"))

    const wide = await gateway.model({
      format,
      script: scripted(parts.map((part) => agent.read(part))),
    })
    const narrow = await gateway.model({ format, script: "text=The+log+is+long.", context_window: window })
    const target = { url: gateway.url, key, format, contextWindow }
    const first = await run(agent, { ...target, model: wide }, desk, { prompt: "Read all parts.", timeoutMs })
    expect(first.exitCode).toBe(0)

    gateway.simulator.reset()
    const goingOn: Agent = {
      ...agent,
      setUp(...asked) {
        const setUp = agent.setUp(...asked)
        return { ...setUp, command: [...setUp.command, ...continuing(narrow)] }
      },
    }
    const second = await run(goingOn, { ...target, model: narrow, contextWindow: told }, desk, {
      prompt: "What is it like?",
      timeoutMs,
    })
    expect(second).toMatchObject({ exitCode: 0, stdout: expect.stringContaining("The log is long.") })
    const asked = gateway.simulator.calls.map(({ body }) => JSON.stringify(body).split(mark).length - 1)
    expect(asked.length).toBeGreaterThan(1)
    expect(asked.at(-1)).toBeLessThan(parts.length * lines.length)
  },
  timeoutMs,
)

/** What each says when its run's budget is used up. */
const saysOfBudget = [
  { name: "Claude Code", says: "The run's budget is used up." },
  { name: "Codex", says: "The run's budget is used up." },
  { name: "Copilot CLI", says: "402 Payment Required" },
]

test.each(saysOfBudget)(
  "$name says what run it is, and stops where its budget does",
  async ({ name: named, says }) => {
    const agent = agents.find(({ name }) => name === named)!
    const person = await gateway.person(100_000)
    const { key } = await gateway.key(person)
    const format = agent.formats[0] ?? "chat"
    const asks = async (ofRun: { name: string; budgetRp: number }) => {
      await using desk = await Desk.clear()
      const ticket = join(desk.work, "ticket.txt")
      await Bun.write(ticket, "no. 1178")
      const model = await gateway.model({
        format,
        script: scripted([agent.read(ticket)]),
        context_window: contextWindow,
        max_output_tokens: 128_000,
        features: ["web_search"],
      })
      const ended = await run(agent, { url: gateway.url, key, model, format, contextWindow, ofRun }, desk, {
        prompt,
        timeoutMs,
      })
      const receipt = await fetch(`${gateway.url}/v1/runs/${ofRun.name}`, { headers: { "x-api-key": key } })
      return {
        ...ended,
        receipt: (await receipt.json()) as { calls: number; spent_micro: number; charge_micro: number },
      }
    }
    const ample = await asks({ name: "ample", budgetRp: 50_000 })
    expect(ample).toMatchObject({ exitCode: 0, stdout: expect.stringContaining("The copy is made.") })
    const { data } = (await (await gateway.dashboard(person, "/usage?limit=100")).json()) as { data: Row[] }
    expect(ample.receipt.calls).toBe(data.length)
    expect(data.length).toBeGreaterThan(1)
    expect(ample.receipt.spent_micro).toBe(data.reduce((sum, row) => sum + row.charge_micro, 0))

    const scarce = await asks({ name: "scarce", budgetRp: 1 })
    expect(scarce).toMatchObject({ stopped: false, receipt: { calls: 0, spent_micro: 0 } })
    expect(scarce.exitCode).not.toBe(0)
    expect(scarce.stdout + scarce.stderr).toContain(says)
  },
  2 * timeoutMs,
)
