import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import type { Json } from "../../../src/language/json.ts"
import { estimateInputTokens } from "../../../src/wire/estimate.ts"
import { RememberedTexts, textTokens } from "../../../src/wire/tokens.ts"
import { samples } from "./samples.ts"

const prompt = (messages: Json, tools: Json = []): number =>
  estimateInputTokens({ messages, tools: [tools], schemas: [] })
const text = "Setiap pagi Bu Sari membuka warungnya. ".repeat(20)

describe("a text's estimate is at most a tenth under and a quarter over the count:", () => {
  for (const [kind, sample] of Object.entries(samples))
    test(kind, () => {
      const ratio = textTokens(sample.text) / sample.tokens
      expect(ratio).toBeGreaterThan(0.9)
      expect(ratio).toBeLessThan(1.25)
    })
})

describe("a text's estimate", () => {
  test("is never under zero, and finite, whatever the text", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 200 }), (any) => {
        const tokens = textTokens(any)
        expect(Number.isFinite(tokens) && tokens >= 0).toBe(true)
      }),
    )
  })
  test("grows when text is added after a line's end", () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (one, other) => {
        expect(textTokens(`${one}\n${other}`)).toBeGreaterThanOrEqual(textTokens(one))
      }),
    )
  })
  // Counts by o200k_base: a text made to look cheap must not be.
  const cheapLooking: readonly (readonly [string, string, number])[] = [
    ["a letter over and over", "a".repeat(200), 25],
    ["spaces", " ".repeat(300), 3],
    ["line ends", "\n".repeat(200), 13],
    ["dashes", "-".repeat(300), 5],
    ["emoji", "😀🎉🔥👍🏽🚀✨💡🇮🇩👨‍👩‍👧❤️", 25],
    ["characters that control", "\u0001".repeat(200), 200],
    ["zeros", "\0".repeat(200), 200],
    ["Thai", "สวัสดีครับ วันนี้อากาศดีมาก เราไปเดินเล่นกันไหม", 18],
    ["Arabic", "مرحبا كيف حالك اليوم أريد أن أذهب إلى السوق", 13],
  ]
  for (const [kind, sample, tokens] of cheapLooking)
    test(`is not far under for ${kind}`, () => expect(textTokens(sample)).toBeGreaterThan(tokens * 0.8))
})

describe("a text that is made up to look cheap is worth at least a fifth of its count:", () => {
  const madeUp: readonly (readonly [string, string, number])[] = [
    ["two letters that are seldom parted", "th".repeat(1_000), 1_000],
    ["three of them", "ntr".repeat(1_000), 2_000],
    ["the same in capitals", "TH".repeat(1_000), 1_000],
    ["the same in words", "onononononononononon ".repeat(100), 1_000],
    ["brackets", "[".repeat(1_000), 500],
    ["backticks", "`".repeat(1_000), 500],
    ["returns", "\r".repeat(1_000), 500],
    ["Samaritan", "ࠅ".repeat(300), 900],
    ["old Cyrillic", "Ѣ".repeat(300), 600],
    ["marks on nothing", "\u0341".repeat(300), 600],
  ]
  for (const [kind, sample, tokens] of madeUp) test(kind, () => expect(textTokens(sample)).toBeGreaterThan(tokens / 5))
})

