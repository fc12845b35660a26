/**
 * What every command is made with: its line about itself, examples and exit code, the database, and words on the terminal.
 * A command ends in one of three exit codes: 0, 1 when it failed or found something wrong, 2 when it was asked in a wrong way.
 */
import { Command, InvalidArgumentError } from "@commander-js/extra-typings"
import { Value } from "@sinclair/typebox/value"
import { nanoid } from "nanoid"
import { createInterface } from "node:readline/promises"
import { type Micro, micro, MICRO_PER_RUPIAH, microToRupiah } from "../../actors/money/micro.ts"
import type { Provider } from "../catalogue/model.ts"
import { type CatalogueFile, type CatalogueProblem, describeProblem } from "../catalogue/schema.ts"
import { providerProblems, readCatalogueFile, readProvidersFile } from "../catalogue/seed-files.ts"
import { type Config, readConfig } from "../config.ts"
import { Failure } from "../failure/failure.ts"
import { Reason } from "../http/dashboard/page.ts"
import { type LegalTexts, readLegalTexts } from "../legal/texts.ts"
import { whoRuns } from "../own-process.ts"
import { type Database, DatabaseUnavailable } from "../store/database.ts"
import { openExisting } from "../store/open.ts"
import { type AccountView, accountViews } from "../store/operator/accounts.ts"
import type { Act } from "../store/operator/audit.ts"
import { unsetCredentials, unsetText } from "../upstream/providers.ts"

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

// What commands read before they do anything: the environment and the two seed files. What is wrong with them is told whole.

/** Throws `CommandFailure`. */
export function configuration(environment: Readonly<Record<string, string | undefined>> = process.env): Config {
  const config = readConfig(environment)
  if (Array.isArray(config)) throw new CommandFailure(config.join("\n"))
  return config
}

/** Throws `CommandFailure`: who signs up must not agree to a text that is not there. */
export async function legalTexts({ LEGAL_TEXTS_DIR }: Pick<Config, "LEGAL_TEXTS_DIR">): Promise<LegalTexts> {
  const texts = await readLegalTexts(LEGAL_TEXTS_DIR)
  if (Array.isArray(texts)) throw new CommandFailure(texts.map((problem) => `LEGAL_TEXTS_DIR: ${problem}`).join("\n"))
  return texts
}

interface SeedFiles {
  readonly catalogueFile: CatalogueFile
  readonly providers: readonly Provider[]
}

/** Or one line for each thing that is wrong. */
export async function readSeedFiles(
  config: Pick<Config, "CATALOGUE_FILE" | "PROVIDERS_FILE">,
): Promise<(SeedFiles & { readonly passedOver: readonly string[] }) | string[]> {
  const describe = (problem: CatalogueProblem) => {
    const variable = (["CATALOGUE_FILE", "PROVIDERS_FILE"] as const).find((name) => config[name] === problem.file)
    return variable === undefined ? describeProblem(problem) : `${variable}: ${describeProblem(problem)}`
  }
  const catalogueFile = await readCatalogueFile(config.CATALOGUE_FILE)
  const providersFile = await readProvidersFile(config.PROVIDERS_FILE)
  const problems = [catalogueFile, providersFile].flatMap((file) => (isProblems(file) ? file : []))
  if (isProblems(catalogueFile) || isProblems(providersFile)) return problems.map(describe)
  const mismatched = providerProblems(config.CATALOGUE_FILE ?? "seeds/catalogue.json", catalogueFile, providersFile)
  if (mismatched.length > 0) return mismatched.map(describe)
  const passedOver = [...catalogueFile.passedOver, ...providersFile.passedOver].map(describe)
  return { catalogueFile, providers: providersFile.providers, passedOver }
}

/** Throws `CommandFailure`; says what it passes over. */
export async function seedFiles(config: Config): Promise<SeedFiles> {
  const files = await readSeedFiles(config)
  if (Array.isArray(files)) throw new CommandFailure(files.join("\n"))
  for (const problem of files.passedOver) console.error(`passed over: ${problem}`)
  for (const unset of unsetCredentials(files.providers, config.secret)) console.error(`left out: ${unsetText(unset)}`)
  return files
}

const isProblems = (file: object): file is CatalogueProblem[] => Array.isArray(file)

/** Waits for a database that is being opened, and says so where that takes longer than a moment. */
export const opening = <Opened>(store: Promise<Opened>): Promise<Opened> => progress("opening the database", store)

/** Works on the database that is there, beside whatever gateway runs on it. */
export async function withDatabase<T>(work: (database: Database, config: Config) => Promise<T>): Promise<T> {
  const config = configuration()
  const store = await opening(openExisting(config))
  try {
    return await work(store.database, config)
  } catch (error) {
    if (!(error instanceof DatabaseUnavailable)) throw error
    throw new CommandFailure(
      `${error.message}; whether a change was made is unknown: look with \`show\`, then try again`,
    )
  } finally {
    await store.close()
  }
}

/** Who has the machine needs no account. */
export const commandAct = (): Act => ({ requestId: `cmd_${nanoid()}`, operatorId: undefined, address: whoRuns() })

export async function accountNamed(database: Database, name: string): Promise<AccountView> {
  const found = await accountViews(database).named(name.normalize("NFC"))
  if (found !== undefined) return found
  // A key is known by its beginning, and a secret as a whole; any other id of ours is looked for whole.
  const known = /^(?:sk-.{0,10}|(?:acc|key|req|top)_.*|.{0,8})/.exec(name)?.[0] ?? ""
  const said = name.startsWith("sk-") ? `${known}…` : name
  throw new CommandFailure(`there is no account ${said}; look for it with \`loket account list ${known}\``)
}

