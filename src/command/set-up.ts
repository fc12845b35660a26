/**
 * What is done before the first start and seldom after: the catalogue, example texts, operators, and exchange rates.
 */
import { Option } from "@commander-js/extra-typings"
import { mkdir, rm, writeFile } from "node:fs/promises"
import { join, resolve } from "node:path"
import { microToRupiah } from "../../actors/money/micro.ts"
import { inForce } from "../../actors/money/price.ts"
import { keepEdits } from "../catalogue/references.ts"
import type { CatalogueFile } from "../catalogue/schema.ts"
import {
  EXCHANGE_RATE_TEXT,
  HOUSE_CURRENCY,
  isCurrency,
  isLargeStep,
  LARGEST_EXCHANGE_STEP,
  parseExchangeRate,
} from "../catalogue/exchange.ts"
import { exampleTexts } from "../legal/texts.ts"
import { modelVersions, seedCatalogue } from "../store/catalogue.ts"
import { currenciesWithoutRate } from "../store/costs.ts"
import type { Database } from "../store/database.ts"
import { openExisting, openForCommand } from "../store/open.ts"
import { exchangeRateStore } from "../store/costs.ts"
import { forgetEdits, modelStore, readEdits, type StoredModel } from "../store/operator/models.ts"
import { changeRole, type GivenRole, operatorRoles } from "../store/operator/role.ts"
import { resetSecondFactorOf } from "./account.ts"
import { command, commandAct, CommandFailure, configuration, opening, path, seedFiles } from "./command.ts"

export const seedCommand = () =>
  command("seed", {
    summary: "Apply the catalogue file: models, and a changed rate as a new price version",
    details: "What operators have set by hand since is kept, and told. A running gateway has it within two seconds.",
    examples: [
      ["seed", "the file at CATALOGUE_FILE, or the built-in one"],
      ["seed --overwrite", "the file whole; forgets what operators have set"],
    ],
  })
    .option("--overwrite", "also over what operators have set")
    .action(async ({ overwrite }) => {
      const config = configuration()
      const { catalogueFile } = await seedFiles(config)
      const store = await opening(openForCommand(config))
      const models = modelStore(store.database)
      const before = await models.list()
      const applied = await applyCatalogue(store.database, catalogueFile, overwrite === true)
      const { kept, modelsAdded, modelsChanged, pricesAdded, costsAdded } = applied
      // What operators have set is not forgotten before the file is applied: where this breaks off, it would be undone in silence by the next one.
      if (overwrite === true) await forgetEdits(store.database, commandAct())
      const unknown = await store.database.run(currenciesWithoutRate, { retry: true })
      const sales = salesIn(kept.file, before, await models.list())
      await store.close()
      for (const currency of unknown)
        console.log(
          `no exchange rate of ${currency}: what its backends cost is not known until \`exchange-rate ${currency} …\``,
        )
      for (const line of sales) console.log(line)
      for (const line of kept.passedOver) console.log(`kept: ${line}`)
      if (kept.passedOver.length > 0) console.log("`seed --overwrite` applies the file whole")
      console.log(
        `${modelsAdded} models added, ${modelsChanged} changed, ${pricesAdded} price versions added, ${costsAdded} cost versions added`,
      )
    })

/** But for what operators have set, also in this moment: read anew where a model was changed since it was read. */
export async function applyCatalogue(database: Database, file: CatalogueFile, overwrite: boolean) {
  for (;;) {
    const now = new Date()
    const read = overwrite ? [] : await database.run(modelVersions, { retry: true })
    const kept = keepEdits(file, overwrite ? [] : await readEdits(database, now))
    const seeded = await database.run((sql) => seedCatalogue(sql, kept.file, now, read), { retry: true })
    if (seeded !== undefined) return { kept, ...seeded }
  }
}

/** What of the models' sale the file has changed, and which it does not name and has left on sale. */
function salesIn(file: CatalogueFile, before: readonly StoredModel[], after: readonly StoredModel[]): string[] {
  const named = new Set(file.models.map(({ model }) => model))
  return after.flatMap(({ model, target, until }) => {
    const was = before.find((each) => each.model === model)
    if (target !== null)
      return was?.target === target && was.until?.getTime() === until?.getTime()
        ? []
        : [`${model} is retired: served as ${target} until ${until?.toISOString()}`]
    if (was !== undefined && was.target !== null) return [`${model} is on sale again`]
    return named.has(model)
      ? []
      : [`${model} is not in the file, and on sale still: \`aliases\` retires it (seeds/README.md)`]
  })
}

/** `loket legal-texts`: the example terms, privacy and refund texts, as files for the operator to fill in. */
export const legalTextsCommand = () =>
  command("legal-texts", {
    summary: "Write the example terms, privacy and refund texts into a directory",
    details: "Six files in Markdown, with gaps to fill in. Files that are there are left as they are, and told.",
    examples: [["legal-texts /etc/loket/legal", "then fill them in, and set LEGAL_TEXTS_DIR to that directory"]],
  })
    .argument("<directory>", "made if it is not there", path)
    .action(async (name) => {
      const directory = resolve(name)
      // They are for everybody, and the gateway's user is seldom the one who writes them.
      process.umask(0o022)
      try {
        await mkdir(directory, { recursive: true })
        for (const [file, text] of Object.entries(exampleTexts)) {
          const isNew = await writeNew(join(directory, file), text)
          console.log(isNew ? join(directory, file) : `kept: ${join(directory, file)} is there already`)
        }
      } catch (error) {
        throw new CommandFailure(
          `the texts cannot be written: ${error instanceof Error ? error.message : String(error)}`,
        )
      }
      console.log(`fill in the gaps, which begin with [ISI: and [FILL IN:, and set LEGAL_TEXTS_DIR=${directory}`)
    })

