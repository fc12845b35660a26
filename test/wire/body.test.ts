import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { Failure } from "../../src/failure/failure.ts"
import { DEEPEST_NESTING, extentOf, MAX_VALUES, parseBody, readModel } from "../../src/wire/body.ts"

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
  test.each(["0", "{}", "[ ]", '{"a,b":"[{"}'])("holds at its edge for %s", (item) => {
    const each = valuesIn(JSON.parse(item))
    const most = Math.floor((MAX_VALUES - 2) / each)
    const filled = (count: number) => `{"a":[${Array.from({ length: count }, () => item).join(",")}]}`
    expect(parseBody(bytes(filled(most)))).not.toBeInstanceOf(Failure)
    expect(parseBody(bytes(filled(most + 1)))).toMatchObject({ code: "request.invalid" })
  })
})
