/** What is in the database: the schema's version, whose the tables are, what we may do, and what the books last said. */
import { counted } from "../../reconciliation/reconcile.ts"
import { currenciesWithoutRate } from "../../store/costs.ts"
import type { Sql } from "../../store/database.ts"
import { EDITED_REMEDY, schemaState } from "../../store/migrate.ts"
import { deniedOf, tableRights } from "../../store/rights.ts"
import { archivesIn, damagedArchives } from "../../store/archives.ts"
import { monthsOf } from "../../store/retention.ts"
import { type Finding, look, ok, wrong } from "../command.ts"

/** Asks only what needs no privilege, and stops where the rest would be guessed. */
export async function schema(sql: Sql, user: string, dataDir: string): Promise<readonly Finding[]> {
  const tables = await tableRights(sql)
  const denied = deniedOf(tables)
  if (denied.length > 0)
    return [
      wrong(`${user} may not read and write ${some(denied)}`, `as their owner: \`loket migrate --grant ${user}\``),
    ]
  const { pending, foreign, edited } = await schemaState(sql)
  if (edited.length > 0)
    return [
      wrong(`migrations were changed after they were applied to this database: ${edited.join(", ")}`, EDITED_REMEDY),
    ]
  if (foreign.length > 0)
    return [
      wrong(
        `the schema is of another version: ${foreign.join(", ")}`,
        "run the version that made it, or a newer one; an older one does not start",
      ),
    ]
  const found: Finding[] = []
  const notOurs = tables.filter(({ is_ours: isOurs }) => !isOurs).map(({ name }) => name)
  if (pending.length === 0) {
    found.push(ok("the schema is up to date"))
    const transfers = tables.find(({ name }) => name === "transfers")
    if (transfers?.rights.includes("update") === false)
      found.push(ok(`${user} may add to the books, and not change them`))
  } else {
    const [schemas] = await sql<{ creates: boolean }[]>`
      select has_schema_privilege(current_schema(), 'create') as creates`
    found.push(
      look(`${pending.length} migrations are to be applied`, "`loket migrate --plan` shows them; `start` applies them"),
    )
    if (schemas?.creates === false)
      found.push(
        wrong(
          `${user} may not create tables, which the migrations do`,
          `as the owner of the tables: \`loket migrate --grant ${user}\``,
        ),
      )
    if (notOurs.length > 0)
      found.push(
        wrong(
          `${some(notOurs)} belong to another role, so that migrations cannot alter them`,
          `as that role: \`loket migrate --grant ${user}\``,
        ),
      )
    return found
  }
  return [...found, ...(await months(sql)), ...(await archives(sql, dataDir)), ...(await books(sql))]
}

/** A call never waits for its month; but only what is in one can be archived. */
async function months(sql: Sql): Promise<Finding[]> {
  const { ahead, hasOthers, inOrder } = await monthsOf(sql)
  const order =
    !inOrder &&
    wrong(
      "the database's collation does not sort request ids by their time",
      "dump it, and restore it into one of `locale 'C.UTF-8'`",
    )
  const next = ahead === 0 && look("next month has no table of records", "a gateway that runs makes it: see its log")
  const others = hasOthers && look("records are in no month: `usage_other`", "a clock was wrong, or no month was made")
  return [order, next, others].filter((finding) => finding !== false)
}

/** By their length alone, which is asked quickly. */
async function archives(sql: Sql, dataDir: string): Promise<Finding[]> {
  const damaged = await damagedArchives(sql, archivesIn(dataDir))
  return damaged.map((what) =>
    wrong(what, "copy it from where `loket archive` was run; `GET /usage/{id}` fails for its calls until then"),
  )
}

const some = (names: readonly string[]): string =>
  names.length <= 3 ? names.join(", ") : `${names.slice(0, 3).join(", ")} and ${names.length - 3} more tables`

async function books(sql: Sql): Promise<Finding[]> {
  const [row] = await sql<{ operators: boolean; accounts: boolean; differences: number | null; models: boolean }[]>`
    select exists (select from accounts where role = 'operator' and deleted_at is null) as operators,
      exists (select from accounts) as accounts, exists (select from models) as models,
      (select differences from reconciliations where ended_at is not null order by id desc limit 1)::int as differences`
  const found: Finding[] = []
  if (row?.models === false)
    found.push(look("the catalogue is empty", "`loket seed` fills it; so does the first start"))
  if (row?.accounts === true && !row.operators)
    found.push(look("nobody is an operator", "`loket operator <email>` makes an account one"))
  for (const currency of await currenciesWithoutRate(sql))
    found.push(
      look(
        `backends bill in ${currency}, which has no exchange rate: what they cost is not known`,
        `\`loket exchange-rate ${currency} <rupiah>\` sets one; see docs/operating/costs.md`,
      ),
    )
  const differences = row?.differences ?? 0
  if (differences > 0)
    found.push(
      wrong(
        `the last reconciliation found ${counted(differences, "difference")}`,
        "`loket reconcile` shows them; see docs/operating/books.md",
      ),
    )
  return found
}
