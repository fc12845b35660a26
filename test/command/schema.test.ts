/** `migrate`, `seed` and `operator` on a database that begins without tables. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { join } from "node:path"
import { migrations } from "../../src/store/migrations/index.ts"
import { scratchDirectory } from "../processes/dev-process.ts"
import { directConnection, openEmptyDatabase } from "../store/harness.ts"
import { loket } from "./loket.ts"

let place: Awaited<ReturnType<typeof openEmptyDatabase>>
beforeAll(async () => {
  place = await openEmptyDatabase()
})
afterAll(() => place[Symbol.asyncDispose]())

const run = (...args: string[]) => loket({ DATABASE_URL: place.url }, ...args)

async function change(statement: string): Promise<void> {
  const connection = directConnection(place.url)
  await connection.sql.unsafe(statement)
  await connection.end()
}

test("migrate applies what is missing once, and refuses what another version has made", async () => {
  const applied = await run("migrate")
  expect(applied).toMatchObject({ code: 0, complaint: "" })
  expect(applied.said.split("\n").length).toBe(migrations.length + 1)
  for (const args of [["migrate"], ["migrate", "--plan"]])
    expect(await run(...args)).toEqual({ code: 0, said: "the schema is up to date", complaint: "" })
  await change("insert into schema_migrations (name, sha256) values ('9999_future.sql', '')")
  for (const args of [["migrate"], ["migrate", "--plan"]])
    expect(await run(...args)).toMatchObject({
      code: 1,
      said: "",
      complaint: "the schema is of another version (9999_future.sql): run that version, or a newer one",
    })
  await change("delete from schema_migrations where name = '9999_future.sql'")
})

test("a migration that was edited after it was applied is told as that, with what to do about it", async () => {
  const name = "0030_gathered_answers.sql"
  await change(`update schema_migrations set sha256 = 'x' || sha256 where name = '${name}'`)
  const remedy =
    "run the program that applied it, or put the file back as it was and make the change in a new migration"
  for (const args of [["migrate"], ["migrate", "--plan"], ["seed"]])
    expect(await run(...args)).toEqual({
      code: 1,
      said: "",
      complaint: `Migration ${name} was changed after it was applied to this database: ${remedy}`,
    })
  const doctor = await run("doctor")
  expect(doctor.said.replaceAll(/\s+/g, " ")).toContain(
    `WRONG migrations were changed after they were applied to this database: ${name} → ${remedy}`,
  )
  await change(`update schema_migrations set sha256 = substr(sha256, 2) where name = '${name}'`)
  expect(await run("migrate")).toMatchObject({ code: 0, said: "the schema is up to date" })
})

test("seed fills the catalogue once, and says what operators have set", async () => {
  expect((await run("seed")).said).toMatch(
    /^[1-9]\d* models added, 0 changed, [1-9]\d* price versions added, 0 cost versions added$/,
  )
  expect((await run("seed")).said).toBe("0 models added, 0 changed, 0 price versions added, 0 cost versions added")
  expect(await run("seed", "twice")).toMatchObject({ code: 2, said: "" })
  expect(await run("operator", "nobody@mail.id")).toMatchObject({
    code: 1,
    complaint: expect.stringContaining("loket account list"),
  })
})

test("a catalogue file says which models it retires, and which are on sale still although it does not name them", async () => {
  using scratch = scratchDirectory()
  const seeds = (await Bun.file(join(import.meta.dir, "../../seeds/catalogue.json")).json()) as { models: Model[] }
  const models = seeds.models.map((model) => ({ ...model, fallback: [] }))
  const [first, second, ...others] = models
  const seeded = async (file: object) => {
    const CATALOGUE_FILE = join(scratch.path, "catalogue.json")
    await Bun.write(CATALOGUE_FILE, JSON.stringify(file))
    const { said } = await loket({ DATABASE_URL: place.url, CATALOGUE_FILE }, "seed")
    return said.split("\n").slice(0, -1)
  }
  expect(await seeded({ models })).toEqual([])
  expect(await seeded({ models: [second, ...others] })).toEqual([
    `${first?.model} is not in the file, and on sale still: \`aliases\` retires it (seeds/README.md)`,
  ])
  const aliases = [{ model: first?.model, target: second?.model, until: "2027-03-01T00:00:00Z" }]
  const retired = `${first?.model} is retired: served as ${second?.model} until 2027-03-01T00:00:00.000Z`
  expect(await seeded({ models: [second, ...others], aliases })).toEqual([retired])
  expect(await seeded({ models: [second, ...others], aliases })).toEqual([])
  expect(await seeded({ models })).toEqual([`${first?.model} is on sale again`])
})

test("a first exchange rate with a thousands separator is refused, and none is set", async () => {
  expect(await run("exchange-rate", "USD", "16.000")).toEqual({
    code: 2,
    said: "",
    complaint: "16.000 has three decimals, or a thousands separator: write all digits, as 16250.50",
  })
  expect((await run("exchange-rate")).said).not.toContain("USD  16")
  expect((await run("exchange-rate", "USD", "16250.5")).said).toBe("one USD costs Rp 16250.5 from now on")
})

interface Model {
  readonly model: string
}