/** Throws what a person can cause as a sentence. */
export function sure<T>(outcome: T | Failure): T {
  if (outcome instanceof Failure) throw new CommandFailure(outcome.message)
  return outcome
}

/**
 * Asks on a terminal, where nothing but a yes goes on. Elsewhere nobody can be asked: what is `large` then needs the option `--yes`.
 * Throws `CommandFailure` where it is not to be done.
 */
export async function confirmed(what: string, { yes, large }: { readonly yes: boolean; readonly large: boolean }) {
  if (yes) return
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    if (!large) return
    throw new CommandFailure(`${what}: nothing was changed; so much needs --yes where nobody can be asked`, 2)
  }
  using lines = createInterface({ input: process.stdin, output: process.stderr })
  const ended = new Promise<string>((resolve) => lines.once("close", () => resolve("")))
  lines.once("SIGINT", () => lines.close())
  const answer = await Promise.race([lines.question(`${what}? [y/N] `), ended])
  if (!/^y(es)?$/i.test(answer.trim())) throw new CommandFailure("nothing was changed")
}

// ---- What is typed --------------------------------------------------------------------------------------------------

export function reason(text: string): string {
  if (Value.Check(Reason, text)) return text
  throw new InvalidArgumentError(`It must be ${Reason.description}.`)
}

/** An empty one, as of a shell's variable that is not set, would be the directory that one stands in. */
export function path(text: string): string {
  if (text !== "") return text
  throw new InvalidArgumentError("It must not be empty.")
}

export const LIST_LIMIT = 50
const MAX_LISTED = 100

export function limit(text: string): number {
  if (/^\d{1,3}$/.test(text) && Number(text) >= 1 && Number(text) <= MAX_LISTED) return Number(text)
  throw new InvalidArgumentError(`It must be a whole number from 1 to ${MAX_LISTED}.`)
}

/** Rupiah with up to six decimals. "25.000" is refused: to some it is twenty-five, to others twenty-five thousand. */
export function rupiah(text: string): Micro {
  const [, sign, whole, fraction = ""] = /^([+-]?)(\d{1,10})(?:\.(\d{1,6}))?$/.exec(text) ?? []
  if (whole === undefined || fraction.length === 3)
    throw new InvalidArgumentError(
      "It must be rupiah in digits, as 25000, -25000 or 0.5, without thousands separators.",
    )
  const amount = BigInt(whole) * MICRO_PER_RUPIAH + BigInt(fraction.padEnd(6, "0"))
  if (amount === 0n) throw new InvalidArgumentError("It must not be 0.")
  return micro(sign === "-" ? -amount : amount)
}

// ---- What is printed ------------------------------------------------------------------------------------------------

export const rp = (amount: Micro): string => `Rp ${microToRupiah(amount)}`
export const minute = (at: Date | undefined): string =>
  at === undefined ? "-" : at.toISOString().slice(0, 16).replace("T", " ")

export const printJson = (value: unknown): void => console.log(JSON.stringify(value, null, 2))

/** Columns as wide as they need be; those named are numbers and end in one line. */
export function printTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  numbers: readonly string[] = [],
) {
  const all = [head, ...rows]
  const widths = head.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)))
  for (const row of all) {
    const cells = row.map((cell, column) => {
      const width = widths[column] ?? 0
      return numbers.includes(head[column] ?? "") ? cell.padStart(width) : cell.padEnd(width)
    })
    console.log(cells.join("  ").trimEnd())
  }
}

/** How the next page is asked for, as it can be typed: of the same list. */
export function printNext(
  words: readonly (string | undefined)[],
  options: Readonly<Record<string, string | number | undefined>>,
  cursor: string | null,
): void {
  if (cursor === null) return
  const given = Object.entries<string | number | undefined>({ ...options, cursor }).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}`, String(value)],
  )
  const typed = [...words.filter((word) => word !== undefined), ...given].map((word) =>
    /^[\w@.+:-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`,
  )
  console.log(`\nmore: loket ${typed.join(" ")}`)
}

export function printFields(fields: Readonly<Record<string, string>>): void {
  const width = Math.max(...Object.keys(fields).map(({ length }) => length))
  for (const [name, value] of Object.entries(fields)) console.log(`${name.padEnd(width)}  ${value}`)
}

/** What a check found: that something is in order, or what is wrong and what to do about it. */
export type Finding =
  | { readonly state: "ok"; readonly what: string }
  /** `wrong` must be put right; `look` may be meant so. */
  | { readonly state: "wrong" | "look"; readonly what: string; readonly remedy: string }

export const ok = (what: string): Finding => ({ state: "ok", what })
export const wrong = (what: string, remedy: string): Finding => ({ state: "wrong", what, remedy })
export const look = (what: string, remedy: string): Finding => ({ state: "look", what, remedy })

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
export const codeOf = (error: unknown): string | undefined =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined

/** Of the machine that is asked against this one, in seconds. */
const SKEW_LOOK_S = 5
const SKEW_WRONG_S = 60

/** `aheadS`: how far the other clock is ahead of this machine's. */
export function clockFinding(whose: string, aheadS: number): Finding {
  const skew = Math.abs(aheadS)
  if (skew < SKEW_LOOK_S) return ok(`the clock is that of ${whose}`)
  const what = `this machine's clock is ${Math.round(skew)} s ${aheadS > 0 ? "behind" : "ahead of"} that of ${whose}`
  const remedy =
    "run a time service (timedatectl set-ntp true) on both: prices, budgets and signed calls go by the clock"
  return skew < SKEW_WRONG_S ? look(what, remedy) : wrong(what, remedy)
}
