/**
 * Two gateways on a primary and its standby, which change places again and again. One gateway reaches them directly, the
 * other from a machine of its own through a PgBouncer before each. Times in milliseconds.
 */
import type { Random } from "../../../actors/kernel/clock.ts"
import { seededRandom } from "../../kernel/virtual-time.ts"
import { House } from "../child.ts"
import { Machine } from "../machine.ts"
import { Pooler } from "../pooler.ts"
import { Campaign, type Figures } from "./campaign.ts"
import type { TortureTerms } from "./embedded.ts"
import { models } from "./models.ts"
import { PostgresServer } from "./server.ts"
import { Slot } from "./slot.ts"

const SETTLE_DEADLINE_MS = 1_500
/** How long a frozen process stands before its watchdog ends it. */
const WATCHDOG_MS = 3_000

export interface PairStage {
  /** The one that takes writes now, and the other. */
  primary: PostgresServer
  standby: PostgresServer
  /** Of the gateway that has one. */
  readonly machine: Machine | undefined
  readonly poolers: readonly Pooler[]
  readonly slots: readonly Slot[]
  readonly random: Random
  readonly longestMs: number
}

/** How soon a gateway finds out that its sessions are shared. */
const LEFT_WITHIN_MS = 15_000

async function holdsWithin(holds: () => boolean, withinMs: number): Promise<boolean> {
  const until = performance.now() + withinMs
  while (!holds()) {
    if (performance.now() > until) return false
    await Bun.sleep(20)
  }
  return true
}

const lasting = ({ random, longestMs }: PairStage) => Bun.sleep(longestMs * (0.25 + 0.75 * random()))

/** The standby is the primary now; the other one is to follow it. */
async function promote(stage: PairStage): Promise<void> {
  await stage.standby.promote()
  const { primary: left } = stage
  stage.primary = stage.standby
  stage.standby = left
}

const lost =
  (mode: "fast" | "immediate") =>
  async (stage: PairStage): Promise<boolean> => {
    await stage.primary.stop(mode)
    await Bun.sleep(1_000 * stage.random())
    await promote(stage)
    await lasting(stage)
    await stage.standby.follow(stage.primary)
    return true
  }

/** Of a customer, as somebody may lock them who looks at the database by hand. */
const customersRows = [
  "select from balances where account_id like 'acc_%' order by account_id",
  "select from key_spend order by key_id, period",
  "select from leases where closed_at is null order by id",
  "select from api_keys order by id",
]

export const pairFaults = {
  "primary crashed, standby promoted": lost("immediate"),
  "primary stopped, standby promoted": lost("fast"),
  /** Nobody has fenced it: it takes writes beside the new one, and everybody connects anew. */
  "old primary comes back": async (stage) => {
    await stage.primary.stop("immediate")
    stage.primary.replicateNoMore()
    await promote(stage)
    await stage.standby.start()
    for (let n = 0; n < 5; n++) {
      await stage.primary.terminateBackends()
      await Bun.sleep(stage.random() * 300)
    }
    await lasting(stage)
    await stage.standby.follow(stage.primary)
    return true
  },
  "primary frozen, standby promoted": async (stage) => {
    stage.primary.freeze()
    await promote(stage)
    await lasting(stage)
    stage.standby.thaw()
    await lasting(stage)
    await stage.standby.follow(stage.primary)
    return true
  },
  "machine vanished": async ({ machine, slots, ...stage }) => {
    if (machine === undefined) return false
    machine.unplug()
    // Nobody hears of its end.
    await slots[1]!.kill()
    await lasting({ machine, slots, ...stage })
    machine.plugIn()
    return true
  },
  "process frozen until its watchdog ends it": async ({ slots, random }) => {
    const slot = slots[Math.floor(random() * slots.length)]!
    ;(await slot.listening()).signal("SIGSTOP")
    await Bun.sleep(WATCHDOG_MS)
    await slot.kill()
    return true
  },
  "a customer's rows locked": async (stage) => {
    const { primary, random } = stage
    const statement = customersRows[Math.floor(random() * customersRows.length)]
    await primary.admin(async (sql) => {
      await sql.unsafe(`begin; ${statement} limit 1 for update`)
      await lasting(stage)
      await sql.unsafe("rollback")
    })
    return true
  },
  "poolers killed": async (stage) => {
    for (const pooler of stage.poolers) await pooler.kill()
    await lasting(stage)
    for (const pooler of stage.poolers) await pooler.start()
    return stage.poolers.length > 0
  },
  /** Whoever is behind them ends, and does not start until they give sessions again. */
  "poolers lend for a transaction": async (stage) => {
    const [, behind] = stage.slots
    if (stage.poolers.length === 0 || behind === undefined) return false
    for (const pooler of stage.poolers) await pooler.begin("transaction")
    const ended = await holdsWithin(() => behind.gateway === undefined, LEFT_WITHIN_MS)
    if (!ended) throw new Error("a gateway goes on behind poolers that lend for a transaction")
    const until = performance.now() + stage.longestMs
    while (performance.now() < until) {
      if (behind.gateway !== undefined) throw new Error("a gateway started behind poolers that lend for a transaction")
      await Bun.sleep(20)
    }
    for (const pooler of stage.poolers) await pooler.begin("session")
    return true
  },
} satisfies Record<string, (stage: PairStage) => Promise<boolean>>

