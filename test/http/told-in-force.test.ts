import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { connect } from "node:net"
import { systemClock } from "../../actors/kernel/clock.ts"
import { ask, callsOf, eventually } from "../contract/calling.ts"
import { expectFailure } from "../contract/expect-failure.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
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

/** A call whose head and first bytes are there; it resolves with the answer once the rest was sent. */
function halfCall(url: string, credential: string, body: string, path = "/v1/chat/completions"): () => Promise<string> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  let answer = ""
  socket.on("data", (piece) => (answer += piece.toString()))
  const over = new Promise<void>((resolve) => socket.once("close", () => resolve()))
  const head = [`POST ${path} HTTP/1.1`, "Host: loket", credential, "Connection: close"]
  socket.write(`${head.join("\r\n")}\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, 10)}`)
  return async () => {
    socket.write(body.slice(10))
    await over
    return answer
  }
}

test("a call whose body comes after its key was revoked, or its account frozen, is refused, and costs nothing", async () => {
  await using gateway = await startTestGateway({ env })
  const world = await toldWorld(gateway)
  const { person } = world
  const model = await gateway.model({ format: "chat", script: "text=Yes." })
  const body = JSON.stringify({ model, max_tokens: 16, messages: [{ role: "user", content: "Hello" }] })
  const { balance_micro: before } = await gateway.balance(person)
  for (const [end, code] of [
    [
      async (id: string) => await gateway.dashboard(person, `/keys/${id}/revoke`, { method: "POST" }),
      "api_key_revoked",
    ],
    [async () => await freeze(world, "freeze"), "account_frozen"],
  ] as const) {
    const { id, key } = await gateway.key(person, { requests_per_minute: 1_000 })
    const finish = halfCall(gateway.url, `x-api-key: ${key}`, body)
    let looks = 0
    await eventually(
      "the head is not here",
      async () => {
        looks++
        const answer = await fetch(`${gateway.url}/v1/models`, { headers: { "x-api-key": key } })
        return 1_000 - looks - Number(answer.headers.get("x-ratelimit-remaining"))
      },
      (calls) => calls === 1,
    )
    expect((await end(id)).ok).toBe(true)
    expect(await finish()).toContain(`"auth.${code}"`)
  }
  expect(gateway.simulator.calls).toHaveLength(0)
  expect((await gateway.balance(person)).balance_micro).toBe(before)
})

const bearer = (token: string) => `Authorization: Bearer ${token}`

test("a change whose body comes after its session, its operator's role or its management token has ended is not made", async () => {
  await using gateway = await startTestGateway({ env })
  const { person, operator, key } = await toldWorld(gateway)
  const { json: token } = await posted(gateway, person, `/keys/${key.id}/tokens`, { name: "a class" })
  const adjustment = { amount_micro: 1_000_000, reason: "a gift", idempotency_key: "one" }
  const name = JSON.stringify({ name: "late" })
  const ends = [
    {
      finish: halfCall(gateway.url, bearer(token.token), name, "/v1/keys"),
      end: () => gateway.dashboard(person, `/keys/${key.id}/tokens/${token.id}/revoke`, { method: "POST" }),
    },
    {
      finish: halfCall(
        gateway.url,
        bearer(operator.token),
        JSON.stringify(adjustment),
        `/operator/accounts/${person.accountId}/adjustments`,
      ),
      end: () => gateway.sql`update accounts set role = 'customer' where id = ${operator.accountId}`,
    },
    {
      finish: halfCall(gateway.url, bearer(person.token), name, "/keys"),
      end: () => gateway.dashboard(person, "/auth/sign-out", { method: "POST" }),
    },
  ]
  // All heads are here, and whoever sent them was let in.
  await Bun.sleep(500)
  for (const { end } of ends) await end()
  for (const { finish } of ends) expect(await finish()).toMatch(/^HTTP\/1.1 40[13] /)
  expect(await gateway.sql`select name from api_keys where name = 'late'`).toEqual([] as never)
})

async function posted(gateway: TestGateway, person: Person, path: string, body: object) {
  const response = await gateway.dashboard(person, path, { method: "POST", body: JSON.stringify(body) })
  expect(response.status).toBe(201)
  return { json: (await response.json()) as { readonly id: string; readonly token: string } }
}

