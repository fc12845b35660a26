/** The catalogue over time: retired ids in their grace and after it, and prices that come into force ("Versioning" 4 and 5). */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { ask, eventually, formats, requestId, rowsOf } from "./calling.ts"
import { expectFailure } from "./expect-failure.ts"
import { covers } from "./rows.ts"

let gateway: TestGateway
let person: Person
let key: string

beforeAll(async () => {
  gateway = await startTestGateway()
  person = await gateway.person(1_000_000)
  key = (await gateway.key(person)).key
})
afterAll(() => gateway[Symbol.asyncDispose]())

interface Item {
  readonly model: string
  readonly input_micro: number
}
const catalogue = async (): Promise<Item[]> =>
  ((await (await fetch(`${gateway.url}/models`)).json()) as { data: Item[] }).data

/** Retires a model in favour of another, for so many milliseconds more. */
const retire = async (alias: string, target: string, graceMs: number) => {
  const until = new Date(Date.now() + graceMs)
  await gateway.sql`insert into model_aliases (alias, target, until) values (${alias}, ${target}, ${until})`
  await gateway.refreshCatalogue()
}

describe.concurrent.each(formats)("%s", (format) => {
  describe(covers("retired", "errors.rule5"), () => {
    test.each([true, false])("a retired id is served and billed as its target (stream: %p)", async (stream) => {
      const target = await gateway.model({
        format,
        script: "input=10&output=4",
        input_micro: 3_000,
        output_micro: 7_000,
      })
      const old = await gateway.model({ format, script: "input=10&output=4" })
      await retire(old, target, 60_000)
      const response = await ask(gateway, key, format, old, { stream })
      expect(response.status).toBe(200)
      const text = await response.text()
      expect(text).toContain(`"model":"${target}"`)
      expect(text).not.toContain(`"model":"${old}"`)
      const charge = 10 * 3_000 + 4 * 7_000
      expect(await rowsOf(gateway, requestId(response))).toMatchObject([
        { model: target, status: "ok", charge_micro: BigInt(charge) },
      ])
      expect((await catalogue()).map(({ model }) => model)).not.toContain(old)
    })

    test("after its grace a retired id is unknown, without the catalogue being read again", async () => {
      const target = await gateway.model({ format })
      const old = await gateway.model({ format })
      await retire(old, target, 250)
      await (await ask(gateway, key, format, old)).text()
      const response = await eventually(
        "the grace is over",
        () => ask(gateway, key, format, old),
        ({ status }) => status !== 200,
      )
      await expectFailure(response, 400, "model.unknown")
      expect((await ask(gateway, key, format, target)).status).toBe(200)
    })

    test("a retirement can be taken back", async () => {
      const target = await gateway.model({ format })
      const old = await gateway.model({ format })
      await retire(old, target, -1)
      await expectFailure(await ask(gateway, key, format, old), 400, "model.unknown")
      await gateway.model({ format, model: old })
      const response = await ask(gateway, key, format, old)
      expect(await response.text()).toContain(`"model":"${old}"`)
    })
  })

  test(`${covers("prices.effective")} a price with a future time acts only for requests after it`, async () => {
    const model = await gateway.model({ format, script: "input=100&output=0&ttft=4100" })
    const inForce = async () => (await catalogue()).find((item) => item.model === model)?.input_micro
    const at = Date.now() + 4_000
    await gateway.model({
      format,
      model,
      script: "input=100&output=0&ttft=4100",
      input_micro: 9_000,
      effective_at: new Date(at).toISOString(),
    })
    expect(await inForce()).toBe(1_000)
    // Admitted before the new price is in force, answered after it.
    const early = await ask(gateway, key, format, model)
    expect(early.headers.get("x-cost-rp")).toBe("0.1")
    expect(Date.now()).toBeGreaterThan(at)
    expect(await inForce()).toBe(9_000)
    const late = await ask(gateway, key, format, model)
    expect(late.headers.get("x-cost-rp")).toBe("0.9")
    expect(await gateway.usage(person, requestId(early))).toMatchObject({ charge_micro: 100_000 })
  })
})
