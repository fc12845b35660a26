import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { Failure } from "../../src/failure/failure.ts"
import { DEEPEST_NESTING, extentOf, MAX_VALUES, parseBody, readEndUser, readModel } from "../../src/wire/body.ts"

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const code = (text: string): string => {
  const body = parseBody(bytes(text))
  return body instanceof Failure ? body.code : "ok"
}
const nested = (levels: number): string => '{"a":'.repeat(levels - 1) + "{}" + "}".repeat(levels - 1)

describe("a body", () => {
  const rows: readonly (readonly [fact: string, text: string, code: string])[] = [
    ["that is empty is unreadable", "", "request.invalid"],
    ["of white space is unreadable", " \n", "request.invalid"],
    ["that is no JSON is unreadable", '{"model":', "request.invalid"],
    ["whose string never ends is unreadable", '{"model":"m', "request.invalid"],
    ["that is an array is no object", '[{"model":"m"}]', "request.invalid_request"],
    ["that is null is no object", "null", "request.invalid_request"],
    ["that is a text is no object", '"model"', "request.invalid_request"],
    ["that is a number is no object", "1", "request.invalid_request"],
    ["nested to the limit is taken", nested(DEEPEST_NESTING), "ok"],
    ["nested beyond the limit is unreadable", nested(DEEPEST_NESTING + 1), "request.invalid"],
    ["of a million open brackets is unreadable", "[".repeat(1_000_000), "request.invalid"],
    ["may hold any number of brackets in its strings", JSON.stringify({ a: '[{"\\'.repeat(1000) }), "ok"],
    [
      "may hold objects side by side without end",
      JSON.stringify({ a: Array.from({ length: 1000 }, () => ({ b: [] })) }),
      "ok",
    ],
  ]
  for (const [fact, text, expected] of rows) test(fact, () => expect(code(text)).toBe(expected))

  test.each([
    ["that is empty", "", "is empty"],
    ["whose string never ends", '{"model":"m', "is not valid JSON"],
    ["nested beyond the limit", nested(DEEPEST_NESTING + 1), "nests deeper"],
  ])("%s is told so", (_, text, reason) => {
    const body = parseBody(bytes(text))
    expect(body instanceof Failure && body.message).toContain(reason)
  })

  test("that is not UTF-8 is unreadable", () => {
    const body = parseBody(Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d))
    expect(body).toBeInstanceOf(Failure)
  })

  test("comes back as it was written, whatever it holds", () => {
    const object = fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 5 }))
    fc.assert(
      fc.property(object, (value) => {
        const text = JSON.stringify(value)
        expect(JSON.stringify(parseBody(bytes(text)))).toBe(JSON.stringify(JSON.parse(text)))
      }),
    )
  })

  test("with a __proto__ key changes no prototype", () => {
    const body = parseBody(bytes('{"__proto__":{"stream":true},"model":"m"}'))
    if (body instanceof Failure) throw new Error(body.message)
    expect(body["stream"]).toBeUndefined()
    expect(Object.getPrototypeOf(body)).toBe(Object.prototype)
  })

  test("with a key twice has the last one", () => {
    const body = parseBody(bytes('{"model":"cheap","model":"dear"}'))
    expect(body instanceof Failure ? body : readModel(body)).toBe("dear")
  })
})

describe("the model", () => {
  for (const model of [undefined, null, "", 7, true, ["m"], { id: "m" }]) {
    test(`${JSON.stringify(model)} is not a model's id`, () => {
      const found = readModel(model === undefined ? {} : { model })
      expect(found instanceof Failure && found.code).toBe("request.invalid")
    })
  }
  test("is taken as it is written", () => expect(readModel({ model: "Some-Model" })).toBe("Some-Model"))
})

const valuesIn = (json: unknown): number =>
  1 +
  (typeof json === "object" && json !== null
    ? Object.values(json).reduce<number>((sum, inner) => sum + valuesIn(inner), 0)
    : 0)