describe("while it waits for a slot", () => {
  let gateway: TestGateway
  beforeAll(async () => {
    gateway = await startTestGateway({ env: { CAPACITY_WAIT_MS: "60000" } })
  })
  afterAll(() => gateway[Symbol.asyncDispose]())

  // All at once: each waits for as long as the slot is taken.
  test.concurrent.each([
    [
      "revoked",
      "auth.api_key_revoked",
      ({ gateway, person }, id) => gateway.dashboard(person, `/keys/${id}/revoke`, post),
    ],
    ["rotated", "auth.api_key_revoked", ({ gateway, person }, id) => rotateAtOnce(gateway, person, id)],
    ["frozen with its account", "auth.account_frozen", (world) => freeze(world, "freeze")],
  ] as const satisfies readonly (readonly [string, string, (world: ToldWorld, keyId: string) => Promise<unknown>])[])(
    "a call that waits for a slot while its key is %s is refused, and leaves no trace",
    async (_, code, end) => {
      const world = await toldWorld(gateway)
      const { person } = world
      const model = await gateway.model({ format: "chat", script: "ttft=4000", max_concurrency: 1 })
      const { id, key } = await gateway.key(person, { spending_limit_micro: 1_000_000_000, spending_period: "total" })
      const other = await gateway.key(await gateway.person(100_000))
      const before = ask(gateway, other.key, "chat", model)
      await eventually(
        "nobody has the slot",
        () => callsOf(gateway, model).length,
        (calls) => calls === 1,
      )
      const waiting = ask(gateway, key, "chat", model)
      const used = async () => {
        const models = await fetch(`${gateway.url}/v1/models`, { headers: { "x-api-key": key } })
        return Number(models.headers.get("x-key-usage-micro"))
      }
      await eventually("it does not wait", used, (micro) => micro > 0)
      await end(world, id)
      await expectFailure(await waiting, code === "auth.account_frozen" ? 403 : 401, code)
      expect((await before).status).toBe(200)
      expect(callsOf(gateway, model)).toHaveLength(1)
      expect((await gateway.balance(person)).held_micro).toBe(0)
      expect(await gateway.sql`select from usage where account_id = ${person.accountId}`).toHaveLength(0)
      expect((await ask(gateway, other.key, "chat", model)).status).toBe(200)
    },
  )

  test.concurrent("a call that waits for a slot while its run is ended is refused as the run's next one, and leaves no trace", async () => {
    const person = await gateway.person(100_000)
    const model = await gateway.model({ format: "chat", script: "ttft=4000", max_concurrency: 1 })
    const { key } = await gateway.key(person)
    const ofRun = { headers: { "X-Run-Id": "task-1", "X-Run-Budget-Rp": "50000" } }
    const other = await gateway.key(await gateway.person(100_000))
    const before = ask(gateway, other.key, "chat", model)
    await eventually(
      "nobody has the slot",
      () => callsOf(gateway, model).length,
      (calls) => calls === 1,
    )
    const waiting = ask(gateway, key, "chat", model, {}, ofRun)
    const receipt = async () => {
      const run = await fetch(`${gateway.url}/v1/runs/task-1`, { headers: { "x-api-key": key } })
      return (await run.json()) as { readonly held_micro?: number }
    }
    await eventually("it does not wait", receipt, ({ held_micro: held = 0 }) => held > 0)
    expect((await gateway.post("/v1/runs/task-1/end", key, {})).status).toBe(200)
    await expectFailure(await waiting, 402, "quota.run_limit_exceeded")
    expect((await before).status).toBe(200)
    expect(callsOf(gateway, model)).toHaveLength(1)
    expect((await gateway.balance(person)).held_micro).toBe(0)
    expect(await gateway.sql`select from usage where account_id = ${person.accountId}`).toHaveLength(0)
    expect(await receipt()).toMatchObject({ status: "ended", held_micro: 0, spent_micro: 0, calls: 0 })
    expect((await ask(gateway, key, "chat", model)).status).toBe(200)
  })
})

const post = { method: "POST" }
const rotateAtOnce = async (gateway: TestGateway, person: Person, id: string) => {
  const headers = { "Content-Type": "application/json" }
  const rotated = await gateway.dashboard(person, `/keys/${id}/rotate`, { ...post, headers, body: `{"overlap_s":0}` })
  expect(rotated.ok).toBe(true)
}

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

  test("a call that waits for money while its key is revoked is refused, and leaves no trace", async () => {
    const person = await gateway.person(100_000)
    const model = await gateway.model({ format: "chat" })
    const { id, key } = await gateway.key(person)
    // Its key is known, and its account is not: the first call has to lease.
    expect(await look({ ...world, person }, key)).toBe(200)
    proxy.hold("insert into leases")
    proxy.cut()
    const waiting = ask(gateway, key, "chat", model)
    await eventually(
      "nothing is leased",
      () => proxy.held,
      (held) => held > 0,
    )
    const revoked = await gateway.dashboard(person, `/keys/${id}/revoke`, post)
    proxy.deliver()
    expect(revoked.status).toBe(200)
    await expectFailure(await waiting, 401, "auth.api_key_revoked")
    expect(gateway.simulator.calls).toHaveLength(0)
    expect((await gateway.balance(person)).held_micro).toBe(0)
    expect(await gateway.sql`select from usage where account_id = ${person.accountId}`).toHaveLength(0)
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
