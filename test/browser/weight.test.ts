/** What the first load weighs on the wire, as a browser counts it. */
import { expect, test } from "bun:test"
import { openBrowser } from "./harness.ts"

const LIMIT_BYTES = 150 * 1024

test("the first load of home and of sign-in is under 150 KB of compressed script", async () => {
  await using world = await openBrowser()
  const person = await world.gateway.person(10_000)
  for (const wish of [{ person }, {}]) {
    await using visit = await world.visit(wish)
    await visit.open("/")
    const [scripts, bytes] = await visit.page.evaluate(() => {
      const loaded = performance
        .getEntriesByType("resource")
        .filter((entry) => entry instanceof PerformanceResourceTiming)
        .filter(({ name }) => new URL(name).pathname.endsWith(".js"))
      return [loaded.length, loaded.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)]
    })
    expect(scripts).toBeGreaterThan(1)
    expect(bytes).toBeGreaterThan(0)
    expect(bytes).toBeLessThan(LIMIT_BYTES)
  }
})
