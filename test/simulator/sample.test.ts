/** What is answered to a schema when nothing is scripted. */
import { expect, test } from "bun:test"
import { sample } from "../../src/simulator/answer.ts"
import { ask, type Format, simulatorForFile, textOfReply } from "./ask.ts"

const simulator = simulatorForFile()

const samples = [
  [
    { type: "object", properties: { a: { type: "string" }, b: { type: "integer" } } },
    { a: "simulated", b: 1 },
  ],
  [{ type: "number", minimum: 7 }, 7],
  [{ enum: ["red", "green"] }, "red"],
  [{ const: null }, null],
  [{ type: "boolean", default: false }, false],
  [{ type: "array", items: { type: "boolean" }, minItems: 2 }, [true, true]],
  [{ type: "array", items: { type: "boolean" } }, []],
  [{ type: ["string", "null"] }, "simulated"],
  [{ anyOf: [{ type: "null" }, { type: "string" }] }, null],
  [{ $defs: { a: { type: "string" } }, type: "object", properties: { x: { $ref: "#/$defs/a" } } }, { x: "simulated" }],
  [{ $ref: "#/$defs/nobody" }, null],
] as const
test.each(samples)("%j is answered with %j", (schema, answer) => {
  expect(sample(structuredClone(schema) as never)).toEqual(structuredClone(answer) as never)
})

test("a schema that refers to itself comes to an end", () => {
  const schema = { type: "object", properties: { next: { $ref: "#" } } }
  expect(JSON.stringify(sample(schema)).length).toBeLessThan(1_000)
})

const schema = { type: "object", properties: { city: { type: "string" } } }
const asked: Readonly<Record<Format, object>> = {
  chat: { response_format: { type: "json_schema", json_schema: { name: "a", schema } } },
  messages: { output_config: { format: { type: "json_schema", schema } } },
  responses: { text: { format: { type: "json_schema", name: "a", schema } } },
}
test.each(["chat", "messages", "responses"] as const)(
  "%s is answered in JSON where it asks for a schema",
  async (format) => {
    const reply: unknown = await (await ask(simulator, format, "", { ...asked[format] })).json()
    expect(textOfReply(reply)).toBe('{"city":"simulated"}')
  },
)
