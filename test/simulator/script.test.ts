/** Each parameter of a script, over real HTTP. */
import { describe, expect, test } from "bun:test"
import { until } from "../eventually.ts"
import {
  ask,
  at,
  deltasOf,
  eventsOf,
  type Format,
  formats,
  readAll,
  simulatorForFile,
  stream,
  textOfReply,
} from "./ask.ts"

const simulator = simulatorForFile()
const forever = 600_000

const callsIn = (reply: unknown): number => JSON.stringify(reply).split('"name":"look"').length - 1

const jsonOf = async (format: Format, script: string, more = {}): Promise<unknown> =>
  (await ask(simulator, format, script, more)).json()
const streamOf = async (format: Format, script: string, more = {}): Promise<string> =>
  (await ask(simulator, format, script, { ...stream, ...more })).text()

describe("a script that is wrong", () => {
  const wrong = [
    ["thnk=1", "thnk"],
    ["ttft=soon", "ttft"],
    ["pace=-1", "pace"],
    ["delta=0", "delta"],
    ["usage=odd", "usage"],
    ["fault=odd", "fault"],
    ["fault=status&status=200", "status"],
    ["status=503", "status"],
    ["fault=refuse&after=1", "after"],
    ["fault=reset&after=later", "after"],
    ["fault=error-event&error=odd", "error"],
    ["tool=f&args={", "args"],
    ["tool=f&args=[]", "args"],
    ["args={}", "args"],
  ] as const
  test.each(wrong)("%s is refused by name", async (script, name) => {
    for (const format of formats) {
      const response = await ask(simulator, format, script)
      expect(response.status).toBe(400)
      expect(String(at(await response.json(), "error", "message"))).toContain(name)
    }
  })

  test("a fault that a format does not have is refused", async () => {
    expect((await ask(simulator, "chat", "fault=failed")).status).toBe(400)
    expect((await ask(simulator, "messages", "fault=failed")).status).toBe(400)
  })

  test("a tool that the request does not offer is refused", async () => {
    const tools = [{ name: "look", input_schema: { type: "object" } }]
    expect((await ask(simulator, "messages", "tool=listen", { tools })).status).toBe(400)
    expect((await ask(simulator, "messages", "tool=look", { tools })).status).toBe(200)
  })
})

describe("the header x-simulator", () => {
  test("scripts like the model's name, and wins over it", async () => {
    const headers = { "x-simulator": "text=from the header" }
    const response = await ask(simulator, "chat", "text=from%20the%20model&input=7", {}, { headers })
    const reply: unknown = await response.json()
    expect(textOfReply(reply)).toBe("from the header")
    expect(at(reply, "usage", "prompt_tokens")).toBe(7)
  })
})

describe.each(formats)("%s: times", (format) => {
  const leave = async (script: string, more = {}): Promise<void> => {
    const leaving = new AbortController()
    const response = ask(simulator, format, script, more, { signal: leaving.signal }).catch(() => undefined)
    await until(() => simulator.calls.length === 1)
    leaving.abort()
    await response
    await until(() => simulator.calls[0]?.outcome !== "running")
  }

  test("head holds back the head of a stream", async () => {
    await leave(`head=${forever}`, stream)
    expect(simulator.calls[0]?.outcome).toBe("client-left")
    expect(deltasOf(await streamOf(format, "head=2"))).not.toBeEmpty()
  })

  test("ttft holds back the head of an answer in one piece", async () => {
    await leave(`ttft=${forever}`)
    expect(simulator.calls[0]?.outcome).toBe("client-left")
    expect(textOfReply(await jsonOf(format, "ttft=2"))).toStartWith("Hello")
  })

  test("ttft lets the head of a stream through, but no event", async () => {
    const leaving = new AbortController()
    const response = await ask(simulator, format, `ttft=${forever}`, stream, { signal: leaving.signal })
    const reading = readAll(response)
    leaving.abort()
    expect(await reading).toEqual({ text: "", broken: true })
    expect(await streamOf(format, "ttft=2")).toContain("data:")
  })

  test("pace parts one content event from the next", async () => {
    const leaving = new AbortController()
    const response = await ask(simulator, format, `pace=${forever}`, stream, { signal: leaving.signal })
    let text = ""
    const decoder = new TextDecoder()
    try {
      for await (const chunk of response.body ?? []) {
        text += decoder.decode(chunk)
        if (deltasOf(text).length > 0) leaving.abort()
      }
    } catch {}
    expect(deltasOf(text)).toEqual(["Hello"])
    expect(deltasOf(await streamOf(format, "pace=1")).join("")).toEndWith("Where is my train?")
  })
})

