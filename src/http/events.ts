/**
 * `GET /events`: what happens on the signed-in person's account, as Server-Sent Events for the dashboard (decisions §10).
 * `balance` says what the account has, `call` that a call has ended, `calls` that some have in another process, `top-up` that one was
 * credited, `refused` that calls were refused, `spending.unusual` that more is spent than usual, `account` that its settings, its keys
 * or its state are others, `catalogue` that models or prices are.
 *
 * A process sends the calls and top-ups that ended in it. Of another one's it says, by the database's notices, that there were some, and
 * the balance. A stream whose reader falls behind is ended; the dashboard connects again by itself, and begins with the balance.
 */
import { Elysia } from "elysia"
import type { Accounts, Session } from "../accounts/accounts.ts"
import { Failure } from "../failure/failure.ts"
import type { FinishedCall } from "../gateway/ports.ts"
import { type LiveBalance, liveBalance } from "./dashboard/account-json.ts"
import { callEventJson } from "./dashboard/usage-rows.ts"
import { type Authenticate, signedInBy, whoseAccount } from "./dashboard/session.ts"
import { edge } from "./edge.ts"

/** How often a stream looks whether its session still stands, and says that it is alive. */
const LOOK_MS = 10_000
/** The least time between two balances of a busy account, and between two looks at its members. */
const SETTLE_DOWN_MS = 250
/** A tab is one stream; somebody with more than so many has lost count of them. Members have as many of their own. */
const STREAMS_PER_PERSON = 20

/** The streams that are open, by account. */
export class Events {
  readonly #streams = new Map<string, Set<Subscriber>>()
  /** Accounts whose balance is about to be told. */
  readonly #settlingDown = new Set<string>()
  /** Accounts whose members' streams are being looked at, and whether they are to be once more. */
  readonly #looking = new Map<string, boolean>()

  finished(call: FinishedCall): void {
    this.#send(call.accountId, "call", callEventJson(call))
    this.balanceChanged(call.accountId)
  }

  finishedElsewhere(accountId: string): void {
    this.#send(accountId, "calls", {})
    this.balanceChanged(accountId)
  }

  credited(accountId: string, topUpId: string): void {
    this.#send(accountId, "top-up", { id: topUpId, status: "paid" })
    this.balanceChanged(accountId)
  }

