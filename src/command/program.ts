/** The command line as a whole: what `loket --help` shows, what a wrong word is answered with, and the exit code. */
import { format } from "node:util"
import { Command, CommanderError, type CommandUnknownOpts } from "@commander-js/extra-typings"
import manifest from "../../package.json" with { type: "json" }
import { accountCommand } from "./account.ts"
import { archiveCommand, migrateCommand, moveCommand, reconcileCommand } from "./database.ts"
import { backupCommand, restoreCommand } from "./backup.ts"
import { CommandFailure } from "./command.ts"
import { doctorCommand } from "./doctor/doctor.ts"
import { keyCommand, topUpCommand } from "./keys-and-top-ups.ts"
import { exchangeRateCommand, legalTextsCommand, operatorCommand, seedCommand } from "./set-up.ts"
import { devCommand, startCommand, simulatorCommand } from "./serve.ts"

const WIDTH = 100

/** Runs one command to its end, and returns the exit code. What is wrong goes to standard error. */
export async function runProgram(args: readonly string[]): Promise<number> {
  try {
    const loket = program()
    const names = loket.commands.map((each) => each.name())
    await loket.parseAsync(helpLast(args, names), { from: "user" })
    return Number(process.exitCode ?? 0)
  } catch (error) {
    // It has been told already; help that was asked for is no error, and help that was not is a wrong use.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
    console.error(error instanceof Error ? error.message : String(error))
    return error instanceof CommandFailure ? error.exitCode : 1
  }
}

/** The same, where the answer is also seen to be written: one that is nowhere, as on a full disk, makes the exit code 1. */
export async function runToItsAnswer(args: readonly string[]): Promise<number> {
  const written = watchOutput()
  const code = await runProgram(args)
  const problem = await written()
  if (problem === undefined) return code
  // A reader that has seen enough, such as `head`, needs no sentence.
  if (problem.code !== "EPIPE")
    console.error(`standard output could not be written (${problem.message}): what the command changed stands`)
  return code || 1
}

/** Bun's own `console.log` passes over what cannot be written. Returns what waits until all is, and resolves with why it is not. */
function watchOutput(): () => Promise<NodeJS.ErrnoException | undefined> {
  let written = Promise.resolve()
  let problem: NodeJS.ErrnoException | undefined
  // Heard by nobody, it would be thrown.
  process.stdout.on("error", () => {})
  console.log = (...what: unknown[]) => {
    const { promise, resolve } = Promise.withResolvers<void>()
    written = promise
    process.stdout.write(`${format(...what)}\n`, (error) => {
      problem ??= error ?? undefined
      resolve()
    })
  }
  return async () => {
    await written
    return problem
  }
}

/** `loket help seed` is `loket seed --help`; help of what is no command is as wrong as that. */
function helpLast([first, ...others]: readonly string[], commands: readonly string[]): string[] {
  if (first !== "help") return first === undefined ? [] : [first, ...others]
  const [named] = others
  return named === undefined || commands.includes(named) ? [...others, "--help"] : others
}

export function program(): CommandUnknownOpts {
  const loket = new Command("loket")
    .description("A prepaid gateway for AI text models: one balance in Rupiah, three wire formats.")
    .usage("<command> [options]")
    .version(manifest.version, "-v, --version", "show the version")
    .helpOption("-h, --help", "show this, or what a command takes")
    .helpCommand(false)
    .addHelpText(
      "after",
      `
Configured by environment variables, of which none is needed to try it: docs/operating.md.
Exit codes: 0 done, 1 failed or something is wrong, 2 not understood.

Examples:
  loket dev                        everything on this machine, with a demo account and a key
  loket doctor                     what is wrong with the configuration and its surroundings
  loket account show ana@mail.id   one customer, by e-mail address or id
  loket <command> --help           what a command takes, with examples`,
    )
    .exitOverride()
    .configureHelp({
      helpWidth: WIDTH,
      showGlobalOptions: false,
      subcommandTerm: (each) => each.name(),
      subcommandDescription: (each) => each.summary(),
    })
    .configureOutput({
      writeOut: (text) => console.log(text.trimEnd()),
      writeErr: (text) => console.error(text.trimEnd()),
    })
    .showHelpAfterError("See `loket --help`.")
  for (const [group, members] of Object.entries(commands)) {
    for (const make of members) loket.addCommand(inside(loket, make()).helpGroup(`${group}:`))
  }
  return loket
}

/** Errors of a command name the command whose help helps. */
function inside(parent: CommandUnknownOpts, child: CommandUnknownOpts, path = "loket"): CommandUnknownOpts {
  const name = `${path} ${child.name()}`
  child.copyInheritedSettings(parent).helpOption("-h, --help", "show this").helpCommand(false)
  child.showHelpAfterError(`See \`${name} --help\`.`)
  for (const grandchild of child.commands) inside(child, grandchild, name)
  return child
}

/** The one table of commands, in the order and the groups in which help shows them. */
const commands: Readonly<Record<string, readonly (() => CommandUnknownOpts)[]>> = {
  Run: [startCommand, devCommand, simulatorCommand],
  "Set up": [migrateCommand, seedCommand, operatorCommand, legalTextsCommand],
  "Look after": [accountCommand, keyCommand, topUpCommand, exchangeRateCommand, reconcileCommand],
  "Check and keep": [doctorCommand, backupCommand, restoreCommand, moveCommand, archiveCommand],
}