/** False where the file is there. */
async function writeNew(path: string, text: string): Promise<boolean> {
  try {
    await writeFile(path, text, { flag: "wx" })
    return true
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") return false
    // The next time it would be taken for the operator's own.
    await rm(path, { force: true })
    throw error
  }
}

/** `loket operator`: who is an operator, which is first decided by who has the machine. */
export const operatorCommand = () =>
  command("operator", {
    summary: "Make an account an operator's, or a customer's again",
    details:
      "The account must exist: sign up on the dashboard first. Its sessions end, so that it signs in anew.\n" +
      "`support` reads everything, freezes and revokes keys; `finance` also adjusts balances, and sets prices and exchange rates;\n" +
      "`owner` does everything, and gives and takes roles in the dashboard.",
    examples: [
      ["operator ana@mail.id", "ana is an owner from now on"],
      ["operator budi@mail.id --role support", "budi may look at everything, and freeze"],
      ["operator ana@mail.id --revoke", "and a customer again"],
      [
        "operator ana@mail.id --reset-second-factor",
        "for an operator who has lost it; the next sign-in leads to a new one",
      ],
    ],
  })
    .argument("<email>", "the address that the account signed up with")
    .addOption(new Option("--role <role>", "what the operator may do").choices(operatorRoles).default("owner" as const))
    .addOption(new Option("--revoke", "take the role back").conflicts(["role", "resetSecondFactor"]))
    .addOption(
      new Option(
        "--reset-second-factor",
        "take away the second factor and the recovery codes, and end all sessions",
      ).conflicts("role"),
    )
    .action(async (email, { revoke, resetSecondFactor, role: asked }) => {
      if (resetSecondFactor === true) return await resetSecondFactorOf(email, "loket operator --reset-second-factor")
      const role: GivenRole = revoke === true ? "customer" : asked
      const store = await opening(openExisting(configuration()))
      const act = commandAct()
      const outcome = await changeRole(
        store.database,
        { email: email.normalize("NFC") },
        { role, act, keepsAnOwner: false },
      )
      await store.close()
      if (outcome?.kind !== "changed")
        throw new CommandFailure(
          `there is no account with the address ${email}; sign up with it first, or look for it with \`loket account list\``,
        )
      const is = role === "customer" ? "a customer" : `an operator of the role ${role}`
      console.log(
        outcome.before === role
          ? `${email} is ${is} already`
          : `${email} is ${is} now; its sessions have ended, so sign in again`,
      )
    })

/** A running gateway reads the catalogue that often, and counts by no rate before it has read it. */
const LEAD_MS = 3_000

/** What a unit of a currency that backends bill in costs in rupiah, shown and set. */
export const exchangeRateCommand = () =>
  command("exchange-rate", {
    summary: "Show exchange rates, or set what a unit of a currency costs in rupiah",
    details:
      "Costs of backends are counted at the rate that was in force when a call was opened. A new rate is in force after three seconds.",
    examples: [
      ["exchange-rate", "the rates in force, and the currencies that have none"],
      ["exchange-rate USD 16250.50", "a dollar costs Rp 16,250.50 from now on"],
    ],
  })
    .argument("[currency]", "the ISO 4217 code, such as USD")
    .argument("[rupiah]", EXCHANGE_RATE_TEXT)
    .option("--confirm-jump", `also where it changes by more than ${LARGEST_EXCHANGE_STEP} percent`)
    .action(async (currency, rupiah, { confirmJump }) => {
      // "16.000" is refused, as of an amount: to some it is sixteen, to others sixteen thousand.
      if (rupiah !== undefined && /\.\d{3}$/.test(rupiah))
        throw new CommandFailure(
          `${rupiah} has three decimals, or a thousands separator: write all digits, as 16250.50`,
          2,
        )
      const unit = rupiah === undefined ? undefined : parseExchangeRate(rupiah)
      if (currency !== undefined && (!isCurrency(currency) || currency === HOUSE_CURRENCY))
        throw new CommandFailure(
          `${currency} is not the code of a currency other than ${HOUSE_CURRENCY}, such as USD`,
          2,
        )
      if (currency !== undefined && unit === undefined)
        throw new CommandFailure(`say the rate after ${currency}: ${EXCHANGE_RATE_TEXT}`, 2)
      const store = await opening(openExisting(configuration()))
      const rates = exchangeRateStore(store.database)
      try {
        const [known, needed] = [await rates.list(1), await rates.needed()]
        if (currency === undefined || unit === undefined) {
          const names = [...new Set([...needed, ...known.map((rate) => rate.currency)])].sort()
          if (names.length === 0) console.log("no backend bills in a foreign currency, and no rate is set")
          const all = await rates.list(20)
          for (const name of names) {
            const now = inForce(
              all.filter((rate) => rate.currency === name),
              Date.now(),
            )
            console.log(
              now === undefined
                ? `${name}  none: what its backends cost is not known`
                : `${name}  ${microToRupiah(now.unit)}  since ${new Date(now.effectiveAt).toISOString()}, ${now.source}`,
            )
          }
          return
        }
        const last = known.find((rate) => rate.currency === currency)
        if (last !== undefined && isLargeStep(last.unit, unit) && confirmJump !== true)
          throw new CommandFailure(
            `${currency} would change from ${microToRupiah(last.unit)} to ${microToRupiah(unit)}, by more than ${LARGEST_EXCHANGE_STEP} percent; add --confirm-jump if that is meant`,
          )
        await rates.set({ currency, unit, effectiveAt: new Date(Date.now() + LEAD_MS) }, commandAct())
        console.log(`one ${currency} costs Rp ${microToRupiah(unit)} from now on`)
      } finally {
        await store.close()
      }
    })
