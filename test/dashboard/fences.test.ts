import { expect, test } from "bun:test"
import { assert, property, string } from "fast-check"
import { loaded } from "./loaded.ts"

const { codeIn, piecesIn } = await loaded(() => import("../../src/dashboard/pages/playground/exchanges.tsx"))

const text = (text: string) => ({ type: "text", language: "", text })
const code = (text: string, language = "") => ({ type: "code", language, text })

test.each([
  ["", []],
  ["Halo\n\ndunia", [text("Halo\n\ndunia")]],
  ["Begini:\n\n```ts\nconst a = 1\n```\nSelesai.", [text("Begini:"), code("const a = 1", "ts"), text("Selesai.")]],
  ["```\nmasih mengalir", [code("masih mengalir")]],
  ["~~~sh\nls\n~~~", [code("ls", "sh")]],
  ["````md\n```ts\n```\n````", [code("```ts\n```", "md")]],
  ["```js\n```js\n```", [code("```js", "js")]],
  ["a ``` b", [text("a ``` b")]],
])("%j is read as its pieces", (answer, pieces) => {
  expect(piecesIn(answer)).toEqual(pieces as ReturnType<typeof piecesIn>)
})

test("code within a line is set apart, and a lone backtick is a backtick", () => {
  expect(codeIn("pakai `bun test` atau ` saja")).toEqual([
    { isCode: false, text: "pakai " },
    { isCode: true, text: "bun test" },
    { isCode: false, text: " atau ` saja" },
  ])
})

const letters = (words: string) => words.replaceAll(/[\s`~]/g, "")

test("nothing that is said is lost but fences and blank lines", () => {
  assert(
    property(string({ unit: "grapheme-ascii" }), string({ unit: "grapheme-ascii" }), (before, within) => {
      const pieces = piecesIn(`${before}\n\`\`\`\n${within}`)
      expect(letters(before + within)).toContain(letters(pieces.map((piece) => piece.text).join("")))
    }),
  )
})