export type PairFaultName = keyof typeof pairFaults
export const pairFaultNames = Object.keys(pairFaults) as PairFaultName[]

const bothOf = (one: string, two: string): string =>
  `postgres://postgres@${new URL(one).host},${new URL(two).host}/postgres`

/** Undefined where there are no binaries of a server. */
export async function torturePair(terms: TortureTerms): Promise<Figures | undefined> {
  const { stack, say } = terms
  const machine = Machine.build()
  if (machine === undefined) say("left out: a machine of its own for one gateway; none can be made here")
  else stack.use(machine)
  const primary = await PostgresServer.build()
  if (primary === undefined) {
    say("left out: two PostgreSQL servers; their programs are not on this machine")
    return undefined
  }
  stack.use(primary)
  const standby = stack.use(await PostgresServer.standbyOf(primary))

  const near = "127.0.0.1"
  const host = machine?.ourAddress ?? near
  const poolers: Pooler[] = []
  for (const { url } of [primary, standby]) {
    const pooler = await Pooler.build(url, { mode: "session", host, settings: { default_pool_size: "60" } })
    if (pooler !== undefined) poolers.push(stack.use(pooler))
  }
  const [one, two] = poolers
  if (one === undefined || two === undefined) say("left out: poolers; there is no PgBouncer on this machine")
  const direct = bothOf(primary.url, standby.url)
  const pooled = one && two ? bothOf(one.url, two.url) : direct
  const env = { SETTLE_DEADLINE_MS: String(SETTLE_DEADLINE_MS), HEARTBEAT_MS: "400" }
  const house = stack.use(
    await House.build(models, { env, place: { DATABASE_URL: direct }, simulatorHost: machine?.ourAddress ?? near }),
  )
  // From another machine only what listens on its cable is reached.
  const far = one && two ? machine : undefined
  const slots = [
    new Slot(house),
    new Slot(house, { DATABASE_URL: pooled, HOST: far?.address ?? near }, far?.inside ?? []),
  ]
  for (const slot of slots) stack.defer(() => slot.abandon())

  const random = seededRandom(terms.seed + 2)
  const stage: PairStage = { primary, standby, machine: far, poolers, slots, random, longestMs: terms.longestMs }
  const planned = Array.from({ length: terms.faults }, (_, n) => pairFaultNames[n % pairFaultNames.length]!)
  const campaign = new Campaign({
    ...terms,
    house,
    slots,
    faults: planned.map((name) => ({ name, strike: () => pairFaults[name](stage) })),
    heal: async () => {
      far?.plugIn()
      for (const server of [stage.primary, stage.standby]) server.thaw()
    },
  })
  return await campaign.run()
}
