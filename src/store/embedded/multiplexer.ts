/**
 * Many clients on the one session of an embedded Postgres, over a unix socket. A client keeps the session from its first
 * message to the answer of its Sync or simple query, and through a transaction, so what the protocol keeps per session
 * (the unnamed statement and portal, skipping to Sync after an error) never mixes between clients: a multiplexer that
 * took turns message by message was seen to answer 350 of 400 concurrent `sql.unsafe` calls with another call's rows.
 * What outlives a turn is shared: SET without LOCAL, session advisory locks, temporary tables.
 */
import type { Socket } from "bun"

/** The embedded Postgres: answers frontend messages in the order in which they are handed over. */
export interface Backend {
  execute(messages: Uint8Array, onAnswer: (bytes: Uint8Array) => void): Promise<void>
  inTransaction(): boolean
}

export interface Multiplexer {
  /** Does something with the backend while no client has it, before those who wait for it. */
  between(work: () => Promise<void>): Promise<void>
  /** Hangs up on all clients and stops listening. */
  close(): Promise<void>
}

/** A client that holds the session and says nothing for so long is hung up on; the clients are in this same process. */
const TURN_SILENCE_MS = 5000

/** `onFailure` is told when the backend itself has failed: nobody is answered any more. */
export async function listen(
  backend: Backend,
  socketPath: string,
  onFailure: (error: unknown) => void,
): Promise<Multiplexer> {
  const turns = new Turns(backend, onFailure)
  // Bun's own sockets and not `node:net`, whose streams take longer than most statements.
  const server = Bun.listen<Client>({
    unix: socketPath,
    socket: {
      open: (socket) => {
        socket.data = new Client(socket)
      },
      data: ({ data: client }, bytes) => {
        try {
          for (const unit of client.receive(bytes)) turns.take(client, unit)
        } catch (error) {
          // Thrown on, it would be taken for an error of the socket, and the client would wait for ever.
          onFailure(error)
        }
      },
      drain: ({ data: client }) => client.drained(),
      close: ({ data: client }) => turns.leave(client),
      // An error is followed by the close that clears up.
      error: () => {},
    },
  })
  return {
    between: (work) => turns.between(work),
    close: async () => {
      server.stop(true)
      await turns.idle()
    },
  }
}

/** Messages that are executed together. */
interface Unit {
  readonly bytes: Uint8Array
  /** The last one asks for ReadyForQuery, so that the turn may end with its answer. */
  readonly complete: boolean
}

/** Who has the session, and who waits for it. */
class Turns {
  readonly #backend: Backend
  readonly #onFailure: (error: unknown) => void
  readonly #waiting: Client[] = []
  readonly #errands: (() => Promise<void>)[] = []
  #holder: Client | undefined
  #running: Promise<void> | undefined
  #silence: ReturnType<typeof setTimeout> | undefined

  constructor(backend: Backend, onFailure: (error: unknown) => void) {
    this.#backend = backend
    this.#onFailure = onFailure
  }

