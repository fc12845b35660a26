/**
 * What can befall a database, by class. Each strikes under load, lasts for a while, and is over when it resolves. Times in
 * milliseconds.
 */
import type { Random } from "../../../actors/kernel/clock.ts"
import type { FaultProxy } from "../../store/fault-proxy.ts"
import type { House } from "../child.ts"
import { type Restoration, restore } from "./restoration.ts"
import type { PostgresServer } from "./server.ts"
import type { Slot } from "./slot.ts"

export interface Stage {
  readonly house: House
  readonly restorations: Restoration[]
  readonly server: PostgresServer
  /** One before each slot. */
  readonly proxies: readonly FaultProxy[]
  readonly slots: readonly Slot[]
  readonly random: Random
  /** How long a call waits for the ledger. */
  readonly settleDeadlineMs: number
  /** How long a fault lasts at most. */
  readonly longestMs: number
}

/** False when it did not come to it, such as an answer that was not given in time to be lost. */
type Strike = (stage: Stage) => Promise<boolean>

/** Short enough to be borne by the deadlines, or longer than all of them. */
const lasting = ({ random, longestMs }: Stage) =>
  Bun.sleep(random() < 0.5 ? 100 + random() * 900 : longestMs * (0.5 + random() / 2))

const anyOf = <T>({ random }: Stage, from: readonly T[]): T => from[Math.floor(random() * from.length)]!

/** The network of one gateway, or of all. */
const someProxies = (stage: Stage): readonly FaultProxy[] =>
  stage.random() < 0.5 ? stage.proxies : [anyOf(stage, stage.proxies)]

const stopped =
  (mode: "fast" | "immediate"): Strike =>
  async (stage) => {
    await stage.server.stop(mode)
    await lasting(stage)
    await stage.server.start()
    return true
  }

/** How long is waited for a statement of the kind. */
const MET_WITHIN_MS = 6_000

/** A timer of its own: nothing else holds on to a signal that times out by itself. */
function soon(): AbortSignal {
  const controller = new AbortController()
  setTimeout(() => controller.abort(), MET_WITHIN_MS)
  return controller.signal
}

type Statement = (bytes: Buffer) => boolean

/** What carries these, and none of those, in its values. */
const carrying =
  (these: readonly string[], none: readonly string[] = []): Statement =>
  (bytes) =>
    these.every((text) => bytes.includes(text)) && !none.some((text) => bytes.includes(text))

const settling = carrying([",ok,", "req_"])
const voiding = carrying([",billing_error,", "req_"])
const opening = carrying(["req_"], [",ok,", "_error,", ",aborted_stream,"])
const growing = carrying(["acc_", "prc_"], ["req_"])
const crediting = carrying(["topup:simulated:"])

const lost =
  (statement: Statement): Strike =>
  (stage) =>
    anyOf(stage, stage.proxies).dropReplyTo(statement, soon())

export const faults = {
  "server stopped at once": stopped("immediate"),
  "server stopped in order": stopped("fast"),
  "server frozen": async (stage) => {
    stage.server.freeze()
    await lasting(stage)
    stage.server.thaw()
    return true
  },
  "backend killed": async ({ server }) => {
    await server.killBackend()
    await server.start()
    return true
  },
  "backends terminated": async (stage) => {
    for (let n = 0; n < 5; n++) {
      await stage.server.terminateBackends()
      await Bun.sleep(stage.random() * 100)
    }
    return true
  },
  "connections cut": async (stage) => {
    for (const proxy of someProxies(stage)) proxy.cut()
    return true
  },
  "link frozen": async (stage) => {
    const proxies = someProxies(stage)
    for (const proxy of proxies) proxy.freeze()
    await lasting(stage)
    for (const proxy of proxies) proxy.thaw()
    return true
  },
  "connections refused": async (stage) => {
    const proxies = someProxies(stage)
    for (const proxy of proxies) {
      proxy.refuse()
      proxy.cut()
    }
    await lasting(stage)
    for (const proxy of proxies) proxy.accept()
    return true
  },
  "reply lost: opening": lost(opening),
  "reply lost: settlement": lost(settling),
  "reply lost: lease": lost(growing),
  "reply lost: top-up": lost(crediting),
  "reply lost: void": async (stage) => {
    const proxy = anyOf(stage, stage.proxies)
    proxy.freeze()
    await Bun.sleep(stage.settleDeadlineMs + 500)
    const dropped = proxy.dropReplyTo(voiding, soon())
    proxy.thaw()
    proxy.cut()
    return await dropped
  },
  /** Clients are told that nothing is charged of what is charged already, and then the process that knows it dies. */
  "reply lost, then killed": async (stage) => {
    const at = Math.floor(stage.random() * stage.proxies.length)
    const proxy = stage.proxies[at]!
    const met = await proxy.dropReplyTo(settling, soon())
    proxy.refuse()
    proxy.cut()
    await Bun.sleep(stage.settleDeadlineMs + 500)
    await stage.slots[at]!.kill()
    proxy.accept()
    return met
  },
  "disk full": async (stage) => {
    const { disk } = stage.server
    if (disk === undefined) return false
    disk.fill()
    await lasting(stage)
    disk.free()
    await stage.server.start()
    return true
  },
  "restored in mid-load": (stage) => restore({ ...stage, lose: () => stage.server.lose() }),
} satisfies Record<string, Strike>

export type FaultName = keyof typeof faults
export const faultNames = Object.keys(faults) as FaultName[]
