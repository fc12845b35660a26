/**
 * The PostgreSQL servers of an address, of which one takes writes: connections go to that one alone. Times in milliseconds.
 *
 * A connection is handed out when its server has said that it is no standby, and that its timeline is not older than the
 * highest that was seen of this database: a primary that comes back after another was promoted still takes writes, which
 * would be lost. Of several servers all are asked, at the start, when a connection is lost, and every second; when a
 * higher timeline shows up, what is connected to an older one is cut at once.
 */
import { systemClock, every } from "../../actors/kernel/clock.ts"
import type { Log } from "../log.ts"
import {
  Connection,
  type ConnectionOptions,
  NoAnswer,
  type ServerIdentity,
  type ServerState,
  within,
} from "./connection.ts"
import { hostName, hostsOf, Timelines } from "./hosts.ts"

/** A server that must not be written to, or no server that may be. */
export class ServerRefused extends Error {
  override readonly name = "ServerRefused"
}

export interface ServersOptions {
  readonly timelines?: Timelines
  readonly log?: Pick<Log, "info" | "error">
}

interface ConnectOptions extends Omit<ConnectionOptions, "url" | "connectTimeoutMs"> {
  /** For all of it: finding the server, connecting, asking it. */
  readonly timeoutMs: number
}

/** A server that may be written to. */
interface Primary {
  readonly address: string
  readonly identity: ServerIdentity | undefined
}

interface Answer {
  readonly address: string
  readonly state: ServerState
}

/** How long all servers together have to say what they are. */
const ASK_MS = 1_500
/** With the time to ask and to connect, a promotion is found within five seconds. */
const ASK_AGAIN_MS = 1_000
/** Whoever asks while there is no primary is not asked for more often. */
const REFUSED_FOR_MS = 250

export class Servers {
  readonly #addresses: readonly string[]
  readonly #timelines: Timelines
  readonly #log: ServersOptions["log"]
  /** All that are open, with what their servers said. */
  readonly #open = new Map<Connection, Primary>()
  /** Of several servers, the one that connections go to; undefined when that is to be asked again. */
  #primary: Primary | undefined
  /** The last one that was found. */
  #chosen: Primary | undefined
  #reportedTwo = false
  /** The first that was accepted; another one has other accounts, or the same ones without what is leased here. */
  #system: string | undefined
  #asking: Promise<Primary> | undefined
  #refused: { readonly why: unknown; readonly until: number } | undefined
  #watch: { stop(): Promise<void> } | undefined
  #closed = false

  /** Throws `WrongHosts`. */
  constructor(url: string, { timelines = new Timelines(), log }: ServersOptions = {}) {
    this.#addresses = hostsOf(url)
    this.#timelines = timelines
    this.#log = log
  }

  /** As people know them, without user and password. */
  get names(): string {
    return this.#addresses.map(hostName).join(", ")
  }

