/**
 * The command line: `dev`, `start`, `seed`, `operator`, `reconcile`. Reads the configuration and the seed files, says what is wrong with them, and
 * hands over to the server.
 */
import { reconcileCommand } from "./reconcile.ts"
import { ensureRequestLimit } from "./request-limit.ts"
import { readCatalogueFile, readProvidersFile, providerProblems } from "./catalogue/catalogue-file.ts"
import { keepEdits } from "./catalogue/edits.ts"
import { type CatalogueProblem, describeProblem } from "./catalogue/problem.ts"
import { type Config, readConfig } from "./config.ts"
import { startDemo } from "./demo.ts"
import { isLoopback } from "./http/dashboard/session.ts"
import { logToStandardOutput } from "./log.ts"
import { startServer } from "./server/server.ts"
import { startSimulator } from "./simulator/simulator.ts"
import { seedCatalogue } from "./store/catalogue.ts"
import { openForCommand } from "./store/open.ts"
import { forgetEdits, readEdits } from "./store/operator/edits.ts"
import { changeRole } from "./store/operator/role.ts"
import { type Backend, configuredBackends } from "./upstream/providers.ts"

const usage = `usage: loket dev | start | seed | operator | reconcile
  dev    everything on this machine: embedded database, simulated models, a demo account and key
  start  production: needs a provider's key in the environment
  seed [--overwrite]   applies the catalogue file again, but for what operators have set; or all of it
  operator <email> [--revoke]   makes an account an operator's, or a customer's again
  reconcile [--json]   recomputes all money and compares: exit 0 when it agrees, 1 when not, 2 when it could not be done`

/** How long an exit waits for a reader of the log that is slow. */
const LOG_DRAIN_MS = 2_000

async function main(command: string, args: readonly string[]): Promise<void> {
  if (command === "dev" || command === "start") return await run(command)
  if (command === "seed") return await seed(args)
  if (command === "operator") return await operator(args)
  if (command === "reconcile") return await reconcile(args)
  return stopWith(usage)
}

async function run(mode: "dev" | "start"): Promise<void> {
  ensureRequestLimit()
  const config = configured(mode)
  const { catalogueFile, providers } = await seedFiles(config)
  let backends = configuredBackends(providers, config.secret)
  if (backends.size === 0 && mode === "start") {
    const names = providers.map((provider) => provider.apiKeyEnv).join(", ")
    stopWith(`no provider is configured: set at least one of ${names}`)
  }
  const isOpenDev = mode === "dev" && !isLoopback(config.HOST)
  if (isOpenDev && backends.size > 0) stopWith(openDevProblem(config.HOST, [...backends.values()]))
  const simulator = backends.size === 0 ? startSimulator({ journal: false }) : undefined
  if (simulator !== undefined) {
    const simulated = (provider: (typeof providers)[number]): [string, Backend] => [
      provider.id,
      { provider: { ...provider, baseUrl: simulator.url }, apiKey: "simulated" },
    ]
    backends = new Map(providers.map(simulated))
  }
  const { log, drained } = logToStandardOutput(config.LOG_LEVEL)
  if (mode === "start" && config.PAYMENT_SIMULATED_SECRET !== undefined)
    log.warn("anybody can top up without paying", { because: "PAYMENT_SIMULATED_SECRET is set" })
  if (isOpenDev)
    log.warn("dev is open to the network", { host: config.HOST, because: "whoever reaches it tops up without paying" })
  const server = await startServer({
    config,
    log,
    catalogueFile,
    backends,
    fatal: (reason) => {
      log.error("fatal", { reason })
      process.exit(1)
    },
  })

  let stopping = false
  const stop = async (signal: string) => {
    if (stopping) return
    stopping = true
    log.info("stopping", { signal })
    await server.stop()
    await simulator?.stop()
    await Promise.race([drained(), Bun.sleep(LOG_DRAIN_MS)])
    process.exit(0)
  }
  process.on("SIGTERM", () => void stop("SIGTERM"))
  process.on("SIGINT", () => void stop("SIGINT"))
  // Last, so that whoever reads it can stop it in order.
  log.info("listening", { url: server.url, providers: [...backends.keys()].join(" ") })
  if (mode === "dev") console.log(await startDemo(server, config, simulator !== undefined))
  if (isOpenDev) console.error(openDevWarning(config.HOST))
}