  /** Its settings, its keys, its members, or whether it is frozen. Any member may change some of it, again and again. */
  accountChanged(accountId: string): void {
    this.#send(accountId, "account", {})
    if (this.#looking.has(accountId)) this.#looking.set(accountId, true)
    else if (this.#streams.has(accountId)) inBackground(() => this.#lookAtMembers(accountId))
  }

  async #lookAtMembers(accountId: string): Promise<void> {
    do {
      this.#looking.set(accountId, false)
      await Promise.allSettled([...(this.#streams.get(accountId) ?? [])].map((each) => each.accountChanged()))
      await Bun.sleep(SETTLE_DOWN_MS)
    } while (this.#looking.get(accountId) === true)
    this.#looking.delete(accountId)
  }

  /** Some of its calls were refused, here or elsewhere: at most one for each time that they are written. */
  refused(accountId: string): void {
    this.#send(accountId, "refused", {})
  }

  /** Somebody is to look at what it spends: a new warning, here or elsewhere. */
  unusual(accountId: string): void {
    this.#send(accountId, "spending.unusual", {})
  }

  catalogueChanged(): void {
    for (const accountId of this.#streams.keys()) this.#send(accountId, "catalogue", {})
  }

  // A call holds some of it, or another process has changed it. Read once for all of the account's streams: fifty members with
  // twenty each would be a thousand questions at each call.
  balanceChanged(accountId: string): void {
    if (!this.#streams.has(accountId) || this.#settlingDown.has(accountId)) return
    this.#settlingDown.add(accountId)
    setTimeout(() => {
      this.#settlingDown.delete(accountId)
      const [anyone] = this.#streams.get(accountId) ?? []
      inBackground(async () => {
        const balance = await anyone?.balance()
        if (balance !== undefined) this.#send(accountId, "balance", balance)
      })
    }, SETTLE_DOWN_MS)
  }

  /** Ends every stream, for a drain. */
  close(): void {
    for (const subscribers of this.#streams.values()) for (const { stream } of subscribers) stream.end()
  }

  count({ accountId, personId }: Pick<Session, "accountId" | "personId">): number {
    return [...(this.#streams.get(accountId) ?? [])].filter((subscriber) => subscriber.personId === personId).length
  }

  add(accountId: string, subscriber: Subscriber): void {
    const subscribers = this.#streams.get(accountId) ?? new Set()
    this.#streams.set(accountId, subscribers.add(subscriber))
  }

  remove(accountId: string, subscriber: Subscriber): void {
    const subscribers = this.#streams.get(accountId)
    subscribers?.delete(subscriber)
    if (subscribers?.size === 0) this.#streams.delete(accountId)
  }

  #send(accountId: string, event: string, data: object): void {
    for (const { stream } of this.#streams.get(accountId) ?? []) stream.send(event, data)
  }
}

interface Subscriber {
  readonly stream: EventStream
  readonly personId: string
  /** Undefined if there is none to read. */
  balance(): Promise<LiveBalance | undefined>
  /** Whoever reads may be no member of the account any more. */
  accountChanged(): Promise<void>
}

export interface EventsDeps {
  readonly events: Events
  readonly accounts: Pick<Accounts, "account">
  readonly authenticate: Authenticate
  readonly lookMs?: number
}

const eventLimits = {
  may: "read",
  tag: "Usage",
  summary: {
    en: "What happens on the account, as Server-Sent Events",
    id: "Apa yang terjadi pada akun, sebagai aliran Server-Sent Events",
  },
  description: {
    en: "`balance` {account_id, balance_micro, held_micro} at first and after each change, `call` with a finished call's outcome, `calls` {} when calls have ended in another process, every two seconds at most from each, `top-up` {id, status}, `refused` {} when calls were refused before they were forwarded, every few seconds at most, `spending.unusual` {} when a key or the account spends more than its owner's ceiling or than usual (`GET /account/breaker` says what), `account` {} when its settings, its keys or its state have changed, `catalogue` {} when models or prices have. `call` and `top-up` are of the process that answers; what others do shows in `calls` within seconds and in the balance, a credit at once, a charge within ten seconds at the latest.",
    id: "`balance` {account_id, balance_micro, held_micro} di awal dan setelah setiap perubahan, `call` dengan hasil panggilan yang selesai, `calls` {} jika ada panggilan yang selesai di proses lain, paling sering setiap dua detik dari masing-masing, `top-up` {id, status}, `refused` {} jika ada panggilan yang ditolak sebelum diteruskan, paling sering setiap beberapa detik, `spending.unusual` {} jika sebuah kunci atau akun berbelanja melebihi batas pemiliknya atau melebihi biasanya (`GET /account/breaker` menjelaskannya), `account` {} jika pengaturan, kunci, atau keadaannya berubah, `catalogue` {} jika model atau harga berubah. `call` dan `top-up` adalah milik proses yang menjawab; yang dilakukan proses lain terlihat pada `calls` dalam beberapa detik dan pada saldo, kredit seketika, biaya paling lambat dalam sepuluh detik.",
  },
  media: "text/event-stream",
} as const

export const eventsController = ({ events, accounts, authenticate, lookMs = LOOK_MS }: EventsDeps) =>
  new Elysia({ name: "events" }).use(edge).get(
    ...signedInBy(authenticate)("/events", eventLimits, async ({ request, session }) => {
      const { accountId, personId } = session
      if (events.count(session) >= STREAMS_PER_PERSON) {
        const message = `${STREAMS_PER_PERSON} streams of events are open; close one.`
        return new Failure("gateway.capacity", { message, retryAfterS: 1 })
      }

      const balance = async (): Promise<LiveBalance | undefined> => {
        const account = await accounts.account(session)
        return account instanceof Failure ? undefined : liveBalance(account)
      }
      const tellBalance = async () => {
        const current = await balance()
        if (current === undefined) stream.end()
        else stream.send("balance", current)
      }
      const look = async () => {
        stream.comment("alive")
        if (await mayRead()) await tellBalance()
        else stream.end()
      }
      const mayRead = async () => {
        const now = await authenticate(request)
        const whose = now instanceof Failure ? now : whoseAccount(now, request, eventLimits.may)
        return !(whose instanceof Failure) && whose.accountId === accountId
      }
      let looking: ReturnType<typeof setInterval> | undefined
      const stream = new EventStream({
        first: "balance",
        begun: () => {
          events.add(accountId, subscriber)
          looking = setInterval(() => inBackground(look), lookMs)
          inBackground(tellBalance)
        },
        ended: () => {
          events.remove(accountId, subscriber)
          clearInterval(looking)
        },
      })
      const accountChanged = async () => {
        if (personId !== accountId && !(await mayRead())) stream.end()
      }
      const subscriber: Subscriber = { stream, personId, balance, accountChanged }
      return new Response(stream.body, {
        headers: {
          "Content-Type": "text/event-stream; charset=utf-8",
          "Cache-Control": "no-store",
          "X-Accel-Buffering": "no",
        },
      })
    }),
  )

/** The database may be away for a moment; the next look sends what was missed. */
const inBackground = (work: () => Promise<void>): void => void work().catch(() => {})

const encoder = new TextEncoder()

/** The least time between two writes: a thousand streams of one busy account would be a thousand writes at each of its calls. */
const GATHER_MS = 100

/** Bytes; some hundred events. */
const UNREAD_LIMIT = 64 * 1024

interface EventStreamOptions {
  /** The event that the stream begins with. What is sent before it follows it. */
  readonly first: string
  /** Somebody reads. Not run for a request whose body nobody asks for, such as HEAD. */
  readonly begun: () => void
  /** Runs once, whoever ended it, and only if it had begun. */
  readonly ended: () => void
}

/**
 * One connection's Server-Sent Events, with a bounded buffer: what is not read soon enough ends the stream instead of
 * growing. A plain ReadableStream, because the framework's plugin for streams buffers without end and throws when its
 * reader leaves (docs/decisions/2026-11-20-events-are-a-plain-stream.md).
 */
export class EventStream {
  readonly body: ReadableStream<Uint8Array>
  readonly #first: string
  readonly #ended: () => void
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined
  /** Events that wait for the first one; undefined once it was sent. */
  #early: string | undefined = ""
  /** What goes out when the moment since the last write is over. */
  #gathered = ""
  #gathering: ReturnType<typeof setTimeout> | undefined

  constructor({ first, begun, ended }: EventStreamOptions) {
    this.#first = first
    this.#ended = ended
    this.body = new ReadableStream<Uint8Array>(
      {
        pull: (controller) => {
          if (this.#controller !== undefined) return
          this.#controller = controller
          begun()
        },
        cancel: () => this.#over(),
      },
      { highWaterMark: 0, size: (chunk) => chunk?.length ?? 0 },
    )
  }

  send(event: string, data: object): void {
    const text = `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
    if (this.#early === undefined) this.#put(text)
    else if (event === this.#first) {
      this.#put(text + this.#early)
      this.#early = undefined
    } else if (this.#early.length < UNREAD_LIMIT) this.#early += text
    else this.end()
  }

  comment(text: string): void {
    this.#put(`: ${text}\n`)
  }

  end(): void {
    if (this.#gathered !== "") this.#controller?.enqueue(encoder.encode(this.#gathered))
    this.#controller?.close()
    this.#over()
  }

  #put(text: string): void {
    if (this.#controller === undefined) return
    this.#gathered += text
    if (this.#gathering === undefined || this.#gathered.length >= UNREAD_LIMIT) this.#flush()
  }

  #flush(): void {
    clearTimeout(this.#gathering)
    this.#gathering = undefined
    const text = this.#gathered
    this.#gathered = ""
    if (this.#controller === undefined || text === "") return
    if ((this.#controller.desiredSize ?? 0) < -UNREAD_LIMIT) return this.end()
    this.#controller.enqueue(encoder.encode(text))
    this.#gathering = setTimeout(() => this.#flush(), GATHER_MS)
  }

  #over(): void {
    if (this.#controller === undefined) return
    this.#controller = undefined
    this.#gathered = ""
    clearTimeout(this.#gathering)
    this.#ended()
  }
}
