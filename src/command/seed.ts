/** `loket seed`: the catalogue file, applied to the database. */
import { keepEdits } from "../catalogue/edits.ts"
import { seedCatalogue } from "../store/catalogue.ts"
import { currenciesWithoutRate } from "../store/costs.ts"
import { openForCommand } from "../store/open.ts"
import { forgetEdits, readEdits } from "../store/operator/edits.ts"
import { command } from "./command.ts"
import { configuration, seedFiles } from "./settings.ts"

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
      const store = await openForCommand(config)
      if (overwrite === true) await forgetEdits(store.database)
      const kept = keepEdits(catalogueFile, await readEdits(store.database, new Date()))
      const { modelsAdded, modelsChanged, pricesAdded, costsAdded } = await store.database.run(
        (sql) => seedCatalogue(sql, kept.file, new Date()),
        { retry: true },
      )
      const unknown = await store.database.run(currenciesWithoutRate, { retry: true })
      await store.close()
      for (const currency of unknown)
        console.log(
          `no exchange rate of ${currency}: what its backends cost is not known until \`exchange-rate ${currency} …\``,
        )
      for (const line of kept.passedOver) console.log(`kept: ${line}`)
      if (kept.passedOver.length > 0) console.log("`seed --overwrite` applies the file whole")
      console.log(
        `${modelsAdded} models added, ${modelsChanged} changed, ${pricesAdded} price versions added, ${costsAdded} cost versions added`,
      )
    })