describe("a text of letters that no vocabulary has is worth three quarters of its count, and not much more:", () => {
  // By o200k_base, of all letters of the block.
  const blocks: readonly (readonly [string, number, number, number])[] = [
    ["Cherokee", 0x13a0, 0x13f5, 258],
    ["parts of Hangul", 0x1100, 0x11ff, 764],
    ["Amharic", 0x1200, 0x1248, 146],
    ["Canadian syllables", 0x1400, 0x167f, 1_905],
    ["Mongolian", 0x1820, 0x1842, 105],
    ["Braille", 0x2800, 0x28ff, 760],
    ["Tifinagh", 0x2d30, 0x2d67, 167],
    ["radicals", 0x2f00, 0x2fd5, 634],
    ["rare Han", 0x3400, 0x4dbf, 19_645],
    ["private use", 0xe000, 0xf8ff, 18_627],
    ["compatible Han", 0xf900, 0xfa6d, 1_093],
    ["forms of Arabic", 0xfb50, 0xfbb1, 290],
    ["runes", 0x16a0, 0x16ea, 223],
    ["cuneiform", 0x12000, 0x12399, 3_675],
    ["Han of the second plane", 0x20000, 0x203ff, 4_019],
    ["emoji", 0x1f600, 0x1f64f, 150],
    ["mathematics", 0x1d400, 0x1d433, 104],
  ]
  test.each(blocks)("%s", (_, from, to, tokens) => {
    const letters = Array.from({ length: to - from + 1 }, (_, at) => String.fromCodePoint(from + at)).join("")
    expect(textTokens(letters) / tokens).toBeWithin(0.75, 1.4)
  })
})

const long = (n: number) => `${n} ${"-".repeat(n % 7)}${"words ".repeat(45)}`

describe("a text that was estimated before", () => {
  const remembered = new RememberedTexts(7n)
  const seed = remembered.seedOf("acc_1")

  test("has the same estimate, whatever the text and its length", () => {
    const any = fc.tuple(fc.string({ unit: "binary", maxLength: 60 }), fc.integer({ min: 1, max: 20 }))
    fc.assert(
      fc.property(fc.array(any, { maxLength: 20 }), (drawn) => {
        const texts = drawn.map(([unit, times]) => unit.repeat(times))
        const expected = texts.map(textTokens)
        for (let round = 0; round < 2; round++)
          expect(texts.map((each) => remembered.tokens(each, seed))).toEqual(expected)
      }),
    )
  })
  test.each([254, 255, 256, 257])(
    "is told from one of the same length, of %d characters, that differs at its end",
    (length) => {
      for (const end of ["a", "1", "-", "漢"]) {
        const each = `${"x".repeat(length - 1)}${end}`
        for (let round = 0; round < 2; round++) expect(remembered.tokens(each, seed)).toBe(textTokens(each))
      }
    },
  )
  test("is forgotten for others, and the table grows for nobody", () => {
    const few = new RememberedTexts(7n)
    for (let n = 0; n < 200_000; n++)
      if (few.tokens(long(n), seed) !== textTokens(long(n))) throw new Error(`text ${n}`)
    expect(few.tokens(long(1), seed)).toBe(textTokens(long(1)))
  })
  test("is one account's, and one process's", () => {
    expect(remembered.seedOf("acc_2")).not.toBe(seed)
    expect(new RememberedTexts(8n).seedOf("acc_1")).not.toBe(seed)
  })
})

const many = (one: Json): Json[] => Array.from({ length: 101 }, () => one)

