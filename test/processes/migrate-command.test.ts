/** `loket migrate --plan` as a person sees it. It tries migrations on a database of its own, which takes its time to begin. */
import { expect, test } from "bun:test"
import { migrations } from "../../src/store/migrations/index.ts"
import { loket } from "../command/loket.ts"
import { directConnection, openEmptyDatabase } from "../store/harness.ts"

test("a plan names what would run, and changes nothing", async () => {
  await using place = await openEmptyDatabase()
  const run = (...args: string[]) => loket({ DATABASE_URL: place.url }, ...args)
  const last = migrations.at(-1)?.name ?? ""
  expect((await run("migrate")).code).toBe(0)
  const connection = directConnection(place.url)
  const taken = await connection.sql<{ sha256: string }[]>`
    delete from schema_migrations where name = ${last} returning sha256`
  const plan = await run("migrate", "--plan")
  expect(plan.said).toMatch(new RegExp(`^to be applied:\\n  ${last}: up to `))
  expect(plan.code).toBe(0)
  expect([...(await connection.sql`select from schema_migrations where name = ${last}`)]).toEqual([])
  await connection.sql`insert into schema_migrations (name, sha256) values (${last}, ${taken[0]?.sha256 ?? ""})`
  await connection.end()
  expect((await run("migrate", "--plan")).said).toBe("the schema is up to date")
})
