import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import type { Prompt, Tool } from "../../src/language/prompt.ts"
import { TOOL_NAMES as MESSAGES } from "../../src/wire/messages/prompt-out.ts"
import { TOOL_NAMES as RESPONSES } from "../../src/wire/responses/tools.ts"
import { NARROW, toolNames } from "../../src/wire/shared/tools.ts"
import { emptyPrompt } from "./chat/ask.ts"

const offering = (...names: string[]): Prompt => ({
  ...emptyPrompt,
  tools: names.map((name): Tool => ({ type: "custom", name, description: undefined, grammar: undefined })),
})
const formats = [
  ["chat", NARROW],
  ["messages", MESSAGES],
  ["responses", RESPONSES],
] as const

describe.each(formats)("a tool's name towards a %s backend", (_, limits) => {
  const taken = new RegExp(`^[a-zA-Z0-9_-]{1,${limits.longest}}$`)

  test("is left alone where the backend takes it", () => {
    const name = "a-Z_9".padEnd(limits.longest, "x")
    expect(toolNames(offering(name), limits).written(name)).toBe(name)
  })

  test("keeps its beginning, and is the same in every prompt", () => {
    const name = `mcp__${"long".repeat(40)}`
    const written = toolNames(offering(name), limits).written(name)
    expect(written).toStartWith(name.slice(0, 50))
    expect(toolNames(offering("other", name, "another"), limits).written(name)).toBe(written)
  })

  test("does not take the name of another tool", () => {
    const long = "x".repeat(180)
    const short = toolNames(offering(long), limits).written(long)
    const names = toolNames(offering(long, short), limits)
    expect(names.written(short)).toBe(short)
    expect(names.written(long)).not.toBe(short)
    expect(names.original(names.written(long))).toBe(long)
  })

  test("is one that the backend takes, of no other tool, with a way back, whatever it was", () => {
    const anyName = fc.oneof(
      fc.string({ minLength: 1 }),
      fc.string({ minLength: 60, maxLength: 140 }),
      fc.constantFrom("a.b", "a/b", "a b"),
    )
    fc.assert(
      fc.property(fc.uniqueArray(anyName, { minLength: 1 }), (all) => {
        const names = toolNames(offering(...all), limits)
        const written = all.map((name) => names.written(name))
        for (const name of written) expect(name).toMatch(taken)
        expect(new Set(written).size).toBe(all.length)
        expect(written.map((name) => names.original(name))).toEqual(all)
      }),
    )
  })

  test("that the model made up stays", () => {
    expect(toolNames(offering("a"), limits).original("b")).toBe("b")
  })
})
