/**
 * What every command is made with. A command says one line about itself, shows examples, and ends in one of three exit
 * codes: 0, 1 when it failed or found something wrong, 2 when it was asked in a wrong way.
 */
import { Command } from "@commander-js/extra-typings"

/** A sentence for a person, without a stack. Anything else that is thrown is told by its message too, and exits with 1. */
export class CommandFailure extends Error {
  override readonly name = "CommandFailure"
  readonly exitCode: 1 | 2
  constructor(message: string, exitCode: 1 | 2 = 1) {
    super(message)
    this.exitCode = exitCode
  }
}

interface About {
  /** A line in the list of commands, without a full stop. */
  readonly summary: string
  /** What else is to be known before it is used. */
  readonly details?: string
  /** What to type after `loket`, and what that does. */
  readonly examples: readonly (readonly [line: string, does: string])[]
}

export function command(name: string, { summary, details, examples }: About): Command {
  const shown = examples.map(([line]) => `loket ${line}`)
  const width = Math.max(...shown.map(({ length }) => length))
  const lines = examples.map(([, does], index) => `  ${(shown[index] ?? "").padEnd(width)}   ${does}`)
  return new Command(name)
    .summary(summary)
    .description(details === undefined ? `${summary}.` : `${summary}.\n\n${details}`)
    .addHelpText("after", `\nExamples:\n${lines.join("\n")}`)
}

/** Says on standard error that something is under way, from its first second on, so that nobody takes it for stuck. */
const QUIET_MS = 1_000
/** Where nobody looks on, such as in cron, which mails every line. */
const QUIET_IN_A_LOG_MS = 10_000
const REDRAW_MS = 250

/**
 * Waits for the work. `detail` is asked for whenever the line is drawn, as in "12 of 40 tables". On a terminal it is one line
 * that is wiped at the end; elsewhere one line at the beginning and one with the time that it took.
 */
export async function progress<T>(what: string, work: Promise<T>, detail: () => string = () => ""): Promise<T> {
  const began = performance.now()
  const seconds = () => `${Math.round((performance.now() - began) / 1_000)} s`
  const line = () => [`${what} …`, detail(), seconds()].filter((part) => part !== "").join("  ")
  const { isTTY } = process.stderr
  let shown = false
  const show = () => {
    if (isTTY) process.stderr.write(`\r\x1b[K${line()}`)
    else if (!shown) process.stderr.write(`${what} …\n`)
    shown = true
  }
  let redraw: ReturnType<typeof setInterval> | undefined
  const first = setTimeout(
    () => {
      show()
      redraw = setInterval(show, REDRAW_MS)
    },
    isTTY ? QUIET_MS : QUIET_IN_A_LOG_MS,
  )
  try {
    return await work
  } finally {
    clearTimeout(first)
    clearInterval(redraw)
    if (shown) process.stderr.write(isTTY ? "\r\x1b[K" : `${what}: ${seconds()}\n`)
  }
}
