/** One simulator for a test file, and the three ways to ask it. */
import { afterAll, afterEach } from "bun:test"
import type { JsonObject } from "../../src/language/json.ts"
import { type Simulator, startSimulator } from "../../src/simulator/simulator.ts"

export type Format = "chat" | "messages" | "responses"
export const formats: readonly Format[] = ["chat", "messages", "responses"]

const paths = { chat: "/v1/chat/completions", messages: "/v1/messages", responses: "/v1/responses" }

export const simulatorForFile = (): Simulator => {
  const simulator = startSimulator()
  afterEach(() => simulator.reset())
  afterAll(() => simulator.stop())
  return simulator
}

export const bodyFor = (format: Format, script: string, more: JsonObject = {}): JsonObject => {
  const model = script === "" ? "sim" : `sim?${script}`
  const user = [{ role: "user", content: "Where is my train?" }]
  switch (format) {
    case "chat":
      return { model, messages: user, ...more }
    case "messages":
      return { model, messages: user, max_tokens: 1000, ...more }
    case "responses":
      return { model, input: user, ...more }
    default:
      throw new Error(format satisfies never)
  }
}

export const ask = (
  simulator: Simulator,
  format: Format,
  script = "",
  more: JsonObject = {},
  init: RequestInit = {},
): Promise<Response> =>
  fetch(simulator.url + paths[format], {
    method: "POST",
    body: JSON.stringify(bodyFor(format, script, more)),
    ...init,
  })

export const stream = { stream: true }

/** The events' data, parsed where it is JSON. */
export const eventsOf = (text: string): (JsonObject | string)[] =>
  text
    .split("\n\n")
    .filter((event) => event !== "")
    .map((event) => {
      const data = event.slice(event.indexOf("data: ") + 6)
      try {
        return JSON.parse(data) as JsonObject
      } catch {
        return data
      }
    })

/** What came before the connection broke, and whether it did. */
export const readAll = async (response: Response): Promise<{ readonly text: string; readonly broken: boolean }> => {
  const decoder = new TextDecoder()
  let text = ""
  try {
    for await (const chunk of response.body ?? []) text += decoder.decode(chunk, { stream: true })
    return { text, broken: false }
  } catch {
    return { text, broken: true }
  }
}

/** The text deltas of a stream of any format. */
export const deltasOf = (text: string): string[] =>
  eventsOf(text).flatMap((event) => {
    if (typeof event === "string") return []
    const found =
      at(event, "choices", 0, "delta", "content") ??
      at(event, "delta", "text") ??
      (event["type"] === "response.output_text.delta" ? event["delta"] : undefined)
    return typeof found === "string" && found !== "" ? [found] : []
  })

/** A value deep in parsed JSON, or undefined. */
export const at = (value: unknown, ...path: readonly (string | number)[]): unknown => {
  let here = value
  for (const key of path) {
    if (typeof here !== "object" || here === null) return undefined
    here = (here as Record<string | number, unknown>)[key]
  }
  return here
}

/** The text of a whole answer of any format. */
export const textOfReply = (reply: unknown): unknown =>
  at(reply, "choices", 0, "message", "content") ??
  at(reply, "content", 0, "text") ??
  at(reply, "output", 0, "content", 0, "text")
