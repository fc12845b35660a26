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
