/** For commands that look at what the house has or change it: the database, the audit log's signature, words on the terminal. */
import { InvalidArgumentError } from "@commander-js/extra-typings"
import { Value } from "@sinclair/typebox/value"
import { nanoid } from "nanoid"
import { MICRO_PER_RUPIAH, type Micro, micro, microToRupiah } from "../../actors/money/micro.ts"
import type { Config } from "../config.ts"
import { Failure } from "../failure/failure.ts"
import { Reason } from "../http/dashboard/page.ts"
import { type Database, DatabaseUnavailable } from "../store/database.ts"
import { openExisting } from "../store/open.ts"
import { type AccountView, accountViews } from "../store/operator/accounts.ts"
import type { Act } from "../store/operator/audit.ts"
import { CommandFailure } from "./command.ts"
import { configuration } from "./settings.ts"

/** Works on the database that is there, beside whatever gateway runs on it. */
export async function withDatabase<T>(work: (database: Database, config: Config) => Promise<T>): Promise<T> {
  const config = configuration()
  const store = await openExisting(config)
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
export const commandAct = (): Act => ({ requestId: `cmd_${nanoid()}`, operatorId: undefined, address: undefined })

export async function accountNamed(database: Database, name: string): Promise<AccountView> {
  const found = await accountViews(database).named(name.normalize("NFC"))
  if (found !== undefined) return found
  throw new CommandFailure(`there is no account ${name}; look for it with \`loket account list ${name.slice(0, 8)}\``)
}

/** Throws what a person can cause as a sentence. */
export function sure<T>(outcome: T | Failure): T {
  if (outcome instanceof Failure) throw new CommandFailure(outcome.message)
  return outcome
}

// ---- What is typed --------------------------------------------------------------------------------------------------

export function reason(text: string): string {
  if (Value.Check(Reason, text)) return text
  throw new InvalidArgumentError(`It must be ${Reason.description}.`)
}

export const LIST_LIMIT = 50
const MOST_LISTED = 100

export function limit(text: string): number {
  const number = Number(text)
  if (/^\d{1,3}$/.test(text) && number >= 1 && number <= MOST_LISTED) return number
  throw new InvalidArgumentError(`It must be a whole number from 1 to ${MOST_LISTED}.`)
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

export function printFields(fields: Readonly<Record<string, string>>): void {
  const width = Math.max(...Object.keys(fields).map(({ length }) => length))
  for (const [name, value] of Object.entries(fields)) console.log(`${name.padEnd(width)}  ${value}`)
}
