/**
 * Two machines with a gateway each, and one database. The one loses the database and nothing else, then the other one loses all at
 * once, each for some seconds, while customers call both. What they have is spent once, and a limit is never exceeded by more
 * than a share.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { reconcile } from "../../money/reconcile.ts"
import { type ChildGateway, type Customer, House, modelSeed } from "../child.ts"
import { Machine } from "../machine.ts"
import { noServer, PostgresServer } from "../torture/server.ts"

/** Of twenty answers, each of Rp 1,000, or of more where the money left was less. */
const CREDIT_RP = 20_000
const DEAR = { input_micro: 0, output_micro: 50_000_000 }
/** Calls a minute; each of the two has half of it. */
const LIMIT = 10
const SHARE = LIMIT / 2
/** Less than a neighbour waits before it takes a process for dead. */
const CUT_MS = 3_000
const UNANSWERED = 0

/** Undefined where there is all that it takes; else why it is left out. */
const left = noServer ?? Machine.whyNone()
if (left !== undefined) process.stderr.write(`left out: two machines (${left})\n`)
const here = test.skipIf(left !== undefined)

let stack: AsyncDisposableStack
let place: Place

interface Place {
  readonly server: PostgresServer
  /** Where the database is for the first machine. The second one has the first one's cable for that. */
  readonly database: string
  readonly machines: readonly [Machine, Machine]
  readonly gateways: readonly [ChildGateway, ChildGateway]
}

async function build(): Promise<Place> {
  const one = stack.use(Machine.build()!)
  const two = stack.use(Machine.build()!)
  const server = stack.use((await PostgresServer.build([one.ourAddress, two.ourAddress]))!)
  for (const machine of [one, two]) machine.reachAll()
  const models = [modelSeed("dear", "chat", "input=1&output=20", DEAR), modelSeed("cheap", "chat", "input=1&output=1")]
  const house = stack.use(
    await House.build(models, { place: { DATABASE_URL: server.url }, simulatorHost: one.ourAddress }),
  )
  const start = async (machine: Machine, database: string) => {
    const gateway = await house.start({ HOST: machine.address, DATABASE_URL: server.at(database) }, machine.inside)
    stack.defer(() => gateway.kill())
    return gateway
  }
  const database = two.ourAddress
  return {
    server,
    database,
    machines: [one, two],
    gateways: [await start(one, database), await start(two, one.ourAddress)],
  }
}

beforeAll(async () => {
  stack = new AsyncDisposableStack()
  if (left === undefined) place = await build()
}, 60_000)
afterAll(() => stack.disposeAsync())

/** Asks one gateway again and again, and notes when each call began and what became of it. */
function asking({ url }: ChildGateway, { key }: Customer, model: string) {
  const answers: { readonly at: number; readonly status: number }[] = []
  const over = new AbortController()
  const done = (async () => {
    while (!over.signal.aborted) {
      const at = performance.now()
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        headers: { Authorization: `Bearer ${key}` },
        body: JSON.stringify({ model, max_tokens: 20, messages: [{ role: "user", content: "Hello" }] }),
        signal: AbortSignal.timeout(CUT_MS),
      }).catch(() => undefined)
      const text = await response?.text().catch(() => undefined)
      answers.push({ at, status: text === undefined ? UNANSWERED : (response?.status ?? UNANSWERED) })
      await Bun.sleep(50)
    }
  })()
  return {
    answers,
    last: () => answers.at(-1)?.status,
    /** The next call that begins from now on has been answered, with one of these. */
    next: async (...statuses: readonly number[]) => {
      const from = performance.now()
      while (!answers.some(({ at, status }) => at >= from && statuses.includes(status))) await Bun.sleep(20)
    },
    async stop() {
      over.abort()
      await done
    },
  }
}

here(
  "two machines that are cut off in turns spend a balance once, and no limit by more than a share",
  async () => {
    const { server, machines, gateways, database } = place
    const [one, two] = gateways
    const payer = await one.customer(CREDIT_RP)
    const limited = await two.customer(CREDIT_RP, { requests_per_minute: LIMIT })
    const all = gateways.flatMap((gateway) => [asking(gateway, payer, "dear"), asking(gateway, limited, "cheap")])
    const [dearOne, , dearTwo] = all
    if (dearOne === undefined || dearTwo === undefined) throw new Error("nobody asks")
    await Promise.all([dearOne.next(200, 402), dearTwo.next(200, 402)])

    machines[0].lose(database)
    await Bun.sleep(CUT_MS)
    machines[0].find(database)
    await dearOne.next(200, 402)

    machines[1].unplug()
    await Bun.sleep(CUT_MS)
    machines[1].plugIn()
    await dearTwo.next(200, 402)

    // Until neither finds any money: what the one has leased, the other is given.
    while (dearOne.last() !== 402 || dearTwo.last() !== 402) await Bun.sleep(50)
    await Promise.all(all.map((each) => each.stop()))
    for (const gateway of gateways) expect(await gateway.stop()).toBe(0)

    const answered = [dearOne, dearTwo].flatMap(({ answers }) => answers)
    const heard = answered.filter(({ status }) => status === 200).length
    await server.admin(async (sql) => {
      const [charged] = await sql<{ calls: number; total: bigint; left: bigint }[]>`
      select count(*)::int as calls, sum(charge_micro)::bigint as total,
        (select posted_micro from balances where account_id = ${payer.accountId}) as left
      from usage where account_id = ${payer.accountId} and charge_micro > 0`
      expect((charged?.total ?? 0n) + (charged?.left ?? 0n)).toBe(BigInt(CREDIT_RP) * 1_000_000n)
      // What is too little for an answer at the moment in which both ask may be left.
      expect(charged?.left).toBeGreaterThanOrEqual(0n)
      expect(charged?.left).toBeLessThan(2_000_000_000n)
      // An answer that its client did not hear may be paid or not, but none that was heard is free.
      expect(heard).toBeLessThanOrEqual(charged?.calls ?? 0)
      expect(await sql`select from openings`).toHaveLength(0)
      await reconcile(sql)
    })

    const passed = all
      .filter((each) => each !== dearOne && each !== dearTwo)
      .flatMap(({ answers }) => answers)
      .filter(({ status }) => status === 200)
    expect(passed.length).toBeGreaterThanOrEqual(SHARE)
    for (const { at } of passed) {
      const minute = passed.filter((other) => other.at > at - 60_000 && other.at <= at)
      expect(minute.length).toBeLessThanOrEqual(LIMIT + SHARE)
    }
  },
  120_000,
)