  /** Throws `ServerRefused`, `NoAnswer`, or what postgres.js throws; no connection is left behind then. */
  async connect({ timeoutMs, ...options }: ConnectOptions): Promise<Connection> {
    const until = systemClock.running() + timeoutMs
    const address = await within(timeoutMs, this.#whereTo())
    const leftMs = until - systemClock.running()
    if (leftMs <= 0) throw new NoAnswer(`no answer within ${Math.round(timeoutMs)} ms`)
    const connection = new Connection({ ...options, url: address })
    this.#open.set(connection, { address, identity: undefined })
    connection.onClosed(() => this.#lost(connection))
    try {
      const state = await within(leftMs, connection.prepare())
      await this.#note(state)
      const primary = await this.#judge(address, state)
      this.#system ??= primary.identity?.system
      if (!connection.closed) this.#open.set(connection, primary)
      this.#leaveFor(primary)
      if (connection.closed) throw new ServerRefused(`${hostName(address)} was left for another server`)
      return connection
    } catch (error) {
      connection.discard()
      throw error
    }
  }

  /** Where connections go to now, for another program. Throws as `connect` does. */
  address(timeoutMs: number): Promise<string> {
    return within(timeoutMs, this.#whereTo())
  }

  /** Asks no more. Connections stay as they are. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#watch?.stop()
  }

  async #whereTo(): Promise<string> {
    const [only = "", ...others] = this.#addresses
    if (others.length === 0) return only
    if (!this.#closed) this.#watch ??= every(ASK_AGAIN_MS, () => this.#look())
    if (this.#primary !== undefined) return this.#primary.address
    if (this.#refused !== undefined && performance.now() < this.#refused.until) throw this.#refused.why
    return (await this.#ask()).address
  }

  #lost(connection: Connection): void {
    const { address } = this.#open.get(connection) ?? {}
    this.#open.delete(connection)
    // Whoever connects next asks whether it is the primary still.
    if (this.#primary?.address === address) this.#primary = undefined
  }

  async #look(): Promise<void> {
    // Whoever needs a connection is told why there is none.
    await this.#ask().catch(() => {})
  }

  /** Asks all servers; whoever asks meanwhile gets the same answer. */
  #ask(): Promise<Primary> {
    this.#asking ??= this.#find()
      .catch((why: unknown) => {
        this.#refused = { why, until: performance.now() + REFUSED_FOR_MS }
        throw why
      })
      .finally(() => {
        this.#asking = undefined
      })
    return this.#asking
  }

  async #find(): Promise<Primary> {
    const asked = this.#addresses.map((address) => this.#question(address))
    const answers = await Promise.race([Promise.all(asked), this.#newer(asked)])
    for (const answer of answers) if (!(answer instanceof Error)) await this.#note(answer.state)
    const primaries: Primary[] = []
    const refused: string[] = []
    for (const answer of answers) {
      const judged =
        answer instanceof Error ? answer : await this.#judge(answer.address, answer.state).catch((why: Error) => why)
      if (judged instanceof Error) refused.push(judged.message)
      else primaries.push(judged)
    }
    const found = this.#theOnly(primaries)
    if (found === undefined) throw new ServerRefused(refused.join("; "))
    if (this.#chosen?.address !== found.address || this.#chosen.identity?.timeline !== found.identity?.timeline)
      this.#log?.info("database server chosen", {
        server: hostName(found.address),
        timeline: found.identity?.timeline,
        others: refused.join("; ") || undefined,
      })
    this.#chosen = this.#primary = found
    this.#leaveFor(found)
    return found
  }

  /** One that was promoted since is enough: nobody waits for the one that it was promoted for. Pending where there is none. */
  #newer(asked: readonly Promise<Answer | Error>[]): Promise<[Answer]> {
    const known = this.#chosen?.identity
    const { promise, resolve } = Promise.withResolvers<[Answer]>()
    const look = async (each: Promise<Answer | Error>) => {
      const answer = await each
      if (answer instanceof Error || answer.state.writes !== "taken" || known === undefined) return
      const { identity } = answer.state
      if (identity?.system === known.system && identity.timeline > known.timeline) resolve([answer])
    }
    for (const each of asked) void look(each)
    return promise
  }

  /** What one server is; an error that names it where it does not say so in time. */
  async #question(address: string): Promise<Answer | Error> {
    const connection = new Connection({ url: address, statementTimeoutMs: ASK_MS })
    try {
      const state = await within(ASK_MS, connection.prepare())
      void connection.end()
      return { address, state }
    } catch (error) {
      connection.discard()
      return new Error(`${hostName(address)}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }

  /** A timeline counts from when it is seen, before anything is written there. */
  async #note({ writes, identity }: ServerState): Promise<void> {
    if (writes === "taken" && identity !== undefined && (this.#system ?? identity.system) === identity.system)
      await this.#timelines.saw(identity.system, identity.timeline)
  }

  /** The server as a primary; throws `ServerRefused`. */
  async #judge(address: string, { writes, identity }: ServerState): Promise<Primary> {
    const refuse = (why: string) => new ServerRefused(`${hostName(address)} ${why}`)
    if (writes === "standby") throw refuse("is a standby")
    if (writes === "read-only") throw refuse("is set to be read only")
    if (identity === undefined) return { address, identity }
    const { system, timeline } = identity
    if (this.#system !== undefined && this.#system !== system)
      throw refuse("is another database system than before; start anew to move to it")
    const highest = await this.#timelines.highest(system)
    if (timeline < highest)
      throw refuse(
        `is on timeline ${timeline}, and timeline ${highest} of the same database was seen: it is an old primary. Make it a standby of the new one`,
      )
    return { address, identity }
  }

  /** Of several that take writes, the one that connections go to already. Two others cannot be chosen between. */
  #theOnly(primaries: readonly Primary[]): Primary | undefined {
    const [first, ...others] = primaries
    const isFirst = ({ identity }: Primary) =>
      identity?.system === first?.identity?.system && identity?.startedAt === first?.identity?.startedAt
    const apart = first?.identity === undefined ? others : others.filter((other) => !isFirst(other))
    if (apart.length === 0) {
      this.#reportedTwo = false
      return first
    }
    const names = [first, ...apart].map((each) => hostName(each?.address ?? "")).join(" and ")
    const why = `${names} both take writes: stop one of them`
    const kept = primaries.find(({ address }) => address === this.#chosen?.address)
    if (kept === undefined) throw new ServerRefused(why)
    if (!this.#reportedTwo) this.#log?.error("two primaries", { error: why, kept: hostName(kept.address) })
    this.#reportedTwo = true
    return kept
  }

  /** Cuts what is connected to a server that was the primary before, or is only connecting to another one. */
  #leaveFor({ address, identity }: Primary): void {
    for (const [connection, its] of this.#open) {
      if (its.identity === undefined || identity === undefined) {
        if (its.address !== address) connection.discard()
      } else if (its.identity.timeline < identity.timeline) connection.discard()
    }
  }
}
