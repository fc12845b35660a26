/** One gateway on its embedded database, killed again and again; its disk runs full where one can be mounted. */
import { cpSync, rmSync } from "node:fs"
import { join } from "node:path"
import { seededRandom } from "../../kernel/virtual-time.ts"
import { templateCopy } from "../../store/harness.ts"
import { House } from "../child.ts"
import { Campaign, type Fault, type Figures } from "./campaign.ts"
import { mountDisk } from "./disk.ts"
import { models } from "./models.ts"
import { type Restoration, restore } from "./restoration.ts"
import { Slot } from "./slot.ts"

/** The template is about 40 MB, and its log grows. */
const DISK_MB = 192
/** Longer than any commit takes on a busy machine: before its first fault nothing may be late. */
const SETTLE_DEADLINE_MS = 4_000

export interface TortureTerms {
  readonly seed: number
  readonly rounds: number
  readonly kills: number
  /** How often the database is broken. */
  readonly faults: number
  /** How long a fault lasts at most, in milliseconds. */
  readonly longestMs: number
  readonly say: (line: string) => void
  /** Takes what is to be cleared away in the end: processes, directories, mounts. */
  readonly stack: AsyncDisposableStack
}

export async function tortureEmbedded(terms: TortureTerms): Promise<Figures> {
  const { stack } = terms
  const disk = terms.faults > 0 ? mountDisk(DISK_MB) : undefined
  if (disk !== undefined) stack.use(disk)
  else if (terms.faults > 0) terms.say("left out: a full disk under the embedded database; nothing can be mounted here")
  const env = { SETTLE_DEADLINE_MS: String(SETTLE_DEADLINE_MS), HEARTBEAT_MS: "400" }
  const place = disk && { place: { DATA_DIR: await onDisk(disk.path) } }
  const house = stack.use(await House.build(models, { env, ...place }))
  const slot = new Slot(house)
  stack.defer(() => slot.abandon())
  const random = seededRandom(terms.seed)
  const full: Fault = {
    name: "disk full (embedded)",
    strike: async () => {
      disk?.fill()
      await Bun.sleep((terms.longestMs * (1 + 7 * random())) / 8)
      disk?.free()
      return true
    },
  }
  const restorations: Restoration[] = []
  const lose = async () => {
    for (const name of ["pg", "withdrawals"]) rmSync(join(house.dataDir, name), { recursive: true, force: true })
  }
  const restored: Fault = {
    name: "restored in mid-load (embedded)",
    strike: () => restore({ ...terms, house, slots: [slot], random, lose, restorations }),
  }
  const kinds = disk === undefined ? [restored] : [full, restored]
  const faults = Array.from({ length: terms.faults }, (_, n) => kinds[n % kinds.length]!)
  const heal = async () => disk?.free()
  const campaign = new Campaign({ ...terms, house, slots: [slot], faults, restorations, heal })
  return await campaign.run()
}

async function onDisk(path: string): Promise<string> {
  const dataDir = join(path, "data")
  cpSync(await templateCopy(), dataDir, { recursive: true })
  return dataDir
}