describe.each(formats)("%s: what is said", (format) => {
  const outputTokens = (reply: unknown): unknown =>
    at(reply, "usage", format === "chat" ? "completion_tokens" : "output_tokens")

  test("without a script the user's words are echoed, the same each time", async () => {
    const reply = await jsonOf(format, "")
    expect(textOfReply(reply)).toBe("Hello from the simulator. You said: Where is my train?")
    expect(deltasOf(await streamOf(format, "")).join("")).toBe(String(textOfReply(reply)))
  })

  test("the model in the answer is the name without its script", async () => {
    expect(at(await jsonOf(format, "output=1"), "model")).toBe("sim")
  })

  test("output is the number of deltas and of tokens", async () => {
    expect(deltasOf(await streamOf(format, "output=37"))).toHaveLength(37)
    expect(outputTokens(await jsonOf(format, "output=37"))).toBe(37)
  })

  test("text is said as it stands", async () => {
    const text = "  Satu, dua\n\ntiga 🚆 empat. "
    const script = `text=${encodeURIComponent(text)}`
    expect(textOfReply(await jsonOf(format, script))).toBe(text)
    expect(deltasOf(await streamOf(format, script)).join("")).toBe(text)
  })

  test("delta is the size of each delta", async () => {
    expect(deltasOf(await streamOf(format, "delta=5000&output=3")).map((one) => one.length)).toEqual([5000, 5000, 5000])
    expect(deltasOf(await streamOf(format, "delta=2&text=abcde"))).toEqual(["ab", "cd", "e"])
  })

  test("the client's limit cuts the answer and says so", async () => {
    const limit = { chat: "max_completion_tokens", messages: "max_tokens", responses: "max_output_tokens" }[format]
    const reply = await jsonOf(format, "think=2&output=50", { [limit]: 5 })
    expect(outputTokens(reply)).toBe(5)
    const reason =
      at(reply, "choices", 0, "finish_reason") ?? at(reply, "stop_reason") ?? at(reply, "incomplete_details", "reason")
    expect(String(reason)).toBe({ chat: "length", messages: "max_tokens", responses: "max_output_tokens" }[format])
    expect(deltasOf(await streamOf(format, "think=2&output=50", { [limit]: 5 }))).toHaveLength(3)
  })

  test("think thinks before it speaks", async () => {
    const text = await streamOf(format, "think=3&output=1")
    const kind = { chat: "reasoning_content", messages: "thinking_delta", responses: "summary_text.delta" }[format]
    const events = text.split("\n\n")
    const thoughts = events.flatMap((event, index) =>
      event.split("data: ")[1]?.includes(kind) === true ? [index] : [],
    )
    expect(thoughts).toHaveLength(3)
    const said = events.findIndex((event) => /"content":"the|text_delta|output_text\.delta/.test(event))
    expect(said).toBeGreaterThan(thoughts[2]!)
  })
})

describe.each(formats)("%s: tools", (format) => {
  const tools = {
    chat: [{ type: "function", function: { name: "look", parameters: {} } }],
    messages: [{ name: "look", input_schema: { type: "object" } }],
    responses: [{ type: "namespace", name: "all", tools: [{ type: "function", name: "look", parameters: {} }] }],
  }[format]

  test("a star calls the first tool that is offered, and only then", async () => {
    expect(callsIn(await jsonOf(format, "tool=*", { tools }))).toBe(1)
    expect(callsIn(await jsonOf(format, "tool=*&tools=3", { tools }))).toBe(3)
    expect(textOfReply(await jsonOf(format, "tool=*"))).toStartWith("Hello")
  })

  test("no tool is called where the request forbids it", async () => {
    const choice = format === "messages" ? { type: "none" } : "none"
    expect(callsIn(await jsonOf(format, "tool=*", { tools, tool_choice: choice }))).toBe(0)
  })

  test("rounds is how often results are answered with another call", async () => {
    const result = {
      chat: { role: "tool", tool_call_id: "call_1", content: "seen" },
      messages: { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: "seen" }] },
      responses: { type: "function_call_output", call_id: "call_1", output: "seen" },
    }[format]
    const field = format === "responses" ? "input" : "messages"
    const after = (results: number) => ({
      tools,
      [field]: [{ role: "user", content: "Look!" }, ...Array.from({ length: results }, () => result)],
    })
    const rounds = [0, 1, 2].map(async (results) => callsIn(await jsonOf(format, "tool=look&rounds=2", after(results))))
    expect(await Promise.all(rounds)).toEqual([1, 1, 0])
  })

  test("steps go on with the results of the whole conversation, whatever is said between them", async () => {
    const result = {
      chat: { role: "tool", tool_call_id: "call_1", content: "seen" },
      messages: { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: "seen" }] },
      responses: { type: "function_call_output", call_id: "call_1", output: "seen" },
    }[format]
    const field = format === "responses" ? "input" : "messages"
    const reminder = { role: "user", content: "Remember the time." }
    const ask = (results: number) => ({
      tools,
      [field]: [reminder, ...Array.from({ length: results }, () => [result, reminder]).flat()],
    })
    const script = `text=done&steps=${encodeURIComponent('[["look",{"at":"first"}],["look",{"at":"second"}]]')}`
    const replies = await Promise.all([0, 1, 2].map((results) => jsonOf(format, script, ask(results))))
    expect(replies.map(callsIn)).toEqual([1, 1, 0])
    expect(replies.map((reply) => /first|second/.exec(JSON.stringify(reply))?.[0])).toEqual([
      "first",
      "second",
      undefined,
    ])
    expect(textOfReply(replies[2])).toBe("done")
  })
})

