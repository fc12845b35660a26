/** Two gateways on a PostgreSQL server of their own, each behind a network that fails; all of it is killed and broken. */
import { seededRandom } from "../../kernel/virtual-time.ts"
import { openFaultProxy } from "../../store/fault-proxy.ts"
import { House } from "../child.ts"
import { Campaign, type Figures } from "./campaign.ts"
import type { TortureTerms } from "./embedded.ts"
import { faultNames, faults, type Stage } from "./faults.ts"
import { models } from "./models.ts"
import type { Restoration } from "./restoration.ts"
import { PostgresServer } from "./server.ts"
import { Slot } from "./slot.ts"

const SETTLE_DEADLINE_MS = 1_500

/** Undefined where there are no binaries of a server. */
export async function torturePostgres(terms: TortureTerms): Promise<Figures | undefined> {
  const { stack, longestMs } = terms
  const server = await PostgresServer.build()
  if (server === undefined) {
    terms.say("left out: a PostgreSQL server; its programs are not on this machine")
    return undefined
  }
  stack.use(server)
  const env = { SETTLE_DEADLINE_MS: String(SETTLE_DEADLINE_MS), HEARTBEAT_MS: "400" }
  const house = stack.use(await House.build(models, { env, place: { DATABASE_URL: server.url } }))
  const proxies = [await openFaultProxy(server.url), await openFaultProxy(server.url)]
  for (const proxy of proxies) stack.defer(() => proxy.close())
  const slots = proxies.map(({ url }) => new Slot(house, { DATABASE_URL: url }))
  for (const slot of slots) stack.defer(() => slot.abandon())

  const random = seededRandom(terms.seed + 1)
  const restorations: Restoration[] = []
  const common = { house, slots, restorations }
  const stage: Stage = { ...common, server, proxies, random, settleDeadlineMs: SETTLE_DEADLINE_MS, longestMs }
  if (server.disk === undefined) terms.say("left out: a full disk under the server; nothing can be mounted here")
  const names = faultNames.filter((name) => name !== "disk full" || server.disk !== undefined)
  const planned = Array.from({ length: terms.faults }, (_, n) => names[n % names.length]!)
  const campaign = new Campaign({
    ...terms,
    ...common,
    faults: shuffled(planned, random).map((name) => ({ name, strike: () => faults[name](stage) })),
    heal: async () => {
      server.disk?.free()
      server.thaw()
      for (const proxy of proxies) {
        proxy.thaw()
        proxy.cut()
        proxy.accept()
      }
      await server.start()
    },
  })
  return await campaign.run()
}

function shuffled<T>(all: readonly T[], random: () => number): T[] {
  const order = all.map((each) => ({ each, at: random() }))
  return order.sort((a, b) => a.at - b.at).map(({ each }) => each)
}
