/**
 * Hears what other processes on the same PostgreSQL server changed: LISTEN on a connection of its own, replaced when it is
 * lost. Notices are not kept for who is away, so after each replacement anything may have changed. They only make things
 * quick; nothing is wrong for want of one. Times in milliseconds.
 *
 * The embedded database needs none of this: it has one process, which knows what it did.
 */
import { type Micro, micro } from "../../actors/money/micro.ts"
import { type Connection, pause, within } from "./connection.ts"
import type { Database } from "./database.ts"
import type { Servers } from "./servers.ts"

export type Notice =
  | { readonly about: "account" | "key" | "breaker" | "run"; readonly id: string; readonly what: "freed" }
  /** By so much, in the process named. */
  | {
      readonly about: "account" | "key" | "breaker" | "run"
      readonly id: string
      readonly what: "short"
      readonly processId: string
      readonly amount: Micro
    }
  | { readonly about: "key" | "breaker"; readonly id: string; readonly what: "changed" }
  /** Before its time; in milliseconds since the epoch. */
  | { readonly about: "run"; readonly id: string; readonly what: "ended"; readonly endsAt: number }
  /** Its settings, its keys, its members, or whether it is frozen: for whoever looks at it. */
  | { readonly about: "account"; readonly id: string; readonly what: "changed" }
  /** Some of its calls were refused. */
  | { readonly about: "account"; readonly id: string; readonly what: "refused" }
  /** Some of its calls have ended in the process named. */
  | { readonly about: "account"; readonly id: string; readonly what: "called"; readonly processId: string }
  /** Its owner has a warning of what it spends. */
  | { readonly about: "account"; readonly id: string; readonly what: "unusual" }
  /** One begins to take calls, ends taking them, or was closed. */
  | { readonly about: "processes"; readonly what: "changed" }
  /** Models, prices or retired ids: all of it is to be read again. */
  | { readonly about: "catalogue"; readonly what: "changed" }
  /** The pages that keys list. */
  | { readonly about: "origins"; readonly what: "changed" }

export interface NoticesOptions {
  /** Not through a pooler that shares sessions. */
  readonly servers: Servers
  /** Accounts, runs and purses of breakers by id, keys by the hex of their hash. */
  readonly heard: (notice: Notice) => void
  /** Some may have been missed. */
  readonly missed: () => void
}

const ANSWER_MS = 5_000
/** How often a silent connection is asked whether it still is one. */
const LOOK_MS = 2_000
const AGAIN_MS = 100

export class Notices {
  readonly #options: NoticesOptions
  readonly #stopped = Promise.withResolvers<void>()
  #over = false
  #listening: Promise<void> = Promise.resolve()

  private constructor(options: NoticesOptions) {
    this.#options = options
  }

  /** Resolves once it listens, or once the first attempt has failed and others follow. */
  static async listen(options: NoticesOptions): Promise<Notices> {
    const notices = new Notices(options)
    notices.#listening = notices.#listen(await notices.#connect())
    return notices
  }

  async stop(): Promise<void> {
    this.#over = true
    this.#stopped.resolve()
    await this.#listening
  }

  async #listen(first: Connection | undefined): Promise<void> {
    let connection = first
    while (!this.#over) {
      if (connection !== undefined) await this.#lookAfter(connection)
      connection?.discard()
      if (this.#over) return
      connection = await this.#connect()
      if (connection === undefined) await pause(AGAIN_MS, this.#stopped.promise)
      else this.#options.missed()
    }
    connection?.discard()
  }

  /** Returns when the connection is lost, or not needed any more. */
  async #lookAfter(connection: Connection): Promise<void> {
    const lost = new Promise<void>((resolve) => connection.onClosed(resolve))
    while (!this.#over && !connection.closed) {
      await Promise.race([lost, pause(LOOK_MS, this.#stopped.promise)])
      try {
        await within(ANSWER_MS, connection.sql`select 1`)
      } catch {
        // Whatever it was, another connection listens as well.
        return
      }
    }
  }

  async #connect(): Promise<Connection | undefined> {
    let connection: Connection | undefined
    try {
      connection = await this.#options.servers.connect({
        timeoutMs: ANSWER_MS,
        statementTimeoutMs: ANSWER_MS,
        onNotify: (_, payload) => {
          const notice = parseNotice(payload)
          if (notice !== undefined) this.#options.heard(notice)
        },
      })
      await within(ANSWER_MS, connection.sql`listen loket`)
      return connection
    } catch {
      connection?.discard()
      return undefined
    }
  }
}

/** Words, as the statements and triggers that notify put them; a newer version of the program may say more. */
export function parseNotice(payload: string): Notice | undefined {
  const [what, about, id = "", third = "", amount = ""] = payload.split(" ")
  if (about === "processes") return what === "changed" ? { what, about } : undefined
  if (what === "changed" && (about === "catalogue" || about === "origins")) return { what, about }
  if (about !== "account" && about !== "key" && about !== "breaker" && about !== "run") return undefined
  if (what === "freed") return { what, about, id }
  if (what === "short" && /^\d+$/.test(amount))
    return { what, about, id, processId: third, amount: micro(BigInt(amount)) }
  if (what === "ended" && about === "run" && /^\d{1,15}$/.test(third)) return { what, about, id, endsAt: Number(third) }
  if (what === "called" && about === "account" && third !== "") return { what, about, id, processId: third }
  if ((what === "refused" || what === "unusual") && about === "account") return { what, about, id }
  return what === "changed" && about !== "run" ? { what, about, id } : undefined
}

/** Tells every process, this one too. A lost notice is harmless: whoever looks sees it with the next thing that it asks. */
export function tellAccountChanged(database: Database, accountId: string): void {
  database.run((sql) => sql`select pg_notify('loket', ${`changed account ${accountId}`})`).catch(() => {})
}

/** How long calls are gathered before other processes are told of them; milliseconds. */
const CALLS_MS = 2_000

/** Tells the other processes whose calls have ended in this one: one notice of an account, however many calls there were. */
export function callTeller(database: Database, processId: string): (accountId: string) => void {
  const called = new Set<string>()
  const tell = () => {
    const ids = [...called]
    called.clear()
    database
      .run(
        (sql) => sql`
          select pg_notify('loket', concat_ws(' ', 'called account', id, ${processId}::text)) from unnest(${ids}::text[]) as t (id)`,
      )
      .catch(() => {})
  }
  return (accountId) => {
    if (called.size === 0) setTimeout(tell, CALLS_MS).unref()
    called.add(accountId)
  }
}
