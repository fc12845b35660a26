import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { systemClock } from "../../actors/kernel/clock.ts"
import { eventually } from "../contract/calling.ts"
import { expectFailure } from "../contract/expect-failure.ts"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { type FaultProxy, openFaultProxy } from "../store/fault-proxy.ts"
import { changes, env, freeze, look, playRounds, type ToldWorld, toldWorld } from "./told-in-force.ts"

describe("a call that comes right after the API's answer", () => {
  let gateway: TestGateway
  beforeAll(async () => {
    gateway = await startTestGateway({ env })
  })
  afterAll(() => gateway[Symbol.asyncDispose]())

  test.each(changes)(
    "of $what is refused, each time",
    async (told) => {
      await playRounds(await toldWorld(gateway), told)
    },
    300_000,
  )
})

describe("with a database that answers the actors late", () => {
  let gateway: TestGateway
  let world: ToldWorld
  let proxy: FaultProxy
  beforeAll(async () => {
    gateway = await startTestGateway({ databaseUrl: async (url) => (proxy = await openFaultProxy(url)).url })
    world = await toldWorld(gateway)
    expect(await look(world, world.key.key)).toBe(200)
  })
  afterAll(async () => {
    await gateway[Symbol.asyncDispose]()
    await proxy.close()
  })

  test("a freeze is answered 503 after two seconds, and stands: the key is refused once it was read", async () => {
    proxy.hold("secret_ends")
    // On new connections each statement is sent with its text.
    proxy.cut()
    const [began, ran] = [performance.now(), systemClock.running()]
    const response = await freeze(world, "freeze")
    const [took, running] = [performance.now() - began, systemClock.running() - ran]
    await expectFailure(response, 503, "dependency.database_unavailable")
    expect(took).toBeGreaterThan(1_900)
    expect(running).toBeLessThan(4_000)
    const [account] = await gateway.sql`select frozen_at from accounts where id = ${world.person.accountId}`
    expect(account?.frozen_at).toBeDate()
    expect(await look(world, world.key.key)).toBe(200)
    proxy.deliver()
    await eventually(
      "the freeze is not in force",
      () => look(world, world.key.key),
      (answer) => answer === "auth.account_frozen",
    )
  })
})
