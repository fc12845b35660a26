/** `loket start` and `loket dev`: a gateway until it is told to stop. */
import type { Provider } from "../catalogue/model.ts"
import { workersOf } from "../config.ts"
import { isLoopback } from "../http/dashboard/session.ts"
import { logToStandardOutput } from "../log.ts"
import { ensureRequestLimit } from "../request-limit.ts"
import { startServer } from "../server/server.ts"
import { startSimulator } from "../simulator/simulator.ts"
import { serviceManager } from "../systemd.ts"
import { isWorker, serveAsWorker } from "../workers/worker.ts"
import { type Backend, configuredBackends, placeOf, placesOf } from "../upstream/providers.ts"
import { command, CommandFailure } from "./command.ts"
import { startDemo } from "./demo.ts"
import { configuration, legalTexts, seedFiles } from "./settings.ts"
import { LOG_DRAIN_MS, supervise } from "./supervise.ts"

export const startCommand = () =>
  command("start", {
    summary: "Serve in production; needs a provider's key in the environment",
    details:
      "Stops in order at SIGTERM: calls under way end first, for at most DRAIN_MS. With WORKERS over 1 it is several processes on one port, and SIGHUP replaces them one after the other.",
    examples: [["start", "on 127.0.0.1:8787, with the embedded database in ./data"]],
  }).action(() => serve("start"))

export const devCommand = () =>
  command("dev", {
    summary: "Serve everything on this machine: simulated models, a demo account and a key",
    details: "With a provider's key in the environment it calls that provider instead of the simulator.",
    examples: [["dev", "ends with a command to try; its data stays in ./data"]],
  }).action(() => serve("dev"))

async function serve(mode: "dev" | "start"): Promise<void> {
  ensureRequestLimit()
  // A secret that nobody knows, so that the demo can be topped up and no forged payment is believed.
  const PAYMENT_SIMULATED_SECRET = process.env["PAYMENT_SIMULATED_SECRET"] || crypto.randomUUID()
  // On one's own machine nobody is kept out of the operator's pages; `start` asks for a second factor.
  const OPERATOR_SECOND_FACTOR = process.env["OPERATOR_SECOND_FACTOR"] || "false"
  const dev = { ...process.env, PAYMENT_SIMULATED_SECRET, OPERATOR_SECOND_FACTOR }
  const config = configuration(mode === "dev" ? dev : process.env)
  const isOne = workersOf(config) === 1
  if (!isOne && mode === "dev") throw new CommandFailure("WORKERS is over 1; dev is one process, start may be several")
  const isOfSeveral = isWorker(process.env)
  if (!isOne && !isOfSeveral) return await supervise(config)
  const { catalogueFile, providers } = await seedFiles(config)
  const legal = await legalTexts(config)
  let backends = configuredBackends(providers, config.secret)
  if (backends.size === 0 && mode === "start") {
    const names = placesOf(providers).join(", ")
    throw new CommandFailure(
      `no provider is configured: set at least one of ${names}; \`loket dev\` runs without, on simulated models`,
    )
  }
  const isOpenDev = mode === "dev" && !isLoopback(config.HOST)
  if (isOpenDev && backends.size > 0)
    throw new CommandFailure(openDevProblem(config.HOST, [...backends.values()].flat()))
  const simulator = backends.size === 0 ? startSimulator({ journal: false }) : undefined
  if (simulator !== undefined) {
    const simulated = (provider: Provider): [string, readonly Backend[]] => {
      const known = { ...provider, baseUrl: simulator.url }
      return [
        provider.id,
        known.credentials.map((credential) => ({
          provider: known,
          credential,
          apiKey: `simulated-${credential.name}`,
        })),
      ]
    }
    backends = new Map(providers.map(simulated))
  }
  const { log, drained } = logToStandardOutput(config.LOG_LEVEL)
  const manager = serviceManager(process.env, log)
  if (mode === "start" && config.PAYMENT_SIMULATED_SECRET !== undefined)
    log.warn("anybody can top up without paying", { because: "PAYMENT_SIMULATED_SECRET is set" })
  if (isOpenDev)
    log.warn("dev is open to the network", { host: config.HOST, because: "whoever reaches it tops up without paying" })
  const starting = startServer({
    config,
    log,
    catalogueFile,
    backends,
    legal,
    fatal: (reason) => {
      log.error("fatal", { reason })
      process.exit(1)
    },
  })
  const server = await starting.catch((error: unknown) => {
    console.error("it does not start; `loket doctor` looks for the cause, and says what to do about it:")
    throw error
  })

  const { promise: stopped, resolve, reject } = Promise.withResolvers<void>()
  let stopping = false
  const stop = async (signal: string) => {
    if (stopping) return
    stopping = true
    log.info("stopping", { signal })
    manager.stopping()
    await server.stop()
    await worker?.stopped()
    await simulator?.stop()
    await Promise.race([drained(), Bun.sleep(LOG_DRAIN_MS)])
  }
  const stopFor = (signal: string) => void stop(signal).then(resolve, reject)
  for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => stopFor(signal))
  const worker = isOfSeveral ? serveAsWorker(server, () => stopFor("no supervisor")) : undefined
  manager.ready()
  // Last, so that whoever reads it can stop it in order.
  if (!isOfSeveral) log.info("listening", { url: server.url, providers: [...backends.keys()].join(" ") })
  if (mode === "dev") console.log(await startDemo(server, config, simulator !== undefined))
  if (isOpenDev) console.error(openDevWarning(config.HOST))
  await stopped
}

const openDevWarning = (host: string): string => `
  WARNING: this is \`dev\`, and it listens on ${host}. Whoever reaches it can sign up and top up
  without paying, and nothing is encrypted. Use HOST=127.0.0.1, or \`start\` for anybody but yourself.
`

/** The demo's free top-ups would be spent at a provider that sends a bill. */
function openDevProblem(host: string, backends: readonly Backend[]): string {
  const keys = backends.map(({ credential }) => placeOf(credential.key)).join(", ")
  return `dev does not listen on ${host} with a provider's key (${keys}): whoever reaches it tops up without paying, and spends your money there. Unset the key, set HOST=127.0.0.1, or run start`
}