describe("usage", () => {
  const script = "input=100&cached=40&written=10&reasoning=3&output=7"

  test("chat counts cached tokens in the prompt", async () => {
    expect(at(await jsonOf("chat", script), "usage")).toMatchObject({
      prompt_tokens: 150,
      completion_tokens: 10,
      total_tokens: 160,
      prompt_tokens_details: { cached_tokens: 40, cache_write_tokens: 10 },
      completion_tokens_details: { reasoning_tokens: 3 },
    })
  })

  test("messages leaves them out", async () => {
    const usage = {
      input_tokens: 100,
      cache_read_input_tokens: 40,
      cache_creation_input_tokens: 10,
      output_tokens: 10,
    }
    expect(at(await jsonOf("messages", script), "usage")).toMatchObject(usage)
    const events = eventsOf(await streamOf("messages", script))
    expect(at(events[0], "message", "usage")).toMatchObject({ ...usage, output_tokens: 1 })
    expect(at(events.at(-2), "usage")).toEqual(usage)
  })

  test("responses counts them in the input", async () => {
    expect(at(await jsonOf("responses", script), "usage")).toEqual({
      input_tokens: 150,
      input_tokens_details: { cached_tokens: 40, cache_write_tokens: 10 },
      output_tokens: 10,
      output_tokens_details: { reasoning_tokens: 3 },
      total_tokens: 160,
    })
  })

  test("prompt tokens grow with the prompt by about a quarter of its characters", async () => {
    const messages = [{ role: "user", content: "x".repeat(4000) }]
    const tokens = Number(at(await jsonOf("chat", "", { messages }), "usage", "prompt_tokens"))
    expect(tokens).toBeWithin(1000, 1010)
  })

  test("n answers are n times the output", async () => {
    const reply = await jsonOf("chat", "output=5", { n: 3 })
    expect(at(reply, "usage", "completion_tokens")).toBe(15)
    expect(at(reply, "choices", 2, "index")).toBe(2)
  })

  const hostile = [
    ["negative", (count: unknown) => Number(count) < 0],
    ["fraction", (count: unknown) => Number(count) % 1 !== 0],
    ["string", (count: unknown) => typeof count === "string"],
    ["huge", (count: unknown) => Number(count) > Number.MAX_SAFE_INTEGER],
  ] as const
  test.each(hostile)("%s spoils both counts in every format, streamed or not", async (report, spoiled) => {
    for (const format of formats) {
      const options = format === "chat" ? { stream_options: { include_usage: true } } : {}
      const events = eventsOf(await streamOf(format, `usage=${report}`, options))
      const last = format === "responses" ? at(events.at(-1), "response", "usage") : at(events.at(-2), "usage")
      for (const usage of [at(await jsonOf(format, `usage=${report}`), "usage"), last]) {
        const names = format === "chat" ? ["prompt_tokens", "completion_tokens"] : ["input_tokens", "output_tokens"]
        for (const name of names) expect(spoiled(at(usage, name))).toBeTrue()
      }
    }
  })

  test("none leaves the usage out, null says null", async () => {
    for (const format of formats) {
      expect(await jsonOf(format, "usage=none")).not.toHaveProperty("usage")
      expect(at(await jsonOf(format, "usage=null"), "usage")).toBeNull()
      const options = format === "chat" ? { stream_options: { include_usage: true } } : {}
      const streamed = await streamOf(format, "usage=none", options)
      expect(streamed).not.toContain(format === "chat" ? '"choices":[]' : '"output_tokens"')
    }
  })
})
