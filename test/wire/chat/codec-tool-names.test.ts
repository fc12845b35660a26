import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import type { Prompt, Tool } from "../../../src/language/prompt.ts"
import { toolNames } from "../../../src/wire/chat/tool-names.ts"
import { emptyPrompt } from "./ask.ts"

const offering = (...names: string[]): Prompt => ({
  ...emptyPrompt,
  tools: names.map((name): Tool => ({ type: "custom", name, description: undefined, grammar: undefined })),
})
const CHAT = /^[a-zA-Z0-9_-]{1,64}$/

describe("a tool's name towards a chat backend", () => {
  test("is left alone where chat takes it", () => {
    const name = "a-Z_9".padEnd(64, "x")
    expect(toolNames(offering(name)).written(name)).toBe(name)
  })

  test("keeps its beginning, and is the same in every prompt", () => {
    const name = `mcp__${"long".repeat(30)}`
    const written = toolNames(offering(name)).written(name)
    expect(written).toStartWith(name.slice(0, 50))
    expect(toolNames(offering("other", name, "another")).written(name)).toBe(written)
  })

  test("does not take the name of another tool", () => {
    const long = "x".repeat(80)
    const taken = toolNames(offering(long)).written(long)
    const names = toolNames(offering(long, taken))
    expect(names.written(taken)).toBe(taken)
    expect(names.written(long)).not.toBe(taken)
    expect(names.original(names.written(long))).toBe(long)
  })

  test("is one that chat takes, of no other tool, with a way back, whatever it was", () => {
    const anyName = fc.oneof(
      fc.string({ minLength: 1 }),
      fc.string({ minLength: 60, maxLength: 130 }),
      fc.constantFrom("a.b", "a/b", "a b"),
    )
    fc.assert(
      fc.property(fc.uniqueArray(anyName, { minLength: 1 }), (all) => {
        const names = toolNames(offering(...all))
        const written = all.map((name) => names.written(name))
        for (const name of written) expect(name).toMatch(CHAT)
        expect(new Set(written).size).toBe(all.length)
        expect(written.map((name) => names.original(name))).toEqual(all)
      }),
    )
  })

  test("that the model made up stays", () => {
    expect(toolNames(offering("a")).original("b")).toBe("b")
  })
})
