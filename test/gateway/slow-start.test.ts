/** A machine that is slow: while a gateway starts on its embedded database, nobody waits for an answer, so it waits for what it asks. */
import { expect, test } from "bun:test"
import { hasOwnDatabase } from "./binary.ts"
import { startTestGateway } from "./harness.ts"
import { onPostgres } from "../store/harness.ts"
import { type FaultProxy, openFaultProxy } from "../store/fault-proxy.ts"

/** Longer than a gateway that serves waits for anything. */
const SLOW_MS = 6_000

test.skipIf(onPostgres || hasOwnDatabase)("one starts whose database takes longer than a call would wait", async () => {
  const { promise: held, resolve } = Promise.withResolvers<FaultProxy>()
  const starting = startTestGateway({
    databaseUrl: async (url) => {
      const proxy = await openFaultProxy(url)
      proxy.hold("has_table_privilege")
      resolve(proxy)
      return proxy.url
    },
  })
  const proxy = await held
  while (proxy.held === 0) await Bun.sleep(20)
  await Bun.sleep(SLOW_MS)
  proxy.deliver()
  await using gateway = await starting
  expect((await fetch(`${gateway.url}/readyz`)).status).toBe(200)
  expect(await gateway.sql`select id from processes`).toHaveLength(1)
})