const openDevWarning = (host: string): string => `
  WARNING: this is \`dev\`, and it listens on ${host}. Whoever reaches it can sign up and top up
  without paying, and nothing is encrypted. Use HOST=127.0.0.1, or \`start\` for anybody but yourself.
`

/** The demo's free top-ups would be spent at a provider that sends a bill. */
function openDevProblem(host: string, backends: readonly Backend[]): string {
  const keys = backends.map(({ provider }) => provider.apiKeyEnv).join(", ")
  return `dev does not listen on ${host} with a provider's key (${keys}): whoever reaches it tops up without paying, and spends your money there. Unset the key, set HOST=127.0.0.1, or run start`
}

async function seed(args: readonly string[]): Promise<void> {
  if (args.some((arg) => arg !== "--overwrite")) return stopWith(usage)
  const config = configured("start")
  const { catalogueFile } = await seedFiles(config)
  const store = await openForCommand(config)
  if (args.includes("--overwrite")) await forgetEdits(store.database)
  const kept = keepEdits(catalogueFile, await readEdits(store.database, new Date()))
  const { modelsAdded, modelsChanged, pricesAdded } = await store.database.run(
    (sql) => seedCatalogue(sql, kept.file, new Date()),
    { retry: true },
  )
  await store.close()
  for (const line of kept.passedOver) console.log(`kept: ${line}`)
  if (kept.passedOver.length > 0) console.log("`seed --overwrite` applies the file whole")
  console.log(`${modelsAdded} models added, ${modelsChanged} changed, ${pricesAdded} price versions added`)
  process.exit(0)
}

async function operator(args: readonly string[]): Promise<void> {
  const [email, ...others] = args.filter((arg) => arg !== "--revoke")
  if (email === undefined || email.startsWith("-") || others.length > 0) return stopWith(usage)
  const role = args.includes("--revoke") ? "customer" : "operator"
  const store = await openForCommand(configured("start"))
  const before = await changeRole(store.database, email.normalize("NFC"), role)
  await store.close()
  if (before === undefined) return stopWith(`there is no account with the address ${email}; sign up with it first`)
  const is = role === "operator" ? "an operator" : "a customer"
  console.log(
    before === role ? `${email} is ${is} already` : `${email} is ${is} now; its sessions have ended, so sign in again`,
  )
  process.exit(0)
}

async function reconcile(args: readonly string[]): Promise<void> {
  if (args.some((arg) => arg !== "--json")) return stopWith(usage, 2)
  const config = readConfig(process.env)
  if (Array.isArray(config)) return stopWith(config.join("\n"), 2)
  try {
    const code = await reconcileCommand(config, { json: args.includes("--json"), print: (text) => console.log(text) })
    process.exit(code)
  } catch (error) {
    return stopWith(`not reconciled: ${error instanceof Error ? error.message : String(error)}`, 2)
  }
}

function configured(mode: "dev" | "start"): Config {
  const environment = { ...process.env }
  // A secret that nobody knows, so that the demo can be topped up and no forged payment is believed.
  if (mode === "dev") environment["PAYMENT_SIMULATED_SECRET"] ||= crypto.randomUUID()
  const config = readConfig(environment)
  return Array.isArray(config) ? stopWith(config.join("\n")) : config
}

async function seedFiles(config: Config) {
  const catalogueFile = await readCatalogueFile(config.CATALOGUE_FILE)
  const providersFile = await readProvidersFile(config.PROVIDERS_FILE)
  const problems = [catalogueFile, providersFile].flatMap((file) => (isProblems(file) ? file : []))
  if (isProblems(catalogueFile) || isProblems(providersFile)) return stopWith(problems.map(describeProblem).join("\n"))
  const mismatched = providerProblems(config.CATALOGUE_FILE ?? "seeds/catalogue.json", catalogueFile, providersFile)
  if (mismatched.length > 0) return stopWith(mismatched.map(describeProblem).join("\n"))
  for (const problem of [...catalogueFile.passedOver, ...providersFile.passedOver]) {
    console.error(`passed over: ${describeProblem(problem)}`)
  }
  return { catalogueFile, providers: providersFile.providers }
}

const isProblems = (file: object): file is CatalogueProblem[] => Array.isArray(file)

function stopWith(message: string, code = 1): never {
  console.error(message)
  process.exit(code)
}

// What this process writes, customers' data and keys among it, is for its own user.
process.umask(0o077)
await main(process.argv[2] ?? "", process.argv.slice(3)).catch((error: unknown) =>
  stopWith(error instanceof Error ? error.message : String(error)),
)
