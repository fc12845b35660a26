/**
 * One connection's Server-Sent Events, with a bounded buffer: what is not read soon enough ends the stream instead of
 * growing. A plain ReadableStream, because the framework's plugin for streams buffers without end and throws when its
 * reader leaves (docs/decisions/2026-11-20-events-are-a-plain-stream.md).
 */
const encoder = new TextEncoder()

/** Bytes; some hundred events. */
const UNREAD_LIMIT = 64 * 1024

export interface EventStreamOptions {
  /** Somebody reads. Not run for a request whose body nobody asks for, such as HEAD. */
  readonly begun: () => void
  /** Runs once, whoever ended it, and only if it had begun. */
  readonly ended: () => void
}

export class EventStream {
  readonly body: ReadableStream<Uint8Array>
  readonly #ended: () => void
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined

  constructor({ begun, ended }: EventStreamOptions) {
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
    this.#put(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
  }

  comment(text: string): void {
    this.#put(`: ${text}\n`)
  }

  end(): void {
    this.#controller?.close()
    this.#over()
  }

  #put(text: string): void {
    const controller = this.#controller
    if (controller === undefined) return
    if ((controller.desiredSize ?? 0) < -UNREAD_LIMIT) this.end()
    else controller.enqueue(encoder.encode(text))
  }

  #over(): void {
    if (this.#controller === undefined) return
    this.#controller = undefined
    this.#ended()
  }
}
