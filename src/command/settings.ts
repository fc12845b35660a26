/** What commands read before they do anything: the environment and the two seed files. What is wrong with them is told whole. */
import { providerProblems, readCatalogueFile, readProvidersFile } from "../catalogue/catalogue-file.ts"
import type { Provider } from "../catalogue/model.ts"
import { type CatalogueProblem, describeProblem } from "../catalogue/problem.ts"
import type { CatalogueFile } from "../catalogue/schema.ts"
import { type Config, readConfig } from "../config.ts"
import { type LegalTexts, readLegalTexts } from "../legal/texts.ts"
import { unsetCredentials, unsetText } from "../upstream/providers.ts"
import { CommandFailure } from "./command.ts"

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
  const catalogueFile = await readCatalogueFile(config.CATALOGUE_FILE)
  const providersFile = await readProvidersFile(config.PROVIDERS_FILE)
  const problems = [catalogueFile, providersFile].flatMap((file) => (isProblems(file) ? file : []))
  if (isProblems(catalogueFile) || isProblems(providersFile)) return problems.map(describeProblem)
  const mismatched = providerProblems(config.CATALOGUE_FILE ?? "seeds/catalogue.json", catalogueFile, providersFile)
  if (mismatched.length > 0) return mismatched.map(describeProblem)
  const passedOver = [...catalogueFile.passedOver, ...providersFile.passedOver].map(describeProblem)
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