describe("the count of values before parsing", () => {
  test("is that of what is parsed, however it is spaced", () => {
    fc.assert(
      fc.property(fc.json(), fc.constantFrom(undefined, 1, "\t"), (text, indent) => {
        const json: unknown = JSON.parse(text)
        expect(extentOf(bytes(JSON.stringify(json, null, indent))).values).toBe(valuesIn(json))
      }),
    )
  })
  test("passes over strings of any length, wherever their escapes are", () => {
    const text = fc
      .tuple(fc.nat(70), fc.array(fc.constantFrom('"', "\\", "a", "港", "[{"), { maxLength: 6 }))
      .map(([filled, signs]) => "a".repeat(filled) + signs.join(""))
    fc.assert(
      fc.property(fc.array(text, { maxLength: 5 }), (texts) => {
        expect(extentOf(bytes(JSON.stringify(texts))).values).toBe(1 + texts.length)
        expect(extentOf(bytes(JSON.stringify(texts).slice(0, -2))).values).toBeLessThanOrEqual(1 + texts.length)
      }),
      { numRuns: 1_000 },
    )
  })
  test.each(["0", "{}", "[ ]", '{"a,b":"[{"}'])("holds at its edge for %s", (item) => {
    const each = valuesIn(JSON.parse(item))
    const most = Math.floor((MAX_VALUES - 2) / each)
    const filled = (count: number) => `{"a":[${Array.from({ length: count }, () => item).join(",")}]}`
    expect(parseBody(bytes(filled(most)))).not.toBeInstanceOf(Failure)
    expect(parseBody(bytes(filled(most + 1)))).toMatchObject({ code: "request.invalid" })
  })
})

const roomIn = (text: string) => extentOf(bytes(text)).room * 8

describe("the room of objects whose names are numbers", () => {
  test("is that up to the largest number in each of them", () => {
    const numbered = Object.fromEntries(Array.from({ length: 1_000 }, (_, name) => [name, { 3: 0, 2: 0 }]))
    expect(roomIn(JSON.stringify(numbered))).toBe(999 + 1_000 * 3)
    expect(roomIn(JSON.stringify([numbered, { a: { 7: 0 } }]))).toBe(999 + 1_000 * 3 + 7)
  })
  test.each(['"999"', '"\\u0039\\u0039\\u0039"', '"9\\u00399"', '"999" \n'])("counts %s as a name", (name) => {
    expect(roomIn(`[{${name}:0},{${name}:0}]`)).toBe(2 * 999)
  })
  test.each(['["999","998"]', '{"a":"999"}', '{"1000":0,"4294967294":0}', '{"-1":0,"1.5":0,"9a":0}', '{"999"'])(
    "is none in %s",
    (text) => expect(roomIn(text)).toBe(0),
  )
  test("counts as the values that would take it", () => {
    const most = Math.floor((MAX_VALUES - 2) / (2 + 999 / 8))
    expect(isTaken(listed('{"999":0}', most))).toBe(true)
    expect(isTaken(listed('{"999":0}', most + 1))).toBe(false)
    expect(isTaken(listed('{"999":0}', most + 1), true)).toBe(false)
  })
})

/** A body whose `input` has so many of these; its two outer values come on top. */
const listed = (item: string, count: number) => `{"input":[${`${item},`.repeat(count - 1)}${item}]}`

const isTaken = (body: string, takesTokenIds?: boolean) =>
  !(parseBody(bytes(body), undefined, takesTokenIds) instanceof Failure)

describe("token ids in lists", () => {
  test("are taken beside as many values as any body may have, up to half a million", () => {
    const most = MAX_VALUES + 500_000 - 2
    expect(isTaken(listed("7", most), true)).toBe(true)
    expect(isTaken(listed("7", most + 1), true)).toBe(false)
  })
  test("are values like any other where the endpoint takes none", () => {
    expect(isTaken(listed("7", MAX_VALUES - 2))).toBe(true)
    expect(isTaken(listed("7", MAX_VALUES - 1))).toBe(false)
  })
  // Each of them is one value, and one id or none.
  test.each([
    ["0", true],
    [" 9\n", true],
    ["12", true],
    ["-1", false],
    ["1.5", false],
    ["1e3", false],
    ['"7"', false],
    ['"7\\"8"', false],
    ["true", false],
    ["[]", false],
  ])("are whole numbers alone: %s", (item, isId) => {
    expect(isTaken(listed(item, MAX_VALUES - 1), true)).toBe(isId)
  })
  test("may stand in lists of lists, and no field's number is one", () => {
    expect(isTaken(listed("[1, 2]", MAX_VALUES - 2), true)).toBe(true)
    expect(isTaken(listed("[1, 2]", MAX_VALUES - 1), true)).toBe(false)
    expect(isTaken(listed('{"a":1}', MAX_VALUES / 2 - 1), true)).toBe(true)
    expect(isTaken(listed('{"a":1}', MAX_VALUES / 2), true)).toBe(false)
  })
})

test("a client's end user is what it names, as a text or a number", () => {
  expect([null, undefined, "", true, ["u"], { id: "u" }].map(readEndUser)).toEqual(Array(6).fill(undefined))
  expect(["u", "0", 7, 0].map(readEndUser)).toEqual(["u", "0", "7", "0"])
})