  between(work: () => Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#errands.push(() => work().then(resolve, reject))
      this.#start()
    })
  }

  take(client: Client, unit: Unit): void {
    client.units.push(unit)
    if (client !== this.#holder && !this.#waiting.includes(client)) this.#waiting.push(client)
    this.#start()
  }

  leave(client: Client): void {
    client.gone = true
    client.units.length = 0
    // It takes a last turn, in which its leftovers are cleared away.
    if (client !== this.#holder && !this.#waiting.includes(client)) this.#waiting.push(client)
    this.#start()
  }

  /** Resolves when nothing is being executed. */
  async idle(): Promise<void> {
    await this.#running
  }

  #start(): void {
    this.#running ??= this.#run()
      .catch(this.#onFailure)
      .finally(() => {
        this.#running = undefined
      })
  }

  async #run(): Promise<void> {
    clearTimeout(this.#silence)
    for (;;) {
      const errand = this.#holder === undefined ? this.#errands.shift() : undefined
      if (errand !== undefined) {
        await errand()
        continue
      }
      const holder = (this.#holder ??= this.#waiting.shift())
      if (!holder) return
      if (holder.gone) {
        await this.#clearAfter(holder)
        this.#holder = undefined
        continue
      }
      const unit = holder.units.shift()
      if (!unit) {
        this.#silence = setTimeout(() => holder.socket.terminate(), TURN_SILENCE_MS)
        return
      }
      await this.#backend.execute(unit.bytes, (bytes) => holder.answer(bytes))
      if (unit.complete && !this.#backend.inTransaction()) {
        this.#holder = undefined
        if (holder.units.length > 0 || holder.gone) this.#waiting.push(holder)
      }
    }
  }

  /** Ends what a vanished client may have left half done, and forgets its prepared statements. */
  async #clearAfter(client: Client): Promise<void> {
    await this.#backend.execute(sync, nobody)
    if (this.#backend.inTransaction()) await this.#backend.execute(simpleQuery("rollback"), nobody)
    if (client.prepared.size === 0) return
    const closes = Array.from(client.prepared, (name) => message("C", `S${name}\0`))
    await this.#backend.execute(Buffer.concat([...closes, sync]), nobody)
  }
}

/** One connection: cuts its bytes into units. */
class Client {
  readonly socket: Socket<Client>
  readonly units: Unit[] = []
  /** Names of its prepared statements, which live in the shared session. */
  readonly prepared = new Set<string>()
  gone = false
  #received: Buffer = Buffer.alloc(0)
  #started = false
  /** What the socket has not taken yet. */
  readonly #unsent: Uint8Array[] = []

  constructor(socket: Socket<Client>) {
    this.socket = socket
  }

  answer(bytes: Uint8Array): void {
    if (this.gone) return
    const sent = this.#unsent.length === 0 ? Math.max(0, this.socket.write(bytes)) : 0
    // Copied, because the bytes are a view of the database's own memory.
    if (sent < bytes.length) this.#unsent.push(bytes.slice(sent))
  }

  drained(): void {
    for (let next = this.#unsent[0]; next !== undefined; next = this.#unsent[0]) {
      const sent = this.socket.write(next)
      if (sent < next.length) {
        this.#unsent[0] = next.subarray(Math.max(0, sent))
        return
      }
      this.#unsent.shift()
    }
  }

  receive(bytes: Buffer): Unit[] {
    this.#received = this.#received.length === 0 ? bytes : Buffer.concat([this.#received, bytes])
    const units: Unit[] = []
    if (!this.#started) {
      const startup = this.#takeStartup()
      if (startup) units.push({ bytes: startup, complete: true })
    }
    if (!this.#started) return units
    let end = 0
    let complete = false
    for (let length = this.#lengthAt(end); length !== undefined; length = this.#lengthAt(end)) {
      const type = String.fromCharCode(this.#received[end] ?? 0)
      if (type === "X") {
        this.socket.end()
        break
      }
      if (type === "P") this.prepared.add(cString(this.#received, end + 5))
      end += length
      complete = type === "S" || type === "Q"
      if (complete) {
        units.push({ bytes: this.#take(end), complete })
        end = 0
      }
    }
    // What ends in a Flush, or is still to be continued, is executed already: its answers may be waited for.
    if (end > 0) units.push({ bytes: this.#take(end), complete: false })
    return units
  }

  /** The length of the message at an offset, if it is there to its end. */
  #lengthAt(offset: number): number | undefined {
    if (this.#received.length < offset + 5) return undefined
    const length = 1 + this.#received.readUInt32BE(offset + 1)
    return this.#received.length >= offset + length ? length : undefined
  }

  /** The start-up message has no type. Offers of encryption are declined, cancellation is not to be had. */
  #takeStartup(): Uint8Array | undefined {
    while (this.#received.length >= 8) {
      const length = this.#received.readUInt32BE(0)
      if (this.#received.length < length) return undefined
      const code = this.#received.readUInt32BE(4)
      const startup = this.#take(length)
      if (code === SSL_REQUEST || code === GSS_REQUEST) this.socket.write("N")
      else if (code === CANCEL_REQUEST) this.socket.end()
      else {
        this.#started = true
        return startup
      }
    }
    return undefined
  }

  #take(length: number): Uint8Array {
    const taken = new Uint8Array(this.#received.subarray(0, length))
    this.#received = this.#received.subarray(length)
    return taken
  }
}

const CANCEL_REQUEST = 80877102
const SSL_REQUEST = 80877103
const GSS_REQUEST = 80877104

function message(type: string, body: string): Buffer {
  const bytes = Buffer.from(`${type}\0\0\0\0${body}`)
  bytes.writeUInt32BE(bytes.length - 1, 1)
  return bytes
}
const nobody = () => {}
const sync = message("S", "")
const simpleQuery = (text: string) => message("Q", `${text}\0`)

function cString(bytes: Buffer, start: number): string {
  return bytes.toString("utf8", start, bytes.indexOf(0, start))
}