describe("a prompt's estimate", () => {
  test("is the same whoever sends it, and however often", () => {
    const texts = Object.values(samples).map((sample) => sample.text.repeat(3))
    const messages = [
      {
        role: "user",
        content: [
          ...texts.map((each) => ({ type: "text", text: each })),
          { type: "tool_use", id: "t", name: "f", input: { texts } },
        ],
      },
    ]
    const of = (accountId?: string) =>
      estimateInputTokens({
        messages,
        tools: [[{ name: "f", description: texts[0] ?? "" }]],
        schemas: [{ texts }],
        accountId,
      })
    const expected = of()
    for (const account of ["acc_1", "acc_2", "acc_1"]) expect(of(account)).toBe(expected)
  })

  test("is an integer of at least one, also for nothing", () => {
    expect(prompt("")).toBeGreaterThanOrEqual(1)
    expect(Number.isInteger(prompt(text))).toBe(true)
  })
  test("counts the same text alike as a string and as a part", () => {
    const asString = prompt([{ role: "user", content: text }])
    expect(prompt([{ role: "user", content: [{ type: "text", text }] }])).toBe(asString)
    expect(prompt([{ type: "message", role: "user", content: [{ type: "input_text", text }] }])).toBe(asString)
  })
  test("counts tools with their schemas, calls and results", () => {
    const tools = [
      { name: "f", description: text, input_schema: { type: "object", properties: { path: { type: "string" } } } },
    ]
    const user = { role: "user", content: "Hi" }
    expect(prompt([user], tools) - prompt([user])).toBeGreaterThan(textTokens(text) + 15)
    const call = { role: "assistant", content: [{ type: "tool_use", id: "t", name: "f", input: { path: text } }] }
    const result = {
      role: "user",
      content: [{ type: "tool_result", tool_use_id: "t", content: [{ type: "text", text }] }],
    }
    expect(prompt([user, call, result]) - prompt([user])).toBeGreaterThan(2 * textTokens(text))
  })
  test("counts what stands around each message and each tool, and around a text of its own once", () => {
    const hi = { role: "user", content: "Hi" }
    const tool = { name: "f", input_schema: { type: "object" } }
    const perMessage = (prompt(many(hi)) - prompt([hi])) / 100
    expect(perMessage).toBeGreaterThanOrEqual(4)
    expect(perMessage).toBeLessThan(4 + textTokens("Hi") + 1)
    const perTool = (prompt([], many(tool)) - prompt([], [tool])) / 100
    expect(perTool).toBeGreaterThan(8 + textTokens("f") + textTokens("type") + textTokens("object"))
    expect(perTool).toBeLessThan(20)
    expect(prompt(text)).toBeLessThan(textTokens(text) + 15)
  })
  test("counts long numbers in a schema", () => {
    const numbers = Array.from({ length: 500 }, (_, at) => 100_000_000_000 + at)
    const tokens = estimateInputTokens({ messages: "", tools: [], schemas: [{ enum: numbers }] })
    expect(tokens).toBeGreaterThan(500 * 4)
  })
  test("counts thinking of which there is nothing but its cipher", () => {
    const cipher = (samples["base64"]?.text ?? "").repeat(4)
    const tokens = prompt([{ role: "assistant", content: [{ type: "redacted_thinking", data: cipher }] }])
    expect(tokens).toBeLessThan(textTokens(cipher) / 2)
    expect(tokens).toBeGreaterThan(cipher.length / 8)
  })
  test("counts a system prompt outside of the messages", () => {
    const messages = [{ role: "user", content: "Hi" }]
    const instructions = [{ type: "text", text }]
    const without = prompt(messages)
    expect(estimateInputTokens({ messages, instructions, tools: [], schemas: [] }) - without).toBeGreaterThan(150)
  })
  test("counts encrypted thinking by what it hides, not as text", () => {
    const cipher = (samples["base64"]?.text ?? "").repeat(4)
    const tokens = prompt([{ type: "reasoning", id: "rs", summary: [], encrypted_content: cipher }])
    expect(tokens).toBeLessThan(textTokens(cipher) / 2)
    expect(tokens).toBeGreaterThan(cipher.length / 8)
  })
  test("does not count what only steers the call", () => {
    const plain = prompt([{ role: "user", content: [{ type: "text", text: "Hi" }] }])
    const marked = [{ type: "text", text: "Hi", cache_control: { type: "ephemeral", ttl: "1h" } }]
    expect(prompt([{ role: "user", content: marked }])).toBe(plain)
  })
  test("counts ids and names that are longer than such are", () => {
    for (const field of ["id", "call_id", "status", "phase"])
      expect(prompt([{ type: "function_call", name: "f", arguments: "{}", [field]: text }])).toBeGreaterThan(
        textTokens(text),
      )
  })
  test("counts a tool's examples with their keys and numbers", () => {
    const examples = [{ numbers: Array.from({ length: 500 }, (_, at) => at), [text]: true }]
    const tokens = prompt([], [{ name: "f", input_schema: { type: "object" }, input_examples: examples }])
    expect(tokens).toBeGreaterThan(500 + textTokens(text))
  })
  test("is raised by the family's factor", () => {
    const asked = { messages: text, tools: [], schemas: [] }
    expect(estimateInputTokens(asked, 1.5) / estimateInputTokens(asked)).toBeCloseTo(1.5, 1)
  })
})
