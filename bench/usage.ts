/**
 * `bun bench/usage.ts`: the questions of the usage page over 100,000 records of one account, and what keeping the sums by
 * the hour adds to a commit. On the embedded database, or with `LOKET_TEST_DATABASE=postgres` on the server at `DATABASE_URL`.
 */
import { Books } from "../test/money/books.ts"
import { openWorld } from "../test/http/dashboard/world.ts"
import { openTestDatabase } from "../test/store/harness.ts"
import { percentile } from "./load.ts"

const RECORDS = Number(process.env["RECORDS"] ?? 100_000)
const DAYS = 30
const TIMES = 7
const COMMITS = Number(process.env["COMMITS"] ?? 1_500)
const BATCH = 16

const sorted = (values: readonly number[]): number[] => values.toSorted((a, b) => a - b)

const days = (count: number) => `from=${new Date(Date.now() - count * 86_400_000).toISOString()}`

/** Records spread evenly over thirty days, three keys, five models and two formats; one in twenty has failed. */
async function questions(): Promise<void> {
  await using world = await openWorld()
  const { id, token } = await world.signUp()
  const keys: string[] = []
  for (const name of ["one", "two", "three"]) {
    keys.push((await world.call("POST", "/keys", { token, body: { name } })).json.id as string)
  }
  for (let from = 1; from <= RECORDS; from += 10_000) {
    const to = Math.min(RECORDS, from + 9_999)
    await world.sql`
      insert into usage
      select 'req_' || lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || lpad(n::text, 8, '0'), 0, ${id},
        (${keys}::text[])[1 + n % 3], 1, 'model-' || n % 5, case n % 2 when 0 then 'chat' else 'messages' end, true,
        case n % 20 when 0 then 'upstream_error' else 'ok' end, 100, 20, n % 3, 0,
        case n % 20 when 0 then 0 else 200000 end, 0, 1, 1, 1,
        case n % 20 when 0 then 'dependency.upstream_unavailable' end, false, at, 100 + n % 900, 1000
      from generate_series(${from}::int, ${to}::int) n,
        lateral (select now() - make_interval(secs => (${RECORDS} - n) * ${(DAYS * 86_400) / RECORDS}::float8) as at) t`
  }
  const deep = Buffer.from(
    `${(await world.sql`select request_id from usage order by request_id offset ${Math.floor(RECORDS / 20)} limit 1`)[0]?.request_id}.0`,
  ).toString("base64url")
  const asked: Readonly<Record<string, string>> = {
    "summary by hour, 7 days": `/usage/summary?${days(7)}&group_by=hour`,
    "summary by hour and model, 7 days": `/usage/summary?${days(7)}&group_by=hour&split_by=model`,
    "summary by day, 30 days": `/usage/summary?${days(30)}&group_by=day`,
    "summary by day and key, 30 days": `/usage/summary?${days(30)}&group_by=day&split_by=key`,
    "summary by model, one key, 30 days": `/usage/summary?${days(30)}&group_by=model&key_id=${keys[0]}`,
    "summary by day, failed, 30 days": `/usage/summary?${days(30)}&group_by=day&status=upstream_error`,
    "errors, 30 days": `/usage/errors?${days(30)}`,
    "list, first page": "/usage",
    "list, a page 95,000 deep": `/usage?cursor=${deep}`,
    "list, one model": "/usage?model=model-3",
    "list, a model without calls": "/usage?model=none",
    "list, one key": `/usage?key_id=${keys[1]}`,
    "list, failed": "/usage?status=upstream_error",
    "list, a status without calls": "/usage?status=usage_missing",
    "list, model, key and status, 7 days": `/usage?model=model-0&key_id=${keys[0]}&status=upstream_error&${days(7)}`,
    "account summary": "/account/summary",
    keys: "/keys",
  }
  console.log(
    `${RECORDS.toLocaleString("en")} records of one account, ms${"median".padStart(24)}${"worst".padStart(8)}`,
  )
  for (const [name, path] of Object.entries(asked)) {
    const times: number[] = []
    for (let n = 0; n < TIMES; n++) {
      const startedAt = performance.now()
      const { status, text } = await world.call("GET", path, { token })
      times.push(performance.now() - startedAt)
      if (status !== 200) throw new Error(`${path}: ${status} ${text}`)
    }
    const [median, worst] = [percentile(sorted(times), 0.5), Math.max(...times)]
    console.log(`  ${name.padEnd(44)}${median.toFixed(0).padStart(10)}${worst.toFixed(0).padStart(8)}`)
  }
}

/** The same commits with the triggers and without, in turns, so that what else the machine does falls on both. */
async function commits(): Promise<void> {
  await using target = await openTestDatabase()
  const books = await Books.open(target)
  const customer = await books.customer(1_000_000_000_000n)
  const times: Record<"enable" | "disable", number[]> = { enable: [], disable: [] }
  for (let n = 0; n < COMMITS; n++) {
    const mode = n % 2 === 0 ? "enable" : "disable"
    await target.sql.unsafe(`alter table usage ${mode} trigger user`)
    // The first after the change makes its plan anew.
    for (const measured of [false, true, true]) {
      const settlements = Array.from({ length: BATCH }, () => books.settlement(customer))
      const startedAt = performance.now()
      await books.commit(customer.processId, { settlements })
      if (measured) times[mode].push(performance.now() - startedAt)
    }
  }
  const [kept, bare] = [percentile(sorted(times.enable), 0.5), percentile(sorted(times.disable), 0.5)]
  console.log(
    `a commit of ${BATCH} calls, median: ${kept.toFixed(2)} ms with sums, ${bare.toFixed(2)} without: ${(kept / bare).toFixed(3)}`,
  )
}

await questions()
await commits()
process.exit(0)
