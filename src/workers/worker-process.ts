/** A worker as its supervisor has it: a process, what it has said, and questions to it. */
import type { Answers, FromWorker, Question, ToWorker } from "./messages.ts"

export interface WorkerTerms {
  readonly command: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  /** Whole lines of its log. */
  readonly write: (lines: string) => void
}

export class WorkerProcess {
  /** Resolves with its address; rejects when it ends first. */
  readonly listening: Promise<string>
  /** Resolves when it has ended and its log has been passed on; how it ended, in words. */
  readonly ended: Promise<string>
  readonly startedAt = performance.now()
  /** What it has counted, as it was told last. */
  counted: readonly object[] = []
  /** Looks in a row at which it did not answer. */
  unanswered = 0
  #address: string | undefined
  #lastId = 0
  readonly #waiting = new Map<number, (answer: Answers[Question]) => void>()
  readonly #child: Bun.Subprocess<"ignore", "pipe", "inherit">

  constructor({ command, env, write }: WorkerTerms) {
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    this.listening = promise
    const child = Bun.spawn([...command], {
      env,
      stdin: "ignore",
      stdout: "pipe",
      stderr: "inherit",
      serialization: "json",
      ipc: (message: FromWorker) => {
        if ("listening" in message) resolve((this.#address = message.listening))
        else if ("last" in message) this.counted = message.last
        else this.#answered(message)
      },
    })
    this.#child = child
    const passedOn = passLines(child.stdout, write)
    const end = async () => {
      await child.exited
      await passedOn
      const how = child.signalCode === null ? `code ${child.exitCode}` : String(child.signalCode)
      reject(new Error(`it ended with ${how}`))
      return how
    }
    this.ended = end()
    promise.catch(() => {})
  }

  get pid(): number {
    return this.#child.pid
  }

  get isListening(): boolean {
    return this.#address !== undefined && !this.hasEnded
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name)
  }

  /** Undefined when there is no answer within so many milliseconds. */
  async ask<Q extends Question>(ask: Q, withinMs: number): Promise<Answers[Q] | undefined> {
    const id = ++this.#lastId
    const { promise, resolve } = Promise.withResolvers<Answers[Question] | undefined>()
    this.#waiting.set(id, resolve)
    const timer = setTimeout(resolve, withinMs)
    try {
      const question: ToWorker = { id, ask }
      this.#child.send(question)
      return (await promise) as Answers[Q] | undefined
    } catch {
      // Its channel is closed: it is ending.
      return undefined
    } finally {
      clearTimeout(timer)
      this.#waiting.delete(id)
    }
  }

  #answered({ id, answer }: { readonly id: number; readonly answer: Answers[Question] }): void {
    // Also one that comes late: what it has counted only grows.
    if (Array.isArray(answer)) this.counted = answer
    this.#waiting.get(id)?.(answer)
  }
}

/** A line without an end that is longer than this is passed on in pieces. */
const LONGEST_LINE = 1024 * 1024

/** Processes that write to one file at once tear each other's lines, so only whole ones are passed on. */
export async function passLines(stream: ReadableStream<Uint8Array>, write: (lines: string) => void): Promise<void> {
  const decoder = new TextDecoder()
  let rest = ""
  for await (const chunk of stream) {
    const text = rest + decoder.decode(chunk, { stream: true })
    const end = text.length > LONGEST_LINE ? text.length : text.lastIndexOf("\n") + 1
    if (end > 0) write(text.slice(0, end))
    rest = text.slice(end)
  }
  if (rest !== "") write(`${rest}\n`)
}
