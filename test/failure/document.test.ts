import { expect, test } from "bun:test"
import { errorsDocument } from "./document.ts"
import { failureCodes } from "../../src/failure/table.ts"

const file = Bun.file(new URL("../../docs/errors.md", import.meta.url))

test("docs/errors.md is what `bun test/failure/document.ts` writes", async () => {
  expect(await file.text()).toBe(errorsDocument())
})

test("every code of the table has its section", async () => {
  const text = await file.text()
  expect(failureCodes.filter((code) => !new RegExp(`^## \\d{3} \`${code}\`$`, "m").test(text))).toEqual([])
})
