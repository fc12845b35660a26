/** A mail server on loopback, and what it was given. */
import { SMTPServer } from "smtp-server"

export interface Received {
  readonly from: string
  readonly to: readonly string[]
  readonly text: string
}

/** A server that takes mail, or answers RCPT TO with a code of the test's. */
export class MailServer {
  readonly received: Received[] = []
  refusal: number | undefined
  /** Of single addresses. */
  readonly refusals = new Map<string, number>()
  readonly #server: SMTPServer
  readonly port: Promise<number>

  constructor() {
    this.#server = new SMTPServer({
      authOptional: true,
      disabledCommands: ["STARTTLS"],
      onRcptTo: ({ address }, _, callback) => {
        const responseCode = this.refusals.get(address) ?? this.refusal
        if (responseCode === undefined) callback()
        else callback(Object.assign(new Error("refused"), { responseCode }))
      },
      onData: (stream, session, callback) => {
        const chunks: Buffer[] = []
        stream.on("data", (chunk: Buffer) => chunks.push(chunk))
        stream.on("end", () => {
          const { mailFrom, rcptTo } = session.envelope
          const from = mailFrom === false ? "" : mailFrom.address
          this.received.push({ from, to: rcptTo.map(({ address }) => address), text: plain(Buffer.concat(chunks)) })
          callback()
        })
      },
    })
    this.port = new Promise((resolve) => {
      const listener = this.#server.listen(0, "127.0.0.1", () => {
        const address = listener.address()
        resolve(typeof address === "object" && address !== null ? address.port : 0)
      })
    })
  }

  stop(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve())
    })
  }
}

/** Quoted-printable undone (RFC 2045, 6.7), but not the end of an encoded word; all that is written here is ASCII. */
const plain = (raw: Buffer): string =>
  raw
    .toString("latin1")
    .replaceAll(/([^?])=\r\n/g, "$1")
    .replaceAll("\r\n", "\n")
