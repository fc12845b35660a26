import { expect, test } from "bun:test"
import { until } from "./eventually.ts"

test("a wait in vain ends, and says what it waited for", async () => {
  const heard: string[] = []
  setTimeout(() => heard.push("a notice"), 20)
  await until(() => heard.length === 1)
  const vain = await until(() => heard.length === 2, 1, 50).catch(String)
  expect(vain).toContain("waited 0.05 s in vain until () => heard.length === 2")
})
