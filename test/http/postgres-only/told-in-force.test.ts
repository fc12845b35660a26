/** One of two processes on a database: told is in force where it was told at once, and in the other within a second. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { systemClock } from "../../../actors/kernel/clock.ts"
import { startTestGateway, type TestGateway } from "../../gateway/harness.ts"
import { changes, env, playRounds, type ToldWorld, toldWorld } from "../told-in-force.ts"

let gateway: TestGateway
let other: TestGateway
let databaseUrl: string
beforeAll(async () => {
  gateway = await startTestGateway({ env, databaseUrl: (url) => (databaseUrl = url) })
  other = await startTestGateway({ env, databaseUrl: () => databaseUrl })
})
afterAll(async () => {
  await other[Symbol.asyncDispose]()
  await gateway[Symbol.asyncDispose]()
})

test.each(changes)(
  "a call right after the answer about $what is refused, each time",
  async (told) => {
    await playRounds(await toldWorld(gateway), told)
  },
  120_000,
)

test.each(changes)("$what is refused by the other process within a second", async (told) => {
  const world = await toldWorld(gateway)
  const there: ToldWorld = { ...world, gateway: other }
  for (let round = 0; round < 5; round++) {
    const key = await told.key(world)
    expect(await told.call(there, key.key)).toBe(200)
    await told.change(world, key)
    const toldAt = systemClock.running()
    let answer = await told.call(there, key.key)
    while (answer !== told.refusal && systemClock.running() < toldAt + 1_000) answer = await told.call(there, key.key)
    expect(answer).toBe(told.refusal)
    await told.undo?.(world)
    // Also to the other process, before the next round.
    while (told.undo !== undefined && (await told.call(there, key.key)) !== 200) await Bun.sleep(5)
  }
})

const toPage = ({ status, headers }: Response) =>
  headers.get("x-error-code") ?? [status, headers.get("access-control-allow-origin")]
const allowed = (page: string) => ({ preflight: [204, page], call: [200, page] })

test("a page that a key's list loses is refused by the other process within a second, and one that it gains is let in", async () => {
  const { person } = await toldWorld(gateway)
  const { id, key } = await gateway.key(person)
  const seenBy = async ({ url }: TestGateway, page: string) => ({
    preflight: await fetch(`${url}/v1/chat/completions`, {
      method: "OPTIONS",
      headers: { Origin: page, "Access-Control-Request-Method": "POST" },
    }).then(toPage),
    call: await fetch(`${url}/v1/models`, { headers: { "x-api-key": key, Origin: page } }).then(toPage),
  })
  const refused = { preflight: "request.method_not_allowed", call: "auth.key_not_allowed" }
  // A key without a list is asked nothing, and no page may read what it is told.
  const unasked = { preflight: "request.method_not_allowed", call: [200, null] }
  const revoked = { preflight: "request.method_not_allowed", call: "auth.api_key_revoked" }

  let before = "https://round.example"
  const list = async (at: TestGateway, origins: readonly string[] | null) => {
    const { status } = await at.dashboard(person, `/keys/${id}`, { method: "PATCH", body: JSON.stringify({ origins }) })
    expect(status).toBe(200)
  }
  const within = async (at: TestGateway, wanted: Readonly<Record<string, Awaited<ReturnType<typeof seenBy>>>>) => {
    const toldAt = systemClock.running()
    const seen = async () =>
      Object.fromEntries(
        await Promise.all(Object.keys(wanted).map(async (page) => [page, await seenBy(at, page)] as const)),
      )
    let answers = await seen()
    while (!Bun.deepEquals(answers, wanted) && systemClock.running() < toldAt + 1_000) answers = await seen()
    expect(answers).toEqual(wanted)
  }
  for (let round = 0; round < 10; round++) {
    const [here, there] = round % 2 === 0 ? [gateway, other] : [other, gateway]
    const page = `https://round-${round}.example`
    await within(there, { [page]: round === 0 ? unasked : refused })
    await list(here, [page])
    await within(there, { [page]: allowed(page), [before]: refused })
    before = page
  }
  await list(gateway, null)
  await within(other, { [before]: unasked })
  await list(other, [before])
  await within(gateway, { [before]: allowed(before) })
  expect((await gateway.dashboard(person, `/keys/${id}/revoke`, { method: "POST" })).status).toBe(200)
  await within(other, { [before]: revoked })
})
