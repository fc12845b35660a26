/** `loket doctor`: what is wrong with the configuration and its surroundings, and what to do about it. Changes nothing. */
import { readConfig } from "../../config.ts"
import { printJson, command, progress, readSeedFiles } from "../command.ts"
import { database } from "./database.ts"
import { files, machine, ports } from "./machine.ts"
import { type Finding, look, messageOf, ok, wrong } from "./finding.ts"
import { providerFindings } from "./providers.ts"
import { legal, mail, misspelt, passkeys, trialCredit, searching, settings, unreadable } from "./settings.ts"
import { redis, traces } from "./neighbours.ts"

export const doctorCommand = () =>
  command("doctor", {
    summary: "Say what is wrong with the configuration and its surroundings, and what to do",
    details:
      "Looks at the environment, the seed files, providers and their keys (by a call that costs nothing), the database with its settings and privileges, poolers, Redis, clocks, disk, ports and limits. Changes nothing. Exits with 1 when something is wrong.",
    examples: [
      ["doctor", "with the environment and as the user of the gateway"],
      ["doctor --json", "for machines"],
    ],
  })
    .option("--json", "print JSON")
    .action(async ({ json }) => {
      const places = await progress("looking", diagnose(process.env))
      const all = Object.values(places).flat()
      if (json === true) printJson(places)
      else print(places)
      if (all.some(({ state }) => state === "wrong")) process.exitCode = 1
    })

type Places = Readonly<Record<string, readonly Finding[]>>

async function diagnose(environment: Readonly<Record<string, string | undefined>>): Promise<Places> {
  const config = readConfig(environment)
  // The rest would be looked for where it is not.
  if (Array.isArray(config)) return { configuration: [...unreadable(config), ...misspelt(environment, [])] }
  const seeds = await readSeedFiles(config)
  const read = !Array.isArray(seeds)
  const checks: Record<string, Promise<readonly Finding[]>> = {
    configuration: Promise.resolve([...misspelt(environment, read ? seeds.providers : []), ...settings(config)]),
    "seed files": Promise.resolve(
      read
        ? [ok("the catalogue and the providers can be read"), ...seeds.passedOver.map(passedOver)]
        : seeds.map((problem) => wrong(problem, "correct the file at CATALOGUE_FILE or PROVIDERS_FILE")),
    ),
    providers: read ? providerFindings(seeds, config.secret) : Promise.resolve([]),
    database: database(config),
    files: Promise.resolve().then(() => files(config)),
    machine: Promise.all([ports(config), machine(config)]).then((found) => found.flat()),
    mail: mail(config),
    passkeys: Promise.resolve(passkeys(config)),
    "trial credit": Promise.resolve(trialCredit(config)),
    "legal texts": legal(config),
    search: searching(config),
    redis: redis(config),
    traces: traces(config, environment),
  }
  const found = await Promise.all(
    Object.entries(checks).map(async ([place, check]): Promise<[string, readonly Finding[]]> => {
      return [place, await check.catch(notLookedAt)]
    }),
  )
  return Object.fromEntries(found.filter(([, findings]) => findings.length > 0))
}

const notLookedAt = (error: unknown) => [wrong(`not looked at: ${messageOf(error)}`, "report this")]
const passedOver = (problem: string): Finding =>
  look(`passed over: ${problem}`, "remove it, or correct its name: this version does not know it")

const marks = { ok: "ok    ", look: "look  ", wrong: "WRONG " }

function print(places: Places): void {
  for (const [place, findings] of Object.entries(places)) {
    console.log(place)
    for (const finding of findings) {
      console.log(`  ${marks[finding.state]} ${finding.what}`)
      if (finding.state !== "ok") console.log(`         → ${finding.remedy}`)
    }
  }
  const count = (state: Finding["state"]) =>
    Object.values(places)
      .flat()
      .filter((each) => each.state === state).length
  console.log(`\n${count("wrong")} wrong, ${count("look")} to look at, ${count("ok")} in order`)
}
